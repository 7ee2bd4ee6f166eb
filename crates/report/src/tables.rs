//! Tables of the report, common to the terminal and the page.

use crate::table::{Cell, Column, Table};
use crate::words::{discipline, phase};
use analysis::answer::{Answer, DirectionAnswer, Discipline, PhaseAnswer, QueueIs};
use analysis::services::Can;
use base::print::{DELAY, PPM, RATE, RPM, SIZE, TIMES, Unit, percent};
use stats::{Delays, Figure};

/// Access to a rate of a phase.
type RateOf = fn(&PhaseAnswer) -> Option<Figure>;

/// Figure of a phase that has a row of its own.
type FigureOf = fn(&PhaseAnswer) -> Option<&Figure>;

const DELAYS: [(&str, FigureOf); 12] = [
    ("RTT min, ms", |p| Some(&p.rtt.min_ms)),
    ("RTT p50, ms", |p| Some(&p.rtt.p50_ms)),
    ("RTT p95, ms", |p| Some(&p.rtt.p95_ms)),
    ("RTT p99, ms", |p| Some(&p.rtt.p99_ms)),
    ("RTT max, ms", |p| Some(&p.rtt.max_ms)),
    ("IPDV mean, ms", |p| Some(&p.ipdv.mean_ms)),
    ("Added up p50, ms", |p| Some(&p.added_up.p50_ms)),
    ("Added up p95, ms", |p| Some(&p.added_up.p95_ms)),
    ("Added down p50, ms", |p| Some(&p.added_down.p50_ms)),
    ("Added down p95, ms", |p| Some(&p.added_down.p95_ms)),
    ("In-flow RTT p50, ms", |p| {
        Some(&p.in_flow_rtt.as_ref()?.p50_ms)
    }),
    ("Loss, %", |p| Some(&p.loss.percent)),
];

/// Returns the table of phases, one column each.
pub fn phases(answer: &Answer) -> Table {
    let over = |cell: &dyn Fn(&PhaseAnswer) -> Cell| -> Vec<Cell> {
        answer.phases.iter().map(cell).collect()
    };
    let value = |f: Option<&Figure>, size: f64| Cell::from(f.map(|f| Cell::value(f, size)));
    let mut table = Table::new(
        "Phases",
        headings(answer.phases.iter().map(|p| phase(&p.name))),
    );
    for (label, of) in DELAYS {
        table.row(label, over(&|p| value(of(p), 1.0)));
    }
    table.row("Probes sent", over(&|p| p.loss.sent.into()));
    table.row("Probes lost", over(&|p| p.loss.lost.into()));
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
        let known = figures.iter().flatten().filter_map(Figure::value);
        let (unit, size) = RATE.fitting(known.fold(0.0, f64::max));
        table.row(
            format!("{label}, {unit}"),
            figures.iter().map(|f| value(f.as_ref(), size)),
        );
    }
    table.row(
        "Settled",
        over(&|p| if p.stable { "yes" } else { "no" }.into()),
    );
    table
}

/// Explanation of the brackets behind a figure.
pub const INTERVALS: &str = "In brackets: the interval that holds the figure with 95 % confidence.";

/// Returns the table of queues, one column per direction.
pub fn queues(answer: &Answer) -> Table {
    let both = [&answer.up, &answer.down];
    let kind = |d: &DirectionAnswer| match d.discipline.is {
        Discipline::CannotTell => Cell::CannotTell(would_settle(d)),
        is => discipline(is).into(),
    };
    let bounded = |d: &DirectionAnswer, figure: &Figure, unit: Unit| -> Cell {
        let text = figure.print(unit);
        text.map(|text| format!("{}{text}", bound(d.queue_is)))
            .into()
    };
    let mut table = Table::new("Queues", headings(["Upload", "Download"].into_iter()));
    table.row("Kind", both.map(kind));
    table.row("Packets wait", both.map(|d| bounded(d, &d.queue_ms, DELAY)));
    table.row("It holds", both.map(|d| bounded(d, &d.queue_bytes, SIZE)));
    type Of = fn(&DirectionAnswer) -> &Figure;
    let figures: [(&str, Unit, Of); 9] = [
        ("The line needs (BDP)", SIZE, |d| &d.bdp_bytes),
        ("Too large by", TIMES, |d| &d.factor_too_large),
        ("Rate of the link", RATE, |d| &d.link_rate_bps),
        ("Goodput", RATE, |d| &d.goodput_bps),
        ("Added p50", DELAY, |d| &d.added.p50_ms),
        ("Added p95", DELAY, |d| &d.added.p95_ms),
        ("Added p99", DELAY, |d| &d.added.p99_ms),
        ("Added max", DELAY, |d| &d.added.max_ms),
        ("In-flow less probe", DELAY, |d| &d.in_flow_minus_probe_ms),
    ];
    for (label, unit, of) in figures {
        let cell = |d: &DirectionAnswer| match label {
            // A queue that an AQM keeps short is no buffer of a fixed size: its peaks are not too large.
            "Too large by" if d.queue_is == QueueIs::Controlled => Cell::Absent,
            _ => Cell::figure(of(d), unit),
        };
        table.row(label, both.map(cell));
    }
    table
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

/// Explanation of the scripts that an advice names.
pub const SCRIPTS: &str = "The scripts are in the recording. Each may be run twice, survives a reboot, and is undone by \
    the argument off; it leaves the queues alone that somebody else has set.";

/// Word for a verdict on a use.
pub fn can(can: Can) -> &'static str {
    match can {
        Can::Pass => "ok",
        Can::Fail => "not",
        Can::CannotTell => "?",
    }
}

