//! `tailback monitor`: the state of a modem and of radios beside the data, and commands that misbehave.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::TempDir;

fn tailback(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.output().expect("the program runs")
}

/// Monitors loopback for four seconds with a command; gives the analysis and what the monitor told.
fn monitored(dir: &Path, modem: &str) -> (Value, String) {
    let args = ["monitor", "--interface", "lo", "--duration", "4s"];
    let more = ["--modem-cmd", modem, "--modem-every", "1s", "-o", "m.rec"];
    let out = tailback(dir, &[&args[..], &more].concat());
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{modem}: {told}");
    let out = tailback(dir, &["analyse", "m.rec", "--json"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    (serde_json::from_slice(&out.stdout).expect("JSON"), told)
}

#[test]
fn rates_margins_and_errors_stand_beside_the_traffic() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("modem");
        let modem = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 5)) > n; \
            echo rate_down=17.5 Mbit/s; echo \"{\\\"margin_down\\\": 9.5, \\\"crc_down\\\": $n}\"";
        let (answer, told) = monitored(&dir, modem);
        let m = &answer["modem"];
        assert!(m["readings"].as_u64().is_some_and(|n| n >= 3), "{m} {told}");
        assert_eq!(m["rate_down_bps"]["last"], 17_500_000.0);
        assert_eq!(m["margin_down_db"]["least"], 9.5);
        let (counted, seconds) = (&m["crc_down"]["counted"], &m["crc_down"]["seconds"]);
        let readings = m["readings"].as_u64().expect("a number");
        assert_eq!(counted.as_u64(), Some(5 * (readings - 1)), "{m}");
        let seconds = seconds.as_f64().expect("a number");
        assert!((seconds - (readings - 1) as f64).abs() < 0.7, "{m}");
        assert!(m["rate_up_bps"].is_null() && m["fec_up"].is_null());
        let text = tailback(&dir, &["analyse", "m.rec"]).stdout;
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains("17.5 Mbit/s") && text.contains("CRC down"),
            "{text}"
        );
        let drawn = tailback(&dir, &["report", "m.rec", "--plot", "modem", "-o", "m.svg"]);
        assert!(drawn.status.success());
        let svg = std::fs::read_to_string(dir.join("m.svg")).expect("a plot");
        assert!(svg.contains("Noise margin, dB") && svg.contains("Errors a minute"));
    });
}

/// A program in place of ModemManager's `mmcli` prints what version 1.20.4 printed, with another cell every second time.
#[test]
fn signal_and_handovers_of_a_modem_stand_beside_the_probes() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("radio");
        let printed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../analysis/src/radio/mmcli.txt"
        );
        let script = format!(
            "#!/bin/sh\n\
             case $1 in\n\
             -L) echo 'modem-list.value[1] : /org/freedesktop/ModemManager1/Modem/8';;\n\
             -m) [ \"$3\" = -K ] || exit 0\n\
             n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n\n\
             sed \"s/wwan0/lo/; s/-101.00/-10$((n % 3)).00/; s/0001A2B3/0001A2B$((n / 2))/\" {printed}; echo $((n / 2)) >> told;;\n\
             esac\n"
        );
        std::fs::create_dir(dir.join("bin")).expect("a directory");
        let program = dir.join("bin/mmcli");
        std::fs::write(&program, script).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its mode");
        let path = format!(
            "{}:{}",
            dir.join("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
        command.args(["monitor", "icmp:127.0.0.1", "--interface", "lo"]);
        command.args(["--radio-every", "1s", "--duration", "8s", "-o", "m.rec"]);
        command
            .current_dir(&*dir)
            .env("PATH", path)
            .stdin(Stdio::null());
        let out = command.output().expect("the program runs");
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let out = tailback(&dir, &["analyse", "m.rec", "--json"]);
        let answer: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let radio = &answer["radios"][0];
        assert_eq!(radio["interface"], "lo", "{answer}");
        assert_eq!(radio["signal"]["measure"], "rsrp");
        let [least, most] = ["least", "most"].map(|p| radio["signal"][p].as_f64());
        assert_eq!((least, most), (Some(-102.0), Some(-100.0)), "{radio}");
        let [readings, handovers, cells] =
            ["readings", "handovers", "cells"].map(|k| radio[k].as_u64().expect("a number"));
        // A call that came to nothing moves the program on, so its own list of cells is the truth. The end of the monitor may have
        // come between its last answer and the row of that.
        let told = std::fs::read_to_string(dir.join("told")).expect("a list");
        let told: Vec<&str> = told.lines().collect();
        let different = |all: &[&str]| {
            let different: std::collections::BTreeSet<&&str> = all.iter().collect();
            different.len() as u64
        };
        assert!(readings >= 5, "{radio}");
        let possible = [different(&told), different(&told[..told.len() - 1])];
        assert!(possible.contains(&cells), "{told:?} {radio}");
        assert_eq!(handovers, cells - 1, "{radio}");
        assert_eq!(radio["operators"][0], "TheOperator");
        assert_eq!(radio["beside"][0]["target"], "icmp:127.0.0.1", "{radio}");
        let text = tailback(&dir, &["analyse", "m.rec"]).stdout;
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains("RSRP, dBm") && text.contains("lte+5gnr 100 %."),
            "{text}"
        );
        let drawn = tailback(&dir, &["report", "m.rec", "--plot", "radio", "-o", "m.svg"]);
        assert!(drawn.status.success());
        let svg = std::fs::read_to_string(dir.join("m.svg")).expect("a plot");
        assert!(svg.contains("Signal, dBm") && svg.contains("handover"));
    });
}

#[test]
fn a_command_that_misbehaves_is_told_and_the_monitor_goes_on() {
    testkit::real_time_beside(|| {
        for (modem, because) in [
            ("yes", "more than 64 lines"),
            ("exit 3", "exit status: 3"),
            ("printf 'rate_down=\\033[31m9\\n'", "must be a rate"),
            ("head -c 100000 /dev/zero | tr '\\0' x", "no key=value"),
        ] {
            let dir = TempDir::new("modem-bad");
            let (answer, told) = monitored(&dir, modem);
            assert!(told.contains(because), "{modem}: {told}");
            assert!(!told.contains('\u{1b}'), "{modem}: {told:?}");
            assert_eq!(
                told.matches(because).count(),
                1,
                "{modem}: told once: {told}"
            );
            assert!(answer["modem"].is_null(), "{modem}: {answer}");
        }
    });
}
