//! Sizes in turn: the least delay of each grows by the time that the path's links need for a byte.
//!
//! **Source.** Jacobson, "pathchar: a tool to infer characteristics of Internet paths", MSRI 1997; Downey, "Using
//! pathchar to Estimate Internet Link Characteristics", SIGCOMM 1999.
//!
//! **Deviations.** From end to end: one slope for all links together, from one-way delays.

use super::super::trains::of_stage;
use super::pairs::rate_of;
use base::program::Train;
use stats::Figure;
use std::collections::BTreeMap;

/// Unexplained share of the least delays' range above which a line through them does not count.
const SCATTER: f64 = 0.05;

/// Least delay of each size within a stretch of the train, with its time.
type Least = BTreeMap<u32, (f64, f64)>;

fn least(train: &Train, headers: u32, half: usize) -> Least {
    let count = train.fates.len();
    let mut least = Least::new();
    for (due, fate) in train.datagrams() {
        let (Some(sent), Some(received)) = (fate.sent_ns, fate.received_ns) else {
            continue;
        };
        if (due.seq as usize >= count / 2) != (half == 1) {
            continue;
        }
        let at = due.at.as_secs_f64();
        let delay = (received - sent) as f64 * 1e-9;
        let entry = least.entry(due.payload + headers).or_insert((at, delay));
        if delay < entry.1 {
            *entry = (at, delay);
        }
    }
    least
}

/// Rate whose inverse is the sum of the inverses of all links of the path.
pub fn capacity(trains: &[Train]) -> Figure {
    let Some(train) = of_stage(trains, "size").next() else {
        return Figure::cannot_tell("the sizes were not sent");
    };
    let headers = train.facts.headers;
    let halves = [least(train, headers, 0), least(train, headers, 1)];
    // One clock gains on the other: the least delays of both halves differ by that.
    let drifts: Vec<f64> = halves[0]
        .iter()
        .filter_map(|(size, (t, d))| {
            let (later, longer) = halves[1].get(size)?;
            Some((longer - d) / (later - t))
        })
        .collect();
    let Some(drift) = stats::quantile_of_sorted(&stats::sorted(&drifts), 0.5) else {
        return Figure::cannot_tell("hardly any packet of these sizes arrived");
    };
    // Clocks of computers differ by a ten-thousandth at most; what is more is the queue.
    let drift = drift.clamp(-1e-4, 1e-4);
    let mut points: BTreeMap<u32, f64> = BTreeMap::new();
    for (size, (t, d)) in halves.iter().flatten() {
        let d = d - drift * t;
        let best = points.entry(*size).or_insert(d);
        *best = best.min(d);
    }
    let points: Vec<(f64, f64)> = points.iter().map(|(s, d)| (f64::from(*s), *d)).collect();
    let n = points.len() as f64;
    if points.len() < 5 {
        return Figure::cannot_tell("hardly any packet of these sizes arrived");
    }
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / sxx;
    let off = |p: &(f64, f64)| (p.1 - my - slope * (p.0 - mx)).powi(2);
    let residual = (points.iter().map(off).sum::<f64>() / (n - 2.0)).sqrt();
    let range = slope * (points[points.len() - 1].0 - points[0].0);
    if slope <= 0.0 || residual > SCATTER * range {
        return Figure::cannot_tell(
            "the least delays do not grow evenly with the size: no packet of some sizes met an empty queue",
        );
    }
    let half = stats::student_t95(n - 2.0) * residual / sxx.sqrt();
    rate_of(
        &Figure::Is {
            value: slope,
            low: slope - half,
            high: slope + half,
        },
        8.0,
    )
}
