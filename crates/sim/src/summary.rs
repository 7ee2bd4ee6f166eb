//! Distribution of many delays, and the figures that tables show of it.

use serde::{Deserialize, Serialize};

/// Delays in nanoseconds, or other whole quantities: 32 steps an octave, so a quantile is right to 1.6 %. Number, sum
/// and extremes are exact.
pub type Summary = base::sketch::Sketch<5>;

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
        let ms = |q| s.quantile(q).unwrap_or(0.0) / 1e6;
        Stats {
            mean: s.mean().unwrap_or(0.0) / 1e6,
            p50: ms(0.5),
            p95: ms(0.95),
            p99: ms(0.99),
            max: s.max().unwrap_or(0) as f64 / 1e6,
        }
    }
}
