//! Notes of the experiment `nat`. Terms are those of RFC 4787.

use super::Noted;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Server endpoint that a datagram goes to or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Far {
    /// Port that a socket sends to first.
    Same,
    /// Another port of the same address.
    OtherPort,
    /// Another address.
    OtherAddress,
}

/// Notes of a run of `nat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum NatNote {
    /// Datagram from one of the client's sockets, with the source address that the server saw.
    Mapped {
        /// Number of the socket, from 0.
        socket: u32,
        local: SocketAddr,
        to: Far,
        /// External address and port; null if no datagram arrived.
        external: Option<SocketAddr>,
        /// True if the server's reply came back.
        answered: bool,
    },
    /// Source address of a TCP connection as the server saw it.
    Connected {
        local: SocketAddr,
        external: SocketAddr,
    },
    /// Datagram from the server to a socket that had sent only to [`Far::Same`].
    Unasked { from: Far, arrived: bool },
    /// Datagram from one client socket to the external address of another.
    Hairpin {
        arrived: bool,
        /// Source address seen by the receiving socket.
        source: Option<SocketAddr>,
        /// External address of the sender.
        external: SocketAddr,
    },
    /// No datagram was sent to the external address, with the reason.
    HairpinWithheld { external: SocketAddr, why: String },
    /// Datagram from the server to a socket that had been silent in both directions, for a time between these bounds.
    Silent {
        /// True if traffic had flowed for more than 2 s before; false if there was one request and one reply.
        talked: bool,
        least_ns: i64,
        most_ns: i64,
        arrived: bool,
    },
    /// Endpoint that the server could not open, with the reason.
    Closed { at: Far, why: String },
}

impl Noted for NatNote {
    const KIND: &'static str = "nat";
}
