//! The verbs.

pub mod analyse;
pub mod emulate;
pub mod import;
pub mod list;
pub mod model;
pub mod monitor;
pub mod probe;
pub mod report;
pub mod reproduce;
pub mod serve;
pub mod sim;
pub mod test;
pub mod trace;

use std::io::Write;
use std::path::{Path, PathBuf};

/// The user asked for something that cannot be: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Writes to standard output, where data goes; narration goes to standard error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

pub fn stdout_style() -> ::report::terminal::Style {
    use std::io::IsTerminal;
    let terminal = std::io::stdout().is_terminal();
    let width = std::env::var("COLUMNS")
        .ok()
        .and_then(|c| c.parse().ok())
        .unwrap_or(100);
    ::report::terminal::Style {
        width: width.clamp(60, 140),
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        unicode: !matches!(
            std::env::var("LC_ALL")
                .or_else(|_| std::env::var("LANG"))
                .as_deref(),
            Ok("C" | "POSIX")
        ),
    }
}

/// So many cores as are asked for, or all.
pub fn threads(asked: Option<usize>) -> usize {
    asked
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1)
        .max(1)
}

/// Where the key of an authenticated server comes from.
#[derive(clap::Args, Clone)]
pub struct KeyArg {
    /// File with the key shared by both ends (any text; or set TAILBACK_KEY)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyArg {
    pub fn read(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let text = match &self.key_file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|e| usage(format!("cannot read the key file {}: {e}", path.display())))?,
            None => match std::env::var("TAILBACK_KEY") {
                Ok(text) => text,
                Err(_) => return Ok(None),
            },
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(usage(
                "the key is empty: write some text into the key file, the same on both ends",
            ));
        }
        Ok(Some(text.as_bytes().to_vec()))
    }
}

/// Writes a file whole or not at all.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    store::disk::write_whole(path, text.as_bytes())
        .map_err(|e| anyhow::anyhow!("cannot write {}: {e}", path.display()))
}

/// So many of it: "1 packet", "2 packets".
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
