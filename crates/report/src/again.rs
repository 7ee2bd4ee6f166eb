//! Comparison of many runs of one experiment: statistics of their figures, and the change over the day.

use crate::html::head;
use crate::probe::{figure, plot, side_by_side};
use crate::table::{Cell, Table};
use experiment::{Draw, Figured, Plot, ProbeAnswer, Quantity, Series};
use maud::{DOCTYPE, html};
use stats::Figure;
use std::collections::BTreeSet;

/// Tables of each figure's mean and deviation over these recordings, and of its change over the day.
fn over_time(all: &[(String, ProbeAnswer)]) -> Vec<(String, Table)> {
    let kinds = kinds(all);
    let values = |key: &str, of: &dyn Fn(&ProbeAnswer) -> bool| -> Vec<f64> {
        let answers = all.iter().map(|(_, a)| a).filter(|a| of(a));
        let figures = answers.filter_map(|a| a.outcome.figures.iter().find(|f| f.key == key));
        figures.filter_map(|f| f.figure.value()).collect()
    };
    let show = |like: &Figured, value: f64| {
        let one = Figured {
            figure: Figure::exactly(value),
            ..like.clone()
        };
        Cell::from(figure(&one))
    };
    let rows = kinds.iter().map(|k| {
        let of = values(&k.key, &|_| true);
        let mut cells = vec![Cell::Is(format!("{} of {}", of.len(), all.len()))];
        if let Some(m) = stats::moments(&of) {
            // Sums of equal values leave floating-point noise.
            let sd = if m.sd > 1e-9 * m.mean.abs() {
                m.sd
            } else {
                0.0
            };
            cells.extend([m.mean, sd, m.min, m.max].map(|v| show(k, v)));
        }
        (&*k.name, cells)
    });
    let heads = ["", "told by", "mean", "deviation", "least", "most"];
    let mut tables = vec![(
        format!("Figures of {} recordings", all.len()),
        Table::new("", heads).with(rows),
    )];
    let timed = timed(all, &kinds);
    let hours = hours(all);
    if hours.len() > 1 && !timed.is_empty() {
        let rows = hours.iter().map(|h| {
            let cells = timed.iter().map(|k| {
                let of = values(&k.key, &|a| hour(a) == *h);
                stats::moments(&of).map(|m| show(k, m.mean)).into()
            });
            (format!("{h:02}:00"), cells.collect::<Vec<Cell>>())
        });
        let heads = std::iter::once("from").chain(timed.iter().map(|k| &*k.name));
        let table = Table::new("", heads).with(rows);
        tables.push(("Means by the hour of the day, UTC".into(), table));
    }
    tables
}

/// Largest number of runs shown side by side.
const FEW: usize = 5;

/// Returns tables with their captions: a few runs side by side, many as statistics.
pub fn tables(all: &[(String, ProbeAnswer)]) -> Vec<(String, Table)> {
    match all.len() {
        ..=FEW => side_by_side(all),
        _ => over_time(all),
    }
}

/// Returns every figure that occurs in any run, once.
fn kinds(all: &[(String, ProbeAnswer)]) -> Vec<&Figured> {
    let mut kinds: Vec<&Figured> = Vec::new();
    for f in all.iter().flat_map(|(_, a)| &a.outcome.figures) {
        if !kinds.iter().any(|k| k.key == f.key) {
            kinds.push(f);
        }
    }
    kinds
}

/// Returns the figures shown over the day: times and rates that most runs have.
fn timed<'a>(all: &[(String, ProbeAnswer)], kinds: &[&'a Figured]) -> Vec<&'a Figured> {
    let by = |key: &str| all.iter().filter(|(_, a)| value(a, key).is_some()).count();
    let chosen = kinds
        .iter()
        .filter(|k| matches!(k.unit, Quantity::Time | Quantity::Rate))
        .filter(|k| by(&k.key) * 2 > all.len());
    chosen.copied().take(HOURLY).collect()
}

fn value(answer: &ProbeAnswer, key: &str) -> Option<f64> {
    let mut figures = answer.outcome.figures.iter();
    figures.find(|f| f.key == key)?.figure.value()
}

fn hour(answer: &ProbeAnswer) -> i64 {
    answer.started_ns.rem_euclid(DAY_NS) / HOUR_NS
}

fn hours(all: &[(String, ProbeAnswer)]) -> BTreeSet<i64> {
    all.iter().map(|(_, a)| hour(a)).collect()
}

