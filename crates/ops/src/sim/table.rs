//! Table of the runs' figures.

use super::Point;
use report::table::{Cell, Column, Table, wrapped};
use sim::Estimate;
use sim::batch::CONTROL;
use std::collections::BTreeMap;

/// Column of a table on links or flows: heading, figure, factor, digits.
type Figure = (&'static str, &'static str, &'static str, f64, usize);

const LINK: &[Figure] = &[
    ("", "Mbit/s", "delivered_bps", 1e-6, 2),
    ("used", "%", "utilisation", 100.0, 1),
    ("queue", "ms", "queue_ms.mean", 1.0, 2),
    ("queue p95", "ms", "queue_ms.p95", 1.0, 1),
    ("queue max", "ms", "queue_ms.max", 1.0, 1),
    ("drops", "", "drops", 1.0, 0),
    ("drop", "%", "drop_share", 100.0, 3),
    ("marks", "", "marks", 1.0, 0),
];
const FLOW: &[Figure] = &[
    ("goodput", "Mbit/s", "goodput_bps", 1e-6, 3),
    ("throughput", "Mbit/s", "throughput_bps", 1e-6, 3),
    ("fairness", "", "fairness", 1.0, 3),
    ("one way", "ms", "delay_ms", 1.0, 2),
    ("one way p95", "ms", "delay_p95_ms", 1.0, 1),
    ("rtt", "ms", "rtt_ms.mean", 1.0, 2),
    ("loss", "%", "loss", 100.0, 3),
    ("sent again", "", "retransmits", 1.0, 0),
    ("timeouts", "", "timeouts", 1.0, 0),
    ("done", "", "completed", 1.0, 0),
    ("took", "ms", "took_ms.mean", 1.0, 1),
    ("took p50", "ms", "took_ms.p50", 1.0, 1),
    ("took p95", "ms", "took_ms.p95", 1.0, 1),
    ("video", "Mbit/s", "video.bitrate_bps", 1e-6, 3),
    ("start", "s", "video.start_s", 1.0, 2),
    ("stalls", "", "video.stalls", 1.0, 1),
    ("stalled", "%", "video.stalled_share", 100.0, 2),
    ("to 10 kB", "ms", "took_by_size.to_10_kb_ms.p50", 1.0, 1),
    ("to 100 kB", "ms", "took_by_size.to_100_kb_ms.p50", 1.0, 1),
    ("to 1 MB", "ms", "took_by_size.to_1_mb_ms.p50", 1.0, 1),
    ("above", "ms", "took_by_size.above_ms.p50", 1.0, 1),
];

const GATEWAY: &[Figure] = &[
    ("wait error", "ms", "wait_rmse_ms", 1.0, 1),
    ("bias", "ms", "wait_bias_ms", 1.0, 1),
    ("capacity error", "%", "capacity_rmse", 100.0, 1),
    ("drops and marks", "", "signals", 1.0, 0),
    ("blind", "%", "blind", 100.0, 1),
];

/// Figures of a point, by its number.
type Figures<'f> = &'f dyn Fn(usize) -> BTreeMap<String, Estimate>;

/// Results of a point.
type Result<'r> = (&'r Point, Vec<&'r sim::Outcome>);

/// Returns the tables of all links, of all flows, and of the gateway.
pub fn table(results: &[Result], figures: Figures, width: usize) -> String {
    let (mut out, varies) = tables(results, figures, Form::Values, width);
    if let Some(runs) = results.first().map(|r| r.1.len()).filter(|n| *n > 1) {
        let remark = match varies {
            true => format!(
                "{runs} seeds; ± is the half of the 95 % confidence interval, and none where all seeds gave the same"
            ),
            false => format!(
                "{runs} seeds gave the same: nothing here is left to chance. Let flows begin at random, such as spread = \"1 s\""
            ),
        };
        out += &remarked(&remark, width);
    }
    out
}

/// Returns the same tables with differences from the point that `first` names.
pub fn differences(results: &[Result], figures: Figures, first: &str, width: usize) -> String {
    let (out, _) = tables(results, figures, Form::Differences, width);
    let remark = format!(
        "Differences from {first}, each seed compared with itself; ± is the half of their 95 % confidence interval"
    );
    out + &remarked(&remark, width)
}

fn remarked(remark: &str, width: usize) -> String {
    wrapped(remark, width)
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Values,
    Differences,
}

/// Tables, and true if a figure varies between seeds.
fn tables(results: &[Result], figures: Figures, form: Form, width: usize) -> (String, bool) {
    let (mut out, mut varies) = (String::new(), false);
    let all: Vec<BTreeMap<String, Estimate>> = (0..results.len()).map(figures).collect();
    for (what, columns) in [("link", LINK), ("flow", FLOW), ("gateway", GATEWAY)] {
        let Some(table) = one(results, &all, form, what, columns) else {
            continue;
        };
        varies |= table
            .rows
            .iter()
            .flatten()
            .any(|cell| matches!(cell, Cell::Estimate { half, .. } if !half.is_empty()));
        if table.rows.is_empty() {
            continue;
        }
        out += &table.without_empty_columns().text(width);
        out.push('\n');
    }
    (out, varies)
}

/// Writes rows whose first `left` columns are words, the others numbers.
fn one(
    results: &[Result],
    all: &[BTreeMap<String, Estimate>],
    form: Form,
    what: &str,
    figures: &[Figure],
) -> Option<Table> {
    let labels = &results.first()?.0.labels;
    let words = labels.iter().map(|(k, _)| k.as_str()).chain([what]);
    let numbers = figures.iter().map(|f| Column::of(f.0, f.1));
    let mut table = Table::new("", words.map(Column::words).chain(numbers));
    for ((point, outcomes), all) in results.iter().zip(all) {
        let Some(first) = outcomes.first() else {
            continue;
        };
        let links = first.links.iter().map(|l| (l.name.as_str(), 1));
        let flows = first.flows.iter().map(|f| (f.name.as_str(), f.count));
        let names: Vec<(&str, u64)> = match what {
            "link" => links.collect(),
            "flow" => flows.collect(),
            _ => first.control.iter().map(|_| (CONTROL, 1)).collect(),
        };
        for (name, count) in names {
            let mut cells: Vec<Cell> = point
                .labels
                .iter()
                .map(|(_, v)| v.as_str().into())
                .collect();
            cells.push(match count {
                1 => name.into(),
                n => format!("{name} ×{n}").into(),
            });
            cells.extend(figures.iter().map(|(_, _, figure, factor, digits)| {
                let estimate = all.get(&format!("{name}.{figure}"));
                Cell::from(estimate.map(|e| shown(e, form, *factor, *digits)))
            }));
            let label = cells.remove(0);
            table.row(label, cells);
        }
    }
    Some(table)
}

fn shown(e: &Estimate, form: Form, factor: f64, digits: usize) -> Cell {
    let half = e.half.filter(|half| *half > 0.0);
    Cell::Estimate {
        mean: match form {
            Form::Values => format!("{:.digits$}", e.mean * factor),
            Form::Differences => format!("{:+.digits$}", e.mean * factor),
        },
        half: half.map_or(String::new(), |h| format!("±{:.digits$}", h * factor)),
    }
}
