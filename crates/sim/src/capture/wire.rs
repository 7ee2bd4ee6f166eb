//! Header fields that the engine omits and a capture shows: addresses, ports, wrapping sequence numbers,
//! identifications, windows, timestamps, and the handshake's options. All of them follow from the packets of a flow. So
//! they are kept here, only while a capture is written, and cost nothing otherwise.
//!
//! **Source**: RFC 7323, "TCP Extensions for High Performance" (2014), sections 2.3 and 4.3; RFC 3168, "The
//! Addition of Explicit Congestion Notification (ECN) to IP" (2001), section 6.1; RFC 8257 section 3.2; RFC 9768,
//! "More Accurate Explicit Congestion Notification (AccECN) Feedback in TCP", section 3.
//!
//! **Deviations**: if a scenario sets a header size other than 40 or 52 bytes, the rest follows the IP packet as a
//! trailer. A SYN carries its options even if the scenario's header has no room for them. A FIN takes a sequence number
//! here that the engine does not count.

use crate::network::Connection;
use crate::plan::{End, Plan};
use crate::segment::{SACK_BLOCKS, Segment, flag, window_scale};
use crate::topology::Graph;
use base::{Ecn, FlowId, Packet, PacketId, Time};
use congestion::EcnUse;
use measure::capture::compose::{self, Composed, Outer, Tcp, Udp};
use measure::capture::frame::flag as tcp_flag;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// First source port; there are `SOURCES` of them to each destination port. No dissector of Wireshark claims these ports.
const SOURCE_PORT: u32 = 50_000;
const DESTINATION_PORT: u32 = 38_000;
const SOURCES: u32 = 4096;

/// IP and TCP headers without options, and with timestamps, bytes.
const PLAIN: u64 = 40;
const STAMPED: u64 = 52;

/// Window that the sender of the data offers; it receives none. Linux's initial value.
const OWN_WINDOW: u16 = 64_240;
const OWN_SCALE: u8 = 7;

/// Address of a node: the private network 10.0.0.0/8 (RFC 1918 section 3) has room for every node.
pub fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + node)
}

/// Locally administered MAC address (IEEE 802, section 8.4): the second bit of the first byte is set.
fn mac(node: u32) -> [u8; 6] {
    let [a, b, c, d] = node.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// A direction of a flow.
#[derive(Clone, Copy, Debug)]
struct Stream {
    src: u32,
    dst: u32,
    src_port: u16,
    dst_port: u16,
    /// Identification of its next packet.
    id: u16,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Segments of a connection's sender, and those of its receiver.
    Data(u32),
    Acks(u32),
    Datagrams,
}

/// State that the two ends of a connection share.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Initial sequence numbers of sender and receiver, and their timestamp clocks at the start.
    isn: [u32; 2],
    clock: [u32; 2],
    /// Timestamps to echo, at the receiver and at the sender.
    recent: [u32; 2],
    /// Highest sequence number that the receiver has acknowledged.
    acknowledged: u64,
    /// True once the sender's first packet after its SYN has left.
    opened: bool,
    stamped: bool,
    sack: bool,
    mss: u16,
    receive_window: u64,
    scale: u8,
    ecn: Option<EcnUse>,
    /// Count of packets that arrived with CE, and true if the latest was one.
    ce_packets: u32,
    last_ce: bool,
    /// Payload bytes after which the sender has sent its FIN.
    ends_at: Option<u64>,
}

/// Header fields of one packet in flight that the engine does not hold.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    id: u16,
    /// Timestamp that it echoes.
    echo: u32,
    /// ECE, CWR and AE, as bits 0, 1 and 2: the ACE field of RFC 9768.
    ace: u8,
    hops: u8,
}

const ECE: u8 = 1;
const CWR: u8 = 2;
const AE: u8 = 4;

/// Header state of all flows of a network, and of the packets in flight.
pub struct Wires {
    /// Streams by the flow of packets.
    streams: Vec<Stream>,
    ends: Vec<Ends>,
    /// Notes by packet id.
    notes: Vec<Note>,
    /// Nodes at the ends of each link.
    links: Vec<(u32, u32)>,
    /// Hosts of each application, by its number.
    hosts: BTreeMap<usize, (u32, u32)>,
    /// Number of the next connection, for its ports.
    next: u32,
}

