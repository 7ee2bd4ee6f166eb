//! `tailback twin`, `whatif` and `prove` through the binary, in virtual time.

use serde_json::Value;
use std::path::Path;
use testkit::{Program, TempDir};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

fn recorded(dir: &TempDir, link: &str, set: &str) -> String {
    let path = dir.at("test.rec");
    let output = program().run(&[
        "test",
        "--link",
        link,
        "--set",
        set,
        "--virtual",
        "--seed",
        "5",
        "-o",
        &path,
    ]);
    assert!(output.status.success(), "{output:?}");
    path
}

fn value(figure: &Value) -> f64 {
    figure["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("no figure: {figure}"))
}

#[test]
fn a_test_in_virtual_time_gets_a_twin_that_knows_the_link() {
    let dir = TempDir::new("twin");
    let path = recorded(&dir, "cable", "up.queue=fifo:packets=200");
    let twin = program().json(&["twin", &path, "--json"]);
    assert_eq!(twin["trust"], "agrees", "{}", twin["because"]);
    let truth = link::LinkSpec::named("cable").unwrap();
    for (direction, spec) in [("up", &truth.up), ("down", &truth.down)] {
        let rate = spec.params().unwrap().ip_rate(base::Bytes::new(1500)).get() as f64;
        let fitted = value(&twin[direction]["rate_bps"]);
        assert!(
            (fitted / rate - 1.0).abs() < 0.01,
            "{direction}: {fitted} {rate}"
        );
    }
    let buffer = value(&twin["up"]["buffer_bytes"]);
    assert!((buffer / 300_000.0 - 1.0).abs() < 0.02, "{buffer}");
    // The link file is one that every verb takes.
    let file = Path::new(&path).join("twin.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(link::LinkSpec::parse(&text).is_ok(), "{text}");
    let other = program().run(&["twin", &path, "--link", "cable", "--set", "up.queue=pie"]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
}

#[test]
fn a_twin_is_exported_to_other_emulators_with_its_rate() {
    let dir = TempDir::new("export");
    let path = recorded(&dir, "shdsl", "up.rate=3mbit");
    let files = dir.at("files");
    let twin = program().json(&["twin", &path, "--export", &files, "--json"]);
    let read = |name: &str| std::fs::read_to_string(Path::new(&files).join(name)).unwrap();
    let trace = link::rate::Trace::parse(&read("up.trace")).unwrap();
    let seconds = *trace.millis().last().unwrap() as f64 / 1e3;
    let told = trace.millis().len() as f64 * 1504.0 * 8.0 / seconds;
    let fitted = value(&twin["up"]["rate_bps"]);
    assert!((told / fitted - 1.0).abs() < 1e-3, "{told} {fitted}");
    for script in ["mahimahi.sh", "tc-up.sh", "tc-down.sh"] {
        let file = Path::new(&files).join(script);
        let status = std::process::Command::new("sh")
            .arg("-n")
            .arg(&file)
            .status();
        assert!(status.unwrap().success(), "{}", read(script));
    }
    assert!(read("tc-up.sh").contains("tbf rate"));
}

#[test]
fn cures_are_ranked_and_the_best_is_proved() {
    let dir = TempDir::new("whatif");
    let path = recorded(&dir, "adsl", "up.queue=fifo:packets=40");
    let began = std::time::Instant::now();
    let answer = program().json(&["whatif", &path, "--for", "gaming", "--json"]);
    println!("whatif took {:.1} s", began.elapsed().as_secs_f64());
    let tried = answer["tried"].as_array().unwrap();
    assert!(tried.len() >= 12);
    assert_eq!(answer["seeds"], 30);
    let place = |cure: &str| {
        let found = tried.iter().position(|t| t["cure"] == cure);
        found.unwrap_or_else(|| panic!("{cure} was not tried"))
    };
    let shaped = place("shaper=fq_codel:95%");
    assert!(shaped < place("as it is"));
    assert!(value(&tried[shaped]["added_p95_ms"]) < 120.0);
    assert!(value(&tried[place("as it is")]["added_p95_ms"]) > 180.0);
    let proof = program().json(&[
        "prove",
        &path,
        "--cure",
        "up.shaper=fq_codel:95%",
        "--virtual",
        "--json",
    ]);
    assert_eq!(proof["verdict"], "helps", "{proof}");
    let none = program().json(&[
        "prove",
        "adsl",
        "--cure",
        "up.shaper=fifo:1000mbit",
        "--virtual",
        "--json",
    ]);
    assert_eq!(none["verdict"], "no_difference_shown", "{none}");
}

#[test]
fn pages_draw_the_twin_the_cures_and_the_proof() {
    let dir = TempDir::new("pages");
    let path = recorded(&dir, "adsl", "up.queue=fifo:packets=40");
    let page = |args: &[&str]| {
        let file = dir.at("page.html");
        let output = program().run(&[args, &["--page", &file]].concat());
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(&file).unwrap()
    };
    let twin = page(&["twin", &path]);
    // Two plots for each of up, down, and both in each direction.
    assert_eq!(twin.matches("<svg").count(), 8);
    assert!(twin.contains("Waits over time"));
    let cures = ["whatif", "adsl", "--seeds", "3", "--cure"];
    let cures = page(&[&cures[..], &["up.shaper=fq_codel:95%"]].concat());
    assert_eq!(cures.matches("<svg").count(), 1);
    assert!(
        cures.contains("B: up.shaper=fq_codel:95%") || cures.contains("A: up.shaper=fq_codel:95%")
    );
    let cure = [
        "--cure",
        "up.shaper=fq_codel:95%",
        "--pairs",
        "6",
        "--virtual",
    ];
    let proof = page(&[&["prove", "adsl"], &cure[..]].concat());
    assert_eq!(proof.matches("<svg").count(), 1);
    assert!(proof.contains("helps by"), "{proof}");
    for page in [twin, cures, proof] {
        assert!(!page.contains("<script"), "a page of figures needs none");
    }
}

#[test]
fn a_recording_without_a_twin_is_refused_with_what_to_record() {
    let dir = TempDir::new("no-twin");
    let refused = |args: &[&str]| {
        let output = program().run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let half = dir.at("half.rec");
    let args = [
        "test",
        "--link",
        "adsl",
        "--virtual",
        "--phases",
        "idle,down",
        "-o",
        &half,
    ];
    assert!(program().run(&args).status.success());
    assert!(refused(&["twin", &half]).contains("no phase loads the uplink alone"));
    let probe = dir.at("probe.rec");
    let args = ["probe", "rtt", "--link", "adsl", "--virtual", "-o", &probe];
    assert!(program().run(&args).status.success());
    assert!(refused(&["whatif", &probe]).contains("needs a recording of `tailback test`"));
    assert!(refused(&["whatif", "adsl", "--cure", "up.shaper=caek:1mbit"]).contains("cake"));
    assert!(
        refused(&[
            "prove",
            "adsl",
            "--cure",
            "best",
            "--pairs",
            "5",
            "--virtual"
        ])
        .contains("6 pairs")
    );
    let unrun = ["prove", "far.example", "--on", "true", "--off", "true"];
    assert!(refused(&[&unrun[..], &["--page", "x.html"]].concat()).contains("--go"));
    assert!(refused(&["whatif", "no-such-link"]).contains("no link \"no-such-link\""));
}
