//! Change points: the places at which the level of a series moved.
//!
//! **Method.** Optimal partitioning: the segmentation with the smallest sum of squares about the segments' means, plus
//! a penalty for each change. Neighbours that cost far less than the penalty to join are joined first, from the bottom
//! up. Among the boundaries left the optimum is exact, and each is then moved to its best place.
//!
//! **Source.** B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
//! Processing Letters 12(2), 2005.
//!
//! **Validated against** ruptures 1.1 (`reference/statistics.py`).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// First indices of the segments, without that of the first. Each segment has at least `least` values.
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

/// Moves each boundary to its best place between its neighbours, until none moves: joining from the bottom up may have
/// left the best place out.
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

/// Join of two neighbouring segments, ordered by cost.
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

/// Boundaries left after neighbours are joined as long as a join costs less than `most`; 0 and `n` are among them.
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
