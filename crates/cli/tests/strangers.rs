//! `tailback analyse` and `tailback report` on recordings that strangers have made by hand: any number in any column, any
//! text, any plan. Seeds are printed; STRANGERS_SEED repeats one, STRANGERS_ROUNDS makes more of them.

use base::record::{Cell, Kind, Meta, Origin, Row, TableId, Text};
use base::rng::{Rng, Streams};
use rand::RngExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use testkit::TempDir;

const NOON: i64 = 1_763_726_400_000_000_000;

/// Runs it with 2 GB of address space and a minute of processor time.
fn tailback(dir: &Path, line: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_tailback");
    Command::new("sh")
        .current_dir(dir)
        .env("TZ", "UTC")
        .args([
            "-c",
            &format!("ulimit -v 4000000; ulimit -t 60; exec {program} {line}"),
        ])
        .output()
        .expect("it runs")
}

fn is_calm(out: &Output) -> bool {
    let told = String::from_utf8_lossy(&out.stderr);
    matches!(out.status.code(), Some(0..=3)) && !told.contains("panicked")
}

fn seed() -> u64 {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let given = std::env::var("STRANGERS_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    given.unwrap_or(fresh)
}

fn number(rng: &mut Rng, name: &str) -> i64 {
    let edge = 1i64 << rng.random_range(0..63u32);
    match rng.random_range(0..10) {
        0 => 0,
        1 => i64::MAX,
        2 => edge,
        3 => edge - 1,
        4 => -edge,
        5 => (1 << 53) - rng.random_range(0..3),
        6 => 4_000_000_000_000_000_000,
        7 if name.ends_with("_ns") => rng.random_range(0..1_000_000_000),
        _ => rng.random_range(0..1_000),
    }
}

fn text(rng: &mut Rng) -> Text {
    let all = [
        "",
        "udp",
        "eth0",
        "\x1b[2J\x1b]0;owned\x07",
        "{\"a\":[[[[[[",
        "<script>alert(1)</script>",
        "HISTFAAAAB542pNpmSzMwMDAAAA=",
        "192.0.2.1:80",
        "phase",
        "train",
        "up",
    ];
    match rng.random_range(0..12) {
        0 => "x".repeat(rng.random_range(0..100_000)).as_str().into(),
        n => all[n - 1].into(),
    }
}

fn row(rng: &mut Rng, table: TableId, tame: bool) -> Option<Row> {
    let spec = table.spec();
    let mut cells = |i: usize| {
        let c = spec.columns[i];
        if c.name == spec.time && (tame || rng.random_range(0..4) > 0) {
            return Cell::Int(NOON + rng.random_range(0..3_600_000_000_000i64));
        }
        if c.nullable && rng.random_range(0..4) == 0 {
            return Cell::Null;
        }
        match c.kind {
            Kind::Int if tame => Cell::Int(rng.random_range(0..1_000_000)),
            Kind::Int => Cell::Int(number(rng, c.name)),
            Kind::Real => {
                let all = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e308, -1e308, 0.5];
                Cell::Real(all[rng.random_range(0..7usize)])
            }
            Kind::Flag => Cell::Flag(rng.random()),
            Kind::Text if !c.words.is_empty() => {
                Cell::Text(c.words[rng.random_range(0..c.words.len())].into())
            }
            Kind::Text => Cell::Text(text(rng)),
        }
    };
    table.row(&mut cells)
}

/// A recording of a few tables. Where a time has no day the row is left away: it cannot be written.
fn make(rng: &mut Rng, path: &Path) {
    let verbs = ["test", "monitor", "probe", "sim", "trace", "import", ""];
    let mut meta = Meta {
        origin: Origin::Measured,
        verb: verbs[rng.random_range(0..verbs.len())].into(),
        title: text(rng).to_string(),
        started_ns: NOON,
        ended_ns: Some(NOON + 1_000_000_000),
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone()).expect("it is created");
    for &table in TableId::ALL {
        if rng.random_range(0..3) > 0 {
            continue;
        }
        // Mostly right, with a few rows that are not: those get furthest.
        for n in 0..rng.random_range(1..60) {
            let tame = n % 8 != 7;
            let Some(row) = row(rng, table, tame) else {
                continue;
            };
            if (0..=4_000_000_000_000_000_000).contains(&row.time_ns()) {
                writer.write(row).expect("it is written");
            }
        }
    }
    meta.complete = true;
    writer.close(meta).expect("it is closed");
    if rng.random_range(0..3) == 0 {
        let name = path.join("meta.json");
        let mut json = std::fs::read(&name).expect("it is there");
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..json.len());
            json[at] = b"0123456789-{}[]\",:nulltrue"[rng.random_range(0..26usize)];
        }
        std::fs::write(&name, json).expect("it is written");
    }
}

