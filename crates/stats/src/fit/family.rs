//! Families of distributions, and the maximum of each one's likelihood.

use super::sample::{FitError, Sample};
use statrs::function::erf::erfc;
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};

/// Family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Weibull,
    Exponential,
    LogNormal,
    /// Pareto of type II, also called Lomax.
    Pareto,
    Gamma,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 5] = [
        Family::Weibull,
        Family::Exponential,
        Family::LogNormal,
        Family::Pareto,
        Family::Gamma,
    ];

    /// Name in texts and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Family::Weibull => "Weibull",
            Family::Exponential => "exponential",
            Family::LogNormal => "log-normal",
            Family::Pareto => "Pareto",
            Family::Gamma => "gamma",
        }
    }

    /// Names of the parameters. `scale` has the unit of the values, `mu` is the mean of their logarithm; the others
    /// have no unit.
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            Family::Exponential => &["scale"],
            Family::Weibull | Family::Pareto | Family::Gamma => &["shape", "scale"],
            Family::LogNormal => &["mu", "sigma"],
        }
    }
}

/// Member of a family. Scales are in units of the sample's mean while it is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// S(x) = exp(−(x/scale)^shape)
    Weibull {
        shape: f64,
        scale: f64,
    },
    Exponential {
        scale: f64,
    },
    LogNormal {
        mu: f64,
        sigma: f64,
    },
    /// S(x) = (1 + x/scale)^−shape
    Pareto {
        shape: f64,
        scale: f64,
    },
    Gamma {
        shape: f64,
        scale: f64,
    },
}

pub(super) struct Parameter {
    /// Value of the parameter.
    pub value: f64,
    /// True if the interval is symmetric in the logarithm.
    pub logarithmic: bool,
}

/// Coordinates in which the likelihood is climbed: it is nearly a paraboloid there.
type Place = [f64; 2];

impl Shape {
    fn at(family: Family, [a, b]: Place) -> Shape {
        match family {
            Family::Weibull => Shape::Weibull {
                shape: a.exp(),
                scale: b.exp(),
            },
            Family::Exponential => Shape::Exponential { scale: b.exp() },
            Family::LogNormal => Shape::LogNormal {
                mu: b,
                sigma: a.exp(),
            },
            // Towards a light tail shape and scale grow together: their ratio stays.
            Family::Pareto => Shape::Pareto {
                shape: a.exp(),
                scale: (a + b).exp(),
            },
            // The mean, shape · scale, hardly depends on the shape.
            Family::Gamma => Shape::Gamma {
                shape: a.exp(),
                scale: (b - a).exp(),
            },
        }
    }

    fn ln_density(self, x: f64, ln_x: f64) -> f64 {
        match self {
            Shape::Weibull { shape, scale } => {
                let z = shape * (ln_x - scale.ln());
                shape.ln() + z - ln_x - z.exp()
            }
            Shape::Exponential { scale } => -scale.ln() - x / scale,
            Shape::LogNormal { mu, sigma } => {
                let z = (ln_x - mu) / sigma;
                -z * z / 2.0 - sigma.ln() - ln_x - std::f64::consts::TAU.ln() / 2.0
            }
            Shape::Pareto { shape, scale } => {
                shape.ln() - scale.ln() - (shape + 1.0) * (x / scale).ln_1p()
            }
            Shape::Gamma { shape, scale } => {
                (shape - 1.0) * ln_x - x / scale - shape * scale.ln() - ln_gamma(shape)
            }
        }
    }

    /// Share of the distribution above `x`.
    fn survival(self, x: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        match self {
            Shape::Weibull { shape, scale } => (-(x / scale).powf(shape)).exp(),
            Shape::Exponential { scale } => (-x / scale).exp(),
            Shape::LogNormal { mu, sigma } => {
                erfc((x.ln() - mu) / (sigma * std::f64::consts::SQRT_2)) / 2.0
            }
            Shape::Pareto { shape, scale } => (-shape * (x / scale).ln_1p()).exp(),
            Shape::Gamma { shape, scale } => gamma_ur(shape, x / scale),
        }
    }

    /// Share of the distribution up to `x`.
    pub fn cdf(self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        match self {
            Shape::Weibull { shape, scale } => -(-(x / scale).powf(shape)).exp_m1(),
            Shape::Exponential { scale } => -(-x / scale).exp_m1(),
            Shape::LogNormal { mu, sigma } => {
                erfc((mu - x.ln()) / (sigma * std::f64::consts::SQRT_2)) / 2.0
            }
            Shape::Pareto { shape, scale } => -(-shape * (x / scale).ln_1p()).exp_m1(),
            Shape::Gamma { shape, scale } => gamma_lr(shape, x / scale),
        }
    }

