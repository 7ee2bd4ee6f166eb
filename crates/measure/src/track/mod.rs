//! Connections in a capture: groups packets into connections and follows each direction.
//!
//! **Source.** RFC 9293 (TCP), RFC 6298 (Karn's rule), RFC 2018 and RFC 2883 (SACK, D-SACK), RFC 7323 (timestamps,
//! window scale). Counters have tcptrace's meaning where it is right, so that both can be compared; **Deviations** are
//! listed in the book's page on traces. **Units.** Times in nanoseconds since 1970, sequence space in bytes, extended
//! to 64 bits.

mod act;
mod afar;
pub mod ages;
mod bursts;
mod connection;
pub(crate) mod copies;
mod detail;
mod events;
mod habit;
mod half;
mod key;
mod limits;
mod packet;
pub mod queue;
mod segments;
mod table;
mod tally;
mod watch;

pub use act::Act;
pub use bursts::{BurstKind, Bursts};
pub use connection::Connection;
pub use detail::{Bin, Course, Detail};
pub use events::{Blame, Break, Cause, Events, Loss, Mark, MarkKind, Reordering, Retransmission};
pub use half::{Counts, Half, RoundTrips};
pub use key::Endpoint;
pub use limits::Limited;
pub use tally::Quantiles;
pub use watch::Watch;

use crate::capture::Record;
use crate::capture::frame::{self, Frame, Options, Transport, flag};
use copies::Copies;
use half::Side;
use key::{Key, Seeds};
use packet::{Batch, Flow, Packet};
use std::collections::VecDeque;
use table::{Table, Touch};
use tally::count;

/// Settings of the tracker.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Leave out a packet that was captured twice (on two interfaces, or by a mirror port).
    pub deduplicate: bool,
    /// Maximum number of live connections; beyond it the longest silent ones are closed early.
    pub most_live: usize,
    /// Maximum number of finished connections listed; beyond it the smaller ones are forgotten.
    pub most_done: usize,
    /// Secret number unknown to anyone who sends packets. It determines the places of connections in memory, and has no
    /// effect on results.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            deduplicate: true,
            most_live: 1_000_000,
            most_done: 4_000_000,
            seed: 0,
        }
    }
}

/// A live connection.
#[derive(Debug)]
struct Live {
    number: u32,
    reset: bool,
    /// True while it waits for its last packets.
    closing: bool,
    /// True if `a` is the higher end of its key.
    swapped: bool,
    first_ns: i64,
    last_ns: i64,
    backward: u64,
    backward_most_ns: i64,
    sides: [Side; 2],
}

impl Touch for Live {
    fn touch(&self) -> u64 {
        let [a, b] = &self.sides;
        self.last_ns as u64 ^ a.touch() ^ b.touch()
    }
}

impl Live {
    fn new(number: u32, p: &Packet) -> Live {
        Live {
            number,
            reset: false,
            closing: false,
            swapped: p.swapped,
            first_ns: p.t,
            last_ns: p.t,
            backward: 0,
            backward_most_ns: 0,
            sides: Default::default(),
        }
    }

    fn packets(&self) -> u64 {
        self.sides.iter().map(|s| s.half.counts.packets).sum()
    }

    /// True if both ends have sent their last byte and received the other's.
    #[inline]
    fn closed(&self) -> bool {
        self.reset || self.sides.iter().all(Side::finished)
    }

    fn end(self, key: &Key) -> Connection {
        let twice = self.sides.each_ref().map(|s| s.half.held_twice());
        let [there, back] = self.sides;
        let [low, high] = key.ends();
        let (a, b) = if self.swapped {
            (high, low)
        } else {
            (low, high)
        };
        Connection {
            number: self.number,
            a,
            b,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            halves: [there.finish(), back.finish()],
            backward: self.backward,
            backward_most_ns: self.backward_most_ns,
            duplicates: twice[0].0 + twice[1].0,
            doubled: twice[0].1 + twice[1].1,
            reset: self.reset,
        }
    }

    /// True for a SYN that starts another connection between the same ports. It comes after the end of this one, or
    /// while only SYNs of another sequence number were sent. A repeated answer to this connection's SYN does not count.
    #[inline(never)]
    fn superseded_by(&self, p: &Packet) -> bool {
        if p.has(flag::RST) {
            return false;
        }
        let direction = usize::from(self.swapped != p.swapped);
        let asked = self.sides[1 - direction].initial_seq();
        if p.has(flag::ACK) && asked.is_some_and(|isn| p.ack == isn.wrapping_add(1)) {
            return false;
        }
        let side = &self.sides[direction];
        match side.initial_seq() {
            Some(initial) => initial != p.seq,
            // Data was seen before any SYN: this SYN belongs to the following data.
            None => side.half.counts.packets > 0 && !side.expects(p.seq),
        }
    }

