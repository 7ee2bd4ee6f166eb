//! Text of an experiment's answer.

use super::page::{Page, Paint, Style};
use super::plot::braille;
use crate::probe::{figures, origin, span, table};
use crate::svg::quartered_top;
use crate::tables::Notes;
use crate::words;
use base::print::{SIZE, SPAN, number};
use base::record::Meta;
use experiment::{Draw, Plot, ProbeAnswer, Severity};

const ROWS: usize = 8;

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
    if !o.alerts.is_empty() {
        page.heading("Alerts");
        for alert in &o.alerts {
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
    let mut notes = Notes::default();
    if !o.figures.is_empty() {
        page.table(&figures(answer), &mut notes);
    }
    for plot in &o.plots {
        page.picture(plot);
    }
    for t in &o.tables {
        page.heading(&t.title);
        page.table(&table(t), &mut notes);
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
    if !notes.0.is_empty() {
        page.heading("Cannot tell");
        for (i, reason) in notes.0.iter().enumerate() {
            page.paragraph(&format!("[{}] {reason}", i + 1), 2, None);
        }
    }
    if answer.own_packets > 0 {
        let sent = SIZE.print(answer.own_bytes as f64);
        let text = format!(
            "It put {sent} on the line itself, in {} packets.",
            answer.own_packets
        );
        page.paragraph(&text, 0, Some(Paint::Faint));
    }
    page.finish()
}

/// Renders only the pictures.
pub fn pictures(plots: &[Plot], style: Style) -> String {
    let mut page = Page::new(style);
    for plot in plots {
        page.picture(plot);
    }
    page.finish()
}

impl Page {
    fn picture(&mut self, plot: &Plot) {
        let lines = lines(plot, self.width, self.style.unicode);
        if lines.is_empty() {
            return;
        }
        self.heading(&format!("{}: {} against {}", plot.title, plot.y, plot.x));
        for line in lines {
            self.put(&line, None);
        }
        self.gap();
    }
}

fn lines(plot: &Plot, width: usize, unicode: bool) -> Vec<String> {
    let points = || {
        plot.series
            .iter()
            .flat_map(|s| &s.points)
            .filter_map(|(x, y)| Some((*x, (*y)?)))
    };
    let Some((from, to)) = span(plot) else {
        return Vec::new();
    };
    let span = (to - from).max(f64::MIN_POSITIVE);
    let top = quartered_top(points().map(|p| p.1).fold(0.0, f64::max));
    let labels: Vec<String> = (0..ROWS)
        .map(|r| {
            if r % 2 == 0 {
                number(top * (ROWS - r) as f64 / ROWS as f64)
            } else {
                String::new()
            }
        })
        .collect();
    let gutter = labels
        .iter()
        .map(|l| l.chars().count())
        .max()
        .unwrap_or(1)
        .max(1);
    let columns = width.saturating_sub(gutter + 3).max(10);
    let (across, down) = if unicode { (2, 4) } else { (1, 1) };
    let (wide, tall) = (columns * across, ROWS * down);
    let mut dots = vec![false; wide * tall];
    let place = |x: f64, y: f64| {
        let column = ((x - from) / span * (wide - 1) as f64).round() as usize;
        let row = ((y.max(0.0) / top) * (tall - 1) as f64).round() as usize;
        (column.min(wide - 1), tall - 1 - row.min(tall - 1))
    };
    for s in &plot.series {
        let mut last: Option<(usize, usize)> = None;
        for (x, y) in &s.points {
            let here = y.map(|y| place(*x, y));
            let joined = !matches!(s.draw, Draw::Dots | Draw::Marks);
            if let Some((x, y)) = here {
                let (from_x, from_y) = last.filter(|_| joined).unwrap_or((x, y));
                let steps = x.abs_diff(from_x).max(y.abs_diff(from_y)).max(1);
                for i in 0..=steps {
                    let part = |a: usize, b: usize| {
                        (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round()
                            as usize
                    };
                    dots[part(from_y, y) * wide + part(from_x, x)] = true;
                }
            }
            last = here;
        }
    }
    let mut out = Vec::with_capacity(ROWS + 2);
    for (r, label) in labels.iter().enumerate() {
        let cells: String = (0..columns)
            .map(|c| {
                let set = |x: usize, y: usize| dots[(r * down + y) * wide + c * across + x];
                match unicode {
                    true => braille(&set),
                    false if set(0, 0) => '#',
                    false => ' ',
                }
            })
            .collect();
        let bar = if unicode { '│' } else { '|' };
        out.push(format!("{label:>gutter$} {bar}{cells}"));
    }
    let (corner, rule) = if unicode { ('└', "─") } else { ('+', "-") };
    out.push(format!("{:>gutter$} {corner}{}", "0", rule.repeat(columns)));
    let (first, last) = (number(from), number(to));
    let w = columns.saturating_sub(first.chars().count());
    out.push(format!("{:gutter$}  {first}{last:>w$}", ""));
    out
}
