//! Tables of counted traffic.

use crate::statistics as tables;
use crate::table::{Cell, Column, Table};
use crate::words::{self, lasting};
use analysis::counted::{CountedTraffic, InterfaceTraffic, Rates, SpanTraffic};
use base::print::{RATE, SIZE};
use jiff::tz::TimeZone;

/// Returns all tables: the interfaces, the days of each, the marked moments.
pub fn all(t: &CountedTraffic, zone: &TimeZone) -> Vec<Table> {
    let mut all = vec![interfaces(t)];
    let days = t.interfaces.iter().filter(|i| !i.each_day.is_empty());
    all.extend(days.map(days_of));
    all.extend(crate::modem::tables(t.modem.as_ref()));
    all.extend(crate::radio::table(&t.radios));
    all.extend(crate::host::table(t.host.as_ref(), &[]));
    if !t.moments.is_empty() {
        all.push(tables::moments(&t.moments, zone));
    }
    all
}

/// Returns the sentence above the tables.
pub fn heading(t: &CountedTraffic, zone: &TimeZone) -> String {
    format!(
        "{} · {} · {} to {}{}",
        match t.title.trim() {
            "" => "Tailback",
            title => title,
        },
        words::origin(t.origin),
        words::when(t.from_ns, zone),
        words::when(t.to_ns, zone),
        if t.complete { "" } else { " · not complete" }
    )
}

/// Returns the definitions of the figures.
pub fn note(t: &CountedTraffic) -> String {
    format!(
        "Median, 95 % and most are of the rates of each {}. Unknown: the counter was reset, or the interface was away. \
         Missing: nothing was recorded. Neither counts as no traffic.",
        match t.bin_s {
            1.0 => "second".to_owned(),
            s => lasting(s),
        }
    )
}

/// Cells of a direction.
fn cells(r: &Rates) -> Vec<Cell> {
    let rate = |v: Option<f64>| Cell::from(v.map(|v| RATE.print(v)));
    let bytes = r.mean_bps.map(|_| SIZE.print(r.bytes));
    let rates = [r.mean_bps, r.p50_bps, r.p95_bps, r.most_bps];
    std::iter::once(Cell::from(bytes))
        .chain(rates.map(rate))
        .collect()
}

const FIGURES: [&str; 5] = ["bytes", "mean", "median", "95 %", "most"];

/// Returns the table of the whole recording: two rows an interface.
fn interfaces(t: &CountedTraffic) -> Table {
    let heads = std::iter::once("")
        .chain(FIGURES)
        .chain(["counted", "unknown", "missing"]);
    let mut table = Table::new("Traffic", heads.map(Column::from));
    for i in &t.interfaces {
        for (name, rates) in [("down", &i.whole.down), ("up", &i.whole.up)] {
            let times = [i.whole.counted_s, i.whole.unknown_s, i.whole.missing_s];
            let times = times.map(|s| Cell::from(lasting((s * 10.0).round() / 10.0)));
            let all = cells(rates).into_iter().chain(times);
            table.row(format!("{} {name}", i.interface), all);
        }
    }
    table
}

/// Returns the days of an interface.
fn days_of(i: &InterfaceTraffic) -> Table {
    let of =
        |direction: &'static str| ["bytes", "95 %", "most"].map(|f| format!("{direction} {f}"));
    let heads = std::iter::once(String::new())
        .chain(of("down"))
        .chain(of("up"));
    let heads = heads.chain(["unknown".to_owned(), "missing".to_owned()]);
    let some = |r: &Rates| [0, 3, 4].map(|n: usize| cells(r)[n].clone());
    let row = |d: &SpanTraffic| {
        let times =
            [d.unknown_s, d.missing_s].map(|s| Cell::from(lasting((s * 10.0).round() / 10.0)));
        let all = some(&d.down).into_iter().chain(some(&d.up)).chain(times);
        (d.name.clone(), all.collect::<Vec<Cell>>())
    };
    Table::new(format!("Days of {}", i.interface), heads).with(i.each_day.iter().map(row))
}