fn stream(hosts: (u32, u32), number: u32) -> Stream {
    Stream {
        src: hosts.0,
        dst: hosts.1,
        src_port: (SOURCE_PORT + number % SOURCES) as u16,
        dst_port: (DESTINATION_PORT + number / SOURCES % SOURCES) as u16,
        id: 1,
        what: What::Datagrams,
    }
}

impl Stream {
    fn turned(self) -> Stream {
        Stream {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..self
        }
    }
}

/// Spreads small numbers over the whole range (Knuth's multiplicative hash).
fn scattered(number: u32) -> u32 {
    number.wrapping_add(1).wrapping_mul(2_654_435_761)
}

fn ms(t: Time) -> u32 {
    (t.as_nanos() / 1_000_000) as u32
}

impl Wires {
    /// Creates the writers of a run's connections.
    pub fn new(graph: &Graph, plan: &Plan) -> Wires {
        let mut wires = Wires {
            streams: Vec::new(),
            ends: Vec::new(),
            hosts: BTreeMap::new(),
            next: plan.flows.len() as u32,
            notes: Vec::new(),
            links: graph
                .edges
                .iter()
                .map(|e| (e.from as u32, e.to as u32))
                .collect(),
        };
        for (number, flow) in plan.flows.iter().enumerate() {
            let there = stream(flow.hosts, number as u32);
            match flow.end {
                End::Tcp(i) => {
                    wires.hosts.insert(i, flow.hosts);
                    let own = plan.network.host(i).channels().iter();
                    for (channel, c) in own.enumerate() {
                        let number = (channel == 0).then_some(number as u32);
                        let connection = &plan.network.connections[*c];
                        wires.connect(connection, flow.hosts, number);
                    }
                }
                End::Datagrams(i) => {
                    let (flow, answers) = plan.network.datagrams[i].flows();
                    wires.add(flow, there);
                    if let Some(answers) = answers {
                        wires.add(answers, there.turned());
                    }
                }
            }
        }
        wires
    }

    /// Registers a connection that an application has opened.
    pub fn opened(&mut self, application: usize, connection: &Connection) {
        if let Some(hosts) = self.hosts.get(&application) {
            self.connect(connection, *hosts, None);
        }
    }

    fn connect(&mut self, connection: &Connection, hosts: (u32, u32), number: Option<u32>) {
        let number = number.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let hosts = match connection.is_back() {
            false => hosts,
            true => (hosts.1, hosts.0),
        };
        let at = self.ends.len() as u32;
        let there = stream(hosts, number);
        let (data, acks) = (What::Data(at), What::Acks(at));
        self.add(
            connection.flow(),
            Stream {
                what: data,
                ..there
            },
        );
        let back = there.turned();
        self.add(connection.back_flow(), Stream { what: acks, ..back });
        self.ends.push(ends(at, connection));
    }

    fn add(&mut self, flow: FlowId, stream: Stream) {
        let at = flow.0 as usize;
        if self.streams.len() <= at {
            self.streams.resize(at + 1, stream);
        }
        self.streams[at] = stream;
    }

    fn note(&mut self, packet: PacketId) -> &mut Note {
        let at = packet.0 as usize;
        if self.notes.len() <= at {
            self.notes.resize(at + 1, Note::default());
        }
        &mut self.notes[at]
    }

    /// Assigns the fields of a packet that leaves its host.
    pub fn sent(&mut self, packet: &Packet, segment: &Segment) {
        let stream = &mut self.streams[packet.flow.0 as usize];
        let id = stream.id;
        // Skips 0, which some readers take for an absent identification.
        stream.id = id.wrapping_add(1).max(1);
        let (echo, ace) = match stream.what {
            What::Data(c) => self.ends[c as usize].sent_data(segment),
            What::Acks(c) => self.ends[c as usize].sent_ack(segment),
            What::Datagrams => (0, 0),
        };
        *self.note(packet.id) = Note {
            id,
            echo,
            ace,
            hops: 0,
        };
    }

    /// Updates the receiving end with a packet that has arrived.
    pub fn received(&mut self, packet: &Packet, segment: &Segment) {
        match self.streams[packet.flow.0 as usize].what {
            What::Data(c) => self.ends[c as usize].received_data(packet, segment),
            What::Acks(c) => {
                let ends = &mut self.ends[c as usize];
                ends.recent[1] = ends.clock[1].wrapping_add(ms(segment.sent));
            }
            What::Datagrams => {}
        }
    }

    /// Counts a hop of a packet that enters a link; its TTL falls by one.
    pub fn hop(&mut self, packet: PacketId) {
        let note = self.note(packet);
        note.hops = note.hops.saturating_add(1);
    }

