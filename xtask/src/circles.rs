//! Circles of imports inside a crate: files of different folders that need each other. A circle means that a type which
//! many need stands in the file that lists or drives them all: move the type.
//!
//! **Method.** Each file is cut into tokens. Its `use` trees and the paths in its code give the files that it needs; a path
//! through a re-export leads to the file that defines the name, so that a list of `pub use` is no circle. Code under
//! `#[cfg(test)]` does not count. Circles are the strongly connected components of that graph.
//!
//! **Limits.** Names that come in by `*`, and paths that begin with an imported module (`use a::b; b::c()`), count as the
//! import alone.

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Circles that stand today, one a line: the crate, then its files. The list only shrinks.
const KNOWN: &str = "xtask/circles.txt";

/// Names of modules from the crate's root to one module.
type Module = Vec<String>;

/// Source file.
#[derive(Debug, Default)]
struct File {
    /// True for a file with files below it.
    is_head: bool,
    /// Paths as they are written.
    paths: Vec<Vec<String>>,
    /// Names that it hands on, and the paths that they stand for.
    hands_on: BTreeMap<String, Vec<String>>,
}

/// The files of one crate by their modules.
type Files = BTreeMap<Module, File>;

/// A circle: the crate and its modules, in order.
type Circle = (String, BTreeSet<String>);

/// # Errors
/// Names each circle that is not known, and each known one that is smaller than the list says.
pub fn check(root: &Path) -> Result<()> {
    let faults = faults(&found(root)?, &known(root)?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

/// Writes the list anew where circles have gone or shrunk. New ones are not taken in.
///
/// # Errors
/// A file that cannot be read or written.
pub fn shrink(root: &Path) -> Result<()> {
    let found = found(root)?;
    let known = known(root)?;
    let kept = found.iter().filter(|c| known.iter().any(|k| within(c, k)));
    let lines = kept.map(|(of, files)| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("{of}: {}\n", files.join(" "))
    });
    std::fs::write(root.join(KNOWN), lines.collect::<String>())
        .with_context(|| format!("cannot write {KNOWN}"))
}

fn known(root: &Path) -> Result<Vec<Circle>> {
    let text = std::fs::read_to_string(root.join(KNOWN))
        .with_context(|| format!("cannot read {KNOWN}"))?;
    let line = |line: &str| {
        let (of, files) = line
            .split_once(':')
            .context("a line is \"crate: file file\"")?;
        let files = files.split_whitespace().map(str::to_owned).collect();
        Ok((of.to_owned(), files))
    };
    text.lines().map(line).collect()
}

fn within(circle: &Circle, other: &Circle) -> bool {
    circle.0 == other.0 && circle.1.is_subset(&other.1)
}

fn faults(found: &[Circle], known: &[Circle]) -> Vec<String> {
    let list = |files: &BTreeSet<String>| files.iter().cloned().collect::<Vec<_>>().join(", ");
    let new = found.iter().filter(|c| !known.iter().any(|k| within(c, k)));
    let new = new.map(|(of, files)| {
        format!(
            "{of}: these files need each other: {}. Move what they share into a file of its own.",
            list(files)
        )
    });
    let gone = known.iter().filter(|k| !found.contains(k));
    let gone = gone.map(|(of, files)| {
        format!(
            "{of}: the circle {} is gone or smaller. Run `cargo xtask gen` and commit {KNOWN}.",
            list(files)
        )
    });
    new.chain(gone).collect()
}

/// The circles of all crates that reach over folders.
fn found(root: &Path) -> Result<Vec<Circle>> {
    let crates = root.join("crates");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&crates).context("cannot read crates/")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let src = crates.join(&name).join("src");
        if !src.is_dir() {
            continue;
        }
        let mut files = Files::new();
        read(&src, &src, &mut files)?;
        let circles = circles(&files)
            .into_iter()
            .filter(|c| folders(c, &files) > 1);
        all.extend(circles.map(|modules| {
            let files = modules.iter().map(word).collect();
            (name.clone(), files)
        }));
    }
    Ok(all)
}