    #[inline(always)]
    fn packet<W: Watch>(
        &mut self,
        p: &mut Packet,
        options: &Options,
        copies: Option<&mut Copies>,
        watch: &mut W,
    ) {
        let t = p.t;
        if t < self.last_ns {
            self.backward += 1;
            self.backward_most_ns = self.backward_most_ns.max(self.last_ns - t);
            p.t = self.last_ns;
        }
        let direction = usize::from(self.swapped != p.swapped);
        let [first, second] = &mut self.sides;
        let (sender, receiver) = if direction == 0 {
            (first, second)
        } else {
            (second, first)
        };
        if let Some(copies) = copies {
            let news = sender.is_news(p);
            let soonest = if news {
                None
            } else {
                sender.least_round_trip()
            };
            let twice = &mut sender.half.twice;
            if let Some(found) = copies.seen(p, (t, self.number), news, soonest, twice) {
                sender.came_twice(p, found);
                return;
            }
        }
        self.last_ns = p.t;
        sender.note(p, options, receiver);
        watch.turn(self.number, direction);
        if p.has(flag::RST) {
            self.reset = true;
            return;
        }
        sender.data(p, receiver, &mut |act| watch.act(act));
        if p.has(flag::ACK) {
            watch.turn(self.number, 1 - direction);
            receiver.acknowledged(p, options, sender, &mut |act| watch.act(act));
        }
    }
}

/// UDP between two ends; a single capture shows nothing but sizes.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// First endpoint.
    pub a: Endpoint,
    /// Other endpoint.
    pub b: Endpoint,
    /// Time of the first packet, ns.
    pub first_ns: i64,
    /// Time of the last packet, ns.
    pub last_ns: i64,
    /// Packets of each direction.
    pub packets: [u64; 2],
    /// Payload bytes by direction.
    pub bytes: [u64; 2],
}

/// Totals of a capture.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Packets of the capture.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// Packets of TCP.
    pub tcp_packets: u64,
    /// Bytes of TCP's packets.
    pub tcp_bytes: u64,
    /// Packets of UDP.
    pub udp_packets: u64,
    /// Bytes of UDP's packets.
    pub udp_bytes: u64,
    /// Packets that are neither TCP nor UDP, or not IP.
    pub other_packets: u64,
    /// Packets that are not IP, or whose link layer cannot be read; part of `other_packets`.
    pub unread_packets: u64,
    /// Packets of tunnels, whose contents are not read, in the order of [`TUNNELS`].
    pub tunnelled_packets: [u64; TUNNELS.len()],
    /// Packets with an earlier time than the packet before them, and the largest such difference.
    pub backward_packets: u64,
    /// Largest step backward of the times, ns.
    pub backward_most_ns: i64,
    /// Packets captured too short to hold the transport header.
    pub cut_packets: u64,
    /// Packets captured too short to hold all TCP options.
    pub cut_options_packets: u64,
    /// First fragments, and later fragments.
    pub first_fragments: u64,
    /// Fragments after the first.
    pub later_fragments: u64,
    /// Packets without a time, which no connection can use.
    pub untimed_packets: u64,
    /// Connections closed before their end because too many were open.
    pub evicted: u64,
    /// Finished connections that are not listed because there were too many.
    pub not_listed: u64,
    /// Time of the first packet, ns.
    pub first_ns: Option<i64>,
    /// Time of the last packet, ns.
    pub last_ns: Option<i64>,
}

/// Tunnels by name: IP protocol, or UDP port.
pub const TUNNELS: [(&str, u16); 11] = [
    ("IPv4 in IP", 4),
    ("IPv6 in IP", 41),
    ("GRE", 47),
    ("ESP", 50),
    ("MPLS in IP", 137),
    ("VXLAN", 4789),
    ("GTP-U", 2152),
    ("Geneve", 6081),
    ("L2TP", 1701),
    ("ESP in UDP", 4500),
    ("WireGuard", 51820),
];
/// Number of tunnels that are IP protocols.
const PROTOCOLS: usize = 5;

impl Totals {
    fn protocol(&mut self, protocol: u8) {
        let known = |(_, number): &(&str, u16)| *number == u16::from(protocol);
        if let Some(i) = TUNNELS[..PROTOCOLS].iter().position(known) {
            self.tunnelled_packets[i] += 1;
        }
    }

