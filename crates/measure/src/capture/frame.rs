//! Parses the headers of one frame: link layer, IP with extension headers and fragments, TCP or UDP.
//!
//! Lengths come from the IP header, never from the number of captured bytes. If the IP length is 0 (a segment of the
//! sending host's offload), they come from the frame's length on the wire.
//!
//! **Source.** RFC 791 (IPv4), RFC 8200 (IPv6), RFC 9293 (TCP), RFC 768 (UDP), RFC 2018 (SACK),
//! RFC 7323 (timestamps and window scale), RFC 2675 (jumbograms), RFC 2516 (PPPoE), RFC 3032 (MPLS).

use super::{LinkType, Record};

/// Address in 16 bytes; IPv4 is mapped behind ::ffff (RFC 4291 section 2.5.5.2).
pub type Address = [u8; 16];

/// Headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Identification of IPv4 or of an IPv6 fragment; 0 if there is none.
    pub id: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// VLAN of the outermost tag; 0 if there is none.
    pub vlan: u16,
    /// Capture point, as far as the file tells: the interface, and in a capture on all interfaces the direction.
    pub place: u16,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Length of the IP packet on the wire, bytes.
    pub ip_len: u32,
    /// Fragment header, if the packet is a fragment.
    pub fragment: Option<Fragment>,
    /// Transport header.
    pub transport: Transport<'a>,
    /// Captured bytes of the IP payload: the transport's header and data.
    pub body: &'a [u8],
}

/// A fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in the datagram's payload, bytes.
    pub offset: u32,
    /// True if more fragments follow.
    pub more: bool,
}

/// Transport header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    Tcp(Tcp<'a>),
    Udp {
        src_port: u16,
        dst_port: u16,
        payload: u32,
    },
    /// Another protocol, or a fragment that is not the first.
    Other {
        protocol: u8,
    },
    /// Too few bytes were captured to hold the transport header.
    Cut {
        protocol: u8,
    },
}

/// TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: u8,
    /// Window as in the header, not scaled.
    pub window: u16,
    /// Checksum.
    pub checksum: u16,
    /// Bytes of data on the wire.
    pub payload: u32,
    /// Captured bytes of the options.
    pub options: &'a [u8],
    /// True if some bytes of the options were not captured.
    pub options_cut: bool,
}

/// Bits of [`Tcp::flags`].
pub mod flag {
    /// Flag of the last packet.
    pub const FIN: u8 = 0x01;
    /// Flag of the first packet.
    pub const SYN: u8 = 0x02;
    /// Flag of a reset.
    pub const RST: u8 = 0x04;
    /// Flag of a push.
    pub const PSH: u8 = 0x08;
    /// Flag of an acknowledgement.
    pub const ACK: u8 = 0x10;
    /// Flag of urgent data.
    pub const URG: u8 = 0x20;
    /// Flag of ECN echo.
    pub const ECE: u8 = 0x40;
    /// Flag of a reduced congestion window.
    pub const CWR: u8 = 0x80;
}

/// TCP options that matter for delay and loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// True if SACK is permitted.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// True if there were timestamps, captured completely or not; then TSval, if captured.
    pub stamped: bool,
    /// Timestamp of the sender.
    pub tsval: Option<u32>,
    /// True if not all of the options were captured.
    pub cut: bool,
    sack: [(u32, u32); 4],
    blocks: u8,
}

impl Options {
    /// Left and right edge of each block, in the order of the header.
    #[inline(always)]
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.blocks)]
    }
}

impl Tcp<'_> {
    /// True if the flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Options of the header.
    pub fn parse_options(&self) -> Options {
        Options {
            cut: self.options_cut,
            ..Options::read(self.options)
        }
    }

    /// TSval and TSecr if the options are exactly two no-operations and the timestamps, as in almost every segment.
    #[inline(always)]
    pub fn timestamps_alone(&self) -> Option<(u32, u32)> {
        let all = <&[u8; 12]>::try_from(self.options).ok()?;
        (be32(all, 0) == 0x0101_080a).then(|| (be32(all, 4), be32(all, 8)))
    }
}

