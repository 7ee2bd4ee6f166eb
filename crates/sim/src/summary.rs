//! Distribution of many delays.

/// Delays in nanoseconds, or other whole quantities: 32 steps an octave, so a quantile is right to 1.6 %. Number, sum
/// and extremes are exact.
pub type Summary = base::sketch::Sketch<5>;