fn word(module: &Module) -> String {
    match module.is_empty() {
        true => "lib".into(),
        false => module.join("/"),
    }
}

/// Number of folders in which these modules stand. The head of a folder stands in it.
fn folders(modules: &[Module], files: &Files) -> usize {
    let folder = |m: &Module| match files[m].is_head {
        true => m.clone(),
        false => m[..m.len().saturating_sub(1)].to_vec(),
    };
    modules.iter().map(folder).collect::<BTreeSet<_>>().len()
}

/// Reads every file below `at` that is no test.
fn read(src: &Path, at: &Path, files: &mut Files) -> Result<()> {
    for entry in std::fs::read_dir(at).with_context(|| format!("cannot read {}", at.display()))? {
        let path = entry?.path();
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            read(src, &path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let below = path.strip_prefix(src)?.with_extension("");
            let mut module: Module = below.iter().map(|p| p.to_string_lossy().into()).collect();
            if ["mod", "lib", "main"].contains(&stem.as_str()) {
                module.pop();
            }
            let file = parse(&text).with_context(|| format!("{}", path.display()))?;
            files.insert(module, file);
        }
    }
    let heads: Vec<Module> = files.keys().cloned().collect();
    for (module, file) in files.iter_mut() {
        let below = |m: &&Module| m.len() > module.len() && m.starts_with(module);
        file.is_head = heads.iter().any(|m| below(&m));
    }
    Ok(())
}

/// # Errors
/// Text that is no Rust.
fn parse(text: &str) -> Result<File> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|e| anyhow::anyhow!("cannot be cut into tokens: {e}"))?;
    let mut file = File::default();
    walk(tokens, &mut file);
    Ok(file)
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(i)) if *i == word)
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == sign)
}

/// True if `::` stands there.
fn is_joint(tokens: &[TokenTree], at: usize) -> bool {
    let first = matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':' && p.spacing() == Spacing::Joint);
    first && is_sign(tokens.get(at + 1), ':')
}

/// Collects what stands in some tokens and in the groups among them.
fn walk(stream: TokenStream, file: &mut File) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    let mut public = false;
    while at < tokens.len() {
        if is_sign(tokens.get(at), '#')
            && matches!(tokens.get(at + 1), Some(TokenTree::Group(g)) if is_test(&g.stream()))
        {
            at = after_item(&tokens, at + 2);
            continue;
        }
        match &tokens[at] {
            TokenTree::Ident(i) if *i == "use" => {
                let end = (at..tokens.len())
                    .find(|i| is_sign(tokens.get(*i), ';'))
                    .unwrap_or(tokens.len());
                imports(&tokens[at + 1..end], public, file);
                at = end;
            }
            TokenTree::Ident(_) => {
                let (path, end) = path_at(&tokens, at);
                if path.len() > 1 && !(at > 1 && is_joint(&tokens, at - 2)) {
                    file.paths.push(path);
                }
                public = is_word(tokens.get(at), "pub");
                at = end;
                continue;
            }
            TokenTree::Group(g) => {
                // `pub(crate)` remains public for what follows.
                let after_pub = public && g.delimiter() == Delimiter::Parenthesis;
                walk(g.stream(), file);
                public = after_pub;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => public = false,
        }
        at += 1;
    }
}

/// True for `cfg(test)`.
fn is_test(attribute: &TokenStream) -> bool {
    attribute.to_string().replace(' ', "") == "cfg(test)"
}

/// The place after the item that begins there: its block, or its semicolon.
fn after_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |t: &TokenTree| match t {
        TokenTree::Group(g) => g.delimiter() == Delimiter::Brace,
        TokenTree::Punct(p) => p.as_char() == ';',
        _ => false,
    };
    let end = tokens[from..].iter().position(ends);
    end.map_or(tokens.len(), |i| from + i + 1)
}

