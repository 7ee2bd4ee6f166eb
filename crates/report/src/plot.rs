//! Plot as data: panels below each other on one horizontal axis, each with its series. `svg` draws it.

use base::print::number;
use base::record::Direction;

/// Plot with one horizontal axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotSpec {
    pub title: String,
    /// True if the title is not drawn, because the page has a heading of its own.
    pub untitled: bool,
    pub x: Axis,
    pub panels: Vec<Panel>,
    /// Shaded spans of the horizontal axis.
    pub phases: Vec<Phase>,
    /// Marked moments of the horizontal axis, ascending, each with its text.
    pub moments: Vec<(f64, String)>,
    /// Small text at the lower right.
    pub note: String,
}

/// Axis with its unit in the name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    pub name: String,
    /// Values at the two ends.
    pub from: f64,
    pub to: f64,
    pub logarithmic: bool,
    /// Size of the unit in the name, in the unit of the values; 0 for the same unit.
    pub size: f64,
    /// Marks with their names; round numbers if not given.
    pub marks: Option<Vec<(f64, String)>>,
    /// True if the names of the marks are above the panel.
    pub above: bool,
    /// UNIX time of the value 0, ns, if the values are seconds of a recording.
    pub origin_ns: Option<i64>,
}

impl Axis {
    /// Makes an even axis.
    pub fn even(name: impl Into<String>, from: f64, to: f64) -> Axis {
        Axis {
            name: name.into(),
            from,
            to,
            ..Axis::default()
        }
    }

    /// Makes a logarithmic axis; both ends are above zero.
    pub fn logarithmic(name: impl Into<String>, from: f64, to: f64) -> Axis {
        Axis {
            logarithmic: true,
            ..Axis::even(name, from, to)
        }
    }

    /// Makes an even axis from zero to a round number at or above `most`.
    pub fn up_to(name: impl Into<String>, most: f64) -> Axis {
        Axis::even(name, 0.0, nice_top(most))
    }

    /// Makes an axis in the unit that fits its end best: `Download, Mbit/s`.
    pub fn fitting(name: &str, unit: base::print::Unit, from: f64, to: f64) -> Axis {
        let (word, size) = unit.fitting(to);
        Axis {
            size,
            ..Axis::even(format!("{name}, {word}"), from, to)
        }
    }

    /// Sets the marks.
    pub fn marked(self, marks: Vec<(f64, String)>) -> Axis {
        Axis {
            marks: Some(marks),
            ..self
        }
    }

    /// Returns the place of a value between the ends, 0 to 1; less or more outside.
    pub fn part(&self, v: f64) -> f64 {
        let (from, to) = (self.from, self.to);
        match self.logarithmic {
            true => (v.max(f64::MIN_POSITIVE) / from).ln() / (to / from).ln(),
            false if from == to => 0.0,
            false => (v - from) / (to - from),
        }
    }

    /// True if a value is on the axis.
    pub fn holds(&self, v: f64) -> bool {
        (self.from.min(self.to)..=self.from.max(self.to)).contains(&v)
    }

    /// Returns the marks with their names, at most `most` steps of round numbers.
    pub(crate) fn marks(&self, most: f64) -> Vec<(f64, String)> {
        if let Some(marks) = &self.marks {
            return marks.clone();
        }
        let size = if self.size > 0.0 { self.size } else { 1.0 };
        let (from, to) = (self.from / size, self.to / size);
        let marks = match self.logarithmic {
            true => log_marks(from, to),
            false => marks(from, to, most),
        };
        let name = |v: f64| match self.logarithmic {
            true => number(v),
            false => exact(v, to - from),
        };
        marks.into_iter().map(|v| (v * size, name(v))).collect()
    }
}

/// Shaded span of the horizontal axis, with its name above the first panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// Style class of the shade.
    pub class: &'static str,
    pub from: f64,
    pub to: f64,
}

/// Panel with one vertical axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    pub y: Axis,
    /// Height in pixels.
    pub height: f64,
    /// Small text above the panel.
    pub note: String,
    pub series: Vec<Series>,
}

/// Series of one panel. One with a name has a place in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    /// Style classes.
    pub class: String,
    /// Style classes of the sample in the legend; those of the series if empty.
    pub sample: &'static str,
    pub shape: Shape,
}

impl Series {
    pub fn new(name: impl Into<String>, class: impl Into<String>, shape: Shape) -> Series {
        Series {
            name: name.into(),
            class: class.into(),
            sample: "",
            shape,
        }
    }

    /// Sets the classes of the sample in the legend.
    pub fn sampled(self, sample: &'static str) -> Series {
        Series { sample, ..self }
    }

