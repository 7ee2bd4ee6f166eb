//! RTT, download and upload, one above the other on the same time axis (the thesis's figures 26, 29, 31, 32, 34).

use super::frame::{band, framed, middle_x, most_of, time_axis};
use super::material::{Carried, Material, Stretch, sum};
use crate::svg::{INNER, LEFT, Panel, key, nice_top, path, short};
use base::print::{DELAY, RATE, number};
use maud::{Markup, html};

/// Divisor of the span that gives the window of the smoothed line.
const WINDOWS: usize = 80;
/// Number of stretches for bounds: wide ones, because extremes of parts of a day would show the time of day.
const BOUNDS: usize = 200;
/// Delay above which an answer is late, ms, as that of a packet held back by an outage.
const LATE_MS: f64 = 10_000.0;
/// Number of losses above which marks are at the top instead of over the whole height.
const MOST_BARS: usize = 300;

pub fn rtt(m: &Material) -> Markup {
    let Some(points) = m.points() else {
        let stretches = m.joined(1);
        let (top, cut) = top_of(m, &stretches);
        let keys = [
            ("middle", "median"),
            ("swatch", "all round trips"),
            ("swatch dark", "5 to 95 %"),
            ("loss", "lost"),
        ];
        let what = format!("round trips and traffic{cut}");
        return panels(m, &what, top, &keys, |panel| bands(&stretches, panel));
    };
    let top = nice_top(points.iter().filter_map(|p| p.1).fold(0.0, f64::max));
    let x = |t: i64| LEFT + INNER * (t - m.scope.from_ns) as f64 / m.length_ns() as f64;
    let lost: Vec<f64> = points
        .iter()
        .filter(|p| p.1.is_none())
        .map(|p| x(p.0))
        .collect();
    // No line is drawn over long gaps.
    let mut gaps: Vec<i64> = points.windows(2).map(|w| w[1].0 - w[0].0).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    let keys = [("probe", "probes"), ("gone", "lost")];
    panels(m, "round trips and traffic", top, &keys, |panel| {
        let mut before: Option<i64> = None;
        let line = path(points.iter().flat_map(|(t, ms)| {
            let gap = before.is_some_and(|b| t - b > usual.saturating_mul(5));
            before = Some(*t);
            let here = (x(*t), ms.map(|v| panel.y(v)));
            [gap.then_some((x(*t), None)), Some(here)]
                .into_iter()
                .flatten()
        }));
        let height = if lost.len() <= MOST_BARS {
            panel.height
        } else {
            7.0
        };
        html! {
            path.gone d=(lost.iter().map(|x| format!("M{} {}v{height}", short(*x), panel.top)).collect::<String>()) {}
            path.probe d=(line) {}
        }
    })
}

/// Returns the top of the axis and an addition to the heading. Packets held back for minutes by an outage would hide
/// all others. If the largest RTT is of a late answer and far above nearly all stretches, the axis ends at these, and
/// the heading says so.
fn top_of(m: &Material, stretches: &[Stretch]) -> (f64, String) {
    let largest = m.whole.delays.quantile_ms(1.0).unwrap_or_default();
    let usual = most_of(
        stretches.iter().filter_map(|s| s.delays.quantile_ms(1.0)),
        0.97,
    );
    if largest > LATE_MS && largest > 4.0 * usual {
        (usual, format!(", largest {} cut off", DELAY.print(largest)))
    } else {
        (nice_top(largest), String::new())
    }
}

/// Draws all RTTs of a stretch as an area, half of them as a darker one, the median as a line; losses at the top.
fn bands(stretches: &[Stretch], panel: &Panel) -> Markup {
    let count = stretches.len();
    let area = |low: f64, high: f64| {
        band(stretches.iter().enumerate().map(|(i, s)| {
            let (low, high) = (s.delays.quantile_ms(low)?, s.delays.quantile_ms(high)?);
            let y = |ms: f64| panel.y(ms.min(panel.max));
            Some((middle_x(i, count), y(low), y(high)))
        }))
    };
    let median = stretches.iter().enumerate();
    let median = median.map(|(i, s)| {
        (
            middle_x(i, count),
            s.delays.quantile_ms(0.5).map(|v| panel.y(v.min(panel.max))),
        )
    });
    html! {
        path.range d=(area(0.0, 1.0)) {}
        path.range d=(area(0.05, 0.95)) {}
        path.middle d=(path(median)) {}
        (lost_marks(stretches, panel))
    }
}

/// Draws the losses, faint if few of the stretch's probes, possibly thousands, were lost.
fn lost_marks(stretches: &[Stretch], panel: &Panel) -> Markup {
    let marks = |from: f64, to: f64| -> String {
        let lost = stretches.iter().enumerate();
        let lost = lost.filter(|(_, s)| s.loss().is_some_and(|l| l > from && l <= to));
        lost.map(|(i, _)| format!("M{} {}v7", short(middle_x(i, stretches.len())), panel.top))
            .collect()
    };
    html! {
        @for (from, to, opacity) in [(0.0, 0.005, "0.25"), (0.005, 0.05, "0.6"), (0.05, 1.0, "1")] {
            path.loss opacity=(opacity) d=(marks(from, to)) {}
        }
    }
}

