//! Recordings side by side: measured, imported, simulated, in any mix, by one definition of every figure.
//!
//! **Method.** Figures and their intervals are those of `statistics`. A difference to the first recording has the
//! interval that independent errors make together: their halves added in squares, below and above apart. Where
//! that interval holds zero, the recordings do not differ by more than chance.
//!
//! **Limits.** Two recordings of one link at one time are not independent: their true differences are known better than
//! stated.

use crate::robustness::Robustness;
use crate::statistics::{Statistics, Summary, TargetStatistics};
use crate::together::Together;
use base::record::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Rises when the meaning of a field changes.
pub const COMPARISON_VERSION: u32 = 1;

/// Answer on several recordings: the output of `tailback analyse A B --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideBySide {
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// Comparison of the figures.
    pub comparison: Comparison,
    /// The statistics of each, in the order in which they were named.
    pub recordings: Vec<Statistics>,
    /// Recordings treated as redundant uplinks; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub together: Option<Together>,
}

/// Figures of several recordings side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Recordings in the order in which they were named.
    pub recordings: Vec<Named>,
    /// Method of the differences, in words.
    pub method: String,
    /// The whole, and each phase, span and state of the link that at least two recordings have.
    pub sections: Vec<Section>,
}

/// Recording of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// Name of the recording.
    pub name: String,
    /// Origin of its rows.
    pub origin: Origin,
    /// Target whose probes are compared.
    pub target: String,
}

/// Part of a comparison: the whole, a phase or a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// Name of the part.
    pub name: String,
    /// Figures of the part.
    pub rows: Vec<Row>,
}

/// Unit of a compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Milliseconds,
    Percent,
    /// Percentage whose distance to 100 matters.
    Reliability,
    Count,
}

/// Figure of all recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Name of the figure.
    pub name: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Values, one for each recording; null if it has no such section.
    pub values: Vec<Option<Figure>>,
    /// Difference of each recording to the first; null where a difference has no meaning.
    pub differences: Vec<Option<Figure>>,
}

/// `b` less `a`.
pub fn difference(b: &Figure, a: &Figure) -> Figure {
    match (b, a) {
        (
            Figure::Is {
                value: b,
                low: bl,
                high: bh,
            },
            Figure::Is {
                value: a,
                low: al,
                high: ah,
            },
        ) => {
            let d = b - a;
            Figure::Is {
                value: d,
                low: d - (b - bl).hypot(ah - a),
                high: d + (bh - b).hypot(a - al),
            }
        }
        (Figure::CannotTell { .. }, _) => b.clone(),
        _ => a.clone(),
    }
}

type Of = Box<dyn Fn(&Summary) -> Option<Figure>>;

fn rows(limits_ms: &[f64]) -> Vec<(String, Unit, bool, Of)> {
    let exact = |v: Option<f64>| v.map(Figure::exactly);
    let mut rows: Vec<(String, Unit, bool, Of)> = vec![
        (
            "Probes sent".into(),
            Unit::Count,
            false,
            Box::new(|s| Some(Figure::exactly(s.sent as f64))),
        ),
        (
            "Loss".into(),
            Unit::Percent,
            true,
            Box::new(|s| Some(s.loss_percent.clone())),
        ),
        (
            "RTT min".into(),
            Unit::Milliseconds,
            false,
            Box::new(move |s| exact(s.rtt.min_ms)),
        ),
        (
            "RTT mean".into(),
            Unit::Milliseconds,
            true,
            Box::new(|s| Some(s.rtt.mean_ms.clone())),
        ),
        (
            "RTT SD".into(),
            Unit::Milliseconds,
            false,
            Box::new(move |s| exact(s.rtt.sd_ms)),
        ),
    ];
    for p in [0.05, 0.5, 0.95, 0.99] {
        let name = format!("RTT {} % below", p * 100.0);
        rows.push((
            name,
            Unit::Milliseconds,
            true,
            Box::new(move |s| Some(s.rtt.point(p))),
        ));
    }
    rows.push((
        "RTT max".into(),
        Unit::Milliseconds,
        false,
        Box::new(move |s| exact(s.rtt.max_ms)),
    ));
    rows.push((
        "IPDV mean".into(),
        Unit::Milliseconds,
        true,
        Box::new(|s| Some(s.ipdv.mean_ms.clone())),
    ));
    for limit in limits_ms.iter().copied() {
        let of = move |s: &Summary| {
            let found = s.reliability.iter().find(|r| r.limit_ms == limit);
            found.map(|r| r.share.map(|p| p * 100.0))
        };
        rows.push((
            format!("within {limit} ms"),
            Unit::Reliability,
            true,
            Box::new(of),
        ));
    }
    rows
}

