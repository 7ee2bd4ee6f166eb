//! Delay over the day and the week: 95th percentile of all probes of each weekday and hour, over all weeks, and of each
//! hour over all days.

use super::frame::framed;
use super::material::{Material, Stretch, sum};
use crate::svg::{INNER, LEFT, short};
use base::print::{number, percent};
use maud::{Markup, html};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const TOP: f64 = 66.0;
const ROW: f64 = 30.0;

pub fn draw(m: &Material) -> Markup {
    let hours: Vec<Stretch> = (0..24)
        .map(|h| {
            sum(&(0..7)
                .map(|d| m.week[d * 24 + h].clone())
                .collect::<Vec<_>>())
        })
        .collect();
    let p95 = |s: &Stretch| s.delays.quantile_ms(0.95);
    let values = || m.week.iter().chain(&hours).filter_map(p95);
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    // Delays differ by factors: equal steps of colour are equal factors.
    let heat = |v: f64| ((v / low).ln() / (high / low).max(1.0 + 1e-9).ln()).clamp(0.0, 1.0);
    let width = INNER / 24.0;
    let height = TOP + 8.0 * ROW + 8.0 + 50.0;
    let row = |name: &str, y: f64, cells: &[Stretch]| {
        html! {
            text x=(LEFT - 8.0) y=(short(y + 20.0)) text-anchor="end" { (name) }
            @for (h, s) in cells.iter().enumerate() {
                @let x = LEFT + width * h as f64;
                @if let Some(v) = p95(s) {
                    rect.hot x=(short(x + 0.5)) y=(short(y + 0.5)) width=(short(width - 1.0)) height=(short(ROW - 1.0)) opacity=(short(0.1 + 0.8 * heat(v))) {
                        title { (name) " " (h) " h: p95 " (number(v)) " ms, median " (number(s.delays.quantile_ms(0.5).unwrap_or(v))) " ms, lost " (percent(s.loss().unwrap_or_default())) " %" }
                    }
                    text.onhot.strong[heat(v) > 0.5] x=(short(x + width / 2.0)) y=(short(y + 19.0)) text-anchor="middle" { (number(v)) }
                } @else {
                    rect.unknown x=(short(x + 0.5)) y=(short(y + 0.5)) width=(short(width - 1.0)) height=(short(ROW - 1.0)) {}
                    @if s.lost > 0 { text.onhot x=(short(x + width / 2.0)) y=(short(y + 19.0)) text-anchor="middle" { "lost" } }
                }
            }
        }
    };
    framed(
        m,
        height,
        "95th percentile of the round trip by weekday and hour, ms",
        html! {
            @for (h, _) in hours.iter().enumerate().filter(|(h, _)| h % 3 == 0) {
                text.small x=(short(LEFT + width * (h as f64 + 0.5))) y=(TOP - 8.0) text-anchor="middle" { (format!("{h:02} h")) }
            }
            @for (d, name) in DAYS.iter().enumerate() {
                (row(name, TOP + ROW * d as f64, &m.week[d * 24..(d + 1) * 24]))
            }
            (row("all", TOP + ROW * 7.0 + 8.0, &hours))
        },
    )
}
