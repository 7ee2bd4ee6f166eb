//! What the kind `throughput` notes of its steps. Rates are in the tables `flow` and `traffic`, round trips in `delay`.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum ThroughputNote {
    /// Nothing of ours but the probes.
    Idle {
        began_ns: i64,
        ended_ns: i64,
    },
    Step(Step),
}

impl Noted for ThroughputNote {
    const KIND: &'static str = "throughput";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Several TCP connections at once.
    Several,
    /// One TCP connection.
    One,
    /// Datagrams, faster than the line.
    Datagrams,
}

/// One way filled by one method. UNIX ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub method: Method,
    pub direction: Direction,
    pub flows: u32,
    pub began_ns: i64,
    /// From here on it counts: slow start is over.
    pub warm_ns: i64,
    pub ended_ns: i64,
    /// Of a datagram; none of TCP.
    pub payload_bytes: Option<u64>,
    /// The same as a whole IP packet.
    pub packet_bytes: Option<u64>,
    /// Datagrams sent and datagrams received, where both ends told.
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// Why it ended before its time.
    pub cut: Option<String>,
}
