//! Packets captured at one end, in a compact form that fits in memory.

use crate::capture::frame::{Address, Frame, Tcp, Transport, flag};
use crate::track::Endpoint;
use crate::track::copies::{Copies, Found, Sight, Twice, soonest};
use std::collections::HashMap;

/// Bit that marks fragments: they have no ports, and form a flow of their own between two addresses.
pub(super) const PIECES: u16 = 0x100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// Lower endpoint.
    pub low: Endpoint,
    /// Higher endpoint.
    pub high: Endpoint,
    /// IP protocol; [`PIECES`] is added for fragments.
    pub protocol: u16,
}

/// Options of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    /// Sequence number.
    pub seq: u32,
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// True if SACK is permitted.
    pub sack_permitted: bool,
    /// True if timestamps are on.
    pub timestamps: bool,
    /// True if the capture does not hold all of them.
    pub cut: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Endpoints of the flow.
    pub key: Key,
    /// Indices of packets in the order of time, by direction: from the lower end, from the higher end.
    pub packets: [Vec<u32>; 2],
    /// Packets of each direction that the capture holds twice.
    twice: [Twice; 2],
    /// First packet of each direction.
    pub syn: [Option<Syn>; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Time, ns.
    pub t_ns: i64,
    /// Offset, if the packet is a fragment.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Timestamp of the sender.
    pub timestamp: u32,
    /// Identification of the IP packet.
    pub id: u32,
    /// Hash of the payload's first bytes, or of the options if there is no payload.
    pub hash: u32,
    /// Bytes of the IP packet.
    pub ip_len: u32,
    /// Number in the capture, from 1; 0 beyond what 32 bits count.
    pub frame: u32,
    /// Flags of TCP.
    pub flags: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// Bytes of a payload that distinguish it from others; a capture with a snaplen of 64 has them.
const HASHED: usize = 8;

/// Packets captured at one end of a path.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    pub(super) packets: Vec<Packet>,
    pub(super) flows: Vec<Flow>,
    places: HashMap<Key, u32>,
    pub(super) copies: u64,
    seen: Copies,
    frames: u32,
    latest_ns: i64,
}

impl Capture {
    /// Counts a packet that is not IP or has no time, without storing it.
    pub fn pass(&mut self) {
        self.frames = self.frames.wrapping_add(1);
    }

