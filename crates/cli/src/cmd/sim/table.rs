//! The figures of runs as a table.

use super::Point;
use sim::batch::{Estimate, estimates};
use std::fmt::Write;

/// What the table shows of a link or of flows: heading, figure, factor, digits.
type Column = (&'static str, &'static str, f64, usize);

const LINK: &[Column] = &[
    ("Mbit/s", "delivered_bps", 1e-6, 2),
    ("used %", "utilisation", 100.0, 1),
    ("queue ms", "queue_ms.mean", 1.0, 2),
    ("p95", "queue_ms.p95", 1.0, 1),
    ("max", "queue_ms.max", 1.0, 1),
    ("drops", "drops", 1.0, 0),
    ("drop %", "drop_share", 100.0, 3),
    ("marks", "marks", 1.0, 0),
];
const FLOW: &[Column] = &[
    ("Mbit/s", "goodput_bps", 1e-6, 3),
    ("fairness", "fairness", 1.0, 3),
    ("one way ms", "delay_ms", 1.0, 2),
    ("p95", "delay_p95_ms", 1.0, 1),
    ("rtt ms", "rtt_ms.mean", 1.0, 2),
    ("loss %", "loss", 100.0, 3),
    ("sent again", "retransmits", 1.0, 0),
    ("timeouts", "timeouts", 1.0, 0),
    ("transfer ms", "transfer_ms", 1.0, 1),
];

pub fn table(results: &[(&Point, Vec<&sim::Outcome>)]) -> String {
    let mut out = String::new();
    for (what, columns) in [("link", LINK), ("flow", FLOW)] {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (point, outcomes) in results {
            let Some(first) = outcomes.first() else {
                continue;
            };
            let all = estimates(outcomes);
            let names: Vec<&str> = match what {
                "link" => first.links.iter().map(|l| l.name.as_str()).collect(),
                _ => first.flows.iter().map(|f| f.name.as_str()).collect(),
            };
            for name in names {
                let mut row: Vec<String> = point.labels.iter().map(|(_, v)| v.clone()).collect();
                row.push(name.to_string());
                for (_, figure, factor, digits) in columns {
                    let estimate = all.get(&format!("{name}.{figure}"));
                    row.push(estimate.map_or("-".into(), |e| shown(e, *factor, *digits)));
                }
                rows.push(row);
            }
        }
        let Some((point, _)) = results.first() else {
            continue;
        };
        let mut heads: Vec<String> = point.labels.iter().map(|(k, _)| k.clone()).collect();
        heads.push(what.to_string());
        heads.extend(columns.iter().map(|c| c.0.to_string()));
        // A column in which nothing stands says nothing.
        let used: Vec<usize> = (0..heads.len())
            .filter(|i| rows.iter().any(|r| r[*i] != "-"))
            .collect();
        let width = |i: usize| {
            let cells = rows.iter().map(|r| r[i].chars().count());
            cells.max().unwrap_or(0).max(heads[i].chars().count())
        };
        let left = point.labels.len();
        for row in std::iter::once(&heads).chain(&rows) {
            for i in &used {
                let (cell, w) = (&row[*i], width(*i));
                let _ = match *i <= left {
                    true => write!(out, "{cell:<w$}  "),
                    false => write!(out, "{cell:>w$}  "),
                };
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out.push('\n');
    }
    if let Some(runs) = results.first().map(|r| r.1.len()).filter(|n| *n > 1) {
        let _ = writeln!(
            out,
            "{runs} seeds; ± is the half of the 95 % confidence interval"
        );
    }
    out
}

fn shown(e: &Estimate, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", e.mean * factor);
    match e.half {
        Some(half) if half > 0.0 => format!("{mean} ±{:.digits$}", half * factor),
        _ => mean,
    }
}
