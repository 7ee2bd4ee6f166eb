//! Which distribution a sample comes from: maximum likelihood, intervals, goodness of fit, and a ranking.
//!
//! **Method.** A sample is a row of cells: a value and how often it came. A value that the instrument
//! rounded by a good part of itself (a gap of 0 or 1 µs on a clock of 1 µs, a count of packets) is an
//! interval of one tick around it and contributes the probability of that interval; any other its density.
//! The likelihood is maximised by Newton's method in the logarithms of the parameters; intervals
//! are Wald's there, from the observed information. Families are ranked by Akaike's criterion.
//!
//! **Goodness of fit.** The Kolmogorov–Smirnov distance D is the largest share by which the fitted curve is
//! wrong. Anderson and Darling's A² is compared with points of its distribution *when both parameters come
//! from the same data*, not with those of a known distribution.
//!
//! **Source.** T. W. Anderson, D. A. Darling, "A test of goodness of fit", JASA 49 (1954); M. A. Stephens
//! in R. B. D'Agostino, M. A. Stephens, *Goodness-of-Fit Techniques*, 1986, sections 4.8 to 4.12 (points for
//! estimated parameters); H. Akaike, IEEE Trans. Autom. Control 19 (1974). Points for gamma and Pareto:
//! simulated by `reference/fits.py`.
//!
//! **Deviations.** Pareto is its type II (Lomax), whose support begins at zero like its rivals': type I
//! has none below its smallest value, and packets come with gaps of zero.
//!
//! **Limits.** Intervals and tests take the values as independent unless an effective size is given. With
//! 100 000 packets every test rejects every family: D says whether that matters.

mod family;
mod goodness;

pub use family::Family;

use crate::Figure;
use crate::Z95;
use family::Shape;

/// How the instrument made the values coarse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    Exact,
    /// To the nearest multiple of this: counts, sizes in bytes.
    Nearest(f64),
    /// Two readings of a clock that ticks so, taken from each other: a gap of 0 is anything up to one tick, the
    /// more likely the shorter.
    Difference(f64),
}

impl Rounding {
    fn tick(self) -> f64 {
        match self {
            Rounding::Exact => 0.0,
            Rounding::Nearest(tick) | Rounding::Difference(tick) => tick,
        }
    }

    /// `curve` at the lower and the upper edge of what is recorded as `value`. Of a difference the edges
    /// depend on where between two ticks the first reading fell: the mean over eight places.
    fn edges(self, value: f64, curve: impl Fn(f64) -> f64) -> (f64, f64) {
        match self {
            Rounding::Exact => (curve(value), curve(value)),
            Rounding::Nearest(tick) => (curve(value - tick / 2.0), curve(value + tick / 2.0)),
            Rounding::Difference(tick) => {
                let at = |whole: f64| {
                    let places = (0..PLACES).map(|i| (i as f64 + 0.5) / PLACES as f64);
                    places
                        .map(|u| curve(value + (whole - u) * tick))
                        .sum::<f64>()
                        / PLACES as f64
                };
                (at(0.0), at(1.0))
            }
        }
    }
}

const PLACES: usize = 8;

/// A value and how often it came.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    value: f64,
    count: f64,
    /// So small that its rounding matters.
    rounded: bool,
}

/// Beyond so many ticks a rounded value is as good as an exact one.
const EXACT_FROM_TICKS: f64 = 32.0;

