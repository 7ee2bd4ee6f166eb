//! Signal and handovers of the radios, above round trips and traffic on the same time axis.

use super::host::joined;
use super::material::{Material, RadioStretches, STRETCHES};
use super::over_time::{self, middle};
use crate::plot::{Axis, Draw, Panel, PlotSpec, Points, Series, Shape};
use analysis::radio::Measure;

/// Height of the panel of signals, px.
const HEIGHT: f64 = 110.0;
/// Length of a handover's mark, px.
const TICK: f64 = 9.0;
/// Step of the axis: dB, or per cent.
const STEP: f64 = 10.0;

/// True if a radio told its signal.
pub fn is_known(m: &Material) -> bool {
    m.radios.values().any(|r| r.measure().is_some())
}

pub fn plot(m: &Material) -> PlotSpec {
    let mut spec = over_time::rtt(m);
    spec.title = match m.has_delays() {
        true => "signal, round trips and traffic".into(),
        false => "signal and traffic".into(),
    };
    let panels = [
        ("Signal, dBm", [Measure::Rsrp, Measure::Rssi].as_slice()),
        ("Signal quality, %", &[Measure::Quality]),
    ];
    let panels = panels
        .into_iter()
        .filter_map(|(name, of)| panel(m, name, of));
    spec.panels.splice(0..0, panels.collect::<Vec<_>>());
    spec
}

/// Panel of the radios whose signal is one of these measures; `None` without any.
fn panel(m: &Material, name: &str, of: &[Measure]) -> Option<Panel> {
    let all = m.radios.iter().enumerate();
    let mine = all.filter_map(|(i, (interface, radio))| {
        let at = radio
            .measure()
            .filter(|at| of.contains(&Measure::ALL[*at]))?;
        Some((
            i,
            named(interface, Measure::ALL[at]),
            radio,
            line(m, radio, at),
        ))
    });
    let mine: Vec<(usize, String, &RadioStretches, Points)> = mine.collect();
    let values = mine
        .iter()
        .flat_map(|(.., line)| line.iter().filter_map(|p| p.1));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if low > high {
        return None;
    }
    let low = (low / STEP).floor() * STEP;
    let high = ((high / STEP).ceil() * STEP).max(low + STEP);
    let at = |t_ns: i64| (t_ns - m.scope.from_ns) as f64 / 1e9;
    let handovers = mine.iter().flat_map(|(_, _, radio, _)| &radio.handovers);
    let handovers: Vec<f64> = handovers.map(|t| at(*t)).collect();
    let mut series: Vec<Series> = mine
        .into_iter()
        .map(|(i, name, _, line)| Series::numbered(name, Draw::Line, i, line))
        .collect();
    if !handovers.is_empty() {
        series.push(Series::new(
            "handover",
            "wide s1",
            Shape::Ticks(handovers, TICK),
        ));
    }
    Some(Panel {
        y: Axis::even(name, low, high),
        height: HEIGHT,
        series,
        ..Panel::default()
    })
}

fn named(interface: &str, measure: Measure) -> String {
    let what = match measure {
        Measure::Rsrp => "RSRP",
        Measure::Rssi => "RSSI",
        Measure::Quality => "quality",
    };
    format!("{interface} {what}").trim_start().to_owned()
}

fn line(m: &Material, radio: &RadioStretches, measure: usize) -> Points {
    let means = radio.means(measure);
    joined(
        means
            .map(|(place, v)| (middle(m, place, STRETCHES), Some(v)))
            .collect(),
    )
}
