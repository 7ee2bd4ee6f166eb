//! Tables in the layout of a document, with its printed values beside the computed ones.

use crate::table::{Cell, Table};
use crate::words::{self, nines};

use analysis::holes::Gap;
use analysis::statistics::{Statistics, Summary, TargetStatistics};
use base::print::significant;
use jiff::tz::TimeZone;
use serde::Deserialize;
use stats::Figure;

/// Contents of one table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    pub caption: String,
    /// Start of the span of its figures, with the end in `to`; the whole recording if not given.
    pub from: Option<String>,
    pub to: Option<String>,
    /// True to list exclusions with their reasons instead of figures.
    #[serde(default)]
    pub gaps: bool,
    #[serde(default, rename = "metric")]
    pub metrics: Vec<Metric>,
    /// Time limits of reliability, ms.
    #[serde(default)]
    pub limits: Vec<f64>,
    /// Printed value of the document for each limit, %.
    #[serde(default)]
    pub printed: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Label used by the document.
    pub label: String,
    pub is: Is,
    /// Printed value of the document.
    pub printed: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    Sent,
    Lost,
    Loss,
    Median,
    Mean,
    Sd,
    Variance,
}

/// Formats as `14 405 250`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups: Vec<&str> = std::iter::once(head)
        .filter(|h| !h.is_empty())
        .chain((0..tail.len() / 3).map(|i| &tail[3 * i..3 * i + 3]))
        .collect();
    groups.join(" ")
}

fn value(is: Is, s: &Summary) -> Cell {
    let of = |f: &Figure, unit: &str| Cell::printed(f, |v| format!("{}{unit}", significant(v, 3)));
    let whole = |v: Option<f64>| -> Cell {
        v.map(|v| match v {
            v if v < 100.0 => significant(v, 2),
            v => thousands(v.round() as u64),
        })
        .into()
    };
    match is {
        Is::Sent => Cell::Is(thousands(s.sent)),
        Is::Lost => Cell::Is(thousands(s.lost)),
        Is::Loss => of(&s.loss_percent, "%"),
        Is::Median => of(&s.rtt.point(0.5), " ms"),
        Is::Mean => of(&s.rtt.mean_ms, " ms"),
        Is::Sd => whole(s.rtt.sd_ms),
        Is::Variance => whole(s.rtt.variance_ms2),
    }
}

/// Returns the exclusions with their reasons, and the gaps in the recording, in the order of time.
fn gaps(s: &Statistics, t: &TargetStatistics, zone: &TimeZone) -> Vec<(String, Vec<Cell>)> {
    let given = s
        .excluded
        .iter()
        .map(|x| (x.span.from_ns, x.span.to_ns, &*x.span.reason));
    let excluded = |g: &&Gap| s.excluded.iter().any(|x| x.span.reason == g.reason);
    let found = t.gaps.iter().filter(|g| !excluded(g));
    let mut all: Vec<(i64, i64, &str)> = given
        .chain(found.map(|g| (g.from_ns, g.to_ns, words::why_gap(g))))
        .collect();
    all.sort_unstable();
    let when = |ns: i64| {
        jiff::Timestamp::from_nanosecond(i128::from(ns)).map_or_else(
            |_| "unknown".into(),
            |t| {
                t.to_zoned(zone.clone())
                    .strftime("%B %-d. %H:%M")
                    .to_string()
            },
        )
    };
    let row = |(from, to, why): (i64, i64, &str)| (when(from), vec![when(to).into(), why.into()]);
    all.into_iter().map(row).collect()
}

/// Builds the table; `summary` covers the sheet's span.
pub fn table(
    sheet: &Sheet,
    s: &Statistics,
    t: &TargetStatistics,
    summary: &Summary,
    zone: &TimeZone,
) -> Table {
    let of = |heads: [&str; 3]| Table::new("", heads);
    if sheet.gaps {
        return of(["From", "To", "Reason"]).with(gaps(s, t, zone));
    }
    if sheet.limits.is_empty() {
        let rows = sheet.metrics.iter().map(|m| {
            let cells = vec![value(m.is, summary), m.printed.clone().into()];
            (&*m.label, cells)
        });
        return of(["Metric", "Value", "printed"]).with(rows);
    }
    let rows = sheet.limits.iter().enumerate().map(|(i, limit)| {
        let found = summary.reliability.iter().find(|r| r.limit_ms == *limit);
        let share = |f: &Figure| Cell::printed(f, |v| format!("{}%", nines(v)));
        let theirs = sheet.printed.get(i).map(|p| format!("{p:.2}%"));
        let cells: Vec<Cell> = vec![found.map(|r| share(&r.share)).into(), theirs.into()];
        (significant(*limit, 6), cells)
    });
    of(["Requirement [ms]", "Reliability", "printed"]).with(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [7, 771_986, 14_405_250].map(thousands),
            ["7", "771 986", "14 405 250"]
        );
    }
}
