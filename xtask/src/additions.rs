//! `docs/contrib/` names every file to touch for an addition, and an existing entry shows that there are no others.
//!
//! A page has a line "Example: `NAME`." and a table whose first column is a path with `NAME` in it. The words by which
//! sources name the entry may follow in parentheses; otherwise they are the name itself.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

const PAGES: &str = "docs/contrib";
/// Additions that have a page.
const WANTED: [&str; 6] = [
    "adding-a-controller.md",
    "adding-a-plot.md",
    "adding-a-probe.md",
    "adding-a-qdisc.md",
    "adding-a-verb.md",
    "adding-an-import-format.md",
];

/// Claims of a page about its example.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    /// Paths of files, and of folders that end with a slash.
    files: Vec<String>,
    /// Words by which sources name the entry.
    words: Vec<String>,
}

/// # Errors
/// Names pages that are missing, paths that do not exist, and sources that name an example but stand on no page.
pub fn check(root: &Path) -> Result<()> {
    let mut sources = Vec::new();
    for room in folders(&root.join("crates"))? {
        collect(&room.join("src"), &mut sources)?;
    }
    let mut texts = Vec::new();
    for source in &sources {
        let place = source.strip_prefix(root).unwrap_or(source);
        texts.push((place.display().to_string(), read(source)?));
    }
    let mut faults = Vec::new();
    for page in WANTED {
        let text = read(&root.join(PAGES).join(page))?;
        match claim(&text) {
            Some(claim) => faults.extend(wrong(root, page, &claim, &texts)),
            None => faults.push(format!(
                "{PAGES}/{page} has no \"Example: `NAME`.\" with a table of files"
            )),
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

fn wrong(root: &Path, page: &str, claim: &Claim, texts: &[(String, String)]) -> Vec<String> {
    let absent = claim.files.iter().filter(|f| !root.join(f).exists());
    let mut faults: Vec<String> = absent
        .map(|f| format!("{PAGES}/{page} names {f}, which does not exist"))
        .collect();
    for (place, text) in texts {
        let listed = claim
            .files
            .iter()
            .any(|f| place == f || (f.ends_with('/') && place.starts_with(f)));
        let named = claim.words.iter().find(|w| names(text, w));
        if let (false, Some(word)) = (listed, named) {
            faults.push(format!(
                "{PAGES}/{page} does not list {place}, which names `{word}`"
            ));
        }
    }
    faults
}

/// The example and its files; `None` if the page has none.
fn claim(page: &str) -> Option<Claim> {
    let line = page.lines().find(|l| l.starts_with("Example: `"))?;
    let mut quoted = line.split('`').skip(1).step_by(2).map(str::to_owned);
    let name = quoted.next()?;
    let words: Vec<String> = quoted.collect();
    let rows = page.lines().filter_map(|l| l.strip_prefix("| `"));
    let files: Vec<String> = rows
        .filter_map(|r| r.split('`').next())
        .map(|path| path.replace("NAME", &name))
        .collect();
    let words = match words.is_empty() {
        true => vec![name],
        false => words,
    };
    (!files.is_empty()).then_some(Claim { files, words })
}

/// True if the text has the word by itself, in small letters or capitals.
fn names(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.to_lowercase());
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(&word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn folders(of: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(of).with_context(|| format!("cannot read {}", of.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join("src").is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Adding\n\nExample: `blue`.\n\n| file | change |\n|---|---|\n| `src/NAME.rs` | the law |\n| `src/list/` | one line |\n";

    #[test]
    fn a_page_gives_its_example_and_its_files() {
        let claimed = claim(PAGE).unwrap();
        assert_eq!(claimed.files, ["src/blue.rs", "src/list/"]);
        assert_eq!(claimed.words, ["blue"]);
        let worded = PAGE.replace("`blue`.", "`blue` (`ops::blue`, `Plan::Blue`).");
        assert_eq!(claim(&worded).unwrap().words, ["ops::blue", "Plan::Blue"]);
        assert_eq!(claim("# Adding\n\nExample: `blue`.\n"), None);
    }

    #[test]
    fn a_source_that_the_page_forgets_is_named() {
        let texts = [
            ("src/blue.rs", "struct Blue;"),
            ("src/list/a.rs", "blue::X"),
            ("src/other.rs", "blueish, light_blue"),
            ("src/forgotten.rs", "match x { Blue => 1 }"),
        ]
        .map(|(place, text)| (place.to_owned(), text.to_owned()));
        let root = Path::new("/nonexistent");
        let faults = wrong(root, "adding.md", &claim(PAGE).unwrap(), &texts);
        let said = faults.join("\n");
        assert_eq!(faults.len(), 3, "{said}");
        assert!(
            said.contains("names src/blue.rs, which does not exist"),
            "{said}"
        );
        assert!(said.contains("does not list src/forgotten.rs"), "{said}");
    }
}
