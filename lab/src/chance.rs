//! Draws from named distributions, all from one printed seed.

use base::rng::{Rng, Streams, uniform};

pub struct Chance(Rng);

impl Chance {
    pub fn new(seed: u64, name: &str) -> Chance {
        Chance(Streams::new(seed).stream(name))
    }

    pub fn unit(&mut self) -> f64 {
        uniform(&mut self.0)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Log-uniform.
    pub fn log(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    pub fn is(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[((self.unit() * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// One of the weighted.
    pub fn weighted<T: Copy>(&mut self, of: &[(T, f64)]) -> T {
        let sum: f64 = of.iter().map(|w| w.1).sum();
        let mut at = self.unit() * sum;
        for (value, weight) in of {
            at -= weight;
            if at < 0.0 {
                return *value;
            }
        }
        of[of.len() - 1].0
    }
}