/// Returns the verdicts on the uses of a link.
pub fn uses(answer: &Answer) -> Table {
    let rows = answer.uses.iter().map(|u| {
        let word: Cell = match u.can {
            Can::CannotTell => Cell::CannotTell(u.because.clone()),
            is => can(is).into(),
        };
        let why: Cell = match u.can {
            Can::CannotTell => Cell::Absent,
            _ => u.because.clone().into(),
        };
        (u.name.clone(), vec![word, why])
    });
    let heads = ["".into(), Column::words("Works"), Column::words("Because")];
    Table::new("Uses under load", heads).with(rows)
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
    let share = |p: &PhaseAnswer, limit: f64| -> Cell {
        let found = p.reliability.iter().find(|r| r.limit_ms == limit);
        let cell = |f: &Figure| Cell::printed(f, |v| format!("{} %", percent(v)));
        found.map(|r| cell(&r.share)).into()
    };
    let row = |limit: f64| -> Vec<Cell> { answer.phases.iter().map(|p| share(p, limit)).collect() };
    // Equal rows at the end are merged into one.
    let alike = limits
        .iter()
        .rev()
        .take_while(|l| row(**l) == row(limits[limits.len() - 1]))
        .count();
    let single = limits.len() - alike.saturating_sub(1);
    let mut table = Table::new(
        "Answered in time",
        headings(answer.phases.iter().map(|p| phase(&p.name))),
    );
    for (i, limit) in limits[..single].iter().enumerate() {
        let to = match alike > 1 && i + 1 == single {
            true => format!(" to {}", DELAY.print(limits[limits.len() - 1])),
            false => String::new(),
        };
        table.row(format!("within {}{to}", DELAY.print(*limit)), row(*limit));
    }
    table
}

/// Returns the responsiveness of the link, by each formula.
pub fn responsiveness(answer: &Answer) -> Table {
    let r = &answer.responsiveness;
    let rows = [
        ("Score", RPM, &r.rpm),
        ("From fresh connections", RPM, &r.foreign_rpm),
        ("From the load's own", RPM, &r.loaded_rpm),
        ("By the harmonic formula", RPM, &r.harmonic_rpm),
        ("Fresh connection, mean", DELAY, &r.foreign_ms),
        ("Load's own, mean", DELAY, &r.loaded_ms),
    ];
    Table::new("Responsiveness", ["", ""])
        .with(rows.map(|(label, unit, f)| (label, vec![Cell::figure(f, unit)])))
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
            _ => Cell::figure(&d.p50_ms, DELAY),
        }
    };
    let sent = format!(
        "{} of {} planned, {} slots missed",
        i.probes_sent, i.probes_planned, i.missed_slots
    );
    let busiest = i.cpu_max.map_or(
        Cell::CannotTell("the load of the host was not sampled".into()),
        |c| format!("{} % of all processors", percent(c)).into(),
    );
    let rows: [(&str, Cell); 7] = [
        ("Probes sent", sent.into()),
        ("Hosts' share, subtracted", spread(&i.host_share)),
        ("Sent late by", spread(&i.late_send)),
        ("Busiest moment", busiest),
        (
            "Far clock's offset",
            Cell::figure(&answer.clock.offset_ms, DELAY),
        ),
        (
            "Far clock's drift",
            Cell::figure(&answer.clock.drift_ppm, PPM),
        ),
        (
            "Trust in one-way delays",
            answer.clock.trust.as_str().into(),
        ),
    ];
    let parts = crate::host::parts(i.host.as_ref());
    let rows = rows
        .into_iter()
        .chain(parts.map(|p| ("Processors", Cell::Is(p))));
    Table::new("The instrument", ["", ""]).with(rows.map(|(label, cell)| (label, vec![cell])))
}

/// Returns the headings of a table whose first column has labels.
fn headings<'a>(others: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    std::iter::once("").chain(others).collect()
}
