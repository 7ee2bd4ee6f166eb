//! Distribution of many delays, and the figures that tables show of it.
//!
//! **Resolution.** Quantiles of up to [`EXACT`] values are exact. Of more values, an order statistic is right to 0.1 % of
//! its distance from an origin. The figures do not depend on the order in which values arrive. The origin of a packet's delay is the delay of an idle path, so that the error is 0.1 % of
//! the wait, however long the path is. Number, sum, smallest and largest value are always exact.

use base::Duration;
use base::sketch::{Sketch, quantile};
use serde::{Deserialize, Serialize};

/// Number of values up to which quantiles are exact.
pub const EXACT: usize = 4096;

/// Sketch of distances from an origin: 512 steps an octave, so an order statistic is right to 1/1024 of its distance.
type Distances = Sketch<9>;

/// Distribution of delays in nanoseconds, or of other whole quantities.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    origin: u64,
    /// Values that are not in a sketch yet, in order of arrival.
    latest: Vec<u64>,
    /// Earlier values, by origin: several only after distributions were merged.
    earlier: Vec<Around>,
    /// Totals of the earlier values.
    count: u64,
    sum: u128,
    extremes: Option<(u64, u64)>,
}

/// Two are equal if they hold the same values, in whatever order these came.
impl PartialEq for Summary {
    fn eq(&self, other: &Summary) -> bool {
        let (a, b) = (self.settled(), other.settled());
        (a.origin, a.count, a.sum, a.extremes) == (b.origin, b.count, b.sum, b.extremes)
            && (a.latest, a.earlier) == (b.latest, b.earlier)
    }
}

/// Values around an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Around {
    origin: u64,
    above: Distances,
    below: Distances,
}

impl Around {
    fn add(&mut self, value: u64) {
        match value.checked_sub(self.origin) {
            Some(distance) => self.above.add(distance),
            None => self.below.add(self.origin - value),
        }
    }

    fn merge(&mut self, other: &Around) {
        self.above.merge(&other.above);
        self.below.merge(&other.below);
    }

    fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let below = self.below.counts();
        let below = below.map(|(distance, n)| (self.origin - distance, n));
        let above = self.above.counts();
        below.chain(above.map(|(distance, n)| (self.origin + distance, n)))
    }
}

impl Summary {
    /// Creates an empty distribution of delays over a path whose delay is `origin` while it is idle.
    pub fn around(origin: Duration) -> Summary {
        Summary {
            origin: origin.as_nanos(),
            ..Summary::default()
        }
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.latest.len() == EXACT {
            self.store();
        }
        self.latest.push(value);
    }

    /// Counts a duration in nanoseconds.
    #[inline]
    pub fn add_span(&mut self, d: Duration) {
        self.add(d.as_nanos());
    }

    /// Moves the latest values into the sketch.
    #[cold]
    fn store(&mut self) {
        (self.count, self.sum) = (self.count(), self.sum());
        self.extremes = self.min().zip(self.max());
        let mut latest = std::mem::take(&mut self.latest);
        // The extremes come first, so that the sketch grows at once and not step by step.
        for (at, extreme) in [(0, u64::MIN), (1, u64::MAX)] {
            let rest = latest.get_mut(at..).unwrap_or_default();
            if let Some(found) = (0..rest.len()).min_by_key(|i| rest[*i].abs_diff(extreme)) {
                rest.swap(0, found);
            }
        }
        let around = of(&mut self.earlier, self.origin);
        latest.drain(..).for_each(|value| around.add(value));
        self.latest = latest;
    }

    /// Form that depends on the values alone: sorted, or all of them in the sketch.
    fn settled(&self) -> Summary {
        let mut settled = self.clone();
        match settled.earlier.is_empty() {
            true => settled.latest.sort_unstable(),
            false => settled.store(),
        }
        settled.earlier.sort_by_key(|around| around.origin);
        settled
    }

    /// Adds all values of another distribution; each keeps the resolution of its own origin.
    pub fn merge(&mut self, other: &Summary) {
        if other.is_empty() {
            return;
        }
        let fits = self.latest.len() + other.latest.len() <= EXACT;
        if fits && self.earlier.is_empty() && other.earlier.is_empty() {
            self.latest.extend(&other.latest);
            return;
        }
        let mut other = other.clone();
        self.store();
        other.store();
        for theirs in &other.earlier {
            of(&mut self.earlier, theirs.origin).merge(theirs);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.extremes = match (self.extremes, other.extremes) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    /// Discards all values.
    pub fn clear(&mut self) {
        let mut latest = std::mem::take(&mut self.latest);
        latest.clear();
        *self = Summary {
            origin: self.origin,
            latest,
            ..Summary::default()
        };
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count + self.latest.len() as u64
    }

    /// True before the first value.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn sum(&self) -> u128 {
        let latest = self.latest.iter().map(|value| u128::from(*value));
        self.sum + latest.sum::<u128>()
    }

    /// Returns the mean of all values, exact. `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum() as f64 / self.count() as f64)
    }

    /// Returns the smallest value, exact. `None` if there are none.
    pub fn min(&self) -> Option<u64> {
        let earlier = self.extremes.map(|e| e.0);
        earlier.into_iter().chain(self.latest.iter().copied()).min()
    }

