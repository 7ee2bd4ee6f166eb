//! Notes of the experiment `l4s`.

use crate::flows::seen::{Codepoint, FlowSeen};
use crate::flows::up;
use base::noted::Noted;
use base::record::Direction;
use serde::{Deserialize, Serialize};

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Prague alone.
    Alone,
    /// CUBIC alone.
    Classic,
    /// Both, with a few unmarked datagrams.
    Together,
}

/// Notes of a run of `l4s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum L4sNote {
    /// Reason why nothing, or not all, was tried.
    Untried {
        /// Direction of the flows.
        #[serde(default = "up")]
        direction: Direction,
        /// Reason in words.
        why: String,
    },
    /// Datagrams of each codepoint on the idle link.
    Codepoints {
        /// Direction of the flows.
        #[serde(default = "up")]
        direction: Direction,
        /// Codepoints in the order of their values.
        all: Vec<Codepoint>,
    },
    /// A phase.
    Phase {
        /// Direction of the flows.
        #[serde(default = "up")]
        direction: Direction,
        /// Phase that is over.
        phase: Phase,
        /// Length, ns.
        lasted_ns: u64,
        /// Smallest round trip of the run, above which waits are counted, ns.
        base_ns: u64,
        /// Flows.
        flows: Vec<FlowSeen>,
    },
}

impl Noted for L4sNote {
    const KIND: &'static str = "l4s";
}

impl L4sNote {
    /// Direction of the flows.
    pub fn direction(&self) -> Direction {
        match self {
            L4sNote::Untried { direction, .. }
            | L4sNote::Codepoints { direction, .. }
            | L4sNote::Phase { direction, .. } => *direction,
        }
    }
}