/// The path that begins there, and the place behind it.
fn path_at(tokens: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    while let Some(TokenTree::Ident(i)) = tokens.get(at) {
        path.push(i.to_string());
        at += 1;
        let more = matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)));
        if !(is_joint(tokens, at) && more) {
            break;
        }
        at += 2;
    }
    (path, at)
}

/// The paths of one `use`, without the word itself.
fn imports(tokens: &[TokenTree], public: bool, file: &mut File) {
    let mut all = Vec::new();
    branches(tokens, &[], &mut all);
    for (path, name) in all {
        if public {
            file.hands_on.insert(name, path);
        } else {
            file.paths.push(path);
        }
    }
}

/// The paths of a tree, each with the name that it has here.
fn branches(tokens: &[TokenTree], before: &[String], all: &mut Vec<(Vec<String>, String)>) {
    for branch in tokens.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ',')) {
        let (own, mut at) = path_at(branch, 0);
        let mut path = [before, &own].concat();
        if is_joint(branch, at) {
            at += 2;
        }
        if let Some(TokenTree::Group(g)) = branch.get(at) {
            let inner: Vec<TokenTree> = g.stream().into_iter().collect();
            branches(&inner, &path, all);
            continue;
        }
        if path.len() > 1 && path.last().is_some_and(|p| p == "self") {
            path.pop();
        }
        let renamed = is_word(branch.get(at), "as").then(|| branch.get(at + 1));
        let last = path.last().cloned();
        let name = renamed.flatten().map(ToString::to_string).or(last);
        all.extend(name.map(|name| (path, name)));
    }
}

/// The path from the crate's root, of a path written in `module`. `None` for one that leads to another crate.
fn absolute(module: &Module, path: &[String], files: &Files) -> Option<Module> {
    let first = path.first()?;
    let mut base = module.clone();
    match first.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => return Some([&base[..], &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|p| *p == "super").count();
            base.truncate(base.len().saturating_sub(ups));
            return Some([&base[..], &path[ups..]].concat());
        }
        _ => {}
    }
    base.push(first.clone());
    let child = files.contains_key(&base);
    child.then(|| [module, path].concat())
}

/// The module that defines what a path leads to.
fn defined(path: &[String], files: &Files, depth: usize) -> Option<Module> {
    let length = (0..=path.len())
        .rev()
        .find(|n| files.contains_key(&path[..*n]))?;
    let (module, rest) = path.split_at(length);
    let handed = rest
        .first()
        .and_then(|name| files[module].hands_on.get(name));
    let Some(target) = handed.filter(|_| depth < 8) else {
        return Some(module.to_vec());
    };
    // What is handed on from another crate is no file of this one.
    let target = absolute(&module.to_vec(), target, files)?;
    defined(&[&target, &rest[1..]].concat(), files, depth + 1)
}

/// Modules that each module needs.
fn needs(files: &Files) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let of = |module: &Module, file: &File| {
        let paths = file.paths.iter();
        let targets = paths.filter_map(|p| defined(&absolute(module, p, files)?, files, 0));
        let known = targets.filter_map(|m| files.get_key_value(&m).map(|(m, _)| m));
        known.filter(|m| *m != module).collect()
    };
    files.iter().map(|(m, f)| (m, of(m, f))).collect()
}