impl Options {
    /// No options.
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        stamped: false,
        tsval: None,
        cut: false,
        sack: [(0, 0); 4],
        blocks: 0,
    };

    /// Reads the options of a header.
    pub fn read(mut rest: &[u8]) -> Options {
        let mut o = Options::NONE;
        while let [kind, tail @ ..] = rest {
            if *kind == 0 {
                break;
            }
            if *kind == 1 {
                rest = tail;
                continue;
            }
            let Some(len) = tail.first().map(|l| usize::from(*l)).filter(|l| *l >= 2) else {
                break;
            };
            if *kind == 8 {
                o.stamped = true;
                o.tsval = rest.get(2..6).map(|v| be32(v, 0));
            }
            let Some(value) = rest.get(2..len) else {
                break;
            };
            match (kind, value.len()) {
                (2, 2) => o.mss = Some(be16(value, 0)),
                // RFC 7323 section 2.3: a shift above 14 counts as 14.
                (3, 1) => o.window_scale = Some(value[0].min(14)),
                (4, 0) => o.sack_permitted = true,
                (5, n) if n % 8 == 0 => {
                    o.blocks = 0;
                    for (slot, block) in o.sack.iter_mut().zip(value.chunks_exact(8)) {
                        *slot = (be32(block, 0), be32(block, 4));
                        o.blocks += 1;
                    }
                }
                (8, 8) => o.timestamps = Some((be32(value, 0), be32(value, 4))),
                _ => {}
            }
            rest = &rest[len..];
        }
        o
    }
}

/// IP packet within a record; `None` if there is none, or too little of it.
#[inline(always)]
pub fn parse<'a>(record: &Record<'a>) -> Option<Frame<'a>> {
    // Fast path for almost every frame.
    if record.link == LinkType::ETHERNET
        && let Some([0x08, 0x00]) = record.data.get(12..14)
    {
        return ipv4(
            &record.data[14..],
            record.original_len.saturating_sub(14),
            (0, interface_place(record.interface)),
        );
    }
    parse_any(record)
}

#[inline(never)]
fn parse_any<'a>(record: &Record<'a>) -> Option<Frame<'a>> {
    let (version, at) = network(record.link, record.data)?;
    let data = record.data.get(at..)?;
    let wire = record.original_len.saturating_sub(at as u32);
    let vlan = if record.link == LinkType::ETHERNET && at > 14 {
        vlan(record.data)
    } else {
        0
    };
    match version {
        Version::Four => ipv4(data, wire, (vlan, place(record))),
        Version::Six => ipv6(data, wire, (vlan, place(record))),
    }
}

/// Capture point of a packet at an interface that does not tell directions apart.
#[inline(always)]
pub fn interface_place(interface: u32) -> u16 {
    (interface as u16) << 3
}

fn place(record: &Record<'_>) -> u16 {
    let d = record.data;
    // Both formats tell whether a packet came for us, for others, or went out: five kinds.
    let (index, kind) = match record.link {
        LinkType::LINUX_SLL => (0, d.get(1)),
        LinkType::LINUX_SLL2 => (d.get(4..8).map_or(0, |i| be32(i, 0)), d.get(10)),
        _ => (0, None),
    };
    interface_place(record.interface ^ index) | u16::from(kind.map_or(0, |k| k & 7))
}

fn vlan(d: &[u8]) -> u16 {
    match d.get(12..16) {
        Some([0x81 | 0x88 | 0x91, 0x00 | 0xa8, high, low]) => u16::from_be_bytes([high & 15, *low]),
        _ => 0,
    }
}

