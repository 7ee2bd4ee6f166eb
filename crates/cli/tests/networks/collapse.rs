//! `tailback probe collapse` over an emulated line: the capture is read again by `tailback trace`.

use crate::doubles::{TAILBACK, figure, line_of, serve};
use live::emulate::{Emulation, FAR_V4};
use serde_json::Value;
use std::process::{Command, Output};
use testkit::TempDir;

/// 8 Mbit/s up behind 128 kB, which are 128 ms; 20 ms there and back.
fn slow_upload() -> Option<Emulation> {
    let way =
        |rate: &str| format!("rate = \"{rate}\"\nqueue = \"fifo:bytes=128kB\"\ndelay = \"10 ms\"");
    line_of(&way("8 Mbit/s"), &way("50 Mbit/s"))
}

fn run(line: &Emulation, program: &[&str], kind: &str, more: &[&str]) -> Output {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["probe", kind, &FAR_V4.to_string()])
        .args(more)
        .current_dir(std::env::temp_dir());
    line.near().command(&mut command).output().expect("it runs")
}

#[test]
fn round_trips_of_the_loads_own_packets_are_captured_alone_and_beside_a_second_upload() {
    testkit::real_time_beside(|| {
        let Some(line) = slow_upload() else { return };
        let server = serve(&line);
        let scratch = TempDir::new("collapse");
        let dir = scratch.join("probe.rec");
        let rec = dir.to_str().expect("a plain path");
        let kind = "collapse:rounds=2,duration=6 s,lead=2 s,rest=1 s";
        let out = run(&line, &[TAILBACK], kind, &["--json", "-o", rec]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        assert!(figure(&answer, "base_ms") >= 20.0, "{answer}");
        // CUBIC leaves the queue half full at least.
        assert!(figure(&answer, "alone_ms") > 60.0, "{answer}");
        assert!(figure(&answer, "beside_ms") > 60.0, "{answer}");
        // What was acknowledged is no more than the line carries: 8 Mbit/s with 40 bytes of headers and more.
        assert!(
            (1e6..7.9e6).contains(&figure(&answer, "rate_bps")),
            "{answer}"
        );
        let rows = answer["tables"][0]["rows"].as_array().expect("rows");
        let names: Vec<&str> = rows
            .iter()
            .map(|r| r[0].as_str().expect("a text"))
            .collect();
        assert_eq!(names, ["1 alone", "2 alone", "2 beside"], "{answer}");
        let plots = answer["plots"].as_array().expect("plots");
        let series: Vec<usize> = plots
            .iter()
            .map(|p| p["series"].as_array().expect("series").len())
            .collect();
        assert_eq!(
            series,
            [2, 3],
            "the second upload is in the second round only"
        );

        let again = Command::new(TAILBACK)
            .args(["analyse", "--json", rec])
            .output()
            .expect("tailback runs");
        let again: Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
        assert_eq!(again, answer, "the recording says the same");

        // The longest round trip is one that `trace` finds in the file, too.
        let trace = Command::new(TAILBACK)
            .args(["trace", "--json"])
            .arg(dir.join("capture/collapse.pcapng"))
            .output()
            .expect("tailback runs");
        let text = String::from_utf8_lossy(&trace.stdout);
        assert!(
            trace.status.success(),
            "{}",
            String::from_utf8_lossy(&trace.stderr)
        );
        let trace: Value = serde_json::from_str(&text).expect("it is JSON");
        let mut longest: Vec<f64> = Vec::new();
        find(&trace, "rtt_max_ms", &mut longest);
        let most = longest.iter().copied().fold(0.0, f64::max);
        assert!(
            figure(&answer, "most_ms") <= most + 0.001,
            "{} and {longest:?}",
            figure(&answer, "most_ms")
        );
        std::fs::remove_dir_all(&dir).expect("the recording can go");
        server.stop();
    });
}

/// Every number of that name.
fn find(json: &Value, name: &str, found: &mut Vec<f64>) {
    match json {
        Value::Object(all) => {
            for (key, value) in all {
                match value.as_f64() {
                    Some(number) if key == name => found.push(number),
                    _ => find(value, name, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|v| find(v, name, found)),
        _ => {}
    }
}

#[test]
fn rounds_are_as_short_as_the_budget_asks_for_and_that_is_said() {
    testkit::real_time_beside(|| {
        let Some(line) = slow_upload() else { return };
        let server = serve(&line);
        let scratch = TempDir::new("budget");
        let dir = scratch.join("probe.rec");
        let rec = dir.to_str().expect("a plain path");
        // 8 Mbit/s are 1 MB a second: 8 MB are eight seconds, of which 0.9 are planned with.
        let more = ["--json", "--budget", "8 MB", "-o", rec];
        let out = run(&line, &[TAILBACK], "collapse:rounds=1,duration=60 s", &more);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let evidence = answer["evidence"].to_string();
        assert!(evidence.contains("instead of 60 s"), "{evidence}");
        std::fs::remove_dir_all(&dir).expect("the recording can go");

        // Not even six seconds.
        let more = ["--budget", "2 MB", "-o", rec];
        let out = run(&line, &[TAILBACK], "collapse:rounds=1", &more);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && told.contains("larger --budget"),
            "{told}"
        );
        server.stop();
    });
}

#[test]
fn without_the_right_to_capture_it_says_what_is_missing() {
    testkit::real_time_beside(|| {
        let Some(line) = slow_upload() else { return };
        let server = serve(&line);
        let none = "-net_raw";
        let bounds = format!("--bounding-set={none}");
        let (inherited, ambient) = (
            format!("--inh-caps={none}"),
            format!("--ambient-caps={none}"),
        );
        let program = ["setpriv", &bounds, &inherited, &ambient, TAILBACK];
        let out = run(&line, &program, "collapse:rounds=1,duration=3 s", &[]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{told}");
        assert!(
            told.contains("CAP_NET_RAW") && told.contains("setcap"),
            "{told}"
        );
        server.stop();
    });
}
