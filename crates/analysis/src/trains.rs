//! Figures of single trains: rate at the receiver, growth of the queue, share lost. Experiments and the overload trains
//! of the test build on these.

use base::program::{Fate, Train};
use stats::Figure;

/// Relative error of a crystal: no rate by one clock is known better.
pub const CLOCK: f64 = 1e-4;

/// Trains of the stages whose names begin with the given text, in order.
pub fn of_stage<'a>(
    trains: &'a [Train],
    stage: &'a str,
) -> impl Iterator<Item = &'a Train> + Clone {
    trains
        .iter()
        .filter(move |t| t.facts.stage.split(' ').next() == Some(stage))
}

/// Arrivals in order: times, and bytes of payload.
pub fn arrivals(train: &Train) -> Vec<(i64, f64)> {
    let mut all: Vec<(i64, f64)> = train
        .datagrams()
        .filter_map(|(due, fate)| Some((fate.received_ns?, f64::from(due.payload))))
        .collect();
    all.sort_by_key(|a| a.0);
    all
}

/// Payload rate at the receiver, bit/s, of the arrivals after the share `skip` of the time: bytes between the first and
/// the last arrival, without the first.
pub fn received_rate(train: &Train, skip: f64) -> Option<f64> {
    let all = arrivals(train);
    let (first, last) = (all.first()?.0, all.last()?.0);
    let from = first + ((last - first) as f64 * skip) as i64;
    let kept: Vec<&(i64, f64)> = all.iter().filter(|a| a.0 >= from).collect();
    let time = (kept.last()?.0 - kept.first()?.0) as f64;
    let bytes: f64 = kept[1..].iter().map(|a| a.1).sum();
    (time > 0.0).then(|| bytes * 8e9 / time)
}

/// Payload rate at the receiver with its interval, from a dozen equal stretches.
pub fn received_rate_figure(train: &Train, skip: f64) -> Figure {
    let all = arrivals(train);
    let Some(mean) = received_rate(train, skip) else {
        return Figure::cannot_tell("fewer than two datagrams arrived");
    };
    let from = ((all.len() as f64 * skip) as usize).min(all.len() - 1);
    let kept = &all[from..];
    let each = (kept.len() / 12).max(2);
    let rates: Vec<f64> = kept
        .windows(each + 1)
        .step_by(each)
        .filter_map(|w| {
            let time = (w[each].0 - w[0].0) as f64;
            let bytes: f64 = w[1..].iter().map(|a| a.1).sum();
            (time > 0.0).then(|| bytes * 8e9 / time)
        })
        .collect();
    match stats::mean_figure(&rates) {
        Figure::Is { value, low, high } => Figure::Is {
            value: mean,
            low: (mean - (value - low)).max(0.0),
            high: mean + (high - value),
        },
        Figure::CannotTell { .. } => Figure::exactly(mean),
    }
}

/// Payload rate of sending, bit/s.
pub fn sent_rate(train: &Train) -> Option<f64> {
    let sent: Vec<(i64, u32)> = train
        .datagrams()
        .filter_map(|(due, fate)| Some((fate.sent_ns?, due.payload)))
        .collect();
    let time = (sent.last()?.0 - sent.first()?.0) as f64;
    let bytes: f64 = sent[1..].iter().map(|s| f64::from(s.1)).sum();
    (time > 0.0).then(|| bytes * 8e9 / time)
}

/// Delays in one direction above the train's smallest, ms, in the order of sending, with the time since its begin, s.
pub fn waits(train: &Train) -> Vec<(f64, f64)> {
    let Some(began) = train.began_ns() else {
        return Vec::new();
    };
    let Some(least) = train.delays().map(|d| d.1).min() else {
        return Vec::new();
    };
    let wait = |f: &Fate| {
        let (sent, received) = (f.sent_ns?, f.received_ns?);
        Some((
            (sent - began) as f64 * 1e-9,
            (received - sent - least) as f64 * 1e-6,
        ))
    };
    train.fates.iter().filter_map(wait).collect()
}

/// Rise of the delay from the begin of a train to its end, ms, and the part of it that the scatter of delays explains.
/// Medians of the first and the last fifth.
pub fn growth(train: &Train) -> Option<(f64, f64)> {
    let waits: Vec<f64> = waits(train).into_iter().map(|w| w.1).collect();
    let fifth = waits.len() / 5;
    if fifth < 3 {
        return None;
    }
    let median = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5);
    let (early, late) = (&waits[..fifth], &waits[waits.len() - fifth..]);
    let (a, b) = (median(early)?, median(late)?);
    let spread = |v: &[f64], m: f64| {
        median(&v.iter().map(|x| (x - m).abs()).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    // 1.4826 × MAD is a normal's deviation; that of a median of n is 1.25/√n of it, and three of those are rare.
    let scatter =
        3.0 * 1.4826 * 1.25 * spread(early, a).hypot(spread(late, b)) / (fifth as f64).sqrt();
    Some((b - a, scatter))
}

/// True if more came in than the link took: the queue grew by more than two datagrams and than the scatter explains.
pub fn overloads(train: &Train, rate_bps: f64) -> bool {
    let payload = f64::from(train.facts.program.largest_payload() + train.facts.headers);
    let one_ms = payload * 8e3 / rate_bps.max(1.0);
    growth(train).is_some_and(|(by, scatter)| by > 2.0 * one_ms + scatter)
}

/// Share that was lost, with its interval.
pub fn loss(train: &Train) -> Figure {
    stats::share(&train.losses().collect::<Vec<_>>())
}
