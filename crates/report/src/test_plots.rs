//! Plots of a test: RTT and throughput over time, and the distribution of the RTT, phase by phase.

use crate::curves::{Curves, Point};
use crate::plot::{Axis, Panel, Phase, PlotSpec, Series, Shape, nice_top};
use crate::words::phase;
use analysis::answer::Answer;
use base::print::RATE;
use base::record::Recording;

/// Plots RTT over time with phases shaded and losses marked; throughput below on the same time axis.
pub fn rtt_over_time(answer: &Answer, recording: &Recording) -> PlotSpec {
    over_time(&Curves::of(answer, recording))
}

/// Plots the share of probes answered within a time: one curve per phase, time on a logarithmic axis.
pub fn cdf(answer: &Answer, recording: &Recording) -> PlotSpec {
    distribution(&Curves::of(answer, recording))
}

pub(crate) fn over_time(curves: &Curves) -> PlotSpec {
    let line = |points: &[Point]| Shape::Line(points.iter().map(|p| (p.t_s, p.ms)).collect());
    let mut series = Vec::new();
    for points in [&curves.in_flow_down, &curves.in_flow_up] {
        let first = series.is_empty() && !points.is_empty();
        let name = if first {
            "the load's own packets (smoothed)"
        } else {
            ""
        };
        if !points.is_empty() {
            series.push(Series::new(name, "flow", line(points)));
        }
    }
    series.push(Series::new("probes", "probe", line(&curves.probes)));
    if !curves.lost_s.is_empty() {
        let lost = Shape::Ticks(curves.lost_s.clone(), 7.0);
        series.push(Series::new("lost", "loss", lost));
    }
    let mut panels = vec![Panel {
        y: Axis::up_to("Round-trip time, ms", curves.top_ms()),
        height: 236.0,
        series,
        ..Panel::default()
    }];
    if curves.top_bps() > 0.0 {
        let bins = &curves.bins;
        let rate = |(name, class, values): (&str, &str, &[Option<f64>])| {
            let values = values.iter().enumerate();
            let points = values.map(|(i, v)| ((i as f64 + 0.5) * bins.step_s, *v));
            Series::new(name, format!("line {class}"), Shape::Line(points.collect()))
        };
        panels.push(Panel {
            y: Axis::fitting("Throughput", RATE, 0.0, nice_top(curves.top_bps())),
            height: 110.0,
            series: [
                ("download", "down", &*bins.down_bps),
                ("upload", "up", &*bins.up_bps),
            ]
            .map(rate)
            .into(),
            ..Panel::default()
        });
    }
    let shade = curves.phases.iter().map(|p| Phase {
        name: phase(&p.name).to_owned(),
        class: class(&p.name),
        from: p.from_s,
        to: p.to_s,
    });
    PlotSpec {
        title: "Round-trip time and throughput over time".into(),
        untitled: true,
        x: Axis {
            origin_ns: Some(curves.start_ns),
            ..Axis::even("time, s", 0.0, curves.span_s)
        },
        panels,
        phases: shade.collect(),
        moments: curves.moments.clone(),
        note: String::new(),
    }
}

pub(crate) fn distribution(curves: &Curves) -> PlotSpec {
    let all = || {
        let steps = curves.cdf.iter().flat_map(|c| &c.steps);
        steps.map(|s| s.0).filter(|v| *v > 0.0)
    };
    let low = all().fold(f64::INFINITY, f64::min).min(1e9);
    let high = all().fold(0.0, f64::max).max(low * 1.01);
    let series = curves.cdf.iter().map(|c| {
        let steps = c.steps.iter();
        let points = steps.map(|(ms, share)| (ms.max(low), share * 100.0));
        let class = class(&c.phase);
        Series::new(
            phase(&c.phase),
            format!("line {class} dash-{class}"),
            Shape::Stairs(points.collect()),
        )
    });
    PlotSpec {
        untitled: true,
        ..PlotSpec::single(
            "Share of probes answered within a time",
            Axis::logarithmic("round-trip time, ms (logarithmic)", low * 0.96, high * 1.04),
            Axis::even("Probes answered within, %", 0.0, 100.0),
            series.collect(),
        )
    }
}

/// Returns the style class of a phase; only known phases have one of their own.
fn class(name: &str) -> &'static str {
    match name {
        "down" => "down",
        "up" => "up",
        "both" => "both",
        _ => "idle",
    }
}
