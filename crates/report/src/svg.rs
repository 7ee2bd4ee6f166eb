//! Static plots as SVG: for a README, for files, and for the page without a script. They are written without a plotting
//! crate, so that colours follow the reader's light or dark mode and text stays text.

use crate::curves::{Curves, Point};
use crate::words::phase;
use analysis::answer::Answer;
use base::print::{RATE, number};
use base::record::Recording;
use maud::{Markup, PreEscaped, html};

const WIDTH: f64 = 880.0;
pub(crate) const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
pub(crate) const INNER: f64 = WIDTH - LEFT - RIGHT;

/// Colours by role, light and then dark; the page's script and style use the same.
const STYLE: &str = "
.tb-plot{--ink:#1c1f23;--muted:#5a626b;--rule:#e3e3df;--idle:#6b7280;--down:#1a6bb0;--up:#b84f0a;--both:#7546b3;--flow:#0f766e;--loss:#c2183a;--paper:#fff;font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
.tb-plot text{fill:var(--muted)}.tb-plot .name{fill:var(--ink);font-weight:600}.tb-plot .rule{stroke:var(--rule)}.tb-plot .axis{stroke:var(--muted)}
.tb-plot path{fill:none;stroke-linejoin:round}.tb-plot .paper{fill:var(--paper)}
.tb-plot .probe{stroke:var(--ink);stroke-width:1}.tb-plot .line{stroke-width:2}.tb-plot .loss{stroke:var(--loss);stroke-width:1.5}.tb-plot .flow{stroke:var(--flow);stroke-width:3;opacity:.55}
.tb-plot .idle{stroke:var(--idle)}.tb-plot .down{stroke:var(--down)}.tb-plot .up{stroke:var(--up)}.tb-plot .both{stroke:var(--both)}
.tb-plot .dash-idle{stroke-dasharray:2 3}.tb-plot .dash-up{stroke-dasharray:8 3}.tb-plot .dash-both{stroke-dasharray:8 3 2 3}
.tb-plot .shade{stroke:none;opacity:.09}.tb-plot .shade.idle{fill:var(--idle)}.tb-plot .shade.down{fill:var(--down)}.tb-plot .shade.up{fill:var(--up)}.tb-plot .shade.both{fill:var(--both)}
@media screen and (prefers-color-scheme:dark){.tb-plot{--ink:#e9e7e2;--muted:#a3abb5;--rule:#2c3037;--idle:#9aa3ae;--down:#6db3f2;--up:#f3a45c;--both:#bd9df2;--flow:#4cc9bb;--loss:#ff6f86;--paper:#15171b}}
";

/// Plots RTT over time with phases shaded and losses marked; throughput below on the same time axis.
pub fn rtt_over_time(answer: &Answer, recording: &Recording) -> String {
    over_time(&Curves::of(answer, recording)).into_string()
}

/// Plots the share of probes answered within a time: one curve per phase, time on a logarithmic axis.
pub fn cdf(answer: &Answer, recording: &Recording) -> String {
    distribution(&Curves::of(answer, recording)).into_string()
}

/// Converts a picture to the light colours, for renderers without variables or media queries.
pub fn plain(svg: &str) -> String {
    let mut text = svg.to_owned();
    while let Some(at) = text.find("@media") {
        // A media query holds one rule: it ends with the second brace.
        let end = text[at..]
            .match_indices('}')
            .nth(1)
            .map_or(text.len(), |(i, _)| at + i + 1);
        text.replace_range(at..end, "");
    }
    let light: Vec<(String, String)> = STYLE
        .split("@media")
        .next()
        .unwrap_or_default()
        .split(['{', ';', '}'])
        .filter_map(|d| d.split_once(':'))
        .filter(|(name, _)| name.starts_with("--"))
        .map(|(name, value)| (format!("var({name})"), value.to_owned()))
        .collect();
    for (name, value) in light {
        text = text.replace(&name, &value);
    }
    text.replacen("width=\"100%\"", "", 1)
}

/// Joins pictures vertically into one.
pub fn stacked(what: &str, pictures: &[String]) -> String {
    if let [one] = pictures {
        return one.clone();
    }
    let mut y = 0.0;
    let placed: String = pictures
        .iter()
        .map(|p| {
            let (width, height) = size(p);
            let place = format!(r#"y="{y}" width="{width}" height="{height}""#);
            y += height;
            p.replacen("width=\"100%\"", &place, 1)
        })
        .collect();
    document(y, what, html! { (PreEscaped(placed)) }).into_string()
}

/// Returns width and height in pixels.
pub fn size(svg: &str) -> (f64, f64) {
    let view = svg
        .split("viewBox=\"")
        .nth(1)
        .and_then(|v| v.split('"').next());
    let mut numbers = view
        .unwrap_or_default()
        .split(' ')
        .skip(2)
        .filter_map(|n| n.parse().ok());
    (
        numbers.next().unwrap_or(WIDTH),
        numbers.next().unwrap_or(WIDTH / 2.0),
    )
}

/// Permitted tops of axes marked by `even_marks`.
const TOPS: [f64; 14] = [
    1.0, 1.2, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0,
];
/// Permitted tops of axes whose quarters are round.
const QUARTERED: [f64; 10] = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];

/// Returns a round number at or a little above `value`: the top of an axis.
pub(crate) fn nice_top(value: f64) -> f64 {
    top_among(&TOPS, value)
}

/// Returns the top of an axis that is marked at its quarters.
pub(crate) fn quartered_top(value: f64) -> f64 {
    top_among(&QUARTERED, value)
}

fn top_among(steps: &[f64], value: f64) -> f64 {
    if value.is_nan() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    steps
        .iter()
        .map(|s| s * power)
        .find(|t| *t >= value * 0.9999)
        .unwrap_or(10.0 * power)
}

/// Smallest vertical distance of labels, px.
const LABEL: f64 = 21.0;
/// Largest number of steps on an axis.
const MARKS: f64 = 8.0;

/// Panel: its position and the range of its vertical axis.
pub(crate) struct Panel {
    pub top: f64,
    pub height: f64,
    pub max: f64,
    /// Position of its heading, px.
    pub name_y: f64,
}

impl Panel {
    pub fn y(&self, v: f64) -> f64 {
        self.top + self.height * (1.0 - (v / self.max).clamp(0.0, 1.0))
    }
    /// Draws rules and labels at round numbers, as many as fit; the unit is in the heading.
    pub fn frame(&self, name: &str, label: impl Fn(f64) -> String) -> Markup {
        let marks = marks(0.0, self.max, (self.height / LABEL).clamp(4.0, MARKS));
        html! {
            text.name x=(LEFT) y=(self.name_y) { (name) }
            @for v in marks {
                line class=(if v == 0.0 { "axis" } else { "rule" }) x1=(LEFT) x2=(LEFT + INNER) y1=(short(self.y(v))) y2=(short(self.y(v))) {}
                text x=(LEFT - 8.0) y=(short(self.y(v) + 5.0)) text-anchor="end" { (label(v)) }
            }
        }
    }
}

pub(crate) fn over_time(curves: &Curves) -> Markup {
    let delay = Panel {
        top: 56.0,
        height: 236.0,
        max: nice_top(curves.top_ms()),
        name_y: 20.0,
    };
    let rate = Panel {
        top: 340.0,
        height: 110.0,
        max: nice_top(curves.top_bps()),
        name_y: 330.0,
    };
    let (unit, size) = RATE.fitting(rate.max);
    let has_rate = curves.top_bps() > 0.0;
    let last = if has_rate { &rate } else { &delay };
    let height = last.top + last.height + 52.0;
    let x = |t_s: f64| LEFT + INNER * (t_s / curves.span_s).clamp(0.0, 1.0);
    let bin = |i: usize| x((i as f64 + 0.5) * curves.bins.step_s);
    let delays =
        |points: &[Point]| path(points.iter().map(|p| (x(p.t_s), p.ms.map(|v| delay.y(v)))));
    let flow = [&curves.in_flow_down, &curves.in_flow_up];
    let has_flow = flow.iter().any(|f| !f.is_empty());
    let mut keys = vec![("probe", "probes")];
    if has_flow {
        keys.push(("flow", "the load's own packets (smoothed)"));
    }
    if !curves.lost_s.is_empty() {
        keys.push(("loss", "lost"));
    }
    document(
        height,
        "Round-trip time and throughput over time",
        html! {
            @for p in &curves.phases {
                rect.shade.(class(&p.name)) x=(short(x(p.from_s))) width=(short(x(p.to_s) - x(p.from_s))) y=(delay.top) height=(last.top + last.height - delay.top) {}
                text x=(short((x(p.from_s) + x(p.to_s)) / 2.0)) y=(delay.top - 7.0) text-anchor="middle" { (phase(&p.name)) }
            }
            (delay.frame("Round-trip time, ms", number))
            (key(&keys, 20.0))
            @for series in flow {
            path.flow d=(delays(series)) {}
        }
        path.probe d=(delays(&curves.probes)) {}
        path.loss d=(curves.lost_s.iter().map(|t| format!("M{} {}v7", short(x(*t)), delay.top)).collect::<String>()) {}
            @if has_rate {
                (rate.frame(&format!("Throughput, {unit}"), |v| number(v / size)))
                (key(&[("down", "download"), ("up", "upload")], rate.name_y))
                @for (name, series) in [("down", &curves.bins.down_bps), ("up", &curves.bins.up_bps)] {
                    path.line.(name) d=(path(series.iter().enumerate().map(|(i, v)| (bin(i), v.map(|v| rate.y(v)))))) {}
                }
            }
            @for t in even_marks(0.0, curves.span_s) {
                text x=(short(x(t))) y=(height - 28.0) text-anchor="middle" { (number(t)) }
            }
            text x=(LEFT + INNER / 2.0) y=(height - 8.0) text-anchor="middle" { "time, s" }
        },
    )
}

pub(crate) fn distribution(curves: &Curves) -> Markup {
    let panel = Panel {
        top: 56.0,
        height: 260.0,
        max: 100.0,
        name_y: 46.0,
    };
    let all = || {
        curves
            .cdf
            .iter()
            .flat_map(|c| c.steps.iter().map(|s| s.0))
            .filter(|v| *v > 0.0)
    };
    let low = all().fold(f64::INFINITY, f64::min).min(1e9);
    let high = all().fold(0.0, f64::max).max(low * 1.01);
    let (from, to) = (low.log10() - 0.02, high.log10() + 0.02);
    let x = |ms: f64| LEFT + INNER * ((ms.max(low).log10() - from) / (to - from)).clamp(0.0, 1.0);
    let height = panel.top + panel.height + 52.0;
    let keys: Vec<(String, &str)> = curves
        .cdf
        .iter()
        .map(|c| (line_class(&c.phase), phase(&c.phase)))
        .collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(c, n)| (c.as_str(), *n)).collect();
    document(
        height,
        "Share of probes answered within a time",
        html! {
            (panel.frame("Probes answered within, %", number))
            (key(&keys, 20.0))
            @for v in log_marks(low, high) {
                line.rule x1=(short(x(v))) x2=(short(x(v))) y1=(panel.top) y2=(panel.top + panel.height) {}
                text x=(short(x(v))) y=(height - 28.0) text-anchor="middle" { (number(v)) }
            }
            @for c in &curves.cdf {
                path class=(line_class(&c.phase)) d=(joined(c.steps.iter().map(|(ms, share)| (x(*ms), panel.y(share * 100.0))))) {}
            }
            text x=(LEFT + INNER / 2.0) y=(height - 8.0) text-anchor="middle" { "round-trip time, ms (logarithmic)" }
        },
    )
}

/// Returns four to eight round numbers within the range.
pub(crate) fn even_marks(low: f64, high: f64) -> Vec<f64> {
    marks(low, high, MARKS)
}

/// Returns round numbers within the range, in steps of 1, 2 or 5 times a power of ten, at most `most` steps.
fn marks(low: f64, high: f64, most: f64) -> Vec<f64> {
    let power = 10f64.powf(((high - low) / most).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| (high - low) / s <= most)
        .unwrap_or(10.0 * power);
    ((low / step).ceil() as i64..=(high / step + 1e-9).floor() as i64)
        .map(|i| i as f64 * step)
        .collect()
}

/// Returns 1, 2 and 5 of each power of ten, or even steps if the range is too narrow for three of those.
pub(crate) fn log_marks(low: f64, high: f64) -> Vec<f64> {
    let mut marks: Vec<f64> = (low.log10().floor() as i32..=high.log10().ceil() as i32)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e)))
        .filter(|v| (low..=high).contains(v))
        .collect();
    if marks.len() < 3 {
        marks = even_marks(low, high);
    }
    marks
}

