//! Test of Wald and Wolfowitz: are two kinds of observations separated in time, or mixed?
//!
//! **Method.** A run is a stretch of observations of one kind. If the order is random, the number of runs has an exact
//! distribution; few runs mean that the kinds follow each other.
//!
//! **Source.** A. Wald and J. Wolfowitz, "On a Test Whether Two Samples are from the Same Population", Annals of Mathematical
//! Statistics 11 (1940).

use statrs::function::factorial::ln_binomial;

/// Probability that so many observations of two kinds, in random order, have at most so many runs.
pub fn at_most(first: u64, second: u64, runs: u64) -> f64 {
    if first == 0 || second == 0 {
        return 1.0;
    }
    let all = ln_binomial(first + second, first);
    let ways = |a: u64, b: u64| match a < first && b < second {
        true => (ln_binomial(first - 1, a) + ln_binomial(second - 1, b) - all).exp(),
        false => 0.0,
    };
    let probability = |runs: u64| {
        let half = runs / 2;
        match runs % 2 {
            0 => 2.0 * ways(half - 1, half - 1),
            _ => ways(half, half - 1) + ways(half - 1, half),
        }
    };
    let most = runs.min(2 * first.min(second) + 1);
    (2..=most).map(probability).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of runs of the lowest `len` bits.
    fn runs(bits: u32, len: u32) -> u64 {
        let changes = (bits ^ bits >> 1) & ((1 << (len - 1)) - 1);
        u64::from(changes.count_ones()) + 1
    }

    #[test]
    fn it_agrees_with_counting_all_orders() {
        for len in 2..=12u32 {
            for first in 1..len {
                let orders: Vec<u64> = (0u32..1 << len)
                    .filter(|bits| bits.count_ones() == first)
                    .map(|bits| runs(bits, len))
                    .collect();
                for limit in 1..=u64::from(len) + 1 {
                    let few = orders.iter().filter(|r| **r <= limit).count();
                    let expected = few as f64 / orders.len() as f64;
                    let found = at_most(first.into(), (len - first).into(), limit);
                    assert!(
                        (found - expected).abs() < 1e-9,
                        "{len} {first} {limit}: {found} {expected}"
                    );
                }
            }
        }
    }
}
