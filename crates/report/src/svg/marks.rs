//! Marks of a plot as SVG path data: lines, bands, bars, stairs, dots and symbols, in pixels.

use super::short;
use std::collections::{BTreeMap, BTreeSet};

/// Width of the columns in which bars are merged, px.
pub(super) const COLUMN: f64 = 0.5;

/// Column of pixels: its place, the extremes in it, and the last value.
type Column = (f64, f64, f64, f64);

/// Draws a line, interrupted at missing values. Points on one column of pixels are drawn as their extremes.
pub(super) fn path(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut out = String::new();
    let mut pen_down = false;
    let mut column: Option<Column> = None;
    let flush = |column: &mut Option<Column>, out: &mut String, pen_down: &mut bool| {
        let Some((x, low, high, last)) = column.take() else {
            return;
        };
        let ends = match (last - low).abs() < (last - high).abs() {
            true => [high, low],
            false => [low, high],
        };
        for y in &ends[usize::from(low == high)..] {
            let pen = if *pen_down { 'L' } else { 'M' };
            out.push_str(&format!("{pen}{} {}", short(x), short(*y)));
            *pen_down = true;
        }
    };
    for (x, y) in points {
        let Some(y) = y else {
            flush(&mut column, &mut out, &mut pen_down);
            pen_down = false;
            continue;
        };
        match &mut column {
            Some((at, low, high, last)) if (x - *at).abs() < 0.5 => {
                *low = low.min(y);
                *high = high.max(y);
                *last = y;
            }
            _ => {
                flush(&mut column, &mut out, &mut pen_down);
                column = Some((x, y, y, y));
            }
        }
    }
    flush(&mut column, &mut out, &mut pen_down);
    out
}

/// Draws an area between two lines, interrupted at missing values: (x, low, high).
pub(super) fn band(points: impl Iterator<Item = Option<(f64, f64, f64)>>) -> String {
    let mut out = String::new();
    let mut part: Vec<(f64, f64, f64)> = Vec::new();
    let mut close = |part: &mut Vec<(f64, f64, f64)>| {
        if let [(x, low, high)] = part[..] {
            // Single stretches need a width, too.
            *part = vec![(x - 0.5, low, high), (x + 0.5, low, high)];
        }
        let there = part.iter().map(|(x, _, high)| (*x, *high));
        let back = part.iter().rev().map(|(x, low, _)| (*x, *low));
        for (i, (x, y)) in there.chain(back).enumerate() {
            let pen = if i == 0 { 'M' } else { 'L' };
            out.push_str(&format!("{pen}{} {}", short(x), short(y)));
        }
        if !part.is_empty() {
            out.push('Z');
        }
        part.clear();
    };
    for point in points {
        match point {
            Some(p) => part.push(p),
            None => close(&mut part),
        }
    }
    close(&mut part);
    out
}

/// Merges touching vertical bars of a column: (x, low y, high y) in pixels.
pub(super) fn bars(places: impl Iterator<Item = (f64, f64, f64)>) -> String {
    let mut columns: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for (x, a, b) in places {
        let column = columns.entry((x / COLUMN).round() as i64).or_default();
        let (low, high) = (a.min(b), a.max(b).max(a.min(b) + 0.4));
        match column.last_mut() {
            Some((l, h)) if low <= *h + 0.5 && high >= *l - 0.5 => {
                *l = l.min(low);
                *h = h.max(high);
            }
            _ => column.push((low, high)),
        }
    }
    let mut out = String::new();
    for (column, mut parts) in columns {
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut end = f64::NEG_INFINITY;
        for (low, high) in parts {
            let low = low.max(end);
            if high > low {
                let x = short(column as f64 * COLUMN);
                out.push_str(&format!("M{x} {}v{}", short(low), short(high - low)));
                end = high;
            }
        }
    }
    out
}

/// Returns the corners of stairs.
pub(super) fn stairs(points: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
    let held = points.iter().skip(1).zip(points);
    let corners = held.flat_map(|((x, y), (_, before))| [(*x, Some(*before)), (*x, Some(*y))]);
    let first = points.first().map(|(x, y)| (*x, Some(*y)));
    first.into_iter().chain(corners).collect()
}

pub(super) fn circle(x: f64, y: f64) -> String {
    format!(
        "M{} {}a3 3 0 1 1 -6 0a3 3 0 1 1 6 0",
        short(x + 3.0),
        short(y)
    )
}

pub(super) fn cross(x: f64, y: f64) -> String {
    format!("M{} {}l10 10m0 -10l-10 10", short(x - 5.0), short(y - 5.0))
}

pub(super) fn dots(spots: impl Iterator<Item = (f64, f64)>) -> String {
    let mut seen = BTreeSet::new();
    spots
        .map(|(x, y)| ((x / 2.0).round() as i64 * 2, (y / 2.0).round() as i64 * 2))
        .filter(|spot| seen.insert(*spot))
        .map(|(x, y)| format!("M{x} {y}h2"))
        .collect()
}

/// Draws symbols; of those within two pixels of each other, one.
pub(super) fn symbols(symbol: &str, places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut seen = BTreeSet::new();
    places
        .filter(|(x, y)| seen.insert(((x / 2.0).round() as i64, (y / 2.0).round() as i64)))
        .map(|(x, y)| format!("M{} {}{symbol}", short(x), short(y)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_interrupted_at_a_loss_and_keeps_the_peak_of_a_column() {
        let points = [
            (0.0, Some(10.0)),
            (0.1, Some(2.0)),
            (0.2, Some(9.0)),
            (1.0, None),
            (5.0, Some(4.0)),
            (6.0, Some(4.0)),
        ];
        assert_eq!(path(points.into_iter()), "M0 2L0 10M5 4L6 4");
    }

    /// Half of the probes took 1 ms and half 9 ms: nothing is drawn as if some had taken 5 ms.
    #[test]
    fn stairs_rise_at_their_values_and_nowhere_else() {
        let corners = stairs(&[(1.0, 0.0), (1.0, 50.0), (9.0, 100.0)]);
        let expected = [
            (1.0, 0.0),
            (1.0, 0.0),
            (1.0, 50.0),
            (9.0, 50.0),
            (9.0, 100.0),
        ];
        assert_eq!(corners, expected.map(|(x, y)| (x, Some(y))));
        assert!(stairs(&[]).is_empty());
    }

    #[test]
    fn bars_of_a_column_that_touch_are_one_and_others_are_not() {
        let all = [(10.0, 5.0, 8.0), (10.1, 8.0, 12.0), (10.0, 40.0, 41.0)];
        assert_eq!(bars(all.into_iter()), "M10 5v7M10 40v1");
    }
}
