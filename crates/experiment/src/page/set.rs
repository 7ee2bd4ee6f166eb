//! Pages as a set: load times of all, and how much longer each takes under load.

use super::Site;
use crate::answer::{Draw, Figured, Outcome, Plot, Series};
use base::print::{DELAY, significant};
use stats::Figure;

/// Pages from which on they are told of as a set.
const PAGES: usize = 4;

/// Adds the figures and the plot of a set of pages; returns its sentence. None for few pages, or for two transports beside each
/// other.
pub(super) fn of(sites: &[Site], outcome: &mut Outcome) -> Option<String> {
    let is_set = sites.len() >= PAGES && sites.windows(2).all(|pair| pair[0].url != pair[1].url);
    if !is_set {
        return None;
    }
    let of = |loaded| -> Vec<f64> {
        let means = sites.iter().map(|s| s.mean(loaded).value());
        stats::sorted(&means.flatten().collect::<Vec<_>>())
    };
    let (idle, loaded) = (of(false), of(true));
    let ratios: Vec<f64> = sites
        .iter()
        .filter_map(|s| Some((s.mean(true).value()? / s.mean(false).value()?).ln()))
        .filter(|log| log.is_finite())
        .collect();
    let times = match stats::mean_figure(&ratios) {
        Figure::Is { value, low, high } => Figure::Is {
            value: value.exp(),
            low: low.exp(),
            high: high.exp(),
        },
        none => none,
    };
    let mut figures = Vec::new();
    let median = |all: &[f64]| stats::quantile_figure(all, 0.5);
    figures.push(Figured::time(
        "pages_idle_ms",
        "time to load a page, idle, median of the pages",
        median(&idle),
    ));
    let mut said = format!(
        "Of {} pages {} loaded on the idle link{}.",
        sites.len(),
        idle.len(),
        spread(&idle)
    );
    if !loaded.is_empty() {
        figures.push(Figured::time(
            "pages_loaded_ms",
            "time to load a page under load, median of the pages",
            median(&loaded),
        ));
        figures.push(Figured::count(
            "pages_ratio",
            "times as long under load, geometric mean of the pages",
            times.clone(),
        ));
        said += &format!(" Under load {} did{}.", loaded.len(), spread(&loaded));
    }
    if let Figure::Is { value, low, high } = times {
        let [value, low, high] = [value, low, high].map(|v| significant(v, 2));
        said += &format!(" A page takes {value} times as long then ({low} to {high}).");
    }
    outcome.figures.splice(0..0, figures);
    outcome.plots.push(plot(&idle, &loaded));
    Some(said)
}

/// Least, middle and greatest time.
fn spread(sorted: &[f64]) -> String {
    match (
        sorted.first(),
        stats::quantile_of_sorted(sorted, 0.5),
        sorted.last(),
    ) {
        (Some(least), Some(middle), Some(most)) => {
            let [least, middle, most] = [*least, middle, *most].map(|ms| DELAY.print(ms));
            format!(", in {least} to {most}, half of them within {middle}")
        }
        _ => String::new(),
    }
}

fn plot(idle: &[f64], loaded: &[f64]) -> Plot {
    let series = |name: &str, sorted: &[f64]| {
        let share = |i: usize| (i + 1) as f64 / sorted.len() as f64 * 100.0;
        let points = sorted.iter().enumerate();
        let points = points.map(|(i, ms)| (ms * 1e-3, Some(share(i)))).collect();
        Series::new(name, Draw::Line, points)
    };
    let mut all = vec![series("idle", idle)];
    if !loaded.is_empty() {
        all.push(series("under load", loaded));
    }
    Plot::new("Pages loaded within a time", ("s", "% of the pages"), all)
}
