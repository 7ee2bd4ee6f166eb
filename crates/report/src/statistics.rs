//! Tables of statistics: for the terminal, and as Markdown and CSV.

use crate::stability;
use crate::table::{Cell, Column, Table};
use crate::words::{self, lasting, nines, phase, when};
use crate::{host, modem, radio};
use analysis::compare::{Comparison, Unit};
use analysis::moments::Moment;
use analysis::services::{Can, Verdict, Way};
use analysis::statistics::{Statistics, Summary, TargetStatistics};
use analysis::thresholds::HOME;
use analysis::together::{Beside, Together};
use base::print::{DELAY, PERCENT, number, significant};
use jiff::tz::TimeZone;
use stats::Figure;

/// Returns all tables of a recording.
pub fn all(s: &Statistics, zone: &TimeZone) -> Vec<Table> {
    let mut tables = Vec::new();
    for t in &s.targets {
        tables.push(whole(t));
        let of = [
            ("Phases and spans", [&t.phases[..], &t.spans[..]].concat()),
            ("Days", t.days.clone()),
            ("Windows", t.windows.clone()),
        ];
        for (title, list) in of.iter().filter(|(_, list)| !list.is_empty()) {
            tables.push(spans(title, list));
        }
        tables.push(in_time(t, zone));
        tables.extend(stability::days(t));
        tables.extend(services(t));
    }
    tables.extend(stability::targets(s));
    tables.extend(modem::tables(s.modem.as_ref()));
    tables.extend(radio::table(&s.radios));
    tables.extend(host::uplinks(&s.uplinks));
    tables.extend(host::table(s.host.as_ref(), &s.interfaces));
    if !s.excluded.is_empty() {
        tables.push(excluded(s, zone));
    }
    if !s.incidents.is_empty() {
        tables.push(incidents(s, zone));
    }
    if !s.moments.is_empty() {
        tables.push(moments(&s.moments, zone));
    }
    tables
}

/// Returns the table of incidents.
pub fn incidents(s: &Statistics, zone: &TimeZone) -> Table {
    let rows = s.incidents.iter();
    let heads = [Column::from("from"), Column::words("incident")];
    Table::new("Incidents", heads)
        .with(rows.map(|i| (when(i.from_ns, zone), vec![words::incident(i)])))
}

/// Returns the table of marked moments.
pub fn moments(all: &[Moment], zone: &TimeZone) -> Table {
    let rows = all.iter();
    let heads = [Column::from(""), Column::words("moment")];
    Table::new("Marked moments", heads)
        .with(rows.map(|m| (when(m.t_ns, zone), vec![m.text.as_str()])))
}

fn delay(v: Option<f64>) -> Cell {
    v.map(|v| DELAY.print(v)).into()
}

/// Formats a percentage: `95 %`, `99.9 %`.
fn percent_point(share: f64) -> String {
    format!("{} % below", number(share * 100.0))
}

/// Formats a share in percent, with as many digits as its distance from 100 requires, and its interval.
fn share(f: &Figure) -> Cell {
    let Figure::Is { low, high, .. } = f else {
        return bare(f);
    };
    let (l, h) = (nines(*low), nines(*high));
    match l == h {
        true => bare(f),
        false => Cell::printed(f, |v| format!("{} % ({l} to {h})", nines(v))),
    }
}

/// Formats a share without the interval.
fn bare(f: &Figure) -> Cell {
    Cell::printed(f, |v| format!("{} %", nines(v)))
}

