//! `tailback prove SERVER --on CMD --off CMD` over a link between namespaces, with the kernel's own shaper as the cure.

use live::emulate::{Emulation, FAR_V4, INTERFACE};
use serde_json::Value;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::networks::serve;
use testkit::{Program, TempDir, networks};

/// Commands that shape the near end below the link's rate, and note each call in a file.
struct Cure {
    on: String,
    off: String,
    log: String,
}

fn cure(dir: &TempDir, shaper: &str) -> Cure {
    let log = dir.at("log");
    Cure {
        on: format!("echo on >> {log}; {shaper}"),
        off: format!("echo off >> {log}; tc qdisc del dev {INTERFACE} root 2> /dev/null; true"),
        log,
    }
}

impl Cure {
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn shaper() -> String {
    format!("tc qdisc replace dev {INTERFACE} root tbf rate 1700kbit burst 3100 limit 9000")
}

fn line() -> Option<Emulation> {
    networks::line_of(
        "rate = \"2 Mbit/s\"\nqueue = \"fifo:bytes=100kB\"\ndelay = \"5 ms\"",
        "rate = \"8 Mbit/s\"\nqueue = \"fifo:bytes=40kB\"\ndelay = \"5 ms\"",
    )
}

fn start(line: &Emulation, dir: &TempDir, cure: &Cure, more: &[&str]) -> Child {
    let (far, output) = (FAR_V4.to_string(), dir.at("blocks"));
    let mut args = vec!["prove", &far, "--on", &cure.on, "--off", &cure.off];
    args.extend([
        "--load",
        "up",
        "--pairs",
        "6",
        "--block",
        "1s",
        "--wash-out",
        "600ms",
    ]);
    args.extend(["--flows", "2", "--budget", "60MB", "--json", "-o", &output]);
    args.extend(more);
    let mut command = Program::new(env!("CARGO_BIN_EXE_tailback")).command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    line.near().command(&mut command).spawn().expect("starts")
}

fn end(child: Child) -> (Output, String) {
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_shaper_of_the_kernel_is_proved_and_is_off_at_the_end() {
    testkit::real_time_beside(|| {
        let Some(line) = line() else { return };
        let _server = serve(&line);
        let dir = TempDir::new("prove-real");
        let cure = cure(&dir, &shaper());
        let (shown, _) = end(start(&line, &dir, &cure, &[]));
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(text.contains("Nothing has been run"), "{text}");
        assert!(cure.calls().is_empty(), "a dry run runs no command");

        let (output, said) = end(start(&line, &dir, &cure, &["--go"]));
        assert!(output.status.success(), "{said}");
        let proof: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(proof["verdict"], "helps", "{proof}");
        assert_eq!(proof["real_link"], true);
        assert!(proof["detectable"].as_f64().is_some(), "{proof}");
        let calls = cure.calls();
        assert_eq!(calls.first().map(String::as_str), Some("off"), "{calls:?}");
        assert_eq!(calls.last().map(String::as_str), Some("off"), "{calls:?}");
        assert_eq!(calls.iter().filter(|c| *c == "on").count(), 6, "{calls:?}");
    });
}

#[test]
fn the_cure_is_off_after_an_error_an_interrupt_and_a_kill() {
    testkit::real_time_beside(|| {
        let Some(line) = line() else { return };
        let _server = serve(&line);
        let broken = TempDir::new("prove-broken");
        let failing = cure(&broken, "false");
        let (output, said) = end(start(&line, &broken, &failing, &["--go"]));
        assert!(!output.status.success());
        assert!(said.contains("the command of --on failed"), "{said}");
        assert_eq!(failing.calls().last().map(String::as_str), Some("off"));

        for signal in ["INT", "KILL"] {
            let dir = TempDir::new("prove-ended");
            let cure = cure(&dir, &shaper());
            let child = start(&line, &dir, &cure, &["--go"]);
            until(|| cure.calls().iter().any(|c| c == "on"));
            let pid = child.id().to_string();
            let sent = std::process::Command::new("kill")
                .args(["-s", signal, &pid])
                .status();
            assert!(sent.expect("kill runs").success());
            let (output, said) = end(child);
            assert!(!output.status.success(), "{signal}: {said}");
            until(|| cure.calls().last().map(String::as_str) == Some("off"));
        }
    });
}
