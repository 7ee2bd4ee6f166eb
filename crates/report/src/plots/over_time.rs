//! RTT, download and upload, one above the other on the same time axis (the thesis's figures 26, 29, 31, 32, 34).

use super::calendar;
use super::material::{Column, Material, STRETCHES, Stretch, interrupted, probed};
use crate::plot::{Axis, Panel, PlotSpec, Series, Shape, nice_top};
use base::print::{DELAY, RATE, number};

/// Divisor of the span that gives the window of the smoothed line.
const WINDOWS: usize = 80;
/// Number of stretches for bounds: wide ones, because extremes of parts of a day would show the time of day.
const BOUNDS: usize = 200;
/// Delay above which an answer is late, ms, as that of a packet held back by an outage.
const LATE_MS: f64 = 10_000.0;
/// Number of losses above which marks are at the top instead of over the whole height.
const MOST_BARS: usize = 300;
/// Length of a mark at the top, px.
const TICK: f64 = 7.0;
/// Height of the panel of delays, px.
const HEIGHT: f64 = 220.0;

pub fn rtt(m: &Material) -> PlotSpec {
    let Some(points) = m.points() else {
        let columns = m.joined(1, 1);
        let (top, cut) = top_of(m, &columns);
        let what = match m.has_delays() {
            true => format!("round trips and traffic{cut}"),
            false => "traffic".to_owned(),
        };
        return panels(m, &what, top, bands(m, &columns, "all round trips"));
    };
    let top = nice_top(points.iter().filter_map(|p| p.1).fold(0.0, f64::max));
    let x = |t: i64| since(m, t);
    let lost = points.iter().filter(|p| p.1.is_none());
    let lost: Vec<f64> = lost.map(|p| x(p.0)).collect();
    let line = interrupted(&points).into_iter();
    let line = line.map(|(t, ms)| (x(t), ms)).collect();
    let length = if lost.len() <= MOST_BARS {
        HEIGHT
    } else {
        TICK
    };
    let series = vec![
        Series::new("lost", "gone", Shape::Ticks(lost, length)),
        Series::new("probes", "probe", Shape::Line(line)),
    ];
    panels(m, "round trips and traffic", top, series)
}

/// Returns the time since the start of the plot, s.
fn since(m: &Material, t_ns: i64) -> f64 {
    (t_ns - m.scope.from_ns) as f64 / 1e9
}

/// Returns the horizontal axis, with marks of civil time.
pub(super) fn time_axis(m: &Material) -> Axis {
    let marks = calendar::marks(m.scope.from_ns, m.scope.to_ns, &m.scope.zone);
    let marks = marks.into_iter().map(|(t, name)| (since(m, t), name));
    Axis {
        origin_ns: Some(m.scope.from_ns),
        ..Axis::even("", 0.0, m.length_ns() as f64 / 1e9).marked(marks.collect())
    }
}

/// Returns the middle of the stretch at `index` of `count`, s.
pub(super) fn middle(m: &Material, index: usize, count: usize) -> f64 {
    m.length_ns() as f64 / 1e9 * (index as f64 + 0.5) / count as f64
}

/// Returns the top of an axis that shows `share` of the values; tails beyond it are named, not drawn.
pub(super) fn most_of(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let values: Vec<f64> = values.collect();
    nice_top(stats::quantile(&values, share).unwrap_or_default() * 1.05)
}

/// Returns the start of a stretch, s.
pub(super) fn start(m: &Material, stretch: usize) -> f64 {
    m.length_ns() as f64 / 1e9 * stretch as f64 / STRETCHES as f64
}

/// Returns the top of the axis and an addition to the heading. Packets held back for minutes by an outage would hide
/// all others. If the largest RTT is of a late answer and far above nearly all columns, the axis ends at these, and
/// the heading says so.
fn top_of(m: &Material, columns: &[Column]) -> (f64, String) {
    let largest = m.whole.delays.quantile_ms(1.0).unwrap_or_default();
    let each = columns.iter();
    let usual = most_of(each.filter_map(|c| c.stretch.delays.quantile_ms(1.0)), 0.97);
    if largest > LATE_MS && largest > 4.0 * usual {
        (usual, format!(", largest {} cut off", DELAY.print(largest)))
    } else {
        (nice_top(largest), String::new())
    }
}

/// Returns a value of each column at its middle, and at the outer edges of neighbours that have one: nothing is drawn
/// beyond the time in which it was measured.
fn corners<T: Copy>(
    m: &Material,
    columns: &[Column],
    of: impl Fn(&Stretch) -> Option<T>,
) -> Vec<(f64, Option<T>)> {
    let mut corners: Vec<(f64, Option<T>)> = Vec::with_capacity(columns.len() + 2);
    let mut before: Option<T> = None;
    for c in columns {
        let (from, to) = (start(m, c.from), start(m, c.to));
        let value = of(&c.stretch);
        if before.is_some() != value.is_some() {
            corners.push((from, before.or(value)));
        }
        corners.push(((from + to) / 2.0, value));
        before = value;
    }
    corners.extend(before.map(|v| (start(m, STRETCHES), Some(v))));
    corners
}

/// Returns a quantile of each column as a line.
pub(super) fn quantile(m: &Material, columns: &[Column], p: f64) -> Shape {
    Shape::Line(corners(m, columns, |s| s.delays.quantile_ms(p)))
}

/// Returns the area between two quantiles of each column.
pub(super) fn area(m: &Material, columns: &[Column], low: f64, high: f64) -> Shape {
    let both = |s: &Stretch| Some((s.delays.quantile_ms(low)?, s.delays.quantile_ms(high)?));
    let corners = corners(m, columns, both).into_iter();
    Shape::Band(
        corners
            .map(|(x, v)| v.map(|(low, high)| (x, low, high)))
            .collect(),
    )
}

