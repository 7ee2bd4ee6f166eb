//! Page of a recording that is not a test: the figures of all targets, outages and incidents, and all plots. It fetches nothing and is complete without its script. The
//! script makes the plots over time and the distribution zoomable and readable point by point, and the calendars
//! readable cell by cell.

use super::material::Carried;
use super::{Material, Plot, calendar, hosts, smoke};
use crate::data::{self, PageProbes};
use crate::html::{LIVE_SCRIPT, SCRIPT, head, licence, live_head};
use crate::plot::PlotSpec;
use crate::stability;
use crate::statistics as tables;
use crate::terminal::sentence;
use crate::{host, modem, radio};
use analysis::statistics::Statistics;
use base::print::{DELAY, SIZE, percent};
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const ALL: [(Plot, &str, &str); 11] = [
    (
        Plot::Rtt,
        "Round trips and traffic",
        "Every probe, or for long spans the range of each stretch with its median and its 5 to 95 %; losses at the top.",
    ),
    (
        Plot::Smoke,
        "Smoke",
        "The distribution of each stretch of time. The colour of the median says how much was lost, the thin line is the 99th percentile.",
    ),
    (
        Plot::Bounds,
        "Bounds",
        "Smallest, 5 %, median, 95 % and largest of each stretch.",
    ),
    (
        Plot::Smoothed,
        "Smoothed",
        "The mean over a sliding window.",
    ),
    (
        Plot::Cdf,
        "Distribution",
        "Share of the probes answered within a time.",
    ),
    (
        Plot::Heat,
        "By weekday and hour",
        "95th percentile of each hour over all weeks, ms. A pattern that repeats is the load of the day.",
    ),
    (
        Plot::Availability,
        "Availability",
        "Green: available for the whole hour. Red: not available for a part of it. Grey: no probes.",
    ),
    (
        Plot::Daily,
        "Traffic a day",
        "Bytes counted at the interface.",
    ),
    (
        Plot::Radio,
        "Radio",
        "Signal as the modem or the driver tells it, above round trips and traffic. Marks at the top are handovers.",
    ),
    (
        Plot::Modem,
        "Modem",
        "Synchronous rates, noise margins and errors, as the modem tells itself.",
    ),
    (
        Plot::Host,
        "Load of this host",
        "Processors by kind of work, and the interface. A busy host may be the cause of delay and loss itself.",
    ),
];

/// Heading and caption of the first plot if there are no probes.
const TRAFFIC: (&str, &str) = (
    "Traffic",
    "Rate in each direction, counted at the interface.",
);

/// Address of the single probes of a short time on the site that serves the page.
pub const SINGLE: &str = "probes/";

/// Largest number of outages, and of incidents, that the page lists; `--csv` has all.
const LISTED: usize = 100;

/// Renders the page of a file. `all` has one material per target, the main one first; `statistics` are of the same time, if
/// there are probes.
pub fn page(all: &[Material], statistics: Option<&Statistics>) -> String {
    render(all, statistics, false)
}

/// Renders the same page for its monitor to serve: the state of the targets comes first, and the script keeps it fresh.
pub fn live_page(all: &[Material], statistics: Option<&Statistics>) -> String {
    render(all, statistics, true)
}

/// Returns the single probes of a recording's part, or the reason why they cannot be drawn.
pub fn single_probes(m: &Material) -> PageProbes {
    let reason = match (m.whole.sent(), m.points()) {
        (0, _) => Some("no probes were sent".to_owned()),
        (sent, None) => Some(format!("{sent} probes are too many to be drawn one by one")),
        _ => None,
    };
    PageProbes::of(&m.curves(), reason)
}