/// Modules that need each other, directly or through others. Two are of one circle if each reaches the other.
fn circles(files: &Files) -> Vec<Vec<Module>> {
    let needs = needs(files);
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = files
        .keys()
        .map(|m| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<&Module> = vec![m];
            while let Some(next) = open.pop() {
                open.extend(needs[next].iter().filter(|n| seen.insert(**n)));
            }
            (m, seen)
        })
        .collect();
    let mut placed: BTreeSet<&Module> = BTreeSet::new();
    let mut all = Vec::new();
    for m in files.keys().filter(|m| reached[m].contains(m)) {
        if placed.contains(m) {
            continue;
        }
        let circle = reached[m].iter().filter(|o| reached[*o].contains(m));
        let circle: Vec<&Module> = circle.copied().collect();
        placed.extend(&circle);
        all.push(circle.into_iter().cloned().collect());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Files {
        let mut all = Files::new();
        for (name, text) in files {
            let module = name.split('/').filter(|p| !p.is_empty()).map(str::to_owned);
            all.insert(module.collect(), parse(text).unwrap());
        }
        let heads: Vec<Module> = all.keys().cloned().collect();
        for (module, file) in &mut all {
            file.is_head = heads.iter().any(|m| m != module && m.starts_with(module));
        }
        all
    }

    fn words(files: &[(&str, &str)]) -> Vec<String> {
        let files = crate_of(files);
        let circles = circles(&files);
        circles
            .iter()
            .map(|c| {
                let names: Vec<String> = c.iter().map(word).collect();
                format!("{} in {}", names.join(" "), folders(c, &files))
            })
            .collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let found = words(&[
            ("", "mod a; mod b;"),
            ("a", "mod c;"),
            ("a/c", "use crate::b::{self, B as Other}; struct C(Other);"),
            ("b", "fn f() -> crate::a::c::C { loop {} }"),
        ]);
        assert_eq!(found, ["a/c b in 2"]);
    }

    #[test]
    fn a_list_of_what_is_handed_on_is_no_circle() {
        let found = words(&[
            ("", "mod a; mod b; pub use a::A; pub(crate) use b::B;"),
            ("a", "use crate::B; pub struct A(B);"),
            (
                "b",
                "pub struct B; // use crate::A;\nconst S: &str = \"use crate::A\";",
            ),
        ]);
        assert_eq!(found, [""; 0]);
        // But one that each reaches through the list is one.
        let found = words(&[
            ("", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a", "use crate::B; pub struct A(B);"),
            ("b", "pub struct B(Box<crate::A>);"),
        ]);
        assert_eq!(found, ["a b in 1"]);
    }

    #[test]
    fn what_only_tests_need_does_not_count() {
        let found = words(&[
            ("", "mod a; mod b;"),
            ("a", "use super::b::B; pub struct A(B);"),
            (
                "b",
                "pub struct B; #[cfg(test)] use crate::a::A; #[cfg(test)] mod tests { use super::super::a::A; }",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_folder_and_its_head_are_one_folder() {
        let found = words(&[
            ("", "mod a;"),
            ("a", "mod b; use b::B; pub struct A;"),
            ("a/b", "use super::A; pub struct B(A);"),
        ]);
        assert_eq!(found, ["a a/b in 1"]);
        let found = words(&[
            ("", "mod a; pub struct Root(a::b::B);"),
            ("a", "pub mod b;"),
            ("a/b", "pub struct B(crate::Root);"),
        ]);
        assert_eq!(found, ["lib a/b in 2"]);
    }

    #[test]
    fn a_new_circle_is_a_fault_and_so_is_a_list_that_is_too_long() {
        let circle = |files: &str| -> Circle {
            let files = files.split(' ').map(str::to_owned).collect();
            ("link".into(), files)
        };
        let known = [circle("a b c")];
        assert_eq!(faults(&known, &known), [""; 0]);
        let new = faults(&[circle("a b c"), circle("d e")], &known);
        assert_eq!(new.len(), 1);
        assert!(
            new[0].starts_with("link: these files need each other: d, e"),
            "{new:?}"
        );
        // It has grown, so it is both.
        assert_eq!(faults(&[circle("a b c d")], &known).len(), 2);
        let less = faults(&[circle("a b")], &known);
        assert_eq!(less.len(), 1);
        assert!(less[0].contains("is gone or smaller"), "{less:?}");
    }
}
