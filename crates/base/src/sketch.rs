//! Quantiles: the one rule for them, and the one sketch that summarises many values.
//!
//! **Rule.** Linear interpolation between order statistics: the `p`-quantile of n values lies at rank p (n − 1),
//! counted from 0. It is type 7 of Hyndman and Fan, and the default of numpy and R. Sorted lists, runs and sketches all
//! use [`quantile`].
//!
//! **Sketch.** Counts over steps that are linear within each octave, as in HdrHistogram: values below 2^(BITS + 1) have
//! one step each; above, each octave has 2^BITS steps. An order statistic is the middle of its step, so its relative
//! error is at most 2^−(BITS + 1); the smallest and the largest are exact. The error of a quantile is at most that
//! share of the larger of its two order statistics. Only the range of steps that occurred is stored.
//!
//! **Source.** R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50 (1996);
//! G. Tene, HdrHistogram (the layout of the steps).
//!
//! **Units.** Those of the values: whole numbers that are not negative, such as nanoseconds or bytes.
//!
//! **Validated against** sorted lists, over random draws.

use crate::Duration;

/// Returns the `p`-quantile (0 to 1) of `count` values, where `order(k)` is the k-th smallest, counted from 0. `None`
/// if there are none.
pub fn quantile(count: u64, p: f64, mut order: impl FnMut(u64) -> f64) -> Option<f64> {
    let last = count.checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let below = (at.floor() as u64).min(last);
    let share = at - at.floor();
    let low = order(below);
    if share == 0.0 || below == last {
        return Some(low);
    }
    Some(low * (1.0 - share) + order(below + 1) * share)
}

/// Distribution of whole numbers in little memory. Sketches of one resolution can be merged. Quantiles of the sum are
/// those of all values; averages of quantiles are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch<const BITS: u32> {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    /// First step in use; `counts` starts there.
    first: usize,
    counts: Vec<u64>,
}

impl<const BITS: u32> Default for Sketch<BITS> {
    fn default() -> Sketch<BITS> {
        Sketch {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            first: 0,
            counts: Vec::new(),
        }
    }
}

#[inline]
fn step_of<const BITS: u32>(value: u64) -> usize {
    let octave = (value | (1 << BITS)).ilog2() - BITS;
    ((octave as usize) << BITS) + (value >> octave) as usize
}

/// Returns the middle of a step.
fn middle_of<const BITS: u32>(step: usize) -> u64 {
    let octave = (step >> BITS).saturating_sub(1) as u32;
    let low = (step - ((octave as usize) << BITS)) as u64;
    (low << octave) + (1u64 << octave) / 2
}

impl<const BITS: u32> Sketch<BITS> {
    /// Returns the value that stands for all values of the same step.
    pub fn representative(value: u64) -> u64 {
        middle_of::<BITS>(step_of::<BITS>(value))
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let step = step_of::<BITS>(value);
        // A step below the first wraps around and is beyond the end, too.
        match self.counts.get_mut(step.wrapping_sub(self.first)) {
            Some(count) => *count += 1,
            None => *self.widened(step) += 1,
        }
    }

    /// Counts a duration in nanoseconds.
    #[inline]
    pub fn add_span(&mut self, d: Duration) {
        self.add(d.as_nanos());
    }

