//! The main job, whole, on a line whose truth is known: real probes, real kernel TCP.

use serde_json::Value;
use std::process::{Command, Output};
use testkit::{Program, TempDir};

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

fn can_emulate() -> bool {
    Program::new(TAILBACK).can_emulate()
}

#[track_caller]
fn json(out: &Output) -> Value {
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

#[track_caller]
fn near(figure: &Value, truth: f64, share: f64) {
    let value = figure["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("cannot tell: {figure}"));
    assert!(
        (value - truth).abs() <= share * truth,
        "{value} is not within {share} of {truth}"
    );
}

/// Borlaug 2014, section 6.1.3: 430 ms of queue before an uplink of 700 kbit/s, 22 times too much.
#[test]
fn the_thesis_adsl_line_is_told_as_it_is() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let dir = TempDir::new("adsl");
        let rec = dir.join("adsl.rec");
        let out = Command::new(TAILBACK)
            .args(["test", "--link", "adsl", "--json", "-o"])
            .arg(&rec)
            .output()
            .expect("tailback runs");
        let answer = json(&out);
        near(&answer["base_rtt_ms"], 19.0, 0.1);
        let (up, down) = (&answer["up"], &answer["down"]);
        near(&up["link_rate_bps"], 0.7e6, 0.05);
        near(&down["link_rate_bps"], 8e6, 0.05);
        near(&up["queue_ms"], 430.0, 0.1);
        near(&up["queue_bytes"], 37_625.0, 0.1);
        near(&up["factor_too_large"], 22.6, 0.15);
        assert_eq!(up["discipline"]["is"], "drop_tail");
        assert_eq!(answer["grade"]["letter"], "F");
        assert_eq!(answer["worst_direction"], "up");
        assert!(
            std::fs::read_to_string(rec.join("report.html"))
                .expect("a report")
                .contains("drop-tail")
        );

        // The recording alone says the same.
        let again = json(
            &Command::new(TAILBACK)
                .args(["analyse", "--json"])
                .arg(&rec)
                .output()
                .expect("tailback runs"),
        );
        assert_eq!(again["up"]["queue_bytes"], up["queue_bytes"]);
        assert_eq!(again["phases"], answer["phases"]);

        // Above the threshold that was stated: exit code 1 is for `test`; the plots are drawn from the recording.
        let svg = dir.join("plot.svg");
        let drawn = Command::new(TAILBACK)
            .arg("report")
            .arg(&rec)
            .arg("-o")
            .arg(&svg)
            .status()
            .expect("tailback runs");
        assert!(
            drawn.success()
                && std::fs::read_to_string(&svg)
                    .expect("a plot")
                    .starts_with("<svg")
        );
    });
}

#[test]
fn without_root_the_same_job_runs_and_a_threshold_sets_the_exit_code() {
    testkit::real_time_beside(|| {
        if !can_emulate() || !nix::unistd::geteuid().is_root() {
            eprintln!(
                "skipped: only root can become somebody else; as somebody else the test above shows it"
            );
            return;
        }
        let dir = TempDir::new("rootless");
        let (program, rec) = (dir.join("tailback"), dir.join("x.rec"));
        std::fs::copy(TAILBACK, &program).expect("a copy that anybody may run");
        nix::unistd::chown(&*dir, Some(65534.into()), None).expect("root may give it away");
        let out = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args([
                "test",
                "--link",
                "adsl",
                "--phases",
                "idle,up",
                "--fail-above",
                "100 ms",
                "--json",
                "-o",
            ])
            .arg(&rec)
            .current_dir(&dir)
            .output()
            .expect("setpriv runs");
        assert_eq!(
            out.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        near(&answer["up"]["link_rate_bps"], 0.7e6, 0.05);
        near(&answer["up"]["queue_ms"], 430.0, 0.1);
    });
}
