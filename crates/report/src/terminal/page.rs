//! Text layout in a terminal.

use crate::table::{Notes, Table, wrapped};
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

    /// Writes a table and a blank line.
    pub(crate) fn table(&mut self, table: &Table, notes: &mut Notes) {
        let style = self.style;
        for line in table.lines(self.width, 2, notes, &|text| shown(text, style)) {
            self.put(&line.text, line.head.then_some(Paint::Strong));
        }
        self.gap();
    }

    /// Writes the reasons for missing figures, if there are any.
    pub(crate) fn reasons(&mut self, notes: &Notes) {
        if !notes.0.is_empty() {
            self.heading("Cannot tell");
            self.numbered(notes);
        }
    }

    pub(crate) fn numbered(&mut self, notes: &Notes) {
        for (i, reason) in notes.0.iter().enumerate() {
            self.paragraph(&format!("[{}] {reason}", i + 1), 2, None);
        }
    }
}

/// Returns a text without control characters, and in ASCII for a terminal without Unicode.
pub fn shown(text: &str, style: Style) -> String {
    let text = words::printable(text);
    if style.unicode {
        text
    } else {
        words::ascii(&text)
    }
}
