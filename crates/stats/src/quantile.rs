use super::{binomial::binomial_cdf, effective_size};
use crate::Figure;

/// Finite values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    v.sort_by(f64::total_cmp);
    v
}

/// `p`-quantile of values in ascending order, by the rule of `base::sketch`. `None` for an empty series.
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    base::sketch::quantile(sorted.len() as u64, p, |k| sorted[k as usize])
}

/// `p`-quantile of values in any order, without those that are not finite. `None` if none is left.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), p)
}

/// Median of values in any order, without those that are not finite. `None` if none is left.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// `p`-quantile with a distribution-free 95 % interval; `values` are in the order of sampling, so that their
/// correlation can be seen.
pub fn quantile_figure(values: &[f64], p: f64) -> Figure {
    let values: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let s = sorted(&values);
    let n = s.len();
    let Some(value) = quantile_of_sorted(&s, p) else {
        return Figure::cannot_tell("there are no samples");
    };
    if let Some(why) = too_few(n, p) {
        return Figure::cannot_tell(why);
    }
    let indicator: Vec<f64> = values
        .iter()
        .map(|v| f64::from(u8::from(*v <= value)))
        .collect();
    let ends = Ends::new(n, effective_size(&indicator), p);
    ends.figure(value, ends.needs().map(|k| s[k]))
}

/// Reason why the `p`-quantile of `n` samples is a guess: it needs half a sample beyond it.
pub fn too_few(n: usize, p: f64) -> Option<String> {
    let needed = (0.5 / (1.0 - p).min(p).max(1e-9)).ceil() as usize;
    let percent = p * 100.0;
    (n < needed).then(|| format!("{n} samples; the {percent} % point needs {needed}"))
}

/// Ends of the 95 % interval of a quantile, in samples in ascending order.
///
/// **Method.** Order statistics (Conover, section 3.2), as far as there are any. The largest of n independent samples is
/// no upper end of a quantile that all of them miss with more than 2.5 %: of the 95 % point it takes 72. Beyond the
/// largest the delays are taken for exponential from the smallest on, with the scale that a largest one has which is as
/// small as 2.5 % of them: their range divided by ln(1/q), if q of the law lies beyond. Below the smallest, the distance
/// of the median from it takes the place of the range.
///
/// **Limits.** Where few samples meet a heavier tail, the end is still too near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    n: usize,
    /// Indices of the ends.
    low: usize,
    high: usize,
    /// Distances of the ends beyond the smallest and the largest sample, in distances of the median from the smallest
    /// and in ranges.
    below: f64,
    above: f64,
}

impl Ends {
    /// Ends of the `p`-quantile of `n` samples that are worth `independent` ones.
    pub fn new(n: usize, independent: f64, p: f64) -> Ends {
        let (low, high) = ranks(independent, p);
        let at = |rank: f64| {
            let i = (rank / independent * n as f64).round() as i64 - 1;
            i.clamp(0, n as i64 - 1) as usize
        };
        let worth = independent.round().max(1.0);
        // The largest sample is the upper end of quantiles up to here.
        let reached = 1.0 - 0.025f64.powf(1.0 / worth);
        let beyond = |p: f64| (reached / p).ln().max(0.0) / -reached.ln();
        Ends {
            n,
            low: at(low),
            high: at(high),
            below: if low < 1.0 { beyond(p) } else { 0.0 },
            above: if high > worth { beyond(1.0 - p) } else { 0.0 },
        }
    }

    /// Indices of the samples that the figure needs.
    pub fn needs(&self) -> [usize; 5] {
        [self.low, self.high, 0, self.n / 2, self.n.saturating_sub(1)]
    }

    /// The figure, from the samples of [`Ends::needs`].
    pub fn figure(&self, value: f64, samples: [f64; 5]) -> Figure {
        let [low, high, least, median, most] = samples;
        let low = low - self.below * (median - least);
        Figure::Is {
            value,
            // A delay is not below zero.
            low: if least >= 0.0 { low.max(0.0) } else { low }.min(value),
            high: (high + self.above * (most - least)).max(value),
        }
    }
}

/// Ranks (from 1) of the order statistics among `n` independent samples that hold the `p`-quantile
/// with at least 95 %: P(X₍l₎ ≤ ξ < X₍u₎) = P(l ≤ B < u), B binomial(n, p). Conover, section 3.2. Beyond 1 and n, there
/// is none.
fn ranks(n: f64, p: f64) -> (f64, f64) {
    let n = (n.round() as u64).max(1);
    // Binary search: the distribution function grows.
    let first = |enough: &dyn Fn(f64) -> bool| {
        let (mut a, mut b) = (0u64, n);
        while a < b {
            let mid = (a + b) / 2;
            if enough(binomial_cdf(mid, n, p)) {
                b = mid
            } else {
                a = mid + 1
            }
        }
        a
    };
    let low = first(&|c| c > 0.025);
    let high = first(&|c| c >= 0.975) + 1;
    (low as f64, high as f64)
}