    fn ports(&mut self, ports: [u16; 2]) {
        let known = |(_, number): &(&str, u16)| ports.contains(number);
        if let Some(i) = TUNNELS[PROTOCOLS..].iter().position(known) {
            self.tunnelled_packets[PROTOCOLS + i] += 1;
        }
    }

    /// Extends the time range backward: the first packet's time, or a time before the latest.
    #[cold]
    fn earlier(&mut self, t: i64) {
        if let Some(last) = self.last_ns {
            self.backward_packets += 1;
            self.backward_most_ns = self.backward_most_ns.max(last - t);
        }
        self.first_ns = Some(self.first_ns.map_or(t, |f| f.min(t)));
        self.last_ns = Some(self.last_ns.map_or(t, |l| l.max(t)));
    }
}

/// Groups the packets of a capture into connections.
#[derive(Debug)]
pub struct Tracker {
    settings: Settings,
    live: Table<Live>,
    udp: Table<Conversation>,
    done: Vec<Connection>,
    /// Finished connections, each with the time from which no more packets of it are expected.
    closing: VecDeque<(i64, u32, u32)>,
    /// Lower bound of these times.
    closing_next: i64,
    copies: Copies,
    begun: u32,
    /// Current batch; `None` only while it is followed.
    batch: Option<Box<Batch>>,
    /// Sums over the capture so far.
    pub totals: Totals,
}

const BATCH_IS_THERE: &str = "packets are taken in while none are followed";
/// Latest accepted time: the year 2116. A damaged file may claim any time, and differences must not overflow.
const LATEST_NS: i64 = 1 << 62;
/// Number of connections below which a core's own cache holds everything.
const FEW: usize = 1024;
/// Time that a connection waits for late packets after its last one, ns.
const LINGER_NS: i64 = 10_000_000_000;

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::new(Settings::default())
    }
}

impl Tracker {
    /// Creates a tracker.
    pub fn new(settings: Settings) -> Tracker {
        let seeds = Seeds::new(settings.seed);
        Tracker {
            settings,
            live: Table::new(seeds),
            udp: Table::new(seeds),
            done: Vec::new(),
            closing: VecDeque::new(),
            closing_next: i64::MAX,
            copies: Copies::default(),
            begun: 0,
            batch: Some(Box::default()),
            totals: Totals::default(),
        }
    }

    /// Adds a packet as it was captured. Its effect is known one batch later, or at the end.
    #[inline(always)]
    pub fn record(&mut self, record: &Record<'_>) {
        let batch = self.batch.as_mut().expect(BATCH_IS_THERE);
        let t = record.t_ns.unwrap_or(-1);
        // Packets in order, at a plausible time.
        let plain = self
            .totals
            .last_ns
            .is_some_and(|last| (last..=LATEST_NS).contains(&t))
            && batch.push_plain((t, self.totals.packets + 1), record, &self.live.seeds);
        if plain {
            let totals = &mut self.totals;
            let bytes = u64::from(record.original_len);
            totals.last_ns = Some(t);
            count(&mut totals.packets, 1);
            count(&mut totals.bytes, bytes);
            count(&mut totals.tcp_packets, 1);
            count(&mut totals.tcp_bytes, bytes);
            if batch.is_full() {
                self.settle();
            }
        } else {
            self.other_record(record);
        }
    }

    #[inline(never)]
    fn other_record(&mut self, record: &Record<'_>) {
        let frame = frame::parse(record);
        self.packet(record.t_ns, record.original_len, frame.as_ref());
    }

    /// Adds a packet whose headers were parsed already; `wire_len` is the frame's length on the wire.
    #[inline]
    pub fn packet(&mut self, t_ns: Option<i64>, wire_len: u32, frame: Option<&Frame<'_>>) {
        self.take(t_ns, wire_len, frame);
        if self.batch.as_ref().is_some_and(|b| b.is_full()) {
            self.settle();
        }
    }

    /// Adds a packet and reports its effect to `watch` at once.
    #[inline]
    pub fn packet_watched<W: Watch>(
        &mut self,
        t_ns: Option<i64>,
        wire_len: u32,
        frame: Option<&Frame<'_>>,
        watch: &mut W,
    ) {
        self.settle();
        self.take(t_ns, wire_len, frame);
        self.follow(watch);
    }