const VERBS: [&str; 12] = [
    "analyse r.rec",
    "analyse r.rec --json",
    "analyse r.rec --statistics",
    "analyse r.rec --window '10 min'",
    "report r.rec -o x.html",
    "report r.rec --plot rtt -o x.svg",
    "report r.rec --plot smoke -o x.svg",
    "report r.rec --plot heat -o x.svg",
    "report r.rec --plot availability -o x.svg",
    "report r.rec --plot throughput -o x.svg",
    "report r.rec --plot queue -o x.svg",
    "report r.rec --plot daily -o x.svg",
];

#[test]
fn whatever_a_stranger_writes_into_a_recording_nothing_panics() {
    let seed = seed();
    eprintln!("STRANGERS_SEED={seed}");
    let rounds = std::env::var("STRANGERS_ROUNDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let mut rng = Streams::new(seed).stream("recordings");
    let dir = TempDir::new("strangers-any");
    let mut failed = Vec::new();
    for round in 0..rounds.unwrap_or(24u32) {
        let path = dir.join("r.rec");
        let _ = std::fs::remove_dir_all(&path);
        make(&mut rng, &path);
        for _ in 0..4 {
            let verb = VERBS[rng.random_range(0..VERBS.len())];
            let out = tailback(&dir, verb);
            if !is_calm(&out) {
                let told = String::from_utf8_lossy(&out.stderr);
                let told: String = told.chars().take(600).collect();
                failed.push(format!("round {round}, {verb}: {:?}: {told}", out.status));
            }
            let shown = [&out.stdout[..], &out.stderr[..]].concat();
            if verb.starts_with("analyse") && shown.contains(&0x1b) {
                failed.push(format!("round {round}, {verb}: commands for the terminal"));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} of them\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn a_report_into_a_strangers_recording_overwrites_nothing_else() {
    let dir = TempDir::new("strangers-links");
    let mut rng = Streams::new(1).stream("links");
    let path = dir.join("r.rec");
    let meta = Meta {
        started_ns: NOON,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(&path, meta.clone()).expect("it is created");
    for _ in 0..50 {
        writer
            .write(row(&mut rng, TableId::Delay, true).expect("a row"))
            .expect("it is written");
    }
    writer.close(meta).expect("it is closed");
    let victim = dir.join("victim");
    std::fs::write(&victim, "precious").expect("it is written");
    for name in [
        "report.part",
        "report.html",
        "report.html.tmp",
        "report.tmp",
        "x.part",
        "x.svg",
    ] {
        symlink(&victim, path.join(name)).expect("a link");
    }
    for line in ["report r.rec", "report r.rec --plot cdf -o r.rec/x.svg"] {
        let out = tailback(&dir, line);
        assert!(is_calm(&out), "{line}: {out:?}");
        let kept = std::fs::read_to_string(&victim).expect("it is there");
        assert_eq!(kept, "precious", "{line}");
    }
    let left: Vec<_> = std::fs::read_dir(&path)
        .expect("it is there")
        .flatten()
        .map(|e| e.file_name())
        .filter(|n| n.to_string_lossy().starts_with(".tailback"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Pages of the Parquet library's panics, found by fuzzing.
#[test]
fn a_page_that_no_page_can_be_is_told_without_a_panic() {
    let dir = TempDir::new("strangers");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let events = dir.join("r.rec/event");
    std::fs::create_dir_all(&events).expect("a directory");
    let good = repository.join("data/records/v1/closed.rec/meta.json");
    std::fs::copy(good, dir.join("r.rec/meta.json")).expect("a recording of the repository");
    let page = repository.join("fuzz/corpus/table/shift-of-a-page");
    std::fs::copy(page, events.join("2026-11-21.parquet")).expect("a damaged table");
    for line in ["analyse r.rec", "report r.rec -o r.html"] {
        let out = tailback(&dir, line);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(is_calm(&out), "{line}: {told}");
        assert!(told.contains("2026-11-21.parquet"), "{line}: {told}");
    }
}
