//! A figure: a number with its interval, or the reason why there is none.

use base::print::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number with the interval that holds it with 95 % confidence, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Figure {
    Is { value: f64, low: f64, high: f64 },
    CannotTell { cannot_tell: String },
}

impl Figure {
    pub fn exactly(value: f64) -> Figure {
        Figure::Is {
            value,
            low: value,
            high: value,
        }
    }
    pub fn cannot_tell(because: impl Into<String>) -> Figure {
        Figure::CannotTell {
            cannot_tell: because.into(),
        }
    }
    /// The value with its interval, all in one unit: `430 ms (418 to 441)`.
    ///
    /// # Errors
    /// The reason why there is no figure.
    pub fn print(&self, unit: Unit) -> Result<String, String> {
        match self {
            Figure::Is { value, low, high } => Ok(unit.interval(*value, *low, *high)),
            Figure::CannotTell { cannot_tell } => Err(cannot_tell.clone()),
        }
    }
    pub fn value(&self) -> Option<f64> {
        match self {
            Figure::Is { value, .. } => Some(*value),
            Figure::CannotTell { .. } => None,
        }
    }
    /// The same with an interval that is wider by this share of its ends, for an error that is no scatter.
    pub fn widened(&self, by: f64) -> Figure {
        match self {
            Figure::Is { value, low, high } => Figure::Is {
                value: *value,
                low: low - low.abs() * by,
                high: high + high.abs() * by,
            },
            unknown => unknown.clone(),
        }
    }

    /// Product of two figures that are independent of each other: the relative halves of their intervals add in squares.
    pub fn times(&self, other: &Figure) -> Figure {
        let (
            Figure::Is { value, low, high },
            Figure::Is {
                value: by,
                low: least,
                high: most,
            },
        ) = (self, other)
        else {
            let unknown = |f: &Figure| matches!(f, Figure::CannotTell { .. });
            return if unknown(self) {
                self.clone()
            } else {
                other.clone()
            };
        };
        let share = |edge: f64, of: f64| if of == 0.0 { 0.0 } else { (edge - of) / of };
        let product = value * by;
        let down = share(*low, *value).hypot(share(*least, *by));
        let up = share(*high, *value).hypot(share(*most, *by));
        Figure::Is {
            value: product,
            low: product - product.abs() * down,
            high: product + product.abs() * up,
        }
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Figure {
        match self {
            Figure::Is { value, low, high } => Figure::Is {
                value: f(*value),
                low: f(*low),
                high: f(*high),
            },
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::print::SIZE;

    #[test]
    fn an_interval_shares_the_unit_of_its_value() {
        let f = Figure::Is {
            value: 37_625.0,
            low: 900.0,
            high: 39_100.0,
        };
        assert_eq!(f.print(SIZE).unwrap(), "37.6 kB (0.9 to 39.1)");
        assert_eq!(Figure::exactly(5.0).print(SIZE).unwrap(), "5 B");
        let unknown = Figure::cannot_tell("no load");
        assert_eq!(unknown.print(SIZE).unwrap_err(), "no load");
    }
}
