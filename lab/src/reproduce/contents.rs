//! Every figure and table of the documents, `scenarios/gallery.toml`: what makes it, or that there is nothing to compute.

use serde::Deserialize;
use sim::document::State;

const TEXT: &str = include_str!("../../../scenarios/gallery.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    document: Vec<Contents>,
}

/// Figures and tables of one work, in its order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// Folder of its scenarios: the author and the year.
    pub name: String,
    /// Author and year as a citation gives them.
    pub cite: String,
    /// Author, title, university and date.
    pub source: String,
    /// Drawings, photographs, screens, lists of equipment.
    pub nothing: Vec<String>,
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

#[derive(Deserialize)]
pub struct Entry {
    /// As the document names them, such as "figure 6.13".
    pub of: Vec<String>,
    #[serde(flatten)]
    pub made: Made,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Made {
    /// `tailback-lab reproduce` with this ID.
    Here {
        page: String,
    },
    Elsewhere(Elsewhere),
}

/// Made by another command, or by none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    pub what: String,
    /// Empty where nothing makes it.
    #[serde(default)]
    pub run: String,
    /// The page of the book on which the result stands; empty where there is none.
    #[serde(default)]
    pub book: String,
    pub state: State,
    #[serde(default)]
    pub because: String,
}

/// # Errors
/// A file that cannot be read, which a test rules out.
pub fn contents() -> anyhow::Result<Vec<Contents>> {
    let file: File =
        toml::from_str(TEXT).map_err(|e| anyhow::anyhow!("scenarios/gallery.toml: {e}"))?;
    Ok(file.document)
}

/// Origin of the figure with an ID such as `thombre-2020/figure-6.13`.
pub enum Found<'a> {
    /// This ID of `tailback-lab reproduce` makes it.
    Here(&'a str),
    Elsewhere(&'a Elsewhere),
    Nothing,
}

/// `None` where no document has it.
pub fn find<'a>(contents: &'a [Contents], id: &str) -> Option<Found<'a>> {
    let (work, name) = id.split_once('/')?;
    let document = contents.iter().find(|c| c.name == work)?;
    let is_it = |of: &String| of.replace(' ', "-") == name;
    if document.nothing.iter().any(is_it) {
        return Some(Found::Nothing);
    }
    let entry = document.entries.iter().find(|e| e.of.iter().any(is_it))?;
    Some(match &entry.made {
        Made::Here { page } => Found::Here(page),
        Made::Elsewhere(elsewhere) => Found::Elsewhere(elsewhere),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Numbers of figures and tables by each work's own lists and captions.
    const COUNTS: [(&str, usize, usize); 5] = [
        ("borlaug-2014", 54, 26),
        ("catalan-2014", 17, 9),
        ("chandele-2012", 17, 14),
        ("thombre-2020", 34, 16),
        ("gao-2012", 18, 1),
    ];

    #[test]
    fn every_figure_and_table_of_a_document_is_listed_once() {
        for (contents, (work, figures, tables)) in contents().unwrap().iter().zip(COUNTS) {
            assert_eq!(contents.name, work);
            let names = contents.entries.iter().flat_map(|e| &e.of);
            let names: Vec<&String> = names.chain(&contents.nothing).collect();
            let once: BTreeSet<&String> = names.iter().copied().collect();
            assert_eq!(once.len(), names.len(), "{work}: one is listed twice");
            for (kind, count) in [("figure ", figures), ("table ", tables)] {
                let mut series: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
                for name in names.iter().filter_map(|n| n.strip_prefix(kind)) {
                    // "6.3, 400 Mbit/s" and "6.7 (b)" are parts of one.
                    let end = name.find([',', ' ']).unwrap_or(name.len());
                    let (chapter, last) =
                        name[..end].rsplit_once('.').unwrap_or(("", &name[..end]));
                    series
                        .entry(chapter)
                        .or_default()
                        .insert(last.parse().unwrap());
                }
                for (chapter, found) in &series {
                    let whole = (1..=found.len() as u32).all(|n| found.contains(&n));
                    assert!(whole, "{work}: {kind}{chapter}: {found:?}");
                }
                let found: usize = series.values().map(BTreeSet::len).sum();
                assert_eq!(found, count, "{work}: {kind}");
            }
        }
    }

    #[test]
    fn every_entry_leads_to_a_page_or_says_why_there_is_none() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for document in contents().unwrap() {
            for entry in &document.entries {
                match &entry.made {
                    Made::Here { page } => {
                        let file = root.join(format!("scenarios/{page}.toml"));
                        assert!(file.is_file(), "{page}");
                    }
                    Made::Elsewhere(e) => {
                        let file = root.join("docs/book").join(&e.book);
                        assert!(e.book.is_empty() || file.is_file(), "{}", e.book);
                        let told = e.state == State::Reproduced || !e.because.is_empty();
                        assert!(
                            told && (!e.run.is_empty() || !e.because.is_empty()),
                            "{}",
                            e.what
                        );
                        assert!(
                            e.state == State::NotReproducible || !e.book.is_empty(),
                            "{}",
                            e.what
                        );
                    }
                }
            }
        }
    }
}
