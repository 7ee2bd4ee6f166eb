//! `tailback probe quic` with the kernel's own packets: UDP that nftables block, police or throttle after seconds.

use crate::doubles::network::{can_translate, rules};
use crate::doubles::{TAILBACK, figure, says, serve};
use base::rng::{Streams, uniform};
use testkit::Program;

const TIME: f64 = 7.0;

#[test]
fn quic_that_is_blocked_policed_or_throttled_is_told_over_sockets() {
    let given = std::env::var("QUIC_SEED").ok();
    let seed: u64 = given.map_or(20_261_126, |s| s.parse().expect("QUIC_SEED is a number"));
    println!("QUIC_SEED={seed}");
    let mut rng = Streams::new(seed).stream("networks/quic");
    let mut between = |low: f64, high: f64| low + (high - low) * uniform(&mut rng);
    for treatment in ["nothing", "blocked", "policed", "throttled"] {
        let (mbps, rtt) = (between(10.0, 25.0), between(10.0, 40.0));
        let left = between(0.3, 0.6);
        let after_s = between(3.0, 4.0);
        let kbytes = (mbps * left * 125.0).round();
        let limit = format!("limit rate over {kbytes} kbytes/second burst 20 kbytes drop");
        let table = match treatment {
            "blocked" => "chain in { type filter hook input priority 0; udp sport 443 drop; }".into(),
            "policed" => format!(
                "chain in {{ type filter hook input priority 0; udp sport 443 {limit}; }}"
            ),
            "throttled" => format!(
                "set young {{ type inet_service; flags dynamic, timeout; timeout {after}ms; }}
                 set known {{ type inet_service; flags dynamic, timeout; timeout 60s; }}
                 chain in {{ type filter hook input priority 0;
                    udp sport 443 udp dport != @known add @young {{ udp dport }} add @known {{ udp dport }}
                    udp sport 443 udp dport != @young {limit}
                 }}",
                after = (after_s * 1e3).round()
            ),
            _ => String::new(),
        };
        let at = format!("{treatment}: {mbps:.1} Mbit/s, RTT {rtt:.1} ms, {left:.2} left");
        println!("{at}");
        testkit::real_time_beside(|| {
            let delay = (rtt * 500.0).round();
            let spec = format!(
                "rate = \"{mbps:.1} Mbit/s\"\ndelay = \"{delay} us\"\nqueue = \"fifo:packets=120\""
            );
            let link = testkit::line::spec(&spec, &spec);
            let Some(line) = testkit::line::start(&[link]) else {
                return;
            };
            if !can_translate(line.near()) {
                return;
            }
            if !table.is_empty() {
                rules(line.near(), &table);
            }
            let server = serve(&line);
            let kind = format!("quic:pairs=2,time={TIME}s");
            let program = Program::new(TAILBACK);
            let answer = testkit::networks::probe(&program, &line, &kind).0;
            let told = says(&answer);
            println!("{told}");
            let words = match treatment {
                "blocked" => "QUIC to UDP port 443 is blocked",
                "policed" => "QUIC is policed down",
                "throttled" => "QUIC is throttled down",
                _ => "QUIC is treated like TCP down",
            };
            assert!(told.contains(words), "{at}: {told} {answer}");
            match treatment {
                "blocked" => assert!(told.contains("Other UDP datagrams"), "{told}"),
                "policed" => {
                    let ratio = figure(&answer, "quic_of_tcp_down");
                    assert!((ratio - left).abs() < 0.2, "{at}: {ratio}");
                }
                "throttled" => {
                    let after = figure(&answer, "throttled_after_down_ms");
                    assert!(
                        (after - after_s * 1e3).abs() < 1000.0,
                        "{at}: {after} ms, not {after_s} s"
                    );
                }
                _ => {}
            }
            server.stop();
            line.stop().expect("it stops");
        });
    }
}