/// Smallest value, with an interval for the end of the distribution below it. The interval from x₁ − 19 (x₂ − x₁) to x₁
/// holds the end with 95 % if the density there is not zero (Robson and Whitlock 1964). Cut at zero, for no delay is
/// shorter.
pub fn endpoint_below(values: &[f64]) -> Option<Figure> {
    let s = sorted(values);
    let smallest = *s.first()?;
    let gap = s.get(1).map_or(smallest, |second| second - smallest);
    Some(Figure::Is {
        value: smallest,
        low: (smallest - 19.0 * gap).max(0.0).min(smallest),
        high: smallest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn quantiles_agree_with_a_calculation_by_hand() {
        let s: Vec<f64> = (1..=5).map(|i| f64::from(i) * 10.0).collect();
        assert_eq!(quantile_of_sorted(&s, 0.5), Some(30.0));
        // 0.95 × 4 = 3.8: a fifth of 40 and four fifths of 50.
        assert!((quantile_of_sorted(&s, 0.95).unwrap() - 48.0).abs() < 1e-9);
        assert_eq!(quantile_of_sorted(&[], 0.5), None);
    }

    #[test]
    fn the_ranks_for_a_median_of_ten_are_the_textbooks_second_and_ninth() {
        // Conover, table A3: P(B(10, ½) ≤ 1) = 0.0107, P(B ≤ 2) = 0.0547: ranks 2 and 9.
        assert_eq!(ranks(10.0, 0.5), (2.0, 9.0));
    }

    /// Few samples of an exponential and of a uniform law, whose largest one mostly lies below the 95 % point.
    #[test]
    fn the_interval_of_few_samples_holds_the_true_quantile_too() {
        let mut rng = Streams::new(8).stream("few");
        for n in [12, 20, 40, 80] {
            for (truth, law) in [
                (
                    -(0.05f64.ln()),
                    (|u: f64| -(1.0 - u).ln()) as fn(f64) -> f64,
                ),
                (0.95, |u| u),
            ] {
                let held = (0..1000).filter(|_| {
                    let v: Vec<f64> = (0..n).map(|_| law(uniform(&mut rng))).collect();
                    let f = quantile_figure(&v, 0.95);
                    matches!(f, Figure::Is { low, high, .. } if low <= truth && truth <= high)
                });
                let held = held.count();
                assert!(held >= 920, "{n} samples: {held} of 1000");
            }
        }
    }

    #[test]
    fn the_interval_holds_the_true_quantile_as_often_as_promised() {
        let mut rng = Streams::new(3).stream("coverage");
        for p in [0.5, 0.95] {
            let holds = (0..400)
                .filter(|_| {
                    let v: Vec<f64> = (0..300).map(|_| uniform(&mut rng)).collect();
                    matches!(quantile_figure(&v, p), Figure::Is { low, high, .. } if low <= p && p <= high)
                })
                .count();
            assert!(holds >= 360, "{p}: {holds} of 400");
        }
    }

    #[test]
    fn the_interval_stays_honest_when_samples_follow_each_other_closely() {
        // An AR(1) series with ρ = 0.95: 1000 samples are worth about 26.
        let mut rng = Streams::new(4).stream("ar1");
        let mut holds = 0;
        for _ in 0..200 {
            let mut x = 0.0;
            let v: Vec<f64> = (0..1000)
                .map(|_| {
                    let normal = (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0;
                    x = 0.95 * x + normal;
                    x
                })
                .collect();
            if let Figure::Is { low, high, .. } = quantile_figure(&v[100..], 0.5)
                && low <= 0.0
                && 0.0 <= high
            {
                holds += 1;
            }
        }
        assert!(
            holds >= 170,
            "{holds} of 200 where an interval for independent samples holds about 60"
        );
    }

    #[test]
    fn the_end_below_the_smallest_is_nineteen_gaps_away_at_most() {
        assert_eq!(
            endpoint_below(&[20.0, 19.0, 19.1]),
            Some(Figure::Is {
                value: 19.0,
                low: 19.0 - 19.0 * (19.1f64 - 19.0),
                high: 19.0
            })
        );
        assert_eq!(endpoint_below(&[]), None);
    }
}
