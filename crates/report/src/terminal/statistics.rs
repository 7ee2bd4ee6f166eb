//! Statistics of one recording, and of several side by side, as text.

use super::page::{Page, Paint, Style};
use crate::stability;
use crate::statistics as tables;
use crate::table::{Notes, Table};
use crate::words;
use crate::{host, modem, radio};
use analysis::compare::Comparison;
use analysis::counted::CountedTraffic;
use analysis::host_load::HostSummary;
use analysis::inside::Inside;
use analysis::modem::ModemSummary;
use analysis::radio::RadioSummary;
use analysis::statistics::{Shift, ShiftCause, Statistics, TargetStatistics};
use analysis::together::Together;
use base::print::{DELAY, RATE, number};
use jiff::tz::TimeZone;
use stats::Figure;

/// Number of gaps and shifts above which they are counted, not listed.
const LISTED: usize = 40;

/// Renders statistics; times are printed in `zone`.
pub fn statistics(s: &Statistics, style: Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    let mut notes = Notes::default();
    let title = if s.title.trim().is_empty() {
        "Tailback"
    } else {
        &s.title
    };
    page.paragraph(
        &format!(
            "{title} · {} · {} to {}{}",
            words::origin(s.origin),
            words::when(s.from_ns, zone),
            words::when(s.to_ns, zone),
            if s.complete { "" } else { " · not complete" }
        ),
        0,
        Some(Paint::Faint),
    );
    if let Some(note) = tables::unsettled_note(s) {
        page.paragraph(&note, 0, None);
    }
    page.gap();
    for t in &s.targets {
        target(&mut page, &mut notes, t, zone);
    }
    if let Some(table) = stability::targets(s) {
        page.table(&table, &mut notes);
        page.paragraph(stability::NOTE, 2, Some(Paint::Faint));
        page.gap();
    }
    if !s.excluded.is_empty() {
        page.table(&tables::excluded(s, zone), &mut notes);
    }
    this_host(&mut page, s, &mut notes);
    befell(&mut page, s, zone);
    marked(&mut page, s, zone, LISTED);
    page.reasons(&notes);
    page.finish()
}

/// Writes the state of the modem, the load of the measuring host, and what it says about bad seconds.
pub(super) fn this_host(page: &mut Page, s: &Statistics, notes: &mut Notes) {
    if let Some(table) = host::uplinks(&s.uplinks) {
        page.table(&table, notes);
    }
    the_modem(page, s.modem.as_ref(), notes);
    the_radios(page, &s.radios, notes);
    if let Some(table) = host::table(s.host.as_ref(), &s.interfaces) {
        page.table(&table, notes);
        busy(page, s.host.as_ref());
    }
}

/// Writes the state of the modem.
fn the_modem(page: &mut Page, state: Option<&ModemSummary>, notes: &mut Notes) {
    let tables = modem::tables(state);
    for table in &tables {
        page.table(table, notes);
    }
    if !tables.is_empty() {
        page.paragraph(modem::NOTE, 2, Some(Paint::Faint));
        page.gap();
    }
}

/// Writes the state of the radios, and what they say about bad seconds.
fn the_radios(page: &mut Page, all: &[RadioSummary], notes: &mut Notes) {
    let Some(table) = radio::table(all) else {
        return;
    };
    page.table(&table, notes);
    for text in radio::sentences(all) {
        page.item(&text, None);
    }
    page.paragraph(radio::NOTE, 2, Some(Paint::Faint));
    page.gap();
}

/// Writes what the load of the processors says.
fn busy(page: &mut Page, load: Option<&HostSummary>) {
    let said = host::sentences(load);
    for text in &said {
        page.item(text, None);
    }
    let bad = if said.is_empty() { "" } else { host::BAD };
    if load.is_some() {
        let note = format!("{} {bad}", host::NOTE);
        page.paragraph(note.trim_end(), 2, Some(Paint::Faint));
    }
    page.gap();
}

fn befell(page: &mut Page, s: &Statistics, zone: &TimeZone) {
    if s.incidents.is_empty() {
        return;
    }
    page.heading("Incidents");
    for i in s.incidents.iter().take(LISTED) {
        let when = words::when(i.from_ns, zone);
        page.item(&format!("{when}: {}", words::incident(i)), None);
    }
    if s.incidents.len() > LISTED {
        page.item(
            &format!(
                "and {} more: see --json or --csv",
                s.incidents.len() - LISTED
            ),
            None,
        );
    }
    page.gap();
}

/// Writes the moments that the user marked.
pub(super) fn marked(page: &mut Page, s: &Statistics, zone: &TimeZone, listed: usize) {
    if s.moments.is_empty() {
        return;
    }
    page.heading("Marked moments");
    for m in s.moments.iter().take(listed) {
        page.item(&format!("{}: {}", words::when(m.t_ns, zone), m.text), None);
    }
    if s.moments.len() > listed {
        page.item(&format!("and {} more", s.moments.len() - listed), None);
    }
    page.gap();
}

