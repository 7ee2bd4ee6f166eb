//! `tailback analyse` on recordings that are no test, as a user runs it.

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Scratch(PathBuf);

impl Scratch {
    /// Two recordings of the same two hours: `a.rec` at 20 ms with a lost probe each 100, `b.rec` at 30 ms.
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("tailback-analyse-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (recording, base, lost) in [("a", 20, 100), ("b", 30, 50)] {
            let mut text = String::new();
            for i in 0..7200 {
                // fping -l -D: seconds, host, number, and so on.
                let at = 1_399_197_600.5 + f64::from(i);
                if i % lost == 7 {
                    writeln!(
                        text,
                        "[{at:.5}] 192.0.2.1 : [{i}], timed out (NaN avg, 1% loss)"
                    )
                    .unwrap();
                } else {
                    let ms = f64::from(base) + f64::from(i % 10) / 10.0;
                    writeln!(
                        text,
                        "[{at:.5}] 192.0.2.1 : [{i}], 64 bytes, {ms:.3} ms ({ms:.2} avg, 1% loss)"
                    )
                    .unwrap();
                }
            }
            std::fs::write(path.join(format!("{recording}.txt")), text).unwrap();
            let made = tailback(&path, &format!("import {recording}.txt -o {recording}.rec"));
            assert!(made.status.success(), "{}", said(&made));
        }
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tailback(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command
        .current_dir(dir)
        .env("TZ", "UTC")
        .args(line.split(' '));
    command.output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout)
}

fn json(dir: &Path, line: &str) -> Value {
    let out = tailback(dir, line);
    assert!(out.status.success(), "{}", said(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_recording_without_phases_has_statistics() {
    let dir = Scratch::new("whole");
    let s = json(
        &dir.0,
        "analyse a.rec --json --window 30min --limits 20.45,25",
    );
    let t = &s["targets"][0];
    assert_eq!(t["whole"]["sent"], 7200);
    assert_eq!(t["whole"]["lost"], 72);
    assert_eq!(t["whole"]["loss_percent"]["value"], 1.0);
    assert_eq!(t["windows"].as_array().unwrap().len(), 4);
    assert_eq!(t["windows"][1]["sent"], 1800);
    let shares: Vec<f64> = [0, 1]
        .map(|i| {
            t["whole"]["reliability"][i]["share"]["value"]
                .as_f64()
                .unwrap()
        })
        .to_vec();
    assert_eq!(shares[1], 0.99);
    assert!((shares[0] - 0.5).abs() < 0.01, "{shares:?}");
    let text = said(&tailback(&dir.0, "analyse a.rec"));
    for expected in [
        "Probes sent",
        "RTT SD",
        "Reliability",
        "Smart grid",
        "no shifts",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn what_a_file_excludes_is_left_out_with_its_reason() {
    let dir = Scratch::new("exclude");
    let file = "[[exclude]]\nfrom = \"2014-05-04T10:30\"\nto = \"2014-05-04T11:00\"\nreason = \"Tool crashed.\"\n";
    std::fs::write(dir.0.join("gaps.toml"), file).unwrap();
    let s = json(
        &dir.0,
        "analyse a.rec --json --zone UTC --exclude gaps.toml",
    );
    assert_eq!(s["targets"][0]["whole"]["sent"], 5400);
    assert_eq!(s["excluded"][0]["probes"], 1800);
    assert_eq!(s["targets"][0]["gaps"][0]["reason"], "Tool crashed.");
    std::fs::write(dir.0.join("gaps.toml"), file.replace("11:00", "10:00")).unwrap();
    let out = tailback(&dir.0, "analyse a.rec --zone UTC --exclude gaps.toml");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        said(&out).contains("it ends before it begins"),
        "{}",
        said(&out)
    );
}

#[test]
fn recordings_are_set_side_by_side_with_their_differences() {
    let dir = Scratch::new("compare");
    let c = json(&dir.0, "analyse a.rec b.rec --json");
    let rows = c["comparison"]["sections"][0]["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|r| r["name"] == name).unwrap();
    let median = &row("RTT 50 % below")["differences"][0];
    assert!(
        (median["value"].as_f64().unwrap() - 10.0).abs() < 1e-6,
        "{median}"
    );
    let loss = &row("Loss")["differences"][0];
    assert!(
        (loss["value"].as_f64().unwrap() - 1.0).abs() < 1e-6,
        "{loss}"
    );
    assert!(loss["low"].as_f64().unwrap() > 0.0, "{loss}");
    let table = said(&tailback(&dir.0, "analyse a.rec b.rec --markdown"));
    assert!(table.contains("| RTT 50 % below | 20.4 ms"), "{table}");
}

#[test]
fn wrong_questions_are_told_what_to_ask() {
    let dir = Scratch::new("wrong");
    for (line, expected) in [
        ("analyse a.rec --span x", "write NAME=FROM/TO"),
        (
            "analyse a.rec --services missing.toml",
            "cannot read missing.toml",
        ),
        ("analyse a.rec --window 1ns", "too many to print"),
        ("analyse a.rec --limits 0", "above zero"),
    ] {
        let out = tailback(&dir.0, line);
        assert_eq!(out.status.code(), Some(2), "{line}: {}", said(&out));
        assert!(said(&out).contains(expected), "{line}: {}", said(&out));
    }
    let out = tailback(&dir.0, "analyse a.rec --target nobody");
    assert!(
        said(&out).contains("holds no probes of target"),
        "{}",
        said(&out)
    );
}
