//! Networks side by side, in a terminal and on a page.

use super::page::{Page, Paint, Style};
use crate::table::{Cell, Column, Notes, Table};
use crate::words;
use analysis::before_after::{BeforeAfter, FIGURES, Is, Row};
use base::print::{RPM_SHORT, Unit};

/// Sentences about the intervals of the tables.
pub(crate) fn intervals(found: &BeforeAfter) -> String {
    let media = match found.media {
        Some(_) => ". A medium's interval comes from the spread between its networks",
        None => "",
    };
    format!(
        "In brackets: the interval that holds the figure with 95 % confidence, by the spread between the rounds if there are \
         several, else by that within the test{media}. An interval that begins at 0 has no lower limit: the runs differ too \
         much to tell one. A change is told if it is more than chance explains. \
         RPM: round trips per minute."
    )
}

/// Renders a sentence for each test but the first, and a table of all figures.
pub fn before_after(found: &BeforeAfter, style: Style) -> String {
    let mut page = Page::new(style);
    for said in sentences(found) {
        page.paragraph(&said, 0, Some(Paint::Strong));
    }
    page.gap();
    let mut notes = Notes::default();
    for table in tables(found) {
        page.table(&table, &mut notes);
    }
    page.paragraph(&intervals(found), 2, Some(Paint::Faint));
    page.gap();
    page.reasons(&notes);
    page.finish()
}

/// Sentences about the media, or about the networks if no media are named.
pub(crate) fn sentences(found: &BeforeAfter) -> Vec<String> {
    let told = found.media.as_deref().unwrap_or(found);
    (1..told.tests.len()).map(|at| sentence(told, at)).collect()
}

/// Tables of the figures and of their changes, of the media ahead of the networks: a column each, or a row each if there
/// are more than two.
pub(crate) fn tables(found: &BeforeAfter) -> Vec<Table> {
    let media = found.media.iter().flat_map(|media| tables(media));
    media.chain(own_tables(found)).collect()
}

fn own_tables(found: &BeforeAfter) -> Vec<Table> {
    match found.tests.len() {
        ..=2 => vec![pair(found)],
        _ => vec![networks(found), changes(found)],
    }
}

/// True if the tests are media.
fn are_media(found: &BeforeAfter) -> bool {
    found.tests.iter().any(|t| t.networks.is_some())
}

/// Change from the first test to another: the grade, and the figures that changed.
pub(crate) fn sentence(found: &BeforeAfter, at: usize) -> String {
    let (first, other) = (&found.tests[0], &found.tests[at]);
    let name = match found.tests.len() {
        2 if are_media(found) => format!("{} → {}: ", first.name, other.name),
        2 => String::new(),
        _ => format!("{}: ", other.name),
    };
    let mut parts = vec![format!("{name}Grade {} → {}", first.grade, other.grade)];
    let rows = found.rows.iter().zip(&FIGURES).take(4);
    for (row, (.., unit, _, _)) in rows {
        let values = (row.figures[0].value(), row.figures[at].value());
        parts.push(match values {
            (Some(a), Some(b)) => format!(
                "{} {} → {} ({})",
                lower(&row.name),
                unit.print(a),
                unit.print(b),
                word(row.changes[at - 1].is)
            ),
            _ => format!("{}: cannot tell", lower(&row.name)),
        });
    }
    let incomplete = match first.complete && other.complete {
        true => "",
        false => " One of the runs ended early.",
    };
    format!("{}.{incomplete}", parts.join("; "))
}

fn lower(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_lowercase().collect::<String>());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

fn word(is: Is) -> &'static str {
    match is {
        Is::Better => "better",
        Is::Worse => "worse",
        Is::Same => "no more than chance",
        Is::CannotTell => "cannot tell",
    }
}

fn has_rounds(found: &BeforeAfter) -> bool {
    found.tests.iter().any(|t| t.rounds > 1)
}

