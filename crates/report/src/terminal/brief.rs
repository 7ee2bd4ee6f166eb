//! Ending of a test that fits a terminal of 80 columns and 24 lines: verdict, grade, figures, uses, and what to do next.

use super::page::{Page, Paint, Style};
use super::{grade_paint, title};
use crate::table::{Cell, Column, Notes, Table};
use crate::verdict::verdict;
use crate::{tables, words};
use analysis::answer::{Answer, DirectionAnswer, Severity};
use analysis::services::Can;
use base::print::{DELAY, RATE, SIZE, SPAN, number, percent};
use stats::Figure;
use std::path::Path;

/// Renders the answer without its evidence. `recording` is named in the next steps.
pub fn brief(answer: &Answer, recording: &Path, style: Style) -> String {
    let mut page = Page::new(style);
    page.paragraph(
        &format!(
            "{} · {} · {}",
            title(answer),
            words::moment(answer.started_ns),
            SPAN.print(answer.duration_s)
        ),
        0,
        Some(Paint::Faint),
    );
    page.paragraph(&verdict(answer), 0, Some(grade_paint(&answer.grade.letter)));
    page.gap();
    // Reasons are in the whole text.
    page.table(&figures(answer), &mut Notes::default());
    page.paragraph(&uses(answer), 0, Some(Paint::Strong));
    if let Some(failing) = answer.uses.iter().find(|u| u.can == Can::Fail) {
        let why = format!("{}: {}", failing.name, failing.because);
        page.paragraph(&why, 2, None);
    }
    page.gap();
    next_steps(&mut page, answer, recording);
    page.finish()
}

/// Six figures: rate, added delay and queue of both directions; round trip, loss and responsiveness.
fn figures(answer: &Answer) -> Table {
    let both = [&answer.up, &answer.down];
    let plain = |f: &Figure, print: &dyn Fn(f64) -> String| match f.value() {
        Some(v) => Cell::Is(print(v)),
        None => "?".into(),
    };
    let waits = |d: &DirectionAnswer| match d.queue_ms.value() {
        Some(ms) => {
            let bound = tables::bound(d.queue_is);
            let size = d
                .queue_bytes
                .value()
                .map(|b| format!(" in {}", SIZE.print(b)));
            Cell::Is(format!(
                "{bound}{}{}",
                DELAY.print(ms),
                size.unwrap_or_default()
            ))
        }
        None => "?".into(),
    };
    let heads = [
        "".into(),
        Column::words("Upload"),
        Column::words("Download"),
    ];
    let mut table = Table::new("Under load", heads);
    table.row(
        "Rate",
        both.map(|d| plain(&d.goodput_bps, &|v| RATE.print(v))),
    );
    let added = |d: &DirectionAnswer| plain(&d.added.p95_ms, &|v| DELAY.print(v));
    table.row("Delay added, 95 %", both.map(added));
    table.row("Full queue", both.map(waits));
    let idle = answer.phases.iter().find(|p| p.name == "idle");
    let loss = idle.map(|p| plain(&p.loss.percent, &|v| format!("{} %", percent(v / 100.0))));
    let rest = plain(&answer.base_rtt_ms, &|v| DELAY.print(v));
    table.row("RTT, loss at rest", [rest, loss.unwrap_or("?".into())]);
    let rpm = plain(&answer.responsiveness.rpm, &|v| {
        format!("{} a minute", number(v))
    });
    table.row("Round trips", [rpm]);
    table
}

fn uses(answer: &Answer) -> String {
    let shown = answer
        .uses
        .iter()
        .map(|u| format!("{} {}", u.name, tables::can(u.can)));
    format!("Under load: {}", shown.collect::<Vec<_>>().join(" · "))
}

/// Commands stay whole, so that copied commands run.
fn next_steps(page: &mut Page, answer: &Answer, recording: &Path) {
    let path = quoted(recording);
    let warned = answer
        .findings
        .iter()
        .filter(|f| f.severity != Severity::Good)
        .count();
    page.heading(match answer.advice.is_empty() {
        true => "Nothing to set. For more:",
        false => "What to do next:",
    });
    for advice in &answer.advice {
        for (script, command) in advice.script.iter().zip(&advice.commands) {
            let here = command.replace(&script.file, &format!("{path}/{}", script.file));
            page.put(&format!("  {:14}{here}", format!("{}:", advice.on)), None);
        }
        if advice.script.is_none() && answer.advice.len() <= 2 {
            page.paragraph(&advice.what, 2, None);
        }
    }
    let doubts = match answer.instrument.doubts.len() {
        0 => String::new(),
        n => format!(", {}", counted(n, "doubt")),
    };
    page.paragraph(
        &format!("All figures, {}{doubts}:", counted(warned, "finding")),
        2,
        None,
    );
    page.put(&format!("  tailback analyse {path}"), None);
}

/// Path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "._/-+:".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
