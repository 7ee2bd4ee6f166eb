//! Notes of the experiment `nqb`.

use crate::flows::seen::{Codepoint, FlowSeen};
use crate::flows::up;
use base::noted::Noted;
use base::record::Direction;
use serde::{Deserialize, Serialize};

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// CUBIC without DSCP, with single datagrams of NQB and without DSCP.
    Beside,
    /// The same with a CUBIC flow that marks itself NQB.
    Cheat,
}

/// Notes of a run of `nqb`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum NqbNote {
    /// Reason why nothing, or not all, was tried.
    Untried {
        /// Direction of the flows.
        #[serde(default = "up")]
        direction: Direction,
        /// Reason in words.
        why: String,
    },
    /// Datagrams with and without DSCP 45 on the idle link.
    Markings {
        /// Direction of the flows.
        #[serde(default = "up")]
        direction: Direction,
        /// Without, then with.
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

impl Noted for NqbNote {
    const KIND: &'static str = "nqb";
}

impl NqbNote {
    /// Direction of the flows.
    pub fn direction(&self) -> Direction {
        match self {
            NqbNote::Untried { direction, .. }
            | NqbNote::Markings { direction, .. }
            | NqbNote::Phase { direction, .. } => *direction,
        }
    }
}
