//! Answer from all trains.

use super::{Params, parts};
use crate::answer::{Figured, Outcome};
use base::print::significant;
use base::record::Recording;
use stats::Figure;

pub(super) fn answer(params: &Params, recording: &Recording) -> Outcome {
    let parts: Vec<(&str, Outcome)> = parts(params)
        .iter()
        .map(|p| {
            let kind = p.kind();
            (kind.entry.name, (kind.answer)(p.words(), recording))
        })
        .collect();
    let value = |key: &str| {
        parts
            .iter()
            .flat_map(|p| &p.1.figures)
            .filter(|f| f.key == key)
            .find_map(|f| f.figure.value())
    };
    let advice = advice(&value);
    if advice.is_empty() {
        return Outcome::cannot_tell("the run ended before the first of its parts had an answer");
    }
    let number =
        |key: &str, scale: f64| value(key).map_or("?".into(), |v| significant(v / scale, 3));
    let mut outcome = Outcome {
        says: format!(
            "Safe {}: up to {} Mbit/s, {} bytes a datagram, bursts of at most {}, evenly spaced.",
            params.direction,
            number("lossless_bps", 1e6),
            number("best_payload_bytes", 1.0),
            number("burst_packets", 1.0)
        ),
        advice,
        ..Outcome::default()
    };
    for (kind, part) in parts {
        outcome.evidence.push(format!("{kind}: {}", part.says));
        let named = |d: String| format!("{kind}: {d}");
        outcome.doubts.extend(part.doubts.into_iter().map(named));
        let known = |f: &Figured| matches!(f.figure, Figure::Is { .. });
        let fresh: Vec<Figured> = part.figures.into_iter().filter(known).collect();
        for f in fresh {
            if !outcome.figures.iter().any(|g| g.key == f.key) {
                outcome.figures.push(f);
            }
        }
        outcome.tables.extend(part.tables);
        outcome.plots.extend(part.plots);
    }
    outcome
}

/// Rules for a sender, one for each part that has an answer; `value` is a part's figure.
fn advice(value: &impl Fn(&str) -> Option<f64>) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(r) = value("lossless_bps") {
        advice.push(format!(
            "Rate: stay below {} Mbit/s of payload in datagrams of 1452 bytes; smaller ones carry less, for each has its headers.",
            significant(r / 1e6, 3)
        ));
    }
    let sizes = (value("best_payload_bytes"), value("whole_payload_bytes"));
    if let (Some(best), Some(edge)) = sizes {
        advice.push(format!(
            "Size: {best} bytes are best, between 500 and {edge} is good; never more than {edge}, for beyond it datagrams are cut and every fragment must arrive."
        ));
    }
    let each = value("two_senders_packets");
    if let Some(n) = value("burst_packets") {
        advice.push(format!(
            "Burst: at most {n} datagrams at once into an empty queue{}.",
            each.map_or(String::new(), |e| format!(
                "; at most {e} each where two senders share the link"
            ))
        ));
    }
    let pairs = (value("pairs_first_lost"), value("pairs_second_lost"));
    if let (Some(first), Some(second)) = pairs {
        advice.push(format!(
            "Spacing: space datagrams evenly. In pairs, on an overloaded line, {} % of the first and {} % of the second are lost, one after the other.",
            significant(first * 100.0, 2),
            significant(second * 100.0, 2)
        ));
    }
    advice
}
