//! `dns`, at resolvers of several manners on lines of several delays.

use crate::accuracy::cell::{At, Cell, Is, Plant, Truth, alerts, near, no_alerts, says};
use crate::accuracy::line::Line;
use live::emulate::FAR_V4;
use testkit::networks::resolver::{BOGUS, Dnssec, Edns, Manner, ODD, SIGNED};

const PORT: u16 = 5301;
/// Time of an answer and a connection beyond the propagation delay: packets of some hundred bytes, and two programs.
const BY_MS: f64 = 3.0;

fn cell(delay_ms: f64, what: &str, resolver: Option<Manner>, mut truths: Vec<Truth>) -> Cell {
    let kind = format!(
        "dns:resolvers={FAR_V4}:{PORT},count=5,interval=10 ms,patience=2 s,signed={SIGNED},bogus={BOGUS},zone=test"
    );
    let mut plants = Vec::new();
    if let Some(manner) = resolver {
        plants.push(Plant::Resolver(PORT, manner));
        truths.push(near(&["way_ms"], 2.0 * delay_ms, BY_MS));
    }
    truths.push(near(&["base_ms"], 2.0 * delay_ms, BY_MS));
    let line = Line::up(20e6, "fifo:bytes=200000").delay(delay_ms);
    Cell::network(kind, line, (what, plants), truths)
}

/// A new name takes the way and what the resolver takes for it; a known one likewise.
fn times(delay_ms: f64, manner: Manner) -> Vec<Truth> {
    let of = |ms: u64| 2.0 * delay_ms + ms as f64;
    vec![
        near(&["cold_ms"], of(manner.new_ms), BY_MS),
        near(&["warm_ms"], of(manner.known_ms), BY_MS),
    ]
}

fn resolver(delay_ms: f64, what: &str, manner: Manner, blame: &str) -> Cell {
    let mut truths = times(delay_ms, manner);
    let handling = match manner.dnssec {
        Dnssec::Checks => "checks",
        Dnssec::HandsOn => "hands on, unchecked",
        Dnssec::Strips => "strips signatures",
    };
    truths.push(Truth {
        at: At::Row("10.77.0.2", 6),
        is: Is::Words(handling.into()),
    });
    truths.push(says(blame));
    cell(delay_ms, what, Some(manner), truths)
}

/// At one that checks signatures, and is asked about a name that exists.
fn processing(what: &str, manner: Manner, truth: Truth) -> Cell {
    let kind = format!(
        "dns:resolvers={FAR_V4}:{PORT},count=5,interval=10 ms,patience=1 s,signed={SIGNED},bogus={BOGUS},zone={SIGNED}"
    );
    let line = Line::up(20e6, "fifo:bytes=200000").delay(10.0);
    let manner = Manner {
        dnssec: Dnssec::Checks,
        ..manner
    };
    Cell::network(
        kind,
        line,
        (what, vec![Plant::Resolver(PORT, manner)]),
        vec![truth],
    )
}

/// Root servers of these manners, from the port after the resolver's on.
fn roots(what: &str, manners: &[Manner], mut truths: Vec<Truth>) -> Cell {
    let ports = PORT + 1..;
    let all: Vec<(u16, Manner)> = ports.zip(manners.iter().copied()).collect();
    let list: Vec<String> = all.iter().map(|(p, _)| format!("{FAR_V4}:{p}")).collect();
    let kind = format!(
        "dns:resolvers={FAR_V4}:{PORT},count=5,interval=10 ms,signed={SIGNED},bogus={BOGUS},zone=test,rootservers={}",
        list.join("; ")
    );
    let plants = all.into_iter().map(|(p, m)| Plant::Resolver(p, m));
    let mut plants: Vec<Plant> = plants.collect();
    plants.push(Plant::Resolver(PORT, Manner::default()));
    let line = Line::up(20e6, "fifo:bytes=200000").delay(10.0);
    let signed = manners.iter().filter(|m| m.dnssec != Dnssec::Strips);
    truths.push(near(&["roots_signed"], signed.count() as f64, 0.0));
    Cell::network(kind, line, (what, plants), truths)
}

fn types() -> Vec<Cell> {
    let quick = Manner::default();
    let root = Manner {
        authoritative: true,
        ..quick
    };
    let strips = Manner {
        dnssec: Dnssec::Strips,
        ..root
    };
    vec![
        processing("a resolver that knows all types", quick, no_alerts()),
        processing(
            "a resolver that does not know five types",
            Manner {
                types: ODD,
                ..quick
            },
            alerts(
                "SRV (no answer), CAA (NOTIMP), HTTPS (answers nothing that can be read), NAPTR (FORMERR), TYPE65280 (says that there is no such name)",
            ),
        ),
        processing(
            "a resolver without TCP",
            Manner {
                no_tcp: true,
                ..quick
            },
            alerts("answers over TCP: connections are refused"),
        ),
        processing(
            "a resolver whose answers above 512 bytes are lost",
            Manner {
                swallows_large: true,
                ..quick
            },
            alerts("of up to 1232 bytes: no answer"),
        ),
        processing(
            "a resolver that ignores EDNS0",
            Manner {
                edns: Edns::Ignores,
                ..quick
            },
            alerts("the answer is not extended"),
        ),
        processing(
            "a resolver that refuses EDNS0",
            Manner {
                edns: Edns::Refuses,
                ..quick
            },
            alerts("FORMERR, where a plain question is answered"),
        ),
        roots("three root servers", &[root; 3], Vec::new()),
        roots(
            "three root servers, one stripped of signatures",
            &[root, root, strips],
            vec![alerts("only 2 of 3 root servers")],
        ),
        roots(
            "three root servers, one in whose place a resolver answers",
            &[root, root, quick],
            vec![alerts(
                "1 of 3 root servers are answered for by somebody else",
            )],
        ),
    ]
}

pub fn all() -> Vec<Cell> {
    [times_and_blame(), types()].into_iter().flatten().collect()
}

fn times_and_blame() -> Vec<Cell> {
    let quick = Manner::default();
    let checks = Manner {
        dnssec: Dnssec::Checks,
        ..quick
    };
    let slow = Manner {
        new_ms: 200,
        known_ms: 200,
        ..quick
    };
    let slow_new = Manner {
        new_ms: 700,
        dnssec: Dnssec::Strips,
        ..quick
    };
    let drops = Manner {
        drops_each: 4,
        ..quick
    };
    let slow_says = "the resolver is to blame";
    vec![
        resolver(10.0, "a quick resolver", checks, "resolve soon"),
        resolver(40.0, "a quick resolver", quick, "resolve soon"),
        resolver(100.0, "a quick resolver", quick, "because the link is"),
        resolver(10.0, "a resolver of 200 ms", slow, slow_says),
        resolver(40.0, "a resolver of 200 ms", slow, slow_says),
        resolver(
            10.0,
            "a resolver of 700 ms for new names",
            slow_new,
            "the link is not to blame",
        ),
        resolver(
            40.0,
            "a resolver of 700 ms for new names",
            slow_new,
            "the link is not to blame",
        ),
        cell(
            10.0,
            "a resolver that drops every fourth query",
            Some(drops),
            vec![says("without a usable answer")],
        ),
        cell(
            10.0,
            "no resolver",
            None,
            vec![says("answers nothing: nothing listens there")],
        ),
    ]
}
