//! Self-similarity of a series of counts: the Hurst parameter by three estimators that fail in different ways.
//!
//! **Variance–time.** The variance of means over m bins falls as m^(2H−2). The means' own mean is taken from the same
//! series, which hides a share k^(2H−2) of the variance of k blocks; that is put back, with the H that comes out.
//! **R/S.** The range of the cumulated deviations over their standard deviation grows as n^H. The expectation for
//! independent values (Anis and Lloyd) is divided out, so that those give 0.5 also in short blocks. **Wavelet.** The
//! energy of wavelet coefficients at octave j grows as 2^(j(2H−1)); Daubechies' wavelet of three vanishing moments is
//! blind to trends up to a parabola. The first octave is the smallest from which a straight line fits (chi-square, 1
//! %).
//!
//! **Source.** W. E. Leland et al., "On the self-similar nature of Ethernet traffic", IEEE/ACM ToN 2 (1994);
//! A. A. Anis, E. H. Lloyd, Biometrika 63 (1976); P. Abry, D. Veitch, "Wavelet analysis of long-range-dependent
//! traffic", IEEE Trans. Inf. Theory 44 (1998), with their bias and variance of the logarithm.
//!
//! **Intervals.** The wavelet's follow from the number of coefficients. Those of the other two are the
//! spread that each showed on fractional Gaussian noise of the same length.
//!
//! **Limits.** A rate that drifts or steps to another level gives values near 1 without being self-similar. A drift
//! deceives the first two and not the third. A step deceives all, but the wavelet then says more than 1, which no
//! steady series has. Values below 0.5 come out up to 0.02 low.

use crate::Figure;
use crate::Z95;
use statrs::function::gamma::{digamma, gamma_ur, ln_gamma};

/// Smallest length of a series: shorter ones have too few octaves.
pub const LEAST: usize = 512;

/// Result of one estimator.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Hurst parameter.
    pub h: Figure,
    /// Statistic at each scale; scales in bins.
    pub points: Vec<(f64, f64)>,
    /// Smallest scale of the fitted line.
    pub from: f64,
    /// Largest scale of the fitted line.
    pub to: f64,
}

/// Hurst parameter by three estimators.
#[derive(Clone, Debug, PartialEq)]
pub struct Hurst {
    /// Estimate from variance over time scales.
    pub variance_time: Estimate,
    /// Estimate from the rescaled range.
    pub rescaled_range: Estimate,
    /// Estimate from wavelet coefficients.
    pub wavelet: Estimate,
}

impl Hurst {
    /// # Errors
    /// Reason why there is nothing to estimate.
    pub fn of(series: &[f64]) -> Result<Hurst, String> {
        if series.len() < LEAST {
            return Err(format!(
                "{} bins are too few: {LEAST} are needed",
                series.len()
            ));
        }
        if series.iter().all(|v| *v == series[0]) {
            return Err("every bin holds the same: nothing varies".into());
        }
        Ok(Hurst {
            variance_time: variance_time(series),
            rescaled_range: rescaled_range(series),
            wavelet: wavelet(series),
        })
    }

    /// True if this looks like a rate whose level changed rather than like self-similarity: variance–time and wavelet
    /// have no value in common, or an H of 1 or more comes out.
    pub fn unsteady(&self) -> bool {
        let (
            Figure::Is { low, high, .. },
            Figure::Is {
                low: l,
                high: h,
                value,
            },
        ) = (&self.variance_time.h, &self.wavelet.h)
        else {
            return false;
        };
        low > h || high < l || *value >= 1.0
    }
}

/// Scales from `from` to `to`, four an octave, whole numbers.
fn scales(from: usize, to: usize) -> Vec<usize> {
    let octaves = (to as f64 / from as f64).log2().max(0.0);
    let mut all: Vec<usize> = (0..=(octaves * 4.0 + 1e-9) as usize)
        .map(|i| (from as f64 * 2f64.powf(i as f64 / 4.0)).round() as usize)
        .collect();
    all.dedup();
    all
}

/// Slope of a weighted line through (x, y, weight).
fn slope(points: &[(f64, f64, f64)]) -> f64 {
    let sum = |f: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let w = sum(&|p| p.2);
    let (mx, my) = (sum(&|p| p.2 * p.0) / w, sum(&|p| p.2 * p.1) / w);
    sum(&|p| p.2 * (p.0 - mx) * (p.1 - my)) / sum(&|p| p.2 * (p.0 - mx).powi(2))
}