/// `of` names each recording and the target of it that is compared.
pub fn compare(of: &[(String, &Statistics, &TargetStatistics)]) -> Comparison {
    let sections = |t: &TargetStatistics| -> Vec<Summary> {
        let loaded = t.loaded.iter().filter_map(|l| l.summary.clone());
        std::iter::once(t.whole.clone())
            .chain(loaded)
            .chain(t.phases.iter().cloned())
            .chain(t.spans.iter().cloned())
            .collect()
    };
    let all: Vec<Vec<Summary>> = of.iter().map(|(_, _, t)| sections(t)).collect();
    let mut names: Vec<String> = Vec::new();
    for s in all.iter().flatten() {
        let has = |a: &&Vec<Summary>| a.iter().any(|x| x.name == s.name);
        if !names.contains(&s.name) && all.iter().filter(has).count() >= 2.min(all.len()) {
            names.push(s.name.clone());
        }
    }
    let limits: Vec<f64> = of.first().map_or(Vec::new(), |(_, _, t)| {
        t.whole.reliability.iter().map(|r| r.limit_ms).collect()
    });
    let section = |name: &String| {
        let mine: Vec<Option<&Summary>> = all
            .iter()
            .map(|a| a.iter().find(|s| s.name == *name))
            .collect();
        let row = |(label, unit, comparable, of): (String, Unit, bool, Of)| {
            let values: Vec<Option<Figure>> = mine.iter().map(|s| s.and_then(&of)).collect();
            let differences = values[1..]
                .iter()
                .map(|v| match (v, &values[0]) {
                    (Some(b), Some(a)) if comparable => Some(difference(b, a)),
                    _ => None,
                })
                .collect();
            Row {
                name: label,
                unit,
                values,
                differences,
            }
        };
        Section {
            name: name.clone(),
            rows: rows(&limits).into_iter().map(row).collect(),
        }
    };
    Comparison {
        recordings: of
            .iter()
            .map(|(name, s, t)| Named {
                name: name.clone(),
                origin: s.origin,
                target: t.target.clone(),
            })
            .collect(),
        method: "In brackets: 95 %. A difference whose interval holds zero is within chance; the recordings are taken to be independent of each other.".into(),
        sections: names.iter().map(section).chain(stability(of)).collect(),
    }
}

type OfStability = fn(&Robustness) -> Option<Figure>;

/// Figures of stability that are compared.
const STABILITY: [(&str, Unit, OfStability); 8] = [
    ("Hours with a break", Unit::Percent, |r| {
        Some(r.broken_hours_percent.clone())
    }),
    ("Days down for over 10 min", Unit::Count, |r| {
        (r.days > 0).then(|| Figure::exactly(r.bad_days as f64))
    }),
    ("Of days", Unit::Count, |r| {
        Some(Figure::exactly(r.days as f64))
    }),
    ("Breaks", Unit::Count, |r| {
        Some(Figure::exactly(r.breaks as f64))
    }),
    ("Loss while connected", Unit::Percent, |r| {
        Some(r.loss_percent.clone())
    }),
    ("Hours with more than 1 % of it", Unit::Count, |r| {
        Some(Figure::exactly(r.lossy_hours as f64))
    }),
    ("RTT median, variation by the hour", Unit::Percent, |r| {
        Some(r.median.variation_percent.clone())
    }),
    ("RTT 95 %, variation by the hour", Unit::Percent, |r| {
        Some(r.p95.variation_percent.clone())
    }),
];

/// Section of stability, if a recording lasted for an hour.
fn stability(of: &[(String, &Statistics, &TargetStatistics)]) -> Option<Section> {
    let all: Vec<Option<&Robustness>> = of
        .iter()
        .map(|(_, _, t)| t.stability.as_ref().filter(|r| r.hours > 0))
        .collect();
    all.iter().any(Option::is_some).then(|| Section {
        name: "stability".into(),
        rows: STABILITY
            .iter()
            .map(|(name, unit, figure)| Row {
                name: (*name).into(),
                unit: *unit,
                values: all.iter().map(|r| r.and_then(figure)).collect(),
                differences: vec![None; all.len().saturating_sub(1)],
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_difference_add_in_squares() {
        let of = |value, low, high| Figure::Is { value, low, high };
        let d = difference(&of(10.0, 7.0, 13.0), &of(4.0, 0.0, 8.0));
        assert_eq!(d, of(6.0, 1.0, 11.0));
        let why = Figure::cannot_tell("none");
        assert_eq!(difference(&why, &of(1.0, 1.0, 1.0)), why);
    }
}
