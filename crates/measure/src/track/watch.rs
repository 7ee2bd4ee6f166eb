//! Someone who wants to be told of packets one by one, and of connections as they end: a plot, a recording.

use super::connection::Connection;

/// What happened in one direction. Positions are bytes from its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its sender sent so many bytes, of which `fresh` were new; in flight afterwards.
    Sent {
        t: i64,
        position: u64,
        bytes: u64,
        fresh: u64,
        in_flight: u64,
    },
    /// Everything up to a position is acknowledged, and a window offered beyond it, where its scale is known.
    Acknowledged {
        t: i64,
        position: u64,
        window: Option<u32>,
    },
    /// Data sent at `sent` was answered after `rtt`; `prompt`: the receiver cannot have held the ACK back.
    RoundTrip { sent: i64, rtt: i64, prompt: bool },
}

/// Told in the order of the capture.
pub trait Watch {
    /// Whose acts follow: first what the packet's sender sent, also of a RST, which has no act; then what it acknowledges.
    /// `direction` 0 is from the connection's `a` to its `b`.
    fn turn(&mut self, _connection: u32, _direction: usize) {}
    fn act(&mut self, act: Act);
    /// A connection is over, or has been silent for too long to be kept open.
    fn over(&mut self, _connection: &Connection) {}
}

impl Watch for () {
    #[inline]
    fn act(&mut self, _: Act) {}
}
