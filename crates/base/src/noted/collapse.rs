//! What the kind `collapse` notes of its rounds. The packets are rows of the tables `connection`, `course` and `segment`.

use super::Noted;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum CollapseNote {
    Round(Round),
    /// Rounds are shorter than planned: the budget would not have been enough.
    Shortened {
        planned_s: f64,
        to_s: f64,
    },
    /// A round ended before its time.
    CutShort {
        round: u32,
        why: String,
    },
    /// What was captured of this host and the server.
    Captured {
        /// Beside the recording's tables.
        file: String,
        packets: u64,
        /// Packets of the interface, anybody's, that the kernel had no room for.
        missed: Option<u64>,
    },
}

impl Noted for CollapseNote {
    const KIND: &'static str = "collapse";
}

/// Load, and from some moment to another a second one beside it. UNIX ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u32,
    pub began_ns: i64,
    pub ended_ns: i64,
    pub second: Option<(i64, i64)>,
}
