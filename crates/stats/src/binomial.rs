use super::Z95;
use crate::{Figure, effective_size_of};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Hypergeometric, Normal};

/// Wilson's 95 % interval for a share of `successes` in `n`. Both may be fractions, if `n` is an effective sample size.
pub fn wilson(successes: f64, n: f64) -> Figure {
    if !(n > 0.0 && (0.0..=n).contains(&successes)) {
        return Figure::cannot_tell("there are no samples");
    }
    let p = successes / n;
    let z2 = Z95 * Z95;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Figure::Is {
        value: p,
        low: (centre - half).clamp(0.0, p),
        high: (centre + half).clamp(p, 1.0),
    }
}

/// Share of `true` in a series in the order of sampling, with Wilson's interval for its effective size: bursts, such as
/// those of losses, tell less than as many independent samples.
pub fn share(series: &[bool]) -> Figure {
    let n = effective_size_of(series.iter().copied());
    let hits = series.iter().filter(|hit| **hit).count();
    match series.len() {
        0 => Figure::cannot_tell("there are no samples"),
        all => wilson(hits as f64 / all as f64 * n, n),
    }
}

/// Trials up to which the binomial distribution is computed exactly.
const EXACT: u64 = 3000;

/// P(B ≤ k) of the binomial distribution: exact up to n = 3000, normal with continuity correction above.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n || p <= 0.0 {
        return 1.0;
    }
    if n > EXACT {
        let sd = (n as f64 * p * (1.0 - p)).sqrt();
        return normal_cdf((k as f64 + 0.5 - n as f64 * p) / sd);
    }
    Binomial::new(p.min(1.0), n).map_or(0.0, |b| b.cdf(k))
}

/// Chance that of two groups with equal shares, each given as hits and size, the first has at least as many hits as it
/// has: Fisher's exact test, one-sided. 1 if a group has more hits than members.
///
/// **Source.** R. A. Fisher, The Design of Experiments, 1935, chapter 2.
pub fn fisher((hits, size): (u64, u64), (other_hits, other_size): (u64, u64)) -> f64 {
    if hits == 0 || hits > size || other_hits > other_size {
        return 1.0;
    }
    let all = Hypergeometric::new(size + other_size, hits + other_hits, size);
    all.map_or(1.0, |h| h.sf(hits - 1))
}

/// Distribution function of the standard normal distribution.
pub fn normal_cdf(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_agrees_with_the_lady_and_her_tea() {
        // Three of four cups, and all four: 17 and 1 of 70 ways.
        assert!((fisher((3, 4), (1, 4)) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher((4, 4), (0, 4)) - 1.0 / 70.0).abs() < 1e-12);
        assert_eq!(fisher((0, 10), (5, 10)), 1.0);
        assert_eq!(fisher((11, 10), (5, 10)), 1.0);
    }

    #[test]
    fn wilson_agrees_with_a_calculation_by_hand() {
        // 1 of 10: centre (0.1 + 0.19207)/1.38415, half 1.41600 × √(0.009 + 0.0096037).
        let Figure::Is { value, low, high } = wilson(1.0, 10.0) else {
            panic!("an interval")
        };
        assert_eq!(value, 0.1);
        assert!(
            (low - 0.01788).abs() < 1e-4 && (high - 0.40415).abs() < 1e-4,
            "{low} {high}"
        );
        assert_eq!(wilson(0.0, 0.0).value(), None);
    }

    #[test]
    fn no_loss_in_a_hundred_still_allows_some() {
        let Figure::Is { value, low, high } = wilson(0.0, 100.0) else {
            panic!("an interval")
        };
        assert_eq!((value, low), (0.0, 0.0));
        // z²/(n + z²) = 3.8415/103.8415.
        assert!((high - 0.036994).abs() < 1e-5, "{high}");
    }

    #[test]
    fn the_distribution_function_agrees_with_printed_tables() {
        assert!((binomial_cdf(2, 10, 0.5) - 0.0546875).abs() < 1e-12);
        assert!((binomial_cdf(0, 3, 0.1) - 0.729).abs() < 1e-12);
        assert!((normal_cdf(1.96) - 0.9750021).abs() < 1e-6);
        // Both ways meet where the exact one ends.
        assert!((binomial_cdf(2850, 3000, 0.95) - binomial_cdf(2851, 3001, 0.95)).abs() < 0.02);
        assert_eq!(
            [binomial_cdf(3, 4, 1.0), binomial_cdf(4, 4, 1.0)],
            [0.0, 1.0]
        );
    }

    /// Sum of the terms by their logarithms.
    fn summed(k: u64, n: u64, p: f64) -> f64 {
        let odds = (p / (1.0 - p)).ln();
        let mut term = n as f64 * (1.0 - p).ln();
        let mut sum = term.exp();
        for i in 1..=k {
            term += ((n - i + 1) as f64 / i as f64).ln() + odds;
            sum += term.exp();
        }
        sum.min(1.0)
    }

    #[test]
    fn the_binomial_distribution_is_the_sum_of_its_terms() {
        let mut rng = base::rng::Streams::new(5).stream("binomial");
        let mut draw = || base::rng::uniform(&mut rng);
        for _ in 0..2000 {
            let n = 1 + (draw() * (EXACT - 1) as f64) as u64;
            let p = 0.001 + 0.998 * draw();
            // Around the mean, where the ranks of intervals lie.
            let sd = (n as f64 * p * (1.0 - p)).sqrt();
            let k = (n as f64 * p + (8.0 * draw() - 4.0) * sd).clamp(0.0, n as f64 - 1.0) as u64;
            let (ours, truth) = (binomial_cdf(k, n, p), summed(k, n, p));
            assert!(
                (ours - truth).abs() < 1e-9,
                "{k} of {n} at {p}: {ours} {truth}"
            );
        }
    }

    #[test]
    fn the_interval_of_a_share_knows_that_losses_come_in_bursts() {
        let width = |f: Figure| match f {
            Figure::Is { low, high, .. } => high - low,
            Figure::CannotTell { cannot_tell } => panic!("{cannot_tell}"),
        };
        let scattered: Vec<bool> = (0..2000).map(|i| i * 7919 % 20 == 0).collect();
        let bursts: Vec<bool> = (0..2000).map(|i| i % 1000 < 50).collect();
        let [a, b] = [&scattered, &bursts].map(|s| share(s));
        let is_right = |f: &Figure| (f.value().unwrap() - 0.05).abs() < 1e-12;
        assert!(is_right(&a) && is_right(&b));
        assert!(width(b) > 3.0 * width(a));
        assert_eq!(share(&[]).value(), None);
    }
}
