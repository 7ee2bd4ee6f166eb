//! What a simulated packet says, apart from what a queue sees of it ([`base::Packet`]): its transport
//! header; and all packets under way, in one arena.

use base::{Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};

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
    /// Nothing comes behind this segment; of an ACK: its sender has nothing to say either.
    pub const FIN: u8 = 64;
}

/// A transport header. Sequence numbers count payload bytes from 0 and do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
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

/// A packet under way: what queues see of it, where it is, and what it says. It is written when it
/// leaves its host and read where it arrives; in between its number goes from link to link. All but the SACK
/// blocks, which few have, is in one line of a processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Flying {
    /// Its place in the network's routes.
    pub position: u32,
    /// The whole IP packet.
    pub len: u32,
    pub flow: u32,
    pub ecn: Ecn,
    pub dscp: u8,
    pub segment: Segment,
}

impl Flying {
    /// As a queue sees it that it enters now; `number` is what names it.
    #[inline]
    pub fn packet(&self, number: u32, now: Time) -> Packet {
        Packet {
            id: PacketId(u64::from(number)),
            flow: FlowId(u64::from(self.flow)),
            len: Bytes::new(u64::from(self.len)),
            ecn: self.ecn,
            dscp: self.dscp,
            enqueued: now,
        }
    }
}

/// All packets under way. Places are used again, so nothing is allocated once the most that is ever
/// under way has been.
#[derive(Debug, Default)]
pub struct Arena {
    packets: Vec<Flying>,
    free: Vec<u32>,
}

impl Arena {
    #[inline(always)]
    pub fn insert(&mut self, packet: &Flying) -> u32 {
        let Some(at) = self.free.pop() else {
            self.packets.push(*packet);
            return u32::try_from(self.packets.len() - 1)
                .expect("fewer than 2^32 packets under way");
        };
        let place = &mut self.packets[at as usize];
        let (to, from) = (&mut place.segment, &packet.segment);
        (to.seq, to.ack, to.sent) = (from.seq, from.ack, from.sent);
        (to.ce_bytes, to.delay) = (from.ce_bytes, from.delay);
        if from.sacks > 0 || to.sacks > 0 {
            to.sack = from.sack;
        }
        (to.len, to.flags, to.sacks) = (from.len, from.flags, from.sacks);
        (place.position, place.len, place.flow) = (packet.position, packet.len, packet.flow);
        (place.ecn, place.dscp) = (packet.ecn, packet.dscp);
        at
    }
    #[inline]
    pub fn get(&self, at: u32) -> &Flying {
        &self.packets[at as usize]
    }
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut Flying {
        &mut self.packets[at as usize]
    }
    /// It has arrived or is lost; what it said can be read until the next one is inserted.
    #[inline]
    pub fn free(&mut self, at: u32) {
        self.free.push(at);
    }
    /// Packets under way.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_whatever_was_in_its_place_before() {
        assert_eq!(std::mem::offset_of!(Flying, segment.sack), 64);
        let mut arena = Arena::default();
        let packet = |n: u64, sacks: u8| Flying {
            position: 7,
            len: 8,
            flow: n as u32,
            ecn: Ecn::Ect1,
            dscp: 10,
            segment: Segment {
                seq: n,
                ack: n + 1,
                sent: Time::from_nanos(n + 2),
                ce_bytes: n + 3,
                delay: Duration::from_nanos(n + 4),
                len: 5,
                flags: 6,
                sacks,
                sack: [0, 1, 2].map(|i| {
                    if i < sacks {
                        (n, n + u64::from(i))
                    } else {
                        (0, 0)
                    }
                }),
            },
        };
        for (n, sacks) in [(100, 3), (200, 0), (300, 1), (400, 3), (500, 2)] {
            let put = packet(n, sacks);
            let at = arena.insert(&put);
            let got = arena.get(at);
            assert_eq!((at, got.flow, arena.len()), (0, n as u32, 1));
            assert_eq!(got.segment, put.segment);
            arena.free(at);
        }
    }
}
