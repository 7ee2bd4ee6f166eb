//! `tailback probe` as a user runs it, over an emulated line with the kernel's own packets.

use serde_json::Value;
use std::process::{Command, Output};
use testkit::answer::figure;
use testkit::{Program, TempDir};

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

fn run(args: &[&str]) -> Output {
    program().run(args)
}

fn program() -> Program {
    Program::new(TAILBACK)
}

fn can_emulate() -> bool {
    program().can_emulate()
}

/// Gao 2012, chapter 5: 51 packets of 1452 bytes over IPv6.
#[test]
fn the_documents_burst_is_found_recorded_and_answered_again_from_the_recording() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let dir = TempDir::new("probe");
        let rec = dir.join("burst.rec");
        let rec = rec.to_str().expect("a plain path");
        let out = run(&[
            "probe",
            "burst:size=1452,repeats=1",
            "-6",
            "--link",
            "shdsl",
            "--json",
            "-o",
            rec,
        ]);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        assert_eq!(figure(&answer, "burst_packets"), 51.0);
        assert_eq!(figure(&answer, "two_senders_packets"), 25.0);
        assert_eq!(answer["complete"], true);
        let again = run(&["analyse", "--json", rec]);
        let again: Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
        assert_eq!(again["figures"], answer["figures"]);
        let page = std::fs::read_to_string(dir.join("burst.rec/report.html")).expect("a page");
        assert!(page.contains("51 datagrams of 1452 bytes"));
        let svg = dir.join("burst.svg");
        let drawn = run(&["report", rec, "-o", svg.to_str().expect("a plain path")]);
        assert!(drawn.status.success());
        let picture = std::fs::read_to_string(&svg).expect("a picture");
        let plots = answer["plots"].as_array().expect("plots");
        for p in plots {
            let title = p["title"].as_str().expect("a title");
            assert!(picture.contains(title), "{title} is drawn");
        }
    });
}

/// Datagrams of more than 2300 bytes arrived as none at all: the receiving host had no room for what lacked a piece.
#[test]
fn sizes_counts_large_datagrams_although_the_receiving_kernel_keeps_what_is_incomplete() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("sizes");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "sizes:step=500,to=2600,hold=200ms",
            "--link",
            "shdsl",
            "--set",
            "up.rate=20 Mbit/s",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        assert_eq!(figure(&answer, "first_edge_bytes"), 1472.0);
        assert_eq!(figure(&answer, "path_mtu_bytes"), 1500.0);
        // Of two pieces the second is lost first, but where sender and line leave each other time some get through whole.
        let rows = answer["tables"][0]["rows"].as_array().expect("sizes");
        let brings = |size: &str| -> f64 {
            let row = rows.iter().find(|r| r[0] == size).expect("it was held");
            row[2]
                .as_str()
                .and_then(|t| t.parse().ok())
                .expect("a rate")
        };
        assert!(brings("1473") < 0.5 * brings("1472"), "{rows:?}");
        assert!(brings("2550") > 0.2 * brings("1472"), "{rows:?}");
        assert!(
            figure(&answer, "first_fragments_arrived")
                > figure(&answer, "second_fragments_arrived") + 0.2,
            "{answer}"
        );
    });
}

/// Half of the line is others', sent by another thread of this very machine.
#[test]
fn capacity_tells_what_others_leave_free_of_an_emulated_line() {
    testkit::real_time(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("capacity");
        let dir = scratch.join("probe.rec");
        let try_once = || -> Value {
            let out = run(&[
                "probe",
                "capacity",
                "--link",
                "fiber",
                "--set",
                "up.rate=20 Mbit/s",
                "--set",
                "up.queue=fifo:packets=100",
                "--others",
                "10 Mbit/s",
                "--json",
                "-o",
                dir.to_str().expect("a plain path"),
            ]);
            let told = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{told}");
            std::fs::remove_dir_all(&dir).expect("the recording can go");
            serde_json::from_slice(&out.stdout).expect("it is JSON")
        };
        // A machine that was too busy to emulate the line, or to send others' packets when they were due, says so or has no
        // figure: that is right of it, and no test of the method. A wrong figure without a doubt is one.
        let doubted = |answer: &Value| {
            let figures = answer["figures"].as_array().expect("figures");
            let mut absent = figures.iter().filter(|f| {
                f["figure"]["cannot_tell"].is_string()
                    && ["capacity_bps", "available_bps"]
                        .iter()
                        .any(|k| f["key"] == *k)
            });
            let doubts = answer["doubts"].as_array().expect("doubts");
            let busy = |d: &Value| d.as_str().is_some_and(|d| d.starts_with("emulator:"));
            absent.next().is_some() || doubts.iter().any(busy)
        };
        let mut answer = try_once();
        for _ in 0..4 {
            if !doubted(&answer) {
                break;
            }
            answer = try_once();
        }
        let capacity = figure(&answer, "capacity_bps");
        assert!((capacity - 20e6).abs() < 1e6, "{capacity}");
        // docs/book/probe/accuracy.md has how near it comes on a quiet machine.
        let free = figure(&answer, "available_bps");
        assert!((7e6..13e6).contains(&free), "{free}");
    });
}

