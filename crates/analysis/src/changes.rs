//! Base line of a recording, and the shifts of its level.
//!
//! **Method.** The base line is the smallest round trip of each minute, single outliers smoothed by a median of five.
//! Its change points are those of `stats::change_points` with a penalty of 3 σ² ln n. σ comes from the median of the
//! steps between neighbours, so that steps in the level do not count as noise.
//! Stretches of at least five minutes that lie off its usual level are shifts. The longer round trips of the two levels
//! tell the cause. Another path has neither more spread nor more losses. A queue has more spread, and it has more losses,
//! or minutes whose smallest round trips differ more, or many times the spread. Anything between them may be either. A
//! shift by a whole number of intervals between probes with no more spread is the instrument's fault, if it can take
//! the answer to one probe for the answer to another.
//!
//! **Source.** Borlaug 2014, sections 5.2.6, 5.3.3 and 6.1.1, figures 38 and 44. The shares of a step that spread and
//! minutes have to reach are ours, tried on drawn links (`lab`, `monitors`).
//!
//! **Limits.** Ends of shifts are good to a minute. A path whose delay varies as a queue's does, and that loses packets,
//! passes for one.

use crate::series::Series;
use crate::statistics::{Baseline, Shift, ShiftCause};
use stats::change_points;
use std::cmp::Ordering;

const MINUTE: i64 = 60_000_000_000;
/// Minutes that a shift must last.
const LEAST: usize = 5;
/// Minutes below which no level counts as the usual one.
const NEEDED: usize = 30;
/// Greatest distance of a step from a whole number of intervals, in intervals.
const TOLERANCE: f64 = 0.03;
/// Growth of the spread with a queue, at least; in steps.
const SWINGS: f64 = 0.15;
/// The same where the spread grows so many times that nothing else has to tell.
const SWINGS_ALONE: f64 = 0.05;
/// Ratio of the spreads from which that holds.
const TIMES: f64 = 5.0;
/// Distances of minutes with a queue, at least; in steps.
const UNEVEN: f64 = 0.03;
/// Change of a queue's height while it lasts, at most; in steps.
const VARIES: f64 = 0.5;
/// Change of the spread with another path, at most; in steps.
const STEADY: f64 = 0.01;
/// Standard errors beyond which two levels differ.
const SURE: f64 = 3.5;

/// Round trips of one minute, or of one slot where slots are longer.
struct Minute {
    from_ns: i64,
    to_ns: i64,
    base_ms: f64,
    /// Mean above the smallest round trip.
    spread_ms: f64,
    /// Share of the probes that were lost.
    lost: f64,
}

fn minutes(series: &Series) -> Vec<Minute> {
    let slots = &series.slots;
    let group = (MINUTE / slots.length_ns).max(1) as usize;
    let one = |(i, g): (usize, &[crate::series::slots::Slot])| {
        let answered: u64 = g.iter().map(|s| u64::from(s.answered)).sum();
        let least = g.iter().map(|s| s.least_rtt_ns).min()?;
        let sum: i128 = g.iter().map(|s| i128::from(s.rtt_sum_ns)).sum();
        let sent: u64 = g.iter().map(|s| u64::from(s.sent)).sum();
        let lost: u64 = g.iter().map(|s| u64::from(s.lost)).sum();
        (answered > 0).then(|| Minute {
            from_ns: slots.begin_ns(i * group),
            to_ns: slots.begin_ns(i * group + g.len()),
            base_ms: least as f64 / 1e6,
            spread_ms: (sum as f64 / answered as f64 - least as f64) / 1e6,
            lost: lost as f64 / sent.max(1) as f64,
        })
    };
    slots
        .all
        .chunks(group)
        .enumerate()
        .filter_map(one)
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let v: Vec<f64> = values.collect();
    stats::quantile_of_sorted(&stats::sorted(&v), 0.5).unwrap_or(0.0)
}

