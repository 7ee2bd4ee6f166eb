//! RTT over time in characters: braille with Unicode, bars in ASCII.

use super::page::length;
use crate::curves::Curves;
use crate::svg::quartered_top;
use crate::words::phase;
use base::print::number;

const ROWS: usize = 8;

/// Returns the plot, its axes and the names of the phases under it.
pub fn lines(curves: &Curves, width: usize, unicode: bool) -> Vec<String> {
    let top = quartered_top(
        curves
            .probes
            .iter()
            .filter_map(|p| p.ms)
            .fold(0.0, f64::max),
    );
    let labels: Vec<String> = (0..ROWS)
        .map(|r| {
            if r % 2 == 0 {
                number(top * (ROWS - r) as f64 / ROWS as f64)
            } else {
                String::new()
            }
        })
        .collect();
    let gutter = labels
        .iter()
        .map(|l| l.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let columns = width.saturating_sub(gutter + 3).max(10);
    // Braille has two by four dots per character; ASCII bars have one.
    let (across, down) = if unicode { (2, 4) } else { (1, 1) };
    let (wide, tall) = (columns * across, ROWS * down);
    let mut dots = vec![false; wide * tall];
    let mut lost = vec![false; columns];
    let row_of = |ms: f64| tall - 1 - ((ms / top * tall as f64) as usize).min(tall - 1);
    let mut last: Option<(usize, usize)> = None;
    for p in &curves.probes {
        let here = p.ms.map(|ms| (at(p.t_s, curves.span_s, wide), row_of(ms)));
        if let Some((x, y)) = here {
            let (from_x, from_y) = last.unwrap_or((x, y));
            let steps = (x - from_x).max(y.abs_diff(from_y)).max(1);
            for i in 0..=steps {
                let part = |a: usize, b: usize| {
                    (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round() as usize
                };
                dots[part(from_y, y) * wide + part(from_x, x)] = true;
            }
        }
        // A lost probe interrupts the line.
        last = here;
    }
    curves
        .lost_s
        .iter()
        .for_each(|t| lost[at(*t, curves.span_s, columns)] = true);

    let mut out = Vec::with_capacity(ROWS + 4);
    for (r, label) in labels.iter().enumerate() {
        let cells: String = (0..columns)
            .map(|c| {
                let set = |x: usize, y: usize| dots[(r * down + y) * wide + c * across + x];
                if unicode {
                    braille(&set)
                } else if set(0, 0) {
                    '#'
                } else {
                    ' '
                }
            })
            .collect();
        out.push(format!(
            "{label:>gutter$} {}{cells}",
            if unicode { '│' } else { '|' }
        ));
    }
    let rule = if unicode { "─" } else { "-" };
    out.push(format!(
        "{:>gutter$} {}{}",
        "0",
        if unicode { '└' } else { '+' },
        rule.repeat(columns)
    ));
    if lost.contains(&true) {
        let marks: String = lost.iter().map(|l| if *l { 'x' } else { ' ' }).collect();
        out.push(format!("{:gutter$}  {marks}", ""));
    }
    out.push(format!("{:gutter$}  {}", "", strip(curves, columns)));
    let end = format!("{} s", number(curves.span_s));
    out.push(format!(
        "{:gutter$}  0 s{end:>w$}",
        "",
        w = columns.saturating_sub(3)
    ));
    out
}

fn at(t_s: f64, span_s: f64, columns: usize) -> usize {
    ((t_s / span_s * columns as f64).max(0.0) as usize).min(columns - 1)
}

/// Returns the braille character of a dot pattern. Unicode block "Braille Patterns", U+2800: bits 0 to 2 are the upper
/// left dots, 3 to 5 the upper right, 6 and 7 the lowest.
pub(super) fn braille(set: &dyn Fn(usize, usize) -> bool) -> char {
    let bit = |x, y, b: u32| u32::from(set(x, y)) << b;
    let left = bit(0, 0, 0) | bit(0, 1, 1) | bit(0, 2, 2) | bit(0, 3, 6);
    let right = bit(1, 0, 3) | bit(1, 1, 4) | bit(1, 2, 5) | bit(1, 3, 7);
    // Some fonts draw empty circles for the pattern without dots.
    if left | right == 0 {
        return ' ';
    }
    char::from_u32(0x2800 + (left | right)).expect("the block has 256 patterns")
}

/// Writes phase names under the time axis: each starts with its phase, or behind the preceding name.
fn strip(curves: &Curves, columns: usize) -> String {
    let mut out = String::new();
    for p in &curves.phases {
        let at = (p.from_s / curves.span_s * columns as f64).round().max(0.0) as usize;
        let free = at.max(length(&out) + usize::from(!out.is_empty()));
        out.push_str(&" ".repeat(free - length(&out)));
        out.push_str(&phase(&p.name).to_lowercase());
    }
    out
}