/// Error of an estimator on fractional Gaussian noise of N values: a standard deviation of `factor` · N^−`power`, and a
/// bias of `floor` at any length. The widest found for H from 0.5 to 0.95 and N from 512 to 65 536, 60 to 200 series
/// each: the interval is too wide for some of them.
struct Spread {
    factor: f64,
    power: f64,
    floor: f64,
}
const VARIANCE_TIME: Spread = Spread {
    factor: 0.4,
    power: 0.25,
    floor: 0.005,
};
const RESCALED_RANGE: Spread = Spread {
    factor: 4.2,
    power: 0.55,
    floor: 0.02,
};
/// Least spread of the wavelet estimator: the first octaves are not quite on the line.
const WAVELET_FLOOR: f64 = 0.008;

/// Result of R/S (first) for noise of the true H (second): in blocks of any practical length it is drawn towards 0.5 to
/// 0.7, as is long known. Means of 200 series of 4 096 values; other lengths differ by 0.02 at most.
const RESCALED_RANGE_BIAS: [(f64, f64); 7] = [
    (0.335, 0.3),
    (0.498, 0.5),
    (0.578, 0.6),
    (0.660, 0.7),
    (0.734, 0.8),
    (0.797, 0.9),
    (0.826, 0.95),
];

fn unbiased(raw: f64) -> f64 {
    let t = &RESCALED_RANGE_BIAS;
    let at = t.partition_point(|p| p.0 < raw).clamp(1, t.len() - 1);
    let ((x0, y0), (x1, y1)) = (t[at - 1], t[at]);
    y0 + (raw - x0) * (y1 - y0) / (x1 - x0)
}

fn figure(h: f64, sd: f64, floor: f64) -> Figure {
    let half = Z95 * sd.hypot(floor);
    Figure::Is {
        value: h,
        low: h - half,
        high: h + half,
    }
}

impl Spread {
    fn figure(&self, h: f64, n: usize) -> Figure {
        figure(h, self.factor * (n as f64).powf(-self.power), self.floor)
    }
}

fn variance_time(series: &[f64]) -> Estimate {
    let n = series.len();
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(series.iter().scan(0.0, |s, v| {
            *s += v;
            Some(*s)
        }))
        .collect();
    // At least 16 blocks; and not so short that what one packet train does is all that shows.
    let found: Vec<(f64, f64, f64)> = scales((n / 4096).max(4), n / 16)
        .into_iter()
        .filter_map(|m| {
            let blocks = n / m;
            let means = (0..blocks).map(|i| (sums[(i + 1) * m] - sums[i * m]) / m as f64);
            let mean = means.clone().sum::<f64>() / blocks as f64;
            let variance = means.map(|v| (v - mean).powi(2)).sum::<f64>() / (blocks as f64 - 1.0);
            (variance > 0.0).then_some((m as f64, variance, blocks as f64))
        })
        .collect();
    let mut h = 0.5;
    for _ in 0..60 {
        let points: Vec<(f64, f64, f64)> = found
            .iter()
            .map(|(m, v, k)| {
                let seen = (1.0 - k.powf(2.0 * h - 2.0)) * k / (k - 1.0);
                (m.ln(), v.ln() - seen.ln(), *k)
            })
            .collect();
        h = (1.0 + slope(&points) / 2.0).clamp(0.01, 0.995);
    }
    Estimate {
        h: VARIANCE_TIME.figure(h, n),
        from: found.first().map_or(0.0, |p| p.0),
        to: found.last().map_or(0.0, |p| p.0),
        points: found.into_iter().map(|(m, v, _)| (m, v)).collect(),
    }
}

