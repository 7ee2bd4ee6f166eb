//! Base line of a recording, and the shifts of its level.
//!
//! **Method.** The base line is the smallest round trip of each minute, single outliers smoothed by a median of five.
//! Its change points are those of `stats::change_points` with a penalty of 3 σ² ln n. σ comes from the median of the
//! steps between neighbours, so that steps in the level do not count as noise.
//! Stretches of at least five minutes that lie off its usual level are shifts. A shift by a whole number of
//! intervals between probes with no more spread than before is the instrument's fault: it takes the answer to
//! one probe for the answer to another.
//!
//! **Source.** Borlaug 2014, sections 5.2.6, 5.3.3 and 6.1.1, figures 38 and 44.
//!
//! **Limits.** Ends of shifts are good to a minute.

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
const TOLERANCE: f64 = 0.15;

/// Round trips of one minute, or of one slot where slots are longer.
struct Minute {
    from_ns: i64,
    to_ns: i64,
    base_ms: f64,
    /// Mean above the smallest round trip.
    spread_ms: f64,
}

fn minutes(series: &Series) -> Vec<Minute> {
    let slots = &series.slots;
    let group = (MINUTE / slots.length_ns).max(1) as usize;
    let one = |(i, g): (usize, &[crate::series::slots::Slot])| {
        let answered: u64 = g.iter().map(|s| u64::from(s.answered)).sum();
        let least = g.iter().map(|s| s.least_rtt_ns).min()?;
        let sum: i128 = g.iter().map(|s| i128::from(s.rtt_sum_ns)).sum();
        (answered > 0).then(|| Minute {
            from_ns: slots.begin_ns(i * group),
            to_ns: slots.begin_ns(i * group + g.len()),
            base_ms: least as f64 / 1e6,
            spread_ms: (sum as f64 / answered as f64 - least as f64) / 1e6,
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

/// Base line of a series, with its shifts.
pub fn baseline(series: &Series) -> Baseline {
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
        spread_ms: median(
            all.iter()
                .filter(|m| (m.base_ms - usual).abs() < least_step)
                .map(|m| m.spread_ms),
        ),
        interval_ms: series.plan.interval_ns as f64 / 1e6,
    };
    let parts = edges.windows(2).map(|w| &all[w[0]..w[1]]);
    Baseline {
        looked: true,
        method: format!(
            "smallest round trip of each minute; usual level {usual:.3} ms, steps from {least_step:.3} ms that last {LEAST} minutes"
        ),
        shifts: joined(parts.filter_map(|p| level.shift(p)), &level),
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

/// Level of a recording, from which shifts are told.
struct Usual {
    base_ms: f64,
    least_step: f64,
    spread_ms: f64,
    interval_ms: f64,
}

impl Usual {
    /// The shift that a stretch between two change points is, if it lies off the usual level.
    fn shift(&self, part: &[Minute]) -> Option<Shift> {
        let (first, last) = (part.first()?, part.last()?);
        let base_ms = median(part.iter().map(|m| m.base_ms));
        let step_ms = base_ms - self.base_ms;
        let times = step_ms / self.interval_ms;
        let whole = (times.round() >= 1.0 && (times - times.round()).abs() <= TOLERANCE)
            .then_some(times.round() as i64);
        let steady = median(part.iter().map(|m| m.spread_ms)) <= 3.0 * self.spread_ms + 2.0;
        (step_ms.abs() >= self.least_step).then_some(Shift {
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            step_ms,
            base_ms,
            intervals: whole,
            cause: match (steady, whole) {
                (true, Some(_)) => ShiftCause::Instrument,
                (true, None) => ShiftCause::Path,
                (false, _) => ShiftCause::Queue,
            },
        })
    }
}

/// Shifts in time order; neighbours of one level and one cause are one.
fn joined(found: impl Iterator<Item = Shift>, level: &Usual) -> Vec<Shift> {
    let mut shifts: Vec<Shift> = Vec::new();
    for s in found {
        match shifts.last_mut() {
            Some(last)
                if last.to_ns == s.from_ns
                    && last.cause == s.cause
                    && (last.base_ms - s.base_ms).abs() < level.least_step =>
            {
                let (a, b) = (
                    (last.to_ns - last.from_ns) as f64,
                    (s.to_ns - s.from_ns) as f64,
                );
                last.base_ms = (last.base_ms * a + s.base_ms * b) / (a + b);
                last.step_ms = last.base_ms - level.base_ms;
                last.to_ns = s.to_ns;
            }
            _ => shifts.push(s),
        }
    }
    shifts
}
