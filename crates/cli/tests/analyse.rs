//! `tailback analyse` on recordings that are no test, as a user runs it.

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};
use testkit::TempDir;

struct Scratch(TempDir);

impl Scratch {
    /// Two recordings of the same two hours: `a.rec` at 20 ms with a lost probe each 100, `b.rec` at 30 ms.
    fn new(name: &str) -> Scratch {
        let path = TempDir::new(&format!("analyse-{name}"));
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
    let tables = ["Probes sent", "RTT SD", "Reliability", "no shifts"];
    let brief = said(&tailback(&dir.0, "analyse a.rec"));
    for line in ["analyse a.rec --full", "analyse a.rec --services built-in"] {
        let text = said(&tailback(&dir.0, line));
        for expected in tables.into_iter().chain(["IPDV mean"]) {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(
            text.contains("Smart grid"),
            line.contains("services"),
            "{text}"
        );
    }
    // CSV for programs: plain numbers, and the same as in JSON.
    let csv = said(&tailback(&dir.0, "analyse a.rec --csv"));
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("target,span,from,to,figure,unit,value,low,high,note")
    );
    let cells: Vec<Vec<&str>> = lines.map(|l| l.splitn(10, ',').collect()).collect();
    let value = |figure: &str| -> f64 {
        let row = cells.iter().find(|c| c[1] == "whole" && c[4] == figure);
        row.unwrap_or_else(|| panic!("{figure}: {csv}"))[6]
            .parse()
            .unwrap()
    };
    assert_eq!(value("sent"), 7200.0);
    assert_eq!(value("loss"), 1.0);
    assert_eq!(
        value("ipdv_mean"),
        t["whole"]["ipdv"]["mean_ms"]["value"].as_f64().unwrap()
    );
    for c in &cells {
        assert_eq!(c.len(), 10, "{c:?}");
        assert!(c[2].ends_with('Z') && c[3].ends_with('Z'), "{c:?}");
        assert!(
            c[6..9]
                .iter()
                .all(|n| n.is_empty() || n.parse::<f64>().is_ok()),
            "{c:?}"
        );
    }
    // One screen, unless tables are asked for.
    assert!(brief.lines().count() <= 24, "{brief}");
    assert!(tables.iter().all(|t| !brief.contains(t)), "{brief}");
    assert!(
        brief.contains("No outage of") && brief.contains("calls"),
        "{brief}"
    );
    // Round trips go up by 0.1 ms nine times and back by 0.9 ms once: 1.8 ms in ten steps. A lost probe of each hundred
    // takes the steps of 0.6 to 0.7 and 0.7 to 0.8 ms away.
    let ipdv = &t["whole"]["ipdv"];
    assert_eq!(ipdv["pairs"], 7199 - 2 * 72);
    let mean = ipdv["mean_ms"]["value"].as_f64().unwrap();
    let expected = (720.0 * 1.8 - 0.9 - 72.0 * 0.2) / (7199.0 - 144.0);
    assert!((mean - expected).abs() < 1e-4, "{mean} {expected}");
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

#[test]
fn a_service_that_fails_ends_with_one_where_that_is_asked_for() {
    let dir = Scratch::new("fail");
    let table = |ms: u32| {
        format!(
            "[[table]]\nname = \"Mine\"\n[[table.service]]\nname = \"Stop\"\nlatency = \"{ms} ms\"\nway = \"round_trip\"\nreliability = 0.9\n"
        )
    };
    std::fs::write(dir.0.join("easy.toml"), table(50)).unwrap();
    std::fs::write(dir.0.join("hard.toml"), table(10)).unwrap();
    let code = |line: &str| tailback(&dir.0, line).status.code();
    assert_eq!(code("analyse a.rec --services easy.toml --fail"), Some(0));
    assert_eq!(code("analyse a.rec --services hard.toml"), Some(0));
    assert_eq!(code("analyse a.rec --services hard.toml --fail"), Some(1));
    let text = said(&tailback(&dir.0, "analyse a.rec --services easy.toml"));
    assert!(
        text.contains("Stop, 50 ms round trip, 90 %  pass 99.00 %"),
        "{text}"
    );
}

/// Probe 7 of each hundred is lost on the one link, and of each fifty on the other: half of the latter at the same time.
#[test]
fn two_links_together_lack_only_what_both_lack() {
    let dir = Scratch::new("together");
    let t = json(&dir.0, "analyse a.rec b.rec --together --limits 100 --json");
    let r = &t["together"]["reliability"][0];
    let is = |f: &Value, v: f64| assert!((f["value"].as_f64().unwrap() - v).abs() < 1e-4, "{r}");
    is(&r["each"][0], 0.99);
    is(&r["each"][1], 0.98);
    is(&r["together"], 0.99);
    is(&r["if_independent"], 0.9998);
    let text = said(&tailback(&dir.0, "analyse a.rec b.rec --together"));
    assert!(text.contains("if independent"), "{text}");
    let out = tailback(&dir.0, "analyse a.rec --together");
    assert!(
        said(&out).contains("two links are needed"),
        "{}",
        said(&out)
    );
}

#[test]
fn a_file_lays_tables_out_as_a_document_has_them() {
    let dir = Scratch::new("tables");
    let file = r#"
zone = "UTC"
exclude = "gaps.toml"
[[table]]
caption = "Table 1: Gaps."
gaps = true
[[table]]
caption = "Table 2: Metrics."
from = "2014-05-04T10:00"
to = "2014-05-04T11:00"
[[table.metric]]
label = "Pings sent"
is = "sent"
printed = "3 600"
[[table]]
caption = "Table 3: Reliability."
limits = [30]
printed = [98.5]
"#;
    std::fs::write(dir.0.join("tables.toml"), file).unwrap();
    std::fs::write(
        dir.0.join("gaps.toml"),
        "[[exclude]]\nfrom = \"2014-05-04T10:30\"\nto = \"2014-05-04T10:40\"\nreason = \"Tool crashed\"\n",
    )
    .unwrap();
    let text = said(&tailback(
        &dir.0,
        "analyse a.rec --tables tables.toml --csv",
    ));
    for expected in [
        "Table 1: Gaps.\nFrom,To,Reason\nMay 4. 10:30,May 4. 10:40,Tool crashed\n",
        "Table 2: Metrics.\nMetric,Value,printed\nPings sent,3 000,3 600\n",
        "Table 3: Reliability.\nRequirement [ms],Reliability,printed\n30,99.00%,98.50%\n",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    std::fs::write(dir.0.join("tables.toml"), file.replace("11:00", "09:00")).unwrap();
    let out = tailback(&dir.0, "analyse a.rec --tables tables.toml");
    assert!(
        said(&out).contains("it ends before it begins"),
        "{}",
        said(&out)
    );
}

#[test]
fn several_recordings_make_one_page_or_one_plot() {
    let dir = Scratch::new("page");
    let page = |line: &str, file: &str| {
        let out = tailback(&dir.0, line);
        assert!(out.status.success(), "{}", said(&out));
        std::fs::read_to_string(dir.0.join(file)).unwrap()
    };
    let html = page("report a.rec b.rec", "comparison.html");
    for expected in ["2 recordings side by side", "A: a.rec", "B less A", "<svg"] {
        assert!(html.contains(expected), "{expected}");
    }
    let svg = page("report a.rec b.rec --plot cdf -o x.svg", "x.svg");
    assert!(svg.contains("B: b.rec"));
    let out = tailback(&dir.0, "report a.rec b.rec --plot rtt -o x.svg");
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("--plot cdf"), "{}", said(&out));
}
