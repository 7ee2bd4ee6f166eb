//! Where a level moved, and the base line of a recording.
//!
//! **Method.** Change points: the segmentation of a series that makes the sum of squares about the segments'
//! means, plus a penalty for each change, smallest (optimal partitioning). Neighbours that cost far less than the
//! penalty to join are joined first, from the bottom up; among the boundaries left the optimum is exact, and each is then moved to its best place. The
//! penalty is 3 σ² ln n, with σ from the median of the steps between neighbours, so that steps in the level
//! do not count as noise.
//!
//! The base line is the smallest round trip of each minute, single outliers smoothed by a median of five.
//! Stretches of at least five minutes that lie off its usual level are shifts. A shift by a whole number of
//! intervals between probes with no more spread than before is the instrument's fault: it takes the answer to
//! one probe for the answer to another.
//!
//! **Source.** B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
//! Processing Letters 12(2), 2005; seed document 000, sections 5.2.6, 5.3.3 and 6.1.1, figures 38 and 44.
//!
//! **Validated against** ruptures 1.1 (`reference/statistics.py`).
//!
//! **Limits.** Ends of shifts are good to a minute.

use crate::series::Series;
use crate::statistics::{Baseline, Shift, ShiftCause};
use crate::stats;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Where segments begin, without the first. Each has at least `least` values.
pub fn change_points(x: &[f64], penalty: f64, least: usize) -> Vec<usize> {
    let least = least.max(1);
    if x.len() < 2 * least {
        return Vec::new();
    }
    // About the mean, so that squares keep their digits.
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let mut sums = vec![(0.0, 0.0)];
    for v in x {
        let (s, q): (f64, f64) = sums[sums.len() - 1];
        let d = v - mean;
        sums.push((s + d, q + d * d));
    }
    let cost = |a: usize, b: usize| {
        let (s, q) = (sums[b].0 - sums[a].0, sums[b].1 - sums[a].1);
        (q - s * s / (b - a) as f64).max(0.0)
    };
    let edges = candidates(x.len(), 0.2 * penalty, &cost);
    // best[j]: smallest cost of x[..edges[j]], and where its last segment begins.
    let mut best: Vec<(f64, usize)> = vec![(-penalty, 0)];
    for j in 1..edges.len() {
        let last = (0..j)
            .filter(|i| edges[j] - edges[*i] >= least && best[*i].0.is_finite())
            .map(|i| (best[i].0 + cost(edges[i], edges[j]) + penalty, i))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(last.unwrap_or((f64::INFINITY, 0)));
    }
    let mut found = Vec::new();
    let mut at = best[edges.len() - 1].1;
    while at > 0 {
        found.push(edges[at]);
        at = best[at].1;
    }
    found.reverse();
    settle(&mut found, x.len(), least, &cost);
    found
}

