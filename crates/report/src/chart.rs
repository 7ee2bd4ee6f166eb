//! Chart with one panel: curves, dots or marks on two linear axes, for comparison with a document's figure.

use crate::svg::{
    INNER, LEFT, Panel, document, even_marks, joined, key, log_marks, nice_top, path, short,
};
use base::print::number;
use maud::{PreEscaped, html};

/// Style of this chart: colours by number. The common style of all plots is in `svg`.
const STYLE: &str = "
.tb-plot .s0{stroke:var(--down)}.tb-plot .s1{stroke:var(--up)}.tb-plot .s2{stroke:var(--both)}.tb-plot .s3{stroke:var(--flow)}.tb-plot .s4{stroke:var(--loss)}.tb-plot .s5{stroke:var(--idle)}
.tb-plot .knots{stroke-width:2}.tb-plot .knots.s1{stroke-dasharray:8 3}.tb-plot .knots.s2{stroke-dasharray:8 3 2 3}.tb-plot .knots.s3{stroke-dasharray:3 2}.tb-plot .knots.s4{stroke-dasharray:12 4}.tb-plot .knots.s5{stroke-dasharray:2 3}
.tb-plot .fine{stroke-width:1.4}.tb-plot .dots{stroke-width:2}.tb-plot .marks{stroke-width:1.8}.tb-plot .thin{stroke:var(--muted);stroke-width:1.2;stroke-dasharray:3 4}
";
/// Number of distinguishable colours.
const COLOURS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    Line,
    /// Line between few values, each with a dot.
    Knots,
    /// Dots of two pixels; points on the same pixel are drawn once.
    Dots,
    /// Crosses for printed values.
    Marks,
    /// Thin line for comparison.
    Thin,
}

pub struct Series {
    pub name: String,
    pub draw: Draw,
    /// Colour number; series of one colour belong together.
    pub colour: usize,
    /// Points (x, y); `None` interrupts the line.
    pub points: Vec<(f64, Option<f64>)>,
}

pub struct Chart {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Start and end of the horizontal axis.
    pub span: (f64, f64),
    /// Top of the vertical axis; a round number above all values if not given.
    pub top: Option<f64>,
    pub series: Vec<Series>,
}

impl Chart {
    pub fn svg(&self) -> String {
        let values = self.series.iter().flat_map(|s| &s.points);
        let most = values.filter_map(|p| p.1).fold(0.0, f64::max);
        let panel = Panel {
            top: 62.0,
            height: 260.0,
            max: self.top.unwrap_or(nice_top(most)),
            name_y: 48.0,
        };
        let (from, to) = self.span;
        let width = (to - from).max(f64::MIN_POSITIVE);
        let x = |v: f64| LEFT + INNER * ((v - from) / width).clamp(0.0, 1.0);
        let inside = |v: f64| (from..=to).contains(&v);
        let place = |p: &(f64, Option<f64>)| (x(p.0), p.1.map(|v| panel.y(v)));
        let height = panel.top + panel.height + 52.0;
        let named = named(&self.series);
        let keys: Vec<(&str, &str)> = named.iter().map(|(c, n)| (c.as_str(), *n)).collect();
        let drawn = |s: &Series| s.drawn(s.points.iter().filter(|p| inside(p.0)).map(place));
        let picture = html! {
            style { (PreEscaped(STYLE)) }
            text.name x=(LEFT) y="18" { (self.title) }
            (panel.frame(&self.y, number))
            (key(&keys, panel.name_y))
            @for s in &self.series {
                path class=(s.class()) d=(drawn(s)) {}
            }
            @for t in even_marks(from, to) {
                text x=(short(x(t))) y=(short(height - 28.0)) text-anchor=(anchor(x(t), &number(t))) { (number(t)) }
            }
            text x=(LEFT + INNER / 2.0) y=(short(height - 8.0)) text-anchor="middle" { (self.x) }
        };
        document(height, &self.title, picture).into_string()
    }
}

/// Returns the text anchor of an axis number; a long one at the right end would be cut off if centred.
fn anchor(x: f64, number: &str) -> &'static str {
    match x > LEFT + INNER - 16.0 && number.chars().count() > 4 {
        true => "end",
        false => "middle",
    }
}

/// Chart with a logarithmic horizontal axis; the vertical one is logarithmic, too, or percent.
pub struct LogChart {
    pub title: String,
    pub x: String,
    pub y: String,
    pub span: (f64, f64),
    /// Bounds of a logarithmic vertical axis; `None` for an axis from 0 to 100.
    pub rise: Option<(f64, f64)>,
    pub series: Vec<Series>,
}

