//! `tailback probe dns` over emulated lines, at resolvers whose faults are known.

use crate::doubles::resolver::{self, Dnssec, Edns, Manner, Odd};
use crate::doubles::{figure, line, probe, says, serve};
use domain::base::iana::{Rcode, Rtype};
use live::emulate::FAR_V4;
use serde_json::Value;

/// Its answer about the resolver on this port of the far end.
fn asked(line: &live::emulate::Emulation, port: u16, more: &str) -> Value {
    asked_often(line, port, more, 5)
}

/// The same for so many names.
fn asked_often(line: &live::emulate::Emulation, port: u16, more: &str, count: u32) -> Value {
    let zone = if more.contains("zone=") {
        ""
    } else {
        ",zone=test"
    };
    let kind = format!(
        "dns:resolvers={FAR_V4}:{port},count={count},interval=10 ms,signed={},bogus={}{zone}{more}",
        resolver::SIGNED,
        resolver::BOGUS
    );
    probe(line, &kind).0
}

fn handling(answer: &Value) -> &str {
    answer["tables"][0]["rows"][0][6].as_str().expect("a cell")
}

#[test]
fn a_slow_resolver_is_blamed_and_not_the_line() {
    testkit::real_time_beside(|| {
        let Some(line) = line(10) else { return };
        let server = serve(&line);
        let at = |port, manner| resolver::start(line.far(), port, manner);
        let _resolvers = [
            at(
                5301,
                Manner {
                    dnssec: Dnssec::Checks,
                    ..Manner::default()
                },
            ),
            at(
                5302,
                Manner {
                    new_ms: 200,
                    known_ms: 200,
                    ..Manner::default()
                },
            ),
            at(
                5303,
                Manner {
                    new_ms: 700,
                    dnssec: Dnssec::Strips,
                    ..Manner::default()
                },
            ),
            at(
                5304,
                Manner {
                    drops_each: 4,
                    ..Manner::default()
                },
            ),
        ];
        let fine = asked(&line, 5301, "");
        assert_eq!(fine["alerts"], serde_json::json!([]), "{fine}");
        assert_eq!(handling(&fine), "checks");
        assert!((20.0..60.0).contains(&figure(&fine, "way_ms")), "{fine}");
        assert!((20.0..60.0).contains(&figure(&fine, "base_ms")), "{fine}");

        let slow = asked(&line, 5302, &format!(",others={FAR_V4}:5301"));
        assert!((200.0..400.0).contains(&figure(&slow, "own_ms")), "{slow}");
        assert_eq!(handling(&slow), "hands on, unchecked");
        let advice = slow["advice"][0].as_str().expect("the other one is faster");
        assert!(advice.contains(":5301 answers new names in"), "{advice}");

        let new = asked(&line, 5303, "");
        assert!((700.0..1000.0).contains(&figure(&new, "own_ms")), "{new}");
        assert!(figure(&new, "warm_ms") < 120.0, "{new}");
        assert_eq!(handling(&new), "strips signatures");
        assert_eq!(new["alerts"][0]["severity"], "serious");

        // Two of ten lost, and none of a few probes, would be too few to blame anybody.
        let drops = asked_often(&line, 5304, ",patience=300 ms", 20);
        assert!(
            says(&drops).contains("without a usable answer"),
            "{}",
            says(&drops)
        );
        server.stop();
    });
}

#[test]
fn a_slow_line_is_blamed_and_not_the_resolver_nor_is_one_that_is_not_there() {
    testkit::real_time_beside(|| {
        let Some(line) = line(100) else { return };
        let server = serve(&line);
        let _resolver = resolver::start(line.far(), 5301, Manner::default());
        let slow = asked(&line, 5301, "");
        assert!(figure(&slow, "own_ms") < 60.0, "{slow}");

        let nobody = asked(&line, 5399, "");
        assert!(
            says(&nobody).contains("answers nothing: nothing listens there"),
            "{}",
            says(&nobody)
        );
        server.stop();
    });
}

/// What its table says that a resolver does about this.
fn processed<'a>(answer: &'a Value, what: &str) -> &'a str {
    let rows = answer["tables"][1]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|r| r[0] == what);
    row.unwrap_or_else(|| panic!("no {what} in {answer}"))[1]
        .as_str()
        .expect("a cell")
}

fn alerts(answer: &Value) -> Vec<&str> {
    let all = answer["alerts"].as_array().expect("alerts");
    all.iter().filter_map(|a| a["what"].as_str()).collect()
}

const DEAD: &[(Rtype, Odd)] = &[(Rtype::A, Odd::Says(Rcode::SERVFAIL))];

