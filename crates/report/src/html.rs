//! Self-contained page: it fetches nothing, works from a file, and shows its figures and static plots without a script,
//! too. The script and the style come from `web/`, which bundles uPlot for the plots.

use crate::curves::Curves;
use crate::table::Table;
use crate::tables;
use crate::verdict::{UNFINISHED, of, sentence};
use crate::words;
use crate::{data, svg, test_plots};
use analysis::answer::{Answer, DirectionAnswer, Finding};
use base::print::{DELAY, RATE, RPM_SHORT, SIZE, SPAN, Unit};
use base::record::{Direction, Origin, Recording};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use stats::Figure;

pub(crate) const SCRIPT: &str = include_str!("../web/dist/page.js");
/// Second script of a page that its monitor serves. No other page has it, since it asks for news.
pub(crate) const LIVE_SCRIPT: &str = include_str!("../web/dist/live.js");
pub(crate) const CSS: &str = include_str!("../web/dist/page.css");
const UPLOT_LICENCE: &str = include_str!("../web/dist/uplot-licence.txt");

/// Content security policy: nothing is loaded from anywhere; the page's own script and style are inline.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Policy of a page that its monitor serves: it may ask that monitor for news, and nobody else.
const LIVE_POLICY: &str = "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Policy of the page that a server offers to browsers: its own scripts, workers and WebAssembly.
const SITE_POLICY: &str = "default-src 'none'; connect-src 'self' https: wss: ws:; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'";

/// Returns the head of every page, with its policy and style. `writer` is the program that wrote the recording.
pub(crate) fn head(title: &str, writer: Option<&str>) -> Markup {
    head_with(title, writer, POLICY)
}

/// Returns the head of a page that its monitor serves.
pub(crate) fn live_head(title: &str) -> Markup {
    head_with(title, None, LIVE_POLICY)
}

/// Returns the head of the page of `tailback serve --web`, whose server sends the policy.
pub(crate) fn head_of_site(title: &str) -> Markup {
    head_with(title, None, SITE_POLICY)
}

fn head_with(title: &str, writer: Option<&str>, policy: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(writer) = writer { meta name="generator" content=(writer); }
            title { (title) }
            style { (PreEscaped(svg::page_style())) (PreEscaped(CSS)) }
        }
    }
}