/// Plots figures over the day: each run, and for each hour the median and the middle half. Returns no plot for few
/// runs, or if all runs are in one hour.
pub fn over_the_day(all: &[(String, ProbeAnswer)]) -> Vec<Plot> {
    let (kinds, hours) = (kinds(all), hours(all));
    if hours.len() < 2 || all.len() <= FEW {
        return Vec::new();
    }
    let plot = |k: &&Figured| {
        let (unit, scale) = match k.unit {
            Quantity::Rate => ("Mbit/s", 1e-6),
            _ => ("ms", 1.0),
        };
        let of = |h: i64| -> Vec<f64> {
            let runs = all.iter().filter(|(_, a)| hour(a) == h);
            let mut of: Vec<f64> = runs.filter_map(|(_, a)| value(a, &k.key)).collect();
            of.sort_by(f64::total_cmp);
            of
        };
        // An hour without a run interrupts the curve.
        let quantile = |p: f64| -> Vec<(f64, Option<f64>)> {
            let at = |h: i64| stats::quantile_of_sorted(&of(h), p).map(|v| v * scale);
            (0..24).map(|h| (h as f64 + 0.5, at(h))).collect()
        };
        let runs = all.iter().filter_map(|(_, a)| {
            let at = a.started_ns.rem_euclid(DAY_NS) as f64 / HOUR_NS as f64;
            Some((at, Some(value(a, &k.key)? * scale)))
        });
        let series = |name: &str, draw, points| Series::new(name, draw, points);
        Plot::new(
            format!("By the hour of the day: {}", k.name),
            ("hour of the day, UTC", unit),
            vec![
                series("median of the hour", Draw::Knots, quantile(0.5)),
                series("each run", Draw::Dots, runs.collect()),
                series("middle half of the hour's runs", Draw::Thin, quantile(0.25)),
                series("", Draw::Thin, quantile(0.75)),
            ],
        )
    };
    timed(all, &kinds).iter().map(plot).collect()
}

/// Renders many runs as one self-contained page.
pub fn page(all: &[(String, ProbeAnswer)]) -> String {
    let first = all.first().map(|(_, a)| a);
    let title = first.map_or("", |a| &*a.probe);
    let question = first.map_or("", |a| &*a.question);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                main.probe {
                    header {
                        p.meta { b { "Tailback" } " " span { (all.len()) " recordings" } " " span { code { (title) } } }
                        h1 { (question) }
                    }
                    @for p in over_the_day(all) {
                        section { h2 { (p.title) } figure.still tabindex="0" { (plot(&p).picture()) } }
                    }
                    @for (i, (caption, table)) in tables(all).iter().enumerate() {
                        section { h2 { (caption) } (table.html(&format!("again-{i}"))) }
                    }
                }
                footer { p { "This page fetches nothing." } }
            }
        }
    }
    .into_string()
}

/// Largest number of figures in a table of hours.
const HOURLY: usize = 4;
const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::Outcome;

    /// Makes runs with a small value at 3 o'clock and a large one at 20, three each on separate days.
    fn runs() -> Vec<(String, ProbeAnswer)> {
        let run = |hour: i64, day: i64, ms: f64| ProbeAnswer {
            version: 1,
            title: String::new(),
            probe: "path".into(),
            question: "Where?".into(),
            started_ns: day * DAY_NS + hour * HOUR_NS,
            duration_s: 1.0,
            complete: true,
            own_bytes: 0,
            own_packets: 0,
            outcome: Outcome {
                figures: vec![Figured::time(
                    "added_up_ms",
                    "how much longer",
                    Figure::exactly(ms),
                )],
                ..Outcome::default()
            },
        };
        let of = |hour, all: [f64; 3]| {
            let days = all.into_iter().enumerate();
            days.map(move |(day, ms)| (String::new(), run(hour, day as i64, ms)))
        };
        of(3, [10.0, 12.0, 20.0])
            .chain(of(20, [300.0, 100.0, 200.0]))
            .collect()
    }

    #[test]
    fn the_day_has_each_hours_median_and_its_spread_and_hours_without_runs_are_gaps() {
        let plots = over_the_day(&runs());
        let [plot] = &plots[..] else {
            panic!("{plots:?}")
        };
        let at = |series: usize, hour: usize| plot.series[series].points[hour].1;
        assert_eq!(
            (at(0, 3), at(0, 20), at(0, 4)),
            (Some(12.0), Some(200.0), None)
        );
        assert_eq!((at(2, 20), at(3, 20)), (Some(150.0), Some(250.0)));
        assert_eq!(plot.series[1].points.len(), 6);
        let page = page(&runs());
        assert!(page.contains("<svg") && page.contains("03:00"), "{page}");
    }

    #[test]
    fn runs_of_one_hour_have_no_day() {
        let mut runs = runs();
        runs.truncate(3);
        assert_eq!(over_the_day(&runs), []);
    }
}
