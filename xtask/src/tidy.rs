//! Doc comments begin with a noun or a verb, and public items of pure rooms have one.
//!
//! `xtask/tidy.txt` has the faults that remain in each room: a line `ROOM: N begin badly, M lack docs`. A room that it does
//! not name has none. The counts only shrink.
//!
//! **Limits.** Lines are read, not items: a comment that a macro writes is not seen.

use crate::layers::is_pure;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const KNOWN: &str = "xtask/tidy.txt";
/// Words with which no doc comment begins.
const BEGINS: [&str; 8] = [
    "What", "Where", "Whether", "Of", "So", "How", "Nobody", "Whoever",
];
const ITEMS: [&str; 12] = [
    "fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union", "async", "unsafe",
    "macro",
];

/// Faults of one room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Places of doc comments that begin badly.
    begins: Vec<String>,
    /// Places of public items without a doc comment; counted in pure rooms alone.
    lacks: Vec<String>,
}

/// Counts that the file allows a room: bad beginnings, then missing docs.
type Counts = [usize; 2];

impl Faults {
    fn counts(&self) -> Counts {
        [self.begins.len(), self.lacks.len()]
    }
}

/// # Errors
/// Names rooms with more faults than the file allows, with their places, and rooms that have fewer by now.
pub fn check(root: &Path) -> Result<()> {
    let (found, known) = (found(root)?, known(root)?);
    let told = compared(&found, &known);
    if told.is_empty() {
        return Ok(());
    }
    bail!("{}", told.join("\n"))
}

/// Writes the smaller counts; larger ones are not taken in.
///
/// # Errors
/// A file that cannot be read or written.
pub fn shrink(root: &Path) -> Result<()> {
    let (found, known) = (found(root)?, known(root)?);
    let mut lines = String::new();
    for (room, faults) in &found {
        let [a, b] = faults.counts();
        let [most_a, most_b] = known.get(room).copied().unwrap_or_default();
        let [a, b] = [a.min(most_a), b.min(most_b)];
        if a + b > 0 {
            lines += &format!("{room}: {a} begin badly, {b} lack docs\n");
        }
    }
    std::fs::write(root.join(KNOWN), lines).with_context(|| format!("cannot write {KNOWN}"))
}

fn compared(found: &BTreeMap<String, Faults>, known: &BTreeMap<String, Counts>) -> Vec<String> {
    let mut told = Vec::new();
    for (room, faults) in found {
        let allowed = known.get(room).copied().unwrap_or_default();
        let kinds = [
            (
                &faults.begins,
                "doc comments that begin with What, Of, How and the like",
            ),
            (&faults.lacks, "public items without a doc comment"),
        ];
        for ((places, what), most) in kinds.into_iter().zip(allowed) {
            if places.len() > most {
                told.push(format!(
                    "{room}: {} {what}, at most {most}; among them:\n  {}",
                    places.len(),
                    places.join("\n  ")
                ));
            }
            if places.len() < most {
                told.push(format!(
                    "{room}: {} {what}, fewer than {most}. Run `cargo xtask gen` and commit {KNOWN}.",
                    places.len()
                ));
            }
        }
    }
    told
}

fn known(root: &Path) -> Result<BTreeMap<String, Counts>> {
    let text = std::fs::read_to_string(root.join(KNOWN))
        .with_context(|| format!("cannot read {KNOWN}"))?;
    let line = |line: &str| {
        let parts: Vec<&str> = line.split([' ', ':']).filter(|p| !p.is_empty()).collect();
        match parts[..] {
            [room, a, "begin", "badly,", b, "lack", "docs"] => {
                Ok((room.to_owned(), [a.parse()?, b.parse()?]))
            }
            _ => bail!("{KNOWN}: \"{line}\" is not \"ROOM: N begin badly, M lack docs\""),
        }
    };
    text.lines().map(line).collect()
}

fn found(root: &Path) -> Result<BTreeMap<String, Faults>> {
    let mut rooms: Vec<(String, PathBuf)> = ["lab", "testkit", "xtask"]
        .map(|name| (name.to_owned(), root.join(name)))
        .to_vec();
    for entry in std::fs::read_dir(root.join("crates")).context("cannot read crates/")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        rooms.push((name.into_owned(), path.clone()));
    }
    let mut all = BTreeMap::new();
    for (name, path) in rooms {
        let mut faults = Faults::default();
        for folder in ["src", "tests", "benches", "examples"].map(|f| path.join(f)) {
            let public = folder.ends_with("src") && is_pure(&name);
            if folder.is_dir() {
                walk(root, &folder, public, &mut faults)?;
            }
        }
        all.insert(name, faults);
    }
    Ok(all)
}

fn walk(root: &Path, folder: &Path, public: bool, faults: &mut Faults) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(root, &path, public, faults)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let place = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            let is_test = place.contains("tests");
            read(&text, &place, public && !is_test, faults);
        }
    }
    Ok(())
}

