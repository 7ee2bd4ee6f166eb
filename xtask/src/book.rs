//! Book check: `docs/SUMMARY.md` lists every page, and every relative link and anchor of a page resolves.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages outside the book whose links are checked too.
const BESIDE: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Checks the list of pages and the links.
///
/// # Errors
/// Every page that is missing or unlisted, and every link that leads nowhere.
pub fn check(root: &Path) -> Result<()> {
    let mut pages = BTreeSet::new();
    gather(root, Path::new(BOOK), &mut pages)?;
    let mut faults = Vec::new();
    let mut listed = BTreeSet::new();
    for link in links(&read(root, Path::new(SUMMARY))?) {
        let page = resolved(Path::new(SUMMARY), &link);
        if !pages.contains(&page) {
            faults.push(format!("{SUMMARY} lists {link}, which is not there"));
        }
        if !listed.insert(page) {
            faults.push(format!("{SUMMARY} lists {link} twice"));
        }
    }
    for page in pages.difference(&listed) {
        if page != Path::new(SUMMARY) {
            faults.push(format!("{SUMMARY} does not list {}", page.display()));
        }
    }
    let mut anchors = BTreeMap::new();
    for page in pages
        .iter()
        .cloned()
        .chain(BESIDE.iter().map(PathBuf::from))
    {
        for link in links(&read(root, &page)?) {
            if let Some(fault) = dead(root, &page, &link, &mut anchors)? {
                faults.push(format!("{}: {fault}", page.display()));
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

/// Collects the Markdown files below a folder.
fn gather(root: &Path, folder: &Path, pages: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(folder))
        .with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            gather(root, &path, pages)?;
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.insert(path);
        }
    }
    Ok(())
}

fn read(root: &Path, page: &Path) -> Result<String> {
    std::fs::read_to_string(root.join(page))
        .with_context(|| format!("cannot read {}", page.display()))
}

/// Reason why a link leads nowhere; none for one that resolves, and for addresses outside the repository.
fn dead(
    root: &Path,
    page: &Path,
    link: &str,
    anchors: &mut BTreeMap<PathBuf, BTreeSet<String>>,
) -> Result<Option<String>> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        _ => resolved(page, file),
    };
    if !root.join(&target).exists() {
        return Ok(Some(format!("no file {file}")));
    }
    if anchor.is_empty() || target.extension().is_none_or(|e| e != "md") {
        return Ok(None);
    }
    if !anchors.contains_key(&target) {
        let found = headings(&read(root, &target)?);
        anchors.insert(target.clone(), found);
    }
    Ok((!anchors[&target].contains(anchor)).then(|| format!("no heading #{anchor} in {file}")))
}

/// Path that `link` leads to from `page`, within the repository.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Lines of a page outside its code blocks, with code in the line blanked.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            for (i, part) in line.split('`').enumerate() {
                out.push_str(if i % 2 == 0 { part } else { "code" });
            }
        }
        out.push('\n');
    }
    out
}

/// Targets of the links and pictures of a page. A link may go over the end of a line.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or("").to_owned())
        .filter(|target| !target.is_empty())
        .collect()
}

/// Anchors of a page's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut anchor = slug.clone();
        for number in 1.. {
            if found.insert(anchor) {
                break;
            }
            anchor = format!("{slug}-{number}");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_page_a_dead_link_and_a_wrong_anchor_are_found() {
        let root = std::env::temp_dir().join(format!("tailback-book-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a page");
        };
        for page in BESIDE {
            write(page, "[a](docs/a.md#two-words)");
        }
        write("docs/SUMMARY.md", "- [a](a.md)\n  - [b](sub/b.md)\n");
        write("docs/a.md", "# A\n\n## Two `words`\n\n[b](sub/b.md)\n");
        write(
            "docs/sub/b.md",
            "# B\n\n`[x](gone.md)` [a](../a.md#a)\n\n```\n[y](gone.md)\n```\n",
        );
        check(&root).expect("all resolves");
        write("docs/c.md", "[x](gone.md)\n[y](a.md#three)\n");
        let faults = check(&root).expect_err("faults").to_string();
        for fault in ["docs/c.md", "no file gone.md", "no heading #three"] {
            assert!(faults.contains(fault), "{fault} in {faults}");
        }
        assert_eq!(faults.lines().count(), 3, "{faults}");
        write(
            "docs/SUMMARY.md",
            "- [a](a.md)\n- [b](sub/b.md)\n- [d](d.md)\n- [a](a.md)\n- [c](c.md)\n",
        );
        write("docs/c.md", "");
        let faults = check(&root).expect_err("faults").to_string();
        assert!(faults.contains("d.md, which is not there") && faults.contains("a.md twice"));
        std::fs::remove_dir_all(&root).expect("the folder goes");
    }
}