    /// Notes a second copy of a packet.
    pub fn copied(&mut self, packet: PacketId, copy: PacketId) {
        *self.note(copy) = *self.note(packet);
    }

    /// Frame of the packet as it is on that link.
    pub fn frame(&self, link: usize, packet: &Packet, segment: &Segment) -> Composed {
        let stream = &self.streams[packet.flow.0 as usize];
        let note = &self.notes[packet.id.0 as usize];
        let (from, to) = self.links[link];
        let outer = Outer {
            src_mac: mac(from),
            dst_mac: mac(to),
            src: address(stream.src),
            dst: address(stream.dst),
            id: note.id,
            ttl: 65u8.saturating_sub(note.hops).max(1),
            traffic_class: packet.dscp << 2 | packet.ecn.bits(),
        };
        let mut sack = [(0, 0); SACK_BLOCKS];
        let ports = (stream.src_port, stream.dst_port);
        let mut frame = match stream.what {
            What::Data(c) => {
                compose::tcp(&outer, &self.ends[c as usize].data(ports, note, segment))
            }
            What::Acks(c) => {
                let ends = &self.ends[c as usize];
                compose::tcp(&outer, &ends.ack(ports, note, segment, &mut sack))
            }
            What::Datagrams => compose::udp(
                &outer,
                &Udp {
                    src_port: ports.0,
                    dst_port: ports.1,
                    head: &segment.seq.to_be_bytes(),
                    payload: (packet.len.get() as u32).saturating_sub(28),
                },
            ),
        };
        frame.at_least(packet.len.get() as u32);
        frame
    }
}

fn ends(number: u32, connection: &Connection) -> Ends {
    let settings = connection.sender.settings();
    let stamped = settings.header.get() >= STAMPED;
    let options = if stamped { STAMPED - PLAIN } else { 0 };
    let window = settings.receive_window.get();
    // RFC 7323 section 2.3: at most 14.
    let scale = window_scale(window).min(14);
    Ends {
        isn: [
            scattered(number.wrapping_mul(4)),
            scattered(number.wrapping_mul(4) + 1),
        ],
        clock: [
            scattered(number.wrapping_mul(4) + 2),
            scattered(number.wrapping_mul(4) + 3),
        ],
        recent: [0; 2],
        acknowledged: 0,
        opened: !settings.handshake,
        stamped,
        sack: settings.sack,
        // MSS without the options of each segment (RFC 6691 section 3).
        mss: (settings.mss.get() + options).min(0xffff) as u16,
        receive_window: window,
        scale,
        ecn: connection.sender.ecn_use(),
        ce_packets: 0,
        last_ce: false,
        ends_at: None,
    }
}

impl Ends {
    /// Timestamp echo and ECN flags of a data segment.
    fn sent_data(&mut self, segment: &Segment) -> (u32, u8) {
        if segment.is(flag::SYN) {
            let ace = match self.ecn {
                None => 0,
                // RFC 3168 section 6.1.1 and RFC 9768 section 3.1.1.
                Some(EcnUse::Classic | EcnUse::Dctcp) => ECE | CWR,
                Some(EcnUse::L4s) => ECE | CWR | AE,
            };
            return (0, ace);
        }
        if segment.is(flag::FIN) {
            self.ends_at = Some(segment.end());
        }
        let first = !std::mem::replace(&mut self.opened, true);
        let ace = match self.ecn {
            // RFC 9768 section 3.2.2.1: the first ACK reports that the SYN/ACK came without ECT; no data has come with
            // CE since (section 3.2.2).
            Some(EcnUse::L4s) if first => 0b010,
            Some(EcnUse::L4s) => 0b101,
            _ if segment.is(flag::CWR) => CWR,
            _ => 0,
        };
        (self.recent[1], ace)
    }

    /// Timestamp echo and ECN flags of an ACK.
    fn sent_ack(&mut self, segment: &Segment) -> (u32, u8) {
        self.acknowledged = self.acknowledged.max(segment.ack);
        let ace = match (self.ecn, segment.is(flag::SYN)) {
            (None, _) => 0,
            (Some(EcnUse::Classic | EcnUse::Dctcp), true) => ECE,
            // RFC 9768 section 3.1.1: the SYN came without ECT.
            (Some(EcnUse::L4s), true) => 0b010,
            (Some(EcnUse::Classic), false) => u8::from(segment.is(flag::ECE)),
            // RFC 8257 section 3.2: ECE repeats the CE of the latest segment.
            (Some(EcnUse::Dctcp), false) => u8::from(self.last_ce),
            // RFC 9768 section 3.2.1: a counter that starts at 5.
            (Some(EcnUse::L4s), false) => ((5 + self.ce_packets) & 7) as u8,
        };
        (self.recent[0], ace)
    }

