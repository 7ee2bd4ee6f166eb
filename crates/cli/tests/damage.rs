//! `tailback analyse` and `tailback report` on damaged recordings: what is whole is used, and what is lost is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::TempDir;

/// An hour and a half of probes: 54 000 rows, four row groups.
const SCENARIO: &str = r#"
title = "A home"
duration = "5400 s"
topology = "linear:hops=1"
[sample]
queue = "1 min"
traffic = "1 s"
[link]
rate = "1 Mbit/s"
delay = "9 ms"
jitter = "normal:sd=1ms"
[[flow]]
kind = "probe"
name = "udp"
gap = "100 ms"
"#;

struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = TempDir::new(&format!("damage-{name}"));
        std::fs::write(path.join("home.toml"), SCENARIO).unwrap();
        let made = tailback(&path, "sim home.toml -o home.rec");
        assert!(made.status.success(), "{}", said(&made));
        Scratch(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("home.rec/delay/2000-01-01.parquet")
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
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn what_is_whole_is_used_and_what_is_lost_is_said_once() {
    let dir = Scratch::new("used");
    let good = std::fs::read(dir.file()).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    let mut zeros = good.clone();
    zeros[good.len() / 2..].fill(0);
    let cut = good[..good.len() * 3 / 5].to_vec();
    for (what, bytes, told) in [
        ("a flipped bit", flipped, " of its 54000 rows are lost"),
        ("half of it", zeros, "what stood behind the first"),
        ("a cut", cut, "what stood behind the first"),
    ] {
        std::fs::write(dir.file(), bytes).unwrap();
        for line in [
            "analyse home.rec --statistics",
            "report home.rec --plot rtt -o x.svg",
            "report home.rec -o x.html",
        ] {
            let out = tailback(&dir.0, line);
            let words = said(&out);
            assert!(out.status.success(), "{what}, {line}: {words}");
            assert!(words.contains(told), "{what}, {line}: {words}");
            let kept = "delay/2000-01-01.parquet: kept ";
            assert_eq!(words.matches(kept).count(), 1, "{what}, {line}: {words}");
        }
    }
}

#[test]
fn an_empty_file_and_a_damaged_description_are_said() {
    let dir = Scratch::new("empty");
    std::fs::write(dir.0.join("home.rec/meta.json"), "{\"form").unwrap();
    let out = tailback(&dir.0, "analyse home.rec --statistics --full");
    assert!(out.status.success(), "{}", said(&out));
    assert!(
        said(&out).contains("meta.json: it is damaged"),
        "{}",
        said(&out)
    );
    assert!(String::from_utf8_lossy(&out.stdout).contains("54000"));

    std::fs::write(dir.file(), "").unwrap();
    let out = tailback(&dir.0, "analyse home.rec --statistics");
    assert!(!out.status.success());
    assert!(
        said(&out).contains("it is empty; all of its rows are lost"),
        "{}",
        said(&out)
    );
    assert!(
        said(&out).contains("home.rec holds no probes"),
        "{}",
        said(&out)
    );
    // What does not need them is drawn.
    let out = tailback(&dir.0, "report home.rec --plot daily -o x.svg");
    assert!(out.status.success(), "{}", said(&out));
}