    /// Makes a series in one of the numbered styles; those of one number belong together.
    pub fn numbered(
        name: impl Into<String>,
        draw: Draw,
        number: usize,
        points: Vec<(f64, Option<f64>)>,
    ) -> Series {
        let (style, shape) = match draw {
            Draw::Line => ("fine", Shape::Line(points)),
            Draw::Knots => ("knots", Shape::Knots(points)),
            Draw::Dots => ("dots", Shape::Dots(points)),
            Draw::Marks => ("marks", Shape::Crosses(points)),
            Draw::Thin => return Series::new(name, "thin", Shape::Line(points)),
        };
        Series::new(name, format!("{style} s{}", number % COLOURS), shape)
    }

    /// Makes stairs in one of the numbered styles.
    pub fn stairs(name: impl Into<String>, number: usize, points: Vec<(f64, f64)>) -> Series {
        let class = format!("fine s{}", number % COLOURS);
        Series::new(name, class, Shape::Stairs(points))
    }

    /// Makes lines in the colours of their directions. Further lines of a direction are dashed; if there is only one
    /// direction, they have colours that stand for none.
    pub fn of_directions(lines: Vec<(String, Option<Direction>, Points)>) -> Vec<Series> {
        let mixed = lines.windows(2).any(|w| w[0].1 != w[1].1);
        let mut seen = [0usize; 3];
        let one = |(name, direction, points): (String, Option<Direction>, Points)| {
            let (at, class) = match direction {
                Some(Direction::Down) => (0, "down"),
                Some(Direction::Up) => (1, "up"),
                None => (2, "s3"),
            };
            let n = seen[at] % DASHES;
            seen[at] += 1;
            let class = match (n, mixed) {
                (0, _) => format!("fine {class}"),
                (n, true) => format!("fine {class} d{n}"),
                (n, false) => format!("fine {}", FREE[n - 1]),
            };
            Series::new(name, class, Shape::Line(points))
        };
        lines.into_iter().map(one).collect()
    }
}

/// Curve in one of the numbered styles.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    pub draw: Draw,
    /// Number of the style; curves of one number belong together.
    pub colour: usize,
    /// Points (x, y); `None` interrupts the line.
    pub points: Vec<(f64, Option<f64>)>,
}

impl From<Curve> for Series {
    fn from(c: Curve) -> Series {
        Series::numbered(c.name, c.draw, c.colour, c.points)
    }
}

/// Number of distinguishable colours.
pub const COLOURS: usize = 6;
/// Number of distinguishable dashes, the whole line included.
const DASHES: usize = 6;

/// Styles whose colours stand for no direction.
const FREE: [&str; DASHES - 1] = ["s2", "s3 d1", "s4", "s5 d2", "ink"];

/// Points (x, y) of a line; a missing value interrupts it.
pub type Points = Vec<(f64, Option<f64>)>;

pub use experiment::Draw;

/// Shape of a series. Points outside the horizontal axis are not drawn; values beyond the vertical axis are drawn at
/// its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Line through (x, y), interrupted at missing values.
    Line(Vec<(f64, Option<f64>)>),
    /// Stairs through (x, y): each value holds up to the next, as the shares of a distribution do.
    Stairs(Vec<(f64, f64)>),
    /// Line between few values, each with a dot, interrupted at missing values.
    Knots(Vec<(f64, Option<f64>)>),
    /// Dots of two pixels; points on the same pixel are drawn once.
    Dots(Vec<(f64, Option<f64>)>),
    Crosses(Vec<(f64, Option<f64>)>),
    /// Area between two lines: (x, low, high).
    Band(Vec<Option<(f64, f64, f64)>>),
    /// Vertical bars (x, low, high); those that touch are merged.
    Bars(Vec<(f64, f64, f64)>),
    /// Horizontal strokes (from, to, y).
    Strokes(Vec<(f64, f64, f64)>),
    /// Ticks at the top, this long, px.
    Ticks(Vec<f64>, f64),
    /// Rectangles.
    Cells(Vec<Rectangle>),
    /// Symbols, each an SVG path around its place.
    Symbols(&'static str, Vec<(f64, f64)>),
    /// Letters beside their places.
    Letters(Vec<(f64, f64, String)>),
}

/// Rectangle between two values of each axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Rectangle {
    /// Style class.
    pub class: &'static str,
    pub x: (f64, f64),
    pub y: (f64, f64),
    pub opacity: f64,
    /// Text inside, and true if it stands on a dark ground.
    pub text: Option<(String, bool)>,
    /// Text that a browser shows on request.
    pub says: String,
}