/// Adds the faults of one file.
fn read(text: &str, place: &str, public: bool, faults: &mut Faults) {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let code = lines
        .iter()
        .position(|l| l.starts_with("#[cfg(test)]"))
        .unwrap_or(lines.len());
    for (i, line) in lines.iter().enumerate() {
        let before = i.checked_sub(1).map_or("", |b| lines[b]);
        if begins_badly(before, line) {
            faults.begins.push(format!("{place}:{}", i + 1));
        }
        if public && i < code && is_public(line) && !has_docs(&lines[..i]) {
            faults.lacks.push(format!("{place}:{}", i + 1));
        }
    }
}

/// True for the first line of a doc comment that begins with one of the words.
fn begins_badly(before: &str, line: &str) -> bool {
    let doc = |l: &str| -> Option<String> {
        let text = l.strip_prefix("///").or_else(|| l.strip_prefix("//!"))?;
        Some(text.trim_start().to_owned())
    };
    let (Some(text), None) = (doc(line), doc(before)) else {
        return false;
    };
    let word: String = text.chars().take_while(|c| c.is_alphabetic()).collect();
    BEGINS.contains(&word.as_str())
}

/// True for an item or a field that other crates see. A module in a file of its own has its docs there.
fn is_public(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("pub ") else {
        return false;
    };
    let word: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let behind = &rest[word.len()..];
    let own_file = word == "mod" && rest.ends_with(';');
    // The help of a `params!` declaration is its doc comment.
    let with_help = behind.contains(" for \"");
    let field = behind.starts_with(": ");
    let item = ITEMS.contains(&word.as_str()) && behind.starts_with(' ');
    (item && !own_file && !with_help) || field
}

/// True if a doc comment stands above, with nothing but attributes between. In a macro, its caller's attributes hold it.
fn has_docs(above: &[&str]) -> bool {
    let mut within_attribute = false;
    for line in above.iter().rev() {
        if line.starts_with("///") || line.starts_with("#[doc") || line.starts_with("$(#[") {
            return true;
        }
        if line.starts_with("#[") {
            within_attribute = false;
        } else if line.ends_with(")]") {
            within_attribute = true;
        } else if !within_attribute {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Counts {
        let mut faults = Faults::default();
        read(text, "a.rs", true, &mut faults);
        faults.counts()
    }

    #[test]
    fn docs_are_seen_above_long_attributes_in_macros_and_as_the_help_of_parameters() {
        let long = "#[derive(\n    Clone, Debug,\n)]\n#[serde(default)]\npub struct A {}\n";
        assert_eq!(of(long), [0, 1]);
        assert_eq!(of(&format!("/// Queue.\n{long}")), [0, 0]);
        assert_eq!(
            of(&format!("/// Queue.\npub struct B {{}}\n{long}")),
            [0, 1]
        );
        assert_eq!(
            of("pub struct C for \"red\": \"early drops\", [] {\n"),
            [0, 0]
        );
        assert_eq!(of("$(#[$meta])*\npub struct $name {}\n"), [0, 0]);
    }

    #[test]
    fn a_comment_is_judged_by_its_first_word() {
        for word in BEGINS {
            assert_eq!(of(&format!("/// {word} it is.\npub fn f() {{}}\n")), [1, 0]);
            assert_eq!(of(&format!("//! {word}, then.\n")), [1, 0]);
            assert_eq!(of(&format!("/// A queue.\n/// {word} it is.\n")), [0, 0]);
        }
        assert_eq!(of("/// Offered load.\n/// Society.\n"), [0, 0]);
        assert_eq!(of("// What a plain comment says is not read.\n"), [0, 0]);
    }

    #[test]
    fn public_items_and_fields_need_docs() {
        assert_eq!(of("pub fn f() {}\n"), [0, 1]);
        assert_eq!(of("    pub rate: u64,\n"), [0, 1]);
        assert_eq!(of("/// Rate.\n#[serde(default)]\npub rate: u64,\n"), [0, 0]);
        assert_eq!(of("pub mod queue;\npub use queue::Queue;\n"), [0, 0]);
        assert_eq!(of("pub(crate) fn f() {}\nfn g() {}\n"), [0, 0]);
        assert_eq!(
            of("#[cfg(test)]\nmod tests {\n    pub fn f() {}\n}\n"),
            [0, 0]
        );
    }

    #[test]
    fn more_faults_and_fewer_are_told_alike() {
        let place = || vec!["a.rs:1".to_owned()];
        let faults = Faults {
            begins: place(),
            lacks: place(),
        };
        let found = BTreeMap::from([("link".to_owned(), faults)]);
        let allowed = |counts: Counts| BTreeMap::from([("link".to_owned(), counts)]);
        assert!(compared(&found, &allowed([1, 1])).is_empty());
        assert!(compared(&found, &BTreeMap::new())[1].contains("a.rs:1"));
        assert!(compared(&found, &allowed([2, 1]))[0].contains("fewer than 2"));
        assert!(compared(&found, &allowed([1, 0]))[0].contains("at most 0"));
    }
}
