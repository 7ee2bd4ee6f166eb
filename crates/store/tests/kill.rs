//! A process that records is killed with SIGKILL at random moments. Its recording opens each time and lacks at most
//! the last second; a kill while it is being closed costs nothing at all.
//!
//! This test is its own victim: it starts itself with `--victim`, so it has no test harness around it.

mod common;

use base::record::{Row, TableId};
use base::rng::{Rng, Streams, uniform};
use common::{NOON, Scratch, meta, of, row};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{Options, Writer, read, read_noting};

const SECOND: i64 = 1_000_000_000;
const KILLS: usize = 32;
const KILLS_WHILE_CLOSING: usize = 32;
const TABLES: [TableId; 3] = [TableId::Delay, TableId::Flow, TableId::Queue];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let victim = |kind: &str| {
        args.iter()
            .position(|a| a == kind)
            .map(|i| args[i + 1].clone())
    };
    if let Some(path) = victim("--victim") {
        record_until_killed(Path::new(&path));
    } else if let Some(path) = victim("--closing-victim") {
        close_until_killed(Path::new(&path));
    } else if !args.iter().any(|a| a == "--list") {
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .subsec_nanos();
        let seed = std::env::var("KILL_SEED").map_or(u64::from(seed), |s| {
            s.parse().expect("KILL_SEED is a number")
        });
        println!("KILL_SEED={seed}");
        loses_at_most_the_last_second(seed);
        a_kill_while_closing_loses_and_doubles_nothing(seed);
    }
    ExitCode::SUCCESS
}

fn now_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as i64
}

/// Writes rows of three tables as fast as 100 µs apart, and says on stdout which and when. Midnight comes 0.8 s after
/// the start.
fn record_until_killed(path: &Path) {
    let begin = now_ns();
    let to_midnight = 86_400 - (begin / SECOND) % 86_400 - 1;
    let options = Options {
        utc_offset_s: to_midnight as i32,
        ..Options::default()
    };
    let mut w = options
        .create(
            path,
            base::record::Meta {
                started_ns: begin,
                ..meta()
            },
        )
        .unwrap();
    let mut said = std::io::stdout().lock();
    for number in 0.. {
        let t_ns = now_ns();
        for table in TABLES {
            w.write(row(table, t_ns, number)).unwrap();
        }
        w.tick(now_ns()).unwrap();
        writeln!(said, "{number} {t_ns}").unwrap();
        sleep(Duration::from_micros(100));
    }
}

fn close_until_killed(path: &Path) {
    let mut w = Writer::create(path, meta()).unwrap();
    for number in 0..CLOSING_ROWS {
        for table in TABLES {
            w.write(row(table, closing_time(number), number)).unwrap();
        }
    }
    w.flush().unwrap();
    println!("closing");
    w.close(base::record::Meta {
        complete: true,
        ended_ns: Some(NOON),
        ..meta()
    })
    .unwrap();
    println!("closed");
    sleep(Duration::from_secs(60));
}

const CLOSING_ROWS: i64 = 60_000;

/// Half of the rows belong to the next day.
fn closing_time(number: i64) -> i64 {
    NOON + number
        + if number < CLOSING_ROWS / 2 {
            0
        } else {
            86_400 * SECOND
        }
}