impl LogChart {
    pub fn svg(&self) -> String {
        let panel = Panel {
            top: 78.0,
            height: 280.0,
            max: 100.0,
            name_y: 66.0,
        };
        let height = panel.top + panel.height + 52.0;
        let part = |v: f64, (from, to): (f64, f64)| (v / from).ln() / (to / from).ln();
        let x = |v: f64| LEFT + INNER * part(v, self.span);
        let y = |v: f64| match self.rise {
            Some(rise) => panel.top + panel.height * (1.0 - part(v, rise).clamp(0.0, 1.0)),
            None => panel.y(v),
        };
        let inside = |v: f64| (self.span.0..=self.span.1).contains(&v);
        let place = |p: &(f64, Option<f64>)| (x(p.0), p.1.map(y));
        let named = named(&self.series);
        let keys: Vec<(&str, &str)> = named.iter().map(|(c, n)| (c.as_str(), *n)).collect();
        let picture = html! {
            style { (PreEscaped(STYLE)) }
            text.name x=(LEFT) y="18" { (self.title) }
            @match self.rise {
                None => (panel.frame(&self.y, number)),
                Some(rise) => {
                    text.name x=(LEFT) y=(panel.name_y) { (self.y) }
                    @for v in powers(rise) {
                        line.rule x1=(LEFT) x2=(LEFT + INNER) y1=(short(y(v))) y2=(short(y(v))) {}
                        text x=(LEFT - 8.0) y=(short(y(v) + 5.0)) text-anchor="end" { (number(v)) }
                    }
                },
            }
            (key(&keys, 42.0))
            @for v in powers(self.span) {
                line.rule x1=(short(x(v))) x2=(short(x(v))) y1=(panel.top) y2=(panel.top + panel.height) {}
                text x=(short(x(v))) y=(short(height - 28.0)) text-anchor="middle" { (number(v)) }
            }
            @for s in &self.series {
                path class=(s.class()) d=(s.drawn(s.points.iter().filter(|p| inside(p.0)).map(place))) {}
            }
            text x=(LEFT + INNER / 2.0) y=(short(height - 8.0)) text-anchor="middle" { (self.x) }
        };
        document(height, &self.title, picture).into_string()
    }
}

/// Returns the marks of an axis: powers of ten if there are many, otherwise 1, 2 and 5 of each.
fn powers((from, to): (f64, f64)) -> Vec<f64> {
    if to / from < 1e4 {
        return log_marks(from, to);
    }
    (from.log10().ceil() as i32..=to.log10().floor() as i32)
        .map(|e| 10f64.powi(e))
        .collect()
}

fn named(series: &[Series]) -> Vec<(String, &str)> {
    let with_name = series.iter().filter(|s| !s.name.is_empty());
    with_name.map(|s| (s.class(), s.name.as_str())).collect()
}

impl Series {
    fn class(&self) -> String {
        let style = match self.draw {
            Draw::Line => "fine",
            Draw::Knots => "knots",
            Draw::Dots => "dots",
            Draw::Marks => "marks",
            Draw::Thin => return "thin".to_string(),
        };
        format!("{style} s{}", self.colour % COLOURS)
    }

    /// Returns the SVG path or marks at these places of the picture.
    fn drawn(&self, places: impl Iterator<Item = (f64, Option<f64>)> + Clone) -> String {
        let spots = places.clone().filter_map(|(x, y)| Some((x, y?)));
        match self.draw {
            Draw::Line | Draw::Thin => path(places),
            Draw::Knots => {
                let dots = spots.clone().map(|(x, y)| circle(x, y));
                joined(spots.clone()) + &dots.collect::<String>()
            }
            Draw::Marks => spots.map(|(x, y)| cross(x, y)).collect(),
            Draw::Dots => dots(spots),
        }
    }
}

fn circle(x: f64, y: f64) -> String {
    format!(
        "M{} {}a3 3 0 1 1 -6 0a3 3 0 1 1 6 0",
        short(x + 3.0),
        short(y)
    )
}

fn cross(x: f64, y: f64) -> String {
    format!("M{} {}l10 10m0 -10l-10 10", short(x - 5.0), short(y - 5.0))
}

fn dots(spots: impl Iterator<Item = (f64, f64)>) -> String {
    let mut seen = std::collections::BTreeSet::new();
    spots
        .map(|(x, y)| ((x / 2.0).round() as i64 * 2, (y / 2.0).round() as i64 * 2))
        .filter(|spot| seen.insert(*spot))
        .map(|(x, y)| format!("M{x} {y}h2"))
        .collect()
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

    fn chart(draw: Draw, points: Vec<(f64, Option<f64>)>) -> String {
        Chart {
            title: "t".into(),
            x: "x".into(),
            y: "y".into(),
            span: (0.0, 10.0),
            top: None,
            series: vec![Series {
                name: "a".into(),
                draw,
                colour: 0,
                points,
            }],
        }
        .svg()
    }

    #[test]
    fn points_outside_the_axis_of_time_are_not_drawn_at_its_ends() {
        let svg = chart(
            Draw::Marks,
            vec![(-1.0, Some(1.0)), (5.0, Some(1.0)), (11.0, Some(1.0))],
        );
        assert_eq!(svg.matches("m0 -10").count(), 1);
    }

    #[test]
    fn many_dots_on_one_spot_are_one() {
        let points = (0..10_000).map(|i| (5.0 + f64::from(i % 3) * 1e-4, Some(1.0)));
        let svg = chart(Draw::Dots, points.collect());
        assert_eq!(svg.matches("h2").count(), 1 + svg.matches("h22").count());
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
