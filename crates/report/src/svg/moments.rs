//! Marked moments: a line over all panels, and its text above the first one.

use super::{LEFT, Placed, short};
use crate::plot::PlotSpec;
use maud::{Markup, html};

/// Height of a row of texts, px.
const ROW: f64 = 15.0;
/// Most rows of texts; what finds no place has its text in the line's title.
const ROWS: usize = 4;
/// Most lines that are drawn.
const MOST: usize = 300;
/// Estimated width of a letter, px.
const LETTER: f64 = 7.0;
/// Most characters of a text.
const LONGEST: usize = 44;

/// Moment with the place of its text.
pub(super) struct Said<'s> {
    at: f64,
    text: &'s str,
    /// Row of the text, the lowest first, and its place if it stands left of the line; none if it found no room.
    row: Option<(usize, bool)>,
}

/// Chooses a row for each text, so that none overlaps another.
pub(super) fn lay_out(spec: &PlotSpec, inner: f64) -> Vec<Said<'_>> {
    // Right end of the texts of each row.
    let mut ends = [f64::NEG_INFINITY; ROWS];
    let mut all = Vec::new();
    let shown = spec.moments.iter().filter(|m| spec.x.holds(m.0));
    for (v, text) in shown.take(MOST) {
        let at = LEFT + inner * spec.x.part(*v);
        let width = LETTER * text.chars().count().min(LONGEST) as f64 + 10.0;
        let left = at + width > LEFT + inner;
        let (from, to) = if left {
            (at - width, at)
        } else {
            (at, at + width)
        };
        // On narrow paper, a long text may fit on neither side.
        let fits = |end: &f64| from >= 0.0 && *end <= from;
        let row = ends.iter().position(fits);
        if let Some(row) = row {
            ends[row] = to;
        }
        all.push(Said {
            at,
            text,
            row: row.map(|row| (row, left)),
        });
    }
    all
}

/// Returns the height of all rows of texts.
pub(super) fn height(all: &[Said]) -> f64 {
    let rows = all.iter().filter_map(|s| Some(s.row?.0 + 1)).max();
    ROW * rows.unwrap_or(0) as f64
}

/// Draws the lines from their texts to the last panel's lower edge.
pub(super) fn draw(spec: &PlotSpec, all: &[Said], placed: &[Placed], bottom: f64) -> Markup {
    let Some(first) = placed.first() else {
        return Markup::default();
    };
    // Names of phases and of an axis above stand between the texts and the panel.
    let names = if spec.phases.is_empty() && !spec.x.above {
        0.0
    } else {
        22.0
    };
    let base = first.top - names - 4.0;
    html! {
        @for s in all {
            @let (row, left) = s.row.unwrap_or_default();
            @let y = base - ROW * row as f64;
            @let top = if s.row.is_some() { y - 9.0 } else { first.top };
            line.moment x1=(short(s.at)) x2=(short(s.at)) y1=(short(top)) y2=(short(bottom)) { title { (s.text) } }
            @if s.row.is_some() {
                text.small x=(short(if left { s.at - 4.0 } else { s.at + 4.0 })) y=(short(y)) text-anchor=[left.then_some("end")] { (cut(s.text)) }
            }
        }
    }
}

/// Cuts a long text; it ends in dots then.
fn cut(text: &str) -> String {
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Draw, Series};

    fn spec(moments: Vec<(f64, String)>) -> PlotSpec {
        let points = vec![(0.0, Some(1.0)), (10.0, Some(2.0))];
        let series = vec![Series::numbered("a", Draw::Line, 0, points)];
        PlotSpec {
            moments,
            ..PlotSpec::lines("t", Axis::even("x", 0.0, 10.0), "y", series)
        }
    }

    #[test]
    fn moments_have_lines_and_texts_and_those_outside_have_none() {
        let spec = spec(vec![
            (-1.0, "before".into()),
            (2.0, "Skype <call> begins".into()),
            (10.0, "end".into()),
            (11.0, "after".into()),
        ]);
        let svg = spec.svg();
        assert_eq!(svg.matches("class=\"moment\"").count(), 2, "{svg}");
        assert!(svg.contains("Skype &lt;call&gt; begins</text>"), "{svg}");
        assert!(!svg.contains("before") && !svg.contains("after"));
        // The text of the last stands left of its line.
        assert!(svg.contains("text-anchor=\"end\">end</text>"), "{svg}");
    }

    /// Random moments: no text overlaps another in its row, and none leaves the picture on the right.
    #[test]
    fn texts_do_not_overlap() {
        for seed in 0..200 {
            let mut rng = base::rng::Streams::new(seed).stream("moments");
            let mut draw = |most: f64| base::rng::uniform(&mut rng) * most;
            let mut all: Vec<(f64, String)> = (0..1 + draw(60.0) as usize)
                .map(|_| (draw(10.0), "x".repeat(1 + draw(80.0) as usize)))
                .collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let spec = spec(all);
            let inner = [260.0, 800.0][seed as usize % 2];
            let said = lay_out(&spec, inner);
            assert_eq!(said.len(), spec.moments.len(), "seed {seed}");
            for row in 0..ROWS {
                let here = said.iter().filter_map(|s| {
                    let (_, left) = s.row.filter(|r| r.0 == row)?;
                    let width = LETTER * s.text.len().min(LONGEST) as f64;
                    Some(if left {
                        (s.at - width, s.at)
                    } else {
                        (s.at, s.at + width)
                    })
                });
                let here: Vec<(f64, f64)> = here.collect();
                assert!(
                    here.windows(2).all(|w| w[0].1 <= w[1].0),
                    "seed {seed}: {here:?}"
                );
                assert!(
                    here.iter().all(|s| s.0 >= 0.0 && s.1 <= LEFT + inner + 1.0),
                    "seed {seed}"
                );
            }
            let room = inner > 400.0;
            assert!(
                said[0].row.is_some() || !room,
                "seed {seed}: the first has room"
            );
        }
    }
}
