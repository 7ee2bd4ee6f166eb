//! A recording that runs for weeks: gone on with after a stop, its closed days sealed while it runs, its files
//! damaged, its detail thinned.

mod common;

use base::record::{Row, TableId};
use common::{NOON, Scratch, meta, of, row, rows};
use std::path::Path;
use store::{
    Lock, Options, StoreError, Thin, Thinned, Writer, append, files, finish_thinning, read,
    read_noting, seal_days, thin,
};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

fn names(path: &Path) -> Vec<String> {
    let files = files(path).unwrap().into_iter();
    files
        .map(|f| {
            format!(
                "{}/{}{}",
                f.table.spec().name,
                f.stem,
                if f.sealed { "" } else { " open" }
            )
        })
        .collect()
}

fn delays(from: i64, n: i64) -> impl Iterator<Item = Row> {
    (from..from + n).map(|i| row(TableId::Delay, NOON + i * SECOND / 10, i))
}

#[test]
fn a_recording_that_is_gone_on_with_keeps_every_row() {
    let dir = Scratch::new("resume");
    let path = dir.join("m.rec");
    let mut all = Vec::new();
    for run in 0..3 {
        let options = Options::default();
        let mut w = if run == 0 {
            options.create(&path, meta()).unwrap()
        } else {
            options.resume(&path, meta()).unwrap()
        };
        for r in delays(run * 10, 10) {
            all.push(r.clone());
            w.write(r).unwrap();
        }
        match run {
            // Ended, killed, and still running.
            0 => drop(w.close(meta()).unwrap()),
            _ => w.flush().unwrap(),
        }
    }
    assert_eq!(
        names(&path),
        [
            "delay/2026-11-21",
            "delay/2026-11-21-002 open",
            "delay/2026-11-21-003 open"
        ]
    );
    assert_eq!(of(&read(&path).unwrap(), TableId::Delay), all);
}

#[test]
fn closed_days_are_sealed_while_the_next_one_is_written_and_late_rows_find_a_place() {
    let dir = Scratch::new("seal");
    let path = dir.join("m.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    let yesterday: Vec<Row> = delays(0, 5).collect();
    let today = row(TableId::Delay, NOON + DAY, 5);
    for r in &yesterday {
        w.write(r.clone()).unwrap();
    }
    w.write(today.clone()).unwrap();
    assert!(
        !w.release_days_before(NOON).unwrap(),
        "nothing is closed yet"
    );
    assert!(w.release_days_before(NOON + DAY).unwrap());
    assert_eq!(w.first_open_day().as_deref(), Some("2026-11-22"));
    assert_eq!(seal_days(&path, "2026-11-22", &|| true).unwrap(), []);
    // A probe of yesterday that nobody answered.
    let late = row(TableId::Delay, NOON + SECOND, 6);
    w.write(late.clone()).unwrap();
    w.flush().unwrap();
    assert_eq!(
        names(&path),
        [
            "delay/2026-11-21",
            "delay/2026-11-21-002 open",
            "delay/2026-11-22 open"
        ]
    );
    assert_eq!(w.rows_saved(), 7);
    let mut all = yesterday;
    all.extend([late, today]);
    assert_eq!(of(&read(&path).unwrap(), TableId::Delay), all);
    w.close(meta()).unwrap();
    assert_eq!(of(&read(&path).unwrap(), TableId::Delay), all);
}

#[test]
fn what_a_crash_left_is_sealed_at_the_next_start_but_not_a_torn_file() {
    let dir = Scratch::new("leftovers");
    let path = dir.join("m.rec");
    for (day, table) in [
        (0, TableId::Delay),
        (0, TableId::Event),
        (1, TableId::Delay),
    ] {
        let options = Options::default();
        let mut w = if path.exists() {
            options.resume(&path, meta()).unwrap()
        } else {
            options.create(&path, meta()).unwrap()
        };
        w.write(row(table, NOON + day * DAY, day)).unwrap();
    }
    let torn = path.join("event/2026-11-21.arrows");
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, [&bytes[..], &bytes[..40]].concat()).unwrap();
    let before = rows(&read(&path).unwrap());
    let told = seal_days(&path, "2026-11-22", &|| true).unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].file, told[0].rows_kept), (&torn, 1));
    assert_eq!(
        names(&path),
        [
            "delay/2026-11-21",
            "event/2026-11-21 open",
            "delay/2026-11-22 open"
        ]
    );
    assert_eq!(rows(&read(&path).unwrap()), before);
}