/// Renders the traffic of a recording without probes.
pub fn counted(t: &CountedTraffic, style: Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    page.paragraph(&crate::counted::heading(t, zone), 0, Some(Paint::Faint));
    page.gap();
    let mut notes = Notes::default();
    for table in crate::counted::all(t, zone) {
        page.table(&table, &mut notes);
    }
    page.paragraph(&crate::counted::note(t), 2, Some(Paint::Faint));
    page.gap();
    busy(&mut page, t.host.as_ref());
    page.finish()
}

/// Renders a recording without probes.
pub fn inside(i: &Inside, style: Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    let mut notes = Notes::default();
    page.paragraph(&crate::inside::heading(i, zone), 0, Some(Paint::Faint));
    page.gap();
    for table in crate::inside::tables(i) {
        page.table(&table, &mut notes);
    }
    for remark in crate::inside::remarks(i) {
        page.paragraph(&remark, 0, None);
    }
    page.gap();
    page.heading("Cannot tell");
    for why in &i.cannot_tell {
        page.item(why, None);
    }
    page.numbered(&notes);
    page.finish()
}

fn target(page: &mut Page, notes: &mut Notes, t: &TargetStatistics, zone: &TimeZone) {
    page.table(&tables::whole(t), notes);
    let mut small = format!(
        "In brackets: the interval that holds the figure with 95 % confidence. A probe every {} ms.",
        number(t.interval_ms)
    );
    if t.rounding > 0.0 {
        small += &format!(
            " Some probes were thinned to histograms: round trips are good to {} %.",
            number(100.0 * t.rounding)
        );
    }
    page.paragraph(&small, 2, Some(Paint::Faint));
    page.gap();
    for (title, spans) in [
        ("Phases and spans", [&t.phases[..], &t.spans[..]].concat()),
        ("Days", t.days.clone()),
        ("Windows", t.windows.clone()),
    ] {
        if !spans.is_empty() {
            page.table(&tables::spans(title, &spans), notes);
        }
    }
    page.table(&tables::in_time(t, zone), notes);
    for l in &t.loaded {
        let text = match (&l.summary, l.rate_bps.value()) {
            (Some(_), Some(rate)) => format!(
                "Full {}: {} in all at {} or nearly so ({}).",
                l.direction,
                words::lasting(l.seconds),
                RATE.print(rate),
                l.rate_from
            ),
            (None, Some(rate)) => {
                format!(
                    "Never full {}: {} was not reached.",
                    l.direction,
                    RATE.print(rate)
                )
            }
            _ => format!(
                "Full {}: cannot tell [{}].",
                l.direction,
                notes.number(words::reason(&l.rate_bps))
            ),
        };
        page.paragraph(&text, 2, None);
    }
    if let Some(w) = t.worst.first() {
        page.paragraph(
            &format!(
                "Worst: the sliding window of {} with the fewest answers in time, for each limit.",
                words::lasting((w.to_ns - w.from_ns) as f64 / 1e9)
            ),
            2,
            Some(Paint::Faint),
        );
    }
    page.gap();
    if let Some(table) = stability::days(t) {
        page.table(&table, notes);
    }
    for table in tables::services(t) {
        page.table(&table, notes);
    }
    holes(page, t, zone);
    baseline(page, t, zone);
}

fn span(from_ns: i64, to_ns: i64, zone: &TimeZone) -> String {
    format!(
        "{} to {} ({})",
        words::when(from_ns, zone),
        words::when(to_ns, zone),
        words::lasting((to_ns - from_ns) as f64 / 1e9)
    )
}

/// Writes gaps and outages.
fn holes(page: &mut Page, t: &TargetStatistics, zone: &TimeZone) {
    let span = |from, to| span(from, to, zone);
    page.heading(&format!(
        "Gaps and outages of {} and more",
        words::lasting(t.shortest_hole_s)
    ));
    if let Figure::Is { value, low, high } = t.availability {
        let between = match words::nines(low) == words::nines(high) {
            true => String::new(),
            false => format!(
                " ({} to {}, as far as the probes tell)",
                words::nines(low),
                words::nines(high)
            ),
        };
        page.paragraph(
            &format!(
                "Available for {} %{between} of the time in which probes were due. Time in which the network kept them from \
                 leaving counts as without an answer; time in which this host did not probe does not count.",
                words::nines(value)
            ),
            2,
            None,
        );
    }
    if t.gaps.is_empty() && t.outages.is_empty() {
        page.paragraph("none", 2, None);
    }
    for g in t.gaps.iter().take(LISTED) {
        let (when, why) = (span(g.from_ns, g.to_ns), words::why_gap(g));
        page.item(&format!("gap {when}: {why}"), None);
    }
    for o in t.outages.iter().take(LISTED) {
        page.item(
            &format!(
                "outage {}: {} probes lost or kept from leaving; {}",
                span(o.from_ns, o.to_ns),
                o.lost,
                match &*o.cause {
                    "" => format!("cause {}", words::cause(o)),
                    cause => cause.to_owned(),
                }
            ),
            Some(Paint::Yellow),
        );
    }
    for (what, n) in [("gaps", t.gaps.len()), ("outages", t.outages.len())] {
        if n > LISTED {
            page.item(&format!("and {} further {what}", n - LISTED), None);
        }
    }
    page.gap();
}

