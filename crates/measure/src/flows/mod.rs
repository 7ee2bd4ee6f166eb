//! Flows of a capture, one by one: ECN, DSCP, reports of marks in TCP, and QUIC with its spin bit.
//!
//! **Method.** A flow is all TCP or UDP between two pairs of address and port. Its client sent the SYN, or the Initial packet
//! that opens with a client's keys; otherwise the end that is not on a known port counts as the client.
//!
//! **Source.** RFC 3168 (ECN), RFC 2474 (DSCP), RFC 8999 and RFC 9000 (QUIC's headers); [`feedback`] and [`spin`] have theirs.
//!
//! **Limits.** Flows beyond [`MOST_FLOWS`] are counted, not listed. The capture's host may have joined packets: each counts
//! as one.

pub mod feedback;
pub mod spin;

use crate::applications::hello::{Hello, bare};
use crate::applications::{Initials, likely_server};
use crate::capture::frame::{Address, Frame, Transport, flag};
use crate::track::Endpoint;
use feedback::Feedback;
use hashbrown::HashMap;
use spin::{CLIENT, RoundTrips, Spin, Unknown};
use std::collections::BTreeMap;

/// Flows that are watched.
pub const MOST_FLOWS: usize = 200_000;
/// Latest time, in the year 2116.
const LATEST_NS: i64 = 1 << 62;
/// Datagrams of a client in which its server's name is looked for.
const MOST_TRIES: u8 = 24;
/// Port of HTTP/3.
const WEB: u16 = 443;

/// Packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// Packets by ECN field: Not-ECT, ECT(1), ECT(0), CE.
    pub ecn: [u64; 4],
    /// Packets by DSCP.
    pub dscp: BTreeMap<u8, u64>,
}

/// QUIC connection.
#[derive(Clone, Debug)]
pub struct Quic {
    /// Version, if a packet with a long header was captured.
    pub version: Option<u32>,
    /// Name of the server in the ClientHello.
    pub name: Option<String>,
    /// Packets with a short header.
    pub short_packets: u64,
    /// Round trips by the spin bit.
    pub round_trips: Result<RoundTrips, Unknown>,
}

/// Protocol of a flow.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// TCP.
    Tcp(Box<Feedback>),
    /// UDP that is not recognised as QUIC.
    Udp,
    /// QUIC.
    Quic(Box<Quic>),
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Client and server.
    pub ends: [Endpoint; 2],
    /// Time of the first packet, ns.
    pub first_ns: i64,
    /// Time of the last packet, ns.
    pub last_ns: i64,
    /// Packets from the client, and from the server.
    pub directions: [Direction; 2],
    /// Protocol.
    pub protocol: Protocol,
}

/// Flows of a capture.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Flows, those with the most bytes first.
    pub flows: Vec<Flow>,
    /// Packets of flows beyond those that are watched.
    pub unwatched_packets: u64,
    /// Packets that are neither TCP nor UDP.
    pub other_packets: u64,
}

type End = (Address, u16);

/// QUIC of a flow while it is read.
#[derive(Default)]
struct Open {
    version: Option<u32>,
    initials: Initials,
    name: Option<String>,
    tries: u8,
    spin: Spin,
}

enum Content {
    Tcp(Box<Feedback>),
    Udp,
    Quic(Box<Open>),
}

struct Watched {
    client: End,
    server: End,
    first_ns: i64,
    last_ns: i64,
    /// Packets from the client, and from the server.
    directions: [Direction; 2],
    content: Content,
}

/// Watch of the flows in a capture.
#[derive(Default)]
pub struct Flows {
    flows: HashMap<(End, End, bool), Watched>,
    unwatched_packets: u64,
    other_packets: u64,
}

impl Flows {
    /// Takes the next packet, which arrived at this time.
    pub fn packet(&mut self, t_ns: i64, frame: &Frame<'_>) {
        let (is_tcp, ports) = match &frame.transport {
            Transport::Tcp(t) => (true, (t.src_port, t.dst_port)),
            Transport::Udp {
                src_port, dst_port, ..
            } => (false, (*src_port, *dst_port)),
            _ => {
                self.other_packets += 1;
                return;
            }
        };
        let ends = [(frame.src, ports.0), (frame.dst, ports.1)];
        let key = (ends[0].min(ends[1]), ends[0].max(ends[1]), is_tcp);
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&key) {
            self.unwatched_packets += 1;
            return;
        }
        let t_ns = t_ns.clamp(0, LATEST_NS);
        let new = || Watched::new(t_ns, ends, frame, is_tcp);
        let flow = self.flows.entry(key).or_insert_with(new);
        flow.packet(t_ns, ends[0], frame);
    }

    /// Evaluates the capture.
    pub fn finish(self) -> Found {
        let mut flows: Vec<Flow> = self.flows.into_values().map(Watched::finish).collect();
        let bytes = |f: &Flow| f.directions.iter().map(|d| d.bytes).sum::<u64>();
        flows.sort_by_key(|f| (std::cmp::Reverse(bytes(f)), f.first_ns, f.ends));
        Found {
            flows,
            unwatched_packets: self.unwatched_packets,
            other_packets: self.other_packets,
        }
    }
}

