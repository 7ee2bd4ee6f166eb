//! Answers to the clients of other tools: irtt, and STAMP or TWAMP-Light. A responder never sends more bytes towards an
//! address than came from it, unless the address is proven.

pub mod irtt;
pub mod stamp;

use base::{Duration, Time};
use std::net::SocketAddr;

/// Instant on both clocks of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instant {
    /// UNIX time, ns.
    pub wall_ns: i64,
    /// Monotonic time, ns.
    pub mono_ns: i64,
}

/// Datagram of a client.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Source address.
    pub from: SocketAddr,
    /// Receive time.
    pub at: Instant,
    /// TTL or hop limit it came with.
    pub ttl: Option<u8>,
    /// TOS or traffic-class byte it came with.
    pub tos: u8,
    /// Payload.
    pub bytes: &'a [u8],
}

/// Answer in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Length of the datagram.
    pub len: usize,
    /// TOS or traffic-class byte to send it with.
    pub tos: u8,
}

/// Counters of a responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams answered.
    pub answered: u64,
    /// Datagrams dropped: not of this protocol, too short, or of a session that is not there.
    pub ignored: u64,
    /// Datagrams beyond a budget.
    pub throttled: u64,
    /// Open sessions.
    pub sessions: usize,
}

/// Session that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Address of the client.
    pub from: SocketAddr,
    /// Payload bytes, both directions combined.
    pub bytes: u64,
    /// Time from the first datagram of the proven address to the last.
    pub duration: Duration,
    /// True if the client said that it was done.
    pub by_client: bool,
}

/// Responder to one protocol.
pub trait Responder: Send {
    /// Answers a datagram, if it gets an answer. `sent` is the time of the answer, and `out` has room for a datagram as
    /// long as any that is handed in.
    fn answer(&mut self, now: Time, asked: &Asked, sent: Instant, out: &mut [u8])
    -> Option<Answer>;
    /// Counters so far.
    fn counts(&self) -> Counts;
    /// Session that has ended since the last call.
    fn poll_ended(&mut self, _now: Time) -> Option<Ended> {
        None
    }
}
