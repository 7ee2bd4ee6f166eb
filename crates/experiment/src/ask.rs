//! Ports of the far end and sockets of our own: what is asked of a host, and what it answers.
//!
//! A host sends and hears what it is told to. Waiting for the right datagram, asking again and giving up are decisions of
//! the steps.

use base::Duration;
use measure::control::listen::{Arrival, Knocked, TOKEN_LEN, Transport, Wanted};
use std::net::SocketAddr;

/// A question to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Has the far end open these ports for this long at most, in place of those that are open: [`Answer::Ports`].
    Listen(Vec<Wanted>, Duration),
    /// Has the far end say what has come to its ports: [`Answer::Arrivals`].
    Arrivals,
    /// Has the far end send a datagram of this length from one of its ports to where a knock came from:
    /// [`Answer::Ordered`].
    Order {
        port: usize,
        to: Knocked,
        len: usize,
    },
    /// Knocks at many ports at once: [`Answer::Knocked`], in their order.
    Knock(Vec<Knock>),
    /// Opens a UDP socket of this number at the address that leads to the far end: [`Answer::Local`].
    Socket(u32),
    /// Sends a datagram from a socket: [`Answer::Sent`], or [`Answer::Withheld`]. What the kernel refuses to send is lost.
    Send {
        socket: u32,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// Waits for the next datagram at a socket: [`Answer::Heard`].
    Hear {
        socket: u32,
        within: Duration,
        /// True if the far end was told to send it, so that it has been counted.
        ordered: bool,
    },
}

/// A connection to a port, or datagrams to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knock {
    /// Transport protocol: TCP or UDP.
    pub transport: Transport,
    /// Address to knock at.
    pub at: SocketAddr,
    /// Bytes to send there.
    pub says: Vec<u8>,
    /// Bytes after which nothing more is waited for (TCP).
    pub enough: usize,
    /// Datagrams that are sent before it counts as lost on the way, each with its part of the patience.
    pub tries: u32,
    /// Longest wait for an answer.
    pub patience: Duration,
}

/// Answer to a knock at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Back {
    Bytes(Vec<u8>),
    /// TCP reset or ICMP port unreachable.
    Refusal,
    /// An ICMP error that says that nothing leads there.
    Unreachable,
    Nothing,
}

/// Outcome of a knock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// True if a connection came about (TCP).
    pub connected: bool,
    /// Answer that came back.
    pub back: Back,
}

/// The ports that the far end has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Token that a datagram to the ports has to carry.
    pub token: [u8; TOKEN_LEN],
    /// Source of the request, as the far end sees it; then as this end does.
    pub from: SocketAddr,
    /// Local address of the request's connection.
    pub local: SocketAddr,
    /// Addresses to send to, in the order of the request, or the reason why a port is not open.
    pub at: Vec<Result<SocketAddr, String>>,
}

/// Answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ports(Ports),
    Arrivals(Vec<Arrival>),
    Knocked(Vec<Tried>),
    /// Contents of the datagram that the far end has sent.
    Ordered(Vec<u8>),
    Local(SocketAddr),
    Sent,
    /// Reason why the host sends nothing to an address that only the far end has named.
    Withheld(String),
    /// A datagram and where it came from; null where none came in time.
    Heard(Option<(SocketAddr, Vec<u8>)>),
}
