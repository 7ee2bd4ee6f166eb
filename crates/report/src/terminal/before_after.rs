//! Tests side by side in a terminal.

use super::page::{Page, Paint, Style};
use crate::table::{Cell, Column, Notes, Table};
use crate::words;
use analysis::before_after::{BeforeAfter, FIGURES, Is, Row};
use base::print::Unit;

/// Renders a sentence for each test but the first, and a table of all figures.
pub fn before_after(found: &BeforeAfter, style: Style) -> String {
    let mut page = Page::new(style);
    for at in 1..found.tests.len() {
        page.paragraph(&sentence(found, at), 0, Some(Paint::Strong));
    }
    page.gap();
    let mut notes = Notes::default();
    page.table(&table(found), &mut notes);
    page.paragraph(
        "In brackets: the interval that holds the figure with 95 % confidence. A change is told if it is more than chance \
         explains within the tests.",
        2,
        Some(Paint::Faint),
    );
    page.gap();
    page.reasons(&notes);
    page.finish()
}

/// Change from the first test to another: the grade, and the figures that changed.
fn sentence(found: &BeforeAfter, at: usize) -> String {
    let (first, other) = (&found.tests[0], &found.tests[at]);
    let name = match found.tests.len() {
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

fn table(found: &BeforeAfter) -> Table {
    let pair = found.tests.len() == 2;
    let mut heads = vec![Column::words("")];
    heads.extend(found.tests.iter().map(|t| Column::from(t.name.as_str())));
    if pair {
        heads.push(Column::words("Change"));
    }
    let mut table = Table::new("Tests", heads);
    let line = |of: &dyn Fn(usize) -> Cell| (0..found.tests.len()).map(of).collect::<Vec<_>>();
    table.row(
        "Start",
        line(&|i| words::moment(found.tests[i].started_ns).into()),
    );
    table.row("Grade", line(&|i| found.tests[i].grade.clone().into()));
    for (row, (.., unit, _, _)) in found.rows.iter().zip(&FIGURES) {
        let mut cells = line(&|i| Cell::figure(&row.figures[i], *unit));
        if pair {
            cells.push(change(row, *unit));
        }
        table.row(row.name.clone(), cells);
    }
    table
}

fn change(row: &Row, unit: Unit) -> Cell {
    let Some(change) = row.changes.first() else {
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
