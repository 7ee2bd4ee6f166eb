//! Connection of two directions.

use super::half::Half;
use super::key::Endpoint;

/// A connection; its first packet went from `a` to `b`.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Number of the connection, in the order of first packets.
    pub number: u32,
    /// End that sent the first packet.
    pub a: Endpoint,
    /// Other end.
    pub b: Endpoint,
    /// Time of the first packet, ns.
    pub first_ns: i64,
    /// Time of the last packet, ns.
    pub last_ns: i64,
    /// Directions: data sent by `a`, and data sent by `b`.
    pub halves: [Half; 2],
    /// Packets with an earlier time than the packet before them; that packet's time is used.
    pub backward: u64,
    /// Packets captured twice, and left out.
    pub duplicates: u64,
    /// Packets duplicated by the network, and counted once.
    pub doubled: u64,
    /// Largest backward step of the capture's clock, ns.
    pub backward_most_ns: i64,
    /// True if either end reset it.
    pub reset: bool,
}

impl Connection {
    /// True if the receivers' windows are known: the handshake gives their scale.
    pub fn windows_known(&self) -> bool {
        let [a, b] = &self.halves;
        a.windows_known(b)
    }

    /// True if the times in which the receiver's window and the network held back the sender of a direction are told apart:
    /// windows are known or were never full on any scale, and the capture is beside the sender or has timestamps.
    pub fn windows_told(&self, direction: usize) -> bool {
        let detail = self.halves[direction].detail();
        detail.map_or(self.windows_known(), |d| {
            d.windows_told(self.windows_known())
        })
    }
}
