//! Random laws of durations and sizes that sources draw from.
//!
//! **Source**: S. Floyd, V. Paxson, "Difficulties in Simulating the Internet", IEEE/ACM Transactions on Networking
//! 9(4), 2001: log-normal bodies and Pareto tails are invariants.
//!
//! **Units**: those of the mean.

use base::rng::{Rng, uniform};

/// Law of a random quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    Constant(f64),
    Exponential(f64),
    /// Mean and shape; a shape of 2 or less has no variance, one of 1 or less no mean.
    Pareto(f64, f64),
    /// Largest extreme value (Gumbel): mode and scale; draws below zero are zero.
    Extreme(f64, f64),
    /// Pareto law whose tail has another shape.
    TwoPareto(TwoPareto),
    /// Log-normal with a Pareto tail.
    Tailed(Tailed),
}

/// Pareto law whose largest share `tail` has a shape of its own; no value exceeds `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoPareto {
    /// Least value.
    pub least: f64,
    /// Shape of the body.
    pub shape: f64,
    /// Share of the tail.
    pub tail: f64,
    /// Shape of the tail.
    pub tail_shape: f64,
    /// Greatest value.
    pub most: f64,
}

/// Log-normal law below `from`, and with the probability `tail` a Pareto law from there on; no value exceeds `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tailed {
    /// Median of the body.
    pub median: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Share of the tail.
    pub tail: f64,
    /// Least value of the tail.
    pub from: f64,
    /// Shape of the tail.
    pub shape: f64,
    /// Greatest value.
    pub most: f64,
}

impl Law {
    /// Draw of a value.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Law::Constant(mean) => mean,
            Law::Exponential(mean) => -mean * (1.0 - uniform(rng)).ln(),
            // The least value is mean·(shape-1)/shape.
            Law::Pareto(mean, shape) => {
                mean * (shape - 1.0) / shape * (1.0 - uniform(rng)).powf(-1.0 / shape)
            }
            Law::Extreme(mode, scale) => {
                (mode - scale * (-(1.0 - uniform(rng)).ln()).ln()).max(0.0)
            }
            Law::TwoPareto(law) => {
                law.above(1.0 - uniform(rng) * (1.0 - law.share_above(law.most)))
            }
            Law::Tailed(law) => law.draw(rng),
        }
    }
}

impl TwoPareto {
    /// Value that a share `u` of all exceeds, if there were no upper limit.
    fn above(self, u: f64) -> f64 {
        if u > self.tail {
            return self.least * u.powf(-1.0 / self.shape);
        }
        self.tail_from() * (self.tail / u).powf(1.0 / self.tail_shape)
    }
    fn tail_from(self) -> f64 {
        self.least * self.tail.powf(-1.0 / self.shape)
    }
    fn share_above(self, x: f64) -> f64 {
        let from = self.tail_from();
        match x > from {
            true => self.tail * (from / x).powf(self.tail_shape),
            false => (self.least / x).powf(self.shape),
        }
    }
}

impl Tailed {
    fn draw(self, rng: &mut Rng) -> f64 {
        if uniform(rng) < self.tail {
            // Truncated at `most`, as if larger values were drawn again.
            let beyond = (self.from / self.most).powf(self.shape);
            let u = 1.0 - uniform(rng) * (1.0 - beyond);
            return self.from * u.powf(-1.0 / self.shape);
        }
        let below = if self.tail > 0.0 {
            self.from
        } else {
            self.most
        };
        loop {
            let x = self.median * (self.sigma * normal(rng)).exp();
            if x <= below {
                return x;
            }
        }
    }
}