impl Watched {
    fn new(t_ns: i64, ends: [End; 2], frame: &Frame<'_>, is_tcp: bool) -> Watched {
        let opening = match &frame.transport {
            Transport::Tcp(t) => t.flags & (flag::SYN | flag::ACK),
            _ => 0,
        };
        let server = match opening {
            flag::SYN => ends[1],
            _ if opening & flag::SYN != 0 => ends[0],
            _ => likely_server(ends, is_tcp),
        };
        let client = if server == ends[0] { ends[1] } else { ends[0] };
        let content = match is_tcp {
            true => Content::Tcp(Box::default()),
            // Without its handshake QUIC shows its port, and in every packet the fixed bit.
            false if (client.1 == WEB) != (server.1 == WEB) => Content::Quic(Box::default()),
            false => Content::Udp,
        };
        Watched {
            client,
            server,
            first_ns: t_ns,
            last_ns: t_ns,
            directions: Default::default(),
            content,
        }
    }

    fn packet(&mut self, t_ns: i64, from: End, frame: &Frame<'_>) {
        self.first_ns = self.first_ns.min(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
        let side = usize::from(from != self.client);
        let d = &mut self.directions[side];
        d.packets += 1;
        d.bytes += u64::from(frame.ip_len);
        d.ecn[usize::from(frame.traffic_class & 3)] += 1;
        *d.dscp.entry(frame.traffic_class >> 2).or_default() += 1;
        match (&mut self.content, &frame.transport) {
            (Content::Tcp(feedback), Transport::Tcp(tcp)) => {
                feedback.packet(side, tcp, frame.body);
            }
            (_, Transport::Udp { .. }) => self.udp(t_ns, side, frame.body.get(8..).unwrap_or(&[])),
            _ => {}
        }
    }

    fn udp(&mut self, t_ns: i64, side: usize, data: &[u8]) {
        let Some(first) = data.first() else { return };
        let version = version(data);
        if let (Content::Udp, Some(_)) = (&self.content, version) {
            self.content = Content::Quic(Box::default());
        }
        let Content::Quic(open) = &mut self.content else {
            return;
        };
        if first & 0xc0 == 0x40 {
            open.spin.packet(side, t_ns, first & 0x20 != 0);
            return;
        }
        let Some(version) = version else {
            // Neither a short header nor a known version: not QUIC, if nothing has shown that it is.
            if open.version.is_none() {
                self.content = Content::Udp;
            }
            return;
        };
        open.version = Some(version);
        if open.name.is_some() || open.tries >= MOST_TRIES {
            return;
        }
        open.tries += 1;
        if open.initials.datagram(data) {
            match bare(&open.initials.handshake()) {
                Hello::Cut => {}
                Hello::Name(name) => open.name = Some(name),
                Hello::Without => open.tries = MOST_TRIES,
            }
            if side != CLIENT && open.spin.packets() == 0 {
                std::mem::swap(&mut self.client, &mut self.server);
                self.directions.swap(0, 1);
            }
        }
    }

    fn finish(self) -> Flow {
        let protocol = match self.content {
            Content::Tcp(feedback) => Protocol::Tcp(feedback),
            Content::Quic(open) if open.version.is_some() || open.spin.packets() > 0 => {
                Protocol::Quic(Box::new(Quic {
                    version: open.version,
                    name: open.name,
                    short_packets: open.spin.packets(),
                    round_trips: open.spin.round_trips(),
                }))
            }
            _ => Protocol::Udp,
        };
        let end = |(address, port): End| Endpoint { address, port };
        Flow {
            ends: [end(self.client), end(self.server)],
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            directions: self.directions,
            protocol,
        }
    }
}

/// Known version in a long header (RFC 9000 section 17.2): 1, 2, or a draft from 29 on.
fn version(data: &[u8]) -> Option<u32> {
    let [first, a, b, c, d, ..] = data else {
        return None;
    };
    let version = u32::from_be_bytes([*a, *b, *c, *d]);
    let is_known = matches!(version, 1 | 0x6b33_43cf | 0xff00_001d..=0xff00_0022);
    (first & 0xc0 == 0xc0 && is_known).then_some(version)
}
