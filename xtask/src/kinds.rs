//! A kind of probe is its folder in `experiment` and one line in its registry.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of kinds that both ends of the wire need, so that other rooms may name them.
const SHARED: &[&str] = &["middlebox::messages", "middlebox::syn"];
/// Rooms above the kinds.
const ABOVE: &[&str] = &["live", "sim", "report", "ops", "cli"];

/// # Errors
/// A kind that the registry does not list exactly once, or that another room names.
pub fn check(root: &Path) -> Result<()> {
    let kinds = kinds(&root.join("crates/experiment/src"))?;
    let registry = root.join("crates/experiment/src/registry.rs");
    let registry = fs::read_to_string(registry).context("the registry of kinds")?;
    for kind in &kinds {
        let listed = registry.matches(&format!(" {kind}::SPEC,")).count();
        if listed != 1 {
            bail!(
                "the kind {kind} stands {listed} times in experiment/src/registry.rs, and not once"
            );
        }
    }
    let mut wrong = Vec::new();
    for room in ABOVE {
        let mut files = Vec::new();
        sources(&root.join("crates").join(room).join("src"), &mut files)?;
        for file in files {
            let text = fs::read_to_string(&file)?;
            let name = file.strip_prefix(root).unwrap_or(&file).display();
            let named = named(&text, &kinds).into_iter();
            wrong.extend(named.map(|path| format!("{name}: {path}")));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "a kind of probe is its folder and one line (docs/contrib/adding-a-probe.md), yet other rooms name kinds:\n{}",
            wrong.join("\n")
        );
    }
    Ok(())
}

/// Names of the folders that have a `SPEC`.
fn kinds(folder: &Path) -> Result<Vec<String>> {
    let mut kinds = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let module = fs::read_to_string(path.join("mod.rs")).unwrap_or_default();
        if module.contains("pub const SPEC: Spec")
            && let Some(name) = path.file_name().and_then(|n| n.to_str())
        {
            kinds.push(name.to_owned());
        }
    }
    kinds.sort();
    Ok(kinds)
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Paths into kinds, but for those that rooms may name.
fn named(text: &str, kinds: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("experiment::") {
        let rest = &text[at + "experiment::".len()..];
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let path: String = rest.chars().take_while(|c| is_path(*c)).collect();
        let kind = path.split("::").next().unwrap_or_default();
        let is_kind = kinds.iter().any(|k| k == kind);
        let shared = SHARED.iter().any(|s| path.starts_with(s));
        if is_kind && !shared {
            found.push(format!("experiment::{path}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_another_room_names_is_found_and_what_is_shared_is_not() {
        let kinds = ["dns", "middlebox"].map(String::from);
        let text = "use experiment::dns::Params;\nuse experiment::middlebox::messages;\nuse experiment::dnsmasq;";
        assert_eq!(named(text, &kinds), ["experiment::dns::Params"]);
    }

    #[test]
    fn every_kind_is_found() {
        let folder = crate::root().join("crates/experiment/src");
        assert_eq!(kinds(&folder).expect("it is there").len(), 27);
    }
}
