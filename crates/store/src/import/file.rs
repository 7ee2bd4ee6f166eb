//! A file of another tool: its format, what it does not say itself, and what became of it.

use crate::StoreError;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The delay monitor's answered packets.
    Delay,
    /// The delay monitor's packets without an answer.
    Dropped,
    /// The traffic monitor's rates.
    Traffic,
    /// `dstat --output`.
    Dstat,
    /// `irtt client -o`.
    Irtt,
    /// `.flent.gz`.
    Flent,
    /// Standard output of `fping` with -l, -c or -C.
    Fping,
    /// Standard output of `ping`.
    Ping,
    /// A SmokePing `.rrd`, or what `rrdtool dump` makes of it.
    Rrd,
}

impl Format {
    pub const ALL: &[Format] = &[
        Format::Delay,
        Format::Dropped,
        Format::Traffic,
        Format::Dstat,
        Format::Irtt,
        Format::Flent,
        Format::Fping,
        Format::Ping,
        Format::Rrd,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Format::Delay => "delay",
            Format::Dropped => "dropped",
            Format::Traffic => "traffic",
            Format::Dstat => "dstat",
            Format::Irtt => "irtt",
            Format::Flent => "flent",
            Format::Fping => "fping",
            Format::Ping => "ping",
            Format::Rrd => "rrd",
        }
    }
}

/// What the files themselves do not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the host was whose files hold local times.
    pub zone: TimeZone,
    /// When the first probe left, UNIX ns, for text without times.
    pub start_ns: i64,
    /// Time between probes, for text without times. Where the text does not tell it either: a second.
    pub interval_ns: Option<i64>,
    /// Bits a second in one unit of the traffic monitor's rates: its prefix was a flag that the file does not hold.
    pub rate_unit: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{}: what kind of file is this? It begins with {begins:?}. Known: {}. Name one with --format to have it read as that.",
        path.display(),
        Format::ALL.iter().map(|f| f.word()).collect::<Vec<_>>().join(", ")
    )]
    Unknown { path: PathBuf, begins: String },
    #[error("{} does not read as {}: {why}", path.display(), format.word())]
    Unreadable {
        path: PathBuf,
        format: Format,
        why: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of one file.
#[derive(Clone, Debug)]
pub struct Imported {
    pub path: PathBuf,
    pub format: Format,
    pub rows: u64,
    /// Lines that were left out, and the first few of them with their numbers.
    pub wrong: u64,
    pub examples: Vec<String>,
    /// What was repaired, and how often.
    pub repairs: BTreeMap<&'static str, u64>,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
    /// First and last instant of its rows.
    pub span_ns: Option<(i64, i64)>,
}

impl Imported {
    const MOST_EXAMPLES: usize = 5;

    pub(super) fn repaired(&mut self, what: &'static str) {
        *self.repairs.entry(what).or_default() += 1;
    }

    pub(super) fn wrong(&mut self, line: u64, why: impl std::fmt::Display) {
        self.wrong += 1;
        if self.examples.len() < Self::MOST_EXAMPLES {
            self.examples.push(format!("line {line}: {why}"));
        }
    }
}

/// Why a file cannot be read at all.
pub(super) enum Fault {
    Io(io::Error),
    Unreadable(String),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Fault {
        Fault::Io(e)
    }
}
