//! `tailback test --load-from`: a second machine behind the same link makes the loads. A script stands for ssh(1), and runs
//! the program in the namespace of that machine.

use crate::doubles::network::sh;
use crate::doubles::{TAILBACK, line_with, serve};
use live::emulate::{Emulation, FAR_V4, NEAR_V4};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output};
use testkit::{Program, TempDir};

/// Second machine: a process that keeps its namespace.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Puts the second machine behind the near end, which forwards its packets over the same link.
fn second(line: &Emulation) -> Second {
    let mut sleep = Command::new("unshare");
    sleep.args(["--net", "sleep", "600"]);
    let second = Second(sleep.spawn().expect("unshare(1)"));
    let pid = second.0.id();
    // The namespace is there a moment after the process.
    let own = || std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("it runs");
    while own() == std::fs::read_link("/proc/self/ns/net").expect("ours") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let inside = format!("nsenter --net=/proc/{pid}/ns/net");
    sh(
        line.near(),
        &format!(
            "ip link add lan0 type veth peer name eth0 netns {pid} &&
             ip addr add 10.78.0.1/24 dev lan0 && ip link set lan0 up &&
             echo 1 > /proc/sys/net/ipv4/ip_forward &&
             {inside} ip addr add 10.78.0.2/24 dev eth0 && {inside} ip link set eth0 up &&
             {inside} ip route add default via 10.78.0.1"
        ),
    );
    sh(
        line.far(),
        &format!("ip route add 10.78.0.0/24 via {NEAR_V4}"),
    );
    second
}

fn test(line: &Emulation, dir: &TempDir, ssh: &str) -> (Output, String) {
    let script = dir.join("ssh");
    std::fs::write(&script, ssh).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its rights");
    let far = FAR_V4.to_string();
    let mut command = Program::new(TAILBACK).within(dir).command(&[
        "test",
        &far,
        "--load-from",
        "laptop",
        "--phases",
        "idle,down,up",
        "--longest",
        "6s",
        "--json",
        "-o",
        "t.rec",
    ]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", dir.display()));
    let out = line.near().command(&mut command).output();
    let out = out.expect("tailback runs");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    (out, told)
}

#[test]
fn the_second_machine_loads_the_link_and_the_figures_are_those_of_the_link() {
    testkit::real_time_beside(|| {
        let (up, down) = (
            ("4 Mbit/s", "fifo:bytes=60kB"),
            ("16 Mbit/s", "fifo:bytes=160kB"),
        );
        let Some(line) = line_with(5, up, down) else {
            return;
        };
        let (dir, server, second) = (TempDir::new("lent"), serve(&line), second(&line));
        let pid = second.0.id();
        let ssh = format!(
            "#!/bin/sh\nwhile [ \"$1\" != tailback ]; do shift; done\nshift\nexec nsenter --net=/proc/{pid}/ns/net {TAILBACK} \"$@\"\n"
        );
        let (out, told) = test(&line, &dir, &ssh);
        assert!(out.status.success(), "{told}");
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        for (direction, rate, queue_ms) in [("up", 4.0, 120.0), ("down", 16.0, 80.0)] {
            let of = &answer[direction];
            let mbit = of["goodput_bps"]["value"].as_f64().expect("a rate") / 1e6;
            assert!((0.85 * rate..rate).contains(&mbit), "{direction}: {mbit}");
            let added = of["added"]["p95_ms"]["value"].as_f64().expect("a delay");
            assert!(
                (0.5 * queue_ms..1.2 * queue_ms).contains(&added),
                "{direction}: {added}"
            );
        }
        // The loads left the second machine, and not this one.
        let counters = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("counters");
        let sent = counters
            .lines()
            .find(|l| l.trim().starts_with("eth0:"))
            .expect("eth0");
        let sent: u64 = sent
            .split_whitespace()
            .nth(9)
            .and_then(|n| n.parse().ok())
            .expect("a count");
        assert!(sent > 1_500_000, "{sent}");
        let recording = store::read(dir.join("t.rec")).expect("a recording");
        let (first, last) = (
            recording.meta.started_ns,
            recording.meta.ended_ns.expect("an end"),
        );
        assert!(
            recording
                .flow
                .iter()
                .all(|f| (first..=last).contains(&f.t_ns))
        );
        drop((server, second));
    });
}

#[test]
fn a_second_machine_that_fails_is_told_with_its_reason() {
    testkit::real_time_beside(|| {
        let Some(line) = crate::doubles::line(2) else {
            return;
        };
        let (dir, server) = (TempDir::new("lent"), serve(&line));
        let (out, told) = test(&line, &dir, "#!/bin/sh\necho no such host >&2\nexit 255\n");
        assert_eq!(out.status.code(), Some(3), "{told}");
        assert!(
            told.contains("no such host") && told.contains("second machine"),
            "{told}"
        );
        let noise = "#!/bin/sh\necho hello\necho '{\"Row\":[3,[1]]}'\necho '{\"Clock\":9}'\ncat >/dev/null\n";
        let (out, told) = test(&line, &dir, noise);
        assert!(
            !out.status.success() && told.contains("second machine"),
            "{told}"
        );
        drop(server);
    });
}
