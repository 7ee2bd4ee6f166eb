//! Connections in a capture: which packets belong together, and what each direction did.
//!
//! **Source.** RFC 9293 (TCP), RFC 6298 (Karn's rule), RFC 2018 and RFC 2883 (SACK, D-SACK),
//! RFC 7323 (timestamps, window scale). Counts follow tcptrace's meaning where it is right, so that
//! both can be laid side by side; **Deviations** stand in the book's page on traces.
//! **Units.** Times in nanoseconds since 1970, sequence space in bytes, extended to 64 bits.

mod half;
mod segments;
mod table;

pub use half::{Break, Cause, Counts, Half, Reordering, Retransmission, RoundTrips};

use crate::capture::frame::{Address, Frame, Tcp, Transport, flag};
use std::net::{IpAddr, Ipv6Addr};
use table::Table;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub address: Address,
    pub port: u16,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Ipv6Addr::from(self.address).to_canonical() {
            IpAddr::V4(four) => write!(f, "{four}:{}", self.port),
            IpAddr::V6(six) => write!(f, "[{six}]:{}", self.port),
        }
    }
}

/// How packets are put together.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Leave out a packet that was captured twice (on two interfaces, or by a mirror port).
    pub deduplicate: bool,
    /// Connections held at most; beyond it the one that was silent for longest is closed early.
    pub most_live: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            deduplicate: true,
            most_live: 1_000_000,
        }
    }
}

/// A connection; its first packet went from `a` to `b`.
#[derive(Clone, Debug)]
pub struct Connection {
    pub a: Endpoint,
    pub b: Endpoint,
    pub first_ns: i64,
    pub last_ns: i64,
    /// What `a` sent, and what `b` sent.
    pub halves: [Half; 2],
    /// Packets whose time was before that of the packet ahead of them; taken at its time.
    pub backward: u64,
    /// Captured twice, and left out.
    pub duplicates: u64,
    /// Reset by either end.
    pub reset: bool,
}

impl Connection {
    fn new(a: Endpoint, b: Endpoint, t: i64) -> Connection {
        Connection {
            a,
            b,
            first_ns: t,
            last_ns: t,
            halves: Default::default(),
            backward: 0,
            duplicates: 0,
            reset: false,
        }
    }

    pub fn packets(&self) -> u64 {
        self.halves.iter().map(|h| h.counts.packets).sum()
    }

    /// Both ends have said their last byte, and heard the other's.
    fn closed(&self) -> bool {
        self.reset || self.halves.iter().all(Half::finished)
    }

    /// Whether a SYN of this direction begins another connection between the same ports: after the end of
    /// this one, or while nothing but SYNs of another sequence number were sent.
    fn superseded_by(&self, tcp: &Tcp<'_>, direction: usize) -> bool {
        if !tcp.has(flag::SYN) || tcp.has(flag::RST) {
            return false;
        }
        let half = &self.halves[direction];
        match half.initial_seq() {
            Some(initial) => initial != tcp.seq,
            // Data was seen before any SYN: this one belongs to what comes.
            None => half.counts.packets > 0 && !half.expects(tcp.seq),
        }
    }

    fn packet(
        &mut self,
        t: i64,
        direction: usize,
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        settings: &Settings,
    ) {
        let t = if t < self.last_ns {
            self.backward += 1;
            self.last_ns
        } else {
            t
        };
        let options = tcp.parse_options();
        if settings.deduplicate && self.halves[direction].is_copy(t, frame, tcp, &options) {
            self.duplicates += 1;
            return;
        }
        self.last_ns = t;
        let [first, second] = &mut self.halves;
        let (sender, receiver) = if direction == 0 {
            (first, second)
        } else {
            (second, first)
        };
        sender.note(t, frame, tcp, &options, receiver);
        if tcp.has(flag::RST) {
            self.reset = true;
            return;
        }
        sender.data(t, frame, tcp, &options, receiver.advertised());
        if tcp.has(flag::ACK) {
            receiver.acknowledged(t, tcp, &options, sender);
        }
    }
}

/// UDP between two ends; nothing but sizes can be known of one capture.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub a: Endpoint,
    pub b: Endpoint,
    pub first_ns: i64,
    pub last_ns: i64,
    pub packets: [u64; 2],
    /// Payload.
    pub bytes: [u64; 2],
}

/// What a whole capture held.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub packets: u64,
    pub bytes: u64,
    pub tcp_packets: u64,
    pub tcp_bytes: u64,
    pub udp_packets: u64,
    pub udp_bytes: u64,
    /// Neither TCP nor UDP, or not IP.
    pub other_packets: u64,
    /// Kept too short to hold the transport header.
    pub cut_packets: u64,
    /// First fragments, and those after them.
    pub first_fragments: u64,
    pub later_fragments: u64,
    /// Packets without a time, which no connection can use.
    pub untimed_packets: u64,
    /// Connections closed before their end because too many were open.
    pub evicted: u64,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
}

