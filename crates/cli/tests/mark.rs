//! `tailback mark`: moments beside the writer of a recording, and where they are shown.

use analysis::moments::Moment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::TempDir;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

fn tailback(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("the program runs")
}

#[track_caller]
fn done(dir: &Path, args: &[&str]) -> String {
    let out = tailback(dir, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {said}");
    String::from_utf8(out.stdout).expect("text")
}

#[track_caller]
fn refused(dir: &Path, args: &[&str], because: &str) {
    let out = tailback(dir, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(because), "{args:?}: {said}");
}

/// Moments of a recording, as the command lists them.
fn moments(dir: &Path, recording: &str) -> Vec<Moment> {
    let text = done(dir, &["mark", recording, "--json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    serde_json::from_value(json["moments"].clone()).expect("moments")
}

fn texts(all: &[Moment]) -> Vec<&str> {
    all.iter().map(|m| m.text.as_str()).collect()
}

/// Recording of sixty probes from 2026-05-04 15:55:00 UTC, one a second.
fn recording(dir: &Path) {
    let line = |i: usize| {
        let ms = 10.0 + (i % 7) as f64;
        format!(
            "64 bytes from 192.0.2.1: icmp_seq={} ttl=64 time={ms} ms\n",
            i + 1
        )
    };
    let lines: String = (0..60).map(line).collect();
    let text = format!("PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n{lines}");
    std::fs::write(dir.join("ping.txt"), text).expect("a file");
    let start = ["--start", "2026-05-04T15:55:00Z", "--output", "i.rec"];
    done(dir, &[&["import", "ping.txt"][..], &start].concat());
}

#[test]
fn a_closed_recording_is_marked_at_a_time_and_every_picture_and_table_shows_it() {
    let dir = TempDir::new("mark");
    recording(&dir);
    refused(&dir, &["mark", "i.rec", "now"], "--at");
    for outside in ["2026-05-04T15:54:59Z", "2026-05-04T15:56:30Z"] {
        refused(
            &dir,
            &["mark", "i.rec", "x", "--at", outside],
            "the recording is from",
        );
    }
    refused(
        &dir,
        &["mark", "i.rec", " ", "--at", "2026-05-04T15:55:10Z"],
        "empty",
    );
    assert_eq!(done(&dir, &["mark", "i.rec"]), "No moment is marked.\n");
    let before = done(&dir, &["analyse", "i.rec", "--json"]);
    done(
        &dir,
        &[
            "mark",
            "i.rec",
            "call & <video> ends",
            "--at",
            "2026-05-04T15:55:40Z",
        ],
    );
    let at = ["--at", "2026-05-04T17:55:20", "--zone", "Europe/Oslo"];
    let listed = done(&dir, &[&["mark", "i.rec", "call begins"][..], &at].concat());
    assert!(listed.contains("2026-05-04 17:55:20"), "{listed}");
    let all = moments(&dir, "i.rec");
    assert_eq!(texts(&all), ["call begins", "call & <video> ends"]);
    assert_eq!(all[1].t_ns - all[0].t_ns, 20_000_000_000);

    let text = done(&dir, &["analyse", "i.rec", "--zone", "UTC"]);
    assert!(text.contains("2026-05-04 15:55:20: call begins"), "{text}");
    let csv = done(&dir, &["analyse", "i.rec", "--csv"]);
    assert!(csv.contains("moment,,,,,call begins"), "{csv}");
    // Figures are those without marks.
    let after = done(&dir, &["analyse", "i.rec", "--json"]);
    let [mut before, mut after] =
        [before, after].map(|t| serde_json::from_str::<Value>(&t).expect("JSON"));
    assert_eq!(after["moments"].as_array().map(Vec::len), Some(2));
    for v in [&mut before, &mut after] {
        v["moments"].take();
    }
    assert_eq!(before, after);

    for plot in ["rtt", "smoothed", "bounds", "smoke"] {
        let file = format!("{plot}.svg");
        done(&dir, &["report", "i.rec", "--plot", plot, "-o", &file]);
        let svg = std::fs::read_to_string(dir.join(&file)).expect("a plot");
        assert_eq!(svg.matches("class=\"moment\"").count(), 2, "{plot}");
        assert!(
            svg.contains(">call &amp; &lt;video&gt; ends</text>"),
            "{plot}"
        );
    }
    done(&dir, &["report", "i.rec", "-o", "page.html"]);
    let page = std::fs::read_to_string(dir.join("page.html")).expect("a page");
    assert!(page.contains("Marked moments") && page.contains("\"moments\":[{\"t_s\":20.0"));
    // A time range without them shows none.
    let late = ["--from", "2026-05-04T15:55:45Z", "-o", "late.svg"];
    done(&dir, &[&["report", "i.rec"][..], &late].concat());
    let svg = std::fs::read_to_string(dir.join("late.svg")).expect("a plot");
    assert!(!svg.contains("class=\"moment\""));
}

fn monitor(dir: &Path, more: &[&str]) -> Child {
    let args = [
        "monitor",
        "--interface",
        "lo",
        "tcp:127.0.0.1:9,100ms",
        "-o",
        "m.rec",
        "-q",
    ];
    let mut command = command(dir, &[&args[..], more].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.expect("the monitor starts")
}

/// Waits until the recording exists and its monitor writes it.
fn wait_for_writer(path: &Path) {
    let began = Instant::now();
    while store::Lock::held_by(path).is_none() || store::read_meta(path).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "no recording");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends a monitor, and waits for it.
fn end(mut child: Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    assert!(child.wait().expect("its end").success());
}

#[test]
fn a_monitor_is_marked_while_it_writes_by_hand_and_by_commands() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("mark-monitor");
        let own = "echo from the monitor; printf 'a\\033[2Jb\\n'";
        let child = monitor(&dir, &["--mark-on", own]);
        wait_for_writer(&dir.join("m.rec"));
        done(&dir, &["mark", "m.rec", "by hand"]);
        let two = "echo one; echo; sleep 0.3; echo two";
        done(&dir, &["mark", "m.rec", "--mark-on", two]);
        // Two processes at once.
        let start = |text: &str| {
            let mut command = command(&dir, &["mark", "m.rec", text]);
            command.stdout(Stdio::null()).spawn().expect("it starts")
        };
        for mut one in ["p", "q"].map(start) {
            assert!(one.wait().expect("its end").success());
        }
        let out = tailback(&dir, &["mark", "m.rec", "--mark-on", "echo last; exit 4"]);
        assert_eq!(
            out.status.code(),
            Some(3),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let began = Instant::now();
        while moments(&dir, "m.rec").len() < 8 {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{:?}",
                moments(&dir, "m.rec")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        end(child);

        let all = moments(&dir, "m.rec");
        let mut found = texts(&all);
        found.sort_unstable();
        let expected = [
            "a\\u{1b}[2Jb",
            "by hand",
            "from the monitor",
            "last",
            "one",
            "p",
            "q",
            "two",
        ];
        assert_eq!(found, expected);
        let at = |text: &str| all.iter().find(|m| m.text == text).expect("it").t_ns;
        assert!(at("two") - at("one") >= 300_000_000, "{all:?}");

        // The next start continues the recording, with all of its moments.
        let before = store::read(dir.join("m.rec"))
            .expect("readable")
            .event
            .len();
        let next = monitor(&dir, &["--duration", "1 s"]).wait();
        assert!(next.expect("its end").success());
        let after = store::read(dir.join("m.rec")).expect("readable");
        assert!(after.event.len() > before && after.meta.complete);
        assert_eq!(moments(&dir, "m.rec"), all);
    });
}
