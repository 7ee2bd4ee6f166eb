//! Renderer of plots as SVG: for files, with plain colours, and inside a page, with the colours of its light or dark
//! mode. It is written without a plotting crate, so that text stays text.

use crate::plot::{Axis, MARKS, Panel, PlotSpec, Rectangle, Series, Shape};
use marks::{COLUMN, band, bars, circle, cross, dots, path, stairs, symbols};
use maud::{Markup, PreEscaped, Render, html};
use std::collections::BTreeSet;

mod file;
mod marks;
mod moments;

pub use file::{Theme, UNITS, size, sized, themed};

/// Width of a plot that fills a page, px.
const WIDTH: f64 = 880.0;
/// Smallest width that has room for axes and texts, px.
const NARROWEST: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
/// Smallest vertical distance of labels, px.
const LABEL: f64 = 21.0;

/// Colours by role, light and dark. The page's style and script use them as variables.
const COLOURS: [(&str, &str, &str); 14] = [
    ("ink", "#1c1f23", "#e9e7e2"),
    ("muted", "#5a626b", "#a3abb5"),
    ("rule", "#e3e3df", "#2c3037"),
    ("paper", "#fff", "#15171b"),
    ("idle", "#6b7280", "#9aa3ae"),
    ("down", "#1a6bb0", "#6db3f2"),
    ("up", "#b84f0a", "#f3a45c"),
    ("both", "#7546b3", "#bd9df2"),
    ("flow", "#0f766e", "#4cc9bb"),
    ("loss", "#c2183a", "#ff6f86"),
    ("sound", "#2f9e5b", "#2f9e5b"),
    ("recovery", "#c77dd8", "#c77dd8"),
    ("tail", "#b8860b", "#b8860b"),
    ("hot", "#b84f0a", "#b84f0a"),
];

/// Style of all plots, one rule per line. The colours of the smoke's median (`l0` to `l7`) are SmokePing's, which its
/// users know.
const STYLE: &str = include_str!("plot.css");

/// Drawn plot.
#[derive(Clone, Debug)]
pub struct Picture {
    width: f64,
    height: f64,
    title: String,
    inside: Markup,
    /// Description of the axes, as JSON.
    axes: Option<String>,
}

impl Picture {
    /// Joins pictures vertically into one.
    pub fn stacked(title: &str, pictures: &[Picture]) -> Picture {
        if let [one] = pictures {
            return one.clone();
        }
        let mut y = 0.0;
        let inside = html! {
            @for p in pictures {
                @let top = y;
                @let () = y += p.height;
                svg y=(top) width=(p.width) height=(p.height) { (p.inside) }
            }
        };
        Picture {
            width: pictures.iter().map(|p| p.width).fold(0.0, f64::max),
            height: y,
            title: title.to_owned(),
            inside,
            axes: None,
        }
    }

    /// Returns width and height in pixels.
    pub fn size(&self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// Returns the text of an SVG file with plain colours, which need neither variables nor media queries. Its
    /// attribute `data-axes` lets a program read values off the plot.
    pub fn file(&self) -> String {
        let style = file::style(&self.inside.0, Theme::Light);
        self.document(html! { style { (PreEscaped(style)) } }, None)
            .into_string()
    }

    fn document(&self, style: Markup, width: Option<&str>) -> Markup {
        let (w, h) = self.size();
        // A page reads its own data.
        let axes = self.axes.as_deref().filter(|_| width.is_none());
        let (width, height) = match width {
            Some(width) => (width.to_owned(), None),
            None => (short(w), Some(short(h))),
        };
        html! {
            svg.tb-plot xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {w} {h}")) width=(width) height=[height] role="img" aria-label=(self.title) data-axes=[axes] {
                title { (self.title) }
                (style)
                rect.paper width=(w) height=(h) {}
                (self.inside)
            }
        }
    }
}