pub fn bounds(m: &Material) -> Markup {
    let stretches = m.joined(20);
    let width = stretches.len().div_ceil(BOUNDS);
    let stretches: Vec<Stretch> = stretches.chunks(width).map(sum).collect();
    let (top, cut) = top_of(m, &stretches);
    let keys = [
        ("middle", "median"),
        ("swatch dark", "5 to 95 %"),
        ("probe", "smallest, largest"),
        ("loss", "lost"),
    ];
    let what = format!("bounds of the round trips{cut}");
    panels(m, &what, top, &keys, |panel| {
        let count = stretches.len();
        let line = |p: f64| {
            path(stretches.iter().enumerate().map(|(i, s)| {
                (
                    middle_x(i, count),
                    s.delays.quantile_ms(p).map(|v| panel.y(v.min(panel.max))),
                )
            }))
        };
        html! {
            (bands(&stretches, panel))
            path.probe d=(line(0.0)) {}
            path.probe d=(line(1.0)) {}
        }
    })
}

pub fn smoothed(m: &Material) -> Markup {
    let count = m.stretches.len();
    let half = count / WINDOWS / 2;
    let means: Vec<Option<f64>> = (0..count)
        .map(|i| {
            if m.stretches[i].delays.is_empty() && !m.is_few() {
                return None;
            }
            let window = &m.stretches[i.saturating_sub(half)..(i + half + 1).min(count)];
            let n: u64 = window.iter().map(|s| s.delays.len()).sum();
            let sum: f64 = window.iter().map(|s| s.delays.sum_ms()).sum();
            (n > 0).then(|| sum / n as f64)
        })
        .collect();
    let top = nice_top(means.iter().flatten().copied().fold(0.0, f64::max));
    let window_s = m.length_ns() as f64 / 1e9 * (2 * half + 1) as f64 / count as f64;
    let (value, unit) = match window_s {
        s if s < 120.0 => (s, "s"),
        s if s < 7200.0 => (s / 60.0, "minutes"),
        s if s < 172_800.0 => (s / 3600.0, "hours"),
        s => (s / 86_400.0, "days"),
    };
    let name = format!("mean over {} {unit}", number(value));
    panels(
        m,
        "smoothed round trips",
        top,
        &[("middle", &*name)],
        |panel| {
            let line = means.iter().enumerate();
            let line = line.map(|(i, v)| (middle_x(i, count), v.map(|v| panel.y(v))));
            html! { path.middle d=(path(line)) {} }
        },
    )
}

/// Draws the panel of delays with `draw`, and one for each direction of the traffic if there is any.
fn panels(
    m: &Material,
    what: &str,
    top_ms: f64,
    keys: &[(&str, &str)],
    draw: impl Fn(&Panel) -> Markup,
) -> Markup {
    let delay = Panel {
        top: 62.0,
        height: 220.0,
        max: top_ms,
        name_y: 48.0,
    };
    let mut bottom = delay.top + delay.height;
    let mut rates = Vec::new();
    for (name, class, carried) in [("Download", "down", &m.down), ("Upload", "up", &m.up)] {
        let most = carried.iter().filter_map(|c| c.bps()).fold(0.0, f64::max);
        if most > 0.0 {
            let panel = Panel {
                top: bottom + 46.0,
                height: 84.0,
                max: nice_top(most),
                name_y: bottom + 36.0,
            };
            bottom = panel.top + panel.height;
            rates.push((name, class, carried, panel));
        }
    }
    let height = bottom + 46.0;
    framed(
        m,
        height,
        what,
        html! {
            @if m.has_delays() {
                (delay.frame("Round-trip time, ms", number))
                (key(keys, delay.name_y))
                (draw(&delay))
            }
            @for (name, class, carried, panel) in &rates {
                (rate(name, class, carried, panel))
            }
            (time_axis(m, bottom))
        },
    )
}

fn rate(name: &str, class: &str, carried: &[Carried], panel: &Panel) -> Markup {
    let (unit, size) = RATE.fitting(panel.max);
    let count = carried.len();
    let points = carried.iter().enumerate();
    let points = points.map(|(i, c)| (middle_x(i, count), c.bps().map(|v| panel.y(v))));
    html! {
        (panel.frame(&format!("{name}, {unit}"), |v| number(v / size)))
        path.line.fine.(class) d=(path(points)) {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plot, Scope};
    use super::*;
    use base::record::Status;
    use jiff::tz::TimeZone;

    fn material(seconds: i64, hz: i64) -> Material {
        let scope = Scope {
            from_ns: 0,
            to_ns: seconds * 1_000_000_000,
            zone: TimeZone::UTC,
        };
        let mut m = Material::new(scope, "");
        for i in 0..seconds * hz {
            let lost = i % 1000 == 999;
            let status = if lost { Status::Lost } else { Status::Ok };
            let spike = if i == seconds * hz / 2 { 880 } else { 0 };
            m.probe(
                i * 1_000_000_000 / hz,
                (!lost).then_some((20 + spike) * 1_000_000),
                status,
            );
        }
        m
    }

    #[test]
    fn one_slow_probe_in_two_hundred_thousand_is_drawn() {
        for (seconds, hz) in [(100, 50), (20_000, 10)] {
            let svg = Plot::Rtt.svg(&material(seconds, hz)).unwrap();
            // 900 ms on an axis that ends at 1000 ms: a tenth of the height below its top.
            assert!(
                svg.contains(" 84") && svg.contains("Round-trip time, ms"),
                "{seconds}"
            );
        }
    }

    #[test]
    fn losses_of_a_close_up_are_bars_one_by_one() {
        let svg = Plot::Rtt.svg(&material(100, 100)).unwrap();
        assert_eq!(svg.matches("v220").count(), 10);
    }

    #[test]
    fn a_span_without_probes_says_so() {
        let scope = Scope {
            from_ns: 0,
            to_ns: 1_000_000_000,
            zone: TimeZone::UTC,
        };
        let said = Plot::Smoke.svg(&Material::new(scope, "")).unwrap_err();
        assert!(
            said.contains("no probes") && said.contains("1970-01-01 00:00:00"),
            "{said}"
        );
    }
}
