//! Notes of the experiment `collapse` on its rounds. The packets are rows of the tables `connection`, `course` and
//! `segment`.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Notes of a run of `collapse`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum CollapseNote {
    Round(Round),
    /// Rounds are shorter than planned because of the traffic budget.
    Shortened {
        planned_s: f64,
        to_s: f64,
    },
    /// Round that ended early.
    CutShort {
        round: u32,
        why: String,
    },
    /// Capture of the packets between this host and the server.
    Captured {
        /// Name of the capture file, which is stored beside the recording's tables.
        file: String,
        packets: u64,
        /// Packets of the whole interface that the kernel's buffer had no room for.
        missed: Option<u64>,
    },
}

impl Noted for CollapseNote {
    const KIND: &'static str = "collapse";
}

/// Load, and a second load beside it for part of the time. Times are UNIX ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the round, from 1.
    pub number: u32,
    /// Begin of the round, UNIX ns.
    pub began_ns: i64,
    /// End of the round, UNIX ns.
    pub ended_ns: i64,
    /// Begin and end of the second upload, UNIX ns; none without one.
    pub second: Option<(i64, i64)>,
}
