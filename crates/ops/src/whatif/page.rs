//! Page of ranked cures: delay against goodput, and the table.

use super::Answer;
use super::text::{asked, sentence, table};
use ::twin::whatif::{Goal, Tried};
use report::plot::{Axis, PlotSpec, Series, Shape};
use report::sheet::{Section, Sheet};
use report::statistics::letter;
use stats::Figure;

/// Page of the ranked cures.
pub(super) fn page(answer: &Answer) -> Sheet {
    let found = &answer.found;
    let doubt = answer
        .doubt
        .iter()
        .map(|d| format!("The twin is doubtful: {d}"));
    let named: Vec<Tried> = found
        .tried
        .iter()
        .enumerate()
        .map(|(i, t)| Tried {
            cure: format!("{}: {}", letter(i), t.cure),
            ..t.clone()
        })
        .collect();
    Sheet {
        about: "what if".into(),
        title: "Cures tried on the twin of a link".into(),
        says: sentence(&found.tried),
        sections: vec![
            Section {
                heading: "Delay and goodput".into(),
                says: doubt.chain([asked(found)]).collect(),
                plots: plot(found.goal, &found.tried).into_iter().collect(),
                note: "Best is the upper left. Each bar is a 95 % interval; cures on the line are those that no other one beats in \
                    both."
                    .into(),
                ..Section::default()
            },
            Section {
                heading: "Cures".into(),
                table: Some(table(found.goal, &named)),
                note: "*: no other cure has both less delay and more goodput.".into(),
                ..Section::default()
            },
        ],
    }
}

/// Place of a cure in the plot: added delay, gained goodput in %, and their intervals.
struct Place {
    letter: String,
    delay: [f64; 3],
    goodput: [f64; 3],
    pareto: bool,
}

fn place(goal: Goal, i: usize, t: &Tried) -> Option<Place> {
    let of = |f: &Figure, times: f64| match f {
        Figure::Is { value, low, high } => Some([low * times, value * times, high * times]),
        Figure::CannotTell { .. } => None,
    };
    let added = match goal {
        Goal::Gaming => &t.added_p99_ms,
        _ => &t.added_p95_ms,
    };
    Some(Place {
        letter: letter(i),
        delay: of(added, 1.0)?,
        goodput: of(&t.goodput_gained, 100.0)?,
        pareto: t.pareto,
    })
}

/// Goodput against delay; none if no cure has both.
fn plot(goal: Goal, tried: &[Tried]) -> Option<PlotSpec> {
    let places = tried.iter().enumerate();
    let places: Vec<Place> = places.filter_map(|(i, t)| place(goal, i, t)).collect();
    let most = places.iter().map(|p| p.delay[2]).fold(0.0, f64::max);
    let gains = || places.iter().flat_map(|p| p.goodput);
    let (low, high) = (
        gains().fold(f64::INFINITY, f64::min),
        gains().fold(f64::NEG_INFINITY, f64::max),
    );
    if places.is_empty() || !(high - low).is_finite() {
        return None;
    }
    let room = ((high - low) * 0.15).max(1.0);
    let mut best: Vec<(f64, Option<f64>)> = places
        .iter()
        .filter(|p| p.pareto)
        .map(|p| (p.delay[1], Some(p.goodput[1])))
        .collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let strokes = places
        .iter()
        .map(|p| (p.delay[0], p.delay[2], p.goodput[1]));
    let bars = places
        .iter()
        .map(|p| (p.delay[1], p.goodput[0], p.goodput[2]));
    let letters = places
        .iter()
        .map(|p| (p.delay[1], p.goodput[1], p.letter.clone()));
    let dots = places.iter().map(|p| (p.delay[1], Some(p.goodput[1])));
    let scatter = PlotSpec::single(
        "Goodput against added delay",
        Axis::up_to("delay that the load adds, ms", most),
        Axis::even("Goodput gained, %", low - room, high + room),
        vec![
            Series::new("no other cure beats these", "thin", Shape::Line(best)),
            Series::new("", "fine s3", Shape::Strokes(strokes.collect())),
            Series::new("", "fine s3", Shape::Bars(bars.collect())),
            Series::new("", "marks ink", Shape::Crosses(dots.collect())),
            Series::new("", "", Shape::Letters(letters.collect())),
        ],
    );
    Some(PlotSpec {
        untitled: true,
        ..scatter
    })
}
