//! Smoke: the distribution of each stretch of time as nested grey areas, its median in the colour of its losses, as
//! known from SmokePing, and its 99th percentile. SmokePing cannot show that percentile, because its long spans are
//! means of sorted pings. Here each stretch is the sum of its histograms.

use super::frame::{band, framed, middle_x, most_of, time_axis};
use super::material::{Material, Stretch};
use crate::svg::{INNER, LEFT, Panel, path, short};
use base::print::{number, percent};
use maud::{Markup, html};

/// Shares p of the nested areas; each area spans the quantiles p to 1 − p.
const PUFFS: [f64; 8] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45];
/// Largest loss of each colour, with class and name, as in SmokePing for a round of 20 pings. A stretch of thousands of
/// probes keeps the first colour up to 0.5 % loss.
const LOSSES: [(f64, &str, &str); 8] = [
    (0.005, "l0", "<0.5"),
    (0.05, "l1", "5"),
    (0.1, "l2", "10"),
    (0.15, "l3", "15"),
    (0.2, "l4", "20"),
    (0.5, "l5", "50"),
    (0.999_999, "l6", "<100"),
    (1.0, "l7", "100"),
];
/// Largest number of stretches drawn: each is two pixels wide.
const COLUMNS: usize = 400;

pub fn draw(m: &Material) -> Markup {
    let mut stretches = m.joined(20);
    if stretches.len() > COLUMNS {
        stretches = stretches.chunks(2).map(super::material::sum).collect();
    }
    let count = stretches.len();
    let tails = || stretches.iter().filter_map(|s| s.delays.quantile_ms(0.99));
    let panel = Panel {
        top: 84.0,
        height: 250.0,
        max: most_of(tails(), 0.98),
        name_y: 48.0,
    };
    let most = m.whole.delays.quantile_ms(1.0).unwrap_or_default();
    let height = panel.top + panel.height + 46.0;
    let area = |low: f64| {
        band(stretches.iter().enumerate().map(|(i, s)| {
            let (a, b) = (s.delays.quantile_ms(low)?, s.delays.quantile_ms(1.0 - low)?);
            Some((middle_x(i, count), panel.y(a), panel.y(b)))
        }))
    };
    let p99 = stretches.iter().enumerate();
    let p99 = p99.map(|(i, s)| {
        (
            middle_x(i, count),
            s.delays.quantile_ms(0.99).map(|v| panel.y(v)),
        )
    });
    let width = INNER / count as f64;
    // A stretch without answers has no median: its mark is at the bottom.
    let median = |class: &str| -> String {
        let marked = stretches
            .iter()
            .enumerate()
            .filter(|(_, s)| colour(s) == Some(class));
        let marks = marked.map(|(i, s)| {
            let y = panel.y(s.delays.quantile_ms(0.5).unwrap_or_default());
            format!(
                "M{} {}h{}",
                short(middle_x(i, count) - width / 2.0),
                short(y),
                short(width.max(1.0))
            )
        });
        marks.collect()
    };
    framed(
        m,
        height,
        "smoke",
        html! {
            (panel.frame("Round-trip time, ms", number))
            (legend(panel.name_y))
            @for low in PUFFS { path.puff d=(area(low)) {} }
            path.p99 d=(path(p99)) {}
            @for (_, class, _) in LOSSES { path.med.(class) d=(median(class)) {} }
            (time_axis(m, panel.top + panel.height))
            text.small x=(LEFT) y="70" {
                @if let (Some(p50), Some(p99)) = (m.whole.delays.quantile_ms(0.5), m.whole.delays.quantile_ms(0.99)) {
                    "all of it: median " (number(p50)) " ms, p99 " (number(p99)) " ms, largest " (number(most)) " ms"
                    @if most > panel.max { " (cut off)" }
                    ", lost " (percent(m.whole.loss().unwrap_or_default())) " % of " (m.whole.sent())
                }
            }
        },
    )
}

fn colour(s: &Stretch) -> Option<&'static str> {
    let loss = s.loss()?;
    LOSSES
        .iter()
        .find(|(up_to, ..)| loss <= *up_to)
        .map(|(_, class, _)| *class)
}

/// Returns the largest loss of each colour, for the page's script.
pub fn loss_limits() -> serde_json::Value {
    LOSSES.iter().map(|(up_to, ..)| *up_to).collect()
}

fn legend(y: f64) -> Markup {
    let start = LEFT + INNER - 50.0 * LOSSES.len() as f64;
    html! {
        text.small x=(short(start - 130.0)) y=(y) text-anchor="end" { "p99" }
        path.p99 d=(format!("M{} {}h22", short(start - 126.0), y - 4.0)) {}
        text.small x=(short(start - 8.0)) y=(y) text-anchor="end" { "median, lost %:" }
        @for (i, (_, class, name)) in LOSSES.iter().enumerate() {
            path.med.(class) d=(format!("M{} {}h12", short(start + 50.0 * i as f64), y - 4.0)) {}
            text.small x=(short(start + 50.0 * i as f64 + 15.0)) y=(y) { (name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Status;

    #[test]
    fn colours_are_smokepings_for_the_same_share_of_losses() {
        let with = |answered: i64, lost: i64| {
            let mut s = Stretch::default();
            (0..answered).for_each(|_| s.delays.record_ns(1_000_000));
            s.lost = lost as u64;
            colour(&s)
        };
        let twenty: Vec<_> = [0, 1, 2, 3, 4, 10, 11, 19, 20]
            .iter()
            .map(|l| with(20 - l, *l).unwrap())
            .collect();
        assert_eq!(
            twenty,
            ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l6", "l7"]
        );
        assert_eq!(with(0, 0), None);
    }

    /// Every fiftieth probe waits 1 s, all year: the mean of sorted pings would hide it.
    #[test]
    fn a_slow_hundredth_stays_visible_over_a_year() {
        use super::super::{Plot, Scope};
        let year = 365 * 86_400;
        let scope = Scope {
            from_ns: 0,
            to_ns: year * 1_000_000_000,
            zone: jiff::tz::TimeZone::UTC,
        };
        let mut m = Material::new(scope, "");
        for i in 0..year / 60 {
            let ms = if i % 50 == 0 { 1000 } else { 20 };
            m.probe(i * 60_000_000_000, Some(ms * 1_000_000), Status::Ok);
        }
        assert!(m.whole.delays.quantile_ms(0.99).unwrap() > 990.0);
        let svg = Plot::Smoke.svg(&m).unwrap();
        // The middle of the step that holds 1 s: a value is drawn within 0.2 % of its true value.
        assert!(
            svg.contains("p99 999 ms"),
            "{}",
            &svg[svg.find("all of it").unwrap()..][..200]
        );
        assert!(svg.len() < 300_000, "{}", svg.len());
    }
}
