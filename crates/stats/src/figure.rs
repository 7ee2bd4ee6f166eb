//! A figure: a number with its interval, or the reason why there is none.

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
