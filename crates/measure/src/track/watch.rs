//! Observer of single packets and of connections as they end: a plot, a recording.

use super::connection::Connection;

/// Event in one direction. Positions are bytes from its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Data sent: its bytes, `fresh` of them new, and the bytes in flight afterwards.
    Sent {
        t: i64,
        position: u64,
        bytes: u64,
        fresh: u64,
        in_flight: u64,
    },
    /// ACK of everything up to a position; with the window offered beyond it, if its scale is known.
    Acknowledged {
        t: i64,
        position: u64,
        window: Option<u32>,
    },
    /// RTT `rtt` of data sent at `sent`; `prompt`: the receiver cannot have held the ACK back.
    RoundTrip { sent: i64, rtt: i64, prompt: bool },
}

/// Callbacks in the order of the capture.
pub trait Watch {
    /// Announces the direction of the next events: first the data that the packet's sender sent (also for an RST, which
    /// has no event); then its acknowledgements. `direction` 0 is from the connection's `a` to its `b`.
    fn turn(&mut self, _connection: u32, _direction: usize) {}
    fn act(&mut self, act: Act);
    /// Announces a connection that is over, or was silent for too long to be kept open.
    fn over(&mut self, _connection: &Connection) {}
}

impl Watch for () {
    #[inline]
    fn act(&mut self, _: Act) {}
}
