//! Delays of one stretch of time as counts, so that stretches can be added: percentiles of the sum are those of all
//! values.

use base::histogram::Histogram;
use base::sketch::Sketch;

/// RTTs in nanoseconds, 256 steps per octave: a value is drawn within 0.2 % of its true value, at most half a pixel. A
/// plot holds a thousand of these.
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

    /// Iterates over the delays in µs, rising, each with its count.
    pub fn counts_us(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.counts().map(|(ns, n)| (ns / 1000, n))
    }

    /// Returns the number of RTT samples.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn sum_ms(&self) -> f64 {
        ms(self.0.sum() as f64)
    }

    /// Returns the `p`-quantile by the rule of `base::sketch`. `None` if there are no samples.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        self.0.quantile(p).map(ms)
    }

    /// Returns the delays, rising, each with the share of all samples up to it.
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
