//! `tailback probe buffer:own=true`: the queue of the sending host is told from that of the line.

use crate::doubles::network::sh;
use crate::doubles::{figure, line_with, probe, says, serve};
use live::emulate::NetNs;
use std::process::Command;

/// Whether this system lets an interface be made slow; says why not.
fn can_shape(ns: &NetNs) -> bool {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "tc qdisc add dev lo root tbf rate 1mbit burst 2000 limit 9000 && tc qdisc del dev lo root",
    ]);
    let tried = ns.command(&mut command).output().expect("a shell");
    if !tried.status.success() {
        testkit::skip(&String::from_utf8_lossy(&tried.stderr));
    }
    tried.status.success()
}

#[test]
fn the_senders_own_queue_is_told_from_the_lines_whichever_is_the_slower() {
    testkit::real_time_beside(|| {
        // The line: 60 kB at 6 Mbit/s are 80 ms.
        let (up, down) = (
            ("6 Mbit/s", "fifo:bytes=60kB"),
            ("20 Mbit/s", "fifo:bytes=200kB"),
        );
        let Some(line) = line_with(5, up, down) else {
            return;
        };
        let near = line.near();
        let can = can_shape(near);
        let server = serve(&line);
        let fast = probe(&line, "buffer:own=true").0;
        let held = figure(&fast, "line_ms");
        assert!((72.0..88.0).contains(&held), "{held}");
        assert!(
            !says(&fast).contains("the sending host's own queue"),
            "{fast}"
        );
        if !can {
            return;
        }
        // Its interface is slower than the line: 100 kB at 3 Mbit/s are 267 ms.
        sh(
            near,
            "tc qdisc replace dev link0 root tbf rate 3mbit burst 2000 limit 100000",
        );
        let slow = probe(&line, "buffer:own=true").0;
        assert!(
            says(&slow).contains("the sending host's own queue"),
            "{slow}"
        );
        let held = figure(&slow, "own_bytes");
        assert!((90e3..110e3).contains(&held), "{held}");
        let held = figure(&slow, "own_ms");
        assert!((240.0..293.0).contains(&held), "{held}");
        let whole = figure(&slow, "queue_ms");
        assert!((240.0..293.0).contains(&whole), "{whole}");
        let line_ms = slow["figures"].as_array().expect("figures");
        let line_ms = line_ms.iter().find(|f| f["key"] == "line_ms");
        assert!(
            line_ms.is_some_and(|f| f["figure"]["cannot_tell"].is_string()),
            "{slow}"
        );
        // Faster than the line, and not twice as fast: both queues fill. 90 kB at 9 Mbit/s are 80 ms.
        sh(
            near,
            "tc qdisc replace dev link0 root tbf rate 9mbit burst 2000 limit 90000",
        );
        let both = probe(&line, "buffer:own=true").0;
        let held = figure(&both, "own_bytes");
        assert!((81e3..99e3).contains(&held), "{held}");
        let held = figure(&both, "line_ms");
        assert!((72.0..88.0).contains(&held), "{held}");
        server.stop();
    });
}
