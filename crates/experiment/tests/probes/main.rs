//! Every kind of probe over lines whose truth it does not see, in virtual time.

mod all;
mod buffer;
mod burst;
mod capacity;
mod dns;
mod ecn;
mod envelope;
mod l4s;
mod liar;
mod loaded;
mod nat;
mod nqb;
mod others;
mod page;
mod path;
mod ports;
mod quic;
mod radio;
mod random;
mod shaping;
mod sizes;
mod spacing;
mod sweep;
mod tcp;
mod train;

use base::record::{Meta, Recording};
use base::{Bytes, Duration};
use experiment::spec::Far;
use experiment::{Bounds, Others, Outcome, ProbeSpec, Setting};
use link::LinkSpec;
use sim::bufferbloat::{Plan, carry_out};
use sim::craft::{Bench, Hosts};
use stats::Figure;

/// A line from its `[up]` table; the other direction is wide.
fn line(up: &str) -> LinkSpec {
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\n[up]\n{up}\n[down]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n"
    );
    LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{up}: {e}"))
}

fn bench(up: &str, hosts: Hosts) -> Bench {
    Bench::new(&line(up), hosts).expect("a bench")
}

/// Runs a kind to its end and gives what it answers from the recording of its trains alone.
fn probe(spec: &str, bench: &mut Bench) -> Outcome {
    let spec: ProbeSpec = spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"));
    let trains = bench.run(|trains| spec.next(trains));
    let mut recording = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": spec }),
            ..Meta::default()
        },
        ..Recording::default()
    };
    for train in trains {
        let (datagrams, event) = train.rows(0);
        recording.datagram.extend(datagrams);
        recording.event.push(event);
    }
    experiment::analyse(&recording)
        .expect("it is of a probe")
        .outcome
}

/// Runs a kind to its end over a plan's link and network, and gives its answer.
fn over(spec: &str, plan: &Plan, budget: Bytes) -> Outcome {
    let spec: ProbeSpec = spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"));
    let setting = Setting {
        budget,
        far: Far::Virtual,
    };
    let mut steps = spec.steps(&setting).expect("it is enough");
    let bounds = Bounds {
        others: Others::Keep(Duration::ZERO),
        ..Bounds::of(budget)
    };
    let outcome = carry_out(plan, &mut *steps, &bounds, "probe");
    let outcome = outcome.unwrap_or_else(|e| panic!("{spec}: {e}"));
    let recording = Recording {
        meta: Meta {
            plan: serde_json::json!({ "probe": spec }),
            ..outcome.recording.meta
        },
        ..outcome.recording
    };
    let answer = experiment::analyse(&recording).expect("it is of a probe");
    answer.outcome
}

/// Value and interval of a figure.
#[track_caller]
fn figure(outcome: &Outcome, key: &str) -> (f64, f64, f64) {
    match outcome.figure(key) {
        Figure::Is { value, low, high } => (*value, *low, *high),
        Figure::CannotTell { cannot_tell } => panic!("{key}: {cannot_tell}; {}", outcome.says),
    }
}

#[track_caller]
fn near(outcome: &Outcome, key: &str, truth: f64, by: f64) {
    let (value, ..) = figure(outcome, key);
    assert!(
        (value - truth).abs() <= by,
        "{key}: {value}, truth {truth} ± {by}; {}; {:?}",
        outcome.says,
        outcome.evidence
    );
}