impl PlotSpec {
    /// Makes a plot with one panel.
    pub fn single(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> PlotSpec {
        PlotSpec {
            title: title.into(),
            x,
            panels: vec![Panel {
                y,
                height: 260.0,
                series,
                ..Panel::default()
            }],
            ..PlotSpec::default()
        }
    }

    /// Makes a plot of lines on two even axes; the vertical one starts at zero.
    pub fn lines(
        title: impl Into<String>,
        x: Axis,
        y: impl Into<String>,
        series: Vec<Series>,
    ) -> PlotSpec {
        let most = series.iter().flat_map(Series::values).fold(0.0, f64::max);
        PlotSpec::single(title, x, Axis::up_to(y, most), series)
    }
}

impl Series {
    fn values(&self) -> impl Iterator<Item = f64> {
        let points: &[(f64, Option<f64>)] = match &self.shape {
            Shape::Line(p) | Shape::Knots(p) | Shape::Dots(p) | Shape::Crosses(p) => p,
            _ => &[],
        };
        points.iter().filter_map(|p| p.1)
    }
}

/// Permitted tops of axes marked by `even_marks`.
const TOPS: [f64; 14] = [
    1.0, 1.2, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0,
];
/// Permitted tops of axes whose quarters are round.
const QUARTERED: [f64; 10] = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];

/// Returns a round number at or a little above `value`: the top of an axis.
pub fn nice_top(value: f64) -> f64 {
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

/// Largest number of steps on an axis.
pub(crate) const MARKS: f64 = 8.0;

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

/// Returns 1, 2 and 5 of each power of ten; only the powers if there are many; even steps if the range is too narrow
/// for three of those.
fn log_marks(low: f64, high: f64) -> Vec<f64> {
    let parts: &[f64] = match high / low < 1e4 {
        true => &[1.0, 2.0, 5.0],
        false => &[1.0],
    };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let marks: Vec<f64> = powers
        .flat_map(|e| parts.iter().map(move |m| m * 10f64.powi(e)))
        .filter(|v| (low..=high).contains(v))
        .collect();
    match marks.len() {
        0..3 => even_marks(low, high),
        _ => marks,
    }
}

/// Formats a number with enough digits to distinguish the marks of an axis of this length.
fn exact(v: f64, length: f64) -> String {
    let digits = (2.0 - length.abs().max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{v:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the distribution of `values` as a curve of `steps`: the share at or below a value, in percent.
pub fn distribution(values: &mut [f64], steps: usize) -> Vec<(f64, Option<f64>)> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let curve = (1..=steps).map(|i| {
        let count = (n * i).div_ceil(steps);
        (values[count - 1], Some(100.0 * count as f64 / n as f64))
    });
    std::iter::once((values[0], Some(0.0)))
        .chain(curve)
        .collect()
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
        for (max, most, expected) in [
            (500.0, 8.0, "0 100 200 300 400 500"),
            (1.2, 8.0, "0 0.2 0.4 0.6 0.8 1 1.2"),
            (45.0, 8.0, "0 10 20 30 40"),
            (0.7, 4.0, "0 0.2 0.4 0.6"),
            (1.0, 4.0, "0 0.5 1"),
        ] {
            let marks = Axis::even("", 0.0, max).marks(most);
            let names: Vec<String> = marks.into_iter().map(|m| m.1).collect();
            assert_eq!(names.join(" "), expected);
        }
        for top in TOPS {
            let marks = even_marks(0.0, top);
            assert!((marks[marks.len() - 1] / top - 1.0).abs() < 1e-9, "{top}");
            assert!((4..=9).contains(&marks.len()), "{top}: {marks:?}");
        }
    }

    #[test]
    fn a_narrow_range_still_has_marks() {
        let marks = Axis::logarithmic("", 19.0, 19.8).marks(MARKS);
        let names: Vec<String> = marks.into_iter().map(|m| m.1).collect();
        assert_eq!(names.join(" "), "19 19.2 19.4 19.6 19.8");
        assert_eq!(
            log_marks(10.0, 500.0),
            vec![10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
        );
    }

    #[test]
    fn axes_of_a_close_up_have_digits_enough() {
        assert_eq!(exact(12.3456, 0.01), "12.3456");
        assert_eq!(exact(12.0, 0.01), "12");
        assert_eq!(exact(40.0, 100.0), "40");
    }

    #[test]
    fn a_distribution_ends_at_all_of_them_and_its_half_is_the_median() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let curve = distribution(&mut values, 50);
        assert_eq!(curve.first(), Some(&(1.0, Some(0.0))));
        assert_eq!(curve.last(), Some(&(100.0, Some(100.0))));
        assert!(curve.contains(&(50.0, Some(50.0))));
    }
}
