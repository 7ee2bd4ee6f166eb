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
    /// Figure without uncertainty.
    pub fn exactly(value: f64) -> Figure {
        Figure::Is {
            value,
            low: value,
            high: value,
        }
    }
    /// Unknown figure, with the reason.
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
    /// Value; none if it is unknown.
    pub fn value(&self) -> Option<f64> {
        match self {
            Figure::Is { value, .. } => Some(*value),
            Figure::CannotTell { .. } => None,
        }
    }
    /// Figure whose interval is wider by this share of its ends, for an error that does not scatter.
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

    /// Figure of two independent figures; the errors of both, each carried through `of` by itself, add in squares.
    pub fn combined(&self, other: &Figure, of: impl Fn(f64, f64) -> f64) -> Figure {
        let (
            Figure::Is {
                value: x,
                low: xl,
                high: xh,
            },
            Figure::Is {
                value: y,
                low: yl,
                high: yh,
            },
        ) = (self, other)
        else {
            let unknown = matches!(self, Figure::CannotTell { .. });
            return if unknown { self } else { other }.clone();
        };
        let value = of(*x, *y);
        if !value.is_finite() {
            return Figure::cannot_tell("one of its factors is zero");
        }
        let ends = [(*xl, *y), (*xh, *y), (*x, *yl), (*x, *yh)].map(|(x, y)| of(x, y) - value);
        let side = |sign: f64| {
            let errors = ends.iter().map(|d| d * sign);
            let squares = errors.filter(|d| *d > 0.0 && d.is_finite()).map(|d| d * d);
            squares.sum::<f64>().sqrt()
        };
        Figure::Is {
            value,
            low: value - side(-1.0),
            high: value + side(1.0),
        }
    }

    /// Ratio of this figure and another, neither negative.
    pub fn over(&self, other: &Figure) -> Figure {
        self.combined(other, |a, b| a / b).not_negative()
    }

    /// Bytes that pass in this time (ms) at a rate (bit/s): the backlog of a queue with this wait, or, for a round
    /// trip, the bandwidth-delay product.
    pub fn bytes_at(&self, bps: &Figure) -> Figure {
        self.combined(bps, |ms, bps| ms * bps / 8e3).not_negative()
    }

    fn not_negative(self) -> Figure {
        match self {
            Figure::Is { value, low, high } => Figure::Is {
                value,
                low: low.max(0.0).min(value),
                high,
            },
            unknown => unknown,
        }
    }

    /// Figure whose value and interval go through `f`, which must not fall.
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
    fn bytes_of_a_queue_are_those_of_a_calculation_by_hand() {
        // 430 ms at 700 kbit/s are 301 kbit or 37 625 bytes; 19 ms are 13.3 kbit, and 301 / 13.3 = 22.6.
        let f = |v: f64| Figure::Is {
            value: v,
            low: v * 0.98,
            high: v * 1.02,
        };
        let Figure::Is { value, low, high } = f(430.0).bytes_at(&f(700e3)) else {
            panic!("a figure")
        };
        assert_eq!(value, 37_625.0);
        // Two errors of 2 % make one of 2.83 %.
        let half = 37_625.0 * 0.02 * 2f64.sqrt();
        assert!((value - low - half).abs() < 1.0 && (high - value - half).abs() < 1.0);
        assert!((f(430.0).over(&f(19.0)).value().unwrap() - 22.63).abs() < 0.01);
        assert_eq!(f(1.0).over(&Figure::exactly(0.0)).value(), None);
        let unknown = Figure::cannot_tell("no load");
        assert_eq!(unknown.bytes_at(&f(1.0)), unknown);
        assert_eq!(f(1.0).bytes_at(&unknown), unknown);
    }

    /// Errors of one part in a hundred, drawn: the interval holds the combined value as often as it should when the
    /// errors are independent.
    #[test]
    fn the_interval_of_a_product_holds_95_percent_of_what_its_factors_can_be() {
        let mut rng = base::rng::Streams::new(7).stream("factors");
        let mut normal = || (0..12).map(|_| base::rng::uniform(&mut rng)).sum::<f64>() - 6.0;
        let factor = |v: f64| Figure::Is {
            value: v,
            low: v * (1.0 - 0.01 * crate::Z95),
            high: v * (1.0 + 0.01 * crate::Z95),
        };
        let Figure::Is { low, high, .. } = factor(50.0).bytes_at(&factor(2e6)) else {
            panic!("a figure")
        };
        let drawn =
            (0..4000).map(|_| 50.0 * (1.0 + 0.01 * normal()) * 2e6 * (1.0 + 0.01 * normal()) / 8e3);
        let held = drawn.filter(|v| (low..=high).contains(v)).count();
        assert!((3750..=3850).contains(&held), "{held} of 4000");
    }

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
