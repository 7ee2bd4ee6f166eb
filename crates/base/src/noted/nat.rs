//! What the kind `nat` notes. Terms are those of RFC 4787.

use super::Noted;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Where at the server something goes to or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Far {
    /// The port that a socket sends to first.
    Same,
    /// Another port of the same address.
    OtherPort,
    /// Another address.
    OtherAddress,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum NatNote {
    /// A datagram from one of our sockets, and where the server says that it came from.
    Mapped {
        /// Number of the socket, from 0.
        socket: u32,
        local: SocketAddr,
        to: Far,
        /// Null where none arrived.
        external: Option<SocketAddr>,
        /// The server's answer came back.
        answered: bool,
    },
    /// Where the server says that a connection (TCP) came from.
    Connected {
        local: SocketAddr,
        external: SocketAddr,
    },
    /// A datagram that the server sent to a socket which had sent to [`Far::Same`] alone.
    Unasked { from: Far, arrived: bool },
    /// From one socket here to the external address of another one.
    Hairpin {
        arrived: bool,
        /// Where it seemed to come from.
        source: Option<SocketAddr>,
        /// The sender's external address.
        external: SocketAddr,
    },
    /// What the server sent to a socket that had been silent, both ways, for a time between these, and what became of it.
    Silent {
        /// It had talked for more than two seconds before; otherwise it had asked and was answered once.
        talked: bool,
        least_ns: i64,
        most_ns: i64,
        arrived: bool,
    },
    /// What the server could not open, and why.
    Closed { at: Far, why: String },
}

impl Noted for NatNote {
    const KIND: &'static str = "nat";
}
