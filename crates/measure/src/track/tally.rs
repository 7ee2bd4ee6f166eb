//! Counts and distributions.

/// Distribution of times or sizes: 64 steps per octave, so a quantile is right to 0.8 %.
pub type Quantiles = base::sketch::Sketch<6>;

/// Adds to a counter without an overflow check: at 10⁹ per second 64 bits last for five hundred years.
#[inline(always)]
pub(super) fn count(counter: &mut u64, more: u64) {
    *counter = counter.wrapping_add(more);
}
