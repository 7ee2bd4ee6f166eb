//! Plots of a capture's traffic: distributions with fitted laws, decrease of the variance with the time scale, and
//! delays between two captures.

use crate::plot::{Axis, Draw, PlotSpec, Series, nice_top};
use analysis::traffic::{ClassAnswer, Law, TrafficAnswer};
use stats::hurst::Estimate;

/// Number of fitted curves per distribution; more cannot be told apart.
const CURVES: usize = 3;
/// Points of a fitted curve.
const STEPS: usize = 240;

/// Returns each plot with the name of its file; quantities that were not seen have none.
pub fn plots(a: &TrafficAnswer) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for c in &a.classes {
        let word = c.name.to_lowercase().replace('+', "-");
        let step = a.step_s * 1e3;
        let quantities = [
            ("gaps", "Gap between packets, ms", 1e3, &c.gaps),
            ("sizes", "Size of the IP packet, bytes", 1.0, &c.sizes),
            ("arrivals", "Arrival rate, packets/s", 1.0, &c.arrivals),
        ];
        for (name, axis, size, law) in quantities {
            let title = match name {
                "arrivals" => format!("{}: arrivals in steps of {step} ms", c.name),
                _ => format!("{}: {name}", c.name),
            };
            if let Some(svg) = distribution(law, &title, axis, size) {
                out.push((format!("{word}-{name}"), svg));
            }
        }
    }
    if let Some(svg) = variance_time(&a.classes, a.hurst_step_s) {
        out.push(("variance-time".into(), svg));
    }
    out
}

fn distribution(law: &Law, title: &str, axis: &str, size: f64) -> Option<String> {
    let seen: Vec<(f64, f64)> = law
        .shares
        .iter()
        .map(|(v, share)| (v * size, 100.0 * share))
        .filter(|p| p.0 > 0.0)
        .collect();
    // Gaps of zero have no place on a logarithmic axis, but the curve starts above them.
    let zeros = law.shares.iter().rfind(|p| p.0 <= 0.0);
    let zeros = zeros.map_or(0.0, |p| 100.0 * p.1);
    let (first, last) = (seen.first()?.0, seen.last()?.0);
    // The rarest values at the ends would take half of the picture.
    let low = seen.iter().find(|p| p.1 >= 0.1).map_or(first, |p| p.0);
    let high = seen.iter().find(|p| p.1 >= 99.95).map_or(last, |p| p.0);
    if low >= high {
        return None;
    }
    let (from, to) = (low / 1.2, high * 1.2);
    let mut series = vec![Series::numbered(
        "seen",
        Draw::Line,
        5,
        steps(from, zeros, &seen),
    )];
    for (i, fit) in law.curves.iter().take(CURVES).enumerate() {
        let at = |k: usize| from * (to / from).powf(k as f64 / STEPS as f64);
        let name = format!(
            "{} (off by {:.1} %)",
            fit.family.word(),
            100.0 * fit.distance
        );
        let points = (0..=STEPS).map(|k| (at(k), Some(100.0 * fit.cdf(at(k) / size))));
        series.push(Series::numbered(name, Draw::Line, i, points.collect()));
    }
    let x = Axis::logarithmic(format!("{axis} (logarithmic)"), from, to);
    let y = Axis::even("Share up to it, %", 0.0, 100.0);
    Some(PlotSpec::single(title, x, y, series).svg())
}

/// Returns a step curve: a share holds from its value to the next one.
fn steps(from: f64, mut before: f64, shares: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
    let mut out = vec![(from, Some(before))];
    for (v, share) in shares {
        out.extend([(*v, Some(before)), (*v, Some(*share))]);
        before = *share;
    }
    out
}

/// Plots the variance of the mean rate over each time scale, beside that of independent packets.
fn variance_time(classes: &[ClassAnswer], step_s: f64) -> Option<String> {
    let estimates: Vec<(&str, &Estimate)> = classes
        .iter()
        .filter_map(|c| Some((c.name, &c.scaling.as_ref()?.variance_time)))
        .filter(|(_, e)| e.points.len() > 1)
        .collect();
    let scale = |m: f64| m * step_s;
    // Each curve is relative to its own first scale, because the slopes are compared.
    let relative = |e: &Estimate| -> Vec<(f64, f64)> {
        let top = e.points[0].1;
        e.points.iter().map(|(m, v)| (scale(*m), v / top)).collect()
    };
    let all: Vec<(f64, f64)> = estimates.iter().flat_map(|(_, e)| relative(e)).collect();
    let from = all.iter().map(|p| p.0).reduce(f64::min)?;
    let to = all.iter().map(|p| p.0).reduce(f64::max)?;
    let least = all.iter().map(|p| p.1).fold(from / to, f64::min);
    let mut series: Vec<Series> = estimates
        .iter()
        .enumerate()
        .map(|(i, (name, e))| {
            let name = match e.h.value() {
                Some(h) => format!("{name}, H = {h:.2}"),
                None => (*name).to_string(),
            };
            let points = relative(e).into_iter().map(|(x, y)| (x, Some(y)));
            Series::numbered(name, Draw::Knots, i, points.collect())
        })
        .collect();
    series.push(Series::numbered(
        "independent packets, H = 0.5",
        Draw::Thin,
        0,
        vec![(from, Some(1.0)), (to, Some(from / to))],
    ));
    let y = "Variance of the mean rate, relative to that over the shortest scale";
    let plot = PlotSpec::single(
        "Variance of the rate over time scales",
        Axis::logarithmic("time scale, s (logarithmic)", from, to),
        Axis::logarithmic(y, least / 1.3, 1.3),
        series,
    );
    Some(plot.svg())
}

/// Plots the delay of one direction's packets over time, (s, ms), and the times of losses.
pub fn waits(direction: &str, waits: &[(f64, f64)], lost_s: &[f64]) -> String {
    let end = waits.iter().map(|w| w.0).fold(0.0, f64::max);
    let all: Vec<f64> = waits.iter().map(|w| w.1).collect();
    // A few outliers would press all others to the bottom.
    let most = stats::quantile(&all, 0.999).unwrap_or_default();
    let top = nice_top(1.1 * most.max(1e-3));
    let points = waits.iter().map(|(t, w)| (*t, Some(w.min(top))));
    let mut series = vec![Series::numbered("packets", Draw::Dots, 0, points.collect())];
    if !lost_s.is_empty() {
        let lost = lost_s.iter().map(|t| (*t, Some(top)));
        series.push(Series::numbered("lost", Draw::Marks, 4, lost.collect()));
    }
    PlotSpec::single(
        format!("Wait beyond the quickest packet, {direction}"),
        Axis::even("time, s", 0.0, end),
        Axis::even("wait, ms", 0.0, top),
        series,
    )
    .svg()
}
