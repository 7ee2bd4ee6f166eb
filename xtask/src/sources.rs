//! Published works are cited by author and year, and `docs/sources.md` lists each of them.

use crate::gallery::is_work;
use anyhow::{Context, Result, bail};
use std::path::Path;

const LIST: &str = "docs/sources.md";
/// Folders whose texts cite sources.
const ROOMS: [&str; 8] = [
    "bench",
    "crates",
    "docs",
    "lab",
    "reference",
    "scenarios",
    "testkit",
    "xtask",
];
const EXTENSIONS: [&str; 5] = ["md", "py", "rs", "tcl", "toml"];
/// Words that follow the number of a document in a citation.
const PARTS: [&str; 7] = [
    ", section",
    ", chapter",
    ", table",
    ", figure",
    ", equation",
    " §",
    "'s ",
];

/// # Errors
/// Names every folder of scenarios that the list lacks, and every line that cites a source by a number.
pub fn check(root: &Path) -> Result<()> {
    let list = read(&root.join(LIST))?;
    let mut faults = Vec::new();
    for folder in names(&root.join("scenarios"))? {
        if is_work(&folder) && !list.contains(&format!("`{folder}`")) {
            faults.push(format!("{LIST} does not list {folder}"));
        }
    }
    for room in ROOMS {
        let room = root.join(room);
        if room.is_dir() {
            cited_by_number(root, &room, &mut faults)?;
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "{}\nCite author and year, such as \"Borlaug 2014, section 3.5.1\".",
        faults.join("\n")
    )
}

fn cited_by_number(root: &Path, folder: &Path, faults: &mut Vec<String>) -> Result<()> {
    for name in names(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            cited_by_number(root, &path, faults)?;
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        if !EXTENSIONS.contains(&extension.as_ref()) {
            continue;
        }
        for (number, line) in read(&path)?.lines().enumerate() {
            if is_numbered(line) {
                let place = path.strip_prefix(root).unwrap_or(&path);
                faults.push(format!("{}:{}: {line}", place.display(), number + 1));
            }
        }
    }
    Ok(())
}

/// True if a line cites a document by three digits that start with two zeros.
fn is_numbered(line: &str) -> bool {
    let starts = line.match_indices("00").map(|(at, _)| at);
    starts.into_iter().any(|at| {
        let (before, rest) = (&line[..at], &line[at + 2..]);
        let Some(after) = rest.strip_prefix(|c: char| c.is_ascii_digit()) else {
            return false;
        };
        let part_of_a_figure = before
            .ends_with(|c: char| c.is_alphanumeric() || ",._-".contains(c))
            || before.trim_end().ends_with(|c: char| c.is_ascii_digit());
        let named = before.to_lowercase().ends_with("document ");
        !part_of_a_figure && (named || PARTS.iter().any(|p| after.starts_with(p)))
    })
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries
        .map(|e| Ok(e?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_documents_are_told_from_figures() {
        for n in 0..5 {
            assert!(is_numbered(&format!("see document {n:03}.")));
            assert!(is_numbered(&format!("**Source.** {n:03}, section 3.2")));
            assert!(is_numbered(&format!("as in ({n:03} §6.1)")));
            assert!(is_numbered(&format!("the {n:03}'s table 15")));
        }
        for line in [
            "10 000, section 3",
            "0.001, table 2",
            "1,000, figure 3",
            "2,000 'seconds'",
            "Borlaug 2014, section 3.5.1",
            "2026-11-21-002",
        ] {
            assert!(!is_numbered(line), "{line}");
        }
    }

    #[test]
    fn a_work_that_is_not_listed_is_named() {
        let root = testkit::TempDir::new("sources");
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::create_dir_all(root.join("scenarios/gao-2012")).unwrap();
        std::fs::create_dir_all(root.join("scenarios/links")).unwrap();
        std::fs::write(root.join(LIST), "| `gao-2012` |").unwrap();
        let listed = check(&root);
        std::fs::create_dir_all(root.join("scenarios/thombre-2020")).unwrap();
        let told = check(&root).unwrap_err().to_string();
        listed.unwrap();
        assert!(told.contains("does not list thombre-2020"), "{told}");
    }
}
