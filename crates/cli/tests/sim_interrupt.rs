//! Ctrl-C in the middle of a sweep: what is done is shown, what is missing is named, and the exit code says so.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use testkit::TempDir;

/// One run of it is over at once, another would take days.
const SCENARIO: &str = r#"
    duration = "1 s"
    link = { rate = "100 Mbit/s", delay = "5 ms" }
    flow = [{ kind = "bulk", spread = "100 ms" }]
"#;

fn interrupted(scenario: &PathBuf, after: Duration) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("sim")
        .arg(scenario)
        .args([
            "--sweep",
            "duration=1 s,2 s,1000 h",
            "--seeds",
            "2",
            "--threads",
            "1",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tailback runs");
    std::thread::sleep(after);
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
    child.wait_with_output().expect("it ends")
}

#[test]
fn an_interrupted_sweep_shows_what_is_done_and_names_what_is_missing() {
    let dir = TempDir::new("interrupt");
    let scenario = dir.join("sweep.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    // A busy machine may need longer for what takes milliseconds.
    let waits = [500, 4000, 16_000].map(Duration::from_millis);
    let outputs = waits.map(|wait| move |scenario: &PathBuf| interrupted(scenario, wait));
    let done =
        |out: &Output| String::from_utf8_lossy(&out.stderr).contains("4 of 6 runs are complete");
    let mut out = outputs[0](&scenario);
    for again in &outputs[1..] {
        if !done(&out) {
            out = again(&scenario);
        }
    }
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(done(&out), "{error}");
    assert!(
        error.contains("missing: duration=1000 h (2 of 2 seeds)"),
        "{error}"
    );
    assert_eq!(out.status.code(), Some(3), "{error}");
    let table = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        table.contains("1 s") && table.contains("2 s") && !table.contains("1000 h"),
        "{table}"
    );
}
