//! Each RFC that is cited, beside its title, so that a wrong number is seen.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Titles as the RFC index prints them.
const TITLES: &[(u32, &str)] = &[
    (791, "Internet Protocol"),
    (
        1624,
        "Computation of the Internet Checksum via Incremental Update",
    ),
    (1982, "Serial Number Arithmetic"),
    (2104, "HMAC: Keyed-Hashing for Message Authentication"),
    (2681, "A Round-trip Delay Metric for IPPM"),
    (
        3148,
        "A Framework for Defining Empirical Bulk Transfer Capacity Metrics",
    ),
    (
        3168,
        "The Addition of Explicit Congestion Notification (ECN) to IP",
    ),
    (3357, "One-way Loss Pattern Sample Metrics"),
    (
        3393,
        "IP Packet Delay Variation Metric for IP Performance Metrics (IPPM)",
    ),
    (
        4231,
        "Identifiers and Test Vectors for HMAC-SHA-224, HMAC-SHA-256, HMAC-SHA-384, and HMAC-SHA-512",
    ),
    (4648, "The Base16, Base32, and Base64 Data Encodings"),
    (6298, "Computing TCP's Retransmission Timer"),
    (
        6582,
        "The NewReno Modification to TCP's Fast Recovery Algorithm",
    ),
    (7323, "TCP Extensions for High Performance"),
    (
        7567,
        "IETF Recommendations Regarding Active Queue Management",
    ),
    (
        7679,
        "A One-Way Delay Metric for IP Performance Metrics (IPPM)",
    ),
    (
        7680,
        "A One-Way Loss Metric for IP Performance Metrics (IPPM)",
    ),
    (8200, "Internet Protocol, Version 6 (IPv6) Specification"),
    (8289, "Controlled Delay Active Queue Management"),
    (
        8290,
        "The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm",
    ),
    (9293, "Transmission Control Protocol (TCP)"),
];

const PLACES: &[&str] = &[
    "crates",
    "docs",
    "scenarios",
    "reference",
    "bench",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
];
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "py", "ts"];
const SKIPPED: &[&str] = &["node_modules", "target", "dist"];

/// The list, one RFC a line: number, title, files.
///
/// # Errors
/// Numbers without a title here.
pub fn check(root: &Path) -> Result<String> {
    let mut cited = BTreeMap::new();
    for place in PLACES {
        let path = root.join(place);
        if path.exists() {
            collect(root, &path, &mut cited)?;
        }
    }
    list(&cited)
}

fn collect(root: &Path, path: &Path, cited: &mut BTreeMap<u32, BTreeSet<String>>) -> Result<()> {
    if path.is_dir() {
        for entry in
            std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?
        {
            let entry = entry?;
            if !SKIPPED.iter().any(|s| entry.file_name() == *s) {
                collect(root, &entry.path(), cited)?;
            }
        }
    } else if path
        .extension()
        .is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x))
    {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let file = path
            .strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string();
        for number in numbers(&text) {
            cited.entry(number).or_default().insert(file.clone());
        }
    }
    Ok(())
}

/// The number after each `RFC`, with or without a space.
fn numbers(text: &str) -> Vec<u32> {
    text.split("RFC")
        .skip(1)
        .filter_map(|rest| {
            let rest = rest.trim_start_matches([' ', '-', '\u{a0}']);
            rest[..rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len())]
                .parse()
                .ok()
        })
        .collect()
}

fn list(cited: &BTreeMap<u32, BTreeSet<String>>) -> Result<String> {
    let (mut out, mut faults) = (String::new(), vec![]);
    for (number, files) in cited {
        let files = files
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        match TITLES.iter().find(|(n, _)| n == number) {
            Some((_, title)) => writeln!(out, "RFC {number}  {title}\n    {files}")?,
            None => faults.push(format!("RFC {number} ({files}) has no title in xtask/src/cites.rs: add it, as the RFC index has it")),
        }
    }
    if faults.is_empty() {
        Ok(out)
    } else {
        bail!("{}", faults.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_they_are_written() {
        assert_eq!(
            numbers("RFC 8289, (RFC8290) and RFC-791; RFCs, RFC x"),
            [8289, 8290, 791]
        );
    }

    #[test]
    fn a_number_without_a_title_fails_and_is_named() {
        let cited = |n| BTreeMap::from([(n, BTreeSet::from(["a.rs".to_owned()]))]);
        assert!(
            list(&cited(8289))
                .unwrap()
                .starts_with("RFC 8289  Controlled Delay Active Queue Management\n")
        );
        let said = list(&cited(8298)).unwrap_err().to_string();
        assert!(said.starts_with("RFC 8298 (a.rs) has no title"), "{said}");
    }
}
