//! Delays of one stretch of time as counts, so that stretches can be added: percentiles of the sum are true ones.

use base::histogram::Histogram;
use base::sketch::Sketch;

/// Round trips in nanoseconds: 256 steps an octave, so a value is drawn within 0.2 % of itself, half a pixel at most.
/// A plot holds a thousand of these.
#[derive(Clone, Debug, Default)]
pub struct Spread(Sketch<8>);

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

impl Spread {
    pub fn record_ns(&mut self, ns: i64) {
        self.0.add(ns.max(0) as u64);
    }

    pub fn add_histogram(&mut self, other: &Histogram) {
        for (us, count) in other.counts_us() {
            self.0.add_many(us.saturating_mul(1000), count);
        }
    }

    pub fn add(&mut self, other: &Spread) {
        self.0.merge(&other.0);
    }

    /// Delays in µs and the number of each, rising.
    pub fn counts_us(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.counts().map(|(ns, n)| (ns / 1000, n))
    }

    /// Number of round trips.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn sum_ms(&self) -> f64 {
        ms(self.0.sum() as f64)
    }

    /// The `p`-quantile by the rule of `base::sketch`. `None` without round trips.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        self.0.quantile(p).map(ms)
    }

    /// Delays, each with the share of all round trips up to it, rising.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let mut seen = 0;
        let counts = self.0.counts();
        counts
            .map(|(ns, n)| {
                seen += n;
                (ms(ns as f64), seen as f64 / self.len() as f64)
            })
            .collect()
    }
}
