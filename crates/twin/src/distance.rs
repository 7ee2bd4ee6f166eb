//! Distances between a link and its twin.
//!
//! **Source.** L. N. Wasserstein's distance of order one, the mean shift of the waits, after S. S. Vallender,
//! "Calculation of the Wasserstein distance between probability distributions on the line", 1974.

/// Points at which the quantile functions are compared.
const POINTS: usize = 400;

/// Mean distance between the quantiles of two samples; none if one is empty.
pub fn w1(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (stats::sorted(a), stats::sorted(b));
    let at = |v: &[f64], p| stats::quantile_of_sorted(v, p);
    let sum: Option<f64> = (0..POINTS)
        .map(|i| {
            let p = (i as f64 + 0.5) / POINTS as f64;
            Some((at(&a, p)? - at(&b, p)?).abs())
        })
        .sum();
    Some(sum? / POINTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_a_shifted_sample_is_the_shift() {
        let a: Vec<f64> = (0..1000).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|x| x + 7.0).collect();
        assert!((w1(&a, &b).unwrap() - 7.0).abs() < 1e-9);
        assert_eq!(w1(&a, &a), Some(0.0));
        assert_eq!(w1(&a, &[]), None);
    }
}
