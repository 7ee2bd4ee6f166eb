//! Small helpers that all verbs share: files, cores, counts in words.

use crate::usage;
use std::path::Path;

/// Writes a file as a whole or not at all.
///
/// # Errors
/// Names the file and the cause.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    store::disk::write_whole(path, text.as_bytes())
        .map_err(|e| anyhow::anyhow!("cannot write {}: {e}", path.display()))
}

/// Reads a file that the user named.
///
/// # Errors
/// A file that cannot be read is a mistake of usage.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read {}: {e}", path.display())))
}

/// Number of threads to use: as many as requested, or one for each core.
pub fn threads(asked: Option<usize>) -> usize {
    asked
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1)
        .max(1)
}

/// A count with its noun: "1 packet", "2 packets".
pub fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
