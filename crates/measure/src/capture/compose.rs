//! Composes frames: Ethernet, IPv4, TCP or UDP, with checksums that are correct for a payload of zeros.
//!
//! **Source.** RFC 791 (IPv4), RFC 9293 (TCP), RFC 768 (UDP), RFC 1071 (checksums), RFC 2018 (SACK),
//! RFC 7323 (timestamps and window scale).

use std::net::Ipv4Addr;

/// Ethernet and IP fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Source address of Ethernet.
    pub src_mac: [u8; 6],
    /// Destination address of Ethernet.
    pub dst_mac: [u8; 6],
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Identification of the IP packet.
    pub id: u16,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
}

/// A TCP header and the length of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Bits of [`super::frame::flag`].
    pub flags: u8,
    /// Ninth flag: AE of RFC 9768, once NS.
    pub accurate: bool,
    /// Window field.
    pub window: u16,
    /// MSS option, on a SYN.
    pub mss: Option<u16>,
    /// Window scale of a first packet.
    pub window_scale: Option<u8>,
    /// True to permit SACK, in a first packet.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Left and right edge of each block; three fit beside timestamps, four without.
    pub sack: &'a [(u32, u32)],
    /// Payload length, bytes, all zero.
    pub payload: u32,
}

/// Header of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// First bytes of the payload; the rest of it is zero.
    pub head: &'a [u8],
    /// Length of the whole payload, bytes.
    pub payload: u32,
}

const ETHERNET: usize = 14;
const IP: usize = 20;

/// A frame as it is stored: its headers, then zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composed {
    /// Headers, and the part of the payload that is not zero.
    pub head: Vec<u8>,
    /// Length of the whole frame, bytes.
    pub original_len: u32,
}

impl Composed {
    /// Extends the length if the packet on the wire was longer than its headers say.
    pub fn at_least(&mut self, ip_len: u32) {
        self.original_len = self.original_len.max(ETHERNET as u32 + ip_len);
    }

    /// First `snaplen` bytes of the frame.
    pub fn kept(mut self, snaplen: u32) -> Vec<u8> {
        self.head.resize(self.original_len.min(snaplen) as usize, 0);
        self.head
    }
}

/// Composes a frame with a TCP segment.
pub fn tcp(outer: &Outer, tcp: &Tcp) -> Composed {
    let mut frame = head(outer, 6);
    let at = frame.len();
    frame.extend(tcp.src_port.to_be_bytes());
    frame.extend(tcp.dst_port.to_be_bytes());
    frame.extend(tcp.seq.to_be_bytes());
    frame.extend(tcp.ack.to_be_bytes());
    frame.extend([u8::from(tcp.accurate), tcp.flags]);
    frame.extend(tcp.window.to_be_bytes());
    frame.extend([0; 4]);
    options(tcp, &mut frame);
    let header = frame.len() - at;
    // RFC 9293 section 3.1: the data offset counts words of four bytes.
    frame[at + 12] |= ((header / 4) as u8) << 4;
    let len = header as u32 + tcp.payload;
    let sum = checksum(pseudo(outer, 6, len) + sum(&frame[at..]));
    frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    whole(frame, len)
}

/// Composes a frame with a UDP datagram.
pub fn udp(outer: &Outer, udp: &Udp) -> Composed {
    let mut frame = head(outer, 17);
    let at = frame.len();
    let len = 8 + udp.payload;
    frame.extend(udp.src_port.to_be_bytes());
    frame.extend(udp.dst_port.to_be_bytes());
    frame.extend((len as u16).to_be_bytes());
    frame.extend([0; 2]);
    frame.extend(&udp.head[..udp.head.len().min(udp.payload as usize)]);
    // RFC 768: a sum of zero is sent as all ones, because zero means that there is no checksum.
    let sum = match checksum(pseudo(outer, 17, len) + sum(&frame[at..])) {
        0 => 0xffff,
        sum => sum,
    };
    frame[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    whole(frame, len)
}

/// Ethernet and IPv4 headers, without the length and the checksum.
fn head(outer: &Outer, protocol: u8) -> Vec<u8> {
    let mut frame = Vec::with_capacity(128);
    frame.extend(outer.dst_mac);
    frame.extend(outer.src_mac);
    frame.extend([0x08, 0x00, 0x45, outer.traffic_class, 0, 0]);
    frame.extend(outer.id.to_be_bytes());
    // Don't fragment, as TCP with path MTU discovery sends (RFC 1191 section 3).
    frame.extend([0x40, 0, outer.ttl, protocol, 0, 0]);
    frame.extend(outer.src.octets());
    frame.extend(outer.dst.octets());
    frame
}

/// Writes the length, now known, and the IP checksum.
fn whole(mut frame: Vec<u8>, payload: u32) -> Composed {
    let total = IP as u32 + payload;
    let ip = &mut frame[ETHERNET..ETHERNET + IP];
    ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    let sum = checksum(sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    Composed {
        head: frame,
        original_len: ETHERNET as u32 + total,
    }
}

/// Writes the options in the order and with the padding of Linux.
fn options(tcp: &Tcp, out: &mut Vec<u8>) {
    if let Some(mss) = tcp.mss {
        out.extend([2, 4]);
        out.extend(mss.to_be_bytes());
    }
    match (tcp.sack_permitted, tcp.timestamps.is_some()) {
        (true, true) => out.extend([4, 2]),
        (false, true) => out.extend([1, 1]),
        (true, false) => out.extend([1, 1, 4, 2]),
        (false, false) => {}
    }
    if let Some((value, echo)) = tcp.timestamps {
        out.extend([8, 10]);
        out.extend(value.to_be_bytes());
        out.extend(echo.to_be_bytes());
    }
    if let Some(shift) = tcp.window_scale {
        out.extend([1, 3, 3, shift]);
    }
    if !tcp.sack.is_empty() {
        out.extend([1, 1, 5, 2 + 8 * tcp.sack.len() as u8]);
        for (left, right) in tcp.sack {
            out.extend(left.to_be_bytes());
            out.extend(right.to_be_bytes());
        }
    }
}

/// Sum of the pseudo-header that TCP and UDP checksums include.
fn pseudo(outer: &Outer, protocol: u8, len: u32) -> u64 {
    sum(&outer.src.octets()) + sum(&outer.dst.octets()) + u64::from(protocol) + u64::from(len)
}

/// Internet checksum sum, RFC 1071: sixteen bits at a time, the carries added at the end.
fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    pairs.map(|pair| u64::from(word(pair))).sum()
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
