//! Fractional Gaussian noise of known H, exact: Davies and Harte, "Tests for Hurst effect", Biometrika 74 (1987).

use base::rng::{Rng, uniform};

/// `n` values, a power of two; their variance is 1.
pub fn noise(h: f64, n: usize, rng: &mut Rng) -> Vec<f64> {
    let covariance = |k: f64| {
        let p = |x: f64| x.abs().powf(2.0 * h);
        (p(k + 1.0) - 2.0 * p(k) + p(k - 1.0)) / 2.0
    };
    // The covariances around a circle of 2n: their transform is the spectrum.
    let mut re: Vec<f64> = (0..2 * n)
        .map(|k| covariance(k.min(2 * n - k) as f64))
        .collect();
    let mut im = vec![0.0; 2 * n];
    transform(&mut re, &mut im);
    let spectrum = re.clone();
    for k in 0..=n {
        let strength = spectrum[k].max(0.0);
        let (a, b) = pair(rng);
        if k == 0 || k == n {
            (re[k], im[k]) = ((2.0 * strength).sqrt() * a, 0.0);
        } else {
            (re[k], im[k]) = (strength.sqrt() * a, strength.sqrt() * b);
            (re[2 * n - k], im[2 * n - k]) = (re[k], -im[k]);
        }
    }
    transform(&mut re, &mut im);
    let size = (4.0 * n as f64).sqrt();
    re[..n].iter().map(|v| v / size).collect()
}

fn pair(rng: &mut Rng) -> (f64, f64) {
    let r = (-2.0 * (-uniform(rng)).ln_1p()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * uniform(rng)).sin_cos();
    (r * cos, r * sin)
}

/// Cooley and Tukey's, in place.
fn transform(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let turns: Vec<(f64, f64)> = (0..half)
            .map(|k| (-std::f64::consts::PI * k as f64 / half as f64).sin_cos())
            .collect();
        for start in (0..n).step_by(2 * half) {
            for (k, (sin, cos)) in turns.iter().enumerate() {
                let (i, j) = (start + k, start + k + half);
                let (tr, ti) = (re[j] * cos - im[j] * sin, re[j] * sin + im[j] * cos);
                (re[j], im[j]) = (re[i] - tr, im[i] - ti);
                (re[i], im[i]) = (re[i] + tr, im[i] + ti);
            }
        }
        half *= 2;
    }
}