    /// Counts a value several times. The count saturates at 2^64 − 1.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.count = self.count.saturating_add(times);
        let sum = u128::from(value) * u128::from(times);
        self.sum = self.sum.saturating_add(sum);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let count = self.widened(step_of::<BITS>(value));
        *count = count.saturating_add(times);
    }

    /// Returns the count of a step, and extends the stored range to it if necessary.
    #[cold]
    fn widened(&mut self, step: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.first = step;
        }
        if step < self.first {
            let more = self.first - step;
            self.counts.resize(self.counts.len() + more, 0);
            self.counts.rotate_right(more);
            self.first = step;
        }
        let at = step - self.first;
        if at >= self.counts.len() {
            // Room for another octave, so that a range that grows step by step seldom moves.
            if at >= self.counts.capacity() {
                self.counts
                    .reserve(at + 1 + (1 << BITS) - self.counts.len());
            }
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }

    /// Adds all values of another sketch.
    pub fn merge(&mut self, other: &Sketch<BITS>) {
        for (i, n) in other.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let count = self.widened(other.first + i);
            *count = count.saturating_add(*n);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Discards all values.
    pub fn clear(&mut self) {
        *self = Sketch::default();
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True before the first value.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the sum of all values, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the mean of all values, exact. `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the smallest value, exact. `None` if there are none.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Returns the largest value, exact. `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Iterates over the steps that hold values, rising: number of the step, and count of its values. Step s lies in
    /// octave o = max(0, ⌊s / 2^BITS⌋ − 1) and starts at (s − o 2^BITS) 2^o.
    pub fn steps(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let held = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        held.map(|(i, n)| (self.first + i, *n))
    }

    /// Iterates over the values, rising: the middle of each step, and its count.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let middle = |step| middle_of::<BITS>(step).clamp(self.min, self.max);
        self.steps().map(move |(step, n)| (middle(step), n))
    }

    /// Returns the share of the values that are at most `limit`; a step counts as a whole. `None` if there are none.
    pub fn share_within(&self, limit: u64) -> Option<f64> {
        let steps = (step_of::<BITS>(limit) + 1).saturating_sub(self.first);
        let within = self.counts.iter().take(steps);
        let within = within.fold(0u64, |sum, n| sum.saturating_add(*n));
        (self.count > 0).then(|| within as f64 / self.count as f64)
    }

    /// Returns the `p`-quantile (0 to 1) by the rule of this module. `None` if there are no values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        quantile(self.count, p, |k| self.order(k) as f64)
    }

    /// Returns the `k`-th smallest value, counted from 0.
    fn order(&self, k: u64) -> u64 {
        if k == 0 {
            return self.min;
        }
        if k >= self.count - 1 {
            return self.max;
        }
        let mut seen = 0u64;
        let found = self.counts().find(|(_, n)| {
            seen = seen.saturating_add(*n);
            seen > k
        });
        found.map_or(self.max, |(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Streams, uniform};

    /// Draws values whose logarithms are spread evenly over some octaves, many of them equal.
    fn draw(rng: &mut Rng) -> Vec<u64> {
        let n = 1 + (uniform(rng) * 400.0) as usize;
        let top = 1.0 + 62.0 * uniform(rng);
        let one = |rng: &mut Rng| (top * uniform(rng)).exp2() as u64;
        let mut all: Vec<u64> = Vec::new();
        for _ in 0..n {
            let again = !all.is_empty() && uniform(rng) < 0.3;
            let value = if again {
                all[(uniform(rng) * all.len() as f64) as usize]
            } else {
                one(rng)
            };
            all.push(value);
        }
        all
    }

    /// Computes the rule as printed: Hyndman and Fan, table 1, type 7, with ranks from 1.
    fn type7(sorted: &[u64], p: f64) -> f64 {
        let n = sorted.len() as f64;
        let m = 1.0 - p;
        let j = (n * p + m + 4.0 * f64::EPSILON * n).floor();
        let g = (n * p + m - j).max(0.0);
        let x = |j: f64| sorted[(j.max(1.0) as usize).min(sorted.len()) - 1] as f64;
        (1.0 - g) * x(j) + g * x(j + 1.0)
    }

    fn judged<const BITS: u32>(seed: u64) {
        let mut rng = Streams::new(seed).stream("sketch");
        let parts: Vec<Vec<u64>> = (0..3).map(|_| draw(&mut rng)).collect();
        let mut all = Sketch::<BITS>::default();
        let mut merged = Sketch::<BITS>::default();
        for part in &parts {
            let mut one = Sketch::<BITS>::default();
            part.iter().for_each(|v| one.add(*v));
            merged.merge(&one);
            part.iter().for_each(|v| all.add_many(*v, 1));
        }
        assert_eq!(all, merged, "seed {seed}");
        let mut sorted = parts.concat();
        sorted.sort_unstable();
        assert_eq!(all.count(), sorted.len() as u64);
        assert_eq!(all.min(), sorted.first().copied());
        assert_eq!(all.max(), sorted.last().copied());
        let sum: u128 = sorted.iter().map(|v| u128::from(*v)).sum();
        assert_eq!(all.sum(), sum);
        let allowed = 0.5f64.powi(BITS as i32 + 1);
        for i in 0..=40 {
            let p = match i {
                0..=20 => f64::from(i) / 20.0,
                _ => uniform(&mut rng),
            };
            let exact = quantile(sorted.len() as u64, p, |k| sorted[k as usize] as f64).unwrap();
            let rank = (p * (sorted.len() - 1) as f64).ceil() as usize;
            let [above, beyond] =
                [rank, (rank + 1).min(sorted.len() - 1)].map(|k| sorted[k] as f64);
            // The two formulas round the rank differently, so the next value has a tiny weight.
            let printed = type7(&sorted, p);
            assert!(
                (exact - printed).abs() <= 1e-9 * beyond,
                "seed {seed}: {p}: {exact} {printed}"
            );
            let got = all.quantile(p).unwrap();
            assert!(
                (got - exact).abs() <= (allowed + 1e-12) * above,
                "seed {seed}, 2^{BITS} steps: {p}: {got} {exact}"
            );
        }
        // Below a power of two is at most one less, and no step spans a power of two.
        for e in 0..62 {
            let limit = (1u64 << e) - 1;
            let within = sorted.partition_point(|v| *v <= limit) as f64 / sorted.len() as f64;
            assert_eq!(
                all.share_within(limit),
                Some(within),
                "seed {seed}: {limit}"
            );
        }
    }

    #[test]
    fn quantiles_of_random_values_are_within_the_stated_error_of_a_sorted_list() {
        for seed in 0..300 {
            judged::<5>(seed);
            judged::<6>(seed);
            judged::<8>(seed);
            judged::<10>(seed);
        }
    }

    #[test]
    fn every_step_begins_where_the_one_before_ends() {
        for value in (0..63).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + (1 << e) / 3]) {
            let step = step_of::<8>(value);
            assert_eq!(step_of::<8>(middle_of::<8>(step)), step, "{value}");
            assert!(step_of::<8>(value + 1) <= step + 1, "{value}");
        }
        assert_eq!(
            step_of::<8>(middle_of::<8>(step_of::<8>(u64::MAX))),
            step_of::<8>(u64::MAX)
        );
    }

    #[test]
    fn the_rule_agrees_with_a_calculation_by_hand() {
        let five = [10.0, 20.0, 30.0, 40.0, 50.0];
        let of = |p| quantile(5, p, |k| five[k as usize]);
        assert_eq!(of(0.5), Some(30.0));
        // 0.95 × 4 = 3.8: a fifth of 40 and four fifths of 50.
        assert!((of(0.95).unwrap() - 48.0).abs() < 1e-9);
        assert_eq!([of(-1.0), of(0.0)], [Some(10.0); 2]);
        assert_eq!([of(1.0), of(2.0)], [Some(50.0); 2]);
        assert_eq!(quantile(0, 0.5, |_| unreachable!()), None);
        assert_eq!(Sketch::<5>::default().quantile(0.5), None);
    }

    #[test]
    fn counts_that_strangers_give_end_at_the_largest_number() {
        let mut s = Sketch::<10>::default();
        s.add_many(u64::MAX, u64::MAX);
        s.add_many(3, u64::MAX);
        let other = s.clone();
        s.merge(&other);
        assert_eq!((s.count(), s.min()), (u64::MAX, Some(3)));
        assert!(s.quantile(0.5).is_some());
        assert_eq!(s.share_within(u64::MAX), Some(1.0));
    }
}