/// Base line of a series, with its shifts. `matched`: each answer names its probe, so that none passes for another's.
pub fn baseline(series: &Series, matched: bool) -> Baseline {
    let all = minutes(series);
    if all.len() < NEEDED {
        let method = format!(
            "not looked for: {} minutes with answers, {NEEDED} are needed",
            all.len()
        );
        return Baseline {
            looked: false,
            method,
            shifts: Vec::new(),
        };
    }
    let raw: Vec<f64> = all.iter().map(|m| m.base_ms).collect();
    let noise = noise(&raw);
    let edges = edges(&raw, noise);
    let usual = usual(&raw, &edges, noise);
    let least_step = step_from(usual, noise);
    let level = Usual {
        base_ms: usual,
        least_step,
        signs: Signs::of(
            all.iter()
                .filter(|m| (m.base_ms - usual).abs() < least_step),
        ),
        interval_ms: (!matched).then_some(series.plan.interval_ns as f64 / 1e6),
    };
    Baseline {
        looked: true,
        method: format!(
            "smallest round trip of each minute; usual level {usual:.3} ms, steps from {least_step:.3} ms that last {LEAST} minutes"
        ),
        shifts: joined(&all, &edges, &level),
    }
}

/// Standard deviation of the minutes' base RTT, ms, from the steps between neighbours.
fn noise(raw: &[f64]) -> f64 {
    // The median step of normal noise is 0.6745 · √2 of its σ.
    let noise = median(raw.windows(2).map(|w| (w[1] - w[0]).abs())) / (0.6745 * 2f64.sqrt());
    noise.max(0.05).max(0.01 * median(raw.iter().copied()))
}

/// Smallest step from `level` that counts, ms.
fn step_from(level: f64, noise: f64) -> f64 {
    (3.0 * noise).max(0.5).max(0.1 * level)
}

/// Change points of the smoothed minutes, both ends included.
fn edges(raw: &[f64], noise: f64) -> Vec<usize> {
    let smooth: Vec<f64> = (0..raw.len())
        .map(|i| {
            let near = &raw[i.saturating_sub(2)..(i + 3).min(raw.len())];
            median(near.iter().copied())
        })
        .collect();
    let penalty = 3.0 * noise * noise * (raw.len() as f64).ln();
    std::iter::once(0)
        .chain(change_points(&smooth, penalty, LEAST))
        .chain([raw.len()])
        .collect()
}

/// The level that holds for most of the time, ms.
fn usual(raw: &[f64], edges: &[usize], noise: f64) -> f64 {
    let levels: Vec<(f64, usize)> = edges
        .windows(2)
        .map(|w| (median(raw[w[0]..w[1]].iter().copied()), w[1] - w[0]))
        .collect();
    let minutes_at = |level: f64| -> usize {
        let near = levels
            .iter()
            .filter(|(l, _)| (l - level).abs() < step_from(level, noise));
        near.map(|(_, n)| n).sum()
    };
    levels
        .iter()
        .max_by(|a, b| {
            (minutes_at(a.0), b.0)
                .partial_cmp(&(minutes_at(b.0), a.0))
                .unwrap_or(Ordering::Equal)
        })
        .map_or_else(|| median(raw.iter().copied()), |(level, _)| *level)
}

/// Signs of a queue in the minutes of one level.
struct Signs {
    spread: Typical,
    /// Distances of the minutes' smallest round trips from their median.
    scatter: Typical,
    lost: Typical,
}

/// Location of values, with its variance.
struct Typical {
    value: f64,
    variance: f64,
}

impl Signs {
    fn of<'m>(minutes: impl Iterator<Item = &'m Minute>) -> Signs {
        let minutes: Vec<&Minute> = minutes.collect();
        let base = median(minutes.iter().map(|m| m.base_ms));
        Signs {
            spread: Typical::median(minutes.iter().map(|m| m.spread_ms)),
            scatter: Typical::median(minutes.iter().map(|m| (m.base_ms - base).abs())),
            // Losses are rare: their median is none.
            lost: Typical::mean(minutes.iter().map(|m| m.lost)),
        }
    }
}

impl Typical {
    fn mean(values: impl Iterator<Item = f64>) -> Typical {
        let values: Vec<f64> = values.collect();
        let m = stats::moments(&values);
        let (value, sd) = m.map_or((0.0, 0.0), |m| (m.mean, m.sd));
        Typical {
            value,
            variance: sd * sd / stats::effective_size(&values),
        }
    }

