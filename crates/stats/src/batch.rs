use super::{Moments, moments};
use crate::Figure;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::sync::OnceLock;

/// Number of independent samples whose mean is as uncertain as that of this series, which is in the order of sampling.
/// Between 1 and its length.
pub fn effective_size(series: &[f64]) -> f64 {
    let n = series.len();
    let Some(m) = moments(series).filter(|m| m.sd > 0.0 && m.n == n) else {
        return (n as f64).max(1.0);
    };
    let variance = m.sd * m.sd;
    let found = if n >= 60 {
        // Several batch sizes: a short one misses slow swings, a long one is itself uncertain.
        // The smallest answer is the cautious one.
        [12usize, 20, 30]
            .into_iter()
            .filter(|k| n / k >= 3)
            .map(|batches| {
                let size = n / batches;
                let means: Vec<f64> = series
                    .chunks_exact(size)
                    .map(|c| c.iter().sum::<f64>() / size as f64)
                    .collect();
                let between = moments(&means).map_or(0.0, |b| b.sd * b.sd);
                if between > 0.0 {
                    variance / between * means.len() as f64
                } else {
                    n as f64
                }
            })
            .fold(f64::INFINITY, f64::min)
    } else {
        // Too short for batches: the first autocorrelation, as if of an AR(1) process.
        let lagged: f64 = series
            .windows(2)
            .map(|w| (w[0] - m.mean) * (w[1] - m.mean))
            .sum();
        let rho = (lagged / (variance * (n as f64 - 1.0))).clamp(0.0, 0.99);
        n as f64 * (1.0 - rho) / (1.0 + rho)
    };
    found.clamp(1.0, n as f64)
}

/// Effective size of a series of yes and no.
pub fn effective_size_of(series: impl Iterator<Item = bool>) -> f64 {
    effective_size(&series.map(|b| f64::from(u8::from(b))).collect::<Vec<_>>())
}

/// Mean with its 95 % interval: Student's t with the effective sample size.
pub fn mean_figure(series: &[f64]) -> Figure {
    let series: Vec<f64> = series.iter().copied().filter(|v| v.is_finite()).collect();
    let Some(m) = moments(&series) else {
        return Figure::cannot_tell("there are no samples");
    };
    mean_interval(&m, effective_size(&series))
}

/// Mean of samples that are worth `independent` ones, with its interval.
pub fn mean_interval(m: &Moments, independent: f64) -> Figure {
    if independent < 2.0 {
        return Figure::Is {
            value: m.mean,
            low: m.min,
            high: m.max,
        };
    }
    let half = student_t95(independent - 1.0) * m.sd / independent.sqrt();
    Figure::Is {
        value: m.mean,
        low: m.mean - half,
        high: m.mean + half,
    }
}

/// Point of Student's t distribution that is exceeded with the probability `above`, with `degrees` of freedom, at least half
/// of one.
pub fn student_t(degrees: f64, above: f64) -> f64 {
    let law = StudentsT::new(0.0, 1.0, degrees.clamp(0.5, 1e6));
    law.map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - above))
}

/// 97.5 % point of Student's t distribution with `degrees` of freedom, which need not be whole; at least half of one.
pub fn student_t95(degrees: f64) -> f64 {
    if degrees.is_nan() || degrees > 1e6 {
        return super::Z95;
    }
    let compute = || student_t(degrees, 0.025);
    // Estimators that follow a link ask for the same few again and again, and each takes some microseconds.
    static KNOWN: [OnceLock<f64>; 128] = [const { OnceLock::new() }; 128];
    match KNOWN.get(degrees as usize) {
        Some(known) if degrees.fract() == 0.0 => *known.get_or_init(compute),
        _ => compute(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn student_t_agrees_with_the_printed_table() {
        for (degrees, t) in [
            (1.0, 12.706),
            // Fractional degrees, from the incomplete beta function by numerical integration.
            (1.5, 6.017),
            (2.5, 3.575),
            (5.0, 2.571),
            (7.0, 2.365),
            (10.0, 2.228),
            (30.0, 2.042),
            (1e9, 1.960),
        ] {
            assert!(
                (student_t95(degrees) - t).abs() < 2e-3,
                "{degrees}: {}",
                student_t95(degrees)
            );
        }
    }

    #[test]
    fn independent_samples_count_nearly_in_full_and_repeated_ones_do_not() {
        let mut rng = Streams::new(1).stream("x");
        let x: Vec<f64> = (0..2000).map(|_| uniform(&mut rng)).collect();
        assert!(effective_size(&x) > 700.0, "{}", effective_size(&x));
        let each_twenty_times: Vec<f64> = x[..100].iter().flat_map(|v| [*v; 20]).collect();
        assert!(effective_size(&each_twenty_times) < 200.0);
        assert_eq!(effective_size(&[3.0; 10]), 10.0);
    }

    #[test]
    fn the_mean_of_four_agrees_with_a_calculation_by_hand() {
        // Alternating signs, so no positive correlation: n = 4, mean 2, sd = √(4/3), t₃ = 3.182446305.
        let Figure::Is { value, low, .. } = mean_figure(&[1.0, 3.0, 1.0, 3.0]) else {
            panic!("a mean")
        };
        assert_eq!(value, 2.0);
        assert!(
            (low - (2.0 - 3.182_446_305 * (4.0f64 / 3.0).sqrt() / 2.0)).abs() < 1e-9,
            "{low}"
        );
    }
}
