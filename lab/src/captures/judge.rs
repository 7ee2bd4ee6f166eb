//! Judgement of what a capture says, by what its packets did.

use super::family::{Draw, HOSTS};
use super::senders::Spent;
use super::truth::{Passed, Truth, round_trips, steps};
use crate::draws::judge::{Judged, Verdict};
use serde_json::Value;
use stats::{Figure, quantile_of_sorted};

/// Figures in the order of the tables.
pub const FIGURES: [&str; 13] = [
    "data towards, median",
    "data towards, 95 %",
    "data from, median",
    "data from, 95 %",
    "ACKs from, median",
    "ACKs from, 95 %",
    "round trip, median",
    "round trip, 95 %",
    "bursts of the application",
    "limited by the application",
    "limited by the receiver",
    "limited by the network",
    "packets lost",
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

/// Time below which nothing is judged of what held a sender back, s.
const LEAST_S: f64 = 1.0;
/// Lost packets by which a count may be wrong.
const NEAR_PACKETS: f64 = 2.0;

/// Judges every wait that is said of the captured hosts, those that are not said, the bursts, the losses, and what held
/// each sender back.
pub fn all(draw: &Draw, truth: &Truth, said: &Value) -> Vec<Judged> {
    let mut judged = match draw.pauses {
        true => Vec::new(),
        false => bursts(said),
    };
    judged.extend(senders(draw, truth, said));
    for way in [0, 1] {
        let beyond = (draw.point == "d0") == (way == 1);
        let data = truth.of(way, true);
        let hosts = HOSTS.map(|h| h.1.to_string());
        let (from, to) = (hosts[way].as_str(), hosts[1 - way].as_str());
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

/// The losses of each sender, and what held it back.
fn senders(draw: &Draw, truth: &Truth, said: &Value) -> Vec<Judged> {
    let connections = said["connections"].as_array().into_iter().flatten();
    let directions = connections.flat_map(|c| c["directions"].as_array().into_iter().flatten());
    let directions: Vec<&Value> = directions.collect();
    let mut judged = Vec::new();
    for sender in &truth.senders {
        let port = format!(":{}", sender.port);
        let from = |d: &&&Value| d["from"].as_str().is_some_and(|f| f.ends_with(&port));
        let Some(said) = directions.iter().find(from) else {
            continue;
        };
        // A loss shows only to a capture ahead of it.
        let ahead = (draw.point == "d0") == (sender.way == 1);
        if ahead {
            judged.push(lost(truth.copies.repairs(sender.flow), said));
        }
        judged.extend(held_back(&sender.spent, ahead, &said["detail"]));
    }
    judged
}

fn lost([least, most]: [u64; 2], said: &Value) -> Judged {
    let slack = |n: u64| (NEAR * n as f64).max(NEAR_PACKETS) as u64;
    let near = least.saturating_sub(slack(least))..=most + slack(most);
    let count = |key: &str| said["losses"][key].as_u64().unwrap_or(0);
    let (lost, perhaps) = (count("lost"), count("perhaps_needless"));
    // As many were lost as could not be needless, at least.
    let may_be = (lost - perhaps..=lost).contains(&least);
    Judged {
        figure: FIGURES[12],
        direction: None,
        verdict: match near.contains(&lost) {
            true => Verdict::Right,
            false if may_be => Verdict::CannotTell,
            false => Verdict::Wrong,
        },
        said: match perhaps {
            0 => lost.to_string(),
            _ => format!("{} to {lost}", lost - perhaps),
        },
        truth: match least == most {
            true => least.to_string(),
            false => format!("{least} to {most}"),
        },
        covered: None,
    }
}

/// Shares of the time in which each limit held a sender back.
fn held_back(is: &Spent, ahead: bool, said: &Value) -> Vec<Judged> {
    let seconds = |key: &str| said[key].as_f64();
    let told = ["sender", "receiver", "network"].map(|who| seconds(&format!("{who}_limited_s")));
    let together_s = seconds("receiver_or_network_limited_s").unwrap_or(0.0);
    let told_s = told.iter().flatten().sum::<f64>() + together_s;
    let is_s = is.all_s();
    if told_s < LEAST_S || is_s < LEAST_S {
        return Vec::new();
    }
    // What held back a sender whose last data are on their way is seen beside it alone, and never which of two full
    // windows.
    let (idle_s, sent_s) = match ahead {
        true => (is.idle_s + is.sent_s, 0.0),
        false => (is.idle_s, is.sent_s),
    };
    let may_be = [
        (idle_s, is.repair_s + sent_s),
        (is.receiver_s, is.both_s + sent_s),
        (is.network_s, is.repair_s + is.both_s + sent_s),
    ];
    let judge = |(k, (told, (least_s, more_s))): (usize, (Option<f64>, (f64, f64)))| {
        let [least, most] = [least_s, least_s + more_s].map(|s| s / is_s);
        let right = least - NEAR..=most + NEAR;
        let (verdict, said) = match told.map(|s| s / told_s) {
            None => (Verdict::CannotTell, "cannot tell".into()),
            Some(share) if right.contains(&share) => (Verdict::Right, percent(share)),
            Some(share) => (Verdict::Wrong, percent(share)),
        };
        Judged {
            figure: FIGURES[9 + k],
            direction: None,
            verdict,
            said,
            truth: match more_s > 0.0 {
                true => format!("{} to {}", percent(least), percent(most)),
                false => percent(least),
            },
            covered: None,
        }
    };
    told.into_iter()
        .zip(may_be)
        .enumerate()
        .map(judge)
        .collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
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
