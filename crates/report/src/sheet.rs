//! Page of sentences, plots and tables, for an answer that is not one recording.

use crate::html::head;
use crate::plot::PlotSpec;
use crate::table::Table;
use maud::{DOCTYPE, Markup, html};

/// Page.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Small text above the title.
    pub about: String,
    pub title: String,
    /// Verdict, the largest text after the title.
    pub says: String,
    pub sections: Vec<Section>,
}

/// Section of a page: sentences, then plots, then a table.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub heading: String,
    pub says: Vec<String>,
    pub plots: Vec<PlotSpec>,
    pub table: Option<Table>,
    /// Small text below.
    pub note: String,
}

impl Sheet {
    /// Renders the page, complete without a script.
    pub fn html(&self) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(&self.title, None))
                body {
                    main {
                        header {
                            p.meta { b { "Tailback" } " " span { (self.about) } }
                            h1 { (self.title) }
                            p.says { (self.says) }
                        }
                        @for (i, s) in self.sections.iter().enumerate() { (s.html(i)) }
                    }
                    footer { p { "This page fetches nothing." } }
                }
            }
        }
        .into_string()
    }
}

impl Section {
    fn html(&self, number: usize) -> Markup {
        html! {
            section {
                h2 { (self.heading) }
                @for line in &self.says { p { (line) } }
                @for plot in &self.plots { figure.still tabindex="0" { (plot.picture()) } }
                @if let Some(table) = &self.table { (table.html(&format!("table-{number}"))) }
                @if !self.note.is_empty() { p.evidence { (self.note) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Series};

    #[test]
    fn text_from_elsewhere_stays_text() {
        let plot = PlotSpec::lines(
            "<b>",
            Axis::even("s", 0.0, 1.0),
            "ms",
            vec![Series::stairs("<i>", 0, vec![(0.0, 0.0), (1.0, 1.0)])],
        );
        let sheet = Sheet {
            title: "<script>".into(),
            sections: vec![Section {
                heading: "<h>".into(),
                says: vec!["<p>".into()],
                plots: vec![plot],
                table: Some(Table::new("<t>", ["", "a"]).with([("<r>", vec!["<c>"])])),
                note: "<n>".into(),
            }],
            ..Sheet::default()
        };
        let page = sheet.html();
        for text in ["script", "h", "p", "b", "i", "t", "r", "c", "n"] {
            assert!(page.contains(&format!("&lt;{text}&gt;")), "{text}");
        }
        assert!(!page.contains("<script>"));
    }
}
