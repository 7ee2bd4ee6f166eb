//! Comparison of several recordings on one page: their distributions in one chart, and their figures side by side.

use crate::html::head;
use crate::plot::{Axis, PlotSpec, Series};
use crate::plots::Material;
use crate::sheet::{Section, Sheet};
use crate::statistics::{comparison, letter};
use crate::table::Table;
use crate::terminal::before_after::{intervals, sentences, tables};
use crate::words;
use analysis::before_after::BeforeAfter;
use analysis::compare::Comparison;
use maud::{DOCTYPE, html};

/// Steps of each curve: more cannot be seen.
const STEPS: usize = 400;

/// Plots the share of each recording's probes answered within a time; lost probes are never answered. One material per
/// recording.
pub fn distributions(c: &Comparison, of: &[Material]) -> PlotSpec {
    let curve = |m: &Material| -> Vec<(f64, f64)> {
        let shares = m.whole.delays.shares();
        let answered = m.whole.delays.len() as f64 / m.whole.sent().max(1) as f64;
        let every = shares.len().div_ceil(STEPS).max(1);
        let last = shares.len().saturating_sub(1);
        let kept = shares.iter().enumerate();
        let kept = kept.filter(|(i, _)| i % every == 0 || *i == last);
        let start = shares.first().map(|(ms, _)| (*ms, 0.0));
        let curve = kept.map(|(_, (ms, share))| (*ms, 100.0 * share * answered));
        start.into_iter().chain(curve).collect()
    };
    let curves = of.iter().enumerate();
    overlaid(
        "Distribution of the round trips",
        curves.map(|(i, m)| (name(c, i), curve(m))).collect(),
    )
}

/// Round trips of all networks in one phase, to be drawn over each other.
pub struct Overlay {
    pub phase: String,
    /// Name and round trips of each network, ms; none of a lost probe.
    pub networks: Vec<(String, Vec<Option<f64>>)>,
}

impl Overlay {
    /// Plots the share of each network's probes answered within a time.
    pub fn plot(&self) -> PlotSpec {
        let curve = |(name, probes): &(String, Vec<Option<f64>>)| {
            let mut known: Vec<f64> = probes.iter().flatten().copied().collect();
            known.sort_by(f64::total_cmp);
            let every = known.len().div_ceil(STEPS).max(1);
            let last = known.len().saturating_sub(1);
            let share = |i: usize| 100.0 * (i + 1) as f64 / probes.len().max(1) as f64;
            let start = known.first().map(|ms| (*ms, 0.0));
            let kept = known.iter().enumerate();
            let kept = kept.filter(|(i, _)| i % every == 0 || *i == last);
            let points = start.into_iter().chain(kept.map(|(i, ms)| (*ms, share(i))));
            (short(name), points.collect())
        };
        overlaid(
            words::phase(&self.phase),
            self.networks.iter().map(curve).collect(),
        )
    }
}

/// Plots distributions over each other, each with its name.
fn overlaid(title: &str, curves: Vec<(String, Vec<(f64, f64)>)>) -> PlotSpec {
    let all = || curves.iter().flat_map(|(_, points)| points).map(|p| p.0);
    let low = all().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e6);
    let high = all().fold(low, f64::max);
    let series = curves
        .into_iter()
        .enumerate()
        .map(|(i, (name, points))| Series::stairs(name, i, points));
    PlotSpec::single(
        title,
        Axis::logarithmic("round-trip time, ms (logarithmic)", low * 0.97, high * 1.03),
        Axis::even("Probes answered within, %", 0.0, 100.0),
        series.collect(),
    )
}

/// Returns `A: name`, shortened to the space in a legend.
fn name(c: &Comparison, i: usize) -> String {
    let full = c.recordings.get(i).map_or("", |r| &r.name);
    format!("{}: {}", letter(i), short(full))
}

/// Returns the last part of a path, shortened to the space in a legend.
fn short(path: &str) -> String {
    const ROOM: usize = 18;
    let file = file(path);
    let short: String = file.chars().take(ROOM).collect();
    let is_cut = file.chars().count() > ROOM;
    format!("{short}{}", if is_cut { "…" } else { "" })
}

