//! Statistics that do not flatter: every figure comes with an interval, and the interval knows that
//! samples taken one after another are not independent.
//!
//! **Method.** Quantiles: order statistics, whose ranks follow the binomial distribution whatever the
//! delays' own distribution is. Means: batch means with Student's t. Proportions: Wilson's interval.
//! Where samples are correlated in time, `n` is replaced by the effective sample size, the number of
//! independent samples that would leave the same doubt, found from the variance of batch means.
//!
//! **Source.** W. J. Conover, *Practical Nonparametric Statistics*, 3rd ed., section 3.2 (quantiles);
//! A. M. Law, *Simulation Modeling and Analysis*, 5th ed., section 9.5.3 (batch means); E. B. Wilson,
//! "Probable inference, the law of succession, and statistical inference", JASA 22 (1927);
//! D. S. Robson and J. H. Whitlock, "Estimation of a truncation point", Biometrika 51 (1964).
//!
//! **Limits.** With few samples the upper end of a high quantile's interval is the largest value seen:
//! the data cannot say more. Batch means see correlation over up to a twentieth of the series.

mod batch;
mod binomial;
mod quantile;

pub use base::histogram::{Histogram, HistogramError};
pub(crate) use batch::mean_interval;
pub use batch::{effective_size, effective_size_of, mean_figure, student_t95};
pub use binomial::{binomial_cdf, normal_cdf, wilson};
pub use quantile::{endpoint_below, quantile_figure, quantile_of_sorted, sorted};
pub(crate) use quantile::{interval_at, too_few};

use crate::answer::{Delays, Figure};

/// 97.5 % point of the normal distribution: two-sided 95 %.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Count, mean and spread of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    pub n: usize,
    pub mean: f64,
    /// Standard deviation of the sample (n − 1).
    pub sd: f64,
    /// Mean absolute deviation from the mean, which `ping` calls mdev.
    pub mdev: f64,
    pub min: f64,
    pub max: f64,
}

/// `None` where there is no finite value; values that are not finite are left out.
pub fn moments(values: &[f64]) -> Option<Moments> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.is_empty() {
        return None;
    }
    let n = finite.len() as f64;
    let mean = finite.iter().sum::<f64>() / n;
    let ss = finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    Some(Moments {
        n: finite.len(),
        mean,
        sd: if n > 1.0 {
            (ss / (n - 1.0)).sqrt()
        } else {
            0.0
        },
        mdev: finite.iter().map(|v| (v - mean).abs()).sum::<f64>() / n,
        min: finite.iter().copied().fold(f64::INFINITY, f64::min),
        max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// Jitter: the mean difference of the delays of successive packets (RFC 3393 section 2.2), each with its number, as they were
/// sent. Where one between two is missing, they do not count.
pub fn jitter(delays_ms: &[(i64, f64)]) -> Figure {
    let successive = delays_ms.windows(2).filter(|w| w[1].0 == w[0].0 + 1);
    let steps: Vec<f64> = successive.map(|w| (w[1].1 - w[0].1).abs()).collect();
    mean_figure(&steps).map(|ms| ms.max(0.0))
}

/// The distribution of delays in milliseconds, given in the order in which they were sampled.
/// `none` says why there are none, should that be so.
pub fn delays(ms: &[f64], none: &str) -> Delays {
    let ms: Vec<f64> = ms.iter().copied().filter(|v| v.is_finite()).collect();
    let mut histogram = Histogram::new();
    for v in &ms {
        histogram.record_ms(*v);
    }
    let missing = || Figure::cannot_tell(none);
    let Some(m) = moments(&ms) else {
        return Delays {
            count: 0,
            min_ms: missing(),
            mean_ms: missing(),
            mdev_ms: missing(),
            p50_ms: missing(),
            p95_ms: missing(),
            p99_ms: missing(),
            max_ms: missing(),
            histogram: histogram.to_base64(),
        };
    };
    let deviations: Vec<f64> = ms.iter().map(|v| (v - m.mean).abs()).collect();
    Delays {
        count: ms.len() as u64,
        min_ms: Figure::exactly(m.min),
        mean_ms: mean_figure(&ms),
        mdev_ms: mean_figure(&deviations),
        p50_ms: quantile_figure(&ms, 0.50),
        p95_ms: quantile_figure(&ms, 0.95),
        p99_ms: quantile_figure(&ms, 0.99),
        max_ms: Figure::exactly(m.max),
        histogram: histogram.to_base64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_mean_step_between_neighbours_and_knows_where_one_is_missing() {
        // Steps of 2 and 4; from packet 2 to packet 5 there is none.
        let delays = [(0, 10.0), (1, 12.0), (2, 8.0), (5, 100.0)];
        assert_eq!(jitter(&delays).value(), Some(3.0));
        // Another train begins with its own number 0.
        assert_eq!(jitter(&[(1, 5.0), (0, 9.0)]).value(), None);
    }

    #[test]
    fn moments_agree_with_a_calculation_by_hand() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares 9+1+1+1+0+0+4+16 = 32, sd = √(32/7),
        // absolute deviations 3+1+1+1+0+0+2+4 = 12, mdev 1.5.
        let m = moments(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((m.n, m.mean, m.mdev, m.min, m.max), (8, 5.0, 1.5, 2.0, 9.0));
        assert!((m.sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(moments(&[f64::NAN]), None);
    }

    #[test]
    fn no_samples_is_a_reason_and_not_a_zero() {
        let d = delays(&[], "no probe was answered");
        assert_eq!(d.count, 0);
        assert_eq!(d.p95_ms, Figure::cannot_tell("no probe was answered"));
    }

    #[test]
    fn one_sample_has_a_median_but_no_tail() {
        let d = delays(&[7.0], "none");
        assert_eq!(d.p50_ms.value(), Some(7.0));
        assert_eq!(d.p99_ms.value(), None);
    }
}