/// Table 5.2.1 of Chandele 2012 has files sent with segmentation offload and without.
#[test]
fn tcp_compares_transfers_with_offload_and_without_it() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("offload");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "tcp:control=cubic,size=400 kB,repeats=2,offload=both",
            "--link",
            "fiber",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        for key in ["cubic_offloadon_bps", "cubic_offloadoff_bps"] {
            let rate = figure(&answer, key);
            assert!((1e6..60e6).contains(&rate), "{key}: {rate}");
        }
        let columns = answer["tables"][0]["columns"].as_array().expect("columns");
        for part in ["offload on: kB/s", "offload off: kB/s"] {
            assert!(columns.iter().any(|c| c == part), "{part}: {columns:?}");
        }
    });
}

/// The emulated link has a queue of 430 ms at 0.7 Mbit/s, and a packet takes 17 ms.
#[test]
fn a_file_below_the_rate_of_a_link_leaves_its_queue_empty() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("shaping");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "shaping:time=4 s,repeats=2,share=85",
            "--link",
            "adsl",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let of = |key: &str| figure(&answer, key);
        assert!(
            (300.0..480.0).contains(&of("continuous_wait_ms")),
            "{answer}"
        );
        assert!(of("shaped_wait_ms") < 60.0, "{answer}");
        assert!((1.1..1.25).contains(&of("shaped_ratio")), "{answer}");
        assert!(of("intermittent_ratio") > 1.1, "{answer}");
    });
}

/// Chandele 2012 downloads: the server is the sender, whose controller and initial window are those of the far end.
#[test]
fn tcp_downloads_with_the_controller_and_the_window_that_the_server_was_told() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("down");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "tcp:direction=both,control=reno,size=80 kB,repeats=2,window=3; 10",
            "--link",
            "fiber",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let recording = store::read(&dir).expect("it can be read");
        let events = recording.event.iter().filter(|e| &*e.kind == "tcp");
        let transfers: Vec<(i64, Value)> = events
            .filter_map(|e| {
                Some((
                    e.subject.parse().ok()?,
                    serde_json::from_str(&e.detail).ok()?,
                ))
            })
            .collect();
        assert_eq!(transfers.len(), 8, "{transfers:?}");
        for (number, t) in &transfers {
            // The answers before the data may have opened it by two.
            let asked = t["asked_window_packets"].as_u64().expect("a number");
            let window = t["window_packets"].as_u64().expect("a number");
            assert!((asked..=asked + 2).contains(&window), "{t}");
            assert_eq!(t["congestion"], "reno", "{t}");
            assert!(t["took_ns"].is_i64() && t["retransmits"].is_u64(), "{t}");
            let of_sender = |f: &&base::record::Flow| f.flow == *number && f.cwnd_bytes.is_some();
            let sampled = recording.flow.iter().filter(of_sender).count();
            assert!(sampled >= 2, "{sampled} of {t}");
        }
        for key in [
            "reno_window3_bps",
            "reno_down_window3_bps",
            "reno_down_window10_srtt_ms",
        ] {
            assert!(figure(&answer, key) > 0.0, "{key}");
        }
        // Two round trips fewer.
        assert!(
            figure(&answer, "reno_down_window10_bps")
                > 1.1 * figure(&answer, "reno_down_window3_bps"),
            "{answer}"
        );
        let titles: Vec<&str> = answer["tables"]
            .as_array()
            .expect("tables")
            .iter()
            .filter_map(|t| t["title"].as_str())
            .collect();
        assert!(titles[0].starts_with("Uploads") && titles[1].starts_with("Downloads"));
    });
}

/// BFind is what packets wait while TCP keeps the queue, which is less than what fits: the emulator knows how much.
#[test]
fn path_under_load_less_at_rest_is_what_packets_waited_in_the_queue_meanwhile() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("bfind");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "path:load=up,idle=6s,hold=12s",
            "--link",
            "shdsl",
            "--set",
            "up.rate=2 Mbit/s",
            "--set",
            "up.queue=fifo:packets=40",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let recording = store::read(&dir).expect("it can be read");
        let phase = |name: &str| {
            let mut all = recording.event.iter();
            let found = all.find(|e| &*e.kind == "phase" && &*e.subject == name);
            found.expect("the phase was noted").t_ns
        };
        let (from, second) = (phase("up"), 1_000_000_000);
        let during = from + second..from + 12 * second;
        let mut waits: Vec<i64> = recording
            .queue
            .iter()
            .filter(|q| &*q.queue == "up" && during.contains(&q.t_ns))
            .filter_map(|q| q.sojourn_ns)
            .collect();
        waits.sort_unstable();
        let truth = waits[waits.len() / 2] as f64 * 1e-6;
        let found = figure(&answer, "added_up_ms");
        assert!((found - truth).abs() < 0.1 * truth, "{found} of {truth}");
    });
}

