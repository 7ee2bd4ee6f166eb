//! `tailback probe dns` over emulated lines, at resolvers whose faults are known.

use crate::doubles::resolver::{self, Dnssec, Manner};
use crate::doubles::{figure, line, probe, says, serve};
use live::emulate::FAR_V4;
use serde_json::Value;

/// Its answer about the resolver on this port of the far end.
fn asked(line: &live::emulate::Emulation, port: u16, more: &str) -> Value {
    let kind = format!(
        "dns:resolvers={FAR_V4}:{port},count=5,interval=10 ms,signed={},bogus={},zone=test{more}",
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
    assert!(says(&fine).contains("resolve soon"), "{}", says(&fine));
    assert_eq!(fine["alerts"], serde_json::json!([]), "{fine}");
    assert_eq!(handling(&fine), "checks");
    assert!((20.0..60.0).contains(&figure(&fine, "way_ms")), "{fine}");
    assert!((20.0..60.0).contains(&figure(&fine, "base_ms")), "{fine}");

    let slow = asked(&line, 5302, &format!(",others={FAR_V4}:5301"));
    assert!(
        says(&slow).contains("the resolver is to blame"),
        "{}",
        says(&slow)
    );
    assert!((200.0..400.0).contains(&figure(&slow, "own_ms")), "{slow}");
    assert_eq!(handling(&slow), "hands on, unchecked");
    let advice = slow["advice"][0].as_str().expect("the other one is faster");
    assert!(advice.contains(":5301 answers new names in"), "{advice}");

    let new = asked(&line, 5303, "");
    assert!(
        says(&new).contains("the line is not to blame"),
        "{}",
        says(&new)
    );
    assert!((700.0..1000.0).contains(&figure(&new, "own_ms")), "{new}");
    assert!(figure(&new, "warm_ms") < 120.0, "{new}");
    assert_eq!(handling(&new), "strips signatures");
    assert_eq!(new["alerts"][0]["severity"], "serious");

    let drops = asked(&line, 5304, ",patience=300 ms");
    assert!(
        says(&drops).contains("without a usable answer"),
        "{}",
        says(&drops)
    );
    server.stop();
}

#[test]
fn a_slow_line_is_blamed_and_not_the_resolver_nor_is_one_that_is_not_there() {
    let Some(line) = line(100) else { return };
    let server = serve(&line);
    let _resolver = resolver::start(line.far(), 5301, Manner::default());
    let slow = asked(&line, 5301, "");
    assert!(
        says(&slow).contains("because the line is"),
        "{}",
        says(&slow)
    );
    assert!(figure(&slow, "own_ms") < 60.0, "{slow}");

    let nobody = asked(&line, 5399, "");
    assert!(
        says(&nobody).contains("answers nothing: nothing listens there"),
        "{}",
        says(&nobody)
    );
    server.stop();
}
