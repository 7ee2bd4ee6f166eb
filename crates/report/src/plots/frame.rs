//! Common parts of all plots: heading, time axis, areas, and the top of an axis.

use super::calendar;
use super::material::Material;
use crate::svg::{INNER, LEFT, document, nice_top, short};
use maud::{Markup, PreEscaped, html};

/// Style of these plots: colours in addition to the common ones. The colours of the smoke's median are SmokePing's,
/// which its users know.
const STYLE: &str = "
.tb-plot .range{fill:var(--ink);stroke:none;opacity:.16}.tb-plot .puff{fill:var(--ink);stroke:none;opacity:.11}.tb-plot .middle{stroke:var(--ink);stroke-width:1.6}
.tb-plot .swatch{stroke:var(--ink);stroke-width:10;opacity:.2}.tb-plot .swatch.dark{opacity:.35}.tb-plot .p99{stroke:var(--both);stroke-width:1}.tb-plot .gone{stroke:var(--loss);stroke-width:1.5;opacity:.35}
.tb-plot .bar-down{fill:var(--down)}.tb-plot .bar-up{fill:var(--up)}
.tb-plot .l0{stroke:#26d900}.tb-plot .l1{stroke:#00b8ff}.tb-plot .l2{stroke:#0059ff}.tb-plot .l3{stroke:#7e00ff}.tb-plot .l4{stroke:#ff00ff}.tb-plot .l5{stroke:#ff5500}.tb-plot .l6{stroke:#ff0000}.tb-plot .l7{stroke:#a00000}
.tb-plot .med{stroke-width:3}.tb-plot .hot{fill:var(--up)}.tb-plot .out{fill:var(--loss)}.tb-plot .sound{fill:#2f9e5b}.tb-plot .unknown{fill:var(--rule);opacity:.5}
.tb-plot .small{font-size:12px}.tb-plot .onhot{fill:var(--ink);font-size:11px;pointer-events:none}.tb-plot .strong{fill:var(--paper)}
";

/// Draws a plot with its heading above and the span below.
pub(super) fn framed(m: &Material, height: f64, what: &str, inside: Markup) -> Markup {
    let heading = if m.title.is_empty() {
        what.to_owned()
    } else {
        format!("{}: {what}", m.title)
    };
    document(
        height,
        &heading,
        html! {
            style { (PreEscaped(STYLE)) }
            text.name x=(LEFT) y="20" { (heading) }
            (inside)
            text.small x=(LEFT + INNER) y=(short(height - 8.0)) text-anchor="end" { (calendar::span(m.scope.from_ns, m.scope.to_ns, &m.scope.zone)) }
        },
    )
}

/// Draws marks of civil time under a panel.
pub(super) fn time_axis(m: &Material, y: f64) -> Markup {
    let x = |t: i64| LEFT + INNER * (t - m.scope.from_ns) as f64 / m.length_ns() as f64;
    html! {
        @for (t, name) in calendar::marks(m.scope.from_ns, m.scope.to_ns, &m.scope.zone) {
            line.rule x1=(short(x(t))) x2=(short(x(t))) y1=(short(y)) y2=(short(y + 5.0)) {}
            text.small x=(short(x(t).clamp(LEFT + 12.0, LEFT + INNER - 12.0))) y=(short(y + 19.0)) text-anchor="middle" { (name) }
        }
    }
}

/// Returns the middle of the stretch at `index` of `count`, px.
pub(super) fn middle_x(index: usize, count: usize) -> f64 {
    LEFT + INNER * (index as f64 + 0.5) / count as f64
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
            out.push_str(&format!(
                "{}{} {}",
                if i == 0 { 'M' } else { 'L' },
                short(x),
                short(y)
            ));
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

/// Returns the top of an axis that shows `share` of the values; tails beyond it are named, not drawn.
pub(super) fn most_of(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let values: Vec<f64> = values.collect();
    nice_top(stats::quantile(&values, share).unwrap_or_default() * 1.05)
}