/// Moves each boundary to where it is best between its neighbours, until none moves: joining from the bottom up
/// may have left the best place out.
fn settle(found: &mut [usize], n: usize, least: usize, cost: &dyn Fn(usize, usize) -> f64) {
    for _ in 0..found.len() + 1 {
        let mut moved = false;
        for i in 0..found.len() {
            let before = if i == 0 { 0 } else { found[i - 1] };
            let after = found.get(i + 1).copied().unwrap_or(n);
            let best = (before + least..=after - least)
                .map(|b| (cost(before, b) + cost(b, after), b))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, b)) = best.filter(|(c, b)| {
                *b != found[i] && *c < cost(before, found[i]) + cost(found[i], after)
            }) {
                found[i] = b;
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

/// A join of two neighbouring segments, by what it costs.
#[derive(PartialEq)]
struct Join {
    cost: f64,
    begin: usize,
    middle: usize,
    end: usize,
}
impl Eq for Join {}
impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Join) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Join {
    fn cmp(&self, other: &Join) -> Ordering {
        let key = |j: &Join| (j.begin, j.middle, j.end);
        self.cost
            .total_cmp(&other.cost)
            .then_with(|| key(self).cmp(&key(other)))
    }
}

/// Boundaries that are left when neighbours are joined as long as a join costs less than `most`; 0 and `n` among them.
fn candidates(n: usize, most: f64, cost: &dyn Fn(usize, usize) -> f64) -> Vec<usize> {
    // Of the segment that begins at an index: its end, and the begin of the one before.
    let mut end: Vec<usize> = (1..=n).collect();
    let mut before: Vec<usize> = (0..n).map(|i| i.saturating_sub(1)).collect();
    let mut alive = vec![true; n];
    let join = |begin: usize, middle: usize, end: usize| {
        Reverse(Join {
            cost: cost(begin, end) - cost(begin, middle) - cost(middle, end),
            begin,
            middle,
            end,
        })
    };
    let mut heap: BinaryHeap<Reverse<Join>> = (0..n.saturating_sub(1))
        .map(|i| join(i, i + 1, i + 2))
        .collect();
    while let Some(Reverse(j)) = heap.pop() {
        if j.cost >= most {
            break;
        }
        let stale = !alive[j.begin]
            || !alive[j.middle]
            || end[j.begin] != j.middle
            || end[j.middle] != j.end;
        if stale {
            continue;
        }
        alive[j.middle] = false;
        end[j.begin] = j.end;
        if j.end < n {
            before[j.end] = j.begin;
            heap.push(join(j.begin, j.end, end[j.end]));
        }
        if j.begin > 0 {
            heap.push(join(before[j.begin], j.begin, j.end));
        }
    }
    (0..n).filter(|i| alive[*i]).chain([n]).collect()
}

const MINUTE: i64 = 60_000_000_000;
/// Minutes that a shift must last.
const LEAST: usize = 5;
/// Minutes without which nothing is usual.
const NEEDED: usize = 30;
/// How far from a whole number of intervals a step may be, in intervals.
const TOLERANCE: f64 = 0.15;

/// One minute, or one slot where slots are longer.
struct Minute {
    from_ns: i64,
    to_ns: i64,
    base_ms: f64,
    /// Mean above the smallest.
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
    let smooth: Vec<f64> = (0..raw.len())
        .map(|i| {
            median(
                raw[i.saturating_sub(2)..(i + 3).min(raw.len())]
                    .iter()
                    .copied(),
            )
        })
        .collect();
    let middle = median(raw.iter().copied());
    // The median step of normal noise is 0.6745 · √2 of its σ.
    let noise = median(raw.windows(2).map(|w| (w[1] - w[0]).abs())) / (0.6745 * 2f64.sqrt());
    let noise = noise.max(0.05).max(0.01 * middle);
    let penalty = 3.0 * noise * noise * (raw.len() as f64).ln();
    let edges: Vec<usize> = std::iter::once(0)
        .chain(change_points(&smooth, penalty, LEAST))
        .chain([raw.len()])
        .collect();
    // The level that holds for most of the time.
    let levels: Vec<(f64, usize)> = edges
        .windows(2)
        .map(|w| (median(raw[w[0]..w[1]].iter().copied()), w[1] - w[0]))
        .collect();
    let step_from = |level: f64| (3.0 * noise).max(0.5).max(0.1 * level);
    let minutes_at = |level: f64| -> usize {
        let near = levels
            .iter()
            .filter(|(l, _)| (l - level).abs() < step_from(level));
        near.map(|(_, n)| n).sum()
    };
    let usual = levels
        .iter()
        .max_by(|a, b| {
            (minutes_at(a.0), b.0)
                .partial_cmp(&(minutes_at(b.0), a.0))
                .unwrap_or(Ordering::Equal)
        })
        .map_or(middle, |(level, _)| *level);
    let least_step = step_from(usual);
    let usual_spread = {
        let usual_ones = all
            .iter()
            .filter(|m| (m.base_ms - usual).abs() < least_step);
        median(usual_ones.map(|m| m.spread_ms))
    };
    let shift = |w: &[usize]| {
        let part = &all[w[0]..w[1]];
        let base_ms = median(part.iter().map(|m| m.base_ms));
        let step_ms = base_ms - usual;
        let spread = median(part.iter().map(|m| m.spread_ms));
        let interval_ms = series.plan.interval_ns as f64 / 1e6;
        let times = step_ms / interval_ms;
        let whole = (times.round() >= 1.0 && (times - times.round()).abs() <= TOLERANCE)
            .then_some(times.round() as i64);
        let steady = spread <= 3.0 * usual_spread + 2.0;
        (step_ms.abs() >= least_step).then_some(Shift {
            from_ns: part[0].from_ns,
            to_ns: part[part.len() - 1].to_ns,
            step_ms,
            base_ms,
            intervals: whole,
            cause: match (steady, whole) {
                (true, Some(_)) => ShiftCause::Instrument,
                (true, None) => ShiftCause::Path,
                (false, _) => ShiftCause::Queue,
            },
        })
    };
    let mut shifts: Vec<Shift> = Vec::new();
    for s in edges.windows(2).filter_map(shift) {
        match shifts.last_mut() {
            // Two segments of one level.
            Some(last)
                if last.to_ns == s.from_ns
                    && last.cause == s.cause
                    && (last.base_ms - s.base_ms).abs() < least_step =>
            {
                let (a, b) = (
                    (last.to_ns - last.from_ns) as f64,
                    (s.to_ns - s.from_ns) as f64,
                );
                last.base_ms = (last.base_ms * a + s.base_ms * b) / (a + b);
                last.step_ms = last.base_ms - usual;
                last.to_ns = s.to_ns;
            }
            _ => shifts.push(s),
        }
    }
    Baseline {
        looked: true,
        method: format!(
            "smallest round trip of each minute; usual level {usual:.3} ms, steps from {least_step:.3} ms that last {LEAST} minutes"
        ),
        shifts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn a_step_is_found_where_it_is_and_noise_has_none() {
        let mut rng = Streams::new(5).stream("steps");
        let mut noise = || (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0;
        let flat: Vec<f64> = (0..2000).map(|_| noise()).collect();
        let penalty = 3.0 * (2000f64).ln();
        assert_eq!(change_points(&flat, penalty, 5), [0usize; 0]);
        let stepped: Vec<f64> = flat
            .iter()
            .enumerate()
            .map(|(i, v)| v + if (700..1300).contains(&i) { 10.0 } else { 0.0 })
            .collect();
        assert_eq!(change_points(&stepped, penalty, 5), [700, 1300]);
    }

    #[test]
    fn a_segment_shorter_than_the_least_is_no_segment() {
        let mut x = vec![0.0; 100];
        x[50..53].fill(100.0);
        let found = change_points(&x, 10.0, 5);
        assert!(found.windows(2).all(|w| w[1] - w[0] >= 5), "{found:?}");
    }

    #[test]
    fn too_few_values_have_no_change() {
        assert!(change_points(&[], 1.0, 5).is_empty());
        assert!(change_points(&[0.0, 9.0, 9.0], 1.0, 2).is_empty());
    }
}