/// Inside a page; `page_style` gives it its colours.
impl Render for Picture {
    fn render(&self) -> Markup {
        self.document(Markup::default(), Some("100%"))
    }
}

/// Returns the style of all plots of a page, in the colours of the reader's light or dark mode.
pub(crate) fn page_style() -> String {
    let colours =
        |of: fn(&(&str, &str, &str)) -> String| -> String { COLOURS.iter().map(of).collect() };
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n{STYLE}",
        colours(|c| format!("--{}:{};", c.0, c.1)),
        colours(|c| format!("--{}:{};", c.0, c.2)),
    )
}

impl PlotSpec {
    /// Draws the plot.
    pub fn picture(&self) -> Picture {
        draw(self, WIDTH)
    }

    /// Returns the plot as the text of an SVG file.
    pub fn svg(&self) -> String {
        self.picture().file()
    }

    /// The same on paper of this width in points: texts have eight points, and a narrow plot is laid out anew.
    pub fn svg_on(&self, paper: Option<f64>) -> String {
        let width = paper.map_or(WIDTH, |points| {
            (points * FONT_PX / FONT_PT).clamp(NARROWEST, WIDTH)
        });
        draw(self, width.round()).file()
    }
}

/// Size of the texts in the layout, px, and on paper, points.
const FONT_PX: f64 = 14.0;
const FONT_PT: f64 = 8.0;

/// Panel with its position, and the horizontal axis.
struct Placed<'s> {
    /// Width of the panel, px.
    inner: f64,
    /// Lines of the panel's note.
    notes: Vec<String>,
    panel: &'s Panel,
    x: &'s Axis,
    top: f64,
    name_y: f64,
    /// Rows of the legend, the lowest first.
    keys: Vec<Vec<&'s Series>>,
}

/// Height of a row of the legend or of small text, px.
const ROW: f64 = 20.0;

/// Width of a letter of a title and of a small text, px.
const BOLD: f64 = 8.6;
const SMALL: f64 = 6.2;

