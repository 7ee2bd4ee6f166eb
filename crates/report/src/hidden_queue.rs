//! Table of the estimate of a queue that cannot be observed.

use crate::tables::{Cell, Row, Table};
use crate::words::{lasting, when};
use analysis::hidden_queue::{ByLaw, Errors, HiddenQueue, Law};
use base::print::{DELAY, RATE, number};
use jiff::tz::TimeZone;
use stats::Figure;

/// Returns the subject in words, and a table with one column per law.
pub fn table(h: &HiddenQueue, zone: &TimeZone) -> (String, Table) {
    let known = h.laws.iter().any(|l| l.beside_truth.is_some());
    let caption = format!(
        "{}{} to {}: a line of {} upwards ({}), a round trip each {}. The error is what was foreseen less what the next round trip \
         says: base and rate are in both, so it does not show whether they are right.{}",
        match h.title.trim() {
            "" => String::new(),
            title => format!("{title}, "),
        },
        when(h.from_ns, zone),
        when(h.to_ns, zone),
        RATE.print(h.capacity_bps),
        h.capacity_from,
        lasting(h.every_s),
        match known {
            true => " The queue itself is known here: what was estimated less what was.",
            false => "",
        }
    );
    let mut columns = vec![String::new()];
    columns.extend(h.laws.iter().map(|l| match l.law {
        Law::Printed => "Borlaug 2014, as printed".to_owned(),
        Law::Mended => "mended".to_owned(),
    }));
    let row = |label: &str, cell: &dyn Fn(&ByLaw) -> Cell| Row {
        label: label.into(),
        cells: h.laws.iter().map(cell).collect(),
    };
    let delay = |f: &Figure| -> Cell { f.print(DELAY).into() };
    let mut rows = vec![
        row("Round trip with an empty queue", &|l| {
            l.base_ms.map_or(Cell::Absent, |v| Cell::Is(DELAY.print(v)))
        }),
        row("Estimated wait, median", &|l| delay(&l.wait_p50_ms)),
        row("Estimated wait, 95 % below", &|l| delay(&l.wait_p95_ms)),
    ];
    rows.extend(errors(h, "Error", |l| l.error.as_ref()));
    if known {
        rows.extend(errors(h, "Off the true wait", |l| l.beside_truth.as_ref()));
    }
    let title = "The queue behind this gateway".into();
    (
        caption,
        Table {
            title,
            columns,
            rows,
        },
    )
}

fn errors(h: &HiddenQueue, what: &str, of: fn(&ByLaw) -> Option<&Errors>) -> Vec<Row> {
    type Print = fn(&Errors) -> Cell;
    let figures: [(&str, Print); 7] = [
        ("values", |e| Cell::Is(e.count.to_string())),
        ("max", |e| Cell::Is(DELAY.print(e.max_ms))),
        ("min", |e| Cell::Is(DELAY.print(e.min_ms))),
        ("mean", |e| e.mean_ms.print(DELAY).into()),
        ("median", |e| e.median_ms.print(DELAY).into()),
        ("SD", |e| Cell::Is(DELAY.print(e.sd_ms))),
        ("variance", |e| {
            Cell::Is(format!("{} ms²", number(e.variance_ms2)))
        }),
    ];
    let rows = figures.into_iter().map(|(name, print)| Row {
        label: format!("{what}, {name}"),
        cells: h
            .laws
            .iter()
            .map(|l| of(l).map_or(Cell::Absent, print))
            .collect(),
    });
    rows.collect()
}
