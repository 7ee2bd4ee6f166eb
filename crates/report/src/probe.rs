//! Presentation of an experiment's answer besides the terminal: its page and its pictures, with one frame for all
//! kinds.

use crate::html::head;
use crate::plot::{Axis, PlotSpec, Series};
use crate::svg::Picture;
use crate::table::{Cell, Table};
use crate::words;
use base::print::{DELAY, RATE, SIZE, SPAN, number, percent};
use base::record::{Meta, Origin};
use experiment::{self as probe, Figured, Plot, ProbeAnswer, Quantity, Severity};
use maud::{DOCTYPE, html};
use stats::Figure;

/// Returns the origin of the rows in words.
pub fn origin(meta: &Meta) -> &'static str {
    match meta.origin {
        Origin::Emulated => "over an emulated link",
        Origin::Simulated => "simulated",
        _ => "measured",
    }
}

/// Formats a figure with its interval; the error is the reason why there is none.
pub fn figure(f: &Figured) -> Result<String, String> {
    match f.unit {
        Quantity::Rate => f.figure.print(RATE),
        Quantity::Time => f.figure.print(DELAY),
        Quantity::Size => f.figure.print(SIZE),
        Quantity::Count | Quantity::Share => match &f.figure {
            Figure::CannotTell { cannot_tell } => Err(cannot_tell.clone()),
            Figure::Is { value, low, high } => {
                let print = |v: f64| match f.unit {
                    Quantity::Share => percent(v),
                    _ => number(v),
                };
                let unit = if f.unit == Quantity::Share { " %" } else { "" };
                Ok(if low == high {
                    format!("{}{unit}", print(*value))
                } else {
                    format!(
                        "{}{unit} ({} to {})",
                        print(*value),
                        print(*low),
                        print(*high)
                    )
                })
            }
        },
    }
}

/// Returns the figures as a table of two columns.
pub(crate) fn figures(answer: &ProbeAnswer) -> Table {
    let figures = answer.outcome.figures.iter();
    Table::new("Figures", ["", ""]).with(figures.map(|f| (&*f.name, vec![figure(f)])))
}

/// Returns recordings of one kind side by side: their figures and, for paths, the hops, each table with its caption.
pub fn side_by_side(all: &[(String, ProbeAnswer)]) -> Vec<(String, Table)> {
    let names = all.iter().map(|(name, _)| &**name);
    let heads = |first| std::iter::once(first).chain(names.clone());
    let mut keys: Vec<&Figured> = Vec::new();
    for f in all.iter().flat_map(|(_, a)| &a.outcome.figures) {
        if !keys.iter().any(|k| k.key == f.key) {
            keys.push(f);
        }
    }
    let of = |a: &ProbeAnswer, key: &str| -> Cell {
        let found = a.outcome.figures.iter().find(|f| f.key == key);
        found.map(figure).into()
    };
    let rows = keys.iter().map(|k| {
        let cells = all.iter().map(|(_, a)| of(a, &k.key));
        (&*k.name, cells.collect())
    });
    let table = Table::new("", heads("")).with(rows);
    let hops = hops(all, Table::new("", heads("hop")));
    std::iter::once(("Figures".to_string(), table))
        .chain(hops)
        .collect()
}

/// Returns address and median idle RTT of each hop, path by path.
fn hops(all: &[(String, ProbeAnswer)], empty: Table) -> Option<(String, Table)> {
    let table = |a: &ProbeAnswer| a.outcome.tables.iter().find(|t| t.title == "Hops").cloned();
    let paths: Vec<probe::Table> = all.iter().map(|(_, a)| table(a)).collect::<Option<_>>()?;
    let longest = paths.iter().map(|t| t.rows.len()).max()?;
    let hop = |t: &probe::Table, n: usize| -> Option<Vec<String>> {
        let label = n.to_string();
        t.rows.iter().find(|r| r.first() == Some(&label)).cloned()
    };
    let cell = |row: Option<Vec<String>>| match row.as_deref() {
        Some([_, address, rest, ..]) => Cell::Is(format!("{address}  {rest} ms")),
        _ => Cell::Absent,
    };
    let rows = (1..=longest).map(|n| {
        let cells = paths.iter().map(|t| cell(hop(t, n)));
        (n as u64, cells.collect::<Vec<Cell>>())
    });
    let rows = rows.filter(|(_, cells)| cells.iter().any(|c| *c != Cell::Absent));
    let table = empty.with(rows);
    let parts = (1..=longest).find(|&n| {
        let mut addresses = paths
            .iter()
            .map(|t| hop(t, n).and_then(|r| r.get(1).cloned()));
        let first = addresses.next();
        addresses.any(|a| Some(a) != first)
    });
    let caption = match parts {
        Some(n) => format!("Hops at rest; the paths part at hop {n}"),
        None => "Hops at rest; the paths are the same".into(),
    };
    Some((caption, table))
}

/// Converts an experiment's own table.
pub(crate) fn table(t: &probe::Table) -> Table {
    let heads = t.columns.iter().map(String::as_str);
    let rows = t.rows.iter().filter_map(|r| {
        let (label, cells) = r.split_first()?;
        Some((&**label, cells.iter().map(|c| &**c).collect()))
    });
    Table::new(&*t.title, heads).with::<_, &str>(rows).aligned()
}

/// Relative size below which an end of an axis is taken as zero: floating-point noise around zero.
const DUST: f64 = 1e-3;

