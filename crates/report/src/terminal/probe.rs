//! Text of an experiment's answer.

use super::page::{Page, Paint, Style};
use crate::probe::{figures, origin, table};
use crate::table::Notes;
use crate::words;
use base::print::{SIZE, SPAN};
use base::record::Meta;
use experiment::{Alert, Plot, ProbeAnswer, Severity};

/// Renders the whole answer as text.
pub fn probe(answer: &ProbeAnswer, meta: &Meta, style: Style) -> String {
    let mut page = Page::new(style);
    let o = &answer.outcome;
    page.paragraph(
        &format!(
            "{} · {} · {} · {}, {}",
            if answer.title.trim().is_empty() {
                "Tailback"
            } else {
                &answer.title
            },
            answer.probe,
            words::moment(answer.started_ns),
            SPAN.print(answer.duration_s),
            origin(meta)
        ),
        0,
        Some(Paint::Faint),
    );
    page.paragraph(&answer.question, 0, Some(Paint::Faint));
    page.gap();
    page.paragraph(&o.says, 0, Some(Paint::Strong));
    page.gap();
    alerts(&mut page, &o.alerts);
    let mut notes = Notes::default();
    if !o.figures.is_empty() {
        page.table(&figures(answer), &mut notes);
    }
    for plot in &o.plots {
        page.picture(plot);
    }
    for t in &o.tables {
        page.heading(&t.title);
        let mut table = table(t);
        table.title.clear();
        page.table(&table, &mut notes);
    }
    for (heading, lines, paint) in [
        ("What to do", &o.advice, None),
        ("Why", &o.evidence, None),
        ("Doubts", &o.doubts, Some(Paint::Yellow)),
    ] {
        if !lines.is_empty() {
            page.heading(heading);
            lines.iter().for_each(|line| page.item(line, paint));
            page.gap();
        }
    }
    if !answer.complete {
        page.paragraph("It ended before it was done.", 0, Some(Paint::Yellow));
    }
    page.reasons(&notes);
    if answer.own_packets > 0 {
        let sent = SIZE.print(answer.own_bytes as f64);
        let text = format!(
            "It put {sent} on the link itself, in {} packets.",
            answer.own_packets
        );
        page.paragraph(&text, 0, Some(Paint::Faint));
    }
    page.finish()
}

fn alerts(page: &mut Page, alerts: &[Alert]) {
    if alerts.is_empty() {
        return;
    }
    page.heading("Alerts");
    for alert in alerts {
        let text = format!("{}: {}. {}", alert.severity.word(), alert.what, alert.means);
        let paint = match alert.severity {
            Severity::Serious => Some(Paint::Red),
            Severity::Warning => Some(Paint::Yellow),
            Severity::Note => None,
        };
        page.item(&text, paint);
    }
    page.gap();
}

/// Renders only the pictures.
pub fn pictures(plots: &[Plot], style: Style) -> String {
    let mut page = Page::new(style);
    for plot in plots {
        page.picture(plot);
    }
    page.finish()
}
