//! Notes of the experiment `quic`.

use base::noted::Noted;
use base::record::Direction;
use serde::{Deserialize, Serialize};

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The kernel's TCP.
    Tcp,
    /// QUIC over UDP.
    Quic,
}

/// One connection that filled the direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Time of the handshake, ms; null if there was none.
    pub handshake_ms: Option<f64>,
    /// Bytes of payload that were delivered in each 100 ms.
    pub bins: Vec<u64>,
    /// Packets that the sender sent; null if it does not tell.
    pub sent: Option<u64>,
    /// Packets that the sender counts as lost.
    pub lost: Option<u64>,
    /// Mean of the sender's smoothed round trip above its smallest, ms; null if it does not tell.
    pub wait_ms: Option<f64>,
    /// Reason why it ended early, or did not start.
    pub failed: Option<String>,
    /// True if the failure was a refusal: an ICMP error.
    pub refused: bool,
}

/// Notes of a run of `quic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum QuicNote {
    /// Reason why nothing, or not all, was tried.
    Untried {
        /// Reason in words.
        why: String,
    },
    /// Server's port for QUIC.
    Port {
        /// Port that was asked for.
        wanted: u16,
        /// Port that was opened.
        opened: u16,
        /// Reason why it is another one.
        why: Option<String>,
        /// Single datagrams to another port, and those that were answered.
        plain: (u32, u32),
    },
    /// A connection that is over.
    Connection {
        /// Number of its pair.
        pair: u32,
        /// Transport.
        over: Over,
        /// Direction of the data.
        direction: Direction,
        /// Outcome.
        ran: Ran,
    },
}

impl Noted for QuicNote {
    const KIND: &'static str = "quic";
}
