//! State of the modem over time: synchronous rates, noise margins, and errors as rates.

use super::material::{Material, ModemStretch};
use super::over_time::{middle, time_axis};
use crate::plot::{Axis, Panel, PlotSpec, Series, Shape, nice_top};
use base::print::RATE;

/// Lines of the down and the up direction.
const CLASSES: [(&str, &str); 2] = [("down", "line fine down"), ("up", "line fine up d1")];
/// Lines of the errors.
const ERRORS: [(&str, &str); 4] = [
    ("CRC down", "line fine down"),
    ("CRC up", "line fine up d1"),
    ("FEC down", "line fine s2 d2"),
    ("FEC up", "line fine s3 d3"),
];

type Points = Vec<(f64, Option<f64>)>;

pub fn plot(m: &Material) -> PlotSpec {
    let count = m.modem.len();
    let line = |of: &dyn Fn(&ModemStretch) -> Option<f64>| -> Points {
        let known = m.modem.iter().enumerate();
        let known = known.filter_map(|(i, s)| Some((middle(m, i, count), Some(of(s)?))));
        super::host::joined(known.collect())
    };
    let mut panels = Vec::new();
    let of_values = |first: usize| [0, 1].map(|d: usize| line(&|s| s.value(first + d)));
    for (name, lines) in [
        ("Synchronous rate", of_values(0)),
        ("Noise margin, dB", of_values(2)),
    ] {
        let (low, high) = bounds(&lines);
        let axis = match name {
            "Synchronous rate" => Axis::fitting(name, RATE, 0.0, nice_top(high)),
            _ => Axis::even(name, low.min(0.0).floor(), nice_top(high)),
        };
        let named = CLASSES.into_iter().zip(lines);
        panels.extend(panel(axis, named.map(|((n, c), points)| (n, c, points))));
    }
    let errors = [0, 1, 2, 3].map(|i: usize| {
        // No line crosses a reset: its errors are unknown.
        let resets = m.modem.iter().enumerate().filter(|(_, s)| s.was_reset(i));
        let mut points = line(&|s| s.errors_a_minute(i));
        points.extend(resets.map(|(at, _)| (middle(m, at, count), None)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    });
    let top = nice_top(bounds(&errors).1);
    let named = ERRORS.into_iter().zip(errors);
    let axis = Axis::even("Errors a minute", 0.0, top);
    panels.extend(panel(axis, named.map(|((n, c), points)| (n, c, points))));
    PlotSpec {
        title: "state of the modem".into(),
        x: time_axis(m),
        panels,
        moments: m.moments.clone(),
        ..PlotSpec::default()
    }
}

/// Least and largest value of some lines; zero without any.
fn bounds(lines: &[Points]) -> (f64, f64) {
    let values = lines.iter().flatten().filter_map(|p| p.1);
    values.fold((0.0f64, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
}

/// Makes a panel of the lines with points; `None` without any.
fn panel(
    y: Axis,
    lines: impl Iterator<Item = (&'static str, &'static str, Points)>,
) -> Option<Panel> {
    let known = lines.filter(|(.., points)| !points.is_empty());
    let series: Vec<Series> = known
        .map(|(name, class, points)| Series::new(name, class, Shape::Line(points)))
        .collect();
    (!series.is_empty()).then(|| Panel {
        y,
        height: 110.0,
        series,
        ..Panel::default()
    })
}