/// What was observed, in the order of size.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    cells: Vec<Cell>,
    rounding: Rounding,
    n: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    #[error("{n} values are too few: {least} are needed")]
    TooFew { n: u64, least: u64 },
    #[error("all values are the same: there is nothing to fit")]
    NoSpread,
    #[error("the value {value} is below zero or no number: no family here holds it")]
    Outside { value: String },
    #[error("a value is zero, and the sample says of no rounding: zero has no density")]
    Zero,
    #[error(
        "the tail is lighter than an exponential's: the best {family} is the exponential itself"
    )]
    LightTail { family: &'static str },
    #[error("the likelihood of {family} has no peak that could be found")]
    NoPeak { family: &'static str },
}

/// Fewer say nothing about a shape.
const LEAST: u64 = 20;

impl Sample {
    /// Values and how often each came.
    ///
    /// # Errors
    /// Fewer than 20 values, all the same, negative ones, or zeros that no rounding explains.
    pub fn new(
        values: impl IntoIterator<Item = (f64, u64)>,
        rounding: Rounding,
    ) -> Result<Sample, FitError> {
        let tick = rounding.tick();
        let mut cells: Vec<Cell> = Vec::new();
        let mut n = 0u64;
        for (value, count) in values.into_iter().filter(|(_, count)| *count > 0) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(FitError::Outside {
                    value: value.to_string(),
                });
            }
            if value == 0.0 && tick <= 0.0 {
                return Err(FitError::Zero);
            }
            n += count;
            cells.push(Cell {
                value,
                count: count as f64,
                rounded: value < EXACT_FROM_TICKS * tick,
            });
        }
        if n < LEAST {
            return Err(FitError::TooFew { n, least: LEAST });
        }
        cells.sort_by(|a, b| a.value.total_cmp(&b.value));
        cells.dedup_by(|later, kept| {
            let same = later.value == kept.value;
            if same {
                kept.count += later.count;
            }
            same
        });
        if cells.len() < 2 {
            return Err(FitError::NoSpread);
        }
        Ok(Sample {
            cells,
            rounding,
            n: n as f64,
        })
    }

    /// Exact values.
    ///
    /// # Errors
    /// As [`Sample::new`].
    pub fn of(values: &[f64]) -> Result<Sample, FitError> {
        Sample::new(values.iter().map(|v| (*v, 1)), Rounding::Exact)
    }

    pub fn len(&self) -> u64 {
        self.n as u64
    }

    pub fn is_empty(&self) -> bool {
        self.n < 1.0
    }

    pub fn mean(&self) -> f64 {
        self.cells.iter().map(|c| c.count * c.value).sum::<f64>() / self.n
    }

    /// Standard deviation over mean.
    pub fn variation(&self) -> f64 {
        let mean = self.mean();
        let squares = self
            .cells
            .iter()
            .map(|c| c.count * (c.value - mean).powi(2));
        (squares.sum::<f64>() / (self.n - 1.0)).sqrt() / mean
    }

    /// Share of the values up to each value, rising to 1, at most `steps` of them.
    pub fn shares(&self, steps: usize) -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let mut out: Vec<(f64, f64)> = Vec::new();
        let mut next = 0.0;
        for (i, c) in self.cells.iter().enumerate() {
            sum += c.count / self.n;
            if sum >= next || i + 1 == self.cells.len() {
                out.push((c.value, sum.min(1.0)));
                next = sum + 1.0 / steps as f64;
            }
        }
        out
    }

    fn scaled(&self, by: f64) -> Sample {
        let cells = self.cells.iter().map(|c| Cell {
            value: c.value / by,
            ..*c
        });
        Sample {
            rounding: match self.rounding {
                Rounding::Exact => Rounding::Exact,
                Rounding::Nearest(tick) => Rounding::Nearest(tick / by),
                Rounding::Difference(tick) => Rounding::Difference(tick / by),
            },
            cells: cells.collect(),
            n: self.n,
        }
    }
}

/// One family fitted to one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub family: Family,
    /// The family's parameters in the order of [`Family::parameters`], with 95 % intervals.
    pub parameters: Vec<Figure>,
    pub log_likelihood: f64,
    /// Akaike's criterion: the family with the smallest is the best of those tried.
    pub aic: f64,
    /// Kolmogorov–Smirnov distance.
    pub distance: f64,
    /// Anderson and Darling's A².
    pub anderson_darling: f64,
    /// What A² stays below in 95 of 100 samples that do come from the family.
    pub critical_5pct: f64,
    shape: Shape,
    scale: f64,
}

impl Fit {
    /// Whether a sample of this family would hardly ever look so.
    pub fn rejected(&self) -> bool {
        self.anderson_darling > self.critical_5pct
    }

    /// Share of the fitted distribution up to `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        self.shape.cdf(x / self.scale)
    }

    pub fn mean(&self) -> f64 {
        self.shape.mean() * self.scale
    }
}

/// Fits one family. `effective` is how many independent values leave the same doubt as these, where they
/// came one after another and depend on each other; their number where they do not.
///
/// # Errors
/// Where the family has no best member for this sample.
pub fn fit(sample: &Sample, family: Family, effective: f64) -> Result<Fit, FitError> {
    // Values of order 1: the same steps and tolerances do for nanoseconds and for bytes.
    let scale = sample.mean();
    let scaled = sample.scaled(scale);
    let peak = family::maximise(&scaled, family)?;
    let shape = peak.shape;
    let n = sample.n;
    let (distance, anderson_darling) = goodness::distances(&scaled, |x| shape.cdf(x));
    // Each value's likelihood was taken per unit of the scaled axis; an interval's has no unit.
    let exact = sample.cells.iter().filter(|c| !c.rounded);
    let log_likelihood = peak.log_likelihood - exact.map(|c| c.count).sum::<f64>() * scale.ln();
    let doubt = (n / effective.clamp(1.0, n)).sqrt();
    let parameters = shape
        .parameters(scale)
        .into_iter()
        .zip(peak.errors)
        .map(|(p, se)| {
            let half = Z95 * se * doubt;
            let (low, high) = if p.logarithmic {
                (p.value * (-half).exp(), p.value * half.exp())
            } else {
                (p.value - half, p.value + half)
            };
            Figure::Is {
                value: p.value,
                low,
                high,
            }
        })
        .collect();
    Ok(Fit {
        family,
        parameters,
        log_likelihood,
        aic: 2.0 * family.parameters().len() as f64 - 2.0 * log_likelihood,
        distance,
        anderson_darling,
        critical_5pct: goodness::critical_5pct(shape, n),
        shape,
        scale,
    })
}

/// Every family that can be fitted, the best first; and why the others cannot.
pub fn fit_all(sample: &Sample, effective: f64) -> (Vec<Fit>, Vec<(Family, FitError)>) {
    let (mut fits, mut not) = (Vec::new(), Vec::new());
    for family in Family::ALL {
        match fit(sample, family, effective) {
            Ok(f) => fits.push(f),
            Err(e) => not.push((family, e)),
        }
    }
    fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
    (fits, not)
}
