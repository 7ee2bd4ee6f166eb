//! Words, tables and plots of the answer.

use super::{Found, Held};
use crate::answer::{Draw, Plot, Series, Table};
use crate::trains::{growth, loss, received_rate};
use base::print::significant;
use stats::Figure;

/// Milliseconds to a hundredth: smaller parts are the hosts' own.
fn hundredths(ms: f64) -> String {
    significant((ms * 100.0).round() / 100.0 + 0.0, 3)
}

pub(super) fn told(h: &Held) -> String {
    let grew = growth(h.train).map_or(String::new(), |(by, _)| {
        format!(", the delay changed by {} ms", hundredths(by))
    });
    format!(
        "{} kbit/s for {} s: {} of {} lost{grew}: {}",
        significant(h.rate / 1e3, 5),
        significant(h.train.facts.program.time().as_secs_f64(), 3),
        h.train.lost(),
        h.train.sent(),
        if h.passes { "passes" } else { "does not" },
    )
}

pub(super) fn table(held: &[Held]) -> Table {
    let mut rows: Vec<&Held> = held.iter().collect();
    rows.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let percent = |f: &Figure| f.value().map_or("?".into(), |v| significant(v * 100.0, 3));
    let kbit = |r: f64| significant(r / 1e3, 5);
    Table::new(
        "Rates that were held",
        [
            "targeted, kbit/s",
            "achieved, kbit/s",
            "lost, %",
            "delay grew, ms",
            "passes",
        ],
        rows.iter()
            .map(|h| {
                vec![
                    kbit(h.rate),
                    received_rate(h.train, 0.0).map_or("?".into(), kbit),
                    percent(&loss(h.train)),
                    growth(h.train).map_or("?".into(), |g| hundredths(g.0)),
                    if h.passes { "yes" } else { "no" }.into(),
                ]
            })
            .collect(),
    )
}

pub(super) fn plot(held: &[Held], found: &Found) -> Plot {
    let mut points: Vec<(f64, Option<f64>)> = held
        .iter()
        .map(|h| (h.rate / 1e6, received_rate(h.train, 0.0).map(|r| r / 1e6)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = [points.first(), points.last()].map(|p| p.map_or(0.0, |p| p.0));
    Plot::new(
        "Achieved against targeted rate",
        ("targeted, Mbit/s of payload", "achieved, Mbit/s"),
        vec![
            Series::new("achieved", Draw::Knots, points),
            Series::new(
                "under overload",
                Draw::Thin,
                ends.map(|x| (x, Some(found.plateau / 1e6))).into(),
            ),
        ],
    )
}
