//! Tests side by side: each figure of the first test beside that of the others, and if they differ by more than chance.
//!
//! **Method.** Runs are independent, so the errors of two figures add in squares. A difference counts if its 95 %
//! interval leaves out zero. The first test is the reference.
//!
//! **Source.** D. G. Altman, D. Machin, T. N. Bryant and M. J. Gardner, "Statistics with Confidence", 2000: method of
//! variance estimates recovery for a difference of two figures with intervals.
//!
//! **Limits.** One test of each state shows chance within the tests only, not that between two hours of a day. With
//! many figures, one in twenty differs by chance alone.

use crate::answer::Answer;
use base::print::{DELAY, RATE, RPM, SIZE, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Version of this shape in `--json`.
pub const VERSION: u32 = 1;

/// Tests side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// Version of the shape, [`VERSION`].
    pub version: u32,
    /// Tests, the reference first.
    pub tests: Vec<Test>,
    /// Figures of all tests.
    pub rows: Vec<Row>,
}

/// One of the tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// Name of the recording.
    pub name: String,
    /// Name of the run.
    pub title: String,
    /// Start of the run, UNIX ns.
    pub started_ns: i64,
    /// Grade of the added delay.
    pub grade: String,
    /// True if the run went to its planned end.
    pub complete: bool,
}

/// Figure of all tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Key of the figure, with its unit.
    pub key: String,
    /// Name of the figure.
    pub name: String,
    /// Figure of each test.
    pub figures: Vec<Figure>,
    /// Change from the first test to each of the others.
    pub changes: Vec<Change>,
}

/// Change of a figure from the first test to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Direction of the change.
    pub is: Is,
    /// Difference, with its 95 % interval.
    pub difference: Figure,
}

/// Direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    Better,
    Worse,
    /// No more than chance explains.
    Same,
    CannotTell,
}

type Of = fn(&Answer) -> &Figure;

/// Definition of a figure: key, name, unit, true if more is better, access.
type Definition = (&'static str, &'static str, Unit, bool, Of);

/// Figures that are compared.
pub const FIGURES: [Definition; 8] = [
    ("added_up_p95_ms", "Upload adds, 95 %", DELAY, false, |a| {
        &a.up.added.p95_ms
    }),
    (
        "added_down_p95_ms",
        "Download adds, 95 %",
        DELAY,
        false,
        |a| &a.down.added.p95_ms,
    ),
    ("goodput_up_bps", "Rate up", RATE, true, |a| {
        &a.up.goodput_bps
    }),
    ("goodput_down_bps", "Rate down", RATE, true, |a| {
        &a.down.goodput_bps
    }),
    ("base_rtt_ms", "RTT at rest", DELAY, false, |a| {
        &a.base_rtt_ms
    }),
    ("rpm", "Responsiveness", RPM, true, |a| {
        &a.responsiveness.rpm
    }),
    ("queue_up_bytes", "Queue up", SIZE, false, |a| {
        &a.up.queue_bytes
    }),
    ("queue_down_bytes", "Queue down", SIZE, false, |a| {
        &a.down.queue_bytes
    }),
];

/// Compares tests with the first of them, by name.
pub fn compare(tests: &[(String, Answer)]) -> BeforeAfter {
    let rows = FIGURES.iter().map(|(key, name, _, more, of)| {
        let figures: Vec<Figure> = tests.iter().map(|(_, a)| of(a).clone()).collect();
        let (first, others) = match figures.split_first() {
            Some((first, others)) => (first.clone(), others),
            None => (Figure::cannot_tell("there is no test"), &[][..]),
        };
        Row {
            key: (*key).into(),
            name: (*name).into(),
            changes: others.iter().map(|f| change(&first, f, *more)).collect(),
            figures,
        }
    });
    BeforeAfter {
        version: VERSION,
        rows: rows.collect(),
        tests: tests
            .iter()
            .map(|(name, a)| Test {
                name: name.clone(),
                title: a.title.clone(),
                started_ns: a.started_ns,
                grade: a.grade.letter.clone(),
                complete: a.complete,
            })
            .collect(),
    }
}

/// Change from `a` to `b`.
fn change(a: &Figure, b: &Figure, more_is_better: bool) -> Change {
    let difference = match (a, b) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: v,
                low: l,
                high: h,
            },
        ) => {
            let (below, above) = ((v - l).hypot(high - value), (h - v).hypot(value - low));
            Figure::Is {
                value: v - value,
                low: v - value - below,
                high: v - value + above,
            }
        }
        (Figure::CannotTell { cannot_tell }, _) | (_, Figure::CannotTell { cannot_tell }) => {
            Figure::cannot_tell(cannot_tell.clone())
        }
    };
    let is = match &difference {
        Figure::CannotTell { .. } => Is::CannotTell,
        Figure::Is { low, .. } if *low > 0.0 && more_is_better => Is::Better,
        Figure::Is { high, .. } if *high < 0.0 && !more_is_better => Is::Better,
        Figure::Is { low, high, .. } if *low > 0.0 || *high < 0.0 => Is::Worse,
        Figure::Is { .. } => Is::Same,
    };
    Change { is, difference }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Pairs of samples of 40 normal values: equal means differ by chance in one of twenty pairs, means that are three
    /// standard errors apart nearly always.
    #[test]
    fn a_change_is_told_if_it_is_more_than_chance() {
        let mut wrong = [0; 2];
        let pairs = 2_000;
        for seed in 0..pairs {
            let mut rng = Streams::new(seed).stream("pair");
            let mut sample = |mean: f64| {
                let n = 40;
                let values: Vec<f64> = (0..n)
                    .map(|_| mean + (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0)
                    .collect();
                let m = values.iter().sum::<f64>() / f64::from(n);
                let var = values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / f64::from(n - 1);
                let half = 1.96 * (var / f64::from(n)).sqrt();
                Figure::Is {
                    value: m,
                    low: m - half,
                    high: m + half,
                }
            };
            let (a, b, c) = (sample(50.0), sample(50.0), sample(51.2));
            wrong[0] += usize::from(change(&a, &b, false).is != Is::Same);
            wrong[1] += usize::from(change(&a, &c, false).is != Is::Worse);
            assert_eq!(
                change(&a, &c, true).is == Is::Better,
                change(&a, &c, false).is == Is::Worse
            );
        }
        let share = |n: usize| n as f64 / pairs as f64;
        assert!((0.03..0.08).contains(&share(wrong[0])), "{wrong:?}");
        assert!(share(wrong[1]) < 0.005, "{wrong:?}");
    }

    #[test]
    fn what_one_of_them_cannot_tell_is_not_compared() {
        let known = Figure::exactly(5.0);
        let unknown = Figure::cannot_tell("no probes");
        for (a, b) in [(&known, &unknown), (&unknown, &known)] {
            let found = change(a, b, true);
            assert_eq!(found.is, Is::CannotTell);
            assert_eq!(found.difference, unknown);
        }
        assert_eq!(change(&known, &known, true).is, Is::Same);
    }
}
