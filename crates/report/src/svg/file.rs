//! File of a plot: its size and its colours, which can be changed once it is drawn.

use super::{COLOURS, STYLE, WIDTH, short};
use serde::{Deserialize, Serialize};

/// Returns width and height of a file's picture in pixels.
pub fn size(file: &str) -> (f64, f64) {
    let view = file.split("viewBox=\"").nth(1);
    let view = view.and_then(|v| v.split('"').next()).unwrap_or_default();
    let mut numbers = view.split(' ').skip(2).filter_map(|n| n.parse().ok());
    let mut next = |usual| numbers.next().unwrap_or(usual);
    (next(WIDTH), next(WIDTH / 2.0))
}

/// Colours of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// Dark on white, for paper
    #[default]
    Light,
    /// Light on black, for slides
    Dark,
}

/// Returns the style of a file: plain colours, and only the rules of classes that occur in `inside`.
pub(super) fn style(inside: &str, theme: Theme) -> String {
    let needed = |rule: &&str| {
        let selector = rule.split('{').next().unwrap_or_default();
        let mut classes = selector.split(['.', ' ']).skip(2);
        classes.all(|c| c == "paper" || inside.contains(c))
    };
    let style: Vec<&str> = STYLE.lines().filter(needed).collect();
    let mut style = style.join("\n");
    for (name, light, dark) in COLOURS {
        let colour = if theme == Theme::Dark { dark } else { light };
        style = style.replace(&format!("var(--{name})"), colour);
    }
    style
}

/// Gives a file's picture the colours of a theme.
pub fn themed(file: &str, theme: Theme) -> String {
    const ENDS: [&str; 2] = ["<style>", "</style>"];
    let parts = file.split_once(ENDS[0]);
    let parts = parts.and_then(|(head, rest)| Some((head, rest.split_once(ENDS[1])?.1)));
    match parts {
        Some((head, inside)) => format!(
            "{head}{}{}{}{inside}",
            ENDS[0],
            style(inside, theme),
            ENDS[1]
        ),
        None => file.to_owned(),
    }
}

/// Units of a picture's width in a file, with their size in points.
pub const UNITS: [(&str, f64); 5] = [
    ("mm", 72.0 / 25.4),
    ("cm", 72.0 / 2.54),
    ("in", 72.0),
    ("pt", 1.0),
    ("px", 0.75),
];

/// Gives a file's picture a width in one of [`UNITS`]; its height follows.
pub fn sized(file: &str, width: f64, unit: &str) -> String {
    let (w, h) = size(file);
    let was = format!("width=\"{}\" height=\"{}\"", short(w), short(h));
    let is = |v: f64| (v * 1e3).round() / 1e3;
    let height = is(width * h / w);
    let now = format!("width=\"{}{unit}\" height=\"{height}{unit}\"", is(width));
    file.replacen(&was, &now, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Draw;
    use crate::svg::tests::chart;

    #[test]
    fn a_file_gets_the_width_of_a_column_and_keeps_its_shape() {
        let file = chart(Draw::Line, vec![(0.0, Some(1.0)), (9.0, Some(2.0))]);
        let (w, h) = size(&file);
        for (unit, _) in UNITS {
            let sized = sized(&file, 85.0, unit);
            let height = format!("height=\"{}{unit}\"", (85.0 * h / w * 1e3).round() / 1e3);
            assert!(
                sized.contains(&format!("width=\"85{unit}\" {height}")),
                "{}",
                &sized[..300]
            );
            assert_eq!(size(&sized), (w, h));
        }
    }

    /// A theme changes colours and nothing else, and the way back gives the same file.
    #[test]
    fn a_dark_file_has_the_dark_colours_and_the_same_shapes() {
        let light = chart(Draw::Line, vec![(0.0, Some(1.0)), (9.0, Some(2.0))]);
        let dark = themed(&light, Theme::Dark);
        let (_, ink, dark_ink) = COLOURS[0];
        assert!(light.contains(ink) && !light.contains(dark_ink));
        assert!(dark.contains(dark_ink) && !dark.contains(ink), "{dark}");
        assert!(!dark.contains("var("));
        assert_eq!(themed(&dark, Theme::Light), light);
    }
}
