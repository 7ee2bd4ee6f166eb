//! Delays of one stretch of time as counts, so that stretches can be added: percentiles of the sum are exact.

use base::histogram::Histogram;

/// Steps per octave. A value is drawn within 0.2 % of its true value: at most half a pixel.
const STEPS: u32 = 256;

/// Counts over logarithmic steps from 1 µs to over 1 h, a few kilobytes. A plot holds a thousand of them; `Histogram`
/// would take 200 kB each.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Step of the first entry of `counts`.
    first: usize,
    counts: Vec<u64>,
    n: u64,
    sum_us: f64,
    least_us: u64,
    most_us: u64,
}

fn step_of(us: u64) -> usize {
    let us = us.clamp(1, u64::from(u32::MAX)) as u32;
    let octave = us.ilog2();
    if octave < STEPS.ilog2() {
        us as usize
    } else {
        let shift = octave - STEPS.ilog2();
        (shift * STEPS + (us >> shift)) as usize
    }
}

/// Returns the middle of a step.
fn value_us(step: usize) -> f64 {
    let step = step as u32;
    if step < 2 * STEPS {
        return f64::from(step);
    }
    let shift = step / STEPS - 1;
    let low = f64::from(step - shift * STEPS) * f64::from(1u32 << shift);
    low + f64::from(1u32 << shift) / 2.0
}

impl Spread {
    pub fn record_ns(&mut self, ns: i64) {
        self.record_us(ns.max(0) as u64 / 1000, 1);
    }

    fn record_us(&mut self, us: u64, count: u64) {
        *self.at(step_of(us)) += count;
        self.least_us = if self.n == 0 {
            us
        } else {
            self.least_us.min(us)
        };
        self.most_us = self.most_us.max(us);
        self.n += count;
        self.sum_us += us as f64 * count as f64;
    }

    fn at(&mut self, step: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.first = step;
        }
        if step < self.first {
            let more = self.first - step;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = step;
        }
        let at = step - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }

    pub fn add_histogram(&mut self, other: &Histogram) {
        for (us, count) in other.counts_us() {
            self.record_us(us, count);
        }
    }

    pub fn add(&mut self, other: &Spread) {
        if other.n == 0 {
            return;
        }
        for (i, count) in other.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            *self.at(other.first + i) += count;
        }
        self.least_us = if self.n == 0 {
            other.least_us
        } else {
            self.least_us.min(other.least_us)
        };
        self.most_us = self.most_us.max(other.most_us);
        self.n += other.n;
        self.sum_us += other.sum_us;
    }

    /// Iterates over (delay in µs, count), rising.
    pub fn counts_us(&self) -> impl Iterator<Item = (f64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(i, n)| (value_us(self.first + i), *n))
    }

    pub fn len(&self) -> u64 {
        self.n
    }

    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    pub fn mean_ms(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum_us / self.n as f64 / 1e3)
    }

    pub fn sum_ms(&self) -> f64 {
        self.sum_us / 1e3
    }

    /// Returns the quantile by nearest rank; the smallest and the largest are exact. `None` if there is no value.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        let rank = ((p * self.n as f64).ceil() as u64).clamp(1, self.n.max(1));
        if self.n == 0 {
            return None;
        }
        if p <= 0.0 {
            return Some(self.least_us as f64 / 1e3);
        }
        if p >= 1.0 {
            return Some(self.most_us as f64 / 1e3);
        }
        let mut seen = 0;
        let found = self.counts.iter().position(|c| {
            seen += c;
            seen >= rank
        });
        let us = value_us(self.first + found.unwrap_or_default());
        Some(us.clamp(self.least_us as f64, self.most_us as f64) / 1e3)
    }

    /// Returns (delay, share of all values up to it), rising.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let mut seen = 0;
        let steps = self.counts.iter().enumerate().filter(|(_, c)| **c > 0);
        steps
            .map(|(i, c)| {
                seen += c;
                let us = value_us(self.first + i).clamp(self.least_us as f64, self.most_us as f64);
                (us / 1e3, seen as f64 / self.n as f64)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_of_sums_is_within_half_a_percent_of_the_sorted_values() {
        let values: Vec<i64> = (0..20_000)
            .map(|i: i64| {
                1_000 * (20 + (i * 7919) % 2_000_000 + if i % 50 == 0 { 9_000_000 } else { 0 })
            })
            .collect();
        let mut parts = vec![Spread::default(); 7];
        for (i, v) in values.iter().enumerate() {
            parts[i % 7].record_ns(*v);
        }
        let mut sum = Spread::default();
        parts.iter().for_each(|p| sum.add(p));
        let mut sorted = values;
        sorted.sort();
        for p in [0.0, 0.001, 0.05, 0.5, 0.95, 0.99, 1.0] {
            let rank = ((p * 20_000.0f64).ceil() as usize).clamp(1, 20_000);
            let truth = sorted[rank - 1] as f64 / 1e6;
            let got = sum.quantile_ms(p).unwrap();
            assert!(
                (got - truth).abs() <= truth * 0.005 + 1e-3,
                "{p}: {got} {truth}"
            );
        }
        assert_eq!(sum.len(), 20_000);
        let last = sum.shares().last().copied().unwrap();
        assert_eq!(last.1, 1.0);
    }

    #[test]
    fn every_step_holds_its_own_middle() {
        for us in (0..32).flat_map(|e| [1u64 << e, (1 << e) + (1 << e) / 3]) {
            let middle = value_us(step_of(us));
            assert!(
                (middle - us as f64).abs() <= us as f64 * 0.002 + 0.5,
                "{us}: {middle}"
            );
            assert_eq!(step_of(middle as u64), step_of(us), "{us}");
        }
    }
}
