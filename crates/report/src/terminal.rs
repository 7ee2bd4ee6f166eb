//! Text in a terminal after a test.

use crate::curves::Curves;
use crate::table::Notes;
use crate::tables;
use crate::verdict::{of, verdict};
use crate::words;
use analysis::answer::{Answer, Severity};
use analysis::which_queue::WhichQueue;
use base::print::{DELAY, RATE, SIZE, SPAN, TIMES, number};
use base::record::{Direction, Recording};

pub(crate) mod before_after;
mod brief;
mod overview;
mod page;
mod plot;
mod probe;
mod statistics;

pub use crate::table::wrapped;
pub use before_after::before_after;
pub use brief::brief;
pub use overview::overview;
pub(crate) use overview::sentence;
pub use page::Style;
pub use page::shown;
pub(crate) use page::{Page, Paint};
pub use plot::Growing;
pub use probe::{pictures, probe};
pub use statistics::{captioned, comparison, counted, inside, statistics};

/// Renders the whole report as text.
pub fn text(answer: &Answer, recording: &Recording, style: Style) -> String {
    let mut page = Page::new(style);
    let origin = match recording.meta.origin {
        base::record::Origin::Emulated => ", over an emulated link",
        base::record::Origin::Simulated => ", simulated",
        _ => "",
    };
    page.paragraph(
        &format!(
            "{} · {} · {}{origin}",
            title(answer),
            words::moment(answer.started_ns),
            SPAN.print(answer.duration_s)
        ),
        0,
        Some(Paint::Faint),
    );
    page.gap();
    page.paragraph(&verdict(answer), 0, Some(grade_paint(&answer.grade.letter)));
    page.gap();
    page.plot(answer, recording);

    let mut notes = Notes::default();
    page.table(&tables::phases(answer), &mut notes);
    page.table(&tables::queues(answer), &mut notes);
    page.paragraph(tables::INTERVALS, 2, Some(Paint::Faint));
    for (name, d) in [("Upload", &answer.up), ("Download", &answer.down)] {
        if let Some(line) = d.discipline.evidence.first() {
            page.paragraph(&format!("{name}: {line}"), 2, None);
        }
    }
    page.gap();
    page.table(&tables::reliability(answer), &mut notes);
    page.table(&tables::responsiveness(answer), &mut notes);
    page.paragraph(&answer.responsiveness.formula, 2, Some(Paint::Faint));
    page.gap();
    page.table(&tables::uses(answer), &mut notes);
    page.heading("Grade");
    let added = match answer.grade.added_ms.value() {
        Some(ms) => format!("decided by {} of added delay", DELAY.print(ms)),
        None => format!(
            "the added delay cannot be told [{}]",
            notes.number(words::reason(&answer.grade.added_ms))
        ),
    };
    page.paragraph(
        &format!("{}: {added}. {}", answer.grade.letter, answer.grade.scale),
        2,
        None,
    );
    page.gap();
    page.findings(answer);
    page.advice(answer);
    page.table(&tables::instrument(answer), &mut notes);
    if !answer.instrument.doubts.is_empty() {
        page.heading("Doubts");
        for doubt in &answer.instrument.doubts {
            page.item(doubt, Some(Paint::Yellow));
        }
        page.gap();
    }
    page.reasons(&notes);
    page.finish()
}

/// Renders the queue found in a recording of any origin.
pub fn which_queue(found: &WhichQueue, style: Style) -> String {
    let mut page = Page::new(style);
    page.heading("Queue");
    let direction = found
        .direction
        .map_or("not told by probes alone", words::direction);
    page.paragraph(&format!("Direction: {direction}"), 2, None);
    page.paragraph(
        &format!("Kind: {}", words::discipline(found.discipline.is)),
        2,
        None,
    );
    let bound = tables::bound(found.queue_is);
    let rows = [
        ("Packets wait", bound, &found.queue_ms, DELAY),
        ("It holds", bound, &found.queue_bytes, SIZE),
        ("Base round trip", "", &found.base_rtt_ms, DELAY),
        ("Rate", "", &found.link_rate_bps, RATE),
        ("Bandwidth-delay product", "", &found.bdp_bytes, SIZE),
        ("Too large by", bound, &found.factor_too_large, TIMES),
    ];
    for (name, bound, figure, unit) in rows {
        let text = match figure.print(unit) {
            Ok(text) => format!("{name}: {bound}{text}"),
            Err(why) => format!("{name}: cannot tell: {why}"),
        };
        page.paragraph(&text, 2, None);
    }
    page.gap();
    page.heading("Evidence");
    for line in &found.discipline.evidence {
        page.item(line, None);
    }
    if let Some(settle) = &found.discipline.would_settle {
        page.paragraph(&format!("This would settle it: {settle}."), 2, None);
    }
    page.finish()
}

