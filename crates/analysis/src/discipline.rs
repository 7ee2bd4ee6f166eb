//! Which kind of queue it is, from how delay and loss behave under load.
//!
//! **Method.** Three questions. (1) Do probes on their own flow wait as long as the load's own packets in
//! the same seconds? If the load waits several packets' time longer, flows are kept apart: fair queueing.
//! (2) How full was the queue whenever the load met congestion? Always at one sharp ceiling, the highest
//! level ever seen: drop-tail. (3) Was it congestion far below the highest level, and was the delay brought
//! down after it: an AQM. The first seconds, with slow start's overshoot, count here: an AQM lets the burst
//! in and then works it off, a drop-tail queue stays at its ceiling.
//!
//! **Source.** Seed document 000, sections 6.1.3 to 6.1.5 (losses on the delay curve, sawtooth);
//! RFC 8289 (CoDel), RFC 8290 (FQ-CoDel); cake-autorate issue 393 (sparse flows that see nothing).
//!
//! **Limits.** On a line where one packet takes longer than an AQM's target, delay cannot fall below the
//! smallest windows of the flows: levels are compared in packets there. On a line whose rate moves, such as
//! radio, levels of delay say nothing of the discipline. A load that never met congestion
//! says nothing of what the queue does when it is full.

use crate::answer::{Discipline, DisciplineGuess};
use crate::bottleneck::Bottleneck;
use crate::stats;

/// Rates of a full link that differ by less than this are one rate: sampling alone makes a few per cent.
const STEADY_RATE: f64 = 0.12;

/// What (2) and (3) say of one series of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Ceiling,
    Controlled,
    Unclear,
}

pub fn discipline(b: &Bottleneck) -> DisciplineGuess {
    let mut evidence = Vec::new();
    let cannot = |evidence: Vec<String>, settle: &str| DisciplineGuess {
        is: Discipline::CannotTell,
        evidence,
        would_settle: Some(settle.into()),
    };
    if b.goodput.value().is_none() {
        return cannot(
            vec![format!("no load was carried in direction {}", b.direction)],
            "a test whose load in this direction runs for at least 10 s",
        );
    }
    if b.waits.len() < 10 {
        return cannot(
            vec![format!("{} probes were answered under load", b.waits.len())],
            "probes that are answered: look for a filter of UDP, or a longer test",
        );
    }
    let apart = kept_apart(b, &mut evidence);
    // What is read off levels of delay needs a rate that stays: a buffer full at 4 Mbit/s waits twice as
    // long as the same at 8.
    if let Some(moves) = b.rate_moves.filter(|m| *m > STEADY_RATE) {
        evidence.push(format!(
            "the rate of the full line itself moves by {:.0} % (standard deviation), and the wait with it",
            100.0 * moves
        ));
        return cannot(evidence, "a test while the line keeps its rate");
    }
    // Where flows are kept apart, only the load's own packets see the queue that matters.
    let behaviour = behaviour(b, apart == Some(true), &mut evidence);
    let is = match (apart, behaviour) {
        (Some(true), Behaviour::Controlled) => Discipline::FairQueueingAqm,
        (Some(true), _) => Discipline::FairQueueing,
        (_, Behaviour::Ceiling) => Discipline::DropTail,
        (_, Behaviour::Controlled) => Discipline::Aqm,
        (_, Behaviour::Unclear) => Discipline::CannotTell,
    };
    if is == Discipline::CannotTell {
        let settle = if b.epochs.as_ref().is_none_or(|e| e.len() < 2) {
            "a load that fills the queue: more flows, a longer test, or a larger socket buffer"
        } else {
            "a longer test with a steady load, and a burst of UDP datagrams to find the ceiling"
        };
        return cannot(evidence, settle);
    }
    DisciplineGuess {
        is,
        evidence,
        would_settle: None,
    }
}

/// Whether probes and load wait in different queues; `None` where the data cannot say.
fn kept_apart(b: &Bottleneck, evidence: &mut Vec<String>) -> Option<bool> {
    let mut pairs = b.side_by_side();
    if pairs.is_empty() {
        evidence.push(
            "the load's sender reported no round-trip times, so fair queueing cannot be seen"
                .into(),
        );
        return None;
    }
    // The quarter in which the load itself waited longest: there the two differ if they ever do.
    pairs.sort_by(|x, y| y.1.total_cmp(&x.1));
    pairs.truncate((pairs.len() / 4).max(1));
    let n = pairs.len() as f64;
    let (probe, load) = (
        pairs.iter().map(|p| p.0).sum::<f64>() / n,
        pairs.iter().map(|p| p.1).sum::<f64>() / n,
    );
    // Delayed acknowledgements alone make up to a packet's time a flow, and the hosts some.
    let margin = (1.0 + b.flows.clamp(1, 4) as f64) * b.packet_ms + 3.0;
    let said = format!(
        "while the load waited longest, its own packets waited {load:.1} ms, probes on a flow of their own {probe:.1} ms (one full packet takes {:.1} ms)",
        b.packet_ms
    );
    if load - probe > margin && probe < 0.4 * load {
        evidence.push(format!("{said}: flows are kept apart"));
        return Some(true);
    }
    if load < margin {
        evidence.push(format!("{said}: too little to tell one queue from many"));
        return None;
    }
    evidence.push(format!("{said}: one queue for all"));
    Some(false)
}

fn behaviour(b: &Bottleneck, apart: bool, evidence: &mut Vec<String>) -> Behaviour {
    let series = if apart { &b.in_flow } else { &b.waits };
    let Some(top) = b.top(series) else {
        return Behaviour::Unclear;
    };
    let steady = stats::sorted(&b.steady(series));
    let p95 = stats::quantile_of_sorted(&steady, 0.95).unwrap_or(top);
    let mut levels = b.levels(apart);
    levels.sort_by(f64::total_cmp);
    let Some(median) = stats::quantile_of_sorted(&levels, 0.5) else {
        evidence.push(format!(
            "the load met no congestion: the queue was never seen full (most {top:.1} ms)"
        ));
        return Behaviour::Unclear;
    };
    let n = levels.len();
    let near =
        |level: f64| level >= 0.8 * top || top - level <= 1.5 * b.packet_ms && level >= 0.5 * top;
    let at_ceiling = levels.iter().filter(|l| near(**l)).count();
    let said = format!(
        "the load met congestion {n} times, {at_ceiling} of them at the ceiling of {top:.1} ms (median level {median:.1} ms; 95 % of the steady waits below {p95:.1} ms)"
    );
    if n >= 2 && at_ceiling * 10 >= n * 6 && p95 >= 0.7 * top {
        evidence.push(format!("{said}: losses only when the queue is full"));
        return Behaviour::Ceiling;
    }
    let seldom = at_ceiling * 2 < n && (p95 < 0.75 * top || n >= 5 && at_ceiling * 4 < n);
    if n >= 2 && (seldom || p95 < 0.6 * top) {
        evidence.push(format!("{said}: packets are dropped long before the queue is full, and the delay is brought down"));
        return Behaviour::Controlled;
    }
    evidence.push(said);
    Behaviour::Unclear
}
