//! `tailback export` on recordings of tests: what is written is what was recorded, and comes back.

use base::record::{Delay, Direction, Recording, Status};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::TempDir;

fn tailback(dir: &TempDir, args: &str) -> Output {
    let out = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args.split(' '))
        .current_dir(dir)
        .output();
    out.expect("it starts")
}

fn works(dir: &TempDir, args: &str) -> String {
    let out = tailback(dir, args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{args}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A test of an emulated link in virtual time.
fn recorded(dir: &TempDir, seed: u32) -> Recording {
    let links = ["adsl", "cable", "lte"];
    let link = links[seed as usize % links.len()];
    works(
        dir,
        &format!("test --link {link} --virtual --seed {seed} -o home.rec --plain --quiet"),
    );
    store::read(dir.join("home.rec")).expect("a recording")
}

/// Probes of a target, in the order of their numbers.
fn probes(recording: &Recording, target: &str) -> Vec<Delay> {
    let of = recording.delay.iter().filter(|d| &*d.target == target);
    let mut probes: Vec<Delay> = of.cloned().collect();
    probes.sort_by_key(|d| (d.seq, d.sent_ns));
    probes
}

/// Counts of rows that the command says it wrote.
fn counts(dir: &TempDir, args: &str) -> Vec<(PathBuf, u64)> {
    let exported: ops::export::Exported =
        serde_json::from_str(&works(dir, &format!("{args} --json"))).expect("its JSON");
    exported
        .files
        .into_iter()
        .map(|w| (w.file, w.rows))
        .collect()
}

#[test]
fn tables_have_each_row_and_each_value_in_every_format() {
    for seed in [1, 2] {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        let rows = recording.delay.len() as u64;
        for (format, file) in [
            ("csv", "home.csv/delay.csv"),
            ("json", "home.jsonl/delay.jsonl"),
            ("parquet", "home.parquet/delay.parquet"),
        ] {
            let written = counts(&dir, &format!("export home.rec --format {format}"));
            assert!(
                written.contains(&(file.into(), rows)),
                "seed {seed}: {written:?}"
            );
            let again = tailback(&dir, &format!("export home.rec --format {format}"));
            assert_eq!(again.status.code(), Some(3), "{format} was written over");
        }
        let lines = std::fs::read_to_string(dir.join("home.csv/delay.csv")).expect("CSV");
        assert_eq!(lines.lines().count() as u64, rows + 1);
        let lines = std::fs::read_to_string(dir.join("home.jsonl/delay.jsonl")).expect("JSON");
        for (line, row) in lines.lines().zip(&recording.delay) {
            let value: Value = serde_json::from_str(line).expect("an object");
            assert_eq!(value["sent_ns"], row.sent_ns);
            assert_eq!(value["rtt_ns"].as_i64(), row.rtt_ns);
            assert_eq!(value["target"], *row.target);
        }
        // A Parquet file of ours is a day of a recording.
        let copy = dir.join("copy.rec");
        std::fs::create_dir_all(copy.join("delay")).expect("it is ours");
        std::fs::copy(dir.join("home.rec/meta.json"), copy.join("meta.json")).expect("a copy");
        let day = copy.join("delay/2023-11-14.parquet");
        std::fs::copy(dir.join("home.parquet/delay.parquet"), day).expect("a copy");
        assert_eq!(
            store::read(&copy).expect("a recording").delay,
            recording.delay
        );
    }
}

#[test]
fn only_the_tables_that_are_asked_for_are_written_and_unknown_ones_are_named() {
    let dir = TempDir::new("export");
    let rows = recorded(&dir, 3).delay.len() as u64;
    let written = counts(&dir, "export home.rec --tables delay,flow,delay -o out");
    assert_eq!(
        written[0].1, rows,
        "a table that is named twice is written once"
    );
    let files: Vec<PathBuf> = written.into_iter().map(|w| w.0).collect();
    assert_eq!(
        files,
        [Path::new("out/delay.csv"), Path::new("out/flow.csv")]
    );
    let wrong = tailback(&dir, "export home.rec --tables delays -o other");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("delay, traffic"), "{said}");
    let none = tailback(&dir, "export home.rec --tables availability -o none");
    assert_eq!(none.status.code(), Some(2));
    assert!(!dir.join("none").exists(), "an empty directory is left");
}

#[test]
fn probes_that_become_irtts_come_back_the_same() {
    for seed in 4..8 {
        let dir = TempDir::new("export");
        let mut recording = recorded(&dir, seed);
        let said = String::from_utf8_lossy(&tailback(&dir, "export home.rec --format irtt").stderr)
            .into_owned();
        assert!(said.contains("--target"), "{said}");
        works(&dir, "export home.rec --format irtt --target udp");
        works(&dir, "import home.irtt.json -o back.rec");
        let back = store::read(dir.join("back.rec")).expect("a recording");
        recording
            .delay
            .retain(|d| d.status.was_sent() && d.status != Status::Invalid);
        let (before, after) = (probes(&recording, "udp"), probes(&back, "irtt udp"));
        assert_eq!(before.len(), after.len(), "seed {seed}");
        for (a, b) in before.iter().zip(&after) {
            let far = |d: &Delay| (d.remote_rx_ns, d.remote_tx_ns);
            assert_eq!(
                (a.seq, a.sent_ns, a.rtt_ns),
                (b.seq, b.sent_ns, b.rtt_ns),
                "seed {seed}"
            );
            if a.status == Status::Ok {
                assert_eq!((far(a), a.status), (far(b), b.status), "seed {seed}");
            }
        }
        let text = std::fs::read_to_string(dir.join("home.irtt.json")).expect("JSON");
        let irtt: Value = serde_json::from_str(&text).expect("JSON");
        let mut rtts: Vec<i64> = before
            .iter()
            .filter_map(|d| d.status.trusted(d.rtt_ns))
            .collect();
        rtts.sort_unstable();
        let middle = base::sketch::quantile(rtts.len() as u64, 0.5, |k| rtts[k as usize] as f64);
        let stats = &irtt["stats"]["rtt"];
        assert_eq!(stats["n"], rtts.len());
        let median = stats["median"].as_f64().expect("a number");
        assert!((median - middle.expect("answers")).abs() <= 0.5);
        assert_eq!(irtt["stats"]["packets_received"], rtts.len());
    }
}

#[test]
fn a_file_for_flent_has_the_raw_values_and_comes_back() {
    for seed in 8..12 {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        works(&dir, "export home.rec --format flent");
        works(&dir, "import home.flent.gz -o back.rec");
        let back = store::read(dir.join("back.rec")).expect("a recording");
        for target in ["udp", "tcp-connect", "tcp-request"] {
            let rtts = |r: &Recording, target: &str| -> Vec<f64> {
                probes(r, target).iter().filter_map(Delay::rtt_ms).collect()
            };
            let (before, after) = (
                rtts(&recording, target),
                rtts(&back, &format!("Ping (ms) {target}")),
            );
            assert_eq!(before.len(), after.len(), "seed {seed}, {target}");
            assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-5));
        }
        let bytes = |r: &Recording| -> i64 {
            let mut last = std::collections::BTreeMap::new();
            for f in r.flow.iter().filter(|f| f.direction == Direction::Down) {
                if let Some(bytes) = f.bytes_received {
                    let span = last.entry(f.flow).or_insert((bytes, bytes));
                    span.1 = bytes;
                }
            }
            last.values().map(|(first, last)| last - first).sum()
        };
        let (before, after) = (bytes(&recording), bytes(&back));
        // The first rate of a flow has no time before it to hold for.
        assert!(
            after <= before && after as f64 > 0.9 * before as f64,
            "{after} of {before}"
        );
    }
}
