//! Load of the measuring host over time: its processors by kind of work, and its interface (the thesis's figure 40).

use super::material::{LOADS, Material};
use super::over_time::{middle, time_axis, traffic};
use crate::plot::{Axis, Panel, PlotSpec, Series, Shape};

/// Names and classes of the lines: busy, user, system, interrupts, waiting for a disk.
const LINES: [(&str, &str); LOADS] = [
    ("busy", "middle"),
    ("user", "line fine s0 d1"),
    ("system", "line fine s1 d2"),
    ("interrupts", "line fine s2 d3"),
    ("waiting for a disk", "line fine s4 d5"),
];

pub fn plot(m: &Material) -> PlotSpec {
    let count = m.host.len();
    let at = |i: usize| middle(m, i, count);
    let mut series = Vec::new();
    // A mean over a long stretch hides its peaks.
    let range = m.host.iter().enumerate();
    let range = range.map(|(i, h)| {
        h.range()
            .map(|(low, high)| (at(i), 100.0 * low, 100.0 * high))
    });
    series.push(Series::new("range", "range", Shape::Band(range.collect())).sampled("swatch"));
    for (n, (name, class)) in LINES.into_iter().enumerate() {
        let points = m.host.iter().enumerate();
        let points: Vec<_> = points
            .map(|(i, h)| (at(i), h.mean(n).map(|v| 100.0 * v)))
            .collect();
        if points.iter().any(|p| p.1.is_some()) {
            series.push(Series::new(name, class, Shape::Line(joined(points))));
        }
    }
    let mut panels = vec![Panel {
        y: Axis::even("Processors, %", 0.0, 100.0),
        height: 160.0,
        series,
        ..Panel::default()
    }];
    panels.extend(traffic(m));
    PlotSpec {
        title: "load of this host".into(),
        x: time_axis(m),
        panels,
        moments: m.moments.clone(),
        ..PlotSpec::default()
    }
}

/// Leaves out empty stretches between samples whose distance is usual: samples may be rarer than stretches.
pub(super) fn joined(points: Vec<(f64, Option<f64>)>) -> Vec<(f64, Option<f64>)> {
    let known: Vec<f64> = points.iter().filter_map(|p| p.1.map(|_| p.0)).collect();
    let gaps: Vec<f64> = known.windows(2).map(|w| w[1] - w[0]).collect();
    let longest = 3.0 * stats::quantile(&gaps, 0.5).unwrap_or_default();
    let mut line: Vec<(f64, Option<f64>)> = Vec::with_capacity(points.len());
    for (x, y) in points.into_iter().filter(|p| p.1.is_some()) {
        if line.last().is_some_and(|last| x - last.0 > longest) {
            line.push((x, None));
        }
        line.push((x, y));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::{Plot, Scope};
    use super::*;
    use base::record::HostLoad;
    use jiff::tz::TimeZone;

    fn material(every_s: i64, seconds: i64) -> Material {
        let scope = Scope {
            from_ns: 0,
            to_ns: seconds * 1_000_000_000,
            zone: TimeZone::UTC,
        };
        let mut m = Material::new(scope, "");
        for s in (1..=seconds).step_by(every_s as usize) {
            let busy = if s == seconds / 2 { 1.0 } else { 0.25 };
            let shares = [Some(busy), Some(busy / 2.0), Some(0.1), None, Some(0.0)];
            m.host_load(&HostLoad::of(s * 1_000_000_000, shares));
        }
        m
    }

    #[test]
    fn one_busy_second_of_a_day_is_drawn_and_unknown_parts_are_not() {
        for (every_s, seconds) in [(1, 600), (1, 86_400), (10, 3_000)] {
            let spec = Plot::Host.spec(&material(every_s, seconds)).unwrap();
            let names: Vec<&str> = spec.panels[0].series.iter().map(|s| &*s.name).collect();
            assert!(
                names.contains(&"user") && !names.contains(&"interrupts"),
                "{names:?}"
            );
            let Shape::Band(range) = &spec.panels[0].series[0].shape else {
                panic!("the first series is the range")
            };
            let top = range.iter().flatten().map(|r| r.2).fold(0.0, f64::max);
            assert!(every_s > 1 || top == 100.0, "{top}");
        }
    }

    #[test]
    fn a_recording_without_samples_says_so() {
        let why = Plot::Host.spec(&material(1, 0)).unwrap_err();
        assert!(why.contains("load of the host was not sampled"), "{why}");
    }
}