    /// Mean; infinite for a Pareto of shape 1 or less.
    pub fn mean(self) -> f64 {
        match self {
            Shape::Weibull { shape, scale } => scale * ln_gamma(1.0 + 1.0 / shape).exp(),
            Shape::Exponential { scale } => scale,
            Shape::LogNormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
            Shape::Pareto { shape, .. } if shape <= 1.0 => f64::INFINITY,
            Shape::Pareto { shape, scale } => scale / (shape - 1.0),
            Shape::Gamma { shape, scale } => shape * scale,
        }
    }

    /// Parameters in the order of [`Family::parameters`], in the unit of the values.
    pub fn parameters(self, unit: f64) -> Vec<Parameter> {
        let log = |value| Parameter {
            value,
            logarithmic: true,
        };
        match self {
            Shape::Exponential { scale } => vec![log(scale * unit)],
            Shape::Weibull { shape, scale }
            | Shape::Pareto { shape, scale }
            | Shape::Gamma { shape, scale } => vec![log(shape), log(scale * unit)],
            Shape::LogNormal { mu, sigma } => vec![
                Parameter {
                    value: mu + unit.ln(),
                    logarithmic: false,
                },
                log(sigma),
            ],
        }
    }

    /// Log-likelihood per value.
    fn log_likelihood(self, sample: &Sample, logs: &[f64]) -> f64 {
        let sum: f64 = sample
            .cells
            .iter()
            .zip(logs)
            .map(|(c, ln_x)| {
                let each = if c.rounded {
                    let (from, to) = sample.rounding.edges(c.value, |x| self.cdf(x));
                    let share = if from < 0.5 {
                        to - from
                    } else {
                        // The shorter tail keeps the digits.
                        let (from, to) = sample.rounding.edges(c.value, |x| self.survival(x));
                        from - to
                    };
                    share.max(f64::MIN_POSITIVE).ln()
                } else {
                    self.ln_density(c.value, *ln_x)
                };
                c.count * each
            })
            .sum();
        sum / sample.n
    }
}

pub(super) struct Peak {
    /// Member of the family with the highest likelihood.
    pub shape: Shape,
    /// Logarithm of that likelihood.
    pub log_likelihood: f64,
    /// Standard errors of the parameters, in the logarithm where they are positive.
    pub errors: Vec<f64>,
}

/// Step of the numerical derivatives: the error of the second is about 1e-8 + 1e-16/step².
const STEP: f64 = 1e-3;
/// Shape from which a Pareto differs from an exponential by less than any capture can tell.
const LIGHTEST_PARETO: f64 = 1e3;

/// Highest place of `f` that Newton's steps reach from `p`, with the value there.
///
/// # Errors
/// A Pareto's tail that gets too light: it has no peak.
fn climb(
    f: &impl Fn(Place) -> f64,
    mut p: Place,
    family: Family,
) -> Result<(Place, f64), FitError> {
    let free = family.parameters().len();
    let mut here = f(p);
    for _ in 0..200 {
        let (gradient, second) = derivatives(f, p, here, free);
        let mut step = newton(gradient, second, free);
        let length = step[0].hypot(step[1]);
        if length > 1.0 {
            step = step.map(|s| s / length);
        }
        let mut moved = false;
        for _ in 0..30 {
            let next = [p[0] + step[0], p[1] + step[1]];
            let there = f(next);
            if there > here {
                (p, here, moved) = (next, there, true);
                break;
            }
            step = step.map(|s| s / 2.0);
        }
        if family == Family::Pareto && p[0] > LIGHTEST_PARETO.ln() {
            return Err(FitError::LightTail {
                family: family.word(),
            });
        }
        if !moved || length < 1e-9 {
            break;
        }
    }
    Ok((p, here))
}

/// Standard errors of the parameters, from the inverse of the observed information.
fn standard_errors(family: Family, [[aa, ab], [_, bb]]: Second, free: usize, n: f64) -> Vec<f64> {
    let (va, vab, vb) = if free == 1 {
        (0.0, 0.0, -1.0 / bb)
    } else {
        let det = aa * bb - ab * ab;
        (-bb / det, ab / det, -aa / det)
    };
    let of = |variance: f64| (variance / n).sqrt();
    match family {
        Family::Exponential => vec![of(vb)],
        Family::Weibull => vec![of(va), of(vb)],
        Family::LogNormal => vec![of(vb), of(va)],
        Family::Pareto => vec![of(va), of(va + vb + 2.0 * vab)],
        Family::Gamma => vec![of(va), of(va + vb - 2.0 * vab)],
    }
}