/// Breaks a text into lines of this width.
fn lines(text: &str, width: f64, letter: f64) -> Vec<String> {
    let most = (width / letter) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn draw(spec: &PlotSpec, width: f64) -> Picture {
    let inner = width - LEFT - RIGHT;
    let title = lines(&spec.title, inner + RIGHT, BOLD);
    let titled = ROW * title.len().saturating_sub(1) as f64;
    let mut y = if spec.untitled { -8.0 } else { 20.0 + titled };
    let mut placed: Vec<Placed> = Vec::new();
    let said = moments::lay_out(spec, inner);
    for panel in &spec.panels {
        let keys = legend(panel, inner);
        let notes = lines(&panel.note, inner, SMALL);
        let above = keys.len().saturating_sub(1) as f64 * ROW;
        let named = !panel.y.name.is_empty();
        let headed = named || !panel.note.is_empty();
        let name_y = y + above + if headed { 28.0 } else { 0.0 };
        let first = placed.is_empty();
        let phases = !spec.phases.is_empty() && first;
        let marked = if first { moments::height(&said) } else { 0.0 };
        let beside = usize::from(!named).min(notes.len());
        let rows = usize::from(spec.x.above) + notes.len() - beside;
        let room = 14.0 + if phases { 22.0 } else { 0.0 } + ROW * rows as f64 + marked;
        y = name_y + room + panel.height + 8.0;
        placed.push(Placed {
            inner,
            notes,
            panel,
            x: &spec.x,
            top: name_y + room,
            name_y,
            keys,
        });
    }
    let bottom = y - 8.0;
    let named = !spec.x.name.is_empty();
    let notes = lines(&spec.note, inner, SMALL);
    // The name of the axis and the note share a row if there is room for both.
    let name_px = FONT_PX / 2.0 * spec.x.name.chars().count() as f64;
    let note_px = SMALL * spec.note.chars().count() as f64;
    let below = match named && name_px + note_px + 16.0 > inner {
        true => notes.len(),
        false => notes.len().saturating_sub(1),
    };
    let height = bottom
        + ROW * below as f64
        + match (spec.x.above, named || !spec.note.is_empty()) {
            (true, false) => 12.0,
            (true, true) => 30.0,
            (false, false) => 34.0,
            (false, true) => 52.0,
        };
    let inside = html! {
        @if !spec.untitled {
            @for (n, line) in title.iter().enumerate() { text.name x=(LEFT) y=(short(18.0 + ROW * n as f64)) { (line) } }
        }
        (phases(spec, &placed, bottom))
        @for p in &placed { (p.frame()) }
        (rules(&spec.x, &placed, bottom))
        @for p in &placed { (p.legend()) @for s in &p.panel.series { (p.series(s)) } }
        (labels(&spec.x, &placed, bottom))
        (moments::draw(spec, &said, &placed, bottom))
        @if named {
            @let y = short(height - 8.0 - ROW * below as f64);
            @if spec.note.is_empty() {
                text x=(LEFT + inner / 2.0) y=(y) text-anchor="middle" { (spec.x.name) }
            } @else {
                text x=(LEFT) y=(y) { (spec.x.name) }
            }
        }
        @for (n, line) in notes.iter().rev().enumerate() {
            text.small x=(LEFT + inner) y=(short(height - 8.0 - ROW * n as f64)) text-anchor="end" { (line) }
        }
    };
    Picture {
        width,
        height,
        title: spec.title.clone(),
        inside,
        axes: Some(axes(spec, inner, &placed)),
    }
}

/// Description of the axes: places in pixels, and the values at their ends.
fn axes(spec: &PlotSpec, inner: f64, placed: &[Placed]) -> String {
    let axis = |a: &Axis| {
        serde_json::json!({
            "name": a.name,
            "from": a.from,
            "to": a.to,
            "logarithmic": a.logarithmic,
            "size": if a.size > 0.0 { a.size } else { 1.0 },
            // JavaScript's numbers do not hold nanoseconds.
            "origin_ns": a.origin_ns.map(|ns| ns.to_string()),
        })
    };
    let panel = |p: &Placed| serde_json::json!({ "top": p.top, "height": p.panel.height, "y": axis(&p.panel.y) });
    let panels: Vec<_> = placed.iter().map(panel).collect();
    serde_json::json!({ "left": LEFT, "width": inner, "x": axis(&spec.x), "panels": panels })
        .to_string()
}

/// Draws the shaded spans over all panels, with their names above the first.
fn phases(spec: &PlotSpec, placed: &[Placed], bottom: f64) -> Markup {
    let Some(first) = placed.first() else {
        return Markup::default();
    };
    html! {
        @for p in &spec.phases {
            @let (from, to) = (first.x(p.from), first.x(p.to));
            rect.shade.(p.class) x=(short(from)) width=(short(to - from)) y=(short(first.top)) height=(short(bottom - first.top)) {}
            text x=(short((from + to) / 2.0)) y=(short(first.top - 7.0)) text-anchor="middle" { (p.name) }
        }
    }
}

/// Draws the rules of a logarithmic horizontal axis, and the ticks of one whose marks are given.
fn rules(x: &Axis, placed: &[Placed], bottom: f64) -> Markup {
    let lines: Vec<(f64, f64)> = match (x.logarithmic, &x.marks) {
        (true, _) => placed
            .iter()
            .map(|p| (p.top, p.top + p.panel.height))
            .collect(),
        (false, Some(_)) if !x.above => vec![(bottom, bottom + 5.0)],
        _ => Vec::new(),
    };
    let Some(first) = placed.first() else {
        return Markup::default();
    };
    html! {
        @for (v, _) in first.marks().iter().filter(|m| x.holds(m.0)) {
            @let at = short(first.x(*v));
            @for (from, to) in &lines { line.rule x1=(at) x2=(at) y1=(short(*from)) y2=(short(*to)) {} }
        }
    }
}

/// Draws the names of the marks of the horizontal axis.
fn labels(x: &Axis, placed: &[Placed], bottom: f64) -> Markup {
    let Some(first) = placed.first() else {
        return Markup::default();
    };
    // A long name at the right end would be cut off if centred.
    let right = LEFT + first.inner;
    let ends = |at: f64, name: &str| at > right - 16.0 && name.chars().count() > 4;
    // Names that would touch the one before are left out.
    let mut free = f64::NEG_INFINITY;
    let mut fits = |at: f64, name: &str| {
        let width = 6.6 * name.chars().count() as f64;
        let from = if ends(at, name) {
            at - width
        } else {
            at - width / 2.0
        };
        let fits = from >= free;
        if fits {
            free = from + width + 4.0;
        }
        fits
    };
    let y = match x.above {
        true => first.top - 8.0,
        false => bottom + 24.0,
    };
    html! {
        @for (v, name) in first.marks().iter().filter(|m| x.holds(m.0)) {
            @let at = first.x(*v);
            @if fits(at, name) {
                text class=[x.marks.is_some().then_some("small")] x=(short(at)) y=(short(y)) text-anchor=(if ends(at, name) { "end" } else { "middle" }) { (name) }
            }
        }
    }
}

/// Returns the estimated width of a sample with its name, px.
fn key_width(s: &Series) -> f64 {
    44.0 + 7.2 * s.name.chars().count() as f64
}

/// Distributes the samples over rows, the lowest first; that one is beside the panel's name.
fn legend(panel: &Panel, inner: f64) -> Vec<Vec<&Series>> {
    let mut rows: Vec<Vec<&Series>> = vec![Vec::new()];
    let mut left = inner - BOLD * panel.y.name.chars().count() as f64;
    for s in panel.series.iter().rev().filter(|s| !s.name.is_empty()) {
        if key_width(s) > left {
            rows.push(Vec::new());
            left = inner;
        }
        left -= key_width(s);
        if let Some(row) = rows.last_mut() {
            row.insert(0, s);
        }
    }
    rows
}

impl Placed<'_> {
    /// Marks of the horizontal axis, fewer on a narrow one.
    fn marks(&self) -> Vec<(f64, String)> {
        let full = WIDTH - LEFT - RIGHT;
        self.x.marks((MARKS * self.inner / full).max(3.0))
    }

    fn x(&self, v: f64) -> f64 {
        LEFT + self.inner * self.x.part(v).clamp(0.0, 1.0)
    }

    fn y(&self, v: f64) -> f64 {
        self.top + self.panel.height * (1.0 - self.panel.y.part(v).clamp(0.0, 1.0))
    }

    /// Draws name, rules and labels of the vertical axis.
    fn frame(&self) -> Markup {
        let y = &self.panel.y;
        let marks = y.marks((self.panel.height / LABEL).clamp(4.0, MARKS));
        html! {
            text.name x=(LEFT) y=(short(self.name_y)) { (y.name) }
            @let below = if y.name.is_empty() { 0.0 } else { ROW };
            @for (n, line) in self.notes.iter().enumerate() { text.small x=(LEFT) y=(short(self.name_y + below + ROW * n as f64)) { (line) } }
            @for (v, name) in marks.iter().filter(|m| y.holds(m.0)) {
                @let at = self.y(*v);
                @if y.marks.is_none() {
                    line class=(if *v == 0.0 { "axis" } else { "rule" }) x1=(LEFT) x2=(LEFT + self.inner) y1=(short(at)) y2=(short(at)) {}
                }
                text x=(LEFT - 8.0) y=(short(at + 5.0)) text-anchor="end" { (name) }
            }
        }
    }

    fn legend(&self) -> Markup {
        let row = |(n, keys): (usize, &Vec<&Series>)| {
            let y = self.name_y - ROW * n as f64;
            let start = LEFT + self.inner - keys.iter().map(|s| key_width(s)).sum::<f64>();
            let places = keys
                .iter()
                .scan(start, |x, s| Some(std::mem::replace(x, *x + key_width(s))));
            html! {
                @for (s, x) in keys.iter().zip(places) {
                    (sample(s, x, y - 5.0))
                    text x=(short(x + 28.0)) y=(short(y)) { (s.name) }
                }
            }
        };
        let rows: Vec<Markup> = self.keys.iter().enumerate().map(row).collect();
        html! { @for row in rows { (row) } }
    }

    /// Returns the places of points in the picture.
    fn places<'p>(
        &'p self,
        points: &'p [(f64, Option<f64>)],
    ) -> impl Iterator<Item = (f64, Option<f64>)> + 'p {
        let shown = points.iter().filter(|p| self.x.holds(p.0));
        shown.map(|p| (self.x(p.0), p.1.map(|v| self.y(v))))
    }

    fn spots<'p>(
        &'p self,
        points: &'p [(f64, Option<f64>)],
    ) -> impl Iterator<Item = (f64, f64)> + 'p {
        self.places(points).filter_map(|(x, y)| Some((x, y?)))
    }

    fn series(&self, s: &Series) -> Markup {
        let d = match &s.shape {
            Shape::Line(points) => path(self.places(points)),
            Shape::Stairs(points) => path(self.places(&stairs(points))),
            Shape::Knots(points) => {
                let dots = self.spots(points).map(|(x, y)| circle(x, y));
                path(self.places(points)) + &dots.collect::<String>()
            }
            Shape::Dots(points) => dots(self.spots(points)),
            Shape::Crosses(points) => self.spots(points).map(|(x, y)| cross(x, y)).collect(),
            Shape::Band(points) => band(points.iter().map(|p| {
                let (x, low, high) = (*p)?;
                Some((self.x(x), self.y(low), self.y(high)))
            })),
            Shape::Bars(places) => {
                let shown = places.iter().filter(|p| self.x.holds(p.0));
                bars(shown.map(|p| (self.x(p.0), self.y(p.2), self.y(p.1))))
            }
            Shape::Strokes(strokes) => {
                let stroke = |(from, to, y): &(f64, f64, f64)| {
                    let (x, width) = (self.x(*from), self.x(*to) - self.x(*from));
                    format!(
                        "M{} {}h{}",
                        short(x),
                        short(self.y(*y)),
                        short(width.max(1.0))
                    )
                };
                strokes.iter().map(stroke).collect()
            }
            Shape::Ticks(at, length) => {
                let shown = at.iter().filter(|t| self.x.holds(**t));
                let columns: BTreeSet<i64> = shown
                    .map(|t| (self.x(*t) / COLUMN).round() as i64)
                    .collect();
                let length = length.min(self.panel.height);
                let tick = |c: &i64| {
                    format!(
                        "M{} {}v{length}",
                        short(*c as f64 * COLUMN),
                        short(self.top)
                    )
                };
                columns.iter().map(tick).collect()
            }
            Shape::Symbols(symbol, places) => {
                let shown = places.iter().filter(|p| self.x.holds(p.0));
                symbols(symbol, shown.map(|p| (self.x(p.0), self.y(p.1))))
            }
            Shape::Cells(cells) => return html! { @for c in cells { (self.cell(c)) } },
            Shape::Letters(letters) => {
                return html! {
                    @for (x, y, letter) in letters {
                        text class=(format!("letter {}", s.class)) x=(short((self.x(*x) + 3.0).min(LEFT + self.inner - 12.0))) y=(short((self.y(*y) - 5.0).max(self.top + 8.0))) { (letter) }
                    }
                };
            }
        };
        match d.is_empty() {
            true => Markup::default(),
            false => html! { path class=(s.class) d=(d) {} },
        }
    }

    fn cell(&self, c: &Rectangle) -> Markup {
        let (x, to_x) = (self.x(c.x.0), self.x(c.x.1));
        let (y, to_y) = (
            self.y(c.y.0).min(self.y(c.y.1)),
            self.y(c.y.0).max(self.y(c.y.1)),
        );
        // A gap of a pixel between neighbours, where there is room for it.
        let gap = if to_x - x > 3.0 { 0.5 } else { 0.0 };
        html! {
            rect class=(c.class) x=(short(x + gap)) y=(short(y + gap)) width=(short((to_x - x - 2.0 * gap).max(0.5))) height=(short((to_y - y - 2.0 * gap).max(0.0))) opacity=[(c.opacity < 1.0).then(|| format!("{:.2}", c.opacity))] {
                @if !c.says.is_empty() { title { (c.says) } }
            }
            @if let Some((text, strong)) = &c.text {
                text.onhot.strong[*strong] x=(short((x + to_x) / 2.0)) y=(short((y + to_y) / 2.0 + 4.0)) text-anchor="middle" { (text) }
            }
        }
    }
}

