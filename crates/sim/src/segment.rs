//! Transport header of a simulated packet (a queue sees only [`base::Packet`]), and the arena of all packets in flight.

use base::{Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};

/// Maximum number of SACK blocks that fit beside the timestamps option (RFC 2018 section 3).
pub const SACK_BLOCKS: usize = 3;

/// Kinds of segment or datagram; several can be set.
pub mod flag {
    /// Flag of a first packet.
    pub const SYN: u8 = 1;
    /// Flag of an acknowledgement.
    pub const ACK: u8 = 2;
    /// RFC 3168: the receiver has seen CE.
    pub const ECE: u8 = 4;
    /// RFC 3168: the sender has reduced its window.
    pub const CWR: u8 = 8;
    /// The first SACK block names data that had already arrived (RFC 2883).
    pub const DSACK: u8 = 16;
    /// Answer to a probe.
    pub const ECHO: u8 = 32;
    /// End of the data; on an ACK: its sender has no data to send either.
    pub const FIN: u8 = 64;
    /// Its last byte is the last one that the application has written so far (RFC 9293 section 3.9.1.2).
    pub const PSH: u8 = 128;
}

/// A transport header. Sequence numbers count payload bytes from 0 and do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// First byte of payload, or the number of a datagram.
    pub seq: u64,
    /// Next byte expected.
    pub ack: u64,
    /// Departure time from its host; the answer to a datagram repeats the datagram's.
    pub sent: Time,
    /// Payload bytes received with CE so far, as accurate feedback reports them (RFC 9768).
    pub ce_bytes: u64,
    /// Delay, one way, of the segment that this one acknowledges or answers.
    pub delay: Duration,
    /// Payload bytes.
    pub len: u32,
    /// Flags of the header.
    pub flags: u8,
    /// Number of entries of `sack` in use.
    pub sacks: u8,
    /// Receive window of an acknowledgement, in units of the connection's scale ([`window_scale`]).
    pub window: u16,
    /// Blocks that arrived out of order: first byte, and one past the last.
    pub sack: [(u64, u64); SACK_BLOCKS],
}

/// Shift of the window field of a connection whose receive window is at most `window` bytes.
pub fn window_scale(window: u64) -> u8 {
    (0..63).find(|s| window >> s <= 0xffff).unwrap_or(63)
}

impl Segment {
    /// True if the flag is set.
    #[inline]
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    /// Position after its last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
    /// Blocks of selective acknowledgement.
    #[inline]
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.sack[..usize::from(self.sacks)]
    }
}

/// A packet in flight: its size, its place, and its header. It is written when it leaves its host and read when it
/// arrives; in between only its number moves from link to link. All but the SACK blocks, which few packets have, fits
/// into one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Flying {
    /// Position in the network's routes.
    pub position: u32,
    /// Size of the whole IP packet, bytes.
    pub len: u32,
    /// Number of the flow.
    pub flow: u32,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Segment in the packet.
    pub segment: Segment,
}

impl Flying {
    /// The packet as the queue it enters now sees it; `number` identifies it.
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

/// All packets in flight. Places are reused, so nothing is allocated once the number in flight has reached its maximum.
#[derive(Debug, Default)]
pub struct Arena {
    packets: Vec<Flying>,
    free: Vec<u32>,
}

impl Arena {
    /// Stores a packet. Returns its position.
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
        to.window = from.window;
        (place.position, place.len, place.flow) = (packet.position, packet.len, packet.flow);
        (place.ecn, place.dscp) = (packet.ecn, packet.dscp);
        at
    }
    /// Packet at a position.
    #[inline]
    pub fn get(&self, at: u32) -> &Flying {
        &self.packets[at as usize]
    }
    /// Packet at a position, for changes.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut Flying {
        &mut self.packets[at as usize]
    }
    /// Frees the place of a packet that has arrived or is lost; its contents can be read until the next insert.
    #[inline]
    pub fn free(&mut self, at: u32) {
        self.free.push(at);
    }
    /// Number of packets in flight.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }
    /// True if no packet is stored.
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
                window: 7,
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
