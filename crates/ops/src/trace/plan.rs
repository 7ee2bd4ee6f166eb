//! Plan of `tailback trace`.

use base::Duration;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// Captures to read, and the outputs to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Captures, read in order as parts of one; with a far end, those of the near one.
    pub files: Vec<PathBuf>,
    /// Captures of the same traffic at the far end.
    pub far: Vec<PathBuf>,
    /// Interface to capture on instead of files.
    pub live: Option<Live>,
    /// Settings for figures of the traffic as a whole, instead of connections.
    pub traffic: Option<TrafficPlan>,
    /// True to list ECN, DSCP and QUIC of every flow, instead of connections.
    pub flows: bool,
    /// True to read each capture as a run of its own; directories stand for the captures in them.
    pub each: bool,
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
            flows: false,
            each: false,
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

/// Interface to capture on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    pub interface: String,
    /// Time after which the capture ends; by default it runs until interrupted.
    pub duration: Option<Duration>,
    /// File for the packets, as pcapng.
    pub write: Option<PathBuf>,
    /// Bytes of each packet that are read and kept.
    pub snaplen: u32,
}

/// Settings of the figures of traffic as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficPlan {
    /// Step of time for counting arrivals; by default ten packets on average.
    pub step: Option<Duration>,
    /// Local prefixes; by default they are found.
    pub home: Vec<(IpAddr, u8)>,
}

impl Plan {
    /// Plan as a recording stores it: files without their directories, which are private.
    pub(super) fn recorded(&self) -> Plan {
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
