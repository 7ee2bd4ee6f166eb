//! Page of a twin: its waits beside those of the link.

use super::text::{compared, directions, queue, verdict};
use ::twin::{Twin, Waits};
use report::plot::{Axis, PlotSpec, Series, Shape};
use report::sheet::{Section, Sheet};

/// Steps of a curve: more cannot be seen.
const STEPS: usize = 200;

/// Page of a twin.
pub(super) fn page(twin: &Twin) -> Sheet {
    let mut sections = Vec::new();
    let fitted = [("up", &twin.up), ("down", &twin.down)];
    let queues = fitted
        .iter()
        .filter_map(|(name, f)| Some(queue(name, f.as_ref()?)));
    let queues: Vec<String> = queues.collect();
    if !queues.is_empty() {
        sections.push(Section {
            heading: "The link".into(),
            says: queues,
            table: Some(directions(twin)),
            ..Section::default()
        });
    }
    sections.push(Section {
        heading: "Link and twin".into(),
        says: twin.because.iter().map(|why| sentence(why)).collect(),
        table: Some(compared(&twin.compared)),
        note: "Waits in ms. Distance: mean distance of the two distributions; floor: the same between two runs of the twin. \
            Its capacity: the rate of the twin is the one that this phase had."
            .into(),
        ..Section::default()
    });
    sections.extend(twin.waits.iter().map(section));
    Sheet {
        about: "twin of a link".into(),
        title: twin.title.clone(),
        says: sentence(verdict(twin)),
        sections,
    }
}

/// Words as a sentence: with a capital and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

fn section(w: &Waits) -> Section {
    let held = match w.held_out {
        true => "The twin was not fitted to this phase.",
        false => "The twin was fitted to this phase.",
    };
    Section {
        heading: format!("Phase {}, {}", w.phase, w.direction),
        says: vec![held.into()],
        plots: vec![shares(w), over_time(w)],
        note: "The distribution of the twin is that of all its runs, after the warm-up; the plot over time shows its first run, \
            the medians of short stretches. Single peaks need not agree: the twin's packets meet other chances."
            .into(),
        ..Section::default()
    }
}

/// Share of the waits up to a time.
fn shares(w: &Waits) -> PlotSpec {
    let curve = |waits: &[f64]| -> Vec<(f64, f64)> {
        let sorted = stats::sorted(waits);
        let at = |i: usize| {
            let p = i as f64 / STEPS as f64;
            Some((stats::quantile_of_sorted(&sorted, p)?, 100.0 * p))
        };
        (0..=STEPS).filter_map(at).collect()
    };
    let (link, twin) = (curve(&w.link_steady), curve(&w.twin_steady));
    let ends = [&link, &twin].map(|c| c.last().map_or(0.0, |p| p.0));
    PlotSpec::single(
        format!(
            "Distribution of the waits, phase {}, {}",
            w.phase, w.direction
        ),
        Axis::up_to("wait, ms", ends[0].max(ends[1])),
        Axis::even("Probes that waited no longer, %", 0.0, 100.0),
        vec![
            Series::new("link", "fine ink", Shape::Stairs(link)),
            Series::new("twin", "fine s3 d1", Shape::Stairs(twin)),
        ],
    )
}

/// Waits over time, as medians of stretches.
fn over_time(w: &Waits) -> PlotSpec {
    let all = || w.link.iter().chain(&w.twin);
    let until = all().map(|p| p.0).fold(0.0, f64::max);
    let line = |waits: &[(f64, f64)]| {
        let mut stretches = vec![Vec::new(); STEPS];
        for (s, ms) in waits {
            let at = (s / until * STEPS as f64) as usize;
            stretches[at.min(STEPS - 1)].push(*ms);
        }
        let middle = |i: usize| (i as f64 + 0.5) / STEPS as f64 * until;
        let points = stretches.iter().enumerate();
        // An empty stretch of few probes is no gap.
        let points = points.filter(|(_, s)| !s.is_empty());
        let points = points.map(|(i, s)| (middle(i), stats::median(s)));
        Shape::Line(points.collect())
    };
    PlotSpec::lines(
        "Waits over time",
        Axis::even("time since the phase began, s", 0.0, until),
        "Wait, ms",
        vec![
            Series::new("link", "fine ink", line(&w.link)),
            Series::new("twin", "fine s3 d1", line(&w.twin)),
        ],
    )
}
