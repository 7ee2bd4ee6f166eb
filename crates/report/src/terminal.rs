//! What a person reads in a terminal after a test.

use crate::curves::Curves;
use crate::tables::{self, Cell, Notes, Table};
use crate::verdict::{of, verdict};
use crate::words::{self, DELAY, RATE, SIZE, SPAN, number, phase};
use analysis::answer::{Answer, Severity};
use base::record::{Direction, Recording};

mod plot;

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns.
    pub width: usize,
    pub colour: bool,
    /// Without it the text is ASCII only.
    pub unicode: bool,
}

/// Narrowest text that is still laid out; a smaller terminal wraps by itself.
const NARROWEST: usize = 40;
/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;

#[derive(Clone, Copy)]
enum Paint {
    Strong,
    Faint,
    Green,
    Yellow,
    Red,
}

struct Page {
    out: String,
    style: Style,
    width: usize,
}

/// The whole report as text.
pub fn text(answer: &Answer, recording: &Recording, style: Style) -> String {
    let mut page = Page {
        out: String::new(),
        style,
        width: style.width.clamp(NARROWEST, WIDEST),
    };
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
    page.heading("Grade");
    let added = match answer.grade.added_ms.value() {
        Some(ms) => format!("decided by {} of added delay", DELAY.print(ms)),
        None => format!(
            "the added delay cannot be told [{}]",
            notes.number(reason(&answer.grade.added_ms))
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
    if !notes.0.is_empty() {
        page.heading("Cannot tell");
        for (i, reason) in notes.0.iter().enumerate() {
            page.paragraph(&format!("[{}] {reason}", i + 1), 2, None);
        }
    }
    page.finish()
}

/// One line: grade, queues, base round trip, rates.
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
    let or_unknown = |v: Option<f64>, unit: words::Unit| v.map_or("?".into(), |v| unit.print(v));
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

fn reason(figure: &analysis::answer::Figure) -> &str {
    match figure {
        analysis::answer::Figure::CannotTell { cannot_tell } => cannot_tell,
        analysis::answer::Figure::Is { .. } => "",
    }
}

fn shown(text: &str, style: Style) -> String {
    let text = words::printable(text);
    if style.unicode {
        text
    } else {
        words::ascii(&text)
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
    fn gap(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn finish(self) -> String {
        format!("{}\n", self.out.trim_end())
    }

    /// Writes one line as it is; `text` has been laid out already.
    fn put(&mut self, text: &str, paint: Option<Paint>) {
        let text = shown(text, self.style);
        let code = match paint.filter(|_| self.style.colour) {
            None => {
                self.out.push_str(text.trim_end());
                self.out.push('\n');
                return;
            }
            Some(Paint::Strong) => "1",
            Some(Paint::Faint) => "2",
            Some(Paint::Green) => "1;32",
            Some(Paint::Yellow) => "1;33",
            Some(Paint::Red) => "1;31",
        };
        self.out
            .push_str(&format!("\u{1b}[{code}m{}\u{1b}[0m\n", text.trim_end()));
    }

    fn heading(&mut self, text: &str) {
        self.paragraph(text, 0, Some(Paint::Strong));
    }

    fn paragraph(&mut self, text: &str, indent: usize, paint: Option<Paint>) {
        for line in wrapped(&shown(text, self.style), self.width - indent) {
            self.put(&format!("{:indent$}{line}", ""), paint);
        }
    }

    fn item(&mut self, text: &str, paint: Option<Paint>) {
        for (i, line) in wrapped(&shown(text, self.style), self.width - 4)
            .iter()
            .enumerate()
        {
            self.put(
                &format!("  {} {line}", if i == 0 { "-" } else { " " }),
                paint,
            );
        }
    }

    /// Columns where they fit, one block a column where they do not.
    fn table(&mut self, table: &Table, notes: &mut Notes) {
        let cells: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| {
                let cell = |c: &Cell| match c {
                    Cell::Is(text) => shown(text, self.style),
                    Cell::CannotTell(reason) => format!("? [{}]", notes.number(reason)),
                    Cell::Absent => "-".into(),
                };
                std::iter::once(shown(&row.label, self.style))
                    .chain(row.cells.iter().map(cell))
                    .collect()
            })
            .collect();
        let count = table.columns.len();
        let widths: Vec<usize> = (0..count)
            .map(|i| {
                cells
                    .iter()
                    .map(|r| length(&r[i]))
                    .chain([length(&table.columns[i])])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let heads = |i: usize| {
            if i == 0 {
                &table.title
            } else {
                &table.columns[i]
            }
        };
        if count > 2 && 2 + widths.iter().sum::<usize>() + 2 * (count - 1) <= self.width {
            let line = |texts: &dyn Fn(usize) -> String, paint| {
                let first = format!("{:<w$}", texts(0), w = widths[0] + 2);
                let rest: String = (1..count)
                    .map(|i| format!("  {:>w$}", texts(i), w = widths[i]))
                    .collect();
                (format!("{first}{rest}"), paint)
            };
            let (head, paint) = line(&|i| heads(i).clone(), Some(Paint::Strong));
            self.put(&head, paint);
            for row in &cells {
                let (text, paint) = line(
                    &|i| {
                        if i == 0 {
                            format!("  {}", row[0])
                        } else {
                            row[i].clone()
                        }
                    },
                    None,
                );
                self.put(&text, paint);
            }
        } else {
            for column in 1..count {
                let name = &table.columns[column];
                self.heading(&if name.is_empty() {
                    table.title.clone()
                } else {
                    format!("{}: {}", table.title, name.to_lowercase())
                });
                for row in &cells {
                    let indent = widths[0] + 4;
                    let label = format!("  {}", row[0]);
                    if self.width < indent + NARROWEST / 2 {
                        self.put(&label, None);
                        self.paragraph(&row[column], 6, None);
                        continue;
                    }
                    for (i, line) in wrapped(&row[column], self.width - indent)
                        .iter()
                        .enumerate()
                    {
                        let before = if i == 0 { &label } else { "" };
                        self.put(&format!("{before:<indent$}{line}"), None);
                    }
                }
            }
        }
        self.gap();
    }

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
            let (word, paint) = match finding.severity {
                Severity::Bad => ("bad", Some(Paint::Red)),
                Severity::Warning => ("warning", Some(Paint::Yellow)),
                Severity::Note => ("note", None),
                Severity::Good => ("good", Some(Paint::Green)),
            };
            self.item(&format!("{word}: {}", finding.says), paint);
            for evidence in &finding.evidence {
                self.paragraph(evidence, 6, Some(Paint::Faint));
            }
        }
        self.gap();
    }

    /// Commands are never wrapped: what is copied must run.
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
        self.gap();
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Breaks at spaces; a word longer than the line stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if length(line) + 1 + length(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

/// Phase names under the time axis: each begins where the phase does, as far as the one before leaves room.
fn strip(curves: &Curves, columns: usize) -> String {
    let mut out = String::new();
    for p in &curves.phases {
        let at = (p.from_s / curves.span_s * columns as f64).round().max(0.0) as usize;
        let free = at.max(length(&out) + usize::from(!out.is_empty()));
        out.push_str(&" ".repeat(free - length(&out)));
        out.push_str(&phase(&p.name).to_lowercase());
    }
    out
}
