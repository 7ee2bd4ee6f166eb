//! Bytes per day in both directions (the thesis's figures 28 and 43).

use super::calendar;
use super::material::Material;
use crate::plot::{Axis, PlotSpec, Rectangle, Series, Shape, nice_top};
use base::print::SIZE;

pub fn plot(m: &Material) -> PlotSpec {
    let most = m.days.values().flatten().copied().fold(0.0, f64::max);
    let first = m.days.keys().next().copied().unwrap_or_default();
    let last = m.days.keys().last().copied().unwrap_or_default();
    let count = (last - first + 1).max(1);
    let bars = |(way, class, name): (usize, &'static str, &str)| {
        let bar = |(day, bytes): (&i64, &[f64; 2])| {
            let left = (day - first) as f64 + 0.1 + 0.4 * way as f64;
            Rectangle {
                class,
                x: (left, left + 0.4),
                y: (0.0, bytes[way]),
                opacity: 1.0,
                text: None,
                says: format!(
                    "{}: {name} {}",
                    calendar::day_name(*day),
                    SIZE.print(bytes[way])
                ),
            }
        };
        let total = m.days.values().map(|d| d[way]).sum::<f64>();
        let cells = m.days.iter().map(bar).collect();
        Series::new(
            format!("{name} {}", SIZE.print(total)),
            class,
            Shape::Cells(cells),
        )
    };
    let step = (count as usize).div_ceil(12);
    let marks = (0..count).step_by(step).map(|i| {
        let name = calendar::month_day(first + i);
        (i as f64 + 0.5, name)
    });
    PlotSpec::single(
        "traffic a day",
        Axis::even("", 0.0, count as f64).marked(marks.collect()),
        Axis::fitting("Bytes", SIZE, 0.0, nice_top(most)),
        [(0, "bar-down", "download"), (1, "bar-up", "upload")]
            .map(bars)
            .into(),
    )
}
