//! `tailback probe check` over test networks: what is planted is found, and nothing else is.

use crate::doubles::network::{can_translate, rules, sh};
use crate::doubles::resolver::{self, Dnssec, Manner};
use crate::doubles::{figure, line_with, planted, probe, says, serve};
use live::emulate::FAR_V4;
use live::serve::{PortSet, ServeConfig, Server};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The kind with what a test network has; the port is the resolver's.
fn kind(resolver: u16) -> String {
    format!(
        "check:count=100,resolvers={FAR_V4}:{resolver},zone=test,signed={},bogus={},tcp=25; 80; 443; 2001,udp=123; 443",
        resolver::SIGNED,
        resolver::BOGUS
    )
}

/// How a thing was judged, and what was found.
fn judged<'a>(answer: &'a Value, what: &str) -> (&'a str, &'a str) {
    let rows = answer["tables"][0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|r| r[0] == what);
    let row = row.unwrap_or_else(|| panic!("no {what} in {answer}"));
    (
        row[1].as_str().expect("a text"),
        row[2].as_str().expect("a text"),
    )
}

/// The alerts of this severity.
fn alerts(answer: &Value, severity: &str) -> Vec<String> {
    let all = answer["alerts"].as_array().expect("alerts");
    let its = all.iter().filter(|a| a["severity"] == severity);
    its.map(|a| a["what"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn a_clean_line_is_checked_whole_in_time_and_nothing_is_wrong_with_it() {
    testkit::real_time_beside(|| {
        let (up, down) = (
            ("5 Mbit/s", "fifo:bytes=60kB"),
            ("20 Mbit/s", "fifo:bytes=200kB"),
        );
        let Some(line) = line_with(10, up, down) else {
            return;
        };
        let server = serve(&line);
        let manner = Manner {
            dnssec: Dnssec::Checks,
            ..Manner::default()
        };
        let _resolver = resolver::start(line.far(), 5301, manner);
        let began = Instant::now();
        let (answer, _) = probe(&line, &kind(5301));
        assert!(began.elapsed() < Duration::from_secs(120), "{answer}");
        assert_eq!(alerts(&answer, "serious"), [""; 0], "{answer}");
        assert_eq!(alerts(&answer, "warning"), [""; 0], "{answer}");
        assert!(
            says(&answer).starts_with("Nothing is wrong"),
            "{}",
            says(&answer)
        );
        for what in [
            "delay",
            "loss",
            "bursts of loss",
            "lookups of names",
            "signatures of names (DNSSEC)",
            "set-up of connections over IPv4",
            "blocked ports",
            "datagrams in pieces, up",
            "datagrams in pieces, down",
            "largest packet of IPv4",
        ] {
            let (how, found) = judged(&answer, what);
            assert_eq!(how, "fine", "{what}: {found}");
        }
        // Full, they delay calls: no fault of the line, and nothing to call fine.
        for what in ["buffer up", "buffer down"] {
            let (how, found) = judged(&answer, what);
            assert_eq!(how, "note", "{what}: {found}");
        }
        // 60 kB at 5 Mbit/s are 96 ms, 200 kB at 20 Mbit/s 80 ms.
        let (up, down) = (
            figure(&answer, "buffer_up_ms"),
            figure(&answer, "buffer_down_ms"),
        );
        assert!((86.0..106.0).contains(&up), "{up}");
        assert!((72.0..88.0).contains(&down), "{down}");
        assert!((20.0..60.0).contains(&figure(&answer, "latency_ms")));
        assert_eq!(figure(&answer, "path_mtu_v4_bytes"), 1500.0);
        // What it sent is counted, that of kinds without trains too: 100 small packets and their answers are 16 kB.
        let own = answer["own_bytes"].as_f64().expect("a number");
        let floods = 4.0 * (2.0 * 5e6 + 2.0 * 20e6) / 8.0;
        assert!(own > 0.2 * floods && own < 100e6, "{own}");
        let steps = answer["tables"][1]["rows"].as_array().expect("steps");
        for step in steps {
            let kilobytes: f64 = step[3].as_str().and_then(|t| t.parse().ok()).expect("kB");
            assert!(kilobytes > 1.0, "{step}");
        }
        server.stop();
    });
}

#[test]
fn planted_faults_are_found_and_said_in_words() {
    testkit::real_time_beside(|| {
        let (up, down) = (
            ("2 Mbit/s", "fifo:bytes=300kB"),
            ("20 Mbit/s", "fifo:bytes=200kB"),
        );
        let Some(line) = line_with(10, up, down) else {
            return;
        };
        if !can_translate(line.near()) {
            return;
        }
        let server = serve(&line);
        let manner = Manner {
            new_ms: 1300,
            dnssec: Dnssec::Strips,
            ..Manner::default()
        };
        let _resolver = resolver::start(line.far(), 5301, manner);
        rules(line.near(), planted::NO_MAIL);
        sh(line.near(), planted::NO_PIECES_UP);
        let (answer, _) = probe(&line, &kind(5301));
        let serious = alerts(&answer, "serious").join("; ");
        let warnings = alerts(&answer, "warning").join("; ");
        assert!(serious.contains("the buffer up is too large"), "{answer}");
        assert!(serious.contains("for new names"), "{answer}");
        for part in [
            "blocked silently: TCP 25 (mail between servers)",
            "blocks datagrams in pieces, up",
            "strips signatures",
        ] {
            assert!(warnings.contains(part), "{part}: {answer}");
        }
        // 300 kB at 2 Mbit/s are 1.2 s.
        let held = figure(&answer, "buffer_up_ms");
        assert!((1080.0..1320.0).contains(&held), "{held}");
        assert!(figure(&answer, "dns_ms") > 1300.0, "{answer}");
        assert_eq!(figure(&answer, "ports_blocked"), 1.0);
        for what in [
            "delay",
            "loss",
            "set-up of connections over IPv4",
            "datagrams in pieces, down",
            "largest packet of IPv4",
        ] {
            let (how, found) = judged(&answer, what);
            assert_eq!(how, "fine", "{what}: {found}");
        }
        assert_eq!(judged(&answer, "buffer down").0, "note", "{answer}");
        for a in answer["alerts"].as_array().expect("alerts") {
            assert!(a["means"].as_str().is_some_and(|m| m.len() > 40), "{a}");
        }
        server.stop();
    });
}

#[test]
fn what_the_server_or_the_line_does_not_allow_is_not_called_fine() {
    testkit::real_time_beside(|| {
        let (up, down) = (
            ("50 Mbit/s", "fifo:bytes=600kB"),
            ("2 Mbit/s", "fifo:bytes=30kB"),
        );
        let Some(line) = line_with(5, up, down) else {
            return;
        };
        let start = || {
            Server::start(ServeConfig {
                allow_listen: PortSet::default(),
                ..ServeConfig::default()
            })
        };
        let server = line.far().run(start).expect("enters").expect("serves");
        if can_translate(line.near()) {
            // Half of the small datagrams are lost beyond the line, in runs of three; connections are not.
            rules(
                line.far(),
                "chain in { type filter hook prerouting priority 0;
                meta l4proto udp udp length < 200 numgen inc mod 6 < 3 drop; }",
            );
        }
        let (answer, _) = probe(&line, &format!("{},within=60 s", kind(5399)));
        for what in [
            "blocked ports",
            "boxes on the way",
            "datagrams in pieces",
            "IPv6",
            "largest packet of IPv4",
            "translation of addresses",
        ] {
            let (how, found) = judged(&answer, what);
            assert_eq!(how, "cannot tell", "{what}: {found}");
            assert!(found.starts_with("because "), "{what}: {found}");
            assert!(found.contains("--allow-listen"), "{what}: {found}");
        }
        assert!(says(&answer).contains("Cannot be told: "), "{answer}");
        let (how, _) = judged(&answer, "signatures of names (DNSSEC)");
        assert_eq!(how, "cannot tell", "no resolver is there");
        if can_translate(line.near()) {
            assert!(figure(&answer, "loss") > 0.3, "{answer}");
            let serious = alerts(&answer, "serious").join("; ");
            assert!(serious.contains("packets are lost"), "{answer}");
            let warnings = alerts(&answer, "warning").join("; ");
            assert!(warnings.contains("bursts of loss"), "{answer}");
        }
        server.stop();
    });
}
