//! Page with all plots of a recording that is not a test. It fetches nothing and is complete without its script. The
//! script makes the plots over time and the distribution zoomable and readable point by point, and the calendars
//! readable cell by cell.

use super::{Material, Plot, calendar, smoke};
use crate::data;
use crate::html::{SCRIPT, head, licence};
use base::print::{DELAY, percent};
use maud::{DOCTYPE, PreEscaped, html};

const ALL: [(Plot, &str, &str); 8] = [
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
        "What share of the probes was answered within a time.",
    ),
    (
        Plot::Heat,
        "By weekday and hour",
        "Over all weeks: where it repeats itself, it is the load of the day.",
    ),
    (
        Plot::Availability,
        "Availability",
        "Green: there throughout the hour. Red: gone for a part of it. Grey: nothing was asked. The line above the picture says what was asked.",
    ),
    (Plot::Daily, "Traffic a day", "Counted at the interface."),
];

pub fn page(m: &Material) -> String {
    let title = if m.title.trim().is_empty() {
        "Tailback report"
    } else {
        &m.title
    };
    let mut curves = data::curves(&m.curves());
    if m.has_delays() {
        curves.smoke = Some(m.cells.data(smoke::loss_limits()));
    }
    let live = |plot: Plot| match plot {
        Plot::Rtt => Some("over-time"),
        Plot::Smoke => Some("smoke"),
        Plot::Cdf => Some("distribution"),
        _ => None,
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                main {
                    header {
                        p.meta { b { "Tailback" } " " span { (calendar::span(m.scope.from_ns, m.scope.to_ns, &m.scope.zone)) } }
                        h1 { (title) }
                        dl.key {
                            div { dt { "Probes" } dd { (m.whole.sent()) } }
                            @if let Some(loss) = m.whole.loss() { div { dt { "Lost" } dd { (percent(loss)) " %" } } }
                            @for (name, value) in &figures(m) { div { dt { (name) } dd { (value) } } }
                        }
                    }
                    @for (plot, name, says) in ALL {
                        @if let Ok(picture) = plot.spec(m).map(|s| s.picture()) {
                            section {
                                h2 { (name) }
                                p { (says) }
                                @if let Some(id) = live(plot) {
                                    figure id=(id) {
                                        div.static { (picture) }
                                        div.live hidden {}
                                        figcaption.with-script { "Drag across a plot to zoom in, double-click to see all; the arrow keys move the cursor." }
                                    }
                                } @else if matches!(plot, Plot::Heat | Plot::Availability | Plot::Daily) {
                                    figure.cells { div { (picture) } }
                                } @else {
                                    figure { (picture) }
                                }
                            }
                        }
                    }
                }
                footer { p { "This page fetches nothing." } (licence()) }
                script type="application/json" id="curves" { (data::embedded(&curves)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
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
        Some((format!("{name} of the round trips"), value))
    });
    known.collect()
}