/// Returns one row per figure.
fn figures(s: &Summary) -> Vec<(String, Cell)> {
    let r = &s.rtt;
    let mut rows: Vec<(String, Cell)> = vec![
        ("Probes sent".into(), s.sent.into()),
        ("Lost".into(), s.lost.into()),
        ("Loss".into(), Cell::figure(&s.loss_percent, PERCENT)),
        ("Of them late".into(), s.late.into()),
        ("Answered twice".into(), s.duplicates.into()),
        ("Times impossible".into(), s.invalid.into()),
        ("Kept from leaving".into(), s.cut_off.into()),
        (
            "Not sent by this host".into(),
            s.not_sent.saturating_sub(s.cut_off).into(),
        ),
        ("RTT median".into(), Cell::figure(&r.point(0.5), DELAY)),
        ("RTT mean".into(), Cell::figure(&r.mean_ms, DELAY)),
        ("RTT SD".into(), delay(r.sd_ms)),
        (
            "RTT variance".into(),
            r.variance_ms2.map(|v| format!("{} ms²", number(v))).into(),
        ),
        ("RTT min".into(), delay(r.min_ms)),
    ];
    let points = r.points.iter().filter(|p| p.share != 0.5);
    rows.extend(points.map(|p| (percent_point(p.share), Cell::figure(&p.ms, DELAY))));
    rows.push(("RTT max".into(), delay(r.max_ms)));
    rows.push(("IPDV mean".into(), Cell::figure(&s.ipdv.mean_ms, DELAY)));
    rows.push(("IPDV 95 %".into(), Cell::figure(&s.ipdv.p95_ms, DELAY)));
    rows
}

/// Returns the definitions of the figures of [`targets`].
pub fn targets_note(s: &Statistics) -> String {
    let shortest = s.targets.iter().map(|t| t.shortest_hole_s);
    let (low, high) = shortest.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let from = match low < high {
        true => format!("{} to {}, by the target", lasting(low), lasting(high)),
        false => lasting(high),
    };
    format!(
        "IPDV: mean size of the difference of two successive round trips (RFC 3393). Uptime: share of the time outside \
         outages. An outage lasts at least {from}, or the network kept probes from leaving."
    )
}

/// Returns the sentence about the end of a recording that is not closed.
pub fn unsettled_note(s: &Statistics) -> Option<String> {
    let end = s.unsettled.as_ref()?;
    let length = lasting(((end.to_ns - end.from_ns) as f64 / 1e9).round());
    Some(match end.is_all {
        true => format!(
            "The recording is not closed, and younger than {length}: losses and outages cannot be told yet."
        ),
        false => format!(
            "The recording is not closed: its last {length} are left out, because an answer to their probes may still come."
        ),
    })
}

/// Returns the table of all targets, one row each: the figures that matter first. Delays in ms, shares in %.
pub fn targets(s: &Statistics) -> Table {
    let heads = [
        "".into(),
        "loss %".into(),
        "median".into(),
        "95 %".into(),
        "99 %".into(),
        "IPDV".into(),
        Column::from("uptime %"),
        "outages".into(),
    ];
    let plain = |f: &Figure| match f.value() {
        Some(v) => Cell::Is(number(v)),
        None => "?".into(),
    };
    let rows = s.targets.iter().map(|t| {
        let w = &t.whole;
        let cells: Vec<Cell> = vec![
            plain(&w.loss_percent),
            plain(&w.rtt.point(0.5)),
            plain(&w.rtt.point(0.95)),
            plain(&w.rtt.point(0.99)),
            plain(&w.ipdv.mean_ms),
            t.availability
                .value()
                .map_or(Cell::from("?"), |share| Cell::Is(nines(share))),
            t.outages.len().to_string().into(),
        ];
        (t.target.as_str(), cells)
    });
    Table::new("Round trips, ms", heads).with(rows)
}

/// Returns the verdicts on the uses of a home: one row a target, one column a use, and the figure that decided against.
pub fn uses(s: &Statistics) -> Table {
    let names = HOME.iter().map(|u| Column::words(u.name));
    let heads = std::iter::once(Column::from("")).chain(names);
    let heads = heads.chain([Column::words("because")]);
    let rows = s.targets.iter().map(|t| {
        let words = HOME.iter().map(|u| {
            let found = t.uses.iter().find(|a| a.name == u.name);
            Cell::from(found.map(|a| crate::tables::can(a.can)))
        });
        let worst = t.uses.iter().find(|a| a.can == Can::Fail);
        let worst = worst.or_else(|| t.uses.iter().find(|a| a.can == Can::CannotTell));
        let because = worst.map(|a| format!("{}: {}", a.name, a.because));
        (t.target.as_str(), words.chain([because.into()]).collect())
    });
    let rows: Vec<(&str, Vec<Cell>)> = rows.collect();
    Table::new("Uses", heads).with(rows)
}