/// Draws the sample of a series in the legend.
fn sample(s: &Series, x: f64, y: f64) -> Markup {
    let class = match s.sample {
        "" => &s.class,
        other => other,
    };
    match &s.shape {
        Shape::Cells(cells) => html! {
            rect class=(cells.first().map_or(class, |c| c.class)) x=(short(x + 4.0)) y=(short(y - 6.0)) width="14" height="11" {}
        },
        Shape::Symbols(symbol, _) => html! {
            path class=(class) d=(symbols(symbol, std::iter::once((x + 14.0, y)))) {}
        },
        _ => {
            html! { path class=(format!("line {class}")) d=(format!("M{} {}h22", short(x), short(y))) {} }
        }
    }
}

fn short(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Draw;

    /// File of one curve.
    pub(super) fn chart(draw: Draw, points: Vec<(f64, Option<f64>)>) -> String {
        let series = vec![Series::numbered("a", draw, 0, points)];
        PlotSpec::lines("t", Axis::even("x", 0.0, 10.0), "y", series).svg()
    }

    #[test]
    fn points_outside_the_axis_of_time_are_not_drawn_at_its_ends() {
        let svg = chart(
            Draw::Marks,
            vec![(-1.0, Some(1.0)), (5.0, Some(1.0)), (11.0, Some(1.0))],
        );
        assert_eq!(svg.matches("m0 -10").count(), 1);
    }

    /// Three values and a gap before the last: the line begins twice, and there are three dots.
    #[test]
    fn a_missing_value_interrupts_a_line_of_few_values() {
        let points = vec![
            (1.0, Some(1.0)),
            (2.0, Some(2.0)),
            (3.0, None),
            (4.0, Some(3.0)),
        ];
        let svg = chart(Draw::Knots, points);
        let curve = (svg.split(" d=\"").skip(1))
            .map(|d| d.split('"').next().unwrap_or_default())
            .find(|d| d.matches("a3 3").count() == 6)
            .expect("a curve with three dots");
        let line = curve.split('a').next().expect("a line");
        // The last M is that of the first dot.
        assert_eq!(line.matches('M').count(), 3, "{curve}");
    }

    #[test]
    fn many_dots_on_one_spot_are_one() {
        let points = (0..10_000).map(|i| (5.0 + f64::from(i % 3) * 1e-4, Some(1.0)));
        let svg = chart(Draw::Dots, points.collect());
        assert_eq!(svg.matches("h2").count(), 1 + svg.matches("h22").count());
    }

    /// Renderers such as librsvg and CairoSVG draw a colour that is a variable as black.
    #[test]
    fn a_file_has_plain_colours_and_a_page_has_variables() {
        let points = vec![(0.0, Some(1.0)), (9.0, Some(2.0))];
        let series = vec![Series::new("a", "line down", Shape::Line(points))];
        let spec = PlotSpec::lines("t", Axis::even("x", 0.0, 10.0), "y", series);
        let file = spec.svg();
        assert!(!file.contains("var(") && !file.contains("@media"), "{file}");
        assert!(file.contains(".down{stroke:#1a6bb0}"), "{file}");
        assert!(
            !file.contains(".tb-plot .l7"),
            "rules that nothing needs: {file}"
        );
        let page = spec.picture().render().into_string();
        assert!(!page.contains("<style"), "{page}");
        assert!(page_style().contains(".down{stroke:var(--down)}"));
        for (name, ..) in COLOURS {
            let used = STYLE.contains(&format!("var(--{name})"));
            assert!(used, "{name} is a colour of no rule");
        }
    }

    /// Left and right ends of the texts of a drawing, by the width of a letter.
    fn beyond(svg: &str, width: f64) -> Vec<String> {
        let mut faults = Vec::new();
        for text in svg.split("<text").skip(1) {
            let (head, rest) = text.split_once('>').expect("a tag");
            let says = rest.split('<').next().unwrap_or_default();
            let value = |key: &str| {
                let rest = head.split(&format!(" {key}=\"")).nth(1)?;
                rest.split('"').next()
            };
            let x: f64 = value("x").and_then(|v| v.parse().ok()).expect("a place");
            let small = head.contains("small");
            let letters = says.chars().count() as f64 * if small { 6.0 } else { 7.0 };
            let (from, to) = match value("text-anchor") {
                Some("end") => (x - letters, x),
                Some("middle") => (x - letters / 2.0, x + letters / 2.0),
                _ => (x, x + letters),
            };
            if from < -2.0 || to > width + 2.0 {
                faults.push(format!("{says}: {from} to {to} of {width}"));
            }
        }
        faults
    }

    #[test]
    fn a_plot_for_a_column_is_laid_out_anew_and_no_text_leaves_it() {
        let series = ["idle", "while downloading", "while uploading"]
            .iter()
            .enumerate();
        let series = series.map(|(i, name)| {
            let points = vec![(0.0, Some(1.0)), (1e6, Some(2.0))];
            Series::numbered(*name, Draw::Line, i, points)
        });
        let long =
            "A title that says what is drawn, over which link, in which direction and by whom";
        let x = Axis::even("Time since the begin of the recording, s", 0.0, 1e6);
        let mut spec = PlotSpec::lines(long, x, "ms", series.collect());
        spec.note =
            "a note of some length at the lower edge, which shares its row with the axis".into();
        for (paper, width) in [
            (Some(241.0), 422.0),
            (Some(100.0), 360.0),
            (Some(900.0), 880.0),
            (None, 880.0),
        ] {
            let svg = spec.svg_on(paper);
            assert_eq!(size(&svg).0, width);
            assert_eq!(beyond(&svg, width), [""; 0], "{paper:?}");
        }
        assert_eq!(spec.svg_on(None), spec.svg());
    }

    #[test]
    fn a_long_legend_takes_several_rows_and_nothing_overlaps() {
        let names = ["first", "second", "third", "fourth", "fifth"];
        let series = names.iter().enumerate().map(|(i, name)| {
            Series::numbered(
                format!("{name} with a name that is not short"),
                Draw::Line,
                i,
                vec![(0.0, Some(1.0)), (1.0, Some(2.0))],
            )
        });
        let spec = PlotSpec::lines("t", Axis::even("x", 0.0, 1.0), "unit", series.collect());
        let inner = WIDTH - LEFT - RIGHT;
        let rows = legend(&spec.panels[0], inner);
        assert!(rows.len() > 1);
        for row in &rows {
            assert!(row.iter().map(|s| key_width(s)).sum::<f64>() <= inner);
        }
        let order = rows.iter().rev().flatten().map(|s| &s.name);
        let expected = spec.panels[0].series.iter().map(|s| &s.name);
        assert!(order.eq(expected), "read from the top");
    }
}
