//! `tailback probe ecn` over a chain of the kernel's own routers, whose rules change and drop markings.

use crate::doubles::network::sh;
use crate::doubles::{figure, says, serve};
use live::clock::Clock;
use live::emulate::{Emulation, NetNs, Options};
use serde_json::Value;
use testkit::Program;

/// Three routers between four links of 2 ms.
fn chain() -> Option<Emulation> {
    let way = "rate = \"100 Mbit/s\"\ndelay = \"2 ms\"";
    let link = testkit::line::spec(way, way);
    let options = Options {
        routed: true,
        ..Options::new(Clock::start())
    };
    testkit::line::start_with(&vec![link; 4], options)
}

/// Replaces all rules of a router by one chain of both versions of IP at this hook.
fn rules(router: &NetNs, hook: &str, rules: &str) {
    let table = format!(
        "flush ruleset\ntable inet marks {{\nchain marked {{ type filter hook {hook} priority -150; {rules} }}\n}}"
    );
    sh(router, &format!("nft -f - <<'END'\n{table}\nEND"));
}

fn probe(line: &Emulation, kind: &str) -> Value {
    let program = Program::new(crate::doubles::TAILBACK);
    testkit::networks::probe(&program, line, kind).0
}

/// Hops between which a marking of a field changes.
fn between(answer: &Value, key: &str) -> (f64, f64) {
    let figures = answer["figures"].as_array().expect("figures");
    let its = figures.iter().find(|f| f["key"] == key);
    let its = &its.unwrap_or_else(|| panic!("no {key} in {answer}"))["figure"];
    let end = |word: &str| its[word].as_f64().unwrap_or_else(|| panic!("{key}: {its}"));
    (end("low"), end("high"))
}

#[test]
fn markings_that_routers_change_and_drop_are_found_with_their_hops() {
    testkit::real_time_beside(|| {
        let Some(line) = chain() else { return };
        if !crate::doubles::network::can_translate(line.near()) {
            return;
        }
        let server = serve(&line);
        let far = live::emulate::FAR_V4;
        let routers: Vec<&NetNs> = line.routers().collect();
        // Packets are forwarded after the hop limit is checked; the first hook is before.
        rules(
            routers[0],
            "forward",
            &format!("ip daddr {far} ip dscp 45 reject with icmp admin-prohibited;"),
        );
        let far6 = live::emulate::FAR_V6;
        let cleared =
            format!("ip daddr {far} ip ecn set not-ect; ip6 daddr {far6} ip6 ecn set not-ect;");
        rules(routers[1], "forward", &cleared);
        rules(
            routers[2],
            "prerouting",
            &format!("ip saddr {far} ip dscp ef ip dscp set cs1;"),
        );
        let answer = probe(&line, "ecn");
        let told = says(&answer);
        assert_eq!(figure(&answer, "up_v4_ecn_kept"), 0.0, "{told}");
        assert_eq!(between(&answer, "up_v4_ecn_hop"), (2.0, 3.0), "{told}");
        assert_eq!(between(&answer, "up_v4_dscp_hop"), (1.0, 2.0), "{told}");
        assert_eq!(between(&answer, "up_v6_ecn_hop"), (2.0, 3.0), "{told}");
        // Counted from the server.
        assert_eq!(between(&answer, "down_v4_dscp_hop"), (0.0, 1.0), "{told}");
        for kept in ["down_v4_ecn_kept", "down_v6_ecn_kept", "down_v6_dscp_kept"] {
            assert_eq!(figure(&answer, kept), 1.0, "{kept}: {told}");
        }
        assert!(told.contains("hop 3 (10.77.3.1)"), "{told}");

        let answer = probe(&line, "l4s:time=3s,direction=up");
        let told = says(&answer);
        let place = "ECT(1) arrives as Not-ECT, changed between hop 2 (";
        assert!(told.contains(place), "{told}");
        assert_eq!(between(&answer, "codepoint_hop_up"), (2.0, 3.0), "{told}");

        // Routers that say nothing, one of which drops ECT.
        for router in &routers {
            rules(router, "output", "meta l4proto { icmp, ipv6-icmp } drop;");
        }
        let dropped = format!(
            "table inet drops {{\nchain marked {{ type filter hook forward priority 0; ip daddr {far} ip ecn {{ ect0, ect1 }} drop; }}\n}}"
        );
        sh(routers[1], &format!("nft -f - <<'END'\n{dropped}\nEND"));
        let answer = probe(&line, "ecn");
        let told = says(&answer);
        let third = (figure(&answer, "up_v4_ecn_kept") - 1.0 / 3.0).abs();
        assert!(third < 1e-6, "{told}");
        let doubts = answer["doubts"].to_string();
        assert!(doubts.contains("ICMP may be filtered"), "{doubts}");
        server.stop();
        line.stop().expect("it stops");
    });
}

#[test]
fn tcp_handshakes_and_segments_that_routers_change_and_drop_are_found() {
    testkit::real_time_beside(|| {
        let Some(line) = chain() else { return };
        if !crate::doubles::network::can_translate(line.near()) {
            return;
        }
        let server = serve(&line);
        let far = live::emulate::FAR_V4;
        let routers: Vec<&NetNs> = line.routers().collect();
        // The handshake of classic ECN is lost behind the second router; ECN of TCP is cleared at the third, downwards.
        rules(
            routers[1],
            "forward",
            &format!("ip daddr {far} tcp flags & (syn | ecn | cwr) == syn | ecn | cwr drop;"),
        );
        rules(
            routers[2],
            "forward",
            &format!("ip saddr {far} meta l4proto tcp ip ecn set not-ect;"),
        );
        let answer = probe(&line, "ecn");
        let told = says(&answer);
        assert_eq!(figure(&answer, "up_v4_tcp_handshake_kept"), 0.0, "{told}");
        assert_eq!(
            between(&answer, "up_v4_tcp_handshake_hop"),
            (2.0, 3.0),
            "{told}"
        );
        // Unmarked segments keep their Not-ECT and do not count.
        assert_eq!(figure(&answer, "down_v4_tcp_ecn_kept"), 0.0, "{told}");
        assert_eq!(
            between(&answer, "down_v4_tcp_ecn_hop"),
            (1.0, 2.0),
            "{told}"
        );
        for kept in [
            "up_v4_ecn_kept",
            "down_v4_ecn_kept",
            "down_v4_tcp_handshake_kept",
            "up_v4_tcp_ecn_kept",
            "up_v4_tcp_ace_kept",
            "down_v4_tcp_option_kept",
            "up_v6_tcp_handshake_kept",
            "down_v6_tcp_ecn_kept",
        ] {
            assert_eq!(figure(&answer, kept), 1.0, "{kept}: {told}");
        }
        let alerts = answer["alerts"].to_string();
        assert!(alerts.contains("black hole"), "{alerts}");
        server.stop();
        line.stop().expect("it stops");
    });
}