/// Returns all outages in order of time, each with its target and cause.
pub fn outages(s: &Statistics, zone: &TimeZone) -> Table {
    let mut all: Vec<_> = s
        .targets
        .iter()
        .flat_map(|t| t.outages.iter().map(move |o| (t.target.as_str(), o)))
        .collect();
    all.sort_by_key(|(_, o)| o.from_ns);
    let rows = all.into_iter().map(|(target, o)| {
        let cells: Vec<Cell> = vec![
            lasting((o.to_ns - o.from_ns) as f64 / 1e9).into(),
            target.into(),
            o.lost.into(),
            words::cause(o).into(),
        ];
        (when(o.from_ns, zone), cells)
    });
    let heads = [
        "from".into(),
        "lasted".into(),
        Column::words("target"),
        "lost".into(),
        Column::words("cause"),
    ];
    Table::new("Outages", heads).with(rows)
}

/// Returns the figures of a target, and beside them those of its loaded times.
pub fn whole(t: &TargetStatistics) -> Table {
    let loaded = t.loaded.iter().filter_map(|l| l.summary.as_ref());
    let columns: Vec<&Summary> = std::iter::once(&t.whole).chain(loaded).collect();
    let figures: Vec<_> = columns.iter().map(|s| figures(s)).collect();
    let mut table = Table::new(
        &*t.target,
        std::iter::once("").chain(columns.iter().map(|s| phase(&s.name))),
    );
    for (i, (label, _)) in figures[0].iter().enumerate() {
        let cells = figures
            .iter()
            .map(|f| f.get(i).map(|(_, cell)| cell.clone()));
        table.row(label.as_str(), cells);
    }
    table
}

/// Returns a table with one row per span; RTTs in ms.
pub fn spans(title: &str, spans: &[Summary]) -> Table {
    let heads = [
        "".into(),
        "sent".into(),
        "lost".into(),
        Column::of("loss", "%"),
        "median".into(),
        "mean".into(),
        "SD".into(),
        "95 %".into(),
        "99 %".into(),
        "max".into(),
        "IPDV".into(),
    ];
    let plain = |f: &Figure| Cell::value(f, 1.0);
    let rows = spans.iter().map(|s| {
        let cells: Vec<Cell> = vec![
            s.sent.into(),
            s.lost.into(),
            plain(&s.loss_percent),
            plain(&s.rtt.point(0.5)),
            plain(&s.rtt.mean_ms),
            s.rtt.sd_ms.map(number).into(),
            plain(&s.rtt.point(0.95)),
            plain(&s.rtt.point(0.99)),
            s.rtt.max_ms.map(number).into(),
            plain(&s.ipdv.mean_ms),
        ];
        (phase(&s.name), cells)
    });
    Table::new(format!("{title}, ms"), heads).with(rows)
}

/// Returns the table of reliability: one row per limit.
pub fn in_time(t: &TargetStatistics, zone: &TimeZone) -> Table {
    let loaded = t.loaded.iter().filter_map(|l| l.summary.as_ref());
    let columns: Vec<&Summary> = std::iter::once(&t.whole)
        .chain(loaded)
        .chain(&t.phases)
        .chain(&t.spans)
        .collect();
    let of = |s: &Summary, limit: f64| -> Cell {
        let found = s.reliability.iter().find(|r| r.limit_ms == limit);
        match found {
            None => Cell::Absent,
            Some(r) if s.name == t.whole.name => share(&r.share),
            Some(r) => bare(&r.share),
        }
    };
    let rows = t.whole.reliability.iter().map(|r| {
        let limit = r.limit_ms;
        let mut cells: Vec<Cell> = columns.iter().map(|s| of(s, limit)).collect();
        let worst = t.worst.iter().find(|w| w.limit_ms == limit);
        cells.push(worst.map(|w| bare(&w.share)).into());
        cells.push(worst.map(|w| when(w.from_ns, zone)).into());
        (format!("within {}", DELAY.print(limit)), cells)
    });
    let heads = std::iter::once("").chain(columns.iter().map(|s| phase(&s.name)));
    Table::new("Reliability", heads.chain(["worst", "from"])).with(rows)
}