    /// Adds a packet.
    pub fn packet(&mut self, t_ns: i64, frame: &Frame<'_>) {
        self.pass();
        self.latest_ns = t_ns.max(self.latest_ns);
        let Some(Read {
            p,
            protocol,
            ports,
            syn,
        }) = Packet::read(self.latest_ns, self.frames, frame)
        else {
            return;
        };
        let (src, dst) = (end(frame.src, ports.0), end(frame.dst, ports.1));
        let (low, high) = if src <= dst { (src, dst) } else { (dst, src) };
        let key = Key {
            low,
            high,
            protocol,
        };
        let way = usize::from(src != low);
        let flows = &mut self.flows;
        let place = *self.places.entry(key).or_insert_with(|| {
            flows.push(Flow {
                key,
                packets: Default::default(),
                twice: Default::default(),
                syn: [None; 2],
            });
            u32::try_from(flows.len() - 1).expect("fewer than 2^32 flows")
        });
        let flow = &mut self.flows[place as usize];
        let place_seen =
            u32::from(frame.place) << 20 | u32::from(frame.vlan) << 8 | u32::from(p.ttl);
        let sight = Sight::new(p.content(place, way), t_ns, place_seen);
        let certain = p.id != 0 || p.space() > 0;
        let stamped = p.timestamp != 0;
        let twice = &mut flow.twice[way];
        let found = self.seen.look(
            sight,
            false,
            certain,
            || soonest(p.id, stamped, None),
            twice,
        );
        // A packet that the network duplicates is in the capture twice.
        if found == Some(Found::Elsewhere) || found == Some(Found::Here) && twice.mirrored() {
            self.copies += 1;
            return;
        }
        if let Some(syn) = syn {
            flow.syn[way].get_or_insert(syn);
        }
        flow.packets[way].push(u32::try_from(self.packets.len()).expect("fewer than 2^32 packets"));
        self.packets.push(p);
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there is no packet.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Packet with its ports and, of a SYN, the options.
struct Read {
    p: Packet,
    protocol: u16,
    ports: (u16, u16),
    syn: Option<Syn>,
}

impl Packet {
    /// Reads a frame; `None` if its transport header was not captured.
    #[inline(always)]
    fn read(t_ns: i64, number: u32, frame: &Frame<'_>) -> Option<Read> {
        let mut p = Packet {
            frame: number,
            t_ns,
            seq: 0,
            ack: 0,
            payload: 0,
            timestamp: 0,
            id: frame.id,
            hash: 0,
            ip_len: frame.ip_len,
            flags: 0,
            ttl: frame.ttl,
            traffic_class: frame.traffic_class,
        };
        let mut syn = None;
        let (protocol, ports) = match (&frame.transport, frame.fragment) {
            (Transport::Cut { .. }, _) => return None,
            (transport, Some(piece)) => {
                p.seq = piece.offset;
                p.flags = u8::from(piece.more);
                p.payload = frame.ip_len;
                let protocol = match transport {
                    Transport::Tcp(_) => 6,
                    Transport::Udp { .. } => 17,
                    Transport::Other { protocol } | Transport::Cut { protocol } => {
                        u16::from(*protocol)
                    }
                };
                (protocol | PIECES, (0, 0))
            }
            (Transport::Tcp(tcp), None) => {
                syn = p.tcp(tcp, frame.body);
                (6, (tcp.src_port, tcp.dst_port))
            }
            (
                Transport::Udp {
                    src_port,
                    dst_port,
                    payload,
                },
                None,
            ) => {
                p.payload = *payload;
                p.hash = hash(frame.body.get(8..).unwrap_or(&[]));
                (17, (*src_port, *dst_port))
            }
            (Transport::Other { protocol }, None) => {
                p.payload = frame.ip_len;
                // Starts behind a checksum that changes with the addresses.
                p.hash = hash(frame.body.get(4..).unwrap_or(&[]));
                (u16::from(*protocol), (0, 0))
            }
        };
        Some(Read {
            p,
            protocol,
            ports,
            syn,
        })
    }

    fn tcp(&mut self, tcp: &Tcp<'_>, body: &[u8]) -> Option<Syn> {
        let options = tcp.parse_options();
        self.seq = tcp.seq;
        self.ack = tcp.ack;
        self.payload = tcp.payload;
        self.flags = tcp.flags;
        self.timestamp = options.tsval.unwrap_or(0);
        let header = body.get(12).map_or(20, |b| usize::from(b >> 4) * 4);
        let syn = tcp.has(flag::SYN);
        self.hash = if tcp.payload > 0 {
            hash(body.get(header..).unwrap_or(&[]))
        } else if syn {
            0
        } else {
            options.sack().iter().fold(0, |h, (l, r)| {
                (h ^ l.wrapping_add(r.rotate_left(16))).wrapping_mul(0x9e37_79b1)
            })
        };
        syn.then_some(Syn {
            seq: tcp.seq,
            mss: options.mss,
            window_scale: options.window_scale,
            sack_permitted: options.sack_permitted,
            timestamps: options.stamped,
            cut: options.cut,
        })
    }

    /// Hash of all fields but capture point and time.
    fn content(&self, flow: u32, way: usize) -> u64 {
        let small = u32::from(self.flags) << 24 | way as u32;
        let numbers = [self.seq, self.ack, self.payload, self.timestamp, self.id];
        let [a, b, c, d, e] = numbers;
        super::pairing::mixed(&[a, b, c, d, e, self.hash, self.ip_len, small, flow])
    }

    /// Number of sequence numbers that it takes.
    pub fn space(&self) -> u32 {
        let ends = u32::from(self.flags & flag::SYN != 0) + u32::from(self.flags & flag::FIN != 0);
        self.payload + ends
    }
}

fn end(address: Address, port: u16) -> Endpoint {
    Endpoint { address, port }
}

/// FNV-1a hash; 0 if too few bytes were captured to distinguish payloads.
fn hash(bytes: &[u8]) -> u32 {
    let Some(bytes) = bytes.get(..HASHED) else {
        return 0;
    };
    bytes.iter().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(*b)).wrapping_mul(0x0100_0193)
    })
}
