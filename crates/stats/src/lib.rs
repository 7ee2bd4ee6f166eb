//! Statistics with honest intervals: every figure has one, and it allows for the correlation of successive samples.
//!
//! **Method.** Quantiles: order statistics, whose ranks follow the binomial distribution for any distribution of the
//! delays. Means: batch means with Student's t. Proportions: Wilson's interval. If samples are correlated in time, `n`
//! is replaced by the effective sample size: the number of independent samples with the same uncertainty, found from
//! the variance of batch means.
//!
//! **Source.** W. J. Conover, *Practical Nonparametric Statistics*, 3rd ed., section 3.2 (quantiles);
//! A. M. Law, *Simulation Modeling and Analysis*, 5th ed., section 9.5.3 (batch means); E. B. Wilson,
//! "Probable inference, the law of succession, and statistical inference", JASA 22 (1927);
//! D. S. Robson and J. H. Whitlock, "Estimation of a truncation point", Biometrika 51 (1964); B. J. Pyper and R. M. Peterman,
//! "Comparison of methods to account for autocorrelation in correlation analyses of fish data", CJFAS 55 (1998).
//!
//! **Limits.** With few samples the upper end of a high quantile's interval is the largest value seen:
//! the data cannot say more. Batch means see correlation over up to a twentieth of the series.

#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod batch;
mod binomial;
mod changes;
mod delays;
mod figure;
pub mod fit;
pub mod hurst;
pub mod in_turn;
mod quantile;
mod rank;
pub mod regression;
pub mod runs;
mod survival;

pub use base::histogram::{Histogram, HistogramError};
pub use batch::{
    effective_size, effective_size_of, mean_figure, mean_interval, student_t, student_t95,
};
pub use binomial::{binomial_cdf, fisher, normal_cdf, share, wilson};
pub use changes::change_points;
pub use delays::{Delays, Ipdv, delays, ipdv, jitter};
pub use figure::Figure;
pub use quantile::{
    Ends, endpoint_below, median, quantile, quantile_figure, quantile_of_sorted, sorted, too_few,
};
pub use rank::rank_correlation;
pub use survival::survival_quantile;

/// 97.5 % point of the normal distribution: two-sided 95 %.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Count, mean and spread of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Number of finite values.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample (n − 1).
    pub sd: f64,
    /// Mean absolute deviation from the mean, which `ping` calls mdev.
    pub mdev: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Moments of the finite values; `None` if there is none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_agree_with_a_calculation_by_hand() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares 9+1+1+1+0+0+4+16 = 32, sd = √(32/7),
        // absolute deviations 3+1+1+1+0+0+2+4 = 12, mdev 1.5.
        let m = moments(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((m.n, m.mean, m.mdev, m.min, m.max), (8, 5.0, 1.5, 2.0, 9.0));
        assert!((m.sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(moments(&[f64::NAN]), None);
    }
}