    fn received_data(&mut self, packet: &Packet, segment: &Segment) {
        self.last_ce = packet.ecn == Ecn::Ce;
        self.ce_packets = self.ce_packets.wrapping_add(u32::from(self.last_ce));
        let value = self.clock[0].wrapping_add(ms(segment.sent));
        let newer = value.wrapping_sub(self.recent[0]) as i32 >= 0;
        // RFC 7323 section 4.3: the echo is the timestamp of the earliest segment not acknowledged yet.
        let first = self.acknowledged == 0 && segment.seq == 0;
        if first || (newer && segment.seq <= self.acknowledged) {
            self.recent[0] = value;
        }
    }

    fn number(&self, end: usize, position: u64) -> u32 {
        self.isn[end].wrapping_add(1).wrapping_add(position as u32)
    }

    /// True if a FIN follows the byte before that position.
    fn is_end(&self, position: u64) -> bool {
        self.ends_at == Some(position)
    }

    fn header(
        &self,
        ports: (u16, u16),
        note: &Note,
        end: usize,
        segment: &Segment,
    ) -> Tcp<'static> {
        let syn = segment.is(flag::SYN);
        let value = self.clock[end].wrapping_add(ms(segment.sent));
        let bit = |ace: u8, bit: u8| if note.ace & ace != 0 { bit } else { 0 };
        Tcp {
            src_port: ports.0,
            dst_port: ports.1,
            seq: 0,
            ack: 0,
            flags: bit(ECE, tcp_flag::ECE)
                | bit(CWR, tcp_flag::CWR)
                | if syn { tcp_flag::SYN } else { tcp_flag::ACK },
            accurate: note.ace & AE != 0,
            window: 0,
            mss: syn.then_some(self.mss),
            window_scale: None,
            sack_permitted: syn && self.sack,
            timestamps: self.stamped.then_some((value, note.echo)),
            sack: &[],
            payload: segment.len,
        }
    }

    fn data(&self, ports: (u16, u16), note: &Note, segment: &Segment) -> Tcp<'static> {
        let syn = segment.is(flag::SYN);
        let header = self.header(ports, note, 0, segment);
        if syn {
            return Tcp {
                seq: self.isn[0],
                window: OWN_WINDOW,
                window_scale: Some(OWN_SCALE),
                ..header
            };
        }
        let bit = |ours: u8, wire: u8| if segment.is(ours) { wire } else { 0 };
        // The acknowledgement of the other end's FIN follows this end's own FIN.
        let last = segment.len == 0 && self.is_end(segment.seq);
        Tcp {
            seq: self.number(0, segment.seq + u64::from(last)),
            ack: self.number(1, u64::from(last)),
            flags: header.flags | bit(flag::FIN, tcp_flag::FIN) | bit(flag::PSH, tcp_flag::PSH),
            window: OWN_WINDOW >> OWN_SCALE,
            ..header
        }
    }

    fn ack<'a>(
        &self,
        ports: (u16, u16),
        note: &Note,
        segment: &Segment,
        sack: &'a mut [(u32, u32); SACK_BLOCKS],
    ) -> Tcp<'a> {
        let header = self.header(ports, note, 1, segment);
        let bytes = u64::from(segment.window) << window_scale(self.receive_window);
        if segment.is(flag::SYN) {
            return Tcp {
                seq: self.isn[1],
                ack: self.number(0, 0),
                flags: header.flags | tcp_flag::ACK,
                window: bytes.min(0xffff) as u16,
                window_scale: Some(self.scale),
                ..header
            };
        }
        let after = |position: u64| self.number(0, position + u64::from(self.is_end(position)));
        let blocks = segment.blocks();
        for (to, (left, right)) in sack.iter_mut().zip(blocks) {
            *to = (self.number(0, *left), after(*right));
        }
        Tcp {
            seq: self.number(1, 0),
            ack: after(segment.ack),
            flags: header.flags
                | if segment.is(flag::FIN) {
                    tcp_flag::FIN
                } else {
                    0
                },
            window: (bytes >> self.scale).min(0xffff) as u16,
            sack: &sack[..blocks.len()],
            ..header
        }
    }
}
