//! Text layout in a terminal.

use crate::tables::{Cell, Notes, Table};
use crate::words;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Width in columns.
    pub width: usize,
    pub colour: bool,
    /// True if the terminal shows Unicode; otherwise the text is ASCII only.
    pub unicode: bool,
}

/// Narrowest layout, columns; a smaller terminal wraps by itself.
const NARROWEST: usize = 40;
/// Widest layout, columns: longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;

#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Strong,
    Faint,
    Green,
    Yellow,
    Red,
}

pub(crate) struct Page {
    out: String,
    pub style: Style,
    pub width: usize,
}

impl Page {
    pub(crate) fn new(style: Style) -> Page {
        Page {
            out: String::new(),
            style,
            width: style.width.clamp(NARROWEST, WIDEST),
        }
    }

    pub(crate) fn gap(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    pub(crate) fn finish(self) -> String {
        format!("{}\n", self.out.trim_end())
    }

    /// Writes one line as it is; `text` is already laid out.
    pub(crate) fn put(&mut self, text: &str, paint: Option<Paint>) {
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

    pub(crate) fn heading(&mut self, text: &str) {
        self.paragraph(text, 0, Some(Paint::Strong));
    }

    pub(crate) fn paragraph(&mut self, text: &str, indent: usize, paint: Option<Paint>) {
        for line in wrapped(&shown(text, self.style), self.width - indent) {
            self.put(&format!("{:indent$}{line}", ""), paint);
        }
    }

    pub(crate) fn item(&mut self, text: &str, paint: Option<Paint>) {
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

    /// Writes as many columns side by side as fit, the others below with the same rows; a column that does not fit
    /// alone becomes a list.
    pub(crate) fn table(&mut self, table: &Table, notes: &mut Notes) {
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
                let texts = cells.iter().map(|r| length(&r[i]));
                let head = match i {
                    // Its cells are indented by two more.
                    0 => length(&table.title).saturating_sub(2),
                    _ => length(&table.columns[i]),
                };
                texts.chain([head]).max().unwrap_or(0)
            })
            .collect();
        let mut next = 1;
        while next < count {
            let first = next;
            let mut width = 2 + widths[0];
            while next < count && width + 2 + widths[next] <= self.width {
                width += 2 + widths[next];
                next += 1;
            }
            if next == first || count == 2 {
                self.list(table, &cells, first, widths[0]);
                next = first + 1;
            } else {
                self.columns(table, &cells, first..next, &widths);
            }
            if next < count {
                self.gap();
            }
        }
        self.gap();
    }

    fn columns(
        &mut self,
        table: &Table,
        cells: &[Vec<String>],
        which: std::ops::Range<usize>,
        widths: &[usize],
    ) {
        let line = |first: &str, text: &dyn Fn(usize) -> String| {
            let rest: String = which
                .clone()
                .map(|i| format!("  {:>w$}", text(i), w = widths[i]))
                .collect();
            format!("{first:<w$}{rest}", w = widths[0] + 2)
        };
        let head = line(&table.title, &|i| table.columns[i].clone());
        self.put(&head, Some(Paint::Strong));
        for row in cells {
            self.put(&line(&format!("  {}", row[0]), &|i| row[i].clone()), None);
        }
    }

    fn list(&mut self, table: &Table, cells: &[Vec<String>], column: usize, labels: usize) {
        let name = &table.columns[column];
        self.heading(&if name.is_empty() {
            table.title.clone()
        } else {
            format!("{}: {}", table.title, name.to_lowercase())
        });
        for row in cells {
            let indent = labels + 4;
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

pub(crate) fn shown(text: &str, style: Style) -> String {
    let text = words::printable(text);
    if style.unicode {
        text
    } else {
        words::ascii(&text)
    }
}

pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

/// Wraps at spaces; a word longer than the line stays whole.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
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
