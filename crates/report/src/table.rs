//! Table of a report: columns with unit and alignment, rows of typed cells, and its renderings as text, HTML, Markdown
//! and CSV.

use base::print::{Unit, number};
use maud::{Markup, html};
use stats::Figure;
use std::ops::Range;

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Is(String),
    /// Mean, and the half-width of its interval. In a column, both are aligned.
    Estimate {
        mean: String,
        half: String,
    },
    /// Figure that could not be measured, with the reason.
    CannotTell(String),
    /// Figure that does not apply, such as the download rate of the idle phase.
    Absent,
}

impl Cell {
    /// Converts a figure to its value, interval and unit.
    pub fn figure(figure: &Figure, unit: Unit) -> Cell {
        figure.print(unit).into()
    }

    /// Converts a figure to its value alone, in units of `size`; the unit is in the heading.
    pub fn value(figure: &Figure, size: f64) -> Cell {
        Cell::printed(figure, |v| number(v / size))
    }

    /// Converts a figure to its value alone, in this form.
    pub fn printed(figure: &Figure, form: impl Fn(f64) -> String) -> Cell {
        match figure {
            Figure::Is { value, .. } => Cell::Is(form(*value)),
            Figure::CannotTell { cannot_tell } => Cell::CannotTell(cannot_tell.clone()),
        }
    }

    /// Returns the cell as plain text.
    fn plain(&self) -> String {
        match self {
            Cell::Is(text) => text.clone(),
            Cell::Estimate { mean, half } => format!("{mean} {half}").trim_end().to_owned(),
            Cell::CannotTell(why) => format!("cannot tell: {why}"),
            Cell::Absent => String::new(),
        }
    }

    /// Returns what a terminal shows: the main part, and the half-width of the interval.
    fn parts(&self, notes: &mut Notes, shown: &dyn Fn(&str) -> String) -> [String; 2] {
        match self {
            Cell::Is(text) => [shown(text), String::new()],
            Cell::Estimate { mean, half } => [shown(mean), shown(half)],
            Cell::CannotTell(reason) => [format!("? [{}]", notes.number(reason)), String::new()],
            Cell::Absent => ["-".into(), String::new()],
        }
    }

