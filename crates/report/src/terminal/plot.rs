//! Plots in characters: braille with Unicode, bars in ASCII.

use super::page::Page;
use crate::curves::Curves;
use crate::plot::quartered_top;
use crate::probe::span;
use crate::table::length;
use crate::words::phase;
use base::print::number;
use experiment::{Draw, Plot};

const ROWS: usize = 8;

/// Plot of dots with its vertical axis.
struct Canvas {
    unicode: bool,
    /// Start and end of the horizontal axis.
    span: (f64, f64),
    top: f64,
    labels: Vec<String>,
    gutter: usize,
    /// Width and height in characters.
    columns: usize,
    rows: usize,
    /// Dots of a character, across and down.
    dots_per_character: (usize, usize),
    dots: Vec<bool>,
}

impl Canvas {
    /// Makes an empty plot, `width` characters wide with its axis; the axis ends at or above `most`.
    fn new(span: (f64, f64), most: f64, width: usize, unicode: bool) -> Canvas {
        Canvas::of_rows(span, most, (width, ROWS), unicode)
    }

    /// Makes an empty plot of this width and height; an even number of rows has labels at whole parts of the axis.
    fn of_rows(span: (f64, f64), most: f64, size: (usize, usize), unicode: bool) -> Canvas {
        let (width, rows) = size;
        let top = quartered_top(most);
        let label = |r: usize| match r % 2 {
            0 => number(top * (rows - r) as f64 / rows as f64),
            _ => String::new(),
        };
        let labels: Vec<String> = (0..rows).map(label).collect();
        let gutter = labels.iter().map(|l| length(l)).max().unwrap_or(0).max(1);
        let columns = width.saturating_sub(gutter + 3).max(10);
        // Braille has two by four dots per character; ASCII bars have one.
        let (across, down) = if unicode { (2, 4) } else { (1, 1) };
        Canvas {
            unicode,
            span,
            top,
            labels,
            gutter,
            columns,
            rows,
            dots_per_character: (across, down),
            dots: vec![false; columns * across * rows * down],
        }
    }

    /// Returns the column at `x` of so many.
    fn column(&self, x: f64, columns: usize) -> usize {
        let (from, to) = self.span;
        let part = (x - from) / (to - from).max(f64::MIN_POSITIVE);
        ((part * columns as f64).max(0.0) as usize).min(columns - 1)
    }

    /// Draws points, joined by lines where they are `joined`. A missing value interrupts the line.
    fn draw(&mut self, points: impl Iterator<Item = (f64, Option<f64>)>, joined: bool) {
        let (across, down) = self.dots_per_character;
        let (wide, tall) = (self.columns * across, self.rows * down);
        let mut last: Option<(usize, usize)> = None;
        for (x, y) in points {
            let row = |y: f64| ((y.max(0.0) / self.top * tall as f64) as usize).min(tall - 1);
            let here = y.map(|y| (self.column(x, wide), tall - 1 - row(y)));
            if let Some((x, y)) = here {
                let (from_x, from_y) = last.filter(|_| joined).unwrap_or((x, y));
                let steps = x.abs_diff(from_x).max(y.abs_diff(from_y)).max(1);
                let part = |a: usize, b: usize, i: usize| {
                    (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round() as usize
                };
                for i in 0..=steps {
                    self.dots[part(from_y, y, i) * wide + part(from_x, x, i)] = true;
                }
            }
            last = here;
        }
    }

    /// Returns the rows and the horizontal axis.
    fn lines(&self) -> Vec<String> {
        let (gutter, (across, down)) = (self.gutter, self.dots_per_character);
        let (bar, corner, rule) = match self.unicode {
            true => ('│', '└', "─"),
            false => ('|', '+', "-"),
        };
        let row = |(r, label): (usize, &String)| {
            let cells: String = (0..self.columns)
                .map(|c| {
                    let set = |x: usize, y: usize| {
                        self.dots[(r * down + y) * self.columns * across + c * across + x]
                    };
                    match self.unicode {
                        true => braille(&set),
                        false if set(0, 0) => '#',
                        false => ' ',
                    }
                })
                .collect();
            format!("{label:>gutter$} {bar}{cells}")
        };
        let mut out: Vec<String> = self.labels.iter().enumerate().map(row).collect();
        out.push(format!(
            "{:>gutter$} {corner}{}",
            "0",
            rule.repeat(self.columns)
        ));
        out
    }

    /// Returns a line below the horizontal axis.
    fn below(&self, text: &str) -> String {
        format!("{:1$}  {text}", "", self.gutter)
    }

    /// Returns the ends of the horizontal axis.
    fn ends(&self, first: &str, last: &str) -> String {
        let rest = self.columns.saturating_sub(length(first));
        self.below(&format!("{first}{last:>rest$}"))
    }
}

/// Returns the RTT over time, and below it the losses and the names of the phases.
pub fn lines(curves: &Curves, width: usize, unicode: bool) -> Vec<String> {
    let most = curves.probes.iter().filter_map(|p| p.ms);
    let span = (0.0, curves.span_s);
    let mut canvas = Canvas::new(span, most.fold(0.0, f64::max), width, unicode);
    canvas.draw(curves.probes.iter().map(|p| (p.t_s, p.ms)), true);
    let mut out = canvas.lines();
    let columns = canvas.columns;
    if !curves.lost_s.is_empty() {
        let mut marks = vec![' '; columns];
        for t in &curves.lost_s {
            marks[canvas.column(*t, columns)] = 'x';
        }
        out.push(canvas.below(&marks.into_iter().collect::<String>()));
    }
    out.push(canvas.below(&strip(curves, columns)));
    out.push(canvas.ends("0 s", &format!("{} s", number(curves.span_s))));
    out
}

/// Curve of a live view, in seconds and milliseconds. A missing value interrupts it.
pub struct Growing<'p> {
    /// Start and end of the horizontal axis, s.
    pub span: (f64, f64),
    pub points: &'p [(f64, Option<f64>)],
    /// Times of losses, s.
    pub lost: &'p [f64],
}