#[test]
fn types_of_records_that_a_resolver_does_not_process_are_named_with_what_it_does_about_them() {
    testkit::real_time_beside(|| {
        let Some(line) = line(5) else { return };
        let server = serve(&line);
        let checks = Manner {
            dnssec: Dnssec::Checks,
            ..Manner::default()
        };
        let at = |port, manner| resolver::start(line.far(), port, manner);
        let _resolvers = [
            at(5301, checks),
            at(
                5302,
                Manner {
                    types: resolver::ODD,
                    ..checks
                },
            ),
            at(
                5303,
                Manner {
                    types: DEAD,
                    ..checks
                },
            ),
        ];
        let fine = asked(&line, 5301, &format!(",zone={}", resolver::SIGNED));
        assert_eq!(alerts(&fine), [""; 0], "{fine}");
        for what in ["A", "MX", "SRV", "HTTPS", "NAPTR", "TYPE65280"] {
            assert_eq!(processed(&fine, what), "yes", "{what}");
        }
        assert_eq!(processed(&fine, "extended messages (EDNS0)"), "yes");
        // Two keys and a signature: more than 512 bytes, less than 1232.
        let large = processed(&fine, "large answers in a datagram");
        assert!(large.ends_with(" bytes came"), "{large}");
        let tcp = processed(&fine, "answers over TCP");
        assert!(tcp.starts_with("yes, "), "{tcp}");

        let patience = format!(",zone={},patience=300 ms", resolver::SIGNED);
        let odd = asked(&line, 5302, &patience);
        for (what, how) in [
            ("SRV", "no answer"),
            ("CAA", "NOTIMP"),
            ("HTTPS", "answers nothing that can be read"),
            ("NAPTR", "FORMERR"),
            ("TYPE65280", "says that there is no such name"),
            ("MX", "yes"),
            ("answers over TCP", tcp),
        ] {
            assert_eq!(processed(&odd, what), how, "{what}: {odd}");
        }
        let [alert] = alerts(&odd)[..] else {
            panic!("one alert: {odd}")
        };
        assert!(alert.contains("SRV (no answer), CAA (NOTIMP)"), "{alert}");

        // Where the name cannot be had at all, nothing is said of types.
        let dead = asked(&line, 5303, &patience);
        let mx = processed(&dead, "MX");
        assert!(
            mx.starts_with("cannot tell: the name cannot even be had"),
            "{mx}"
        );
        server.stop();
    });
}

#[test]
fn what_keeps_large_answers_away_is_named() {
    testkit::real_time_beside(|| {
        let Some(line) = line(5) else { return };
        let server = serve(&line);
        let at = |port, manner| resolver::start(line.far(), port, manner);
        let _resolvers = [
            at(
                5301,
                Manner {
                    no_tcp: true,
                    ..Manner::default()
                },
            ),
            at(
                5302,
                Manner {
                    swallows_large: true,
                    ..Manner::default()
                },
            ),
            at(
                5303,
                Manner {
                    edns: Edns::Ignores,
                    ..Manner::default()
                },
            ),
            at(
                5304,
                Manner {
                    edns: Edns::Refuses,
                    ..Manner::default()
                },
            ),
        ];
        let more = ",patience=300 ms";
        let no_tcp = asked(&line, 5301, more);
        assert_eq!(
            processed(&no_tcp, "answers over TCP"),
            "connections are refused, where an answer in a datagram says that it is cut"
        );
        assert_eq!(processed(&no_tcp, "MX"), "yes");
        let small = asked(&line, 5302, more);
        assert_eq!(
            processed(&small, "large answers in a datagram"),
            "of up to 1232 bytes: no answer"
        );
        let tcp = processed(&small, "answers over TCP");
        assert!(tcp.starts_with("yes, "), "{tcp}");
        let ignores = asked(&line, 5303, more);
        assert_eq!(
            processed(&ignores, "extended messages (EDNS0)"),
            "the answer is not extended"
        );
        let refuses = asked(&line, 5304, more);
        assert_eq!(
            processed(&refuses, "extended messages (EDNS0)"),
            "FORMERR, where a plain question is answered"
        );
        for (answer, part) in [
            (&no_tcp, "answers over TCP: connections are refused"),
            (&small, "large answers in a datagram"),
            (&ignores, "extended messages (EDNS0)"),
            (&refuses, "extended messages (EDNS0)"),
        ] {
            let all = alerts(answer).join("; ");
            assert!(all.contains(part), "{part}: {all}");
        }
        server.stop();
    });
}

#[test]
fn root_servers_are_asked_only_on_request_and_who_answers_for_them_is_seen() {
    testkit::real_time_beside(|| {
        let Some(line) = line(5) else { return };
        let server = serve(&line);
        let root = Manner {
            authoritative: true,
            ..Manner::default()
        };
        let strips = Manner {
            dnssec: Dnssec::Strips,
            ..root
        };
        let at = |port, manner| resolver::start(line.far(), port, manner);
        let _all = [
            at(5301, Manner::default()),
            at(5311, root),
            at(5312, root),
            at(5313, strips),
            // A resolver in the place of a root server.
            at(5314, Manner::default()),
        ];
        let without = asked(&line, 5301, "");
        assert!(!without.to_string().contains("Root servers"), "{without}");

        let roots = |ports: &[u16]| {
            let all: Vec<String> = ports.iter().map(|p| format!("{FAR_V4}:{p}")).collect();
            let more = format!(",patience=300 ms,rootservers={}", all.join("; "));
            asked(&line, 5301, &more)
        };
        let fine = roots(&[5311, 5312]);
        assert_eq!(figure(&fine, "roots_signed"), 2.0);
        assert!(!alerts(&fine).join("; ").contains("root servers"), "{fine}");

        let some = roots(&[5311, 5312, 5313, 5314, 5399]);
        assert_eq!(figure(&some, "roots_signed"), 3.0);
        let all = alerts(&some).join("; ");
        for part in [
            "only 3 of 5 root servers returned signatures",
            "1 of 5 root servers are answered for by somebody else",
            "1 of 5 root servers did not answer",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        let none = roots(&[5397, 5398]);
        assert!(
            alerts(&none)
                .join("; ")
                .contains("none of 2 root servers can be reached"),
            "{none}"
        );
        server.stop();
    });
}