/// Returns the last part of a path.
fn file(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(path)
}

pub fn page(c: &Comparison, of: &[Material]) -> String {
    let names: Vec<&str> = c.recordings.iter().map(|r| file(&r.name)).collect();
    let title = names.join(", ");
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, None))
            body {
                main {
                    header {
                        p.meta { b { "Tailback" } " " span { (c.recordings.len()) " recordings side by side" } }
                        h1 { (title) }
                        dl.key {
                            @for (i, r) in c.recordings.iter().enumerate() {
                                div { dt { (letter(i)) } dd { (r.name) ", " (words::origin(r.origin)) } }
                            }
                        }
                    }
                    section {
                        h2 { "Distribution" }
                        p { "What share of the probes was answered within a time. What was lost is never answered: a curve ends below 100 %." }
                        figure.still tabindex="0" { (distributions(c, of).picture()) }
                    }
                    @for (i, table) in comparison(c).iter().enumerate() {
                        section {
                            h2 { (words::phase(&table.title)) }
                            (table.html(&format!("compared-{i}")))
                        }
                    }
                    section { p { (c.method) } }
                }
                footer { p { "This page fetches nothing." } }
            }
        }
    }
    .into_string()
}

/// Page of networks that were tested: figures, changes, and the distributions of each phase.
pub fn tests_page(found: &BeforeAfter, phases: &[Overlay]) -> String {
    let names: Vec<&str> = found.tests.iter().map(|t| file(&t.name)).collect();
    let runs: u64 = found.tests.iter().map(|t| t.rounds).sum();
    let of_table = |table: Table| Section {
        heading: table.title.clone(),
        table: Some(table),
        ..Section::default()
    };
    let mut sections: Vec<Section> = tables(found).into_iter().map(of_table).collect();
    if let Some(last) = sections.last_mut() {
        last.note = intervals(found);
    }
    sections.extend(phases.iter().map(|phase| Section {
        heading: words::phase(&phase.phase).into(),
        says: vec![WITHIN.into()],
        plots: vec![PlotSpec {
            untitled: true,
            ..phase.plot()
        }],
        ..Section::default()
    }));
    Sheet {
        about: format!("{} networks side by side, {runs} runs", found.tests.len()),
        title: names.join(", "),
        says: sentences(found).join(" "),
        sections,
    }
    .html()
}

/// Explains a distribution.
const WITHIN: &str = "Share of the probes answered within a time. A lost probe is never answered: a curve with losses ends below 100\u{a0}%.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::Scope;
    use analysis::compare::Named;
    use base::record::{Origin, Status};

    #[test]
    fn recordings_share_one_plot_and_a_lost_probe_is_never_answered() {
        let named = |name: &str| Named {
            name: name.into(),
            origin: Origin::Imported,
            target: "udp".into(),
        };
        let c = Comparison {
            recordings: vec![named("/data/adsl.rec/"), named("<lte>.rec")],
            method: "In brackets: 95 %.".into(),
            sections: Vec::new(),
        };
        let material = |ms: i64, lost: i64| {
            let scope = Scope {
                from_ns: 0,
                to_ns: 100_000_000_000,
                zone: jiff::tz::TimeZone::UTC,
            };
            let mut m = Material::new(scope, "");
            for i in 0..100 {
                let rtt = (i >= lost).then_some(ms * 1_000_000);
                let status = if i < lost { Status::Lost } else { Status::Ok };
                m.probe(i * 1_000_000_000, rtt, status);
            }
            m
        };
        let page = page(&c, &[material(20, 0), material(80, 50)]);
        for expected in [
            "A: adsl.rec",
            "B: &lt;lte&gt;.rec",
            "2 recordings side by side",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(!page.contains("<lte>"));
        // The second curve ends in the middle.
        let last = |class: &str| -> f64 {
            let line = page
                .split("<path")
                .find(|p| p.contains(class) && p.contains(" d=\"M") && !p.contains("h22"))
                .unwrap();
            let end = line.split('"').find(|d| d.starts_with('M')).unwrap();
            let number = end.rsplit([' ', 'L', 'V', ',']).next().unwrap();
            number.parse().unwrap()
        };
        assert!(last("s0") < last("s1"));
    }
}