/// Three row groups of a closed day, and where in the file the third begins.
fn closed_day(path: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let mut w = Writer::create(path, meta()).unwrap();
    for r in delays(0, 40_000) {
        w.write(r).unwrap();
    }
    w.close(meta()).unwrap();
    let file = path.join("delay/2026-11-21.parquet");
    let bytes = std::fs::read(&file).unwrap();
    (file, bytes)
}

#[test]
fn a_closed_day_with_a_damaged_page_loses_its_row_group_and_says_so() {
    let dir = Scratch::new("page");
    let path = dir.join("m.rec");
    let (file, bytes) = closed_day(&path);
    // Zeroes over a stretch of the second group, between the notes behind the first and behind itself.
    let mut bad = bytes.clone();
    let notes = bytes.windows(15).enumerate();
    let notes: Vec<usize> = notes
        .filter(|(_, w)| *w == b"tailback group\n")
        .map(|(at, _)| at)
        .collect();
    let length = notes[1] - notes[0];
    bad[notes[0] + length * 7 / 10..notes[0] + length * 8 / 10].fill(0);
    std::fs::write(&file, &bad).unwrap();
    let (recording, notes) = read_noting(&path).unwrap();
    let kept = recording.delay.len();
    let expected: Vec<i64> = (0..16_384).chain(32_768..40_000).collect();
    let seqs: Vec<i64> = recording.delay.iter().map(|d| d.seq).collect();
    assert_eq!(seqs, expected, "the second of three groups is lost");
    assert_eq!((&notes[0].file, notes[0].rows_kept), (&file, kept as u64));
    let told = notes[0].to_string();
    let lost = format!("{} of its 40000 rows are lost", 40_000 - kept);
    assert!(told.contains(&format!("kept {kept} rows")), "{told}");
    assert!(told.contains(&lost), "{told}");
}

#[test]
fn a_closed_day_that_is_cut_or_empty_costs_what_was_cut_and_nothing_else() {
    let dir = Scratch::new("cut-day");
    let path = dir.join("m.rec");
    let (file, bytes) = closed_day(&path);
    let mut w = Options::default().resume(&path, meta()).unwrap();
    w.write(row(TableId::Event, NOON, 1)).unwrap();
    w.write(row(TableId::Delay, NOON + DAY, 2)).unwrap();
    w.close(meta()).unwrap();
    let notes = bytes[..bytes.len() / 2].windows(15);
    let half = notes.filter(|w| *w == b"tailback group\n").count() * 16_384;
    let half = half.min(40_000);
    for (len, kept) in [
        (0, 0),
        (3, 0),
        (bytes.len() / 2, half),
        (bytes.len() - 1, 40_000),
    ] {
        std::fs::write(&file, &bytes[..len]).unwrap();
        let (recording, notes) = read_noting(&path).unwrap();
        assert_eq!(
            (recording.delay.len(), recording.event.len()),
            (kept + 1, 1),
            "{len}"
        );
        let told = (&notes[0].file, notes[0].rows_kept as usize);
        assert_eq!(told, (&file, kept), "{len}");
    }
}