fn start(kind: &str, path: &Path) -> Child {
    let me = std::env::current_exe().unwrap();
    Command::new(me)
        .arg(kind)
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Uniform below `limit`.
fn at_random(rng: &mut Rng, limit: u64) -> u64 {
    (uniform(rng) * limit as f64) as u64
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn loses_at_most_the_last_second(seed: u64) {
    let dir = Scratch::new("kill");
    let mut rng = Streams::new(seed).stream("kill/when");
    let mut missing_ms = vec![];
    let mut two_days = 0;
    // Four at a time: they wait for the disk most of the time.
    for round in 0..KILLS / 4 {
        let victims: Vec<_> = (0..4)
            .map(|i| {
                let path = dir.join(format!("{round}-{i}.rec"));
                let mut child = start("--victim", &path);
                let out = child.stdout.take().unwrap();
                let lines = std::thread::spawn(move || {
                    BufReader::new(out)
                        .lines()
                        .map(Result::unwrap)
                        .collect::<Vec<String>>()
                });
                (path, child, lines)
            })
            .collect();
        sleep(Duration::from_millis(1200));
        for (path, child, lines) in victims {
            sleep(Duration::from_micros(at_random(&mut rng, 400_000)));
            let killed_ns = now_ns();
            kill(child);
            let lines: Vec<String> = lines.join().unwrap();
            let written: Vec<(i64, i64)> = lines
                .iter()
                .filter_map(|l| {
                    l.split_once(' ')
                        .and_then(|(n, t)| Some((n.parse().ok()?, t.parse().ok()?)))
                })
                .collect();
            let recording = read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(!recording.meta.complete);
            let first_day = recording.delay.first().map(|r| r.sent_ns).unwrap_or(0);
            two_days += usize::from(
                std::fs::read_dir(path.join("delay")).is_ok_and(|d| d.count() == 2)
                    && first_day > 0,
            );
            for table in TABLES {
                let rows = of(&recording, table);
                // In order and once each, from the first: equal to what was written, as far as it goes.
                for (got, (number, t_ns)) in rows.iter().zip(&written) {
                    assert_eq!(*got, row(table, *t_ns, *number), "{}", path.display());
                }
                // What was not announced was written, if at all, by the very last call.
                assert!(
                    rows.len() <= written.len() + 1,
                    "{} rows of {}",
                    rows.len(),
                    written.len()
                );
                if let Some((number, t_ns)) = written.get(rows.len()) {
                    let age = killed_ns - t_ns;
                    missing_ms.push(age / 1_000_000);
                    assert!(
                        age < SECOND,
                        "{}: row {number} of {} was {age} ns old",
                        path.display(),
                        table.spec().name
                    );
                }
            }
        }
    }
    missing_ms.sort_unstable();
    let (median, max) = (missing_ms[missing_ms.len() / 2], missing_ms.last().unwrap());
    println!(
        "{KILLS} kills, {two_days} after midnight: oldest missing row {median} ms (median), {max} ms (most)"
    );
    assert!(two_days > 0, "midnight never came");
}

fn a_kill_while_closing_loses_and_doubles_nothing(seed: u64) {
    let dir = Scratch::new("closing");
    let mut rng = Streams::new(seed).stream("kill/closing");
    let want: Vec<Vec<Row>> = TABLES
        .map(|t| {
            (0..CLOSING_ROWS)
                .map(|n| row(t, closing_time(n), n))
                .collect()
        })
        .into();
    let (mut between, mut after) = (0, 0);
    let mut longest = Duration::from_millis(100);
    for round in 0..KILLS_WHILE_CLOSING {
        let path = dir.join(format!("{round}.rec"));
        let mut child = start("--closing-victim", &path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "closing");
        let began = std::time::Instant::now();
        if round == 0 {
            // The first one runs to its end and tells how long closing takes here.
            assert_eq!(lines.next().unwrap().unwrap(), "closed");
            longest = began.elapsed();
        } else {
            sleep(Duration::from_nanos(at_random(
                &mut rng,
                longest.as_nanos() as u64,
            )));
        }
        kill(child);
        let (recording, notes) =
            read_noting(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(notes, vec![], "{}", path.display());
        for (table, want) in TABLES.iter().zip(&want) {
            assert!(
                of(&recording, *table) == *want,
                "{}: {} differs",
                path.display(),
                table.spec().name
            );
        }
        let sealed = TABLES.iter().any(|t| {
            let entries = std::fs::read_dir(path.join(t.spec().name)).unwrap();
            entries
                .flatten()
                .any(|e| e.path().extension().is_some_and(|x| x == "parquet"))
        });
        between += usize::from(sealed && !recording.meta.complete);
        after += usize::from(recording.meta.complete);
        std::fs::remove_dir_all(&path).unwrap();
    }
    println!(
        "{KILLS_WHILE_CLOSING} kills while closing (it takes {longest:?}): {between} with some tables done, {after} with all"
    );
    assert!(between > 0, "no kill fell between two tables");
}
