//! The gallery of the book is whole: a page for every scenario of a document, and nothing left over.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

const PAGES: &str = "docs/book/gallery";
/// Pictures stay light enough for a page full of them.
const MOST_BYTES: u64 = 100_000;

/// # Errors
/// Names every page that is missing, unlisted or left over, and every picture that is not there or too heavy.
pub fn check(root: &Path) -> Result<()> {
    let wanted: BTreeSet<String> = documents(&root.join("scenarios"), "toml")?;
    let pages = root.join(PAGES);
    let there = documents(&pages, "md")?;
    let index = std::fs::read_to_string(pages.join("index.md")).unwrap_or_default();
    let mut faults = Vec::new();
    for id in &wanted {
        if !index.contains(&format!("({id}.md)")) {
            faults.push(format!("{PAGES}/index.md does not name {id}"));
        }
        let name = format!("{id}.md");
        let Ok(page) = std::fs::read_to_string(pages.join(&name)) else {
            faults.push(format!("{PAGES}/{name} is missing"));
            continue;
        };
        let folder = pages.join(id.split('/').next().unwrap_or_default());
        for picture in linked(&page) {
            match std::fs::metadata(folder.join(picture)) {
                Ok(m) if m.len() <= MOST_BYTES => {}
                Ok(m) => faults.push(format!(
                    "{PAGES}/{name}: {picture} has {} bytes, at most {MOST_BYTES}",
                    m.len()
                )),
                Err(_) => faults.push(format!("{PAGES}/{name}: {picture} is not there")),
            }
        }
    }
    for id in there.difference(&wanted) {
        faults.push(format!("{PAGES}/{id}.md has no scenarios/{id}.toml"));
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "{}\nRun `cargo run --release -p lab -- reproduce ID -o {PAGES}` and commit what it wrote.",
        faults.join("\n")
    )
}

/// `AUTHOR-YEAR/NAME` of each file with the extension in the folders of published works.
fn documents(root: &Path, extension: &str) -> Result<BTreeSet<String>> {
    let list = |path: &Path| -> Result<Vec<String>> {
        let entries =
            std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let names = entries.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
        names.collect()
    };
    let mut found = BTreeSet::new();
    for folder in list(root)? {
        if is_work(&folder) {
            for file in list(&root.join(&folder))? {
                if let Some(name) = file.strip_suffix(&format!(".{extension}")) {
                    found.insert(format!("{folder}/{name}"));
                }
            }
        }
    }
    Ok(found)
}

/// True for the folder of a published work, `AUTHOR-YEAR`.
pub fn is_work(folder: &str) -> bool {
    folder
        .rsplit_once('-')
        .is_some_and(|(_, year)| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()))
}

fn linked(page: &str) -> impl Iterator<Item = &str> {
    let after = page.split("](").skip(1);
    after
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| link.ends_with(".svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_left_over_or_too_heavy_is_named() {
        let root = testkit::TempDir::new("gallery");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("scenarios/borlaug-2014/a.toml", "");
        write("scenarios/links/adsl.toml", "");
        write("docs/book/gallery/index.md", "[a](borlaug-2014/a.md)");
        write("docs/book/gallery/borlaug-2014/a.md", "![p](a-1.svg)");
        write("docs/book/gallery/borlaug-2014/a-1.svg", "<svg/>");
        assert!(check(&root).is_ok());
        write(
            "docs/book/gallery/borlaug-2014/a-1.svg",
            &" ".repeat(100_001),
        );
        write("docs/book/gallery/borlaug-2014/old.md", "");
        write("scenarios/thombre-2020/b.toml", "");
        let told = check(&root).unwrap_err().to_string();
        for part in [
            "a-1.svg has 100001 bytes",
            "borlaug-2014/old.md has no",
            "index.md does not name thombre-2020/b",
            "thombre-2020/b.md is missing",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
}
