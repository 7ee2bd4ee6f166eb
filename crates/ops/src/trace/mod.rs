//! `tailback trace`: the figures of packet captures.

mod annotate;
mod answer;
mod background_capture;
mod ends;
mod expert;
mod input;
mod keep;
mod live;
mod packet_rows;
mod packets;
mod plots;
mod queues;
mod recorded;
mod rows;
mod single;
mod text;
mod traffic;
mod view;

pub use background_capture::{BackgroundCapture, Passed};
pub use ends::Answer as EndsAnswer;
pub use packets::Packets;
pub(crate) use plots::{Span, page, svg};
pub use recorded::Loaded;
pub(crate) use recorded::{load, made};
pub(crate) use traffic::of as traffic_of;
pub use traffic::{Answer as TrafficAnswer, prefix};

use crate::progress::{Observer, Shared};
use crate::{Progress, usage};
use base::Duration;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Captures to read, and what to make of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Captures, read one after the other as parts of one; of two ends, the near one.
    pub files: Vec<PathBuf>,
    /// Captures of the same traffic at the far end.
    pub far: Vec<PathBuf>,
    /// Interface to watch instead of files.
    pub live: Option<Live>,
    /// Asks for the traffic as a whole instead of connections.
    pub traffic: Option<TrafficPlan>,
    /// True to count packets that were captured twice as two.
    pub keep_copies: bool,
    /// Connection to show and draw: its number, or both ends as they are listed.
    pub connection: Option<String>,
    /// Directory of the plots.
    pub plots: Option<PathBuf>,
    /// Copy as pcapng with remarks for Wireshark.
    pub annotate: Option<PathBuf>,
    /// Recording of every connection and packet.
    pub output: Option<PathBuf>,
    /// Directory of the same tables as CSV.
    pub csv: Option<PathBuf>,
    /// Directions or flows that the text shows, those with the most data first.
    pub top: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            files: Vec::new(),
            far: Vec::new(),
            live: None,
            traffic: None,
            keep_copies: false,
            connection: None,
            plots: None,
            annotate: None,
            output: None,
            csv: None,
            top: 20,
        }
    }
}

/// An interface to watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    pub interface: String,
    /// End of the capture after this time; until interrupted where not given.
    pub duration: Option<Duration>,
    /// File of the packets, as pcapng.
    pub write: Option<PathBuf>,
    /// Bytes of each packet that are read and kept.
    pub snaplen: u32,
}

/// Settings of figures of the traffic as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficPlan {
    /// Step of time in which arrivals are counted; ten packets on average where not given.
    pub step: Option<Duration>,
    /// Prefixes at home; found where not given.
    pub home: Vec<(IpAddr, u8)>,
}

/// Figures of captures.
pub struct Answer {
    pub found: Found,
    /// What went wrong after the figures were whole, such as a recording that could not be kept.
    pub failed: Option<anyhow::Error>,
}

/// Figures by what was asked for.
pub enum Found {
    Packets(Box<Packets>),
    Traffic(Box<TrafficAnswer>),
    Ends(Box<EndsAnswer>),
}

impl Plan {
    /// The plan as a recording keeps it: files by their names, because directories are nobody's business.
    fn recorded(&self) -> Plan {
        let bare = |path: &PathBuf| path.file_name().map(PathBuf::from);
        Plan {
            files: self.files.iter().filter_map(bare).collect(),
            far: self.far.iter().filter_map(bare).collect(),
            live: self.live.as_ref().map(|l| Live {
                write: None,
                ..l.clone()
            }),
            keep_copies: self.keep_copies,
            ..Plan::default()
        }
    }
}

/// Reads the captures.
///
/// # Errors
/// Files that are no captures, an interface that may not be read, outputs that exist already.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    if plan.files.is_empty() && plan.live.is_none() {
        return Err(usage("give a capture, or an interface to watch"));
    }
    let whole = |found| Answer {
        found,
        failed: None,
    };
    if let Some(traffic) = &plan.traffic {
        let found = traffic::run(plan, traffic, observer)?;
        return Ok(whole(Found::Traffic(Box::new(found))));
    }
    if !plan.far.is_empty() {
        return Ok(whole(Found::Ends(Box::new(ends::run(plan, observer)?))));
    }
    let outcome = match &plan.live {
        Some(live) => packets::interface(plan, live, observer)?,
        None => packets::files(plan, observer)?,
    };
    Ok(Answer {
        found: Found::Packets(Box::new(outcome.packets)),
        failed: outcome.failed,
    })
}

impl Answer {
    /// The tables for a terminal.
    pub fn text(&self) -> String {
        match &self.found {
            Found::Packets(p) => p.text(),
            Found::Traffic(t) => t.text(),
            Found::Ends(e) => e.text(),
        }
    }

    /// Writes all figures as JSON, and ends the line.
    ///
    /// # Errors
    /// Those of the receiver.
    pub fn json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let written = match &self.found {
            Found::Packets(p) => p.json(out),
            Found::Traffic(t) => t.json(out),
            Found::Ends(e) => e.json(out),
        };
        written.map_err(std::io::Error::from)?;
        Ok(writeln!(out)?)
    }

    /// True if two captures were given that share no packet.
    pub fn is_empty(&self) -> bool {
        matches!(&self.found, Found::Ends(e) if e.is_empty())
    }
}