pub(super) fn maximise(sample: &Sample, family: Family) -> Result<Peak, FitError> {
    let logs: Vec<f64> = sample
        .cells
        .iter()
        .map(|c| if c.rounded { 0.0 } else { c.value.ln() })
        .collect();
    let f = |p: Place| {
        let value = Shape::at(family, p).log_likelihood(sample, &logs);
        if value.is_finite() {
            value
        } else {
            f64::NEG_INFINITY
        }
    };
    let free = family.parameters().len();
    let (p, here) = climb(&f, start(sample, family), family)?;
    let (gradient, second) = derivatives(&f, p, here, free);
    let no_peak = || FitError::NoPeak {
        family: family.word(),
    };
    if gradient.iter().any(|g| g.abs() > 1e-4) {
        return Err(no_peak());
    }
    let errors = standard_errors(family, second, free, sample.n);
    if errors.iter().any(|e| !e.is_finite()) {
        return Err(no_peak());
    }
    Ok(Peak {
        shape: Shape::at(family, p),
        log_likelihood: here * sample.n,
        errors,
    })
}

/// Starting point of the climb: moments of the logarithm or of the values themselves.
fn start(sample: &Sample, family: Family) -> Place {
    let least = sample.rounding.tick() / 4.0;
    let logs = sample
        .cells
        .iter()
        .map(|c| (c.value.max(least).ln(), c.count));
    let mean = logs.clone().map(|(l, n)| n * l).sum::<f64>() / sample.n;
    let variance = logs.map(|(l, n)| n * (l - mean).powi(2)).sum::<f64>() / sample.n;
    let sd = variance.sqrt().max(1e-6);
    match family {
        Family::Exponential => [0.0, 0.0],
        Family::LogNormal => [sd.ln(), mean],
        Family::Weibull => {
            // Var ln X = π²/(6 shape²), E ln X = ln scale − γ/shape.
            let shape = std::f64::consts::PI / (6f64.sqrt() * sd);
            [shape.ln(), mean + 0.577_215_664_9 / shape]
        }
        Family::Gamma => {
            // Minka's start: s = ln E X − E ln X, and the scaled mean is 1.
            let s = (-mean).max(1e-9);
            let shape = (3.0 - s + ((s - 3.0).powi(2) + 24.0 * s).sqrt()) / (12.0 * s);
            [shape.ln(), 0.0]
        }
        Family::Pareto => {
            let cv2 = sample.variation().powi(2);
            let shape = if cv2 > 1.0 {
                2.0 * cv2 / (cv2 - 1.0)
            } else {
                50.0
            };
            [shape.min(50.0).ln(), 0.0]
        }
    }
}

type Second = [[f64; 2]; 2];

fn derivatives(f: &impl Fn(Place) -> f64, p: Place, here: f64, free: usize) -> (Place, Second) {
    let at = |da: f64, db: f64| f([p[0] + da * STEP, p[1] + db * STEP]);
    let (up, down) = (at(0.0, 1.0), at(0.0, -1.0));
    let gb = (up - down) / (2.0 * STEP);
    let bb = (up - 2.0 * here + down) / (STEP * STEP);
    if free == 1 {
        return ([0.0, gb], [[-1.0, 0.0], [0.0, bb]]);
    }
    let (right, left) = (at(1.0, 0.0), at(-1.0, 0.0));
    let ga = (right - left) / (2.0 * STEP);
    let aa = (right - 2.0 * here + left) / (STEP * STEP);
    let ab = (at(1.0, 1.0) - at(1.0, -1.0) - at(-1.0, 1.0) + at(-1.0, -1.0)) / (4.0 * STEP * STEP);
    ([ga, gb], [[aa, ab], [ab, bb]])
}

/// Newton's step if the surface bends down in both coordinates, otherwise a step uphill.
fn newton(g: Place, [[aa, ab], [_, bb]]: Second, free: usize) -> Place {
    let det = aa * bb - ab * ab;
    if free == 1 {
        return [0.0, if bb < 0.0 { -g[1] / bb } else { g[1] }];
    }
    if aa < 0.0 && det > 0.0 {
        [
            -(bb * g[0] - ab * g[1]) / det,
            -(aa * g[1] - ab * g[0]) / det,
        ]
    } else {
        g
    }
}
