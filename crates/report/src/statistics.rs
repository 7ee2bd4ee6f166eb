//! Tables of statistics: for the terminal, and as Markdown and CSV.

use crate::tables::{Cell, Row, Table};
use crate::words::{self, lasting, nines, phase, when};
use analysis::compare::{Comparison, Unit};
use analysis::services::{Can, Verdict, Way};
use analysis::statistics::{Statistics, Summary, TargetStatistics};
use analysis::together::{Beside, Together};
use base::print::{DELAY, PERCENT, number};
use base::units::significant;
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
        tables.extend(services(t));
    }
    if !s.excluded.is_empty() {
        tables.push(excluded(s, zone));
    }
    if !s.incidents.is_empty() {
        tables.push(incidents(s, zone));
    }
    tables
}

/// Returns the table of incidents.
pub fn incidents(s: &Statistics, zone: &TimeZone) -> Table {
    Table {
        title: "What befell the recording".into(),
        columns: ["", "what"].map(String::from).to_vec(),
        rows: s
            .incidents
            .iter()
            .map(|i| Row {
                label: when(i.from_ns, zone),
                cells: vec![Cell::Is(words::incident(i))],
            })
            .collect(),
    }
}

fn figure(f: &Figure, unit: base::print::Unit) -> Cell {
    f.print(unit).into()
}

fn plain(f: &Figure) -> Cell {
    match f {
        Figure::Is { value, .. } => Cell::Is(number(*value)),
        Figure::CannotTell { cannot_tell } => Cell::CannotTell(cannot_tell.clone()),
    }
}

fn delay(v: Option<f64>) -> Cell {
    v.map_or(Cell::Absent, |v| Cell::Is(DELAY.print(v)))
}

/// Formats a percentage: `95 %`, `99.9 %`.
fn percent_point(share: f64) -> String {
    format!("{} % below", number(share * 100.0))
}

/// Formats a share in percent, with as many digits as its distance from 100 requires, and its interval.
fn share(f: &Figure) -> Cell {
    match f {
        Figure::Is { value, low, high } => {
            let (v, l, h) = (nines(*value), nines(*low), nines(*high));
            Cell::Is(if l == h {
                format!("{v} %")
            } else {
                format!("{v} % ({l} to {h})")
            })
        }
        Figure::CannotTell { cannot_tell } => Cell::CannotTell(cannot_tell.clone()),
    }
}

/// Formats a share without the interval.
fn bare(f: &Figure) -> Cell {
    match f {
        Figure::Is { value, .. } => share(&Figure::exactly(*value)),
        other => share(other),
    }
}

/// Returns one row per figure.
fn figures(s: &Summary) -> Vec<(String, Cell)> {
    let count = |n: u64| Cell::Is(n.to_string());
    let r = &s.rtt;
    let mut rows = vec![
        ("Probes sent".to_owned(), count(s.sent)),
        ("Lost".into(), count(s.lost)),
        ("Loss".into(), figure(&s.loss_percent, PERCENT)),
        ("Of them late".into(), count(s.late)),
        ("Answered twice".into(), count(s.duplicates)),
        ("Times impossible".into(), count(s.invalid)),
        ("Kept from leaving".into(), count(s.cut_off)),
        (
            "Not sent by this host".into(),
            count(s.not_sent.saturating_sub(s.cut_off)),
        ),
        ("RTT median".into(), figure(&r.point(0.5), DELAY)),
        ("RTT mean".into(), figure(&r.mean_ms, DELAY)),
        ("RTT SD".into(), delay(r.sd_ms)),
        (
            "RTT variance".into(),
            r.variance_ms2
                .map_or(Cell::Absent, |v| Cell::Is(format!("{} ms²", number(v)))),
        ),
        ("RTT min".into(), delay(r.min_ms)),
    ];
    let points = r.points.iter().filter(|p| p.share != 0.5);
    rows.extend(points.map(|p| (percent_point(p.share), figure(&p.ms, DELAY))));
    rows.push(("RTT max".into(), delay(r.max_ms)));
    rows
}