/// Returns start and end of the horizontal axis; `None` if there is nothing to draw.
pub(crate) fn span(plot: &Plot) -> Option<(f64, f64)> {
    let points = plot.series.iter().flat_map(|s| &s.points);
    let xs = points.filter(|p| p.1.is_some()).map(|p| p.0);
    let (from, to) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| {
        (a.min(x), b.max(x))
    });
    let clean = |end: f64| match end.abs() < DUST * (to - from) {
        true => 0.0,
        false => end,
    };
    (from <= to).then(|| (clean(from), clean(to)))
}

/// Returns the plot of one picture.
pub fn plot(plot: &Plot) -> PlotSpec {
    let (from, to) = match span(plot) {
        Some((from, to)) if from < to => (from, to),
        Some((_, to)) => (0.0, to.max(1.0)),
        None => (0.0, 1.0),
    };
    let series = plot.series.iter().enumerate();
    let series = series.map(|(i, s)| Series::numbered(&*s.name, s.draw, i, s.points.clone()));
    PlotSpec::lines(
        &*plot.title,
        Axis::even(&*plot.x, from, to),
        &*plot.y,
        series.collect(),
    )
}

/// Draws pictures below each other, as the text of an SVG file.
pub fn pictures(title: &str, plots: &[Plot]) -> String {
    let pictures: Vec<Picture> = plots.iter().map(|p| plot(p).picture()).collect();
    Picture::stacked(title, &pictures).file()
}

/// Returns the style class of a severity.
fn severity(of: Severity) -> &'static str {
    match of {
        Severity::Serious => "tag bad",
        Severity::Warning => "tag warning",
        Severity::Note => "tag",
    }
}

/// Renders one self-contained page.
pub fn page(answer: &ProbeAnswer, meta: &Meta) -> String {
    let o = &answer.outcome;
    let title = if answer.title.trim().is_empty() {
        &answer.probe
    } else {
        &answer.title
    };
    let json = serde_json::to_string(answer).expect("an answer is plain data");
    let lists = [("What to do", &o.advice), ("Why", &o.evidence)];
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, Some(&meta.writer)))
            body {
                main.probe {
                    header {
                        p.meta { b { "Tailback" } " " span { (title) } " " span { code { (answer.probe) } } " " span { (words::moment(answer.started_ns)) } " " span { (SPAN.print(answer.duration_s)) ", " (origin(meta)) } }
                        p { (answer.question) }
                        h1 { (o.says) }
                        @if !answer.complete || !o.doubts.is_empty() {
                            div.doubts role="note" {
                                b { "Doubts about this run" }
                                ul {
                                    @if !answer.complete { li { "It ended before it was done." } }
                                    @for doubt in &o.doubts { li { (doubt) } }
                                }
                            }
                        }
                        @if !o.alerts.is_empty() {
                            ul aria-label="Alerts" {
                                @for a in &o.alerts { li { span class=(severity(a.severity)) { (a.severity.word()) } " " b { (a.what) } ". " (a.means) } }
                            }
                        }
                        dl.key {
                            @for f in &o.figures {
                                div { dt { (f.name) } dd { @match figure(f) { Ok(text) => (text), Err(why) => { "cannot tell: " (why) } } } }
                            }
                        }
                    }
                    @for p in &o.plots {
                        section { figure.still tabindex="0" { (plot(p).picture()) } }
                    }
                    @for (i, t) in o.tables.iter().enumerate() {
                        section { h2 { (t.title) } (table(t).html(&format!("table-{i}"))) }
                    }
                    @for (name, lines) in lists {
                        @if !lines.is_empty() {
                            section { h2 { (name) } ul { @for line in lines.iter() { li { (line) } } } }
                        }
                    }
                    @if answer.own_packets > 0 {
                        section { p.evidence { "It put " (SIZE.print(answer.own_bytes as f64)) " on the link itself, in " (answer.own_packets) " packets." } }
                    }
                }
                footer { p { "Written by " (meta.writer) ". This page fetches nothing." } }
                script type="application/json" id="answer" { (crate::data::inline(&json)) }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::Outcome;

    fn answer() -> ProbeAnswer {
        ProbeAnswer {
            version: 1,
            title: "<b>".into(),
            probe: "sweep".into(),
            question: "What?".into(),
            started_ns: 0,
            duration_s: 1.0,
            complete: false,
            own_bytes: 1000,
            own_packets: 2,
            outcome: Outcome {
                says: "So & so.".into(),
                figures: vec![
                    Figured::rate(
                        "a_bps",
                        "a",
                        Figure::Is {
                            value: 1.97e6,
                            low: 1.95e6,
                            high: 1.98e6,
                        },
                    ),
                    Figured::count("b", "b", Figure::cannot_tell("it was dark")),
                ],
                plots: vec![Plot::new("p", ("x", "y"), vec![])],
                ..Outcome::default()
            },
        }
    }

    #[test]
    fn the_page_shows_intervals_reasons_and_that_it_was_cut_short() {
        let page = page(&answer(), &Meta::default());
        for part in [
            "1.97 Mbit/s (1.95 to 1.98)",
            "cannot tell: it was dark",
            "ended before it was done",
            "So &amp; so.",
            "&lt;b&gt;",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            !page.contains("<b>Tailback</b> <span><b>"),
            "a title is text"
        );
    }

    #[test]
    fn the_terminal_shows_the_same() {
        let style = crate::terminal::Style {
            width: 80,
            colour: false,
            unicode: false,
        };
        let text = crate::terminal::probe(&answer(), &Meta::default(), style);
        for part in [
            "1.97 Mbit/s (1.95 to 1.98)",
            "it was dark",
            "So & so.",
            "ended before",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
