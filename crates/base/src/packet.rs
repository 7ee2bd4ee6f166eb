//! A packet as a queue sees it: a small plain value. Its payload, where there is one, stays with the
//! host (the emulator's buffers); the simulator has none.

use crate::time::Time;
use crate::units::Bytes;

/// Names a packet within a run; the emulator finds the payload by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// Names a flow: a hash of addresses, protocol and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// The two ECN bits of an IP header, RFC 3168 section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ecn {
    #[default]
    NotEct,
    Ect1,
    Ect0,
    Ce,
}

impl Ecn {
    /// From the low two bits of the TOS or traffic-class byte.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }
    /// Whether a queue may mark this packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub id: PacketId,
    pub flow: FlowId,
    /// The whole IP packet, header included.
    pub len: Bytes,
    pub ecn: Ecn,
    /// What the sender asks for, RFC 2474 section 3: the six bits beside the ECN bits, 0 to 63.
    pub dscp: u8,
    /// When it entered the queue it is in; a discipline sets it on enqueue.
    pub enqueued: Time,
}
