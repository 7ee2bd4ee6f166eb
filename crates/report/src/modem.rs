//! State of the modem: a table.

use crate::table::{Cell, Column, Table};
use crate::words::lasting;
use analysis::modem::{Course, Errors, ModemSummary};
use base::print::{RATE, number};

/// Definitions of the figures.
pub const NOTE: &str = "As the modem tells itself. Changes: readings that differ from the one before. FEC: blocks that \
     forward error correction repaired. CRC: blocks with errors.";

/// Returns the rates, margins and attenuations, a row each.
pub fn values(m: &ModemSummary) -> Option<Table> {
    let heads = ["", "least", "mean", "most", "last", "changes"].map(Column::from);
    let mut table = Table::new("Modem", heads);
    let rates = [("rate down", m.rate_down_bps), ("rate up", m.rate_up_bps)];
    for (name, course) in rates {
        row(&mut table, name, course, |v| RATE.print(v));
    }
    let decibels = [
        ("margin down", m.margin_down_db),
        ("margin up", m.margin_up_db),
        ("attenuation down", m.attenuation_down_db),
        ("attenuation up", m.attenuation_up_db),
    ];
    for (name, course) in decibels {
        row(&mut table, name, course, |v| format!("{} dB", number(v)));
    }
    (!table.is_empty()).then_some(table)
}

/// Adds the row of a value that is known.
fn row(table: &mut Table, name: &str, course: Option<Course>, print: impl Fn(f64) -> String) {
    if let Some(c) = course {
        let cells = [c.least, c.mean, c.most, c.last].map(|v| Cell::Is(print(v)));
        table.row(name, cells.into_iter().chain([c.changes.into()]));
    }
}

/// Returns the errors, a row for each counter.
pub fn errors(m: &ModemSummary) -> Option<Table> {
    let heads = [
        "",
        "errors",
        "an hour",
        "most a minute",
        "watched",
        "resets",
    ];
    let mut table = Table::new("Modem's errors", heads.map(Column::from));
    let rows: [(&str, &Option<Errors>); 4] = [
        ("CRC down", &m.crc_down),
        ("CRC up", &m.crc_up),
        ("FEC down", &m.fec_down),
        ("FEC up", &m.fec_up),
    ];
    for (name, errors) in rows {
        if let Some(e) = errors {
            let rate = |v: Option<f64>| Cell::from(v.map(number));
            let watched = lasting(e.seconds.round());
            let cells = [
                e.counted.into(),
                rate(e.per_hour),
                rate(e.most_per_minute),
                watched.into(),
                e.resets.into(),
            ];
            table.row(name, cells);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// Returns both tables.
pub fn tables(m: Option<&ModemSummary>) -> Vec<Table> {
    let both = m.map(|m| [values(m), errors(m)]);
    both.into_iter().flatten().flatten().collect()
}