    fn median(values: impl Iterator<Item = f64> + Clone) -> Typical {
        let value = median(values.clone());
        let all: Vec<f64> = values.collect();
        // Of normal values, the median distance is 0.6745 σ, and the variance of the median π/2 of that of the mean.
        let sd = median(all.iter().map(|v| (v - value).abs())) / 0.6745;
        Typical {
            value,
            variance: std::f64::consts::FRAC_PI_2 * sd * sd / stats::effective_size(&all),
        }
    }

    /// Growth from `low` to this: at least, and at most.
    fn grown(&self, low: &Typical) -> (f64, f64) {
        let error = SURE * (self.variance + low.variance).sqrt();
        let by = self.value - low.value;
        (by - error, by + error)
    }
}

/// Level of a recording, from which shifts are told.
struct Usual {
    base_ms: f64,
    least_step: f64,
    signs: Signs,
    /// Interval between probes; none if no answer can pass for another's.
    interval_ms: Option<f64>,
}

impl Usual {
    /// The shift that a stretch between two change points is, if it lies off the usual level.
    fn shift(&self, part: &[Minute]) -> Option<Shift> {
        let (first, last) = (part.first()?, part.last()?);
        let base_ms = median(part.iter().map(|m| m.base_ms));
        let step_ms = base_ms - self.base_ms;
        let intervals = self.interval_ms.and_then(|interval_ms| {
            let times = step_ms / interval_ms;
            let whole = times.round() >= 1.0 && (times - times.round()).abs() <= TOLERANCE;
            whole.then_some(times.round() as i64)
        });
        (step_ms.abs() >= self.least_step).then(|| Shift {
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            step_ms,
            base_ms,
            intervals,
            cause: match self.cause(step_ms, &Signs::of(part.iter())) {
                ShiftCause::Path if intervals.is_some() => ShiftCause::Instrument,
                cause => cause,
            },
        })
    }

    /// True if `next` goes on with what `last` began.
    fn is_one(&self, last: &Shift, next: &Shift) -> bool {
        let apart = (last.base_ms - next.base_ms).abs();
        let may_wait = |s: &Shift| matches!(s.cause, ShiftCause::Queue | ShiftCause::CannotTell);
        let waits = may_wait(last)
            && may_wait(next)
            && last.step_ms * next.step_ms > 0.0
            && apart < VARIES * last.step_ms.abs().min(next.step_ms.abs());
        let is_level = last.cause == next.cause && apart < self.least_step;
        last.to_ns == next.from_ns && (waits || is_level)
    }

    fn cause(&self, step_ms: f64, signs: &Signs) -> ShiftCause {
        let (high, low) = match step_ms > 0.0 {
            true => (signs, &self.signs),
            false => (&self.signs, signs),
        };
        let step_ms = step_ms.abs();
        let (spread_from, spread_to) = high.spread.grown(&low.spread);
        let (lost_from, _) = high.lost.grown(&low.lost);
        let (scatter_from, _) = high.scatter.grown(&low.scatter);
        let loses = lost_from > 0.0;
        let uneven = scatter_from >= UNEVEN * step_ms;
        let alone = high.spread.value >= TIMES * low.spread.value;
        if spread_from >= SWINGS * step_ms && (loses || uneven)
            || spread_from >= SWINGS_ALONE * step_ms && alone
        {
            ShiftCause::Queue
        } else if spread_to.max(-spread_from) <= STEADY * step_ms && !loses {
            ShiftCause::Path
        } else {
            ShiftCause::CannotTell
        }
    }
}

/// Shifts in time order. Neighbours of one level and one cause are one, and so are those of a queue whose height varies.
fn joined(all: &[Minute], edges: &[usize], level: &Usual) -> Vec<Shift> {
    let mut found: Vec<(usize, Shift)> = Vec::new();
    for w in edges.windows(2) {
        let Some(shift) = level.shift(&all[w[0]..w[1]]) else {
            continue;
        };
        match found.last_mut() {
            Some((from, last)) if level.is_one(last, &shift) => {
                if let Some(both) = level.shift(&all[*from..w[1]]) {
                    *last = both;
                }
            }
            _ => found.push((w[0], shift)),
        }
    }
    found.into_iter().map(|(_, shift)| shift).collect()
}
