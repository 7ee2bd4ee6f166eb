//! Statistics on one screen: a sentence, a row a target, the uses that work, outages with their causes, incidents.

use super::page::{Page, Paint, Style};
use super::statistics::{marked, this_host};
use crate::stability;
use crate::statistics as tables;
use crate::table::Notes;
use crate::words;
use analysis::answer::UseAnswer;
use analysis::holes::Outage;
use analysis::services::Can;
use analysis::statistics::{ShiftCause, Statistics, TargetStatistics};
use base::print::DELAY;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// Number of outages and of incidents that are listed.
const LISTED: usize = 5;
/// Number of targets whose uses are listed.
const TARGETS: usize = 6;

/// Renders the statistics on one screen; times are printed in `zone`.
pub fn overview(s: &Statistics, style: Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    let title = match s.title.trim() {
        "" => "Tailback",
        title => title,
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
    let (said, paint) = verdict(s, zone);
    page.paragraph(&said, 0, Some(paint));
    if let Some(note) = tables::unsettled_note(s) {
        page.paragraph(&note, 0, None);
    }
    page.gap();
    page.table(&tables::targets(s), &mut Notes::default());
    page.paragraph(&tables::targets_note(s), 2, Some(Paint::Faint));
    page.gap();
    uses(&mut page, s);
    page_stability(&mut page, s);
    outages(&mut page, s, zone);
    this_host(&mut page, s, &mut Notes::default());
    notes(&mut page, s, zone);
    marked(&mut page, s, zone, 2 * LISTED);
    page.paragraph(
        "All tables: --full; for programs: --json, --csv.",
        0,
        Some(Paint::Faint),
    );
    page.finish()
}

/// Target that the sentence is about: our own probes, or the one probed most.
fn main_target(s: &Statistics) -> Option<&TargetStatistics> {
    let own = s.targets.iter().find(|t| t.target == "udp");
    own.or_else(|| s.targets.iter().max_by_key(|t| t.whole.sent))
}

/// Returns the sentence about the whole recording: its outages, and the uses that its delays allow.
fn verdict(s: &Statistics, zone: &TimeZone) -> (String, Paint) {
    let Some(t) = main_target(s) else {
        return ("No target was probed.".into(), Paint::Yellow);
    };
    let all: Vec<(&str, &Outage)> = s
        .targets
        .iter()
        .flat_map(|t| t.outages.iter().map(|o| (t.target.as_str(), o)))
        .collect();
    let length = |o: &Outage| (o.to_ns - o.from_ns) as f64 / 1e9;
    let longest = all
        .iter()
        .max_by(|a, b| length(a.1).total_cmp(&length(b.1)));
    let there = match longest {
        None if s.unsettled.as_ref().is_some_and(|u| u.is_all) => {
            "Outages cannot be told yet.".into()
        }
        None => format!(
            "No outage of {} or more.",
            words::lasting(
                s.targets
                    .iter()
                    .map(|t| t.shortest_hole_s)
                    .fold(0.0, f64::max)
            )
        ),
        Some((target, o)) => {
            format!(
                "{} outage{}, the longest {} at {} ({target}).",
                all.len(),
                if all.len() == 1 { "" } else { "s" },
                words::lasting(length(o)),
                words::when(o.from_ns, zone)
            ) + &silent_at_the_end(&all)
        }
    };
    let with = |can: Can| -> Vec<&str> {
        let found = t.uses.iter().filter(|u| u.can == can);
        found.map(|u| u.name.as_str()).collect()
    };
    let (fail, unknown) = (with(Can::Fail), with(Can::CannotTell));
    let carried = match (fail.is_empty(), unknown.is_empty()) {
        (true, true) if !t.outages.is_empty() => {
            format!(
                "Between outages, delay and loss to {} suit all uses.",
                t.target
            )
        }
        (true, true) => format!("Delay and loss to {} suit all uses.", t.target),
        (true, false) => format!(
            "Delay and loss to {} do not tell if these work: {}.",
            t.target,
            unknown.join(", ")
        ),
        (false, _) => format!(
            "Delay or loss to {} is too much for: {}.",
            t.target,
            fail.join(", ")
        ),
    };
    let paint = match (all.is_empty(), fail.is_empty(), unknown.is_empty()) {
        (_, false, _) => Paint::Red,
        (true, true, true) => Paint::Green,
        _ => Paint::Yellow,
    };
    (format!("{there} {carried}"), paint)
}

/// Names the targets whose last outage has not ended.
fn silent_at_the_end(all: &[(&str, &Outage)]) -> String {
    // A target that was left and begun again has an outage at each end.
    let silent: BTreeSet<&str> = all
        .iter()
        .filter(|(_, o)| !o.ended)
        .map(|(target, _)| *target)
        .collect();
    let silent: Vec<&str> = silent.into_iter().collect();
    match silent.is_empty() {
        true => String::new(),
        false => format!(" No answer at the end: {}.", silent.join(", ")),
    }
}

/// Returns the sentence about the whole recording.
pub(crate) fn sentence(s: &Statistics, zone: &TimeZone) -> String {
    verdict(s, zone).0
}

fn word(u: &UseAnswer) -> String {
    format!("{} {}", u.name, crate::tables::can(u.can))
}

fn uses(page: &mut Page, s: &Statistics) {
    page.heading("Uses, by delay and loss alone");
    let fails = |t: &&TargetStatistics| t.uses.iter().any(|u| u.can == Can::Fail);
    let mut shown: Vec<&TargetStatistics> = s.targets.iter().collect();
    if shown.len() > TARGETS {
        shown.sort_by_key(|t| !fails(t));
        shown.truncate(TARGETS);
    }
    for t in &shown {
        let all: Vec<String> = t.uses.iter().map(word).collect();
        page.item(&format!("{}: {}", t.target, all.join(" · ")), None);
        if let Some(u) = t.uses.iter().find(|u| u.can == Can::Fail) {
            page.paragraph(&format!("{}: {}", u.name, u.because), 6, None);
        }
    }
    if s.targets.len() > shown.len() {
        let more = s.targets.len() - shown.len();
        page.item(&format!("and {more} further targets"), None);
    }
    page.gap();
}

fn page_stability(page: &mut Page, s: &Statistics) {
    let said: Vec<String> = stability::sentences(s);
    if said.is_empty() {
        return;
    }
    page.heading("Stability");
    for text in said.iter().take(TARGETS) {
        page.item(text, None);
    }
    if said.len() > TARGETS {
        page.item(
            &format!("and {} further targets", said.len() - TARGETS),
            None,
        );
    }
    page.gap();
}

fn outages(page: &mut Page, s: &Statistics, zone: &TimeZone) {
    let mut all: Vec<(&str, &Outage)> = s
        .targets
        .iter()
        .flat_map(|t| t.outages.iter().map(|o| (t.target.as_str(), o)))
        .collect();
    if all.is_empty() {
        return;
    }
    page.heading("Outages, the longest first");
    all.sort_by_key(|(_, o)| o.from_ns - o.to_ns);
    for (target, o) in all.iter().take(LISTED) {
        page.item(
            &format!(
                "{} · {} · {target} · cause: {}",
                words::when(o.from_ns, zone),
                words::lasting((o.to_ns - o.from_ns) as f64 / 1e9),
                words::cause(o)
            ),
            Some(Paint::Yellow),
        );
    }
    if all.len() > LISTED {
        page.item(&format!("and {} further outages", all.len() - LISTED), None);
    }
    page.gap();
}

/// Writes gaps, incidents and shifts of the base line.
fn notes(page: &mut Page, s: &Statistics, zone: &TimeZone) {
    let mut said: Vec<String> = Vec::new();
    for t in &s.targets {
        let shifts = t.baseline.shifts.iter();
        let shifts = shifts.filter(|s| s.cause != ShiftCause::Queue);
        for shift in shifts.take(1) {
            let what = match shift.cause {
                ShiftCause::Instrument => "a fault of the instrument: see --exclude-faults",
                ShiftCause::CannotTell => "another path or a queue",
                _ => "another path",
            };
            said.push(format!(
                "{}: {}: base line {} to {}: {what}",
                words::when(shift.from_ns, zone),
                t.target,
                if shift.step_ms > 0.0 { "up" } else { "down" },
                DELAY.print(shift.base_ms)
            ));
        }
        if let Some(g) = t.gaps.first() {
            said.push(format!(
                "{}: {}: nothing recorded for {}, {}{}",
                words::when(g.from_ns, zone),
                t.target,
                words::lasting((g.to_ns - g.from_ns) as f64 / 1e9),
                words::why_gap(g),
                match t.gaps.len() {
                    1 => String::new(),
                    n => format!("; {} further gaps", n - 1),
                }
            ));
        }
    }
    for i in &s.incidents {
        let when = words::when(i.from_ns, zone);
        said.push(format!("{when}: {}", words::incident(i)));
    }
    for x in &s.excluded {
        said.push(format!("left out: {}", x.span.reason));
    }
    if said.is_empty() {
        return;
    }
    page.heading("Incidents");
    for text in said.iter().take(LISTED) {
        page.item(text, None);
    }
    if said.len() > LISTED {
        page.item(&format!("and {} more", said.len() - LISTED), None);
    }
    page.gap();
}
