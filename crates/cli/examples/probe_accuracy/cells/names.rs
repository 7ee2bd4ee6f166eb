//! `dns`, at resolvers of several manners on lines of several delays.

use crate::cell::{At, Cell, Is, Plant, Truth, near, says};
use crate::doubles::resolver::{BOGUS, Dnssec, Manner, SIGNED};
use crate::line::Line;
use live::emulate::FAR_V4;

const PORT: u16 = 5301;
/// What an answer and a connection take beside the way: packets of some hundred bytes, and two programs.
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

pub fn all() -> Vec<Cell> {
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
        resolver(100.0, "a quick resolver", quick, "because the line is"),
        resolver(10.0, "a resolver of 200 ms", slow, slow_says),
        resolver(40.0, "a resolver of 200 ms", slow, slow_says),
        resolver(
            10.0,
            "a resolver of 700 ms for new names",
            slow_new,
            "the line is not to blame",
        ),
        resolver(
            40.0,
            "a resolver of 700 ms for new names",
            slow_new,
            "the line is not to blame",
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
