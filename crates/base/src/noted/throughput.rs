//! Notes of the experiment `throughput` on its steps. Rates are in the tables `flow` and `traffic`, RTTs in `delay`.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

/// Notes of a run of `throughput`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum ThroughputNote {
    /// Idle phase: no own traffic but the probes.
    Idle {
        began_ns: i64,
        ended_ns: i64,
    },
    Step(Step),
}

impl Noted for ThroughputNote {
    const KIND: &'static str = "throughput";
}

/// Method of filling the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Several TCP connections at once.
    Several,
    /// Single TCP connection.
    One,
    /// UDP datagrams, sent faster than the link.
    Datagrams,
}

/// One direction filled by one method. Times are UNIX ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Method of the step.
    pub method: Method,
    /// Direction of the load.
    pub direction: Direction,
    /// Number of flows.
    pub flows: u32,
    /// Begin of the step, UNIX ns.
    pub began_ns: i64,
    /// End of slow start; the measurement counts from here.
    pub warm_ns: i64,
    /// End of the step, UNIX ns.
    pub ended_ns: i64,
    /// Payload of a datagram, bytes; null for TCP.
    pub payload_bytes: Option<u64>,
    /// Size of the datagram's whole IP packet, bytes.
    pub packet_bytes: Option<u64>,
    /// Datagrams sent, and received in the next field; null unless both ends reported.
    pub sent: Option<u64>,
    /// Datagrams received; null unless both ends reported.
    pub received: Option<u64>,
    /// Reason why the step ended early.
    pub cut: Option<String>,
}
