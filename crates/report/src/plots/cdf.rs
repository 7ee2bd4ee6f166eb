//! Share of all probes answered within a time (the thesis's figures 27, 30, 33, 42). Lost probes are never answered:
//! the curve ends below 100 %.

use super::material::Material;
use crate::plot::{Axis, PlotSpec, Series, Shape};

pub fn plot(m: &Material) -> PlotSpec {
    let steps = m.whole.delays.shares();
    let answered = m.whole.delays.len() as f64 / m.whole.sent().max(1) as f64;
    let low = steps.first().map_or(1.0, |s| s.0).max(1e-3);
    let high = steps.last().map_or(1.0, |s| s.0).max(low * 1.01);
    let start = (low, 0.0);
    let curve = steps
        .iter()
        .map(|(ms, share)| (ms.max(low), share * answered * 100.0));
    let curve = std::iter::once(start).chain(curve).collect();
    PlotSpec::single(
        "distribution of the round trips",
        Axis::logarithmic("round-trip time, ms (logarithmic)", low * 0.96, high * 1.04),
        Axis::even("Probes answered within, %", 0.0, 100.0),
        vec![Series::new("", "middle", Shape::Stairs(curve))],
    )
}
