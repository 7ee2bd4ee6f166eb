//! A figure over several seeds, with its interval.

/// Estimate of a figure from several seeds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Estimate {
    /// Mean over the runs.
    pub mean: f64,
    /// Half of the 95 % confidence interval; absent for one run.
    pub half: Option<f64>,
    /// Number of runs.
    pub runs: u64,
}

impl Estimate {
    /// Estimate from the values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        // Values that do not depend on the seed have no interval, even if their sum has rounding errors.
        let same = values.iter().all(|v| *v == values[0]);
        let mean = match same {
            true => values[0],
            false => values.iter().sum::<f64>() / n as f64,
        };
        let half = (n > 1).then(|| {
            let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            let sd = (square / (n - 1) as f64).sqrt();
            stats::student_t95((n - 1) as f64) * sd / (n as f64).sqrt()
        });
        Some(Estimate {
            mean,
            half,
            runs: n as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // 1, 2, 3: mean 2, deviation 1, t = 4.302653 with 2 degrees of freedom, over √3.
        let e = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert!((e.half.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6 && e.mean == 2.0);
        // 41 runs: t = 2.021 with 40 degrees of freedom, not the 1.960 of a normal distribution.
        let many: Vec<f64> = (-20..=20).map(f64::from).collect();
        let e = Estimate::of(&many).unwrap();
        let sd = (2.0 * (1..=20).map(|i| f64::from(i * i)).sum::<f64>() / 40.0).sqrt();
        assert!(
            (e.half.unwrap() - 2.021_075 * sd / 41f64.sqrt()).abs() < 1e-5,
            "{e:?}"
        );
        assert_eq!(Estimate::of(&[5.0]).unwrap().half, None);
        let same = Estimate::of(&[0.1; 7]).unwrap();
        assert_eq!((same.mean, same.half), (0.1, Some(0.0)));
        assert_eq!(Estimate::of(&[]), None);
    }
}
