//! Events in one direction of a connection, one by one.

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
    /// ACK of everything up to a position; with the sequence number of position 0, and the window offered beyond it, if its scale
    /// is known.
    Acknowledged {
        t: i64,
        position: u64,
        base: u32,
        window: Option<u32>,
    },
    /// RTT `rtt` of data sent at `sent`; `prompt`: the receiver cannot have held the ACK back.
    RoundTrip { sent: i64, rtt: i64, prompt: bool },
}
