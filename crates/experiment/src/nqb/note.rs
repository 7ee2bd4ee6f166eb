//! Notes of the experiment `nqb`.

use crate::flows::seen::{Codepoint, FlowSeen};
use base::noted::Noted;
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
        /// Reason in words.
        why: String,
    },
    /// Datagrams with and without DSCP 45 on the idle link.
    Markings {
        /// Without, then with.
        all: Vec<Codepoint>,
    },
    /// A phase.
    Phase {
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
