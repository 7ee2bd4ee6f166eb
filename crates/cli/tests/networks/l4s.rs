//! `tailback probe l4s` and `nqb` over emulated links with the kernel's own packets: a queue of each kind, drawn at random.

use crate::doubles::{figure, says, serve};
use base::rng::{Rng, Streams, uniform};
use link::LinkSpec;
use testkit::Program;

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * uniform(rng)
}

fn seed() -> u64 {
    let given = std::env::var("L4S_SEED").ok();
    let seed = given.map_or(20_261_124, |s| s.parse().expect("L4S_SEED is a number"));
    println!("L4S_SEED={seed}");
    seed
}

/// Link with this queue in one direction.
fn link(direction: &str, queue: &str, mbps: f64, rtt: f64) -> LinkSpec {
    let delay = (rtt * 500.0).round();
    let queued =
        format!("rate = \"{mbps:.1} Mbit/s\"\ndelay = \"{delay} us\"\nqueue = \"{queue}\"");
    let idle = format!("rate = \"100 Mbit/s\"\ndelay = \"{delay} us\"");
    match direction {
        "up" => testkit::line::spec(&queued, &idle),
        _ => testkit::line::spec(&idle, &queued),
    }
}

#[test]
fn l4s_marks_thresholds_and_queues_up_are_told_over_sockets() {
    l4s("up");
}

#[test]
fn l4s_marks_thresholds_and_queues_down_are_told_over_sockets() {
    l4s("down");
}

fn l4s(direction: &str) {
    let mut rng = Streams::new(seed()).stream("networks/l4s");
    for kind in ["dualpi2", "fq_codel", "fifo"] {
        let (mbps, rtt) = (between(&mut rng, 10.0, 30.0), between(&mut rng, 8.0, 30.0));
        let threshold = between(&mut rng, 1.5, 3.5);
        let us = (threshold * 1e3).round();
        let (queue, words) = match kind {
            "dualpi2" => (format!("dualpi2:min_th={us} us,range=0 ms"), "L4S works"),
            "fq_codel" => (
                format!("fq_codel:ce_threshold={us} us,target=12 ms"),
                "each flow has a queue of its own",
            ),
            _ => ("fifo:packets=150".to_owned(), "No marks"),
        };
        let at = format!("{direction}: {mbps:.1} Mbit/s, RTT {rtt:.1} ms, {queue}");
        println!("{at}");
        testkit::real_time_beside(|| {
            let spec = link(direction, &queue, mbps, rtt);
            let Some(line) = testkit::line::start(&[spec]) else {
                return;
            };
            let server = serve(&line);
            let program = Program::new(crate::doubles::TAILBACK);
            let answer = testkit::networks::probe(
                &program,
                &line,
                &format!("l4s:time=5s,direction={direction}"),
            )
            .0;
            let told = says(&answer);
            println!("{told}");
            assert!(told.contains(words), "{at}: {told} {}", answer["doubts"]);
            if kind != "fifo" {
                let found = figure(&answer, &format!("threshold_{direction}_ms"));
                assert!((found - threshold).abs() <= 1.0, "{at}: {found} ms");
                let (l4s, classic) = (
                    figure(&answer, &format!("l4s_wait_{direction}_ms")),
                    figure(&answer, &format!("classic_wait_{direction}_ms")),
                );
                assert!(l4s < classic / 2.0, "{at}: {l4s} against {classic} ms");
            }
            server.stop();
            line.stop().expect("it stops");
        });
    }
}

#[test]
fn nqb_queues_up_are_told_over_sockets() {
    nqb("up");
}

#[test]
fn nqb_queues_down_are_told_over_sockets() {
    nqb("down");
}

fn nqb(direction: &str) {
    let mut rng = Streams::new(seed()).stream("networks/nqb");
    for (queue, words) in [
        ("dualpi2:nqb=true", "NQB has a queue of its own"),
        ("fifo:packets=150", "NQB has no queue of its own"),
    ] {
        let (mbps, rtt) = (between(&mut rng, 10.0, 30.0), between(&mut rng, 8.0, 30.0));
        let at = format!("{direction}: {mbps:.1} Mbit/s, RTT {rtt:.1} ms, {queue}");
        println!("{at}");
        testkit::real_time_beside(|| {
            let spec = link(direction, queue, mbps, rtt);
            let Some(line) = testkit::line::start(&[spec]) else {
                return;
            };
            let server = serve(&line);
            let program = Program::new(crate::doubles::TAILBACK);
            let answer = testkit::networks::probe(
                &program,
                &line,
                &format!("nqb:time=5s,direction={direction}"),
            )
            .0;
            let told = says(&answer);
            println!("{told}");
            assert!(told.contains(words), "{at}: {told} {}", answer["doubts"]);
            server.stop();
            line.stop().expect("it stops");
        });
    }
}
