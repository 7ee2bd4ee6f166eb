//! What a simulated packet says, apart from what a queue sees of it ([`base::Packet`]): its transport
//! header. Headers live in one arena and are named by the packet.

use base::{Duration, PacketId, Time};

/// At most this many SACK blocks fit beside the timestamps option (RFC 2018 section 3).
pub const SACK_BLOCKS: usize = 3;

/// What kind of segment or datagram it is; several may hold.
pub mod flag {
    pub const SYN: u8 = 1;
    pub const ACK: u8 = 2;
    /// RFC 3168: the receiver has seen CE.
    pub const ECE: u8 = 4;
    /// RFC 3168: the sender has reduced its window.
    pub const CWR: u8 = 8;
    /// The first SACK block names data that had already arrived (RFC 2883).
    pub const DSACK: u8 = 16;
    /// An answer to a probe, not the probe.
    pub const ECHO: u8 = 32;
}

/// A transport header. Sequence numbers count payload bytes from 0 and do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte of payload, or the number of a datagram.
    pub seq: u64,
    /// Next byte expected.
    pub ack: u64,
    /// When it left its host; a datagram's answer carries the datagram's.
    pub sent: Time,
    /// Payload that has arrived marked CE so far, as accurate feedback tells it (RFC 9768).
    pub ce_bytes: u64,
    /// How long the segment took that this one acknowledges or answers.
    pub delay: Duration,
    /// Payload.
    pub len: u32,
    pub flags: u8,
    /// How many of `sack` are in use.
    pub sacks: u8,
    /// First byte and one past the last of blocks that have arrived out of order.
    pub sack: [(u64, u64); SACK_BLOCKS],
}

impl Segment {
    #[inline]
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
    #[inline]
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.sack[..usize::from(self.sacks)]
    }
}

/// All headers under way. Places are used again, so nothing is allocated once the most that is ever
/// under way has been.
#[derive(Debug, Default)]
pub struct Arena {
    segments: Vec<Segment>,
    free: Vec<u32>,
}

impl Arena {
    #[inline]
    pub fn insert(&mut self, segment: Segment) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.segments[at as usize] = segment;
                at
            }
            None => {
                self.segments.push(segment);
                u32::try_from(self.segments.len() - 1).expect("fewer than 2^32 packets under way")
            }
        }
    }
    pub fn get(&self, at: u32) -> &Segment {
        &self.segments[at as usize]
    }
    #[inline]
    pub fn remove(&mut self, at: u32) -> Segment {
        self.free.push(at);
        self.segments[at as usize]
    }
    /// Packets under way.
    pub fn len(&self) -> usize {
        self.segments.len() - self.free.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packet's name says where its header is and how far along its route it has come, so that a hop
/// touches neither.
#[inline]
pub fn packet_id(header: u32, position: u32) -> PacketId {
    PacketId(u64::from(position) << 32 | u64::from(header))
}
#[inline]
pub fn header_of(id: PacketId) -> u32 {
    id.0 as u32
}
#[inline]
pub fn position_of(id: PacketId) -> u32 {
    (id.0 >> 32) as u32
}
