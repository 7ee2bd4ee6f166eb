//! Tables of the report, common to the terminal and the page.

use crate::words::{discipline, phase};
use analysis::answer::{Answer, Discipline, PhaseAnswer, QueueIs, Reliability};
use base::print::{DELAY, PERCENT, PPM, RATE, RPM, SIZE, TIMES, Unit, number, percent};
use stats::{Delays, Figure};

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Is(String),
    /// Figure that could not be measured, with the reason.
    CannotTell(String),
    /// Figure that does not apply, such as the download rate of the idle phase.
    Absent,
}

pub struct Row {
    pub label: String,
    pub cells: Vec<Cell>,
}

pub struct Table {
    pub title: String,
    /// Headings: of the first column, then of the others.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// Reasons behind `CannotTell`, numbered from 1 in the order of their first use.
#[derive(Default)]
pub struct Notes(pub Vec<String>);

impl Notes {
    pub fn number(&mut self, reason: &str) -> usize {
        let at = self.0.iter().position(|r| r == reason).unwrap_or_else(|| {
            self.0.push(reason.to_string());
            self.0.len() - 1
        });
        at + 1
    }
}

impl From<Result<String, String>> for Cell {
    fn from(text: Result<String, String>) -> Cell {
        text.map_or_else(Cell::CannotTell, Cell::Is)
    }
}

fn plain(figure: &Figure, scale: f64) -> Cell {
    match figure {
        Figure::Is { value, .. } => Cell::Is(number(value / scale)),
        Figure::CannotTell { cannot_tell } => Cell::CannotTell(cannot_tell.clone()),
    }
}

fn optional(figure: Option<&Figure>, scale: f64) -> Cell {
    figure.map_or(Cell::Absent, |f| plain(f, scale))
}

/// Access to a rate of a phase.
type RateOf = fn(&PhaseAnswer) -> Option<Figure>;

/// Returns the table of phases, one column each.
pub fn phases(answer: &Answer) -> Table {
    let over = |label: &str, cell: &dyn Fn(&PhaseAnswer) -> Cell| Row {
        label: label.into(),
        cells: answer.phases.iter().map(cell).collect(),
    };
    let mut rows = vec![
        over("RTT min, ms", &|p| plain(&p.rtt.min_ms, 1.0)),
        over("RTT p50, ms", &|p| plain(&p.rtt.p50_ms, 1.0)),
        over("RTT p95, ms", &|p| plain(&p.rtt.p95_ms, 1.0)),
        over("RTT p99, ms", &|p| plain(&p.rtt.p99_ms, 1.0)),
        over("RTT max, ms", &|p| plain(&p.rtt.max_ms, 1.0)),
        over("Added up p50, ms", &|p| plain(&p.added_up.p50_ms, 1.0)),
        over("Added up p95, ms", &|p| plain(&p.added_up.p95_ms, 1.0)),
        over("Added down p50, ms", &|p| plain(&p.added_down.p50_ms, 1.0)),
        over("Added down p95, ms", &|p| plain(&p.added_down.p95_ms, 1.0)),
        over("In-flow RTT p50, ms", &|p| {
            optional(p.in_flow_rtt.as_ref().map(|d| &d.p50_ms), 1.0)
        }),
        over("Loss, %", &|p| plain(&p.loss.percent, 1.0)),
        over("Probes sent", &|p| Cell::Is(p.loss.sent.to_string())),
        over("Probes lost", &|p| Cell::Is(p.loss.lost.to_string())),
    ];
    let rates: [(&str, RateOf); 3] = [
        ("Download", |p| p.goodput_down_bps.clone()),
        ("Upload", |p| p.goodput_up_bps.clone()),
        ("Cross traffic", |p| {
            p.cross_traffic_bps.map(Figure::exactly)
        }),
    ];
    for (label, of) in rates {
        let figures: Vec<_> = answer.phases.iter().map(of).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        let largest = figures
            .iter()
            .flatten()
            .filter_map(Figure::value)
            .fold(0.0, f64::max);
        let (unit, size) = RATE.fitting(largest);
        rows.push(Row {
            label: format!("{label}, {unit}"),
            cells: figures.iter().map(|f| optional(f.as_ref(), size)).collect(),
        });
    }
    rows.push(over("Settled", &|p| {
        Cell::Is(if p.stable { "yes" } else { "no" }.into())
    }));
    Table {
        title: "Phases".into(),
        columns: headings("", answer.phases.iter().map(|p| phase(&p.name))),
        rows,
    }
}

/// Explanation of the brackets behind a figure.
pub const INTERVALS: &str = "In brackets: the interval that holds the figure with 95 % confidence.";

/// Returns the table of queues, one column per direction.
pub fn queues(answer: &Answer) -> Table {
    let both = [&answer.up, &answer.down];
    let figure =
        |label: &str, unit: Unit, of: &dyn Fn(&analysis::answer::DirectionAnswer) -> Figure| Row {
            label: label.into(),
            cells: both.iter().map(|d| of(d).print(unit).into()).collect(),
        };
    let bounded =
        |label: &str, unit: Unit, of: &dyn Fn(&analysis::answer::DirectionAnswer) -> Figure| {
            let mut row = figure(label, unit, of);
            for (cell, d) in row.cells.iter_mut().zip(both) {
                if let Cell::Is(text) = cell {
                    *text = format!("{}{text}", bound(d.queue_is));
                }
            }
            row
        };
    let rows = vec![
        Row {
            label: "Kind".into(),
            cells: both
                .iter()
                .map(|d| match d.discipline.is {
                    Discipline::CannotTell => Cell::CannotTell(would_settle(d)),
                    is => Cell::Is(discipline(is).into()),
                })
                .collect(),
        },
        bounded("Packets wait", DELAY, &|d| d.queue_ms.clone()),
        bounded("It holds", SIZE, &|d| d.queue_bytes.clone()),
        figure("The line needs (BDP)", SIZE, &|d| d.bdp_bytes.clone()),
        figure("Too large by", TIMES, &|d| d.factor_too_large.clone()),
        figure("Rate of the line", RATE, &|d| d.link_rate_bps.clone()),
        figure("Goodput", RATE, &|d| d.goodput_bps.clone()),
        figure("Added p50", DELAY, &|d| d.added.p50_ms.clone()),
        figure("Added p95", DELAY, &|d| d.added.p95_ms.clone()),
        figure("Added p99", DELAY, &|d| d.added.p99_ms.clone()),
        figure("Added max", DELAY, &|d| d.added.max_ms.clone()),
        figure("In-flow less probe", DELAY, &|d| {
            d.in_flow_minus_probe_ms.clone()
        }),
    ];
    Table {
        title: "Queues".into(),
        columns: headings("", ["Upload", "Download"].into_iter()),
        rows,
    }
}

fn would_settle(d: &analysis::answer::DirectionAnswer) -> String {
    d.discipline
        .would_settle
        .as_ref()
        .map_or("the kind of queue did not show".into(), |w| {
            format!("the kind of queue did not show; it would with {w}")
        })
}

pub fn bound(is: QueueIs) -> &'static str {
    match is {
        QueueIs::Size => "",
        QueueIs::AtLeast => "at least ",
        QueueIs::Controlled => "up to ",
    }
}