    fn html(&self, id: &str, notes: &mut Notes) -> Markup {
        match self {
            Cell::Is(_) | Cell::Estimate { .. } => html! { (self.plain()) },
            Cell::Absent => html! { span.absent { "–" span.hidden { "does not apply" } } },
            Cell::CannotTell(reason) => {
                let number = notes.number(reason);
                html! { a.unknown href=(format!("#why-{id}-{number}")) title=(reason) { "?" sup { (number) } span.hidden { " cannot tell" } } }
            }
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Is(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Is(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Is(count.to_string())
    }
}

impl From<Result<String, String>> for Cell {
    fn from(text: Result<String, String>) -> Cell {
        text.map_or_else(Cell::CannotTell, Cell::Is)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::Absent, Into::into)
    }
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub head: String,
    /// Unit of all figures in the column; empty if the cells have units of their own, or none.
    pub unit: String,
    pub align: Align,
}

impl Column {
    /// Makes a column of numbers whose unit is in the heading.
    pub fn of(head: impl Into<String>, unit: impl Into<String>) -> Column {
        Column {
            unit: unit.into(),
            ..Column::from(head.into())
        }
    }

    /// Makes a column of words.
    pub fn words(head: impl Into<String>) -> Column {
        Column {
            align: Align::Left,
            ..Column::from(head.into())
        }
    }

    fn heading(&self) -> String {
        match (&*self.head, &*self.unit) {
            (head, "") => head.to_owned(),
            ("", unit) => unit.to_owned(),
            (head, unit) => format!("{head} {unit}"),
        }
    }
}

impl From<String> for Column {
    fn from(head: String) -> Column {
        Column {
            head,
            unit: String::new(),
            align: Align::Right,
        }
    }
}

impl From<&str> for Column {
    fn from(head: &str) -> Column {
        Column::from(head.to_owned())
    }
}

/// Table with a label in the first cell of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Title; the heading of the first column where that has none of its own.
    pub title: String,
    pub columns: Vec<Column>,
    /// Rows with as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
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

    fn html(&self, id: &str) -> Markup {
        html! {
            @if !self.0.is_empty() {
                ol.reasons { @for (i, reason) in self.0.iter().enumerate() { li id=(format!("why-{id}-{}", i + 1)) { "Cannot tell: " (reason) "." } } }
            }
        }
    }
}

/// Line of a table in a terminal.
pub struct Line {
    /// True for headings.
    pub head: bool,
    pub text: String,
}

/// Space between two columns.
const GAP: usize = 2;
/// Smallest width in which text is wrapped.
const NARROWEST: usize = 20;
/// Number of columns above which the cells of a page's table may wrap, so that it fits the page.
const WIDE: usize = 7;
/// Number of characters above which the text of a cell may be wrapped in a browser.
const LONG: usize = 40;

impl Table {
    /// Makes a table without rows; the first column holds the labels, which are words.
    pub fn new<C: Into<Column>>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Table {
        let mut columns: Vec<Column> = columns.into_iter().map(Into::into).collect();
        if let Some(first) = columns.first_mut() {
            first.align = Align::Left;
        }
        Table {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Aligns the labels as numbers.
    pub fn numbered(mut self) -> Table {
        if let Some(first) = self.columns.first_mut() {
            first.align = Align::Right;
        }
        self
    }

    /// Appends a row.
    pub fn row<C: Into<Cell>>(
        &mut self,
        label: impl Into<Cell>,
        cells: impl IntoIterator<Item = C>,
    ) {
        let label = std::iter::once(label.into());
        let mut row: Vec<Cell> = label.chain(cells.into_iter().map(Into::into)).collect();
        row.resize(self.columns.len(), Cell::Absent);
        self.rows.push(row);
    }

    /// Appends rows.
    pub fn with<L: Into<Cell>, C: Into<Cell>>(
        mut self,
        rows: impl IntoIterator<Item = (L, Vec<C>)>,
    ) -> Table {
        for (label, cells) in rows {
            self.row(label, cells);
        }
        self
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps the first `most` rows, and returns the number of those that it drops.
    pub fn truncate(&mut self, most: usize) -> usize {
        let dropped = self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
        dropped
    }

    /// Drops all but the last rows; returns the number of those dropped.
    pub fn keep_last(&mut self, most: usize) -> usize {
        let dropped = self.rows.len().saturating_sub(most);
        self.rows.drain(..dropped);
        dropped
    }

    /// Aligns columns with words to the left: those with a cell that starts with a letter, or is long.
    pub fn aligned(mut self) -> Table {
        let words = |cell: &Cell| match cell {
            Cell::Is(text) => text.starts_with(char::is_alphabetic) || text.len() > LONG,
            _ => false,
        };
        for (i, column) in self.columns.iter_mut().enumerate() {
            if self.rows.iter().any(|r| words(&r[i])) {
                column.align = Align::Left;
            }
        }
        self
    }

    /// Removes columns without any figure.
    pub fn without_empty_columns(mut self) -> Table {
        let used: Vec<bool> = (0..self.columns.len())
            .map(|i| self.rows.iter().any(|r| r[i] != Cell::Absent))
            .collect();
        let mut kept = used.iter();
        self.columns.retain(|_| kept.next() == Some(&true));
        for row in &mut self.rows {
            let mut kept = used.iter();
            row.retain(|_| kept.next() == Some(&true));
        }
        self
    }

    /// Returns the heading of a column.
    pub fn heading(&self, column: usize) -> String {
        match self.columns[column].heading() {
            head if column == 0 && head.is_empty() => self.title.clone(),
            head => head,
        }
    }

    fn headings(&self) -> Vec<String> {
        (0..self.columns.len()).map(|i| self.heading(i)).collect()
    }

    /// Renders the table for a terminal of this width, with the reasons for missing figures below it.
    pub fn text(&self, width: usize) -> String {
        let mut notes = Notes::default();
        let mut out = String::new();
        for line in self.lines(width, 0, &mut notes, &str::to_owned) {
            out += line.text.trim_end();
            out.push('\n');
        }
        for (i, reason) in notes.0.iter().enumerate() {
            out += &format!("[{}] cannot tell: {reason}\n", i + 1);
        }
        out
    }

    /// Returns the lines of the table in a terminal: as many columns side by side as fit, the others below with the
    /// same rows. A column that does not fit alone becomes a list. Labels are indented; `shown` converts texts for the
    /// terminal.
    pub fn lines(
        &self,
        width: usize,
        indent: usize,
        notes: &mut Notes,
        shown: &dyn Fn(&str) -> String,
    ) -> Vec<Line> {
        let mut grid = Grid::new(self, width, indent, notes, shown);
        let count = self.columns.len();
        let mut out = Vec::new();
        let mut next = 1;
        while next < count {
            if next > 1 {
                out.push(Line {
                    head: false,
                    text: String::new(),
                });
            }
            let first = next;
            next = grid.fitting(first);
            if next == first || (count == 2 && !grid.plain()) {
                grid.list(first, &mut out);
                next = first + 1;
            } else {
                grid.side_by_side(first..next, &mut out);
            }
        }
        out
    }

    /// Renders the table as HTML, with the reasons for missing figures below it.
    pub fn html(&self, id: &str) -> Markup {
        let mut notes = Notes::default();
        let words: Vec<bool> = self
            .columns
            .iter()
            .map(|c| c.align == Align::Left)
            .collect();
        let rows: Vec<Vec<Markup>> = self
            .rows
            .iter()
            .map(|r| r.iter().map(|c| c.html(id, &mut notes)).collect())
            .collect();
        let class = |row: usize, i: usize| match words[i] {
            true if self.rows[row][i].plain().len() > LONG => Some("words long"),
            true => Some("words"),
            false => None,
        };
        let head = |i: usize| (i > 0 && words[i]).then_some("words");
        html! {
            div.scroll role="region" tabindex="0" aria-label=(format!("{} (table)", self.title)) {
                table class=[(self.columns.len() > WIDE).then_some("wide")] {
                    thead { tr {
                        @for (i, c) in self.columns.iter().enumerate() {
                            th class=[head(i)] scope="col" { (c.heading()) @if i == 0 { span.hidden { (self.title) } } }
                        }
                    } }
                    tbody {
                        @for (n, row) in rows.iter().enumerate() { tr {
                            @for (i, c) in row.iter().enumerate() {
                                @if i == 0 { th scope="row" { (c) } } @else { td class=[class(n, i)] { (c) } }
                            }
                        } }
                    }
                }
            }
            (notes.html(id))
        }
    }

    /// Renders one column as names with values.
    pub fn html_list(&self, column: usize, id: &str) -> Markup {
        let mut notes = Notes::default();
        let values: Vec<Markup> = self
            .rows
            .iter()
            .map(|r| r[column].html(id, &mut notes))
            .collect();
        html! {
            dl.list { @for (row, value) in self.rows.iter().zip(&values) { div { dt { (row[0].plain()) } dd { (value) } } } }
            (notes.html(id))
        }
    }

    /// Renders the table as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut out = line(self.headings());
        out += &format!("|{}\n", "---|".repeat(self.columns.len()));
        for row in &self.rows {
            out += &line(row.iter().map(Cell::plain).collect());
        }
        out
    }

    /// Renders the table as CSV (RFC 4180, *Common Format and MIME Type for CSV Files*), with lines that end in LF.
    pub fn csv(&self) -> String {
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
        let rows = self
            .rows
            .iter()
            .map(|row| line(row.iter().map(Cell::plain).collect()));
        std::iter::once(line(self.headings())).chain(rows).collect()
    }
}

/// Layout of a table in a terminal.
struct Grid<'t> {
    table: &'t Table,
    width: usize,
    indent: usize,
    heads: Vec<String>,
    /// Main part and half-width of each cell.
    cells: Vec<Vec<[String; 2]>>,
    /// Widths of main part and half-width of each column.
    widths: Vec<[usize; 2]>,
}

impl<'t> Grid<'t> {
    fn new(
        table: &'t Table,
        width: usize,
        indent: usize,
        notes: &mut Notes,
        shown: &dyn Fn(&str) -> String,
    ) -> Grid<'t> {
        let heads: Vec<String> = table.headings().iter().map(|h| shown(h)).collect();
        let cells: Vec<Vec<[String; 2]>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|c| c.parts(notes, shown)).collect())
            .collect();
        let widths = heads.iter().enumerate().map(|(i, head)| {
            let most = |part: usize| cells.iter().map(|r| length(&r[i][part])).max();
            let half = most(1).unwrap_or(0);
            let head = match i {
                // Labels are indented, their heading is not.
                0 => length(head).saturating_sub(indent),
                _ => length(head).saturating_sub(half + usize::from(half > 0)),
            };
            [most(0).unwrap_or(0).max(head), half]
        });
        Grid {
            table,
            width,
            indent,
            widths: widths.collect(),
            heads,
            cells,
        }
    }

    /// True for a grid without a title, whose two columns stand side by side.
    fn plain(&self) -> bool {
        self.indent == 0
    }

    fn whole(&self, column: usize) -> usize {
        let [main, half] = self.widths[column];
        main + half + usize::from(half > 0)
    }

    /// Returns the column behind those that fit side by side from `first` on. The last column, if it has words, is
    /// narrowed to the space that is left.
    fn fitting(&mut self, first: usize) -> usize {
        let mut next = first;
        let mut used = self.indent + self.widths[0][0];
        while next < self.widths.len() && used + GAP + self.whole(next) <= self.width {
            used += GAP + self.whole(next);
            next += 1;
        }
        let last = next + 1 == self.widths.len() && self.table.columns[next].align == Align::Left;
        if last && (next > first || self.plain()) && used + GAP + NARROWEST <= self.width {
            self.widths[next] = [self.width - used - GAP, 0];
            next += 1;
        }
        next
    }

    fn side_by_side(&self, which: Range<usize>, out: &mut Vec<Line>) {
        let label = self.indent + self.widths[0][0];
        let numbered = self.table.columns[0].align == Align::Right;
        let mut head = match numbered {
            true => format!("{:>label$}", self.heads[0]),
            false => format!("{:<label$}", self.heads[0]),
        };
        for i in which.clone() {
            let (text, w) = (&self.heads[i], self.whole(i));
            head += &match self.table.columns[i].align {
                Align::Left => format!("  {text:<w$}"),
                Align::Right => format!("  {text:>w$}"),
            };
        }
        if !head.trim().is_empty() {
            out.push(Line {
                head: true,
                text: head,
            });
        }
        for row in &self.cells {
            let width = self.widths[0][0];
            let mut line = match numbered {
                true => format!("{:1$}{2:>width$}", "", self.indent, row[0][0]),
                false => format!("{:1$}{2:<width$}", "", self.indent, row[0][0]),
            };
            let mut rest = Vec::new();
            for i in which.clone() {
                let ([main, half], [w, h]) = (&row[i], self.widths[i]);
                line += &match (self.table.columns[i].align, h) {
                    (Align::Left, _) => {
                        let mut lines = wrapped(main, w).into_iter();
                        let first = match length(main) <= w {
                            true => main.clone(),
                            false => {
                                let first = lines.next().unwrap_or_default();
                                rest.extend(lines.map(|l| (length(&line) + GAP, l)));
                                first
                            }
                        };
                        format!("  {first:<w$}")
                    }
                    (Align::Right, 0) => format!("  {main:>w$}"),
                    (Align::Right, h) => format!("  {main:>w$} {half:<h$}"),
                };
            }
            let rest = rest
                .into_iter()
                .map(|(at, text)| format!("{:at$}{text}", ""));
            out.extend(
                std::iter::once(line)
                    .chain(rest)
                    .map(|text| Line { head: false, text }),
            );
        }
    }

    fn list(&self, column: usize, out: &mut Vec<Line>) {
        let name = &self.heads[column];
        let text = match (&*self.heads[0], &**name) {
            (title, "") => title.to_owned(),
            ("", name) => name.to_owned(),
            (title, name) => format!("{title}: {}", name.to_lowercase()),
        };
        if !text.is_empty() {
            out.push(Line { head: true, text });
        }
        let labels = self.widths[0][0] + self.indent + GAP;
        for row in &self.cells {
            let label = format!("{:indent$}{}", "", row[0][0], indent = self.indent);
            let text = row[column].join(" ");
            let (before, indent) = match self.width < labels + NARROWEST {
                true => (None, self.indent + 4),
                false => (Some(label.clone()), labels),
            };
            if before.is_none() {
                out.push(Line {
                    head: false,
                    text: label,
                });
            }
            let mut before = before.unwrap_or_default();
            for line in wrapped(&text, self.width - indent.min(self.width)) {
                let text = format!("{before:<indent$}{line}");
                before.clear();
                out.push(Line { head: false, text });
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    fn table() -> Table {
        let heads = [
            "".into(),
            Column::of("rate", "Mbit/s"),
            Column::words("why"),
        ];
        let mut table = Table::new("Links", heads);
        let rate = |mean: &str, half: &str| Cell::Estimate {
            mean: mean.into(),
            half: half.into(),
        };
        table.row("up", [rate("0.7", "±0.05"), "a, \"b\" | c".into()]);
        table.row(
            "down",
            [Cell::CannotTell("it was dark".into()), Cell::Absent],
        );
        table.row("both", [rate("12.25", ""), "1".into()]);
        table
    }

    #[test]
    fn the_four_renderings_hold_the_same_cells() {
        let table = table();
        let lines = [
            "Links  rate Mbit/s  why",
            "up       0.7 ±0.05  a, \"b\" | c",
            "down   ? [1]        -",
            "both   12.25        1",
            "[1] cannot tell: it was dark",
        ];
        assert_eq!(table.text(60).lines().collect::<Vec<_>>(), lines);
        assert_eq!(
            table.markdown(),
            "| Links | rate Mbit/s | why |\n|---|---|---|\n| up | 0.7 ±0.05 | a, \"b\" \\| c |\n\
             | down | cannot tell: it was dark |  |\n| both | 12.25 | 1 |\n"
        );
        assert_eq!(
            table.csv(),
            "Links,rate Mbit/s,why\nup,0.7 ±0.05,\"a, \"\"b\"\" | c\"\ndown,cannot tell: it was dark,\nboth,12.25,1\n"
        );
        let html = table.html("x").into_string();
        for part in [
            "<td>0.7 ±0.05</td><td class=\"words\">a, &quot;b&quot; | c</td>",
            "href=\"#why-x-1\"",
            "id=\"why-x-1\">Cannot tell: it was dark.",
            "does not apply",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    /// Random tables of figures without spaces: each text fits its width, and each cell is shown exactly once.
    #[test]
    fn a_text_fits_its_width_and_loses_no_cell() {
        for seed in 0..300 {
            let mut rng = Streams::new(seed).stream("table");
            let mut draw = |most: usize| (uniform(&mut rng) * most as f64) as usize;
            let (columns, width) = (2 + draw(8), 40 + draw(100));
            let heads: Vec<String> = (0..columns).map(|i| format!("h{i}")).collect();
            let title = ["", "T"][draw(2)];
            let mut table = Table::new(title, heads);
            let mut all = Vec::new();
            for row in 0..1 + draw(6) {
                let cells: Vec<String> = (1..columns)
                    .map(|i| format!("c{row}x{i}{}", "y".repeat(draw(14))))
                    .collect();
                all.extend(cells.clone());
                table.row(format!("label{row}"), cells);
            }
            let indent = 2 * draw(2);
            let mut notes = Notes::default();
            let lines = table.lines(width, indent, &mut notes, &str::to_owned);
            let text: Vec<&str> = lines.iter().map(|l| l.text.trim_end()).collect();
            let long = text.iter().find(|l| length(l) > width);
            assert_eq!(long, None, "seed {seed}, {width} columns");
            let words: Vec<&str> = text.iter().flat_map(|l| l.split_whitespace()).collect();
            for cell in &all {
                let shown = words.iter().filter(|w| *w == cell).count();
                assert_eq!(shown, 1, "seed {seed}: {cell} in {text:#?}");
            }
        }
    }

    #[test]
    fn long_words_are_wrapped_in_the_space_that_is_left() {
        let heads = ["".into(), "n".into(), Column::words("says")];
        let text = "one two three four five six seven eight nine ten eleven";
        let table = Table::new("", heads).with([("a", vec!["1", text])]);
        let shown = table.text(40);
        assert!(shown.lines().all(|l| length(l) <= 40), "{shown}");
        let words: Vec<&str> = shown.split_whitespace().skip(4).collect();
        assert_eq!(words.join(" "), text);
        // What is piped to another program is one line a row.
        assert_eq!(table.text(usize::MAX).lines().count(), 2);
    }

    #[test]
    fn columns_without_any_figure_are_left_out() {
        let mut table = Table::new("", ["", "a", "b"]);
        table.row("x", [Cell::Absent, "1".into()]);
        let table = table.without_empty_columns();
        assert_eq!(table.heading(1), "b");
        assert_eq!(table.rows, [[Cell::from("x"), "1".into()]]);
    }

    #[test]
    fn columns_of_words_are_found() {
        let table = Table::new("", ["", "rate", "where", "mixed"])
            .with([
                ("x", vec!["1.2 Mbit/s", "here", "12"]),
                ("y", vec!["900 kbit/s", "there", "none"]),
            ])
            .aligned();
        let left: Vec<bool> = table
            .columns
            .iter()
            .map(|c| c.align == Align::Left)
            .collect();
        assert_eq!(left, [true, false, true, true]);
    }
}
