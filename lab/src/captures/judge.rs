//! Judgement of what a capture says, by what its packets did.

use super::family::Draw;
use super::truth::{Passed, Truth, round_trips, steps};
use crate::draws::judge::{Judged, Verdict};
use serde_json::Value;
use stats::{Figure, quantile_of_sorted};

/// Figures in the order of the tables.
pub const FIGURES: [&str; 9] = [
    "data towards, median",
    "data towards, 95 %",
    "data from, median",
    "data from, 95 %",
    "ACKs from, median",
    "ACKs from, 95 %",
    "round trip, median",
    "round trip, 95 %",
    "bursts of the application",
];

/// Share of the truth, and time, within which a figure is right.
const NEAR: f64 = 0.1;
const NEAR_MS: f64 = 3.0;
/// Share of the truth that a bound may lie below it and still tell something.
const BOUND: f64 = 0.5;
/// An interval that reaches farther than this share of the value to one side says too little to be right by it.
const REACH: f64 = 0.25;
/// Wait from which silence counts as "cannot tell".
const LONG_MS: f64 = 60.0;
/// Stretches of time from which a 95 % point is true of a capture.
const LEAST_STEPS: usize = 20;

/// Hosts on the left and on the right, as the simulator numbers them.
const HOSTS: [&str; 2] = ["10.0.0.3", "10.0.0.4"];

/// Judges every wait that is said of the captured hosts, those that are not said, and the bursts.
pub fn all(draw: &Draw, truth: &Truth, said: &Value) -> Vec<Judged> {
    let mut judged = bursts(said);
    for way in [0, 1] {
        let beyond = (draw.point == "d0") == (way == 1);
        let data = truth.of(way, true);
        let (from, to) = (HOSTS[way], HOSTS[1 - way]);
        let round = round_trips(data, truth.of(1 - way, false));
        let known = |waits: &[Passed]| {
            let waits = steps(waits);
            (waits.len() >= LEAST_STEPS).then_some(waits)
        };
        let ways: &[(usize, &str, &str, Option<Vec<f64>>)] = &match beyond {
            true => [
                (0, "towards", to, known(data)),
                (6, "round_trip", to, known(&round)),
            ],
            false => [
                (2, "from", from, known(data)),
                (4, "acks_from", from, known(truth.of(way, false))),
            ],
        };
        let told = |name: &str, host: &str| {
            let waits = said["waits"].as_array().into_iter().flatten();
            let mut of = waits.filter(move |w| w["way"] == name && w["host"] == host);
            of.next()
        };
        let mut silent = true;
        for (figure, name, host, waits) in ways {
            let (Some(wait), Some(waits)) = (told(name, host), waits) else {
                continue;
            };
            silent = false;
            for (k, (key, p)) in [("median_ms", 0.5), ("p95_ms", 0.95)]
                .into_iter()
                .enumerate()
            {
                let figure = FIGURES[figure + k];
                let is = quantile_of_sorted(waits, p).unwrap_or(0.0);
                judged.push(one(figure, is, &wait[key], wait["at_least"] == true));
            }
        }
        // Nothing is said of the data.
        if let (true, (figure, _, _, Some(waits))) = (silent, &ways[0]) {
            let is = quantile_of_sorted(waits, 0.95).unwrap_or(0.0);
            if is >= LONG_MS {
                judged.push(Judged {
                    figure: FIGURES[figure + 1],
                    direction: None,
                    verdict: Verdict::CannotTell,
                    said: "nothing".into(),
                    truth: format!("{is:.1} ms"),
                    covered: None,
                });
            }
        }
    }
    judged
}

/// The transfers of a draw have no application that pauses: only the initial window is a burst of its own.
fn bursts(said: &Value) -> Vec<Judged> {
    let connections = said["connections"].as_array().into_iter().flatten();
    let directions = connections.flat_map(|c| c["directions"].as_array().into_iter().flatten());
    let near = directions.filter_map(|d| {
        let bursts = d["detail"]["bursts"].as_array()?;
        let count = |kind: &str| bursts.iter().find(|b| b[0] == kind)?[1].as_u64();
        let (application, acks) = (count("application")?, count("acks")?);
        // Beside the receiver, none can be told.
        (application + acks > 0).then_some(application)
    });
    near.map(|application| Judged {
        figure: FIGURES[8],
        direction: None,
        verdict: match application {
            0 | 1 => Verdict::Right,
            _ => Verdict::Wrong,
        },
        said: application.to_string(),
        truth: "at most 1".into(),
        covered: None,
    })
    .collect()
}

fn one(figure: &'static str, is: f64, said: &Value, at_least: bool) -> Judged {
    let said: Figure =
        serde_json::from_value(said.clone()).unwrap_or_else(|e| Figure::cannot_tell(e.to_string()));
    let (verdict, covered, said) = match said {
        Figure::CannotTell { cannot_tell } => (Verdict::CannotTell, None, cannot_tell),
        Figure::Is { low: 0.0, .. } if at_least => (Verdict::CannotTell, None, "at least 0".into()),
        Figure::Is { low, .. } if at_least => {
            let holds = is >= low;
            let near = low >= is - (BOUND * is).max(NEAR_MS);
            let verdict = match holds {
                true if near => Verdict::Right,
                true => Verdict::CannotTell,
                false => Verdict::Wrong,
            };
            (verdict, Some(holds), format!("at least {low:.1} ms"))
        }
        Figure::Is { value, low, high } => {
            let holds = (low..=high).contains(&is);
            let near = (value - is).abs() <= (NEAR * is).max(NEAR_MS);
            let tells = (high - value).max(value - low) <= (REACH * value).max(NEAR_MS);
            let verdict = match near || (holds && tells) {
                true => Verdict::Right,
                false if holds => Verdict::CannotTell,
                false => Verdict::Wrong,
            };
            let said = format!("{value:.1} ms ({low:.1} to {high:.1})");
            (verdict, Some(holds), said)
        }
    };
    Judged {
        figure,
        direction: None,
        verdict,
        said,
        truth: format!("{is:.1} ms"),
        covered,
    }
}