fn rescaled_range(series: &[f64]) -> Estimate {
    let n = series.len();
    let mut found = Vec::new();
    for size in scales(32, n / 8) {
        let ratios: Vec<f64> = series.chunks_exact(size).filter_map(ratio).collect();
        if ratios.is_empty() {
            continue;
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        found.push((size as f64, mean, ratios.len() as f64));
    }
    let points: Vec<(f64, f64, f64)> = found
        .iter()
        .map(|(size, mean, k)| (size.ln(), (mean / independent(*size)).ln(), *k))
        .collect();
    Estimate {
        h: RESCALED_RANGE.figure(unbiased(0.5 + slope(&points)), n),
        from: found.first().map_or(0.0, |p| p.0),
        to: found.last().map_or(0.0, |p| p.0),
        points: found
            .into_iter()
            .map(|(size, mean, _)| (size, mean))
            .collect(),
    }
}

fn ratio(block: &[f64]) -> Option<f64> {
    let n = block.len() as f64;
    let mean = block.iter().sum::<f64>() / n;
    let (mut at, mut low, mut high, mut squares) = (0.0f64, 0.0f64, 0.0f64, 0.0);
    for v in block {
        at += v - mean;
        squares += (v - mean).powi(2);
        low = low.min(at);
        high = high.max(at);
    }
    (squares > 0.0).then(|| (high - low) / (squares / n).sqrt())
}

/// Anis and Lloyd's expectation of R/S for independent Gaussian values.
fn independent(n: f64) -> f64 {
    let gammas =
        (ln_gamma((n - 1.0) / 2.0) - ln_gamma(n / 2.0)).exp() / std::f64::consts::PI.sqrt();
    let sum: f64 = (1..n as usize)
        .map(|i| ((n - i as f64) / i as f64).sqrt())
        .sum();
    gammas * sum
}

/// Daubechies' scaling filter of three vanishing moments (*Ten Lectures on Wavelets*, table 6.1).
const SCALING: [f64; 6] = [
    0.332_670_552_950_082_5,
    0.806_891_509_311_092_4,
    0.459_877_502_118_491_4,
    -0.135_011_020_010_254_6,
    -0.085_441_273_882_026_7,
    0.035_226_291_885_709_5,
];
/// First octave used: the first two of a sampled series are not yet on the line.
const FIRST_OCTAVE: usize = 3;
/// Smallest number of coefficients of an octave that is used.
const FEWEST: usize = 8;

struct Octave {
    j: f64,
    /// log₂ of the mean energy, bias removed.
    y: f64,
    variance: f64,
}

fn wavelet(series: &[f64]) -> Estimate {
    let mut approximation = series.to_vec();
    let mut octaves: Vec<Octave> = Vec::new();
    for j in 1.. {
        // Only places where the whole filter lies on the series: its ends are nobody's.
        let places = (approximation.len().saturating_sub(SCALING.len() - 1)).div_ceil(2);
        if places < FEWEST {
            break;
        }
        let (mut next, mut energy) = (Vec::with_capacity(places), 0.0);
        for window in approximation.windows(SCALING.len()).step_by(2) {
            let (mut low, mut high) = (0.0, 0.0);
            for (i, v) in window.iter().enumerate() {
                low += SCALING[i] * v;
                let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                high += sign * SCALING[SCALING.len() - 1 - i] * v;
            }
            next.push(low);
            energy += high * high;
        }
        approximation = next;
        let half = places as f64 / 2.0;
        let ln2 = std::f64::consts::LN_2;
        if energy > 0.0 {
            octaves.push(Octave {
                j: j as f64,
                y: (energy / places as f64).log2() - (digamma(half) / ln2 - half.log2()),
                variance: trigamma(half) / (ln2 * ln2),
            });
        }
    }
    let mut best: Option<(f64, usize)> = None;
    let last = (octaves.len() / 2).max(FIRST_OCTAVE);
    for first in (FIRST_OCTAVE - 1)..last.min(octaves.len().saturating_sub(2)) {
        let p = straightness(&octaves[first..]);
        if best.is_none_or(|(most, _)| p > most) {
            best = Some((p, first));
        }
        if p > 0.01 {
            break;
        }
    }
    let first = best.map_or(0, |(_, first)| first);
    let used = &octaves[first..];
    let (a, variance) = line(used);
    let h = (1.0 + a) / 2.0;
    Estimate {
        h: figure(h, variance.sqrt() / 2.0, WAVELET_FLOOR),
        from: used.first().map_or(0.0, |o| o.j.exp2()),
        to: used.last().map_or(0.0, |o| o.j.exp2()),
        points: octaves.iter().map(|o| (o.j.exp2(), o.y.exp2())).collect(),
    }
}

/// Slope and its variance, weighted by the octaves' own variances.
fn line(octaves: &[Octave]) -> (f64, f64) {
    let w: f64 = octaves.iter().map(|o| 1.0 / o.variance).sum();
    let mean = octaves.iter().map(|o| o.j / o.variance).sum::<f64>() / w;
    let spread: f64 = octaves
        .iter()
        .map(|o| (o.j - mean).powi(2) / o.variance)
        .sum();
    let a = octaves
        .iter()
        .map(|o| (o.j - mean) * o.y / o.variance)
        .sum::<f64>()
        / spread;
    (a, 1.0 / spread)
}

/// Probability that octaves on a straight line scatter at least as much.
fn straightness(octaves: &[Octave]) -> f64 {
    let (a, _) = line(octaves);
    let w: f64 = octaves.iter().map(|o| 1.0 / o.variance).sum();
    let level = octaves
        .iter()
        .map(|o| (o.y - a * o.j) / o.variance)
        .sum::<f64>()
        / w;
    let chi: f64 = octaves
        .iter()
        .map(|o| (o.y - level - a * o.j).powi(2) / o.variance)
        .sum();
    let free = octaves.len() as f64 - 2.0;
    gamma_ur(free / 2.0, (chi / 2.0).max(1e-12))
}

/// Σ 1/(x + i)²: the recurrence, then Abramowitz and Stegun 6.4.12.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 12.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let i = 1.0 / (x * x);
    sum + 1.0 / x + i / 2.0 + i / x * (1.0 / 6.0 - i * (1.0 / 30.0 - i / 42.0))
}
