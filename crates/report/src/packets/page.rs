//! Page `report.html` of a capture.

use super::{Packets, Plot, data};
use crate::data::{PacketsOfWay, embedded};
use crate::html::{SCRIPT, findings, head, licence};
use crate::table::Table;
use crate::words;
use analysis::answer::Finding;
use base::record::Meta;
use maud::{DOCTYPE, PreEscaped, html};

/// Largest number of packets in the page, of all directions together: the number that a browser handles well.
const MOST: usize = 1_500_000;

/// Contents of the page.
pub struct Page {
    pub meta: Meta,
    pub title: String,
    /// Figures of the capture as a whole: name and value.
    pub key: Vec<(String, String)>,
    /// Notes for readers of the figures.
    pub notes: Vec<String>,
    pub findings: Vec<Finding>,
    pub tables: Vec<Table>,
    /// Directions with the most data, largest first.
    pub ways: Vec<Packets>,
    /// Figures for machines, as JSON.
    pub json: String,
}

/// Renders one self-contained page.
pub fn page(p: &Page) -> String {
    let verdict = match p.findings.first() {
        Some(f) => f.says.clone(),
        None => "No queue beyond the capture held data for long.".to_owned(),
    };
    let mut room = MOST;
    let ways: Vec<PacketsOfWay> = p
        .ways
        .iter()
        .map(|w| {
            let way = data::way(w, room);
            room = room.saturating_sub(w.len()).max(MOST / 20);
            way
        })
        .collect();
    let figure = p.ways.first();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&p.title, Some(&p.meta.writer)))
            body {
                main {
                    header {
                        p.meta { b { "Tailback" } " " span { (p.title) } " " span { (words::moment(p.meta.started_ns)) } " " span { "from a capture" } }
                        div.verdict { h1 { (verdict) } }
                        @if !p.notes.is_empty() {
                            div.doubts role="note" {
                                b { "Doubts about this capture" }
                                ul { @for note in &p.notes { li { (note) } } }
                            }
                        }
                        dl.key { @for (name, value) in &p.key { div { dt { (name) } dd { (value) } } } }
                    }
                    (findings(&p.findings))
                    @if let Some(way) = figure {
                        section aria-labelledby="packets" {
                            h2 id="packets" { "Packet by packet" }
                            figure id="bytes-over-time" {
                                div.static {
                                    @for plot in Plot::ALL { @if let Ok(spec) = plot.spec(way) { (spec.picture()) } }
                                }
                                div.live hidden {}
                                figcaption {
                                    "Segments as bars over the bytes that they carry, above the line of what is acknowledged. "
                                    span.with-script { "Drag across a plot to zoom in, double-click to see all; the wheel with Ctrl zooms, with Shift it moves; the arrow keys move the cursor." }
                                }
                            }
                        }
                    }
                    @for (i, table) in p.tables.iter().enumerate() {
                        section {
                            h2 { (table.title) }
                            (table.html(&format!("table-{i}")))
                        }
                    }
                    section aria-labelledby="raw" {
                        h2 id="raw" { "For machines" }
                        p { "All figures are in this page as JSON, in the element with the id " code { "answer" } "." span.with-script { " " a id="download" href="#raw" download="answer.json" { "Download answer.json" } } }
                    }
                }
                footer { p { "Written by " (p.meta.writer) ". This page fetches nothing." } (licence()) }
                script type="application/json" id="answer" { (crate::data::inline(&p.json)) }
                @for way in &ways { script.packets type="application/json" { (embedded(way)) } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}