    /// Counts a packet; a TCP packet waits in the batch.
    #[inline(always)]
    fn take(&mut self, t_ns: Option<i64>, wire_len: u32, frame: Option<&Frame<'_>>) {
        let totals = &mut self.totals;
        totals.packets += 1;
        totals.bytes += u64::from(wire_len);
        let Some(t) = t_ns.map(|t| t.clamp(0, LATEST_NS)) else {
            totals.untimed_packets += 1;
            return;
        };
        match &mut totals.last_ns {
            Some(last) if *last <= t => *last = t,
            _ => totals.earlier(t),
        }
        let Some(frame) = frame else {
            totals.other_packets += 1;
            totals.unread_packets += 1;
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
                totals.cut_options_packets += u64::from(tcp.options_cut);
                let batch = self.batch.as_mut().expect(BATCH_IS_THERE);
                batch.push((t, totals.packets), frame, tcp, &self.live.seeds);
            }
            Transport::Udp {
                src_port,
                dst_port,
                payload,
            } => {
                totals.udp_packets += 1;
                totals.udp_bytes += u64::from(wire_len);
                totals.ports([*src_port, *dst_port]);
                self.udp(t, frame, (*src_port, *dst_port), *payload);
            }
            Transport::Other { protocol } => {
                totals.other_packets += 1;
                totals.protocol(*protocol);
            }
            Transport::Cut { .. } => totals.cut_packets += 1,
        }
    }

    /// Follows the packets of the batch.
    #[inline(never)]
    fn settle(&mut self) {
        self.follow(&mut ());
    }

    #[inline(always)]
    fn follow<W: Watch>(&mut self, watch: &mut W) {
        let mut batch = self.batch.take().expect(BATCH_IS_THERE);
        if self.live.len() > FEW {
            self.live.fetch(&batch.flows);
        }
        let (packets, flows, options) = batch.parts();
        for packet in packets {
            let flow = &mut flows[usize::from(packet.flow)];
            self.tcp(packet, flow, packet.rest(options), watch);
        }
        batch.clear();
        self.batch = Some(batch);
    }

    #[inline(always)]
    fn tcp<W: Watch>(&mut self, p: &mut Packet, flow: &mut Flow, options: &Options, watch: &mut W) {
        // No other connection had that number: if it is still there, its ends are the same.
        let same = |l: &Live| l.number == flow.number;
        let there = self.live.get(flow.place as usize).is_some_and(same);
        if !there || p.has(flag::SYN) {
            self.locate(p, flow, watch);
        }
        let i = flow.place as usize;
        let live = &mut self.live[i];
        let copies = self.settings.deduplicate.then_some(&mut self.copies);
        live.packet(p, options, copies, watch);
        if p.has(flag::FIN | flag::RST) && !live.closing && live.closed() {
            live.closing = true;
            self.closing
                .push_back((p.t + LINGER_NS, i as u32, live.number));
            self.closing_next = self.closing_next.min(p.t + LINGER_NS);
        }
        if self.closing_next < p.t {
            self.retire(p.t, watch);
        }
    }

    /// Stores in `flow` the place of a packet's connection; the packet may be its first.
    #[inline(never)]
    fn locate<W: Watch>(&mut self, p: &Packet, flow: &mut Flow, watch: &mut W) {
        let mut at = self.live.find(&flow.key, flow.hash);
        if p.has(flag::SYN)
            && let Some(i) = at
            && self.live[i].superseded_by(p)
        {
            self.end(i, watch);
            at = None;
        }
        let i = match at {
            Some(i) => i,
            None => self.begin(p, flow, watch),
        };
        (flow.place, flow.number) = (i as u32, self.live[i].number);
    }

    #[cold]
    fn begin<W: Watch>(&mut self, p: &Packet, flow: &Flow, watch: &mut W) -> usize {
        if self.live.len() >= self.settings.most_live {
            self.make_room(watch);
        }
        let number = self.begun;
        self.begun = self.begun.wrapping_add(1);
        self.live.insert(flow.key, flow.hash, Live::new(number, p))
    }

    /// Removes connections that were over and stayed silent since.
    #[cold]
    fn retire<W: Watch>(&mut self, t: i64, watch: &mut W) {
        while let Some((until, i, number)) = self.closing.front().copied() {
            self.closing_next = until;
            if until >= t {
                return;
            }
            self.closing.pop_front();
            let Some(live) = self.live.get(i as usize).filter(|l| l.number == number) else {
                continue;
            };
            let quiet = live.last_ns + LINGER_NS;
            if quiet < t {
                self.end(i as usize, watch);
            } else {
                self.closing.push_back((quiet.max(until), i, number));
            }
        }
        self.closing_next = i64::MAX;
    }

    fn end<W: Watch>(&mut self, i: usize, watch: &mut W) {
        let (key, live) = self.live.remove(i);
        let connection = live.end(&key);
        watch.over(&connection);
        self.keep(connection);
    }

    /// Stores a finished connection; of too many only the larger ones stay.
    fn keep(&mut self, connection: Connection) {
        self.done.push(connection);
        if self.done.len() > self.settings.most_done {
            let carried =
                |c: &Connection| c.halves.iter().map(|h| h.counts.data_bytes).sum::<u64>();
            self.done.sort_by_key(|c| std::cmp::Reverse(carried(c)));
            let keep = self.settings.most_done / 2;
            self.totals.not_listed += (self.done.len() - keep) as u64;
            self.done.truncate(keep);
        }
    }

    fn udp(&mut self, t: i64, frame: &Frame<'_>, (src_port, dst_port): (u16, u16), payload: u32) {
        let (key, _) = Key::new(&frame.src, src_port, &frame.dst, dst_port);
        let (src, dst) = ends(frame, src_port, dst_port);
        let hash = key.hash(&self.udp.seeds);
        let i = match self.udp.find(&key, hash) {
            Some(i) => i,
            None if self.udp.len() >= self.settings.most_live => {
                self.totals.evicted += 1;
                return;
            }
            None => {
                let new = Conversation {
                    a: src,
                    b: dst,
                    first_ns: t,
                    last_ns: t,
                    packets: [0; 2],
                    bytes: [0; 2],
                };
                self.udp.insert(key, hash, new)
            }
        };
        let c = &mut self.udp[i];
        let direction = usize::from(c.a != src);
        c.last_ns = c.last_ns.max(t);
        c.packets[direction] += 1;
        c.bytes[direction] += u64::from(payload);
    }

    /// Closes finished connections, and half of the others: the longest silent ones, half-open ones first.
    #[cold]
    fn make_room<W: Watch>(&mut self, watch: &mut W) {
        let mut by_age: Vec<(u8, i64, u32)> = self
            .live
            .iter()
            .map(|(i, l)| {
                let rank = if l.closed() {
                    0
                } else if l.sides.iter().any(|s| s.half.counts.packets == 0) {
                    1
                } else {
                    2
                };
                (rank, l.last_ns, i as u32)
            })
            .collect();
        let most = self.settings.most_live / 2 + 1;
        if most < by_age.len() {
            by_age.select_nth_unstable(most);
            by_age.truncate(most);
        }
        for (_, _, i) in by_age {
            self.totals.evicted += 1;
            // A connection of a single packet adds nothing to the totals.
            if self.live[i as usize].packets() > 1 {
                self.end(i as usize, watch);
            } else {
                self.live.remove(i as usize);
            }
        }
    }

    /// Number of live connections, and of finished ones.
    pub fn connections(&self) -> (usize, usize) {
        (self.live.len(), self.done.len())
    }

    /// Result of the whole capture, connections in the order of their start.
    pub fn finish(self) -> Traffic {
        self.finish_watched(&mut ())
    }

    /// Result of the whole capture; `watch` gets the connections that end only now.
    pub fn finish_watched<W: Watch>(mut self, watch: &mut W) -> Traffic {
        self.follow(watch);
        let mut connections = std::mem::take(&mut self.done);
        while let Some((key, live)) = self.live.pop() {
            let connection = live.end(&key);
            watch.over(&connection);
            connections.push(connection);
        }
        connections.sort_unstable_by_key(|c| (c.first_ns, c.number));
        let mut conversations: Vec<Conversation> = std::iter::from_fn(|| self.udp.pop())
            .map(|(_, c)| c)
            .collect();
        conversations.sort_by_key(|c| (c.first_ns, c.a, c.b));
        Traffic {
            totals: self.totals,
            connections,
            conversations,
        }
    }
}

/// Contents of a capture, grouped.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Sums over the capture.
    pub totals: Totals,
    /// Connections of TCP.
    pub connections: Vec<Connection>,
    /// Conversations of UDP.
    pub conversations: Vec<Conversation>,
}

#[inline]
fn ends(frame: &Frame<'_>, src_port: u16, dst_port: u16) -> (Endpoint, Endpoint) {
    let end = |address, port| Endpoint { address, port };
    (end(frame.src, src_port), end(frame.dst, dst_port))
}