    /// Returns the largest value, exact. `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        let earlier = self.extremes.map(|e| e.1);
        earlier.into_iter().chain(self.latest.iter().copied()).max()
    }

    /// Returns the quantiles of these shares (0 to 1) by the rule of `base::sketch`; each `None` if there are no values.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<f64>; N] {
        let Some(extremes) = self.min().zip(self.max()) else {
            return [None; N];
        };
        let settled = self.settled();
        let latest = settled.latest.iter().map(|value| (*value, 1));
        let earlier = settled.earlier.iter().flat_map(Around::counts);
        let mut counts: Vec<(u64, u64)> = latest.chain(earlier).collect();
        counts.sort_unstable();
        let mut upto = 0u64;
        for (_, n) in &mut counts {
            upto += *n;
            *n = upto;
        }
        let last = self.count() - 1;
        let order = |k: u64| match k {
            0 => extremes.0 as f64,
            k if k >= last => extremes.1 as f64,
            k => counts[counts.partition_point(|(_, upto)| *upto <= k)].0 as f64,
        };
        shares.map(|p| quantile(self.count(), p, order))
    }

    /// Returns the `p`-quantile (0 to 1). `None` if there are no values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        self.quantiles([p])[0]
    }
}

/// Sketch of an origin, added if it is missing.
fn of(all: &mut Vec<Around>, origin: u64) -> &mut Around {
    let at = all.iter().position(|around| around.origin == origin);
    let at = at.unwrap_or_else(|| {
        all.push(Around {
            origin,
            ..Around::default()
        });
        all.len() - 1
    });
    &mut all[at]
}

/// Figures of a distribution of delays, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stats {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 % point.
    pub p95: f64,
    /// 99 % point.
    pub p99: f64,
    /// Greatest value.
    pub max: f64,
}

impl Stats {
    pub(crate) fn of_ns(s: &Summary) -> Stats {
        let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
        let [p50, p95, p99] = s.quantiles([0.5, 0.95, 0.99]).map(ms);
        Stats {
            mean: ms(s.mean()),
            p50,
            p95,
            p99,
            max: s.max().unwrap_or(0) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    /// Draws delays over a path: an origin, and waits whose logarithms are spread over some octaves. A few lie below it.
    fn draw(rng: &mut Rng, origin: u64) -> Vec<u64> {
        let n = (uniform(rng) * 3.0 * EXACT as f64) as usize;
        let octaves = 34.0 * uniform(rng);
        let one = |_| {
            let wait = (octaves * uniform(rng)).exp2() as u64;
            match uniform(rng) < 0.03 {
                true => origin - wait.min(origin / 10),
                false => origin + wait,
            }
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn quantiles_are_within_a_thousandth_of_the_wait_of_sorted_values() {
        let mut beyond = 0;
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("summary");
            let mut sum = Summary::default();
            let (mut all, mut used) = (Vec::new(), Vec::new());
            // Some parts have the same origin.
            let origins =
                [0, 1_000_000, 100_000_000].map(|ns| (ns as f64 * uniform(&mut rng)) as u64);
            for part in 0..1 + seed % 4 {
                let origin = origins[part as usize % 3];
                let values = draw(&mut rng, origin);
                let mut one = Summary::around(Duration::from_nanos(origin));
                values.iter().for_each(|value| one.add(*value));
                sum.merge(&one);
                all.extend(values);
                used.push(origin);
            }
            all.sort_unstable();
            assert_eq!(sum.count(), all.len() as u64, "seed {seed}");
            assert_eq!(sum.min(), all.first().copied(), "seed {seed}");
            assert_eq!(sum.max(), all.last().copied(), "seed {seed}");
            let total: u128 = all.iter().map(|v| u128::from(*v)).sum();
            let mean = (!all.is_empty()).then(|| total as f64 / all.len() as f64);
            assert_eq!(sum.mean(), mean, "seed {seed}");
            if all.is_empty() {
                continue;
            }
            beyond += usize::from(all.len() > EXACT);
            for step in 0..=20 {
                let p = f64::from(step) / 20.0;
                let exact = quantile(all.len() as u64, p, |k| all[k as usize] as f64).unwrap();
                let above = all[(p * (all.len() - 1) as f64).ceil() as usize] as f64;
                // A value of one origin may change places with one of another.
                let distances = used.iter().map(|origin| (above - *origin as f64).abs());
                let wait = distances.fold((above - exact).abs(), f64::max);
                let allowed = if all.len() <= EXACT {
                    0.0
                } else {
                    0.001 * wait + 1.0
                };
                let got = sum.quantile(p).unwrap();
                assert!(
                    (got - exact).abs() <= allowed,
                    "seed {seed}: {p}: {got} for {exact}, which waited {wait} ns, {} values",
                    all.len()
                );
            }
        }
        assert!(beyond > 50, "{beyond} draws needed a sketch");
    }

    #[test]
    fn figures_do_not_depend_on_the_order_of_arrival() {
        for seed in 0..20 {
            let mut rng = Streams::new(seed).stream("order");
            let values = draw(&mut rng, 5_000_000);
            let mut shuffled = values.clone();
            for i in (1..shuffled.len()).rev() {
                shuffled.swap(i, (uniform(&mut rng) * (i + 1) as f64) as usize);
            }
            let [mut a, mut b] = [0; 2].map(|_| Summary::around(Duration::from_millis(5)));
            values.iter().for_each(|value| a.add(*value));
            shuffled.iter().for_each(|value| b.add(*value));
            assert_eq!(a, b, "seed {seed}");
            let shares = [0.1, 0.5, 0.95, 0.999];
            assert_eq!(a.quantiles(shares), b.quantiles(shares), "seed {seed}");
        }
    }

    #[test]
    fn cleared_distributions_keep_their_origin() {
        let origin = Duration::from_millis(50);
        let mut summary = Summary::around(origin);
        (0..10_000u64).for_each(|i| summary.add(i * 7919));
        summary.clear();
        assert_eq!(summary, Summary::around(origin));
    }
}