pub(crate) fn document(height: f64, what: &str, inside: Markup) -> Markup {
    html! {
        svg.tb-plot xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width="100%" role="img" aria-label=(what) {
            title { (what) }
            style { (PreEscaped(STYLE)) }
            rect.paper width=(WIDTH) height=(height) {}
            (inside)
        }
    }
}

/// Draws line samples with their names, right-aligned at the height `y`. Widths are estimated at 7.2 px per letter.
pub(crate) fn key(entries: &[(&str, &str)], y: f64) -> Markup {
    let widths: Vec<f64> = entries
        .iter()
        .map(|(_, name)| 44.0 + 7.2 * name.chars().count() as f64)
        .collect();
    let start = LEFT + INNER - widths.iter().sum::<f64>();
    let places = widths
        .iter()
        .scan(start, |x, width| Some(std::mem::replace(x, *x + width)));
    html! {
        @for ((class, name), x) in entries.iter().zip(places) {
            path class=(format!("line {class}")) d=(format!("M{} {}h22", short(x), y - 5.0)) {}
            text x=(short(x + 28.0)) y=(y) { (name) }
        }
    }
}

fn line_class(name: &str) -> String {
    let class = class(name);
    format!("line {class} dash-{class}")
}

/// Returns the style class of a phase; only known phases have one of their own.
fn class(name: &str) -> &'static str {
    match name {
        "down" => "down",
        "up" => "up",
        "both" => "both",
        _ => "idle",
    }
}