/// Returns the table of two networks, a row a figure.
fn pair(found: &BeforeAfter) -> Table {
    let mut heads = vec![Column::words("")];
    heads.extend(found.tests.iter().map(|t| Column::from(t.name.as_str())));
    heads.push(Column::words("Change"));
    let title = match are_media(found) {
        true => "Media",
        false => "Tests",
    };
    let mut table = Table::new(title, heads);
    let line = |of: &dyn Fn(usize) -> Cell| (0..found.tests.len()).map(of).collect::<Vec<_>>();
    table.row(
        "Start",
        line(&|i| words::moment(found.tests[i].started_ns).into()),
    );
    if are_media(found) {
        let networks = |i: usize| Cell::from(found.tests[i].networks);
        table.row("Networks", line(&networks));
    }
    if has_rounds(found) {
        table.row("Runs", line(&|i| found.tests[i].rounds.into()));
    }
    table.row("Grade", line(&|i| found.tests[i].grade.clone().into()));
    for (row, (.., unit, _, _)) in found.rows.iter().zip(&FIGURES) {
        let mut cells = line(&|i| Cell::figure(&row.figures[i], narrow(row, *unit)));
        cells.push(change(row, 1, narrow(row, *unit)));
        table.row(row.name.clone(), cells);
    }
    table
}

/// Returns the table of many networks, a row a network.
fn networks(found: &BeforeAfter) -> Table {
    let mut heads = vec![Column::words("")];
    if are_media(found) {
        heads.push(Column::from("Networks"));
    }
    if has_rounds(found) {
        heads.push(Column::from("Runs"));
    }
    heads.push(Column::words("Grade"));
    heads.extend(found.rows.iter().map(|r| Column::from(r.name.as_str())));
    let title = match are_media(found) {
        true => "Media",
        false => "Networks",
    };
    let mut table = Table::new(title, heads);
    for (i, t) in found.tests.iter().enumerate() {
        let mut cells: Vec<Cell> = Vec::new();
        if are_media(found) {
            cells.push(t.networks.into());
        }
        if has_rounds(found) {
            cells.push(t.rounds.into());
        }
        cells.push(t.grade.clone().into());
        let figures = found.rows.iter().zip(&FIGURES);
        cells.extend(
            figures
                .map(|(row, (.., unit, _, _))| Cell::figure(&row.figures[i], narrow(row, *unit))),
        );
        table.row(t.name.clone(), cells);
    }
    table
}

/// Returns the table of the changes from the first network.
fn changes(found: &BeforeAfter) -> Table {
    let mut heads = vec![Column::words("")];
    heads.extend(found.rows.iter().map(|r| Column::words(r.name.as_str())));
    let first = found.tests.first().map_or("", |t| t.name.as_str());
    let mut table = Table::new(format!("Change from {first}"), heads);
    for (i, t) in found.tests.iter().enumerate().skip(1) {
        let rows = found.rows.iter().zip(&FIGURES);
        let cells: Vec<Cell> = rows
            .map(|(row, (.., unit, _, _))| change(row, i, narrow(row, *unit)))
            .collect();
        table.row(t.name.clone(), cells);
    }
    table
}

/// Unit of a figure for a cell of a table.
fn narrow(row: &Row, unit: Unit) -> Unit {
    match row.key.as_str() {
        "rpm" => RPM_SHORT,
        _ => unit,
    }
}

/// Describes the change of a figure from the first network to another.
fn change(row: &Row, at: usize, unit: Unit) -> Cell {
    let Some(change) = row.changes.get(at - 1) else {
        return Cell::Absent;
    };
    match (change.is, change.difference.value()) {
        (Is::Better | Is::Worse, Some(d)) => {
            let sign = if d < 0.0 { "−" } else { "+" };
            format!("{sign}{}, {}", unit.print(d.abs()), word(change.is)).into()
        }
        (is, _) => word(is).into(),
    }
}
