//! `tailback analyse --paths`: changes of routes over many recordings of `probe path`.

use crate::scan::{self, Source};
use crate::usage;
use experiment::routes::{Change, Fate, Hop, Place, Routes, Visit, routes, visit};
use jiff::tz::TimeZone;
use report::table::{Cell, Column, Table, wrapped};
use report::terminal::{self, Style};
use report::when;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Reads the traces of all recordings; those of one path together.
pub(super) fn of(recordings: &[Source<'_>]) -> anyhow::Result<Vec<Routes>> {
    let mut paths: BTreeMap<Place, Vec<Visit>> = BTreeMap::new();
    for from in recordings {
        let recording = scan::whole(*from)?;
        let (place, one) = visit(&recording).ok_or_else(|| {
            let name = from.display();
            usage(format!(
                "{name} is no recording of `tailback probe path`, which --paths reads"
            ))
        })?;
        if one.hops.iter().any(|hop| !hop.is_empty()) {
            paths.entry(place).or_default().push(one);
        }
    }
    if paths.is_empty() {
        return Err(usage("no hop answered in any of these recordings"));
    }
    let all = paths.into_iter();
    Ok(all
        .filter_map(|(place, visits)| routes(place, visits))
        .collect())
}

/// Text of the answer for a terminal.
pub(super) fn text(all: &[Routes], style: Style, zone: &TimeZone) -> String {
    let tables: Vec<(String, Table)> = all.iter().flat_map(|one| tables(one, zone)).collect();
    let lines = all
        .iter()
        .flat_map(|one| wrapped(&says(one, zone), style.width));
    let says: String = lines.map(|line| format!("{line}\n")).collect();
    says + &terminal::captioned(&tables, style)
}

fn name(place: &Place) -> String {
    match (place.title.as_str(), place.to) {
        ("", None) => "path".into(),
        ("", Some(to)) => to.to_string(),
        (title, _) => title.into(),
    }
}

fn says(one: &Routes, zone: &TimeZone) -> String {
    let open = one
        .hops
        .iter()
        .filter(|h| h.fate == Fate::CannotTell)
        .count();
    let shared = one.hops.iter().filter(|h| h.fate == Fate::Shared).count();
    let mut text = format!(
        "{}: {} from {} to {}, ",
        name(&one.place),
        crate::counted(one.traces.into(), "trace"),
        when(one.from_ns, zone),
        when(one.to_ns, zone)
    );
    text += &match (one.changes.len(), open) {
        (0, 0) => "one route.".to_owned(),
        (0, open) => format!(
            "no change is certain; at {} hosts differ in too few traces to tell a change from shared load.",
            crate::counted(open as u64, "hop")
        ),
        (n, _) => format!("the route changed {}.", times(n)),
    };
    if shared > 0 {
        text += &format!(
            " Routers share load at {}.",
            crate::counted(shared as u64, "hop")
        );
    }
    text
}

fn times(n: usize) -> String {
    match n {
        1 => "once".into(),
        n => format!("{n} times"),
    }
}

fn tables(one: &Routes, zone: &TimeZone) -> Vec<(String, Table)> {
    let mut hops = Table::new(
        "",
        ["hop", "hosts", "traces", "first", "last", "found"].map(Column::words),
    );
    for hop in &one.hops {
        for (i, hosts) in hop.hosts.iter().enumerate() {
            let number = if i == 0 {
                hop.hop.to_string()
            } else {
                String::new()
            };
            let found = if i == 0 { fate(hop) } else { "" };
            let cells = [
                Cell::from(joined(&hosts.addresses)),
                Cell::from(format!("{} of {}", hosts.traces, hop.answered)),
                Cell::from(when(hosts.first_ns, zone)),
                Cell::from(when(hosts.last_ns, zone)),
                Cell::from(found),
            ];
            hops.row(number, cells);
        }
    }
    let mut all = Vec::new();
    if !one.changes.is_empty() {
        all.push((
            format!("Changes of the route, {}", name(&one.place)),
            changes(one, zone),
        ));
    }
    all.push((format!("Hops, {}", name(&one.place)), hops));
    all
}

fn changes(one: &Routes, zone: &TimeZone) -> Table {
    let mut table = Table::new(
        "",
        ["after", "by", "hop", "before", "then"].map(Column::words),
    );
    for Change {
        after_ns,
        by_ns,
        hops,
    } in &one.changes
    {
        for (i, hop) in hops.iter().enumerate() {
            let only_first = |ns: i64| {
                if i == 0 {
                    when(ns, zone)
                } else {
                    String::new()
                }
            };
            let cells = [
                Cell::from(only_first(*by_ns)),
                Cell::from(hop.hop.to_string()),
                Cell::from(joined(&hop.from)),
                Cell::from(joined(&hop.to)),
            ];
            table.row(only_first(*after_ns), cells);
        }
    }
    table
}

fn joined(addresses: &[IpAddr]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    all.join(", ")
}

fn fate(hop: &Hop) -> &'static str {
    match hop.fate {
        Fate::Same => "same",
        Fate::Shared => "shared load",
        Fate::Changed => "changed",
        Fate::CannotTell => "cannot tell: too few traces",
    }
}
