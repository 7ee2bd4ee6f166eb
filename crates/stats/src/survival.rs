//! Lengths of which some are known from below only: sessions that still ran when the observation ended.

use crate::{Figure, Z95};

/// Quantile (0 to 1) of lengths by the product-limit estimate, with its 95 % interval. Each length comes with true if it is
/// whole, and false if it was at least so long.
///
/// **Source**: Kaplan, Meier, "Nonparametric Estimation from Incomplete Observations", JASA 53 (1958); the interval is the
/// test-based one of Brookmeyer and Crowley, Biometrics 38 (1982), on the complementary logarithmic scale.
pub fn survival_quantile(lengths: &[(f64, bool)], p: f64) -> Figure {
    let mut sorted: Vec<(f64, bool)> = lengths.to_vec();
    // Ends come before observations that stop at the same time.
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let wanted = (-(1.0 - p).ln()).ln();
    let (mut share, mut variance) = (1.0, 0.0);
    let (mut low, mut value, mut high) = (None, None, None);
    let mut at = 0;
    while at < sorted.len() {
        let t = sorted[at].0;
        let waiting = (sorted.len() - at) as f64;
        let same = sorted[at..].iter().take_while(|s| s.0 == t);
        let (count, ended) = same.fold((0, 0.0), |(n, e), s| (n + 1, e + f64::from(s.1)));
        at += count;
        if ended == 0.0 {
            continue;
        }
        share *= 1.0 - ended / waiting;
        variance += ended / (waiting * (waiting - ended));
        if share <= 1.0 - p {
            value = value.or(Some(t));
        }
        // How far the wanted share is from the estimate here, in standard errors (Greenwood's formula).
        let off = match share > 0.0 {
            true => ((-share.ln()).ln() - wanted) * share.ln().abs() / variance.sqrt(),
            false => f64::INFINITY,
        };
        if off >= -Z95 {
            low = low.or(Some(t));
        }
        if off > Z95 {
            high = high.or(Some(t));
        }
    }
    match (low, value, high) {
        (Some(low), Some(value), Some(high)) => Figure::Is { value, low, high },
        _ if sorted.is_empty() => Figure::cannot_tell("no session began in the capture"),
        _ => Figure::cannot_tell("too few sessions ended in the capture"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn the_estimate_is_that_of_a_calculation_by_hand() {
        // Ends at 1, 2, 4, 5; stops at 3 and 6. S: 5/6, 4/6, (4/6)(2/3) = 4/9, 2/9.
        let lengths = [
            (1.0, true),
            (2.0, true),
            (3.0, false),
            (4.0, true),
            (5.0, true),
            (6.0, false),
        ];
        let many: Vec<(f64, bool)> = lengths.iter().cycle().take(600).copied().collect();
        let value = |p| survival_quantile(&many, p).value();
        assert_eq!(value(0.1), Some(1.0));
        assert_eq!(value(0.3), Some(2.0));
        assert_eq!(value(0.5), Some(4.0));
        assert_eq!(value(0.7), Some(5.0));
        assert_eq!(value(0.9), None, "two ninths still ran");
        assert_eq!(survival_quantile(&[], 0.5).value(), None);
    }

    #[test]
    fn intervals_hold_the_truth_although_long_sessions_are_cut() {
        let (mut held, mut told, mut naive_low) = (0, 0, 0);
        for seed in 0..400 {
            let mut chance = Streams::new(seed).stream("survival");
            let n = 30 + (uniform(&mut chance) * 170.0) as usize;
            let median = 10.0 * 2f64.ln();
            let mut draw = |mean: f64| -mean * (1.0 - uniform(&mut chance)).ln();
            // Exponential sessions; the capture ends after as long on average.
            let lengths: Vec<(f64, bool)> = (0..n)
                .map(|_| {
                    let (length, stop) = (draw(10.0), draw(15.0));
                    (length.min(stop), length <= stop)
                })
                .collect();
            let whole: Vec<f64> = lengths.iter().filter(|l| l.1).map(|l| l.0).collect();
            naive_low += i32::from(crate::median(&whole).is_some_and(|m| m < median));
            if let Figure::Is { low, high, .. } = survival_quantile(&lengths, 0.5) {
                told += 1;
                held += i32::from(low <= median && median <= high);
            }
        }
        let share = f64::from(held) / f64::from(told);
        assert!(
            told > 390 && (0.92..0.98).contains(&share),
            "{held} of {told}"
        );
        assert!(
            naive_low > 380,
            "sessions that ended are the short ones: {naive_low}"
        );
    }
}
