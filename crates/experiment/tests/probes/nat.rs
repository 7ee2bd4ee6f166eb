//! The kind `nat` behind translators drawn at random. A failure names the seed.

use super::figure;
use base::Duration;
use base::record::{Meta, Recording};
use base::rng::{Rng, Streams, uniform};
use experiment::{Bounds, Outcome, ProbeSpec, Setting, Unwatched};
use sim::translator::{Depends, Translator, Way};

pub fn run(spec: &str, way: Way) -> Outcome {
    let spec: ProbeSpec = spec.parse().unwrap_or_else(|e| panic!("{spec}: {e}"));
    let budget = base::Bytes::new(100_000_000);
    let steps = spec.steps(&Setting { budget }).expect("it is enough");
    let mut host = Translator::new(way);
    let mut steps = steps.expect("it has steps");
    experiment::run(&mut *steps, &Bounds::of(budget), &mut host, &mut Unwatched)
        .expect("the host can do all of it");
    let recording = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": spec }),
            ..Meta::default()
        },
        ..host.recording
    };
    let answer = experiment::analyse(&recording).expect("it is of a probe");
    answer.outcome
}

/// What the answer's table says of a property.
fn found(outcome: &Outcome, property: &str) -> String {
    let row = outcome.tables[0].rows.iter().find(|r| r[0] == property);
    row.unwrap_or_else(|| panic!("no {property}"))[1].clone()
}

fn word(d: Depends) -> &'static str {
    match d {
        Depends::Not => "endpoint-independent",
        Depends::OnAddress => "address-dependent",
        Depends::OnAddressAndPort => "address- and port-dependent",
    }
}

fn depends(rng: &mut Rng) -> Depends {
    match uniform(rng) {
        u if u < 0.33 => Depends::Not,
        u if u < 0.66 => Depends::OnAddress,
        _ => Depends::OnAddressAndPort,
    }
}

#[test]
fn translators_drawn_at_random_are_told_for_what_they_are() {
    for seed in 0..60 {
        let mut rng = Streams::new(seed).stream("translators");
        let way = Way {
            mapping: depends(&mut rng),
            filtering: depends(&mut rng),
            addresses: 1 + (uniform(&mut rng) * 3.0) as u8,
            hairpin: uniform(&mut rng) < 0.5,
            delay: Duration::from_millis(1 + (uniform(&mut rng) * 200.0) as u64),
            loss: if uniform(&mut rng) < 0.5 { 0.0 } else { 0.02 },
            seed,
            ..Way::default()
        };
        let outcome = run("nat:sockets=4,during=2s", way.clone());
        let at = format!("seed {seed}: {way:?}: {}", outcome.says);
        assert_eq!(found(&outcome, "translation"), "yes", "{at}");
        if way.addresses == 1 {
            assert_eq!(found(&outcome, "mapping"), word(way.mapping), "{at}");
        }
        assert_eq!(found(&outcome, "filtering"), word(way.filtering), "{at}");
        let endpoint_independent = way.mapping == Depends::Not;
        if way.hairpin && endpoint_independent {
            let hairpin = found(&outcome, "hairpinning");
            assert_eq!(hairpin, "yes, under the external address", "{at}");
        }
        if !way.hairpin {
            assert_eq!(found(&outcome, "hairpinning"), "no", "{at}");
        }
    }
}

#[test]
fn what_needs_a_second_address_cannot_be_told_without_one() {
    let way = Way {
        second: false,
        ..Way::default()
    };
    let outcome = run("nat:sockets=2,during=0s", way);
    let mapping = found(&outcome, "mapping");
    assert!(mapping.starts_with("cannot tell"), "{mapping}");
}

#[test]
fn without_a_translator_a_firewall_is_told_from_none() {
    for filtering in [Depends::Not, Depends::OnAddressAndPort] {
        let way = Way {
            translates: false,
            filtering,
            ..Way::default()
        };
        let outcome = run("nat:sockets=2,during=0s", way);
        assert_eq!(found(&outcome, "translation"), "no");
        assert_eq!(found(&outcome, "filtering"), word(filtering));
    }
}

#[test]
fn the_lifetime_of_a_silent_mapping_is_inside_its_interval() {
    for seed in 0..20 {
        let mut rng = Streams::new(seed).stream("lifetimes");
        let mut lifetime = |most: f64| {
            let s = 15.0 * (most / 15.0).powf(uniform(&mut rng));
            Duration::from_secs_f64(s)
        };
        let (once, talked) = (lifetime(200.0), lifetime(280.0));
        let way = Way {
            lifetime: (once, talked.max(once)),
            loss: 0.01,
            seed,
            ..Way::default()
        };
        let outcome = run("nat:sockets=2,during=0s,lifetime=5min", way.clone());
        for (key, truth) in [
            ("lifetime_once_ms", way.lifetime.0),
            ("lifetime_ms", way.lifetime.1),
        ] {
            let (_, low, high) = figure(&outcome, key);
            let truth = truth.as_secs_f64() * 1e3;
            assert!(
                (low - 1.0..=high + 1.0).contains(&truth),
                "seed {seed}: {key} {low} to {high}, truth {truth}"
            );
        }
    }
}
