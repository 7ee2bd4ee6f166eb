//! Delay over the day and the week: 95th percentile of all probes of each weekday and hour, over all weeks, and of each
//! hour over all days.

use super::calendar;
use super::material::{Material, Stretch, sum};
use crate::plot::{Axis, Panel, PlotSpec, Rectangle, Series, Shape};
use base::print::{DELAY, number, percent};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const ROW: f64 = 30.0;
/// Place of the row of all days, below those of the single days.
const ALL: f64 = 7.3;
/// Place of the scale of colours, below all rows.
const SCALE: f64 = 8.6;
/// Cells of the scale, each three hours wide.
const STEPS: usize = 5;
/// Factor below which delays are drawn in one colour.
const ALIKE: f64 = 1.05;
/// Opacity of the smallest and of the largest delay. Dark text on the strongest colour, and light text on it in the dark
/// mode, keep a contrast of 4.5 to 1.
const OPACITY: (f64, f64) = (0.08, 0.78);

pub fn plot(m: &Material) -> PlotSpec {
    let hour = |h: usize| -> Vec<Stretch> { (0..7).map(|d| m.week[d * 24 + h].clone()).collect() };
    let hours: Vec<Stretch> = (0..24).map(|h| sum(&hour(h))).collect();
    let p95 = |s: &Stretch| s.delays.quantile_ms(0.95);
    let values = || m.week.iter().chain(&hours).filter_map(p95);
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    // Delays differ by factors: equal steps of colour are equal factors, and nearly equal delays have one colour.
    let heat = |v: f64| ((v / low).ln() / (high / low).max(ALIKE).ln()).clamp(0.0, 1.0);
    let rows = DAYS.iter().zip(m.week.chunks(24)).enumerate();
    let rows = rows.map(|(d, (name, cells))| (d as f64, *name, cells));
    let rows: Vec<_> = rows.chain([(ALL, "all", &*hours)]).collect();
    let unit = match high < 1.0 {
        true => DELAY.fitting(high),
        false => ("ms", 1.0),
    };
    let opacity = |v: f64| OPACITY.0 + (OPACITY.1 - OPACITY.0) * heat(v);
    let cells = rows.iter().flat_map(|(at, name, cells)| {
        let of = |(h, s): (usize, &Stretch)| cell(*at, name, h, s, (unit.1, &opacity));
        cells.iter().enumerate().map(of).collect::<Vec<_>>()
    });
    let mut cells: Vec<Rectangle> = cells.collect();
    let known = high > 0.0;
    if known {
        cells.extend(scale((low, high), unit, opacity));
    }
    let named = rows
        .iter()
        .map(|(at, name, _)| (at + 0.5, (*name).to_owned()));
    let scale = known.then(|| (SCALE + 0.5, "scale".to_owned()));
    let named = named.chain(scale);
    let height = SCALE + 1.0;
    PlotSpec {
        panels: vec![Panel {
            y: Axis::even("", height, 0.0).marked(named.collect()),
            height: height * ROW,
            note: format!("95th percentile of the round trip, {}", unit.0),
            series: vec![Series::new("", "", Shape::Cells(cells))],
        }],
        ..PlotSpec::single(
            "round trips by weekday and hour",
            calendar::hours_of_the_day(),
            Axis::default(),
            Vec::new(),
        )
    }
}

/// Returns the cell of one hour. An hour in which every probe was lost has no delay: it is the worst, not an unknown one.
fn cell(
    at: f64,
    name: &str,
    h: usize,
    s: &Stretch,
    (size, opacity): (f64, &impl Fn(f64) -> f64),
) -> Rectangle {
    let place = Rectangle {
        class: "unknown",
        x: (h as f64, h as f64 + 1.0),
        y: (at, at + 1.0),
        opacity: 1.0,
        text: None,
        says: String::new(),
    };
    let Some(v) = s.delays.quantile_ms(0.95) else {
        return match s.lost {
            0 => place,
            n => Rectangle {
                class: "out",
                opacity: 0.6,
                text: Some(("lost".to_owned(), false)),
                says: format!("{name} {h} h: all {n} probes lost"),
                ..place
            },
        };
    };
    Rectangle {
        class: "hot",
        opacity: opacity(v),
        text: Some((number(v / size), false)),
        says: format!(
            "{name} {h} h: p95 {}, median {}, lost {} %",
            DELAY.print(v),
            DELAY.print(s.delays.quantile_ms(0.5).unwrap_or(v)),
            percent(s.loss().unwrap_or_default())
        ),
        ..place
    }
}

/// Returns the scale: delays in equal factors from the smallest to the largest, in their colours.
fn scale(
    (low, high): (f64, f64),
    (word, size): (&str, f64),
    opacity: impl Fn(f64) -> f64,
) -> Vec<Rectangle> {
    let steps = if high / low < ALIKE { 1 } else { STEPS };
    let step = |i: usize| {
        let v = low * (high / low).powf(i as f64 / (steps.max(2) - 1) as f64);
        let text = format!("{} {word}", number(v / size));
        Rectangle {
            class: "hot",
            x: (3.0 * i as f64, 3.0 * (i + 1) as f64),
            y: (SCALE, SCALE + 1.0),
            opacity: opacity(v),
            says: format!("scale: {text}"),
            text: Some((text, false)),
        }
    };
    (0..steps).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;
    use base::record::Status;

    /// A week whose nights are quick, whose evenings are slow, and in which one hour answers nothing.
    #[test]
    fn the_worst_hour_is_the_strongest_and_the_scale_names_both_ends() {
        let hour = 3600 * 1_000_000_000;
        let scope = Scope {
            from_ns: 0,
            to_ns: 7 * 24 * hour,
            zone: jiff::tz::TimeZone::UTC,
        };
        let mut m = Material::new(scope, "");
        for h in 0..7 * 24 {
            for i in 0..40 {
                let lost = h == 50;
                let ms = if h % 24 == 20 { 400 } else { 20 };
                let status = if lost { Status::Lost } else { Status::Ok };
                let rtt = (!lost).then_some(ms * 1_000_000);
                m.probe(h * hour + i * 60_000_000_000, rtt, status);
            }
        }
        let spec = plot(&m);
        let Shape::Cells(cells) = &spec.panels[0].series[0].shape else {
            panic!("no cells");
        };
        let of = |text: &str| cells.iter().find(|c| c.says.contains(text));
        let strongest = cells.iter().filter(|c| c.class == "hot");
        let strongest = strongest.map(|c| c.opacity).fold(0.0, f64::max);
        assert_eq!(of("Sun 20 h").map(|c| c.opacity), Some(strongest));
        assert_eq!(of("all 40 probes lost").map(|c| c.class), Some("out"));
        for end in ["scale: 20 ms", "scale: 400 ms"] {
            assert!(of(end).is_some(), "{end}");
        }
    }
}
