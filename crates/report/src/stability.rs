//! Tables and sentences of the stability of connection, delivery and performance.

use crate::table::{Cell, Column, Table};
use crate::words::lasting;
use analysis::robustness::{Evenness, Robustness};
use analysis::statistics::{Statistics, TargetStatistics};
use base::print::{DELAY, PERCENT, number};

/// Definitions of the figures.
pub const NOTE: &str = "A break is an outage; an hour or a day counts if it was probed for at least half of its time. Connected: \
    outside outages. Variation: standard deviation divided by the mean, of the figures of each hour.";

/// Stability of a target that was probed for an hour.
fn of(t: &TargetStatistics) -> Option<&Robustness> {
    t.stability.as_ref().filter(|r| r.hours > 0)
}

/// Returns the stability of all targets, one column each; none if no target was probed for an hour.
pub fn targets(s: &Statistics) -> Option<Table> {
    let all: Vec<(&str, &Robustness)> = s
        .targets
        .iter()
        .filter_map(|t| Some((t.target.as_str(), of(t)?)))
        .collect();
    if all.is_empty() {
        return None;
    }
    let heads = std::iter::once("").chain(all.iter().map(|(name, _)| *name));
    let mut table = Table::new("Stability", heads.map(Column::from));
    let columns: Vec<Vec<(&str, Cell)>> = all.iter().map(|(_, r)| figures(r)).collect();
    for (i, (label, _)) in columns[0].iter().enumerate() {
        table.row(*label, columns.iter().map(|c| c[i].1.clone()));
    }
    Some(table)
}

/// Returns each figure with its name.
fn figures(r: &Robustness) -> Vec<(&'static str, Cell)> {
    let of = |n: u64, all: u64| Cell::from(format!("{n} of {all}"));
    let evenness = |e: &Evenness| {
        let [low, high] = [e.low_ms, e.high_ms].map(|v| v.map(|v| DELAY.print(v)));
        Cell::from(low.zip(high).map(|(l, h)| format!("{l} to {h}")))
    };
    vec![
        ("Breaks", r.breaks.into()),
        ("Down in all", lasting(r.down_s).into()),
        ("Longest break", r.longest_break_s.map(lasting).into()),
        ("Hours with a break", of(r.broken_hours, r.hours)),
        (
            "Share of such hours",
            Cell::figure(&r.broken_hours_percent, PERCENT),
        ),
        ("Days down for over 10 min", of(r.bad_days, r.days)),
        (
            "Loss while connected",
            Cell::figure(&r.loss_percent, PERCENT),
        ),
        (
            "Hours with more than 1 % of it",
            of(r.lossy_hours, r.judged_hours),
        ),
        ("RTT median, 90 % of hours", evenness(&r.median)),
        (
            "Variation of the median",
            Cell::figure(&r.median.variation_percent, PERCENT),
        ),
        ("RTT 95 %, 90 % of hours", evenness(&r.p95)),
        (
            "Variation of the 95 %",
            Cell::figure(&r.p95.variation_percent, PERCENT),
        ),
    ]
}

/// Returns the stability of each day of a target; none if there is one day.
pub fn days(t: &TargetStatistics) -> Option<Table> {
    let r = of(t).filter(|r| r.each_day.len() > 1)?;
    let heads = [
        "",
        "probed",
        "breaks",
        "down",
        "hours with a break",
        "loss %",
        "95 % from",
        "to",
    ];
    let delay = |v: Option<f64>| Cell::from(v.map(|v| DELAY.print(v)));
    let rows = r.each_day.iter().map(|d| {
        let cells: Vec<Cell> = vec![
            lasting(d.probed_s.round()).into(),
            d.breaks.into(),
            lasting(d.down_s).into(),
            format!("{} of {}", d.broken_hours, d.hours).into(),
            d.loss_percent.map(number).into(),
            delay(d.p95_least_ms),
            delay(d.p95_most_ms),
        ];
        (d.name.clone(), cells)
    });
    Some(
        Table::new(
            format!("Stability of {} by day", t.target),
            heads.map(Column::from),
        )
        .with(rows),
    )
}

/// Returns a sentence for each target that was probed for an hour.
pub fn sentences(s: &Statistics) -> Vec<String> {
    let all = s.targets.iter().filter_map(|t| Some((&t.target, of(t)?)));
    all.map(|(target, r)| {
        let mut said = format!(
            "{target}: a break in {} of {} hours",
            r.broken_hours, r.hours
        );
        if r.days > 0 {
            said += &format!("; {} of {} days down for over 10 min", r.bad_days, r.days);
        }
        if let Some(loss) = r.loss_percent.value() {
            let (lossy, hours) = (r.lossy_hours, r.judged_hours);
            said += &format!(
                "; loss while connected {} %, over 1 % in {lossy} of {hours} hours",
                number(loss)
            );
        }
        if let (Some(low), Some(high)) = (r.p95.low_ms, r.p95.high_ms) {
            let (low, high) = (DELAY.print(low), DELAY.print(high));
            said += &format!(
                "; the 95 % point of an hour's round trips from {low} to {high} (90 % of the hours)"
            );
        }
        said + "."
    })
    .collect()
}
