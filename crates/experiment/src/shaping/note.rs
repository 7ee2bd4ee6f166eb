//! Notes of the experiment `shaping`.

use base::noted::Noted;
use serde::{Deserialize, Serialize};

/// Manner of sending a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// File without a limit.
    Continuous,
    /// File in parts with pauses.
    Intermittent,
    /// File paced below the link's rate.
    Shaped,
}

impl Manner {
    /// All of them, in the order of the source.
    pub const ALL: [Manner; 3] = [Manner::Continuous, Manner::Intermittent, Manner::Shaped];

    /// Name in keys and tables.
    pub fn word(self) -> &'static str {
        match self {
            Manner::Continuous => "continuous",
            Manner::Intermittent => "intermittent",
            Manner::Shaped => "shaped",
        }
    }
}

/// Notes of a run of `shaping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum ShapingNote {
    /// Reason why nothing, or not all, was sent.
    Untried {
        /// Reason in words.
        why: String,
    },
    /// Idle link before the first file.
    Idle {
        /// Begin and end, UNIX ns.
        began_ns: i64,
        /// End, UNIX ns.
        ended_ns: i64,
    },
    /// File that was sent.
    Sent {
        /// Number of the repetition, from 0.
        repeat: u64,
        /// Manner in which it was sent.
        manner: Manner,
        /// Size of the file.
        size_bytes: u64,
        /// Begin of its first part, UNIX ns.
        began_ns: i64,
        /// Time at which the last byte was acknowledged, UNIX ns.
        ended_ns: i64,
        /// Limit on the rate of the payload, bit/s.
        limit_bps: Option<u64>,
        /// Numbers of the first and the last of its transfers in the table `flow`.
        flows: (i64, i64),
    },
}

impl Noted for ShapingNote {
    const KIND: &'static str = "shaping";
}