impl Growing<'_> {
    /// Returns the curve as lines of this width: `rows` of dots, the axis, losses, and the ends of the axis.
    pub fn lines(&self, width: usize, rows: usize, unicode: bool) -> Vec<String> {
        let most = self.points.iter().filter_map(|p| p.1).fold(0.0, f64::max);
        let mut canvas = Canvas::of_rows(self.span, most, (width, rows.max(2)), unicode);
        canvas.draw(self.points.iter().copied(), true);
        let mut out = canvas.lines();
        let mut marks = vec![' '; canvas.columns];
        for t in self.lost {
            marks[canvas.column(*t, canvas.columns)] = 'x';
        }
        if !self.lost.is_empty() {
            out.push(canvas.below(&marks.into_iter().collect::<String>()));
        }
        let ends = [self.span.0, self.span.1].map(|t| format!("{} s", number(t)));
        out.push(canvas.ends(&ends[0], &ends[1]));
        out
    }
}

impl Page {
    /// Writes a picture of an experiment with its heading.
    pub(super) fn picture(&mut self, plot: &Plot) {
        let Some(span) = span(plot) else {
            return;
        };
        let points = plot.series.iter().flat_map(|s| &s.points);
        let most = points.filter_map(|p| p.1).fold(0.0, f64::max);
        let mut canvas = Canvas::new(span, most, self.width, self.style.unicode);
        for s in &plot.series {
            let joined = !matches!(s.draw, Draw::Dots | Draw::Marks);
            canvas.draw(s.points.iter().copied(), joined);
        }
        self.heading(&format!("{}: {} against {}", plot.title, plot.y, plot.x));
        let ends = canvas.ends(&number(span.0), &number(span.1));
        for line in canvas.lines().iter().chain([&ends]) {
            self.put(line, None);
        }
        self.gap();
    }
}

/// Returns the braille character of a dot pattern. Unicode block "Braille Patterns", U+2800: bits 0 to 2 are the upper
/// left dots, 3 to 5 the upper right, 6 and 7 the lowest.
fn braille(set: &dyn Fn(usize, usize) -> bool) -> char {
    let bit = |x, y, b: u32| u32::from(set(x, y)) << b;
    let left = bit(0, 0, 0) | bit(0, 1, 1) | bit(0, 2, 2) | bit(0, 3, 6);
    let right = bit(1, 0, 3) | bit(1, 1, 4) | bit(1, 2, 5) | bit(1, 3, 7);
    // Some fonts draw empty circles for the pattern without dots.
    if left | right == 0 {
        return ' ';
    }
    char::from_u32(0x2800 + (left | right)).expect("the block has 256 patterns")
}

/// Writes phase names under the time axis: each starts with its phase, or behind the preceding name.
fn strip(curves: &Curves, columns: usize) -> String {
    let mut out = String::new();
    for p in &curves.phases {
        let at = (p.from_s / curves.span_s * columns as f64).round().max(0.0) as usize;
        let free = at.max(length(&out) + usize::from(!out.is_empty()));
        out.push_str(&" ".repeat(free - length(&out)));
        out.push_str(&phase(&p.name).to_lowercase());
    }
    out
}