/// Puts the packets of a capture together.
#[derive(Debug, Default)]
pub struct Tracker {
    settings: Settings,
    live: Table<Connection>,
    udp: Table<Conversation>,
    done: Vec<Connection>,
    pub totals: Totals,
}

impl Tracker {
    pub fn new(settings: Settings) -> Tracker {
        Tracker {
            settings,
            ..Tracker::default()
        }
    }

    /// One packet; `wire_len` is the frame's length on the wire.
    pub fn packet(&mut self, t_ns: Option<i64>, wire_len: u32, frame: Option<&Frame<'_>>) {
        let totals = &mut self.totals;
        totals.packets += 1;
        totals.bytes += u64::from(wire_len);
        let Some(t) = t_ns else {
            totals.untimed_packets += 1;
            return;
        };
        totals.first_ns = Some(totals.first_ns.map_or(t, |f| f.min(t)));
        totals.last_ns = Some(totals.last_ns.map_or(t, |l| l.max(t)));
        let Some(frame) = frame else {
            totals.other_packets += 1;
            return;
        };
        match frame.fragment {
            Some(f) if f.offset > 0 => totals.later_fragments += 1,
            Some(_) => totals.first_fragments += 1,
            None => {}
        }
        match &frame.transport {
            Transport::Tcp(tcp) => {
                totals.tcp_packets += 1;
                totals.tcp_bytes += u64::from(wire_len);
                self.tcp(t, frame, tcp);
            }
            Transport::Udp {
                src_port,
                dst_port,
                payload,
            } => {
                totals.udp_packets += 1;
                totals.udp_bytes += u64::from(wire_len);
                let ends = ends(frame, *src_port, *dst_port);
                self.udp(t, ends, *payload);
            }
            Transport::Other { .. } => totals.other_packets += 1,
            Transport::Cut { .. } => totals.cut_packets += 1,
        }
    }

    fn tcp(&mut self, t: i64, frame: &Frame<'_>, tcp: &Tcp<'_>) {
        let (src, dst) = ends(frame, tcp.src_port, tcp.dst_port);
        let mut at = self.live.find(src, dst);
        if let Some(i) = at
            && self.live[i].superseded_by(tcp, usize::from(self.live[i].a != src))
        {
            self.done.push(self.live.remove(i));
            at = None;
        }
        let i = at.unwrap_or_else(|| {
            if self.live.len() >= self.settings.most_live {
                self.make_room();
            }
            self.live.insert(src, dst, Connection::new(src, dst, t))
        });
        let connection = &mut self.live[i];
        let direction = usize::from(connection.a != src);
        connection.packet(t, direction, frame, tcp, &self.settings);
    }

    fn udp(&mut self, t: i64, (src, dst): (Endpoint, Endpoint), payload: u32) {
        if self.udp.len() >= self.settings.most_live && self.udp.find(src, dst).is_none() {
            self.totals.evicted += 1;
            return;
        }
        let i = self.udp.find(src, dst).unwrap_or_else(|| {
            let new = Conversation {
                a: src,
                b: dst,
                first_ns: t,
                last_ns: t,
                packets: [0; 2],
                bytes: [0; 2],
            };
            self.udp.insert(src, dst, new)
        });
        let c = &mut self.udp[i];
        let direction = usize::from(c.a != src);
        c.last_ns = c.last_ns.max(t);
        c.packets[direction] += 1;
        c.bytes[direction] += u64::from(payload);
    }

    /// Closes what is over, and of the rest the half that was silent for longest.
    #[cold]
    fn make_room(&mut self) {
        let mut by_age: Vec<(bool, i64, usize)> = self
            .live
            .iter()
            .map(|(i, c)| (!c.closed(), c.last_ns, i))
            .collect();
        by_age.sort_unstable();
        for (_, _, i) in by_age.into_iter().take(self.settings.most_live / 2 + 1) {
            let c = self.live.remove(i);
            // A connection of a single packet said nothing that the totals do not hold.
            if c.packets() > 1 {
                self.done.push(c);
            }
            self.totals.evicted += 1;
        }
    }

    /// Everything seen, connections in the order in which they began.
    pub fn finish(mut self) -> Traffic {
        let mut connections = self.done;
        connections.extend(self.live.drain());
        for c in &mut connections {
            c.halves.iter_mut().for_each(Half::finish);
        }
        connections.sort_by_key(|c| (c.first_ns, c.a, c.b));
        let mut conversations: Vec<Conversation> = self.udp.drain().collect();
        conversations.sort_by_key(|c| (c.first_ns, c.a, c.b));
        Traffic {
            totals: self.totals,
            connections,
            conversations,
        }
    }
}

/// What a capture held, put together.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub totals: Totals,
    pub connections: Vec<Connection>,
    pub conversations: Vec<Conversation>,
}

#[inline]
fn ends(frame: &Frame<'_>, src_port: u16, dst_port: u16) -> (Endpoint, Endpoint) {
    let end = |address, port| Endpoint { address, port };
    (end(frame.src, src_port), end(frame.dst, dst_port))
}