/// Renders the page of a monitor that has recorded too little for plots.
pub fn empty_live_page() -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (live_head("Tailback monitor"))
            body {
                main {
                    (state())
                    section { p.unknown { "Plots and statistics follow as soon as there are probes." } }
                }
                script { (PreEscaped(SCRIPT)) }
                script { (PreEscaped(LIVE_SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Section that the script fills with the state of the targets.
fn state() -> Markup {
    html! {
        section id="live" aria-labelledby="now" {
            h2 id="now" { "Now" }
            p.unknown { "Without a script this page shows no live state: load it again for newer plots." }
        }
    }
}

fn render(all: &[Material], statistics: Option<&Statistics>, live: bool) -> String {
    let Some((m, others)) = all.split_first() else {
        return String::new();
    };
    let title = if m.title.trim().is_empty() {
        "Tailback report"
    } else {
        &m.title
    };
    let mut curves = data::curves(&m.curves());
    if m.has_delays() {
        curves.smoke = Some(m.cells.data(smoke::loss_limits()));
        curves.single = live.then(|| SINGLE.to_owned());
    }
    html! {
        (DOCTYPE)
        html lang="en" {
            @if live { (live_head(title)) } @else { (head(title, None)) }
            body {
                main {
                    header {
                        p.meta { b { "Tailback" } " " span { (calendar::span(m.scope.from_ns, m.scope.to_ns, &m.scope.zone)) } }
                        h1 { (title) }
                        @if let Some(s) = statistics.filter(|_| !live) { p.says { (sentence(s, &m.scope.zone)) } }
                        dl.key {
                            @if m.has_delays() { div { dt { @if others.is_empty() { "Probes" } @else { "Probes, " (m.target) } } dd { b { (m.whole.sent()) } } } }
                            @for (name, bytes) in carried(m) { div { dt { (name) } dd { b { (bytes.0) } " " (bytes.1) } } }
                            @if let Some(loss) = m.whole.loss() { div { dt { "Lost" } dd { b { (percent(loss)) } " %" } } }
                            @for (name, value) in &figures(m) {
                                @let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
                                div { dt { (name) } dd { b { (number) } " " (unit) } }
                            }
                        }
                    }
                    @if live { (state()) }
                    @if let Some(note) = statistics.and_then(tables::unsettled_note) { p.evidence { (note) } }
                    @if let Some(s) = statistics { (overview(s, &m.scope.zone)) }
                    @if !others.is_empty() { (together(all)) }
                    (pictures(m, true))
                    @for other in others {
                        section {
                            details {
                                summary { "Plots of " (other.target) }
                                (pictures(other, false))
                            }
                        }
                    }
                }
                footer {
                    @if live { p { "This page asks its monitor for news and single probes, and nobody else." } }
                    @else { p { "This page fetches nothing." } }
                    (licence())
                }
                script type="application/json" id="curves" { (data::embedded(&curves)) }
                script { (PreEscaped(SCRIPT)) }
                @if live { script { (PreEscaped(LIVE_SCRIPT)) } }
            }
        }
    }
    .into_string()
}

/// Renders the plot of all targets together.
fn together(all: &[Material]) -> Markup {
    let named: Vec<_> = all.iter().map(|m| (m.target.clone(), m)).collect();
    let spec = hosts::plot(&named).map(|s| PlotSpec {
        untitled: true,
        ..s
    });
    html! {
        @if let Ok(spec) = spec {
            section {
                h2 { "All targets" }
                p { "The median of each stretch of time, with the losses below." }
                figure.still tabindex="0" { (spec.picture()) }
            }
        }
    }
}

/// Renders all plots of a target. The script makes those of the main one zoomable.
fn pictures(m: &Material, main: bool) -> Markup {
    let live = |plot: Plot| match plot {
        Plot::Rtt if main && m.has_delays() => Some("over-time"),
        Plot::Smoke if main => Some("smoke"),
        Plot::Cdf if main => Some("distribution"),
        _ => None,
    };
    // Traffic, load and modem belong to the near end, not to a target.
    let of_host = |plot: &Plot| matches!(plot, Plot::Daily | Plot::Host | Plot::Modem);
    let shown = ALL.iter().filter(|(plot, ..)| main || !of_host(plot));
    html! {
        @for (plot, name, says) in shown {
            @if let Ok(picture) = plot.spec(m).map(|s| PlotSpec { untitled: true, ..s }.picture()) {
                section {
                    @let (name, says) = if *plot == Plot::Rtt && !m.has_delays() { TRAFFIC } else { (*name, *says) };
                    @if main { h2 { (name) } } @else { h3 { (name) } }
                    p { (says) }
                    @if let Some(id) = live(*plot) {
                        figure id=(id) {
                            div.static { (picture) }
                            div.live hidden {}
                            figcaption.with-script { "Drag across a plot to zoom in, double-click to see all; the arrow keys move the cursor." }
                        }
                    } @else if matches!(plot, Plot::Heat | Plot::Availability | Plot::Daily) {
                        figure.cells { div { (picture) } }
                    } @else {
                        figure.still tabindex="0" { (picture) }
                    }
                }
            }
        }
    }
}

/// Renders the tables of all targets: figures, uses, outages with causes, incidents.
fn overview(s: &Statistics, zone: &TimeZone) -> Markup {
    let mut outages = tables::outages(s, zone);
    let mut incidents = tables::incidents(s, zone);
    let mut moments = tables::moments(&s.moments, zone);
    let more = [&mut outages, &mut incidents, &mut moments].map(|t| t.truncate(LISTED));
    let uses = tables::uses(s);
    html! {
        section aria-labelledby="targets" {
            h2 id="targets" { "Targets" }
            (tables::targets(s).html("target"))
            p.evidence { "Round trips in ms. " (tables::targets_note(s)) }
        }
        section aria-labelledby="uses" {
            h2 id="uses" { "Uses, by delay and loss alone" }
            (uses.html("use"))
        }
        @if let Some(table) = stability::targets(s) {
            section aria-labelledby="stability" {
                h2 id="stability" { "Stability" }
                (table.html("stable"))
                p.evidence { (stability::NOTE) }
            }
        }
        @if s.modem.is_some() {
            section aria-labelledby="modem" {
                h2 id="modem" { "Modem" }
                @for table in modem::tables(s.modem.as_ref()) { (table.html("modem")) }
                p.evidence { (modem::NOTE) }
            }
        }
        @if let Some(table) = radio::table(&s.radios) {
            section aria-labelledby="radio" {
                h2 id="radio" { "Radio" }
                (table.html("radio"))
                @for text in radio::sentences(&s.radios) { p { (text) } }
                p.evidence { (radio::NOTE) }
            }
        }
        @if let Some(table) = host::table(s.host.as_ref(), &s.interfaces) {
            section aria-labelledby="host" {
                h2 id="host" { "This host" }
                (table.html("host"))
                @let said = host::sentences(s.host.as_ref());
                @for text in &said { p { (text) } }
                @if s.host.is_some() { p.evidence { (host::NOTE) @if !said.is_empty() { " " (host::BAD) } } }
            }
        }
        section aria-labelledby="outages" {
            h2 id="outages" { "Outages" }
            @if outages.is_empty() { p { "None." } } @else { (outages.html("outage")) }
            @if more[0] > 0 { p { "And " (more[0]) " more: see " code { "tailback analyse --csv" } "." } }
        }
        @if !incidents.is_empty() {
            section aria-labelledby="incidents" {
                h2 id="incidents" { "Incidents" }
                (incidents.html("incident"))
                @if more[1] > 0 { p { "And " (more[1]) " more: see " code { "tailback analyse --csv" } "." } }
            }
        }
        @if !moments.is_empty() {
            section aria-labelledby="moments" {
                h2 id="moments" { "Marked moments" }
                (moments.html("moment"))
                @if more[2] > 0 { p { "And " (more[2]) " more: see " code { "tailback mark" } "." } }
            }
        }
    }
}

/// Returns the bytes of each direction of a recording without probes, each as a number and its unit.
fn carried(m: &Material) -> Vec<(&'static str, (String, String))> {
    if m.has_delays() {
        return Vec::new();
    }
    let sum = |all: &[Carried]| SIZE.print(all.iter().map(|c| c.bytes).sum());
    let parts = |text: String| {
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        (number.to_owned(), unit.to_owned())
    };
    let both = [("Download", &m.down), ("Upload", &m.up)];
    both.map(|(name, all)| (name, parts(sum(all)))).into()
}

/// Returns quantiles of the RTT with their names.
fn figures(m: &Material) -> Vec<(String, String)> {
    let all = &m.whole.delays;
    let quantiles = [
        ("Median", 0.5),
        ("95 %", 0.95),
        ("99 %", 0.99),
        ("Largest", 1.0),
    ];
    let known = quantiles.iter().filter_map(|(name, p)| {
        let value = DELAY.print(all.quantile_ms(*p)?);
        Some((format!("{name} RTT"), value))
    });
    known.collect()
}
