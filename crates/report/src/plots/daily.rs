//! Bytes per day in both directions (the thesis's figures 28 and 43).

use super::calendar;
use super::frame::framed;
use super::material::Material;
use crate::svg::{INNER, LEFT, Panel, nice_top, short};
use base::print::{SIZE, number};
use maud::{Markup, html};

pub fn draw(m: &Material) -> Markup {
    let most = m.days.values().flatten().copied().fold(0.0, f64::max);
    let panel = Panel {
        top: 62.0,
        height: 260.0,
        max: nice_top(most),
        name_y: 48.0,
    };
    let (unit, size) = SIZE.fitting(panel.max);
    let first = m.days.keys().next().copied().unwrap_or_default();
    let last = m.days.keys().last().copied().unwrap_or_default();
    let count = (last - first + 1).max(1);
    let slot = INNER / count as f64;
    let bar = (slot * 0.4).max(0.5);
    let names = (count as usize).div_ceil(12);
    let total = |way: usize| m.days.values().map(|d| d[way]).sum::<f64>();
    let height = panel.top + panel.height + 46.0;
    let legend = |class: &str, name: &str, way: usize, x: f64| {
        html! {
            rect class=(format!("bar-{class}")) x=(short(x)) y=(short(panel.name_y - 11.0)) width="14" height="11" {}
            text.small x=(short(x + 20.0)) y=(panel.name_y) { (name) " " (SIZE.print(total(way))) }
        }
    };
    framed(
        m,
        height,
        "traffic a day",
        html! {
            (panel.frame(&format!("Bytes, {unit}"), |v| number(v / size)))
            (legend("down", "download", 0, LEFT + INNER - 340.0))
            (legend("up", "upload", 1, LEFT + INNER - 160.0))
            @for (day, bytes) in &m.days {
                @let x = LEFT + slot * (day - first) as f64;
                @for (way, class, name) in [(0, "bar-down", "download"), (1, "bar-up", "upload")] {
                    rect class=(class) x=(short(x + slot * 0.1 + bar * way as f64)) width=(short(bar)) y=(short(panel.y(bytes[way]))) height=(short(panel.top + panel.height - panel.y(bytes[way]))) {
                        title { (calendar::day_name(*day)) ": " (name) " " (SIZE.print(bytes[way])) }
                    }
                }
                @if ((day - first) as usize).is_multiple_of(names) {
                    text.small x=(short(x + slot / 2.0)) y=(short(panel.top + panel.height + 19.0)) text-anchor="middle" { (calendar::day_name(*day)) }
                }
            }
        },
    )
}
