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

#[test]
fn probes_that_become_results_of_atlas_come_back_the_same() {
    for seed in 12..15 {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        works(&dir, "export home.rec --format atlas");
        let text = std::fs::read_to_string(dir.join("home.atlas.json")).expect("JSON");
        let results: Vec<Value> = serde_json::from_str(&text).expect("an array");
        for result in &results {
            let packets = result["result"].as_array().expect("packets");
            let answered = packets.iter().filter(|p| p["rtt"].is_f64()).count();
            assert_eq!(result["rcvd"], answered, "{result}");
            let least = packets.iter().filter_map(|p| p["rtt"].as_f64());
            let least = least.fold(f64::INFINITY, f64::min);
            let told = result["min"].as_f64().expect("a number");
            assert_eq!(told, if least.is_finite() { least } else { -1.0 });
        }
        works(&dir, "import home.atlas.json -o back.rec");
        let back = store::read(dir.join("back.rec")).expect("a recording");
        for target in ["udp", "tcp-connect", "tcp-request"] {
            let before = probes(&recording, target);
            let before = before
                .iter()
                .filter(|d| d.status.was_sent() && d.status != Status::Invalid);
            let of = |d: &Delay| (d.sent_ns, d.rtt_ns);
            let mut before: Vec<_> = before.map(of).collect();
            let mut after: Vec<_> = probes(&back, &format!("atlas 0 {target}"))
                .iter()
                .map(of)
                .collect();
            before.sort_unstable();
            after.sort_unstable();
            assert_eq!(before, after, "seed {seed}, {target}");
        }
    }
}

#[test]
fn measurements_for_ooni_hold_each_probe_and_nothing_about_its_place() {
    for seed in 24..27 {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        works(&dir, "export home.rec --format ooni");
        let text = std::fs::read_to_string(dir.join("home.ooni.jsonl")).expect("lines");
        let all: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for target in ["udp", "tcp-connect", "tcp-request"] {
            let before = probes(&recording, target);
            let before = before
                .iter()
                .filter(|d| d.status.was_sent() && d.status != Status::Invalid);
            let mut before: Vec<_> = before.map(|d| (d.sent_ns, d.rtt_ns)).collect();
            before.sort_unstable();
            let mut after = Vec::new();
            for m in all.iter().filter(|m| m["input"] == target) {
                assert_eq!(m["probe_ip"], "127.0.0.1");
                let start = m["measurement_start_time"].as_str().expect("a time");
                let start: jiff::civil::DateTime = start.parse().expect("a date and a time");
                let start = start.in_tz("UTC").expect("UTC").timestamp().as_second();
                let ns =
                    |t: &Value| Some(start * 1_000_000_000 + (t.as_f64()? * 1e9).round() as i64);
                let pings = m["test_keys"]["pings"].as_array().expect("pings");
                for p in pings {
                    assert_eq!(p["failure"].is_null(), p["t"].is_f64());
                    let sent = ns(&p["t0"]).expect("a time");
                    after.push((sent, ns(&p["t"]).map(|t| t - sent)));
                }
                let answered = pings.iter().filter(|p| p["t"].is_f64()).count();
                assert_eq!(m["test_keys"]["answered"], answered);
                assert!(m["test_runtime"].as_f64().expect("s") < 60.0);
            }
            after.sort_unstable();
            assert_eq!(after.len(), before.len(), "seed {seed}, {target}");
            for (a, b) in after.iter().zip(&before) {
                let near = |x: i64, y: i64| (x - y).abs() <= 1000;
                let same = a.1.zip(b.1).map_or(a.1 == b.1, |(x, y)| near(x, y));
                assert!(
                    near(a.0, b.0) && same,
                    "seed {seed}, {target}: {a:?}, {b:?}"
                );
            }
        }
    }
}

#[test]
fn counters_for_prometheus_end_at_the_counts_of_the_recording() {
    for seed in 15..18 {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        works(&dir, "export home.rec --format openmetrics");
        let text = std::fs::read_to_string(dir.join("home.openmetrics.txt")).expect("text");
        assert!(text.ends_with("# EOF\n"));
        let last = |series: &str| -> f64 {
            let mut lines = text.lines().filter(|l| l.starts_with(series));
            let mut words = lines.next_back().expect(series).rsplit(' ').skip(1);
            words.next().expect("a value").parse().expect("a number")
        };
        let udp: Vec<&Delay> = recording
            .delay
            .iter()
            .filter(|d| &*d.target == "udp")
            .collect();
        let answered = udp.iter().filter(|d| d.status == Status::Ok).count();
        let named = "tailback_probes_total{target=\"udp\",fate=\"answered\"}";
        assert_eq!(last(named), answered as f64, "seed {seed}");
        let rtts: Vec<i64> = udp
            .iter()
            .filter_map(|d| d.status.trusted(d.rtt_ns))
            .collect();
        let within = rtts.iter().filter(|rtt| **rtt <= 100_000_000).count();
        let named = "tailback_rtt_seconds_bucket{target=\"udp\",le=\"0.1\"}";
        assert_eq!(last(named), within as f64, "seed {seed}");
        let sum = rtts.iter().sum::<i64>() as f64 / 1e9;
        assert!((last("tailback_rtt_seconds_sum{target=\"udp\"}") - sum).abs() < 1e-6);
        // The series of one name stand together, in the order of time.
        let mut times = std::collections::BTreeMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (series, rest) = line.rsplit_once("} ").expect("labels");
            let at: i64 = rest.rsplit(' ').next().expect("a time").parse().expect("s");
            let before = times.insert(series.to_owned(), at);
            assert!(before.is_none_or(|b| b < at), "{line}");
        }
    }
}

#[test]
fn senders_that_become_qlog_come_back_the_same() {
    for seed in 18..21 {
        let dir = TempDir::new("export");
        let recording = recorded(&dir, seed);
        let written = counts(&dir, "export home.rec --format qlog");
        assert!(written.len() >= 2, "{written:?}");
        for (file, rows) in written {
            works(&dir, &format!("import {} -o back.rec", file.display()));
            let back = store::read(dir.join("back.rec")).expect("a recording");
            std::fs::remove_dir_all(dir.join("back.rec")).expect("it is ours");
            assert_eq!(back.flow.len() as u64, rows);
            let name = file
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let number: i64 = name
                .split('-')
                .nth(1)
                .expect("its number")
                .parse()
                .expect("a number");
            let its = recording
                .flow
                .iter()
                .filter(|f| f.flow == number && f.cwnd_bytes.is_some());
            for (a, b) in its.zip(&back.flow) {
                assert_eq!(a.direction, b.direction, "{name}");
                assert!(
                    (a.t_ns - b.t_ns).abs() < 1_000,
                    "{name}: {} and {}",
                    a.t_ns,
                    b.t_ns
                );
                assert_eq!(
                    (a.cwnd_bytes, a.srtt_ns),
                    (b.cwnd_bytes, b.srtt_ns),
                    "{name}"
                );
            }
        }
    }
}
