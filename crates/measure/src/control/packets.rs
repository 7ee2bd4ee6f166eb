//! Packets that the server has captured for a client, without their payload, in the order in which they passed.

use super::codec::{Reader, Writer};
use super::{ControlError, LARGEST};

/// Maximum number of packets in one message.
pub const MOST_PACKETS: usize = 256;
/// Maximum length of a packet's headers: 60 bytes of IP and 60 of TCP.
pub const MOST_HEADERS: usize = 120;
pub(super) const MOST_PACKETS_BODY: usize = MOST_PACKETS * (MOST_HEADERS + 24) + 32;

/// Captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time on the server's clock, UNIX ns.
    pub t_ns: i64,
    /// Length of the packet with its payload, bytes.
    pub ip_bytes: u32,
    /// True if the server sent it.
    pub outgoing: bool,
    /// Headers of IP and TCP, from the first byte of IP on.
    pub headers: Vec<u8>,
}

/// Part of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedPackets {
    /// Packets of this part.
    pub packets: Vec<CapturedPacket>,
    /// True if another part follows.
    pub more: bool,
    /// Packets of the whole capture that the server had no room for.
    pub missed: u64,
}

impl CapturedPackets {
    pub(super) fn write(&self, w: &mut Writer) {
        w.0.push(u8::from(self.more));
        w.number(self.missed.min(LARGEST));
        w.number(self.packets.len().min(MOST_PACKETS) as u64);
        let mut before = 0i64;
        for p in self.packets.iter().take(MOST_PACKETS) {
            w.signed(p.t_ns.wrapping_sub(before));
            before = p.t_ns;
            w.number(u64::from(p.ip_bytes));
            w.0.push(u8::from(p.outgoing));
            let headers = &p.headers[..p.headers.len().min(MOST_HEADERS)];
            w.number(headers.len() as u64);
            w.0.extend_from_slice(headers);
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<CapturedPackets, ControlError> {
        let more = r.byte()? != 0;
        let missed = r.amount()?;
        let count = r.count(MOST_PACKETS)?;
        let mut before = 0i64;
        let mut one = |r: &mut Reader| {
            let t_ns = r.after(before)?;
            before = t_ns;
            Ok(CapturedPacket {
                t_ns,
                ip_bytes: r.small()?,
                outgoing: r.byte()? != 0,
                headers: {
                    let len = r.count(MOST_HEADERS)?;
                    r.take(len)?.to_vec()
                },
            })
        };
        let packets = (0..count).map(|_| one(r)).collect::<Result<_, _>>()?;
        Ok(CapturedPackets {
            packets,
            more,
            missed,
        })
    }
}