/// Returns all RTTs of each column as an area, most of them as a darker one, the median as a line; losses at the top.
/// The area of all has a name only where it is not bounded by lines.
fn bands(m: &Material, columns: &[Column], all: &str) -> Vec<Series> {
    let mut series = vec![
        Series::new(all, "range", area(m, columns, 0.0, 1.0)).sampled("swatch"),
        Series::new("5 to 95 %", "range", area(m, columns, 0.05, 0.95)).sampled("swatch dark"),
        Series::new("median", "middle", quantile(m, columns, 0.5)),
    ];
    // Marks are faint if few of the stretch's probes, possibly thousands, were lost.
    let shades = [
        ("", "loss faint", 0.0, 0.005),
        ("", "loss half", 0.005, 0.05),
        ("lost", "loss", 0.05, 1.0),
    ];
    series.extend(shades.map(|(name, class, from, to)| {
        let lost = columns.iter();
        let lost = lost.filter(|c| c.stretch.loss().is_some_and(|l| l > from && l <= to));
        let at = lost.map(|c| (start(m, c.from) + start(m, c.to)) / 2.0);
        Series::new(name, class, Shape::Ticks(at.collect(), TICK))
    }));
    series
}

pub fn bounds(m: &Material) -> PlotSpec {
    let columns = m.joined(20, STRETCHES / BOUNDS);
    let (top, cut) = top_of(m, &columns);
    let what = format!("bounds of the round trips{cut}");
    let mut series = bands(m, &columns, "");
    for (name, p) in [("smallest, largest", 0.0), ("", 1.0)] {
        series.push(Series::new(name, "probe", quantile(m, &columns, p)));
    }
    panels(m, &what, top, series)
}

pub fn smoothed(m: &Material) -> PlotSpec {
    let count = m.stretches.len();
    let half = count / WINDOWS / 2;
    let sent: Vec<u64> = m.stretches.iter().map(Stretch::sent).collect();
    let spans = probed(&sent);
    let mean = |i: usize| {
        spans.iter().find(|(from, to)| (*from..*to).contains(&i))?;
        let s = &m.stretches[i];
        if s.delays.is_empty() && s.lost > 0 {
            return None;
        }
        let window = &m.stretches[i.saturating_sub(half)..(i + half + 1).min(count)];
        let n: u64 = window.iter().map(|s| s.delays.len()).sum();
        let sum: f64 = window.iter().map(|s| s.delays.sum_ms()).sum();
        (n > 0).then(|| sum / n as f64)
    };
    let means: Vec<_> = (0..count).map(|i| (middle(m, i, count), mean(i))).collect();
    let top = nice_top(means.iter().filter_map(|p| p.1).fold(0.0, f64::max));
    let window_s = m.length_ns() as f64 / 1e9 * (2 * half + 1) as f64 / count as f64;
    let (value, unit) = match window_s {
        s if s < 120.0 => (s, "s"),
        s if s < 7200.0 => (s / 60.0, "minutes"),
        s if s < 172_800.0 => (s / 3600.0, "hours"),
        s => (s / 86_400.0, "days"),
    };
    let name = format!("mean over {} {unit}", number(value));
    let series = vec![Series::new(name, "middle", Shape::Line(means))];
    panels(m, "smoothed round trips", top, series)
}

/// Makes the panel of delays, and the panels of traffic.
fn panels(m: &Material, what: &str, top_ms: f64, series: Vec<Series>) -> PlotSpec {
    let mut panels = Vec::new();
    if m.has_delays() {
        panels.push(Panel {
            y: Axis::even("Round-trip time, ms", 0.0, top_ms),
            height: HEIGHT,
            series,
            ..Panel::default()
        });
    }
    panels.extend(traffic(m));
    PlotSpec {
        title: what.to_owned(),
        x: time_axis(m),
        panels,
        moments: m.moments.clone(),
        ..PlotSpec::default()
    }
}

/// Makes a panel for each direction with traffic.
pub(super) fn traffic(m: &Material) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (name, class, carried) in [("Download", "down", &m.down), ("Upload", "up", &m.up)] {
        let most = carried.iter().filter_map(|c| c.bps()).fold(0.0, f64::max);
        if most > 0.0 {
            let points = carried.iter().enumerate();
            let points = points.map(|(i, c)| (middle(m, i, carried.len()), c.bps()));
            let line = Shape::Line(points.collect());
            panels.push(Panel {
                y: Axis::fitting(name, RATE, 0.0, nice_top(most)),
                height: 84.0,
                series: vec![Series::new("", format!("line fine {class}"), line)],
                ..Panel::default()
            });
        }
    }
    panels
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
            let svg = Plot::Rtt.spec(&material(seconds, hz)).unwrap().svg();
            // 900 ms on an axis that ends at 1000 ms: a tenth of the height below its top.
            assert!(
                svg.contains(" 84") && svg.contains("Round-trip time, ms"),
                "{seconds}"
            );
        }
    }

    #[test]
    fn losses_of_a_close_up_are_bars_one_by_one() {
        let svg = Plot::Rtt.spec(&material(100, 100)).unwrap().svg();
        assert_eq!(svg.matches("v220").count(), 10);
    }

    #[test]
    fn a_span_without_probes_says_so() {
        let scope = Scope {
            from_ns: 0,
            to_ns: 1_000_000_000,
            zone: TimeZone::UTC,
        };
        let said = Plot::Smoke.spec(&Material::new(scope, "")).unwrap_err();
        assert!(
            said.contains("no probes") && said.contains("1970-01-01 00:00:00"),
            "{said}"
        );
    }
}
