//! Unsafe code stands in one folder, where it is wrapped in safe functions.
//!
//! **Method.** Each Rust file is cut into tokens; the keyword `unsafe` outside of [`ALLOWED`] is a fault, in tests and
//! examples too. Comments and texts are no tokens.

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;

/// Places of unsafe code, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/live/src/sys/", "system calls"),
    (
        "crates/browser/src/abi.rs",
        "functions that scripts call by name",
    ),
    (
        "crates/sim/tests/allocations.rs",
        "a global allocator that counts",
    ),
];
const FOLDERS: [&str; 5] = ["crates", "xtask", "fuzz", "lab", "testkit"];

/// # Errors
/// Names each file with unsafe code that is not allowed, and each crate that does not forbid it.
pub fn check(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        walk(root, &root.join(folder), &mut faults)?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

fn walk(root: &Path, at: &Path, faults: &mut Vec<String>) -> Result<()> {
    let cannot = || format!("cannot read {}", at.display());
    let mut entries: Vec<_> = std::fs::read_dir(at)
        .with_context(cannot)?
        .collect::<std::io::Result<_>>()
        .with_context(cannot)?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|n| n != "target") {
                walk(root, &path, faults)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(root).unwrap_or(&path);
            faults.extend(fault(&name.to_string_lossy(), &text)?);
        }
    }
    Ok(())
}

/// The fault of one file, by its path below the root.
fn fault(name: &str, text: &str) -> Result<Option<String>> {
    if ALLOWED.iter().any(|(place, _)| name.starts_with(place)) {
        return Ok(None);
    }
    let Ok(tokens) = text.parse::<TokenStream>() else {
        bail!("{name} is not Rust");
    };
    if has_unsafe(tokens) {
        return Ok(Some(format!(
            "{name} has unsafe code: wrap the call in a safe function of crates/live/src/sys/"
        )));
    }
    // The head of a crate. Of live and browser, only the places above may do what the others may not.
    let is_head = name.ends_with("src/lib.rs") || name.ends_with("src/main.rs");
    let attribute = match name {
        "crates/browser/src/lib.rs" | "crates/live/src/lib.rs" => "#![deny(unsafe_code)]",
        _ => "#![forbid(unsafe_code)]",
    };
    let says = text.lines().any(|line| line.trim_end() == attribute);
    Ok((is_head && !says).then(|| format!("{name} must say {attribute}")))
}

fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_is_found_wherever_it_hides_and_only_there() {
        let found = |name, text| fault(name, text).expect("it is Rust").is_some();
        for text in [
            "fn f() { unsafe { g() } }",
            "unsafe impl Send for A {}",
            "#[cfg(test)] mod t { fn f() { a(|| { unsafe { g() } }) } }",
            "unsafe extern \"C\" fn f() {}",
        ] {
            assert!(found("crates/report/tests/a.rs", text), "{text}");
            assert!(!found("crates/live/src/sys/a.rs", text), "{text}");
            assert!(found("crates/live/src/system.rs", text), "{text}");
        }
        let text = "// unsafe\nconst A: &str = \"unsafe\"; #[doc = \"unsafe\"] fn unsafe_name() {}";
        assert!(!found("crates/report/src/a.rs", text));
    }

    #[test]
    fn the_head_of_a_crate_forbids_it() {
        let missing = |name, text| fault(name, text).expect("it is Rust").is_some();
        assert!(missing("crates/store/src/lib.rs", "//! A crate."));
        assert!(missing("crates/store/src/lib.rs", "#![deny(unsafe_code)]"));
        assert!(!missing(
            "crates/store/src/lib.rs",
            "#![forbid(unsafe_code)]"
        ));
        assert!(!missing("crates/live/src/lib.rs", "#![deny(unsafe_code)]"));
        assert!(missing("crates/live/src/lib.rs", "//! A crate."));
        assert!(!missing("crates/store/src/a.rs", "fn f() {}"));
    }
}
