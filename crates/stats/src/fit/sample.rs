//! Samples: values, their counts, and their rounding by the instrument.

/// Rounding by the instrument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    Exact,
    /// Rounded to the nearest multiple of this: counts, sizes in bytes.
    Nearest(f64),
    /// Difference of two readings of a clock with this tick: a gap of 0 is anything up to one tick, shorter ones being
    /// more likely.
    Difference(f64),
}

impl Rounding {
    pub(super) fn tick(self) -> f64 {
        match self {
            Rounding::Exact => 0.0,
            Rounding::Nearest(tick) | Rounding::Difference(tick) => tick,
        }
    }

    /// Value of `curve` at the lower and the upper edge of the interval recorded as `value`. The edges of a difference
    /// depend on the phase of the first reading between two ticks: the result is the mean over eight phases.
    pub(super) fn edges(self, value: f64, curve: impl Fn(f64) -> f64) -> (f64, f64) {
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

/// Value with its count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) value: f64,
    pub(super) count: f64,
    /// True if the value is so small that its rounding matters.
    pub(super) rounded: bool,
}

/// Ticks beyond which a rounded value is as good as an exact one.
const EXACT_FROM_TICKS: f64 = 32.0;

/// Observed values, in the order of size.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub(super) cells: Vec<Cell>,
    pub(super) rounding: Rounding,
    pub(super) n: f64,
}

/// Reason why nothing could be fitted.
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

/// Smallest number of values that show a shape.
const LEAST: u64 = 20;

impl Sample {
    /// Creates a sample from values and their counts.
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

    /// Creates a sample of exact values.
    ///
    /// # Errors
    /// Errors of [`Sample::new`].
    pub fn of(values: &[f64]) -> Result<Sample, FitError> {
        Sample::new(values.iter().map(|v| (*v, 1)), Rounding::Exact)
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.n as u64
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.n < 1.0
    }

    /// Mean of the values.
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

    pub(super) fn scaled(&self, by: f64) -> Sample {
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
