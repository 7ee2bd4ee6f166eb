//! Words, tables and plots of the answer.

use super::{Said, streams};
use crate::answer::{Draw, Plot, Series, Table};
use crate::trains::{loss, of_stage, received_rate, waits};
use base::print::significant;
use base::program::Train;
use stats::Figure;
use streams::Line;

pub(super) fn methods_table(said: &[Said]) -> Table {
    let show = |v: f64| significant(v / 1e6, 3);
    Table::new(
        "Methods",
        ["method", "tells what", "Mbit/s", "95 %", "when it fails"],
        said.iter()
            .map(|s| {
                let (value, interval) = match &s.figure {
                    Figure::Is { value, low, high } => {
                        (show(*value), format!("{}–{}", show(*low), show(*high)))
                    }
                    Figure::CannotTell { .. } => ("?".into(), String::new()),
                };
                let of = match s.of {
                    "carries" => "what it carries",
                    "free" => "what is free",
                    _ => "in between",
                };
                vec![s.method.into(), of.into(), value, interval, s.fails.into()]
            })
            .collect(),
    )
}

/// Table of floods and trickles, of large and of small packets.
pub(super) fn trains_table(trains: &[Train]) -> Table {
    let all = of_stage(trains, "trickle").chain(of_stage(trains, "flood"));
    Table::new(
        "Floods and trickles",
        [
            "train",
            "arrived, Mbit/s",
            "packets/s",
            "lost, %",
            "delay above least, ms",
            "95 % below",
        ],
        all.map(|t| {
            let payload = f64::from(t.facts.program.largest_payload());
            let rate = received_rate(t, 0.3).unwrap_or(0.0);
            let whole = (payload + f64::from(t.facts.headers)) / payload;
            let ms: Vec<f64> = waits(t).into_iter().map(|w| w.1).collect();
            let ms = stats::sorted(&ms);
            let at =
                |p| stats::quantile_of_sorted(&ms, p).map_or("?".into(), |v| significant(v, 3));
            vec![
                t.facts.stage.clone(),
                significant(rate * whole / 1e6, 3),
                significant(rate / (8.0 * payload), 3),
                loss(t)
                    .value()
                    .map_or("?".into(), |v| significant(v * 100.0, 3)),
                at(0.5),
                at(0.95),
            ]
        })
        .collect(),
    )
}

pub(super) fn streams_plot(trains: &[Train], line: &Line) -> Plot {
    let all = of_stage(trains, "stream").chain(of_stage(trains, "measure"));
    let mut points: Vec<(f64, Option<f64>)> = all
        .filter_map(|t| streams::of(t, line))
        .map(|s| (s.rate / 1e6, Some(s.growth * 1e3)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Plot::new(
        "How fast the delay grows",
        ("stream, Mbit/s of IP packets", "ms in a second"),
        vec![Series::new("", Draw::Marks, points)],
    )
}