#[test]
fn an_open_file_of_no_length_costs_nothing_else() {
    let dir = Scratch::new("zero");
    let path = dir.join("m.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    w.write(row(TableId::Event, NOON, 1)).unwrap();
    drop(w);
    std::fs::create_dir(path.join("delay")).unwrap();
    std::fs::write(path.join("delay/2026-11-21.arrows"), []).unwrap();
    let recording = read(&path).unwrap();
    assert_eq!((recording.delay.len(), recording.event.len()), (0, 1));
    seal_days(&path, "2026-11-22", &|| true).unwrap();
    assert_eq!(read(&path).unwrap().event.len(), 1);
}

/// Keeps one row in ten.
struct Tenth(u64);

impl Thin for Tenth {
    fn row(&mut self, row: Row, out: &mut Vec<Row>) {
        if self.0.is_multiple_of(10) {
            out.push(row);
        }
        self.0 += 1;
    }
    fn end(&mut self, _: &mut Vec<Row>) {}
}

/// One row for all delays.
struct One(u64);

impl Thin for One {
    fn row(&mut self, _: Row, _: &mut Vec<Row>) {
        self.0 += 1;
    }
    fn end(&mut self, out: &mut Vec<Row>) {
        out.push(row(TableId::Distribution, NOON, 1));
    }
}

#[test]
fn a_crash_while_delays_give_way_to_a_distribution_loses_and_doubles_nothing() {
    let dir = Scratch::new("doubled");
    let path = dir.join("m.rec");
    let (delays, bytes) = closed_day(&path);
    let counts = || {
        let recording = read(&path).unwrap();
        (recording.delay.len(), recording.distribution.len())
    };
    let file = files(&path).unwrap().remove(0);
    let thinned = thin(&path, &file, TableId::Distribution, &mut One(0), &|| true).unwrap();
    assert!(
        matches!(thinned, Thinned::Smaller { before: 40_000, after: 1, freed } if freed > 10_000),
        "{thinned:?}"
    );
    assert_eq!(counts(), (0, 1));
    let whole = path.join("distribution/2026-11-21.parquet");
    let waiting = whole.with_extension("thinned");
    // After the delays went, before the name was given.
    std::fs::rename(&whole, &waiting).unwrap();
    finish_thinning(&path).unwrap();
    assert_eq!(counts(), (0, 1));
    // Before they went.
    std::fs::rename(&whole, &waiting).unwrap();
    std::fs::write(&delays, &bytes).unwrap();
    assert_eq!(counts(), (40_000, 0));
    finish_thinning(&path).unwrap();
    assert_eq!(counts(), (40_000, 0));
    assert!(!waiting.exists());
}

#[test]
fn a_day_is_thinned_in_its_place() {
    let dir = Scratch::new("thin");
    let path = dir.join("m.rec");
    closed_day(&path);
    let file = files(&path).unwrap().remove(0);
    let thinned = thin(&path, &file, TableId::Delay, &mut Tenth(0), &|| true).unwrap();
    assert!(
        matches!(
            thinned,
            Thinned::Smaller {
                before: 40_000,
                after: 4_000,
                ..
            }
        ),
        "{thinned:?}"
    );
    assert_eq!(names(&path), ["delay/2026-11-21"]);
    let recording = read(&path).unwrap();
    assert!(
        recording
            .delay
            .iter()
            .enumerate()
            .all(|(i, d)| d.seq == 10 * i as i64)
    );
    assert_eq!(recording.delay.len(), 4_000);
}

/// Passes every row on.
struct All;

impl Thin for All {
    fn row(&mut self, row: Row, out: &mut Vec<Row>) {
        out.push(row);
    }
    fn end(&mut self, _: &mut Vec<Row>) {}
}

#[test]
fn a_file_that_would_not_become_smaller_or_was_interrupted_stays_as_it_was() {
    let dir = Scratch::new("no-gain");
    let path = dir.join("m.rec");
    let (delays, bytes) = closed_day(&path);
    let file = files(&path).unwrap().remove(0);
    let same = thin(&path, &file, TableId::Delay, &mut All, &|| true).unwrap();
    assert_eq!(same, Thinned::NoGain);
    let asked = std::cell::Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    let stopped = thin(&path, &file, TableId::Delay, &mut Tenth(0), &go_on).unwrap();
    assert_eq!((stopped, asked.get()), (Thinned::Stopped, 3));
    assert_eq!(std::fs::read(&delays).unwrap(), bytes);
    let left: Vec<_> = std::fs::read_dir(path.join("delay")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A late row began a file of the name that the thinned day had, and thinning it wrote over that day.
#[test]
fn late_rows_of_a_thinned_day_do_not_write_over_it() {
    let dir = Scratch::new("late-thinned");
    let path = dir.join("m.rec");
    closed_day(&path);
    let thin_all = || {
        let delays = files(&path).unwrap().into_iter();
        for file in delays.filter(|f| f.table == TableId::Delay) {
            thin(&path, &file, TableId::Distribution, &mut One(0), &|| true).unwrap();
        }
    };
    thin_all();
    let mut w = Options::default().resume(&path, meta()).unwrap();
    delays(50_000, 3_000).for_each(|r| w.write(r).unwrap());
    w.close(meta()).unwrap();
    assert_eq!(
        names(&path),
        ["distribution/2026-11-21", "delay/2026-11-21-002"]
    );
    thin_all();
    assert_eq!(read(&path).unwrap().distribution.len(), 2);
    // Where an older version has left both under one name, neither goes.
    std::fs::rename(
        path.join("distribution/2026-11-21-002.parquet"),
        path.join("distribution/2026-11-20.parquet"),
    )
    .unwrap();
    closed_day(&dir.join("other.rec"));
    std::fs::copy(
        dir.join("other.rec/delay/2026-11-21.parquet"),
        path.join("delay/2026-11-21.parquet"),
    )
    .unwrap();
    thin_all();
    let recording = read(&path).unwrap();
    assert_eq!(
        (recording.delay.len(), recording.distribution.len()),
        (40_000, 2)
    );
}

/// Two monitors on one recording both wrote: 103 rows with 72 numbers.
#[test]
fn a_recording_has_one_writer_and_the_second_is_told_who_that_is() {
    let dir = Scratch::new("lock");
    let path = dir.join("m.rec");
    let first = Writer::create(&path, meta()).unwrap();
    let refused = Options::default().resume(&path, meta()).err().unwrap();
    let StoreError::InUse { owner, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(owner.pid, std::process::id());
    assert!(
        owner.since.ends_with('Z') && !owner.host.is_empty(),
        "{owner:?}"
    );
    assert!(
        refused
            .to_string()
            .contains(&format!("process {}", owner.pid))
    );
    first.close(meta()).unwrap();
    assert!(!path.join("lock").exists());
    // One that a crash has left names its owner no more.
    std::fs::write(
        path.join("lock"),
        "{\"pid\":1,\"host\":\"a host with a long name\",\"since\":\"x\"}",
    )
    .unwrap();
    let second = Options::default().resume(&path, meta()).unwrap();
    let error = Lock::take(&path).unwrap_err().to_string();
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    drop(second);
    drop(Lock::take(&path).unwrap());
}

/// Rows come from other processes while the writer runs, at any time of any day, also in the same instant.
#[test]
fn rows_are_added_beside_the_writer_and_stay() {
    for seed in 0..4 {
        let mut rng = base::rng::Streams::new(seed).stream("append");
        let mut draw = |most: i64| (base::rng::uniform(&mut rng) * most as f64) as i64;
        let dir = Scratch::new("append");
        let path = dir.join("m.rec");
        let mut writer = Options::default().create(&path, meta()).unwrap();
        let mut expected = Vec::new();
        for n in 0..30 {
            let at = NOON + draw(2) * DAY + draw(3) * SECOND / 10_000;
            let event = row(TableId::Event, at, n);
            expected.push(at);
            match draw(3) {
                0 => writer.write(event).unwrap(),
                1 => append(&path, &[event], 3600).unwrap(),
                _ => {
                    let threads = [event, row(TableId::Event, at, 1000 + n)];
                    expected.push(at);
                    std::thread::scope(|scope| {
                        for e in threads {
                            scope.spawn(|| append(&path, &[e], 3600).unwrap());
                        }
                    });
                }
            }
        }
        writer.flush().unwrap();
        expected.sort_unstable();
        let times = || {
            let (recording, notes) = read_noting(&path).unwrap();
            assert!(notes.is_empty(), "seed {seed}: {notes:?}");
            let mut times: Vec<i64> = recording.event.iter().map(|e| e.t_ns).collect();
            times.sort_unstable();
            times
        };
        assert_eq!(times(), expected, "seed {seed}");
        writer.close(meta()).unwrap();
        seal_days(&path, "2030-01-01", &|| true).unwrap();
        assert_eq!(times(), expected, "seed {seed}");
        let resumed = Options::default().resume(&path, meta()).unwrap();
        append(&path, &[row(TableId::Event, NOON, 5)], 0).unwrap();
        resumed.close(meta()).unwrap();
        assert_eq!(times().len(), expected.len() + 1, "seed {seed}");
        let strays = std::fs::read_dir(path.join("event")).unwrap();
        let strays = strays.filter(|e| {
            e.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_none_or(|x| x != "parquet")
        });
        assert_eq!(strays.count(), 0, "seed {seed}");
    }
    let dir = Scratch::new("append-nothing");
    let none = append(&dir.join("none.rec"), &[row(TableId::Event, NOON, 0)], 0);
    assert!(
        matches!(none, Err(StoreError::NotARecording { .. })),
        "{none:?}"
    );
    assert!(!dir.join("none.rec").exists());
}