/// Returns the percentage of probes answered in time: one row per limit, one column per phase.
pub fn reliability(answer: &Answer) -> Table {
    let mut limits: Vec<f64> = answer
        .phases
        .iter()
        .flat_map(|p| p.reliability.iter().map(|r| r.limit_ms))
        .collect();
    limits.sort_by(f64::total_cmp);
    limits.dedup();
    let share =
        |p: &PhaseAnswer, limit: f64| match p.reliability.iter().find(|r| r.limit_ms == limit) {
            Some(Reliability {
                share: Figure::Is { value, .. },
                ..
            }) => Cell::Is(format!("{} %", percent(*value))),
            Some(Reliability {
                share: Figure::CannotTell { cannot_tell },
                ..
            }) => Cell::CannotTell(cannot_tell.clone()),
            None => Cell::Absent,
        };
    let row = |limit: f64| -> Vec<Cell> { answer.phases.iter().map(|p| share(p, limit)).collect() };
    // Equal rows at the end are merged into one.
    let alike = limits
        .iter()
        .rev()
        .take_while(|l| row(**l) == row(limits[limits.len() - 1]))
        .count();
    let single = limits.len() - alike.saturating_sub(1);
    let rows = limits[..single]
        .iter()
        .enumerate()
        .map(|(i, limit)| {
            let to = if alike > 1 && i + 1 == single {
                format!(" to {}", DELAY.print(limits[limits.len() - 1]))
            } else {
                String::new()
            };
            Row {
                label: format!("within {}{to}", DELAY.print(*limit)),
                cells: row(*limit),
            }
        })
        .collect();
    Table {
        title: "Answered in time".into(),
        columns: headings("", answer.phases.iter().map(|p| phase(&p.name))),
        rows,
    }
}

