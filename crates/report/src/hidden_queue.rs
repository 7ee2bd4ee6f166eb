//! Table of the estimate of a queue that cannot be observed.

use crate::table::{Cell, Table};
use crate::words::{lasting, when};
use analysis::hidden_queue::{ByLaw, Errors, HiddenQueue, Law};
use base::print::{DELAY, RATE, number};
use jiff::tz::TimeZone;
use stats::Figure;

/// Returns the subject in words, and a table with one column per law.
pub fn table(h: &HiddenQueue, zone: &TimeZone) -> (String, Table) {
    let known = h.laws.iter().any(|l| l.beside_truth.is_some());
    let caption = format!(
        "{}{} to {}: a link of {} upwards ({}), a round trip each {}. The error is what was foreseen less what the next round trip \
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
    let heads = h.laws.iter().map(|l| match l.law {
        Law::Printed => "000, (28)(29) as printed",
        Law::Mended => "mended",
    });
    let mut table = Table::new(
        "The queue behind this gateway",
        std::iter::once("").chain(heads),
    );
    table.row(
        "Round trip with an empty queue",
        h.laws.iter().map(|l| l.base_ms.map(|v| DELAY.print(v))),
    );
    for (label, of) in [
        (
            "Estimated wait, median",
            (|l| &l.wait_p50_ms) as fn(&ByLaw) -> &Figure,
        ),
        ("Estimated wait, 95 % below", |l| &l.wait_p95_ms),
    ] {
        table.row(label, h.laws.iter().map(|l| Cell::figure(of(l), DELAY)));
    }
    errors(&mut table, h, "Error", |l| l.error.as_ref());
    if known {
        errors(&mut table, h, "Off the true wait", |l| {
            l.beside_truth.as_ref()
        });
    }
    (caption, table)
}

fn errors(table: &mut Table, h: &HiddenQueue, what: &str, of: fn(&ByLaw) -> Option<&Errors>) {
    type Print = fn(&Errors) -> Cell;
    let figures: [(&str, Print); 7] = [
        ("values", |e| e.count.into()),
        ("max", |e| DELAY.print(e.max_ms).into()),
        ("min", |e| DELAY.print(e.min_ms).into()),
        ("mean", |e| Cell::figure(&e.mean_ms, DELAY)),
        ("median", |e| Cell::figure(&e.median_ms, DELAY)),
        ("SD", |e| DELAY.print(e.sd_ms).into()),
        ("variance", |e| {
            format!("{} ms²", number(e.variance_ms2)).into()
        }),
    ];
    for (name, print) in figures {
        let cells = h.laws.iter().map(|l| of(l).map(print));
        table.row(format!("{what}, {name}"), cells);
    }
}