/// Standard normal draw (mean 0, variance 1): G. Box, M. Muller, "A Note on the Generation of Random Normal Deviates",
/// Annals of Mathematical Statistics 29(2), 1958.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(rng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;

    fn draws(law: Law, n: usize) -> Vec<f64> {
        let mut rng = Streams::new(5).stream("law");
        (0..n).map(|_| law.draw(&mut rng)).collect()
    }
    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }
    /// Tail index from the largest `k` values, with a standard error of index/√k: B. Hill, "A Simple General Approach
    /// to Inference About the Tail of a Distribution", Annals of Statistics 3(5), 1975.
    fn hill(values: &[f64], k: usize) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let least = sorted[k].ln();
        k as f64 / sorted[..k].iter().map(|x| x.ln() - least).sum::<f64>()
    }

    const SIZES: Tailed = Tailed {
        median: 11_600.0,
        sigma: 1.318,
        tail: 0.07,
        from: 133_000.0,
        shape: 1.1,
        most: 1e15,
    };

    #[test]
    fn sizes_have_a_log_normal_body_and_a_heavy_tail() {
        let all = draws(Law::Tailed(SIZES), 200_000);
        let tail = all.iter().filter(|x| **x > 133_000.0).count();
        // The standard error of the share is 0.06 %.
        assert!((tail as f64 / 2e5 - 0.07).abs() < 0.003, "{tail}");
        let index = hill(&all, 10_000);
        // The standard error is 1 % of it.
        assert!((index / 1.1 - 1.0).abs() < 0.05, "{index}");
        let plain = Tailed { tail: 0.0, ..SIZES };
        let logs: Vec<f64> = draws(Law::Tailed(plain), 100_000)
            .iter()
            .map(|x| x.ln())
            .collect();
        let m = mean(&logs);
        let squares: Vec<f64> = logs.iter().map(|x| (x - m).powi(2)).collect();
        // Standard errors: 0.0042 of the mean, 0.003 of the deviation.
        assert!((m - 11_600f64.ln()).abs() < 0.02, "{m}");
        assert!((mean(&squares).sqrt() - 1.318).abs() < 0.015);
        // Logarithms follow a normal law: skewness 0, fourth moment 3.
        let third = mean(
            &logs
                .iter()
                .map(|x| ((x - m) / 1.318).powi(3))
                .collect::<Vec<_>>(),
        );
        let fourth = mean(
            &logs
                .iter()
                .map(|x| ((x - m) / 1.318).powi(4))
                .collect::<Vec<_>>(),
        );
        assert!(
            third.abs() < 0.05 && (fourth - 3.0).abs() < 0.15,
            "{third} {fourth}"
        );
    }

    #[test]
    fn a_body_and_a_tail_of_pareto_meet_and_end_where_they_should() {
        let law = TwoPareto {
            least: 0.12,
            shape: 0.9,
            tail: 0.03,
            tail_shape: 0.95,
            most: 120.0,
        };
        let all = draws(Law::TwoPareto(law), 200_000);
        assert!(all.iter().all(|x| (0.12..=120.0).contains(x)));
        let above = |x: f64| all.iter().filter(|y| **y > x).count() as f64 / 2e5;
        // Shares above, minus the truncated part: standard errors below 0.1 %.
        for x in [0.12f64, 0.5, 1.0, 5.0, 20.0, 60.0] {
            let cut = law.share_above(120.0);
            let expected = (law.share_above(x) - cut) / (1.0 - cut);
            assert!(
                (above(x) - expected).abs() < 0.004,
                "{x}: {} {expected}",
                above(x)
            );
        }
        let from = law.tail_from();
        assert!((law.share_above(from * 1.000_001) / law.share_above(from) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn extreme_values_have_the_mean_and_the_quantiles_of_gumbels_law() {
        let mut all = draws(Law::Extreme(55.0, 6.0), 200_000);
        // Mean: mode + 0.5772 scale; its standard error is 0.017.
        assert!(
            (mean(&all) - 55.0 - 0.577_216 * 6.0).abs() < 0.08,
            "{}",
            mean(&all)
        );
        all.sort_by(f64::total_cmp);
        for p in [0.05f64, 0.5, 0.95] {
            let exact = 55.0 - 6.0 * (-p.ln()).ln();
            let seen = all[(p * 2e5) as usize];
            assert!((seen - exact).abs() < 0.15, "{p}: {seen} {exact}");
        }
        assert!(
            draws(Law::Extreme(0.0, 5.0), 1000)
                .iter()
                .all(|x| *x >= 0.0)
        );
    }

    #[test]
    fn a_pareto_law_with_a_mean_has_it_and_its_index() {
        // A shape of 2.5 has a variance: mean 3, deviation 2.7.
        let all = draws(Law::Pareto(3.0, 2.5), 200_000);
        assert!((mean(&all) / 3.0 - 1.0).abs() < 0.02, "{}", mean(&all));
        let index = hill(&all, 20_000);
        assert!((index / 2.5 - 1.0).abs() < 0.03, "{index}");
    }
}