pub fn responsiveness(answer: &Answer) -> Table {
    let r = &answer.responsiveness;
    let row = |label: &str, unit: Unit, figure: &Figure| Row {
        label: label.into(),
        cells: vec![figure.print(unit).into()],
    };
    Table {
        title: "Responsiveness".into(),
        columns: headings("", [""].into_iter()),
        rows: vec![
            row("Score", RPM, &r.rpm),
            row("From fresh connections", RPM, &r.foreign_rpm),
            row("From the load's own", RPM, &r.loaded_rpm),
            row("By the harmonic formula", RPM, &r.harmonic_rpm),
            row("Fresh connection, mean", DELAY, &r.foreign_ms),
            row("Load's own, mean", DELAY, &r.loaded_ms),
        ],
    }
}

/// Returns the instrument's statements about itself.
pub fn instrument(answer: &Answer) -> Table {
    let i = &answer.instrument;
    let spread = |d: &Delays| -> Cell {
        match (d.p50_ms.value(), d.p99_ms.value(), d.max_ms.value()) {
            (Some(p50), Some(p99), Some(max)) => Cell::Is(format!(
                "{} p50, {} p99, {} max",
                DELAY.print(p50),
                DELAY.print(p99),
                DELAY.print(max)
            )),
            _ => d.p50_ms.print(DELAY).into(),
        }
    };
    let row = |label: &str, cell: Cell| Row {
        label: label.into(),
        cells: vec![cell],
    };
    Table {
        title: "The instrument".into(),
        columns: headings("", [""].into_iter()),
        rows: vec![
            row(
                "Probes sent",
                Cell::Is(format!(
                    "{} of {} planned, {} slots missed",
                    i.probes_sent, i.probes_planned, i.missed_slots
                )),
            ),
            row("Hosts' share, subtracted", spread(&i.host_share)),
            row("Sent late by", spread(&i.late_send)),
            row(
                "Busiest moment",
                i.cpu_max.map_or(
                    Cell::CannotTell("the load of the host was not sampled".into()),
                    |c| {
                        Cell::Is(format!(
                            "{} {} of all processors",
                            percent(c),
                            PERCENT.fitting(1.0).0
                        ))
                    },
                ),
            ),
            row(
                "Far clock's offset",
                answer.clock.offset_ms.print(DELAY).into(),
            ),
            row(
                "Far clock's drift",
                answer.clock.drift_ppm.print(PPM).into(),
            ),
            row(
                "Trust in one-way delays",
                Cell::Is(answer.clock.trust.clone()),
            ),
        ],
    }
}

fn headings<'a>(first: &str, others: impl Iterator<Item = &'a str>) -> Vec<String> {
    std::iter::once(first.to_string())
        .chain(others.map(String::from))
        .collect()
}
