//! Table of the runs' figures.

use super::Point;
use sim::Estimate;
use sim::batch::estimates;
use std::fmt::Write;

/// Column of a table on links or flows: heading, figure, factor, digits.
type Column = (&'static str, &'static str, f64, usize);

const LINK: &[Column] = &[
    ("Mbit/s", "delivered_bps", 1e-6, 2),
    ("used %", "utilisation", 100.0, 1),
    ("queue ms", "queue_ms.mean", 1.0, 2),
    ("queue p95", "queue_ms.p95", 1.0, 1),
    ("queue max", "queue_ms.max", 1.0, 1),
    ("drops", "drops", 1.0, 0),
    ("drop %", "drop_share", 100.0, 3),
    ("marks", "marks", 1.0, 0),
];
const FLOW: &[Column] = &[
    ("goodput Mbit/s", "goodput_bps", 1e-6, 3),
    ("fairness", "fairness", 1.0, 3),
    ("one way ms", "delay_ms", 1.0, 2),
    ("one way p95", "delay_p95_ms", 1.0, 1),
    ("rtt ms", "rtt_ms.mean", 1.0, 2),
    ("loss %", "loss", 100.0, 3),
    ("sent again", "retransmits", 1.0, 0),
    ("timeouts", "timeouts", 1.0, 0),
    ("done", "completed", 1.0, 0),
    ("took ms", "took_ms.mean", 1.0, 1),
    ("took p50", "took_ms.p50", 1.0, 1),
    ("took p95", "took_ms.p95", 1.0, 1),
    ("video Mbit/s", "video.bitrate_bps", 1e-6, 3),
    ("start s", "video.start_s", 1.0, 2),
    ("stalls", "video.stalls", 1.0, 1),
    ("stalled %", "video.stalled_share", 100.0, 2),
    ("to 10 kB ms", "took_by_size.to_10_kb_ms.p50", 1.0, 1),
    ("to 100 kB", "took_by_size.to_100_kb_ms.p50", 1.0, 1),
    ("to 1 MB", "took_by_size.to_1_mb_ms.p50", 1.0, 1),
    ("above", "took_by_size.above_ms.p50", 1.0, 1),
];

pub fn table(results: &[(&Point, Vec<&sim::Outcome>)]) -> String {
    let mut out = String::new();
    let mut varies = false;
    for (what, columns) in [("link", LINK), ("flow", FLOW)] {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for (point, outcomes) in results {
            let Some(first) = outcomes.first() else {
                continue;
            };
            let all = estimates(outcomes);
            let names: Vec<(&str, u64)> = match what {
                "link" => first.links.iter().map(|l| (l.name.as_str(), 1)).collect(),
                _ => first
                    .flows
                    .iter()
                    .map(|f| (f.name.as_str(), f.count))
                    .collect(),
            };
            for (name, count) in names {
                let labels = point.labels.iter().map(|(_, v)| Cell::of(v));
                let mut row: Vec<Cell> = labels.collect();
                row.push(match count {
                    1 => Cell::of(name),
                    n => Cell::of(&format!("{name} ×{n}")),
                });
                for (_, figure, factor, digits) in columns {
                    let estimate = all.get(&format!("{name}.{figure}"));
                    row.push(estimate.map_or(Cell::of("-"), |e| Cell::shown(e, *factor, *digits)));
                }
                rows.push(row);
            }
        }
        varies |= rows.iter().flatten().any(|cell| !cell.half.is_empty());
        let Some((point, _)) = results.first() else {
            continue;
        };
        let mut heads: Vec<&str> = point.labels.iter().map(|(k, _)| k.as_str()).collect();
        heads.push(what);
        heads.extend(columns.iter().map(|c| c.0));
        write_rows(&mut out, &heads, &rows, point.labels.len() + 1);
        out.push('\n');
    }
    if let Some(runs) = results.first().map(|r| r.1.len()).filter(|n| *n > 1) {
        let _ = match varies {
            true => writeln!(
                out,
                "{runs} seeds; ± is the half of the 95 % confidence interval, and none where all seeds gave the same"
            ),
            false => writeln!(
                out,
                "{runs} seeds gave the same: nothing here is left to chance. Let flows begin at random, such as spread = \"1 s\""
            ),
        };
    }
    out
}

/// Writes rows whose first `left` columns are words, the others numbers.
fn write_rows(out: &mut String, heads: &[&str], rows: &[Vec<Cell>], left: usize) {
    // A column in which nothing stands says nothing.
    let used = (0..heads.len()).filter(|i| rows.iter().any(|r| r[*i].mean != "-"));
    let width = |text: &str| text.chars().count();
    // Numbers stand below each other, and so do their intervals.
    let widths: Vec<(usize, usize, usize)> = used
        .map(|i| {
            let most = |of: fn(&Cell) -> &str| rows.iter().map(|r| width(of(&r[i]))).max();
            let half = most(|c| &c.half).unwrap_or(0);
            let mean = most(|c| &c.mean).unwrap_or(0);
            let gap = usize::from(half > 0);
            (
                i,
                mean.max(width(heads[i]).saturating_sub(half + gap)),
                half,
            )
        })
        .collect();
    let mut line = String::new();
    for (i, mean, half) in &widths {
        let whole = mean + half + usize::from(*half > 0);
        let _ = match *i < left {
            true => write!(line, "{:<whole$}  ", heads[*i]),
            false => write!(line, "{:>whole$}  ", heads[*i]),
        };
    }
    let _ = writeln!(out, "{}", line.trim_end());
    for row in rows {
        line.clear();
        for (i, mean, half) in &widths {
            let cell = &row[*i];
            let _ = match (*i < left, *half) {
                (true, _) => write!(line, "{:<mean$}  ", cell.mean),
                (false, 0) => write!(line, "{:>mean$}  ", cell.mean),
                (false, half) => write!(line, "{:>mean$} {:<half$}  ", cell.mean, cell.half),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Figure with its error.
struct Cell {
    mean: String,
    half: String,
}

impl Cell {
    fn of(text: &str) -> Cell {
        Cell {
            mean: text.to_string(),
            half: String::new(),
        }
    }

    fn shown(e: &Estimate, factor: f64, digits: usize) -> Cell {
        Cell {
            mean: format!("{:.digits$}", e.mean * factor),
            half: match e.half {
                Some(half) if half > 0.0 => format!("±{:.digits$}", half * factor),
                _ => String::new(),
            },
        }
    }
}