pub(crate) fn short(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// Draws a line, interrupted at missing values. Points on one column of pixels are drawn as their extremes.
pub(crate) fn path(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut out = String::new();
    let mut pen_down = false;
    let mut column: Option<(f64, f64, f64, f64)> = None;
    let flush =
        |column: &mut Option<(f64, f64, f64, f64)>, out: &mut String, pen_down: &mut bool| {
            if let Some((x, low, high, last)) = column.take() {
                for y in if (last - low).abs() < (last - high).abs() {
                    [high, low]
                } else {
                    [low, high]
                } {
                    out.push_str(&format!(
                        "{}{} {}",
                        if *pen_down { 'L' } else { 'M' },
                        short(x),
                        short(y)
                    ));
                    *pen_down = true;
                    if low == high {
                        break;
                    }
                }
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

pub(crate) fn joined(points: impl Iterator<Item = (f64, f64)>) -> String {
    path(points.map(|(x, y)| (x, Some(y))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_that_hold_the_value() {
        for (value, top) in [
            (430.0, 500.0),
            (19.3, 20.0),
            (0.66e6, 0.7e6),
            (1.0, 1.0),
            (0.0, 1.0),
            (1010.0, 1200.0),
        ] {
            assert!(
                (nice_top(value) / top - 1.0).abs() < 1e-9,
                "{value}: {}",
                nice_top(value)
            );
        }
    }

    #[test]
    fn an_axis_is_marked_at_round_numbers_in_even_steps_up_to_its_top() {
        for (max, height, expected) in [
            (500.0, 260.0, "0 100 200 300 400 500"),
            (1.2, 236.0, "0 0.2 0.4 0.6 0.8 1 1.2"),
            (45.0, 260.0, "0 10 20 30 40"),
            (0.7, 84.0, "0 0.2 0.4 0.6"),
            (1.0, 84.0, "0 0.5 1"),
        ] {
            let panel = Panel {
                top: 0.0,
                height,
                max,
                name_y: 0.0,
            };
            let svg = panel.frame("", base::print::number).into_string();
            let labels = svg.split("text-anchor=\"end\">").skip(1);
            let labels: Vec<&str> = labels.filter_map(|l| l.split('<').next()).collect();
            assert_eq!(labels.join(" "), expected);
        }
        for top in TOPS {
            let marks = even_marks(0.0, top);
            assert!((marks[marks.len() - 1] / top - 1.0).abs() < 1e-9, "{top}");
            assert!((4..=9).contains(&marks.len()), "{top}: {marks:?}");
        }
    }

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

    #[test]
    fn a_plain_picture_needs_neither_variables_nor_media_queries() {
        let svg = document(300.0, "x", html! { path.down {} }).into_string();
        assert!(svg.contains("var(--down)") && svg.contains("@media"));
        let plain = plain(&svg);
        assert!(
            !plain.contains("var(") && !plain.contains("@media"),
            "{plain}"
        );
        assert!(
            plain.contains(".down{stroke:#1a6bb0}") && plain.contains("</style>"),
            "{plain}"
        );
        assert_eq!(size(&svg), (880.0, 300.0));
    }

    #[test]
    fn a_narrow_range_still_has_marks() {
        let marks: Vec<String> = log_marks(19.0, 19.8).into_iter().map(number).collect();
        assert_eq!(
            marks,
            ["19", "19.2", "19.4", "19.6", "19.8"].map(String::from)
        );
        assert_eq!(
            log_marks(10.0, 500.0),
            vec![10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
        );
    }
}
