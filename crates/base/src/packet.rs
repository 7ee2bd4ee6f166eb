//! A packet as a queue sees it: a small plain value. The emulator keeps the payload in its buffers; simulated packets
//! have no payload.

use crate::time::Time;
use crate::units::Bytes;

/// Identifier of a packet within a run; the emulator finds the payload by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// Identifier of a flow: a hash of addresses, protocol and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// ECN field of an IP header, two bits, RFC 3168 section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ecn {
    #[default]
    NotEct,
    Ect1,
    Ect0,
    Ce,
}

impl Ecn {
    /// Decodes the low two bits of the TOS or traffic-class byte.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// Bits of the ECN field.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }
    /// True if a queue may mark this packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// Packet within a link: its size and marks, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Identifier of the packet.
    pub id: PacketId,
    /// Flow that it belongs to.
    pub flow: FlowId,
    /// Length of the whole IP packet, header included.
    pub len: Bytes,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// DSCP, RFC 2474 section 3: the six bits beside the ECN bits, 0 to 63.
    pub dscp: u8,
    /// Time at which the packet entered its current queue; the discipline sets it on enqueue.
    pub enqueued: Time,
}