pub fn whole(t: &TargetStatistics) -> Table {
    let loaded = t.loaded.iter().filter_map(|l| l.summary.as_ref());
    let columns: Vec<&Summary> = std::iter::once(&t.whole).chain(loaded).collect();
    side_by_side(&t.target, &columns)
}

fn side_by_side(title: &str, columns: &[&Summary]) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    for s in columns {
        for (i, (label, cell)) in figures(s).into_iter().enumerate() {
            match rows.get_mut(i) {
                Some(row) => row.cells.push(cell),
                None => rows.push(Row {
                    label,
                    cells: vec![cell],
                }),
            }
        }
    }
    Table {
        title: title.into(),
        columns: std::iter::once(String::new())
            .chain(columns.iter().map(|s| phase(&s.name).to_owned()))
            .collect(),
        rows,
    }
}

/// Returns a table with one row per span; RTTs in ms.
pub fn spans(title: &str, spans: &[Summary]) -> Table {
    let heads = [
        "", "sent", "lost", "loss, %", "median", "mean", "SD", "95 %", "99 %", "max",
    ];
    let number_or_absent = |v: Option<f64>| v.map_or(Cell::Absent, |v| Cell::Is(number(v)));
    Table {
        title: format!("{title}, ms"),
        columns: heads.map(String::from).to_vec(),
        rows: spans
            .iter()
            .map(|s| Row {
                label: phase(&s.name).into(),
                cells: vec![
                    Cell::Is(s.sent.to_string()),
                    Cell::Is(s.lost.to_string()),
                    plain(&s.loss_percent),
                    plain(&s.rtt.point(0.5)),
                    plain(&s.rtt.mean_ms),
                    number_or_absent(s.rtt.sd_ms),
                    plain(&s.rtt.point(0.95)),
                    plain(&s.rtt.point(0.99)),
                    number_or_absent(s.rtt.max_ms),
                ],
            })
            .collect(),
    }
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
    let row = |limit: f64| {
        let mut cells: Vec<Cell> = columns.iter().map(|s| of(s, limit)).collect();
        let worst = t.worst.iter().find(|w| w.limit_ms == limit);
        cells.push(worst.map_or(Cell::Absent, |w| bare(&w.share)));
        cells.push(worst.map_or(Cell::Absent, |w| Cell::Is(when(w.from_ns, zone))));
        Row {
            label: format!("within {}", DELAY.print(limit)),
            cells,
        }
    };
    Table {
        title: "Reliability".into(),
        columns: std::iter::once(String::new())
            .chain(columns.iter().map(|s| phase(&s.name).to_owned()))
            .chain(["worst".into(), "from".into()])
            .collect(),
        rows: t
            .whole
            .reliability
            .iter()
            .map(|r| row(r.limit_ms))
            .collect(),
    }
}