/// Renders the whole `report.html`.
pub fn page(answer: &Answer, recording: &Recording) -> String {
    let curves = Curves::of(answer, recording);
    let title = if answer.title.trim().is_empty() {
        "Tailback report"
    } else {
        &answer.title
    };
    let json = json(answer);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{title}: grade {}", answer.grade.letter), Some(&recording.meta.writer)))
            body {
                main { (body(answer, recording, &curves, title, &json)) }
                (footer(recording))
                (embedded(&curves, &json))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Renders the report as a part of another page, which has the style and the script.
pub fn part(answer: &Answer, recording: &Recording) -> String {
    let curves = Curves::of(answer, recording);
    let json = json(answer);
    let title = &answer.title;
    html! { (body(answer, recording, &curves, title, &json)) (embedded(&curves, &json)) }
        .into_string()
}

fn json(answer: &Answer) -> String {
    serde_json::to_string(answer).expect("an answer is plain data")
}

fn body(
    answer: &Answer,
    recording: &Recording,
    curves: &Curves,
    title: &str,
    json: &str,
) -> Markup {
    html! {
        (top(answer, recording, title))
        (findings(&answer.findings))
        (advice(answer))
        (over_time(curves))
        (distribution(curves))
        (details(answer))
        (instrument(answer, recording))
        (raw(json))
    }
}

/// Data for the page's script.
fn embedded(curves: &Curves, json: &str) -> Markup {
    html! {
        script type="application/json" id="answer" { (data::inline(json)) }
        script type="application/json" id="curves" { (data::embedded(&data::curves(curves))) }
    }
}

fn top(answer: &Answer, recording: &Recording, title: &str) -> Markup {
    let how = match recording.meta.origin {
        Origin::Measured => "measured",
        Origin::Emulated => "over an emulated link",
        Origin::Simulated => "simulated",
        Origin::Captured => "from a capture",
        Origin::Imported => "imported",
    };
    let tone = match answer.grade.letter.chars().next() {
        Some('A') => "good",
        Some('B' | 'C') => "warning",
        Some('D' | 'E' | 'F') => "bad",
        _ => "note",
    };
    html! {
        header {
            p.meta { b { "Tailback" } " " span { (title) } " " span { (words::moment(answer.started_ns)) } " " span { (SPAN.print(answer.duration_s)) ", " (how) } }
            div.verdict {
                div.grade.(tone) role="img" aria-label=(format!("Grade {}", answer.grade.letter)) { (answer.grade.letter) }
                h1 { (firm(&sentence(answer))) }
            }
            @if !answer.complete || !answer.instrument.doubts.is_empty() {
                div.doubts role="note" {
                    b { "Doubts about this run" }
                    ul {
                        @if !answer.complete { li { (UNFINISHED) } }
                        @for doubt in &answer.instrument.doubts { li { (doubt) } }
                    }
                }
            }
            dl.key {
                (key("Base round trip", DELAY, &answer.base_rtt_ms))
                (key("Download", RATE, &answer.down.goodput_bps))
                (key("Upload", RATE, &answer.up.goodput_bps))
                (key("Download adds p95", DELAY, &answer.down.added.p95_ms))
                (key("Upload adds p95", DELAY, &answer.up.added.p95_ms))
                (key("Responsiveness", RPM_SHORT, &answer.responsiveness.rpm))
            }
        }
    }
}

/// Prevents line breaks between a number and its unit.
fn firm(text: &str) -> String {
    const UNITS: [&str; 11] = [
        "%", "times", "s", "ms", "B", "kB", "MB", "bit/s", "kbit/s", "Mbit/s", "Gbit/s",
    ];
    let mut out = String::with_capacity(text.len() + 8);
    for word in text.split(' ') {
        let unit = word.trim_end_matches(['.', ',', ':', ';', ')']);
        let number = out.ends_with(|c: char| c.is_ascii_digit());
        if !out.is_empty() {
            out.push(if number && UNITS.contains(&unit) {
                '\u{a0}'
            } else {
                ' '
            });
        }
        out.push_str(word);
    }
    out
}

fn key(name: &str, unit: Unit, figure: &Figure) -> Markup {
    html! {
        div {
            dt { (name) }
            @match figure {
                Figure::Is { value, .. } => {
                    @let text = unit.print(*value);
                    @let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
                    dd { b { (number) } " " span { (unit) } }
                }
                Figure::CannotTell { cannot_tell } => dd.unknown { "cannot tell: " (cannot_tell) }
            }
        }
    }
}

/// Renders findings with their evidence; nothing if there are none.
pub(crate) fn findings(all: &[Finding]) -> Markup {
    html! {
        @if !all.is_empty() {
            section aria-labelledby="findings" {
                h2 id="findings" { "What was found" }
                ul.findings {
                    @for f in all {
                        @let word = words::severity(f.severity);
                        li {
                            span.tag.(word) { (word) }
                            div {
                                p { (firm(&f.says)) }
                                @for e in &f.evidence { p.evidence { (firm(e)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn advice(answer: &Answer) -> Markup {
    html! {
        @if !answer.advice.is_empty() {
            section aria-labelledby="advice" {
                h2 id="advice" { "What to set" }
                @for (i, a) in answer.advice.iter().enumerate() {
                    @if a.commands.is_empty() {
                        p.advice { (a.what) " " span.tag { (a.on) } }
                    } @else {
                        details.advice open[i == 0] {
                            summary { (a.what) " " span.tag { (a.on) } }
                            div.commands { pre tabindex="0" { code { (a.commands.join("\n")) } } }
                            @if let Some(script) = &a.script {
                                details.script {
                                    summary { (script.file) }
                                    div.commands { pre tabindex="0" { code { (script.text) } } }
                                }
                            }
                        }
                    }
                }
                @if answer.advice.iter().any(|a| a.script.is_some()) { p { (tables::SCRIPTS) } }
            }
        }
    }
}

fn over_time(curves: &Curves) -> Markup {
    let thinned = curves.probes_seen > curves.probes.len();
    html! {
        section aria-labelledby="time" {
            h2 id="time" { "Over time" }
            @if curves.probes_seen == 0 {
                p.unknown { "This recording holds no probes to draw." }
            } @else {
                figure id="over-time" {
                    div.static { (test_plots::over_time(curves).picture()) }
                    div.live hidden {}
                    figcaption {
                        "Round trips of the probes, which travel in their own flow, above the payload rate of the load. Red ticks at the top are lost probes. "
                        @if thinned { (curves.probes_seen) " probes are drawn as the smallest and the largest of each of 6000 steps of time. " }
                        span.with-script { "Drag across a plot to zoom in, double-click to see all; the arrow keys move the cursor." }
                    }
                }
            }
        }
    }
}

fn distribution(curves: &Curves) -> Markup {
    html! {
        @if !curves.cdf.is_empty() {
            section aria-labelledby="within" {
                h2 id="within" { "Answered within" }
                figure id="distribution" {
                    div.static { (test_plots::distribution(curves).picture()) }
                    div.live hidden {}
                    figcaption { "Share of the probes answered within a time, the warm-up of each phase left out. A lost probe was never answered: such a curve ends below 100\u{a0}%." }
                }
            }
        }
    }
}

fn details(answer: &Answer) -> Markup {
    let queues = tables::queues(answer);
    html! {
        section aria-labelledby="phases" {
            h2 id="phases" { "Phase by phase" }
            (tables::phases(answer).html("phase"))
            @if !answer.phases.is_empty() {
                details {
                    summary { "Whether the figures had settled" }
                    dl.list { @for p in &answer.phases { div { dt { (words::phase(&p.name)) } dd { @if p.stable { "yes: " } @else { "no: " } (p.stability) } } } }
                }
            }
        }
        section aria-labelledby="queues" {
            h2 id="queues" { "The queues" }
            div.cards {
                (card(&queues, 1, Direction::Up, of(answer, Direction::Up)))
                (card(&queues, 2, Direction::Down, of(answer, Direction::Down)))
            }
            p.evidence { (tables::INTERVALS) }
        }
        @if !answer.uses.is_empty() {
            section aria-labelledby="uses" {
                h2 id="uses" { "Uses under load" }
                (tables::uses(answer).html("use"))
            }
        }
        section aria-labelledby="reliability" {
            h2 id="reliability" { "Answered in time" }
            p.evidence { "Share of all probes that were answered within each limit; a lost one counts as not answered." }
            (tables::reliability(answer).html("limit"))
        }
        section aria-labelledby="responsiveness" {
            h2 id="responsiveness" { "Responsiveness and grade" }
            (tables::responsiveness(answer).html_list(1, "rpm"))
            p.evidence { (answer.responsiveness.formula) }
            p {
                "Grade " b { (answer.grade.letter) }
                @match &answer.grade.added_ms {
                    Figure::Is { value, .. } => { ", decided by " (DELAY.print(*value)) " of added delay." }
                    Figure::CannotTell { cannot_tell } => { ": the added delay cannot be told: " (cannot_tell) "." }
                }
            }
            p.evidence { (answer.grade.scale) }
        }
    }
}

fn card(table: &Table, column: usize, direction: Direction, d: &DirectionAnswer) -> Markup {
    let id = words::direction(direction);
    html! {
        article.card.(id) aria-labelledby=(format!("queue-{id}")) {
            h3 id=(format!("queue-{id}")) { (table.heading(column)) }
            (bars(d))
            (table.html_list(column, id))
            @if !d.discipline.evidence.is_empty() {
                h4 { "How the kind shows" }
                ul { @for e in &d.discipline.evidence { li { (e) } } }
            }
        }
    }
}

/// Draws bars, to scale, of the queue's size and the size that the link needs.
fn bars(d: &DirectionAnswer) -> Markup {
    let (Some(holds), Some(needs)) = (d.queue_bytes.value(), d.bdp_bytes.value()) else {
        return html! {};
    };
    let top = holds.max(needs).max(1.0);
    html! {
        div.bars aria-hidden="true" {
            @for (name, value) in [("holds", holds), ("needs", needs)] {
                div { span.label { (name) } span.bar { span.(name) style=(format!("width:{:.1}%", (100.0 * value / top).max(0.5))) {} } span.size { (SIZE.print(value)) } }
            }
        }
    }
}

fn instrument(answer: &Answer, recording: &Recording) -> Markup {
    let meta = &recording.meta;
    let plan = serde_json::to_string_pretty(&meta.plan).expect("a plan is JSON already");
    let host = [
        ("Kernel", meta.host.kernel.clone()),
        ("Processors", meta.host.cpus.to_string()),
        ("Clock", meta.host.clock_source.clone()),
    ];
    html! {
        section aria-labelledby="instrument" {
            h2 id="instrument" { "The instrument" }
            (tables::instrument(answer).html_list(1, "instrument"))
            @if !meta.exclusions.is_empty() {
                h3 { "Left out" }
                ul { @for e in &meta.exclusions { li { (SPAN.print((e.to_ns - e.from_ns) as f64 / 1e9)) ": " (e.reason) } } }
            }
            @if !meta.host.kernel.is_empty() {
                details { summary { "Host" } dl.list {
                    @for (name, value) in host.iter().map(|(n, v)| (*n, v)).chain(meta.host.facts.iter().map(|(n, v)| (n.as_str(), v))) {
                        div { dt { (name) } dd { (value) } }
                    }
                } }
            }
            @if !meta.plan.is_null() {
                details { summary { "Plan of the run" } pre tabindex="0" { (plan) } }
            }
            @if let Some(link) = &meta.known_link {
                details { summary { "Known link" } pre tabindex="0" { (serde_json::to_string_pretty(link).expect("it is JSON already")) } }
            }
        }
    }
}

fn raw(json: &str) -> Markup {
    html! {
        section aria-labelledby="raw" {
            h2 id="raw" { "For machines" }
            p { "The whole answer is in this page as JSON, in the element with the id " code { "answer" } ", " (SIZE.print(json.len() as f64)) "." span.with-script { " " a id="download" href="#raw" download="answer.json" { "Download answer.json" } } }
        }
    }
}

fn footer(recording: &Recording) -> Markup {
    html! {
        footer {
            p { "Written by " (recording.meta.writer) ". This page fetches nothing." }
            (licence())
        }
    }
}

pub(crate) fn licence() -> Markup {
    html! { details { summary { "Licence of uPlot, which draws the plots" } pre tabindex="0" { (UPLOT_LICENCE) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit_and_nothing_else_is_bound() {
        assert_eq!(
            firm("wait 430 ms, in 22 s or"),
            "wait 430\u{a0}ms, in 22\u{a0}s or"
        );
        assert_eq!(
            firm("4 queues of 9 kB. The s is"),
            "4 queues of 9\u{a0}kB. The s is"
        );
    }
}
