//! A connection of two directions.

use super::half::Half;
use super::key::Endpoint;

/// A connection; its first packet went from `a` to `b`.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Counts connections in the order of their first packets.
    pub number: u32,
    pub a: Endpoint,
    pub b: Endpoint,
    pub first_ns: i64,
    pub last_ns: i64,
    /// What `a` sent, and what `b` sent.
    pub halves: [Half; 2],
    /// Packets whose time was before that of the packet ahead of them; taken at its time.
    pub backward: u64,
    /// Captured twice, and left out.
    pub duplicates: u64,
    /// Delivered twice by the network, and counted once.
    pub doubled: u64,
    /// How far its clock ran backward at most, ns.
    pub backward_most_ns: i64,
    /// Reset by either end.
    pub reset: bool,
}

impl Connection {
    /// Whether it is known how much room the receivers offered: the handshake says on which scale.
    pub fn windows_known(&self) -> bool {
        let [a, b] = &self.halves;
        a.windows_known(b)
    }
}
