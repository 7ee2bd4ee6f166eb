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
mod serve_keys;
pub mod sim;
pub mod test;
pub mod trace;

use live::load::Access;
use measure::keys::{KeyFile, Pin};

use std::path::{Path, PathBuf};

/// The user asked for something that cannot be: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

pub use crate::say::print;

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

/// Options that say how to be let in, and how to know the server.
#[derive(clap::Args, Clone)]
pub struct AccessArgs {
    /// File with one line "NAME KEY", as `tailback serve keys add` prints it (or set TAILBACK_KEY to the line)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Public key of the server, sha256:…, as `tailback serve` prints it: control messages then travel inside TLS 1.3, and UDP probes are signed
    #[arg(long, value_name = "PIN")]
    pub pin: Option<Pin>,
}

impl AccessArgs {
    pub fn read(&self) -> anyhow::Result<Access> {
        let (file, place) = match &self.key_file {
            Some(path) => (
                live::serve::keys::read(path).map_err(|e| usage(e.to_string()))?,
                path.display().to_string(),
            ),
            None => match std::env::var("TAILBACK_KEY") {
                Ok(line) => (
                    KeyFile::parse(&line)
                        .map_err(|e| usage(format!("TAILBACK_KEY: {}", e.what)))?,
                    "TAILBACK_KEY".into(),
                ),
                Err(_) => {
                    return Ok(Access {
                        key: None,
                        pin: self.pin,
                    });
                }
            },
        };
        let (key, pin) = file.single().map_err(|e| usage(format!("{place}: {e}")))?;
        Ok(Access {
            key: Some(key),
            pin: self.pin.or(pin),
        })
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