#[derive(Clone, Copy)]
enum Version {
    Four,
    Six,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// IP version, and offset of the IP header in the frame.
#[inline(always)]
fn network(link: LinkType, d: &[u8]) -> Option<(Version, usize)> {
    match link {
        LinkType::ETHERNET => ether_type(d, 12),
        LinkType::RAW | LinkType(12) | LinkType(14) => nibble(d, 0),
        LinkType::IPV4 => Some((Version::Four, 0)),
        LinkType::IPV6 => Some((Version::Six, 0)),
        LinkType::LINUX_SLL => ether_type(d, 14),
        LinkType::LINUX_SLL2 => match ether_type(d, 0)? {
            (version, 2) => Some((version, 20)),
            _ => None,
        },
        // The family's number depends on the capturing system (and on its byte order): the version nibble is more
        // reliable.
        LinkType::NULL | LinkType::LOOP => nibble(d, 4),
        LinkType::PPP | LinkType::PPP_HDLC => match d {
            [0xff, 0x03, ..] => ppp(d, 2),
            _ => ppp(d, 0),
        },
        LinkType::PPP_ETHER => ppp(d, 6),
        // 13 bytes of FDDI, then LLC and SNAP.
        LinkType::FDDI => snap(d, 13),
        _ => None,
    }
}

#[inline(always)]
fn ether_type(d: &[u8], at: usize) -> Option<(Version, usize)> {
    match d.get(at..at + 2)? {
        [0x08, 0x00] => Some((Version::Four, at + 2)),
        [0x86, 0xdd] => Some((Version::Six, at + 2)),
        _ => tagged(d, at),
    }
}

fn tagged(d: &[u8], mut at: usize) -> Option<(Version, usize)> {
    // Tags may be stacked; no network stacks more than a few.
    for _ in 0..6 {
        let kind = be16(d.get(at..at + 2)?, 0);
        at += 2;
        match kind {
            IPV4 => return Some((Version::Four, at)),
            IPV6 => return Some((Version::Six, at)),
            0x8100 | 0x88a8 | 0x9100 => at += 2,
            0x8864 => return ppp(d, at + 6),
            0x8847 | 0x8848 => return mpls(d, at),
            0..=1500 => return snap(d, at),
            _ => return None,
        }
    }
    None
}

fn snap(d: &[u8], at: usize) -> Option<(Version, usize)> {
    match d.get(at..at + 6)? {
        [0xaa, 0xaa, 3, 0, 0, 0] => ether_type(d, at + 6),
        _ => None,
    }
}

fn ppp(d: &[u8], at: usize) -> Option<(Version, usize)> {
    match d.get(at..at + 2)? {
        [0, 0x21] => Some((Version::Four, at + 2)),
        [0, 0x57] => Some((Version::Six, at + 2)),
        _ => None,
    }
}

fn mpls(d: &[u8], mut at: usize) -> Option<(Version, usize)> {
    for _ in 0..8 {
        let label = d.get(at..at + 4)?;
        at += 4;
        if label[2] & 1 != 0 {
            return nibble(d, at);
        }
    }
    None
}

fn nibble(d: &[u8], at: usize) -> Option<(Version, usize)> {
    match d.get(at)? >> 4 {
        4 => Some((Version::Four, at)),
        6 => Some((Version::Six, at)),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(d: &[u8], wire: u32, (vlan, place): (u16, u16)) -> Option<Frame<'_>> {
    let head = d.first_chunk::<20>()?;
    let header = usize::from(head[0] & 15) * 4;
    if head[0] >> 4 != 4 || header < 20 {
        return None;
    }
    let said = u32::from(be16(head, 2));
    // RFC 791 has no length 0: it is a segment larger than 64 KiB, or one that the network card has not split yet.
    let ip_len = if said == 0 { wire } else { said };
    let (more, offset) = (head[6] & 0x20 != 0, u32::from(be16(head, 6) & 0x1fff) * 8);
    let payload = ip_len.checked_sub(header as u32)?;
    let end = d.len().min(ip_len as usize);
    Some(Frame {
        src: mapped(&head[12..16]),
        dst: mapped(&head[16..20]),
        id: u32::from(be16(head, 4)),
        ttl: head[8],
        vlan,
        place,
        traffic_class: head[1],
        ip_len,
        fragment: (more || offset > 0).then_some(Fragment { offset, more }),
        transport: transport(head[9], d.get(header..end), payload, offset),
        body: d.get(header..end).unwrap_or(&[]),
    })
}

/// Maps an IPv4 address through one number, so that its bytes need not pass through memory before they are compared.
#[inline(always)]
fn mapped(four: &[u8]) -> Address {
    (0xffff_0000_0000 | u128::from(be32(four, 0))).to_be_bytes()
}

#[inline]
fn ipv6(d: &[u8], wire: u32, (vlan, place): (u16, u16)) -> Option<Frame<'_>> {
    let head = d.first_chunk::<40>()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let said = u32::from(be16(head, 4));
    let ip_len = if said == 0 { wire } else { said + 40 };
    let end = d.len().min(ip_len as usize);
    let mut frame = Frame {
        src: head[8..24].try_into().expect("16 bytes"),
        dst: head[24..40].try_into().expect("16 bytes"),
        id: 0,
        ttl: head[7],
        vlan,
        place,
        traffic_class: head[0] << 4 | head[1] >> 4,
        ip_len,
        fragment: None,
        transport: Transport::Other { protocol: head[6] },
        body: &[],
    };
    let (mut protocol, mut at) = (head[6], 40);
    // Each extension header names the next one (RFC 8200 section 4). They end well before 16.
    for _ in 0..16 {
        let extension = match protocol {
            0 | 43 | 60 | 135 => d
                .get(at..end)
                .and_then(|e| Some((*e.first()?, (usize::from(*e.get(1)?) + 1) * 8))),
            // Authentication counts in words of four bytes (RFC 4302 section 2.2).
            51 => d
                .get(at..end)
                .and_then(|e| Some((*e.first()?, (usize::from(*e.get(1)?) + 2) * 4))),
            44 => d.get(at..end).filter(|e| e.len() >= 8).map(|e| {
                let field = be16(e, 2);
                let (offset, more) = (u32::from(field & 0xfff8), field & 1 != 0);
                frame.id = be32(e, 4);
                // RFC 6946: a fragment that is the whole datagram is treated as no fragment.
                frame.fragment = (offset > 0 || more).then_some(Fragment { offset, more });
                (e[0], 8)
            }),
            _ => {
                let payload = ip_len.checked_sub(at as u32)?;
                let offset = frame.fragment.map_or(0, |f| f.offset);
                frame.transport = transport(protocol, d.get(at..end), payload, offset);
                frame.body = d.get(at..end).unwrap_or(&[]);
                return Some(frame);
            }
        };
        match extension {
            Some((next, length)) => {
                protocol = next;
                at += length;
            }
            None => break,
        }
        if frame.fragment.is_some_and(|f| f.offset > 0) {
            frame.transport = Transport::Other { protocol };
            frame.body = d.get(at..end).unwrap_or(&[]);
            return Some(frame);
        }
    }
    frame.transport = Transport::Cut { protocol };
    Some(frame)
}

#[inline(always)]
fn transport(protocol: u8, kept: Option<&[u8]>, payload: u32, offset: u32) -> Transport<'_> {
    if offset > 0 {
        return Transport::Other { protocol };
    }
    let kept = kept.unwrap_or(&[]);
    match protocol {
        6 => tcp(kept, payload),
        17 => match kept.first_chunk::<4>() {
            Some(h) => Transport::Udp {
                src_port: be16(h, 0),
                dst_port: be16(h, 2),
                payload: payload.saturating_sub(8),
            },
            None => Transport::Cut { protocol },
        },
        _ => Transport::Other { protocol },
    }
}

#[inline(always)]
fn tcp(d: &[u8], segment: u32) -> Transport<'_> {
    // Up to the window field: what a capture of 68 bytes keeps behind IPv4 with options.
    let Some(head) = d.first_chunk::<16>() else {
        return Transport::Cut { protocol: 6 };
    };
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 || segment < header as u32 {
        return Transport::Cut { protocol: 6 };
    }
    Transport::Tcp(Tcp {
        src_port: be16(head, 0),
        dst_port: be16(head, 2),
        seq: be32(head, 4),
        ack: be32(head, 8),
        flags: head[13],
        window: be16(head, 14),
        checksum: d.get(16..18).map_or(0, |c| be16(c, 0)),
        payload: segment - header as u32,
        options: d.get(20..header.min(d.len())).unwrap_or(&[]),
        options_cut: d.len() < header,
    })
}

#[inline(always)]
fn be16(d: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([d[at], d[at + 1]])
}

#[inline(always)]
fn be32(d: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]])
}