/// Renders one line: grade, queues, base RTT, rates.
pub fn line(answer: &Answer, style: Style) -> String {
    let queue = |d: Direction| {
        let a = of(answer, d);
        let wait = a.queue_ms.value().map_or("?".into(), |ms| {
            format!("{}{}", tables::bound(a.queue_is), DELAY.print(ms))
        });
        let size = a
            .queue_bytes
            .value()
            .map_or(String::new(), |b| format!(" in {}", SIZE.print(b)));
        let rate = a.goodput_bps.value().map_or("?".into(), |r| RATE.print(r));
        format!("{} {rate}, waits {wait}{size}", words::direction(d))
    };
    let or_unknown =
        |v: Option<f64>, unit: base::print::Unit| v.map_or("?".into(), |v| unit.print(v));
    let text = format!(
        "{}: grade {} · {} · {} · base RTT {} · {}{}",
        title(answer),
        answer.grade.letter,
        queue(Direction::Up),
        queue(Direction::Down),
        or_unknown(answer.base_rtt_ms.value(), DELAY),
        answer
            .responsiveness
            .rpm
            .value()
            .map_or("RPM ?".into(), |r| format!("{} RPM", number(r))),
        if answer.complete {
            ""
        } else {
            " · not complete"
        },
    );
    shown(&text, style)
}

fn title(answer: &Answer) -> &str {
    if answer.title.trim().is_empty() {
        "Tailback"
    } else {
        &answer.title
    }
}

fn grade_paint(letter: &str) -> Paint {
    match letter.chars().next() {
        Some('A') => Paint::Green,
        Some('B' | 'C') => Paint::Yellow,
        Some('D' | 'E' | 'F') => Paint::Red,
        _ => Paint::Strong,
    }
}

impl Page {
    fn plot(&mut self, answer: &Answer, recording: &Recording) {
        let curves = Curves::of(answer, recording);
        if curves.probes.is_empty() {
            return;
        }
        self.heading(if curves.lost_s.is_empty() {
            "Round-trip time over time, ms"
        } else {
            "Round-trip time over time, ms (x: probes lost)"
        });
        for line in plot::lines(&curves, self.width, self.style.unicode) {
            self.put(&line, None);
        }
        self.gap();
    }

    fn findings(&mut self, answer: &Answer) {
        if answer.findings.is_empty() {
            return;
        }
        self.heading("Findings");
        for finding in &answer.findings {
            let word = words::severity(finding.severity);
            let paint = match finding.severity {
                Severity::Bad => Some(Paint::Red),
                Severity::Warning => Some(Paint::Yellow),
                Severity::Note => None,
                Severity::Good => Some(Paint::Green),
            };
            self.item(&format!("{word}: {}", finding.says), paint);
            for evidence in &finding.evidence {
                self.paragraph(evidence, 6, Some(Paint::Faint));
            }
        }
        self.gap();
    }

    /// Writes the advice. Commands are never wrapped, so that copied commands run.
    fn advice(&mut self, answer: &Answer) {
        if answer.advice.is_empty() {
            return;
        }
        self.heading("What to set");
        for advice in &answer.advice {
            self.item(&format!("{} ({})", advice.what, advice.on), None);
            for command in advice.commands.iter().flat_map(|c| c.lines()) {
                self.put(&format!("      {command}"), None);
            }
        }
        if answer.advice.iter().any(|a| a.script.is_some()) {
            self.paragraph(tables::SCRIPTS, 2, Some(Paint::Faint));
        }
        self.gap();
    }
}
