//! A hub and an agent as processes: from the one-time code to recordings that `analyse` reads. Both are killed meanwhile.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use testkit::{Program, TempDir};

/// A test of an emulated link in virtual time, each four seconds, by up to three kinds of plan.
fn plan(dir: &TempDir) -> String {
    let template = dir.at("template.rec");
    let made = program().run(&[
        "test",
        "--link",
        "cable",
        "--virtual",
        "--seed",
        "3",
        "-o",
        &template,
    ]);
    assert!(made.status.success(), "{made:?}");
    let plan = program().json(&["run", &template, "--print-plan"]);
    let run = toml::Value::try_from(without_nulls(plan)).unwrap();
    let measurement = toml::toml! {
        name = "cable"
        every_s = 4
        at_most_s = 60
    };
    let mut measurement = toml::Value::Table(measurement);
    measurement
        .as_table_mut()
        .unwrap()
        .insert("run".into(), run);
    let mut plan = toml::Table::new();
    plan.insert("report_every_s".into(), 5.into());
    plan.insert("measurement".into(), vec![measurement].into());
    dir.file("plan.toml", plan.to_string())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, v)| !v.is_null());
            kept.map(|(k, v)| (k, without_nulls(v))).collect()
        }
        other => other,
    }
}

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Process that dies with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a hub, on a port that is free unless one is given; returns it with its address.
fn hub(data: &str, listen: &str) -> (Running, String) {
    let mut command = program().command(&["hub", "--data", data, "--listen", listen]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let (_, after) = line.split_once("hub at https://")?;
        Some(after.split_once(';')?.0.to_owned())
    });
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (Running(child), address.expect("the hub says its address"))
}

fn agent(data: &str, join: &[&str]) -> Running {
    let args = [&["agent", "--data", data][..], join].concat();
    let mut command = program().command(&args);
    Running(command.stderr(Stdio::null()).spawn().unwrap())
}

fn status(data: &str) -> Value {
    program().json(&["fleet", "status", "--data", data, "--json"])
}

/// Waits until the one point of the fleet has something.
#[track_caller]
fn wait(data: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let status = status(data);
        let point = status["points"][0].clone();
        if is_so(&point) {
            return point;
        }
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "not {what} after 90 s: {point}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_point_joins_measures_and_uploads_and_kills_of_both_lose_nothing() {
    let dir = TempDir::new("fleet");
    let (data, home) = (dir.at("hub"), dir.at("agent"));
    let plan = plan(&dir);
    let (first, address) = hub(&data, "127.0.0.1:0");
    let invited = program().run(&["hub", "invite", "--data", &data, "--name", "village-17"]);
    let code = String::from_utf8(invited.stdout).unwrap().trim().to_owned();
    assert!(
        program()
            .run(&["fleet", "plan", &plan, "--data", &data])
            .status
            .success()
    );
    let url = format!("https://{address}");
    let point = agent(&home, &["--join", &url, &code]);
    wait(&data, "two recordings", |p| {
        p["recordings"].as_u64() >= Some(2)
    });

    // The hub dies, the agent goes on; then the agent dies in the middle of something.
    drop(first);
    std::thread::sleep(Duration::from_secs(6));
    drop(point);
    let (_second, _) = hub(&data, &address);
    let before = status(&data)["points"][0]["recordings"].as_u64().unwrap();
    let mut point = agent(&home, &[]);
    wait(&data, "more recordings", |p| {
        p["recordings"].as_u64() > Some(before + 1)
    });

    // A stranger with the used code does not get in.
    let stranger = program().run(&[
        "agent",
        "--data",
        &dir.at("stranger"),
        "--join",
        &url,
        &code,
    ]);
    let said = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(
        !stranger.status.success() && said.contains("used"),
        "{said}"
    );

    // An orderly end: what was measured is uploaded, and the sums agree.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(point.0.id() as i32),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    assert!(point.0.wait().unwrap().success());
    let end = wait(&data, "all uploaded", |p| {
        p["rows_outstanding"] == 0 && p["spool_recordings"] == 0
    });
    assert_eq!(end["quarantined"], 0, "{end}");
    let sums: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&home).join("sums.json")).unwrap())
            .unwrap();
    assert_eq!(
        (&sums["recordings"], &sums["rows"]),
        (&end["recordings"], &end["rows"])
    );
    let stored: Vec<_> = std::fs::read_dir(format!("{data}/points/village-17"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(stored.len() as u64, end["recordings"].as_u64().unwrap());
    let answer = program().json(&["analyse", stored[0].to_str().unwrap(), "--json"]);
    assert!(answer.is_object());
}