/// Returns the services that pass: one table per source, one row per service, one column per span.
pub fn services(t: &TargetStatistics) -> Vec<Table> {
    let spans = t.services.first().into_iter().flat_map(|v| &v.spans);
    let spans: Vec<&str> = spans.map(|s| phase(&s.span)).collect();
    let row = |v: &Verdict| {
        let label = format!(
            "{}, {}{}, {} %",
            v.service,
            latency(v.latency_ms),
            match v.way {
                Way::OneWay => "",
                Way::RoundTrip => " round trip",
            },
            significant(v.required * 100.0, 7)
        );
        let cells = v.spans.iter().map(|j| {
            let got = j.share.value().map(|v| format!(" {} %", nines(v)));
            let got = got.unwrap_or_default();
            match j.can {
                Can::Pass => Cell::Is(format!("pass{got}")),
                Can::Fail => Cell::Is(format!("FAIL{got}")),
                Can::CannotTell => Cell::CannotTell(j.because.clone()),
            }
        });
        (label, cells.collect())
    };
    let tables = t.services.chunk_by(|a, b| a.table == b.table);
    tables
        .map(|of| {
            let heads = std::iter::once("").chain(spans.iter().copied());
            Table::new(&*of[0].table, heads).with(of.iter().map(row))
        })
        .collect()
}

fn latency(ms: f64) -> String {
    if ms >= 1000.0 {
        lasting(ms / 1000.0)
    } else {
        DELAY.print(ms)
    }
}

/// Returns the spans that were left out, with their reasons.
pub fn excluded(s: &Statistics, zone: &TimeZone) -> Table {
    let rows = s.excluded.iter().map(|x| {
        let to = when(x.span.to_ns, zone);
        let cells: Vec<Cell> = vec![to.into(), x.probes.into(), x.span.reason.as_str().into()];
        (when(x.span.from_ns, zone), cells)
    });
    Table::new("Left out", ["", "to", "probes", "reason"]).with(rows)
}

/// Returns the letter that names a recording in tables.
pub fn letter(i: usize) -> String {
    let letter = char::from(b'A' + (i % 26) as u8);
    let round = i / 26;
    if round == 0 {
        letter.to_string()
    } else {
        format!("{letter}{round}")
    }
}

/// Returns one row per figure, one column per recording, and the differences to the first.
pub fn comparison(c: &Comparison) -> Vec<Table> {
    let names: Vec<String> = (0..c.recordings.len()).map(letter).collect();
    let differences: Vec<String> = names[1..].iter().map(|n| format!("{n} less A")).collect();
    let heads = [vec![String::new()], names, differences].concat();
    let cell = |f: &Option<Figure>, unit: Unit, difference: bool| match (f, unit) {
        (None, _) => Cell::Absent,
        (Some(f), Unit::Milliseconds) => Cell::figure(f, DELAY),
        (Some(f), Unit::Reliability) if !difference => share(&f.map(|p| p / 100.0)),
        (Some(f), Unit::Percent | Unit::Reliability) => Cell::figure(f, PERCENT),
        (Some(f), Unit::Count) => Cell::value(f, 1.0),
    };
    let one = |s: &analysis::compare::Section| {
        let rows = s.rows.iter().map(|r| {
            let values = r.values.iter().map(|f| cell(f, r.unit, false));
            let differences = r.differences.iter().map(|f| cell(f, r.unit, true));
            (r.name.as_str(), values.chain(differences).collect())
        });
        Table::new(&*s.name, heads.clone()).with(rows)
    };
    c.sections.iter().map(one).collect()
}

/// Returns the table of several links combined: one row per limit.
pub fn together(t: &Together) -> Table {
    let cells = |b: &Beside| -> Vec<Cell> {
        let each = b.each.iter().map(bare);
        each.chain([share(&b.together), bare(&b.if_independent)])
            .collect()
    };
    let mut heads = vec![String::new()];
    heads.extend((0..t.links.len()).map(letter));
    heads.extend(["at least one".into(), "if independent".into()]);
    let within = t.reliability.iter().map(|w| {
        let label = format!("within {}", DELAY.print(w.limit_ms));
        (label, cells(&w.shares))
    });
    let mut table = Table::new("Together", heads);
    table.row("available", cells(&t.availability));
    table.with(within)
}

/// Renders tables as Markdown, with a blank line behind each.
pub fn markdown(tables: &[Table]) -> String {
    tables.iter().map(|t| t.markdown() + "\n").collect()
}

/// Renders tables as CSV, one below the other.
pub fn csv(tables: &[Table]) -> String {
    tables.iter().map(Table::csv).collect()
}
