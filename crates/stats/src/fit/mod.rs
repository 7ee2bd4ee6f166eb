//! Fits of distributions to a sample: maximum likelihood, intervals, goodness of fit, and a ranking.
//!
//! **Method.** A sample is a row of cells: a value and its count. If the instrument rounded a value by a good part of
//! itself (a gap of 0 or 1 µs on a clock of 1 µs, a count of packets), the value is an interval of one tick and
//! contributes the probability of that interval; any other value contributes its density. The likelihood is maximised
//! by Newton's method in the logarithms of the parameters; intervals are Wald's there, from the observed information.
//! Families are ranked by Akaike's criterion.
//!
//! **Goodness of fit.** The Kolmogorov–Smirnov distance D is the largest difference of the two distribution functions.
//! Anderson and Darling's A² is compared with points of its distribution *when both parameters come from the same
//! data*, not with those of a known distribution.
//!
//! **Source.** T. W. Anderson, D. A. Darling, "A test of goodness of fit", JASA 49 (1954); M. A. Stephens
//! in R. B. D'Agostino, M. A. Stephens, *Goodness-of-Fit Techniques*, 1986, sections 4.8 to 4.12 (points for
//! estimated parameters); H. Akaike, IEEE Trans. Autom. Control 19 (1974). Points for gamma and Pareto:
//! simulated by `reference/fits.py`.
//!
//! **Deviations.** Pareto is its type II (Lomax), whose support begins at zero like that of its rivals. Type I has no
//! mass below its smallest value, and packets come with gaps of zero.
//!
//! **Limits.** Intervals and tests take the values as independent unless an effective size is given. With 100 000
//! packets every test rejects every family: D says if that matters.

mod family;
mod goodness;
mod sample;

pub use family::Family;
pub use sample::{FitError, Rounding, Sample};

use crate::Figure;
use crate::Z95;
use family::Shape;

/// Fit of one family to one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Family of the distribution.
    pub family: Family,
    /// Parameters in the order of [`Family::parameters`], with 95 % intervals.
    pub parameters: Vec<Figure>,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Akaike's criterion: the smallest value marks the best family.
    pub aic: f64,
    /// Kolmogorov–Smirnov distance.
    pub distance: f64,
    /// Anderson and Darling's A².
    pub anderson_darling: f64,
    /// Value of A² that 95 of 100 samples of the family stay below.
    pub critical_5pct: f64,
    shape: Shape,
    scale: f64,
}

impl Fit {
    /// True if a sample of this family would hardly ever look like this one.
    pub fn rejected(&self) -> bool {
        self.anderson_darling > self.critical_5pct
    }

    /// Share of the fitted distribution up to `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        self.shape.cdf(x / self.scale)
    }

    /// Mean of the fitted distribution.
    pub fn mean(&self) -> f64 {
        self.shape.mean() * self.scale
    }
}

/// Fits one family. `effective` is the number of independent values with the same uncertainty, if successive values
/// depend on each other; else the number of values.
///
/// # Errors
/// If the family has no best member for this sample.
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

/// Fits of all families, the best first, and the reasons why the others have none.
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
