use crate::{Figure, Z95};

/// Fewest independent pairs of a rank correlation.
const LEAST: f64 = 8.0;
/// Part of the series over which its own correlation is added up.
const LAGS: usize = 5;
/// Spearman's coefficient of independent pairs scatters this much more than Pearson's (Fieller, Hartley, Pearson 1957).
const SPEARMAN: f64 = 1.06;

/// Spearman's rank correlation of two series that were sampled together, in the order of sampling, with its interval.
///
/// Series that change slowly agree by chance more often than independent pairs. The number of independent pairs comes from
/// the products of both autocorrelations (Pyper and Peterman 1998).
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Figure {
    let mut pairs = pairs.to_vec();
    pairs.retain(|(x, y)| x.is_finite() && y.is_finite());
    let n = pairs.len();
    let x = centred(ranks(pairs.iter().map(|p| p.0)));
    let y = centred(ranks(pairs.iter().map(|p| p.1)));
    let (Some(x), Some(y)) = (x, y) else {
        return Figure::cannot_tell(match n {
            0 => "there are no samples",
            _ => "one of the two does not change",
        });
    };
    let r = lagged(&x, &y, 0).clamp(-1.0, 1.0);
    let independent = independent(&x, &y);
    if independent < LEAST {
        return Figure::cannot_tell(format!(
            "{n} samples that follow each other are worth fewer than {LEAST:.0} independent ones"
        ));
    }
    let half = Z95 * (SPEARMAN / (independent - 3.0)).sqrt();
    let z = r.clamp(-0.999_999, 0.999_999).atanh();
    Figure::Is {
        value: r,
        low: (z - half).tanh(),
        high: (z + half).tanh(),
    }
}

/// Rank of each value; equal ones have the mean of their ranks.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..]
            .iter()
            .take_while(|i| values[**i] == values[order[from]])
            .count();
        let mean = from as f64 + (same as f64 - 1.0) / 2.0;
        for i in &order[from..from + same] {
            ranks[*i] = mean;
        }
        from += same;
    }
    ranks
}

/// Values without their mean, of length one; `None` if they do not differ.
fn centred(mut values: Vec<f64>) -> Option<Vec<f64>> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|v| *v -= mean);
    let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
    values.iter_mut().for_each(|v| *v /= length);
    (length > 0.0).then_some(values)
}

fn lagged(x: &[f64], y: &[f64], lag: usize) -> f64 {
    x.iter().zip(&y[lag..]).map(|(a, b)| a * b).sum()
}

/// Number of independent pairs that are as uncertain as these.
fn independent(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len();
    let products = (1..n / LAGS).map(|lag| lagged(x, x, lag) * lagged(y, y, lag));
    // Beyond the first lag without agreement there is noise alone.
    let sum: f64 = products.take_while(|p| *p > 0.0).sum();
    n as f64 / (1.0 + 2.0 * sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    fn normal(rng: &mut Rng) -> f64 {
        let (u, v) = (1.0 - uniform(rng), uniform(rng));
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// AR(1) series with a memory of their own that share a part: the interval holds the true coefficient in 93 % of the draws.
    #[test]
    fn intervals_hold_the_coefficient_of_series_with_memory() {
        let (mut told, mut held) = (0, 0);
        for seed in 0..2000 {
            let mut rng = Streams::new(seed).stream("rank");
            let n = 40 + (uniform(&mut rng) * 1200.0) as usize;
            let memory = uniform(&mut rng) * 0.97;
            let share = match seed % 3 {
                0 => 0.0,
                _ => uniform(&mut rng) * 1.6 - 0.8,
            };
            let (mut x, mut y) = (normal(&mut rng), normal(&mut rng));
            let step = (1.0 - memory * memory).sqrt();
            let mut pairs = Vec::with_capacity(n);
            for _ in 0..n {
                x = memory * x + step * normal(&mut rng);
                y = memory * y + step * normal(&mut rng);
                pairs.push((x, share * x + (1.0 - share * share).sqrt() * y));
            }
            // Spearman's coefficient of the bivariate normal distribution with this correlation.
            let truth = 6.0 / std::f64::consts::PI * (share / 2.0).asin();
            if let Figure::Is { low, high, .. } = rank_correlation(&pairs) {
                told += 1;
                held += u64::from((low..=high).contains(&truth));
            }
        }
        assert!(told >= 1700, "{told}");
        assert!(held * 100 >= told * 93, "{held} of {told}");
    }

    #[test]
    fn ties_share_a_rank_and_constants_have_no_correlation() {
        assert_eq!(
            ranks([3.0, 1.0, 3.0, 2.0].into_iter()),
            [2.5, 0.0, 2.5, 1.0]
        );
        let flat: Vec<(f64, f64)> = (0..50).map(|i| (f64::from(i), 1.0)).collect();
        assert!(rank_correlation(&flat).value().is_none());
        assert!(rank_correlation(&[]).value().is_none());
        let mut rng = Streams::new(7).stream("falling");
        let falling: Vec<(f64, f64)> = (0..60)
            .map(|_| uniform(&mut rng))
            .map(|x| (x, -x.powi(3)))
            .collect();
        let r = rank_correlation(&falling).value().unwrap();
        assert!((r + 1.0).abs() < 1e-9, "{r}");
    }
}
