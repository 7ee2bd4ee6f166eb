//! File of another tool: its format, facts that it does not contain, and the result of its import.

use crate::StoreError;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Answered packets of the delay monitor.
    Delay,
    /// Unanswered packets of the delay monitor.
    Dropped,
    /// Rates of the traffic monitor.
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
    /// SmokePing `.rrd`, or its `rrdtool dump`.
    Rrd,
    /// Results of RIPE Atlas's `ping`, JSON.
    Atlas,
    /// qlog of a QUIC endpoint, JSON or JSON text sequences.
    Qlog,
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
        Format::Atlas,
        Format::Qlog,
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
            Format::Atlas => "atlas",
            Format::Qlog => "qlog",
        }
    }
}

/// Settings for facts that the files do not contain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time zone of the host whose files hold local times.
    pub zone: TimeZone,
    /// Send time of the first probe, UNIX ns, for text without times.
    pub start_ns: i64,
    /// Time between probes, for text without times. If the text does not give it either: 1 s.
    pub interval_ns: Option<i64>,
    /// Traffic monitor's unit in bit/s: its prefix was a flag that the file does not contain.
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

/// Result of importing one file.
#[derive(Clone, Debug)]
pub struct Imported {
    pub path: PathBuf,
    pub format: Format,
    pub rows: u64,
    /// Number of skipped lines; the next field quotes the first few with their numbers.
    pub wrong: u64,
    pub examples: Vec<String>,
    /// Repairs, and how often each was made.
    pub repairs: BTreeMap<&'static str, u64>,
    /// Notes for readers of the figures.
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

/// Reason why a file cannot be read at all.
pub(super) enum Fault {
    Io(io::Error),
    Unreadable(String),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Fault {
        Fault::Io(e)
    }
}
