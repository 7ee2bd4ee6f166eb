//! `tailback run` as a user runs it: the recording of each verb makes its twin.

use std::path::Path;
use std::process::{Command, Output};
use testkit::TempDir;

fn tailback(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.current_dir(dir).env("TZ", "UTC").args(args);
    command.output().unwrap()
}

/// Standard output of a command that works.
fn works(dir: &Path, args: &[&str]) -> String {
    let out = tailback(dir, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

const SCENARIO: &str = "duration = \"3 s\"\n[link]\nrate = \"2 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"fifo:bytes=40000\"\n\
    [[flow]]\nkind = \"bulk\"\n[[flow]]\nkind = \"probe\"\n";

#[test]
fn a_simulation_its_capture_and_an_import_are_made_again() {
    let scratch = TempDir::new("run-again");
    let dir = &scratch;
    std::fs::write(dir.join("s.toml"), SCENARIO).unwrap();
    let sim = [
        "sim",
        "s.toml",
        "--json",
        "-o",
        "a.rec",
        "--pcap",
        "link=link.pcapng",
    ];
    let figures = works(dir, &sim);
    assert_eq!(
        works(dir, &["run", "a.rec", "-o", "b.rec", "--json"]),
        figures
    );
    let analysed = |name: &str| works(dir, &["analyse", name, "--json"]);
    assert_eq!(analysed("a.rec"), analysed("b.rec"));

    let figures = works(dir, &["trace", "link.pcapng", "--json", "-o", "c.rec"]);
    assert_eq!(
        works(dir, &["run", "c.rec", "-o", "d.rec", "--json"]),
        figures
    );
    assert_eq!(analysed("c.rec"), analysed("d.rec"));

    let lines =
        (1..30).map(|n| format!("64 bytes from 192.0.2.1: icmp_seq={n} ttl=64 time={n}.0 ms\n"));
    let text = format!(
        "PING x (192.0.2.1) 56(84) bytes of data.\n{}",
        lines.collect::<String>()
    );
    std::fs::write(dir.join("ping.txt"), text).unwrap();
    let start = ["--start", "2026-05-04T15:55:00Z", "--interval", "2s"];
    works(
        dir,
        &[&["import", "ping.txt", "-o", "e.rec"][..], &start].concat(),
    );
    works(dir, &["run", "e.rec", "-o", "f.rec"]);
    assert_eq!(analysed("e.rec"), analysed("f.rec"));
    // A recording that is there already is left alone.
    assert_eq!(
        tailback(dir, &["run", "e.rec", "-o", "f.rec"])
            .status
            .code(),
        Some(3)
    );
}

#[test]
fn a_plan_in_a_file_is_what_print_plan_prints() {
    let scratch = TempDir::new("run-plan");
    let dir = &scratch;
    std::fs::write(dir.join("s.toml"), SCENARIO).unwrap();
    works(dir, &["sim", "s.toml", "-o", "a.rec"]);
    let plan = works(dir, &["run", "a.rec", "--print-plan"]);
    std::fs::write(dir.join("plan.json"), &plan).unwrap();
    assert_eq!(works(dir, &["run", "plan.json", "--print-plan"]), plan);
    assert_eq!(
        works(dir, &["run", "a.rec/meta.json", "--print-plan"]),
        plan
    );
    assert_eq!(
        works(dir, &["run", "plan.json", "--json"]),
        works(dir, &["run", "a.rec", "--json"])
    );
    let model = "{\"verb\":\"model\",\"plan\":{\"name\":\"mm1\",\"parameters\":[\"rate=10Mbit/s\",\"offered=8Mbit/s\"]}}";
    std::fs::write(dir.join("model.json"), model).unwrap();
    assert_eq!(
        works(dir, &["run", "model.json"]),
        works(dir, &["model", "mm1", "rate=10Mbit/s", "offered=8Mbit/s"])
    );
}

#[test]
fn what_is_no_plan_is_refused_with_code_2() {
    let scratch = TempDir::new("run-refused");
    let dir = &scratch;
    std::fs::write(
        dir.join("plan.json"),
        "{\"verb\":\"sim\",\"plan\":{\"wings\":2}}",
    )
    .unwrap();
    for args in [
        &["run", "plan.json"][..],
        &["run", "nothing.json"],
        &["run", "plan.json", "-o", "x"],
    ] {
        let out = tailback(dir, args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    }
}
