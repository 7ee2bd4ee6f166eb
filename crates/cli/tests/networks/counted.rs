//! What a probe says that it put on the line, beside what the interface counted.

use crate::doubles::{line_of, probe, serve};
use live::emulate::{Emulation, INTERFACE};
use serde_json::Value;

/// Of Ethernet, which the interface counts and the line does not carry.
const FRAME: u64 = 14;

/// 8 Mbit/s up and 20 Mbit/s down, 20 ms there and back; queues that TCP overflows.
pub fn lossy_line() -> Option<Emulation> {
    let way =
        |rate: &str| format!("rate = \"{rate}\"\nqueue = \"fifo:bytes=60kB\"\ndelay = \"10 ms\"");
    line_of(&way("8 Mbit/s"), &way("20 Mbit/s"))
}

/// IP packets and their bytes that have passed the near end's interface, both ways.
pub fn passed(line: &Emulation) -> (u64, u64) {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
    let text = line.near().run(read).expect("enters").expect("counters");
    let its = text.lines().find_map(|l| {
        let (name, numbers) = l.split_once(':')?;
        (name.trim() == INTERFACE).then(|| numbers.split_whitespace())
    });
    let numbers: Vec<u64> = its
        .expect("the interface is there")
        .map(|n| n.parse().expect("a number"))
        .collect();
    let (packets, bytes) = (numbers[1] + numbers[9], numbers[0] + numbers[8]);
    (packets, bytes - packets * FRAME)
}

/// Packets in which the hosts ask for each other's addresses, at most, and their bytes: nobody's traffic.
const NEIGHBOURS: (f64, f64) = (6.0, 400.0);

/// Runs it; its answer, and by what share its count differs from the interface's, in bytes and in packets.
pub fn off(line: &Emulation, kind: &str) -> (Value, f64, f64) {
    let before = passed(line);
    let answer = probe(line, kind).0;
    let after = passed(line);
    let told = |key: &str| answer[key].as_f64().expect("a number");
    let share = |own: f64, from: u64, to: u64, others: f64| {
        let real = (to - from) as f64;
        eprintln!("{kind}: {own} told, {real} passed");
        ((own - real).abs() - others).max(0.0) / real
    };
    let bytes = share(told("own_bytes"), before.1, after.1, NEIGHBOURS.1);
    let packets = share(told("own_packets"), before.0, after.0, NEIGHBOURS.0);
    (answer, bytes, packets)
}

fn counts_like_the_interface(kinds: &[&str]) {
    let Some(line) = lossy_line() else { return };
    let server = serve(&line);
    for kind in kinds {
        let (_, bytes, packets) = off(&line, kind);
        assert!(bytes < 0.03, "{kind}: {bytes}");
        assert!(packets < 0.05, "{kind}: {packets}");
    }
    server.stop();
}

#[test]
fn transfers_are_counted_as_the_interface_counts_them() {
    testkit::real_time_beside(|| {
        counts_like_the_interface(&[
            "tcp:direction=both,control=cubic,size=400 kB;2 MB,repeats=1",
            "collapse:rounds=1,duration=6 s",
        ]);
    });
}

#[test]
fn downloads_are_counted_with_what_comes_after_their_end() {
    testkit::real_time_beside(|| {
        counts_like_the_interface(&["path:idle=5 s,hold=5 s,load=down"]);
    });
}

#[test]
fn the_packets_of_a_traced_route_are_counted_one_by_one() {
    testkit::real_time_beside(|| {
        counts_like_the_interface(&["path:idle=5 s,load=none"]);
    });
}
