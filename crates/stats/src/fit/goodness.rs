//! Goodness of fit: distances of a sample from a curve.

use super::family::Shape;
use super::sample::Sample;

/// Pieces into which a rounded value's interval is cut for A².
const PIECES: usize = 8;

/// The Kolmogorov–Smirnov distance, and A² as the integral n ∫ (Fₙ − F)² / (F (1 − F)) dF. Between exact
/// values Fₙ is level and the integral has a closed form; over the interval of a rounded value Fₙ is taken
/// to rise as F does, so that rounding itself is no misfit.
pub(super) fn distances(sample: &Sample, cdf: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut distance, mut area) = (0.0f64, 0.0);
    // Where the sample's curve and the fitted one stand.
    let (mut share, mut u) = (0.0f64, 0.0f64);
    for c in &sample.cells {
        let (from, to) = if c.rounded {
            sample.rounding.edges(c.value, &cdf)
        } else {
            let at = cdf(c.value);
            (at, at)
        };
        area += level(share, u, from);
        let next = share + c.count / sample.n;
        distance = distance.max((share - from).abs()).max((next - to).abs());
        if c.rounded {
            area += rising((share, from), (next, to));
        }
        (share, u) = (next, to);
    }
    area += level(1.0, u, 1.0);
    (distance, sample.n * area)
}

/// ∫ (c − u)²/(u (1 − u)) du from `a` to `b`: the antiderivative is c² ln u − (1 − c)² ln(1 − u) − u.
fn level(c: f64, a: f64, b: f64) -> f64 {
    if b <= a {
        return 0.0;
    }
    // Terms whose factor is zero are zero also where the logarithm is infinite.
    let part = |factor: f64, log: f64| {
        if factor.abs() < 1e-12 {
            0.0
        } else {
            factor * log
        }
    };
    let tiny = f64::MIN_POSITIVE;
    let up = part(c * c, (b.max(tiny) / a.max(tiny)).ln());
    let down = part(
        (1.0 - c).powi(2),
        ((1.0 - b).max(1e-17) / (1.0 - a).max(1e-17)).ln(),
    );
    up - down - (b - a)
}

fn rising((s, a): (f64, f64), (t, b): (f64, f64)) -> f64 {
    let width = (b - a) / PIECES as f64;
    (0..PIECES)
        .map(|i| {
            let at = (i as f64 + 0.5) / PIECES as f64;
            let (u, c) = (a + at * (b - a), s + at * (t - s));
            let spread = u * (1.0 - u);
            if spread > 0.0 {
                (c - u).powi(2) / spread * width
            } else {
                0.0
            }
        })
        .sum()
}

/// The 95 % point of A² when the family is right and its parameters were estimated from the sample.
pub(super) fn critical_5pct(shape: Shape, n: f64) -> f64 {
    match shape {
        // Stephens, table 4.14 (exponential), 4.17 (extreme value, of which Weibull is the exponential), 4.7 (normal).
        Shape::Exponential { .. } => 1.321 / (1.0 + 0.6 / n),
        Shape::Weibull { .. } => 0.757 / (1.0 + 0.2 / n.sqrt()),
        Shape::LogNormal { .. } => 0.752 / (1.0 + 0.75 / n + 2.25 / (n * n)),
        Shape::Gamma { shape, .. } => between(&GAMMA, shape),
        Shape::Pareto { shape, .. } => between(&PARETO, shape),
    }
}

/// (shape, 95 % point), from `reference/fits.py points`.
const GAMMA: [(f64, f64); 7] = [
    (0.1, 1.014),
    (0.2, 0.927),
    (0.5, 0.833),
    (1.0, 0.782),
    (2.0, 0.770),
    (5.0, 0.762),
    (20.0, 0.743),
];
const PARETO: [(f64, f64); 6] = [
    (0.2, 0.748),
    (0.5, 0.716),
    (1.0, 0.762),
    (2.0, 0.821),
    (3.0, 0.864),
    (5.0, 0.925),
];

/// Interpolates on a straight line over the logarithm of the shape.
fn between(points: &[(f64, f64)], shape: f64) -> f64 {
    let at = points.partition_point(|p| p.0 < shape);
    if at == 0 {
        return points[0].1;
    }
    let Some((to, high)) = points.get(at) else {
        return points[points.len() - 1].1;
    };
    let (from, low) = points[at - 1];
    low + (high - low) * (shape / from).ln() / (to / from).ln()
}