/// Writes the shifts of the base delay, and the queues that looked like one.
fn baseline(page: &mut Page, t: &TargetStatistics, zone: &TimeZone) {
    page.heading("Base line");
    page.paragraph(&t.baseline.method, 2, Some(Paint::Faint));
    let shifts = t.baseline.shifts.iter();
    let (queues, others): (Vec<&Shift>, Vec<&Shift>) =
        shifts.partition(|s| s.cause == ShiftCause::Queue);
    if t.baseline.shifts.is_empty() && t.baseline.looked {
        page.paragraph("no shifts", 2, None);
    }
    let sign = |s: &Shift| {
        let plus = if s.step_ms > 0.0 { "+" } else { "" };
        format!("{plus}{}", DELAY.print(s.step_ms))
    };
    for s in others.iter().take(LISTED) {
        let (why, paint) = match s.intervals {
            Some(n) if s.cause == ShiftCause::Instrument => (
                format!(
                    "{n} × the interval between probes: a fault of the instrument, not of the link"
                ),
                Some(Paint::Red),
            ),
            _ if s.cause == ShiftCause::CannotTell => {
                ("another path or a queue: cannot tell".into(), None)
            }
            _ => ("with no more spread: another path".into(), None),
        };
        let (when, base) = (span(s.from_ns, s.to_ns, zone), DELAY.print(s.base_ms));
        page.item(&format!("{when}: {} to {base}, {why}", sign(s)), paint);
    }
    if others.len() > LISTED {
        let more = others.len() - LISTED;
        page.item(&format!("and {more} further shifts"), None);
    }
    let (full, empty): (Vec<&Shift>, Vec<&Shift>) = queues.iter().partition(|s| s.step_ms > 0.0);
    for (queues, what, spread) in [
        (full, "a queue that was not empty for minutes", "more"),
        (
            empty,
            "a queue that usually stands was empty for minutes",
            "less",
        ),
    ] {
        let largest = |a: &&&Shift, b: &&&Shift| a.step_ms.abs().total_cmp(&b.step_ms.abs());
        let Some(largest) = queues.iter().max_by(largest) else {
            continue;
        };
        let times = match queues.len() {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        let all = queues.iter().map(|s| s.to_ns - s.from_ns).sum::<i64>();
        page.item(
            &format!(
                "{what}: {times}, {} in all; most {}: {} with {spread} spread",
                words::lasting(all as f64 / 1e9),
                span(largest.from_ns, largest.to_ns, zone),
                sign(largest)
            ),
            None,
        );
    }
    page.gap();
}

/// Renders several recordings side by side, and as redundant links of one place.
pub fn comparison(
    c: &Comparison,
    together: Option<&Together>,
    style: Style,
    zone: &TimeZone,
) -> String {
    let mut page = Page::new(style);
    let mut notes = Notes::default();
    for (i, r) in c.recordings.iter().enumerate() {
        page.paragraph(
            &format!(
                "{}: {} · {}",
                tables::letter(i),
                r.name,
                words::origin(r.origin)
            ),
            0,
            None,
        );
    }
    page.gap();
    for table in tables::comparison(c) {
        page.table(&table, &mut notes);
    }
    page.paragraph(&c.method, 2, Some(Paint::Faint));
    page.gap();
    if let Some(t) = together {
        page.table(&tables::together(t), &mut notes);
        page.paragraph(
            &format!(
                "{} in which all were probed, {} probes beside each other. If independent: what the links would make if their failures had nothing to do with each other.",
                words::lasting(t.seconds),
                t.compared
            ),
            2,
            Some(Paint::Faint),
        );
        for (from, to) in t.outages.iter().take(LISTED) {
            page.item(
                &format!("no link worked {}", span(*from, *to, zone)),
                Some(Paint::Yellow),
            );
        }
        if t.outages.len() > LISTED {
            page.item(
                &format!("and {} times more", t.outages.len() - LISTED),
                None,
            );
        }
        page.gap();
    }
    page.reasons(&notes);
    page.finish()
}

/// Renders tables with their captions.
pub fn captioned(all: &[(String, Table)], style: Style) -> String {
    let mut page = Page::new(style);
    let mut notes = Notes::default();
    for (caption, table) in all {
        page.paragraph(caption, 0, None);
        page.table(table, &mut notes);
    }
    page.reasons(&notes);
    page.finish()
}
