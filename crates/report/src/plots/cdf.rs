//! Share of all probes answered within a time (the thesis's figures 27, 30, 33, 42). Lost probes are never answered:
//! the curve ends below 100 %.

use super::frame::framed;
use super::material::Material;
use crate::svg::{INNER, LEFT, Panel, joined, log_marks, short};
use base::print::number;
use maud::{Markup, html};

pub fn draw(m: &Material) -> Markup {
    let panel = Panel {
        top: 62.0,
        height: 260.0,
        max: 100.0,
        name_y: 48.0,
    };
    let steps = m.whole.delays.shares();
    let answered = m.whole.delays.len() as f64 / m.whole.sent().max(1) as f64;
    let low = steps.first().map_or(1.0, |s| s.0).max(1e-3);
    let high = steps.last().map_or(1.0, |s| s.0).max(low * 1.01);
    let (from, to) = (low.log10() - 0.02, high.log10() + 0.02);
    let x = |ms: f64| LEFT + INNER * ((ms.max(low).log10() - from) / (to - from)).clamp(0.0, 1.0);
    let begin = steps.first().map(|s| (x(s.0), panel.y(0.0)));
    let curve = steps
        .iter()
        .map(|(ms, share)| (x(*ms), panel.y(share * answered * 100.0)));
    let height = panel.top + panel.height + 56.0;
    framed(
        m,
        height,
        "distribution of the round trips",
        html! {
            (panel.frame("Probes answered within, %", number))
            @for v in log_marks(low, high) {
                line.rule x1=(short(x(v))) x2=(short(x(v))) y1=(panel.top) y2=(panel.top + panel.height) {}
                text.small x=(short(x(v))) y=(short(panel.top + panel.height + 19.0)) text-anchor="middle" { (number(v)) }
            }
            path.middle d=(joined(begin.into_iter().chain(curve))) {}
            text.small x=(LEFT) y=(short(height - 8.0)) { "round-trip time, ms (logarithmic)" }
        },
    )
}