/// Returns the services that pass: one table per source, one row per service, one column per span.
pub fn services(t: &TargetStatistics) -> Vec<Table> {
    let spans: Vec<String> = t
        .services
        .first()
        .map(|v| v.spans.iter().map(|s| phase(&s.span).to_owned()).collect())
        .unwrap_or_default();
    let row = |v: &Verdict| Row {
        label: format!(
            "{}, {}{}, {} %",
            v.service,
            latency(v.latency_ms),
            match v.way {
                Way::OneWay => "",
                Way::RoundTrip => " round trip",
            },
            significant(v.required * 100.0, 7)
        ),
        cells: v
            .spans
            .iter()
            .map(|j| {
                let got = match &j.share {
                    Figure::Is { value, .. } => format!(" {} %", nines(*value)),
                    Figure::CannotTell { .. } => String::new(),
                };
                match j.can {
                    Can::Pass => Cell::Is(format!("pass{got}")),
                    Can::Fail => Cell::Is(format!("FAIL{got}")),
                    Can::CannotTell => Cell::CannotTell(j.because.clone()),
                }
            })
            .collect(),
    };
    t.services
        .chunk_by(|a, b| a.table == b.table)
        .map(|table| Table {
            title: table[0].table.clone(),
            columns: std::iter::once(String::new())
                .chain(spans.clone())
                .collect(),
            rows: table.iter().map(row).collect(),
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

pub fn excluded(s: &Statistics, zone: &TimeZone) -> Table {
    Table {
        title: "Left out".into(),
        columns: ["", "to", "probes", "reason"].map(String::from).to_vec(),
        rows: s
            .excluded
            .iter()
            .map(|x| Row {
                label: when(x.span.from_ns, zone),
                cells: vec![
                    Cell::Is(when(x.span.to_ns, zone)),
                    Cell::Is(x.probes.to_string()),
                    Cell::Is(x.span.reason.clone()),
                ],
            })
            .collect(),
    }
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
    let columns = |names: &[String]| -> Vec<String> {
        std::iter::once(String::new())
            .chain(names.iter().cloned())
            .collect()
    };
    let one = |s: &analysis::compare::Section| {
        let names: Vec<String> = (0..c.recordings.len()).map(letter).collect();
        let differences: Vec<String> = names[1..].iter().map(|n| format!("{n} less A")).collect();
        let cell = |f: &Option<Figure>, unit: Unit, difference: bool| match (f, unit) {
            (None, _) => Cell::Absent,
            (Some(f), Unit::Milliseconds) => figure(f, DELAY),
            (Some(f), Unit::Reliability) if !difference => share(&f.map(|p| p / 100.0)),
            (Some(f), Unit::Percent | Unit::Reliability) => figure(f, PERCENT),
            (Some(f), Unit::Count) => plain(f),
        };
        Table {
            title: s.name.clone(),
            columns: columns(&[names, differences].concat()),
            rows: s
                .rows
                .iter()
                .map(|r| Row {
                    label: r.name.clone(),
                    cells: (r.values.iter().map(|f| cell(f, r.unit, false)))
                        .chain(r.differences.iter().map(|f| cell(f, r.unit, true)))
                        .collect(),
                })
                .collect(),
        }
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
    let available = Row {
        label: "available".into(),
        cells: cells(&t.availability),
    };
    let within = t.reliability.iter().map(|w| Row {
        label: format!("within {}", DELAY.print(w.limit_ms)),
        cells: cells(&w.shares),
    });
    Table {
        title: "Together".into(),
        columns: std::iter::once(String::new())
            .chain((0..t.links.len()).map(letter))
            .chain(["at least one".into(), "if independent".into()])
            .collect(),
        rows: std::iter::once(available).chain(within).collect(),
    }
}

fn text(c: &Cell) -> String {
    match c {
        Cell::Is(t) => t.clone(),
        Cell::CannotTell(why) => format!("cannot tell: {why}"),
        Cell::Absent => String::new(),
    }
}

pub fn markdown(tables: &[Table]) -> String {
    let mut out = String::new();
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    for t in tables {
        let mut heads = t.columns.clone();
        heads[0] = t.title.clone();
        out += &line(heads);
        out += &line(t.columns.iter().map(|_| "---".into()).collect());
        for r in &t.rows {
            let cells = r.cells.iter().map(text);
            out += &line(std::iter::once(r.label.clone()).chain(cells).collect());
        }
        out.push('\n');
    }
    out
}

pub fn csv(tables: &[Table]) -> String {
    let quoted = |c: &String| {
        if c.contains(['"', ',', '\n']) {
            format!("\"{}\"", c.replace('"', "\"\""))
        } else {
            c.clone()
        }
    };
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(quoted).collect();
        format!("{}\n", cells.join(","))
    };
    let mut out = String::new();
    for t in tables {
        let mut heads = t.columns.clone();
        heads[0] = t.title.clone();
        out += &line(heads);
        for r in &t.rows {
            let cells = r.cells.iter().map(text);
            out += &line(std::iter::once(r.label.clone()).chain(cells).collect());
        }
    }
    out
}
