//! Delay over the day and the week: 95th percentile of all probes of each weekday and hour, over all weeks, and of each
//! hour over all days.

use super::calendar;
use super::material::{Material, Stretch, sum};
use crate::plot::{Axis, Panel, PlotSpec, Rectangle, Series, Shape};
use base::print::{number, percent};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const ROW: f64 = 30.0;
/// Place of the row of all days, below those of the single days.
const ALL: f64 = 7.3;

pub fn plot(m: &Material) -> PlotSpec {
    let hour = |h: usize| -> Vec<Stretch> { (0..7).map(|d| m.week[d * 24 + h].clone()).collect() };
    let hours: Vec<Stretch> = (0..24).map(|h| sum(&hour(h))).collect();
    let p95 = |s: &Stretch| s.delays.quantile_ms(0.95);
    let values = || m.week.iter().chain(&hours).filter_map(p95);
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    // Delays differ by factors: equal steps of colour are equal factors.
    let heat = |v: f64| ((v / low).ln() / (high / low).max(1.0 + 1e-9).ln()).clamp(0.0, 1.0);
    let rows = DAYS.iter().zip(m.week.chunks(24)).enumerate();
    let rows = rows.map(|(d, (name, cells))| (d as f64, *name, cells));
    let rows: Vec<_> = rows.chain([(ALL, "all", &*hours)]).collect();
    let cells = rows.iter().flat_map(|(at, name, cells)| {
        cells.iter().enumerate().map(move |(h, s)| {
            let place = Rectangle {
                class: "unknown",
                x: (h as f64, h as f64 + 1.0),
                y: (*at, at + 1.0),
                opacity: 1.0,
                text: (s.lost > 0).then(|| ("lost".to_owned(), false)),
                says: String::new(),
            };
            let Some(v) = p95(s) else {
                return place;
            };
            Rectangle {
                class: "hot",
                opacity: 0.1 + 0.8 * heat(v),
                text: Some((number(v), heat(v) > 0.5)),
                says: format!(
                    "{name} {h} h: p95 {} ms, median {} ms, lost {} %",
                    number(v),
                    number(s.delays.quantile_ms(0.5).unwrap_or(v)),
                    percent(s.loss().unwrap_or_default())
                ),
                ..place
            }
        })
    });
    let named = rows
        .iter()
        .map(|(at, name, _)| (at + 0.5, (*name).to_owned()));
    let height = ALL + 1.0;
    PlotSpec {
        panels: vec![Panel {
            y: Axis::even("", height, 0.0).marked(named.collect()),
            height: height * ROW,
            series: vec![Series::new("", "", Shape::Cells(cells.collect()))],
            ..Panel::default()
        }],
        ..PlotSpec::single(
            "95th percentile of the round trip by weekday and hour, ms",
            calendar::hours_of_the_day(),
            Axis::default(),
            Vec::new(),
        )
    }
}
