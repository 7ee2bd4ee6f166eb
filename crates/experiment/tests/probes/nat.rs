//! The kind `nat` behind translators drawn at random. A failure names the seed.

use super::figure;
use base::Duration;
use base::rng::{Rng, Streams, uniform};
use experiment::Outcome;
use link::LinkSpec;
use measure::control::listen::Transport;
use sim::bufferbloat::network::{Block, Depends, Nat};
use sim::bufferbloat::{Network, Plan};
use std::collections::BTreeMap;

/// A path with address translation and blocked ports.
#[derive(Clone, Debug)]
pub struct Way {
    pub nat: Nat,
    pub second: bool,
    pub ports: BTreeMap<(Transport, u16), Block>,
    /// Delay one way.
    pub delay: Duration,
    /// Share of datagrams lost in each direction.
    pub loss: f64,
    pub seed: u64,
}

impl Default for Way {
    fn default() -> Way {
        Way {
            nat: Nat::default(),
            second: true,
            ports: BTreeMap::new(),
            delay: Duration::from_millis(10),
            loss: 0.0,
            seed: 1,
        }
    }
}

pub fn run(spec: &str, way: Way) -> Outcome {
    let micros = way.delay.as_nanos() / 1000;
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\n[up]\nrate = \"1 Gbit/s\"\ndelay = \"{micros} us\"\n[down]\nrate = \"1 Gbit/s\"\ndelay = \"{micros} us\"\n"
    );
    let link = LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let plan = Plan {
        network: Network {
            nat: way.nat,
            second: way.second,
            ports: way.ports,
            loss: way.loss,
            ..Network::default()
        },
        ..Plan::new(link, way.seed)
    };
    super::over(spec, &plan, base::Bytes::new(100_000_000))
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
        let nat = Nat {
            mapping: depends(&mut rng),
            filtering: depends(&mut rng),
            addresses: 1 + (uniform(&mut rng) * 3.0) as u8,
            hairpin: uniform(&mut rng) < 0.5,
            ..Nat::default()
        };
        let way = Way {
            nat,
            delay: Duration::from_millis(1 + (uniform(&mut rng) * 200.0) as u64),
            loss: if uniform(&mut rng) < 0.5 { 0.0 } else { 0.02 },
            seed,
            ..Way::default()
        };
        let outcome = run("nat:sockets=4,during=2s", way.clone());
        let at = format!("seed {seed}: {way:?}: {}", outcome.says);
        assert_eq!(found(&outcome, "translation"), "yes", "{at}");
        if nat.addresses == 1 {
            assert_eq!(found(&outcome, "mapping"), word(nat.mapping), "{at}");
        }
        assert_eq!(found(&outcome, "filtering"), word(nat.filtering), "{at}");
        let endpoint_independent = nat.mapping == Depends::Not;
        if nat.hairpin && endpoint_independent {
            let hairpin = found(&outcome, "hairpinning");
            assert_eq!(hairpin, "yes, under the external address", "{at}");
        }
        if !nat.hairpin {
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
            nat: Nat {
                translates: false,
                filtering,
                ..Nat::default()
            },
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
            nat: Nat {
                lifetime: (once, talked.max(once)),
                ..Nat::default()
            },
            loss: 0.01,
            seed,
            ..Way::default()
        };
        let outcome = run("nat:sockets=2,during=0s,lifetime=5min", way.clone());
        for (key, truth) in [
            ("lifetime_once_ms", way.nat.lifetime.0),
            ("lifetime_ms", way.nat.lifetime.1),
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