/// BFind over the day: several runs by themselves, and what they have in common.
#[test]
fn a_kind_runs_again_and_again_and_its_recordings_have_statistics() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let dir = TempDir::new("again");
        let out = Command::new(TAILBACK)
            .args(["probe", "rtt:count=3,interval=20ms", "--link", "shdsl"])
            .args(["--every", "100 ms", "--times", "6", "--plain"])
            .current_dir(&dir)
            .output()
            .expect("tailback runs");
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let all = std::fs::read_dir(&dir).expect("the directory is there");
        let recordings: Vec<String> = all
            .map(|e| e.expect("an entry").path().display().to_string())
            .collect();
        assert_eq!(recordings.len(), 6, "{recordings:?}");
        let mut args = vec!["analyse"];
        args.extend(recordings.iter().map(String::as_str));
        let out = run(&args);
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        for part in ["Figures of 6 recordings", "6 of 6", "deviation", "median"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    });
}

#[test]
fn a_wrong_kind_or_parameter_is_answered_with_the_known_ones_and_the_help_teaches_them() {
    for (kind, part) in [
        ("swep", "Did you mean \"sweep\""),
        ("sweep:sise=3", "Did you mean \"size\""),
        ("sweep:size=10", "out of range"),
    ] {
        let out = run(&["probe", kind, "far.example"]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{told}");
        assert!(told.contains(part), "{kind}: {told}");
    }
    let help = String::from_utf8_lossy(&run(&["probe", "--help"]).stdout).into_owned();
    // Long lines are wrapped.
    let help: Vec<&str> = help.split_whitespace().collect();
    for spec in experiment::PROBES {
        let asks: Vec<&str> = spec.entry.summary.split_whitespace().collect();
        let found = help.windows(asks.len()).any(|w| w == asks);
        assert!(found, "{}", spec.entry.name);
    }
}

/// A chain of three links with a router between each: the second is the slow one.
#[test]
fn path_finds_the_hop_of_a_routed_chain_at_which_packets_wait() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let dir = TempDir::new("path");
        let run_of = |name: &str, hop: &str| -> Value {
            let rec = dir.join(name);
            let rate = format!("{hop}.up.rate=2 Mbit/s");
            let queue = format!("{hop}.up.queue=fifo:packets=40");
            let out = run(&[
                "probe",
                "path:load=up,idle=6s,hold=9s",
                "--link",
                "fiber,fiber,fiber",
                "--set",
                &rate,
                "--set",
                &queue,
                "--json",
                "-o",
                rec.to_str().expect("a plain path"),
            ]);
            let told = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{told}");
            serde_json::from_slice(&out.stdout).expect("it is JSON")
        };
        let answer = run_of("second.rec", "hop2");
        assert_eq!(figure(&answer, "queue_hop_up"), 2.0, "{answer}");
        // 40 packets of 1500 bytes at 2 Mbit/s are 240 ms.
        let waits = figure(&answer, "queue_up_ms");
        assert!((120.0..290.0).contains(&waits), "{waits}");
        assert!(figure(&answer, "second_hop_up_ms") > 3.0 * figure(&answer, "first_hop_up_ms"));
        let hops = answer["tables"][0]["rows"].as_array().expect("hops");
        let addresses: Vec<&str> = hops.iter().filter_map(|r| r[1].as_str()).collect();
        assert_eq!(
            addresses,
            ["10.77.1.1", "10.77.2.1", "10.77.0.2", "10.77.0.2"]
        );
        let rec = dir.join("second.rec");
        let rec = rec.to_str().expect("a plain path");
        let both = run(&["analyse", rec, rec]);
        let both = String::from_utf8_lossy(&both.stdout).into_owned();
        assert!(both.contains("the paths are the same"), "{both}");
    });
}

/// Fibre of 20 ms, and 19 ms of ADSL behind the gateway.
#[test]
fn path_tells_the_gateways_share_of_the_way_to_every_landmark() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = TempDir::new("landmarks");
        let dir = scratch.join("probe.rec");
        let out = run(&[
            "probe",
            "path:load=none,idle=6s,landmarks=10.77.1.1;10.77.0.2",
            "--link",
            "fiber,adsl",
            "--json",
            "-o",
            dir.to_str().expect("a plain path"),
        ]);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let near = figure(&answer, "landmark1_ms");
        let far = figure(&answer, "landmark2_ms");
        assert!((19.0..30.0).contains(&near), "{near}");
        assert!((38.0..60.0).contains(&far), "{far}");
        let rows = answer["tables"][1]["rows"].as_array().expect("rows");
        let cell = |row: usize, column: usize| rows[row][column].as_str().expect("a cell");
        let hosts: Vec<&str> = (0..rows.len()).map(|i| cell(i, 0)).collect();
        assert_eq!(
            hosts,
            ["the gateway", "the server", "10.77.1.1", "10.77.0.2"]
        );
        assert_eq!(cell(0, 1), "10.77.1.1");
        let share = |row: usize| -> f64 {
            let percent = cell(row, 5).split(' ').next();
            percent.and_then(|p| p.parse().ok()).expect("a share")
        };
        // All of the way to itself, and half of the way to the other end.
        assert!((80.0..120.0).contains(&share(2)), "{answer}");
        assert!((40.0..63.0).contains(&share(3)), "{answer}");
    });
}
