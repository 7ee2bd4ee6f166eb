//! Direction of a connection: the data that its sender sent, and its acknowledgements.

mod acked;
mod again;
mod cause;

use super::act::Act;
use super::afar::{Afar, Passing, UnderWay};
use super::bursts::{BurstKind, FIRST as FIRST_BURST, GAP_NS, Sender};
use super::copies::{Found, Twice};
use super::detail::{Clock, Detail};
use super::events::{Events, KEPT, MarkKind, NOTHING, Reordering, Retransmission};
use super::limits::{Moment, Offer};
use super::packet::Packet;
use super::segments::{Hole, Joined, Segment, Segments};
use super::table::Touch;
use super::tally::count;

use crate::capture::frame::{Options, flag};
use base::sketch::quantile;
use std::collections::VecDeque;
use std::ops::Range;

/// Counters of every direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of the direction.
    pub packets: u64,
    /// Packets with payload, and their payload bytes, copies included.
    pub data_packets: u64,
    /// Payload bytes, retransmissions included.
    pub data_bytes: u64,
    /// Payload bytes counted once.
    pub unique_bytes: u64,
    /// Packets with at least one byte seen before (including a repeated SYN or FIN), and the number of such bytes.
    pub retransmitted_packets: u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// ACKs without data.
    pub pure_acks: u64,
    /// Segments acknowledged together with a later one.
    pub acked_cumulatively: u64,
    /// Most bytes outstanding: as tcptrace counts them, and without those that SACK reported.
    pub outstanding_max: u64,
    /// Greatest number of bytes in flight.
    pub in_flight_max: u64,
    /// Bytes sent before the first ACK of data.
    pub initial_window: u64,
    /// Longest time between two packets of this direction, ns.
    pub longest_silence_ns: i64,
    /// Payload bytes of the largest packet.
    pub largest: u32,
    /// First packets.
    pub syns: u32,
    /// Last packets.
    pub fins: u32,
    /// Resets.
    pub resets: u32,
}

/// RTTs from data to its ACK: of segments sent once, acknowledged to their last byte, and not held back by a loss below
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Number of round trips.
    pub count: u64,
    /// Sum of the round trips, ns.
    pub sum_ns: i64,
    /// Least round trip, ns.
    pub min_ns: i64,
    /// Greatest round trip, ns.
    pub max_ns: i64,
}

impl RoundTrips {
    fn add(&mut self, rtt: i64) {
        self.min_ns = if self.count == 0 {
            rtt
        } else {
            self.min_ns.min(rtt)
        };
        self.max_ns = self.max_ns.max(rtt);
        count(&mut self.count, 1);
        self.sum_ns = self.sum_ns.saturating_add(rtt);
    }
    /// Values, if there are at most three.
    fn up_to_three(&self) -> Vec<i64> {
        let middle = self.sum_ns - self.min_ns - self.max_ns;
        match self.count {
            1 => vec![self.min_ns],
            2 => vec![self.min_ns, self.max_ns],
            3 => vec![self.min_ns, middle, self.max_ns],
            _ => Vec::new(),
        }
    }

    /// Mean round trip, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// Results of one direction at its end.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// Counts of the direction.
    pub counts: Counts,
    /// Round trips of its data.
    pub rtt: RoundTrips,
    /// Time of its first packet, ns.
    pub first_ns: Option<i64>,
    /// Time of its last packet, ns.
    pub last_ns: Option<i64>,
    /// Timestamp of its first packet.
    first_stamp: Option<u32>,
    /// Sequence number of the SYN.
    isn: Option<u32>,
    /// Maximum segment size of its first packet.
    pub mss: Option<u16>,
    /// Window scale of its first packet.
    pub window_scale: Option<u8>,
    /// True if its first packet permits SACK.
    pub sack_permitted: bool,
    /// True if it has timestamps.
    pub timestamps: bool,
    /// Payload bytes that the other end acknowledged or the sender numbered, but the capture does not hold.
    pub missing_bytes: u64,
    /// Payload bytes of a full segment on the wire, as far as the capture shows it; otherwise 0.
    pub segment_bytes: u32,
    scale: Scale,
    /// All RTTs from the fourth one on, until there are details.
    #[allow(
        clippy::box_collection,
        reason = "most directions have none, and eight bytes are enough for that"
    )]
    early: Option<Box<Vec<i64>>>,
    /// Packets that the capture holds twice; `originals` are those for which that can be determined.
    pub(super) twice: Twice,
    events: Option<Box<Events>>,
    detail: Option<Box<Detail>>,
}

/// Window scaling as announced in a direction's SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scale {
    /// Unknown: no SYN was captured, or not all of its options.
    #[default]
    Unknown,
    /// Windows are not scaled.
    Plain,
    Shift(u8),
}

impl Scale {
    /// Shift of this direction's windows. RFC 7323 section 2.2: zero unless both sides agreed.
    #[inline(always)]
    fn shift(self, other: Scale) -> Option<u8> {
        match (self, other) {
            (Scale::Shift(shift), Scale::Shift(_)) => Some(shift),
            (Scale::Plain, _) | (_, Scale::Plain) => Some(0),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Recovery {
    #[default]
    None,
    Fast,
    Timeout,
}

/// State of a live direction.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Extended sequence space: the first byte, the one after the highest sent, the one after the highest acknowledged.
    base: u64,
    next: u64,
    una: u64,
    /// Position after the FIN; 0 before there is one.
    fin: u64,
    /// Highest ACK that this end has sent, to detect its repetitions.
    said: u32,
    segments: Segments,
    /// Latest transmission of anything that was acknowledged.
    last_acked_t: i64,
    /// Times of the last data sent, of the last ACK, and of the last ACK of something new.
    data_t: i64,
    ack_t: i64,
    advance_t: i64,
    srtt: i64,
    rttvar: i64,
    /// Least RTT that holds no delay of the receiver's own, ns; 0 before there is one.
    prompt_ns: i64,
    repair: Option<Box<Repair>>,
    /// Window last offered by this end.
    window: u32,
    /// Payload of a full segment, bytes: the other end's limit, or the largest seen.
    mss: u32,
    duplicates: u32,
    /// Window field of the packet before the latest ACK.
    previous_window: u16,
    recovery: Recovery,
    /// True if the scale of the window is known.
    window_known: bool,
    started: bool,
    ack_of_data: bool,
    /// True if the last data sent filled its segment.
    full: bool,
    mss_known: bool,
    /// True if an ACK echoed the timestamp of one of its packets.
    echoed: bool,
    /// Bytes that options take of a full segment.
    options: u8,
    /// True if it has sent an ACK.
    spoken: bool,
}

/// Loss recovery state, which most directions never need.
#[derive(Debug, Default)]
struct Repair {
    /// Highest byte that SACK reported, plus one.
    sack_top: u64,
    /// Highest byte sent when the loss was noticed.
    recover: u64,
    /// Time at which the loss was noticed, and time of the latest timeout.
    noticed_t: i64,
    timeout_t: i64,
    /// Least round trip of a segment sent once that SACK reported, or that a timestamp told, ns.
    least_ns: Option<i64>,
    /// Number of the latest run of retransmissions, and the highest byte sent when it began, plus one.
    run: u32,
    run_end: u64,
    /// Position behind the last byte that was sent into a closed window.
    probed: u64,
    /// Sequence number of another SYN-ACK, which the other end may accept instead of the first.
    other_isn: Option<u32>,
    chain: Option<Chain>,
    /// Ranges that were sent again, and acknowledged by an ACK that the repair of an earlier one released.
    doubtful: VecDeque<Range<u64>>,
}

/// State without losses.
static NO_REPAIR: Repair = Repair {
    sack_top: 0,
    recover: 0,
    noticed_t: 0,
    timeout_t: 0,
    least_ns: None,
    run: 0,
    run_end: 0,
    probed: 0,
    other_isn: None,
    chain: None,
    doubtful: VecDeque::new(),
};

/// Transmissions of the segment that blocks the direction.
#[derive(Debug, Default)]
struct Chain {
    sent: Vec<(i64, u32)>,
    at: u64,
}

impl State {
    /// Largest payload of a packet that is no super-segment of offload: the other end's limit, regardless of options.
    #[inline]
    fn allowed(&self) -> u32 {
        self.mss + u32::from(self.options)
    }

    /// True if the RTT from here to the sender is very small, and much smaller than that to the receiver, which is at least
    /// `beyond`.
    #[inline]
    fn is_near(&self, away: Option<i64>, beyond: Option<i64>) -> bool {
        match away {
            Some(away) => away <= NEAR_NS && (self.srtt == 0 || away <= self.srtt >> 2),
            // The distance of the sender is unknown; the receiver is not beside the capture.
            None => beyond.is_some_and(|least| least >= FAR_NS),
        }
    }

    /// Notes an RTT that holds no delay of the receiver's own.
    #[inline]
    fn answered_in(&mut self, rtt: i64) {
        self.prompt_ns = match self.prompt_ns {
            0 => rtt.max(1),
            least => least.min(rtt.max(1)),
        };
    }

    /// True for an ACK of `newly` bytes, which its receiver cannot have held back: of two full segments (RFC 9293 section
    /// 3.8.6.3), or of as many as it waits for.
    #[inline]
    fn is_prompt(&self, newly: u64, largest: u32, waits_for: Option<u64>) -> bool {
        waits_for.is_some_and(|n| self.segments_in(newly, largest) >= n)
    }

    /// Payload of a full segment, if the largest so far has `largest` bytes. Short ones, as of keystrokes, are none however
    /// many there are: their receiver waits for more.
    #[inline]
    fn full_segment(&self, largest: u32) -> u32 {
        let full = self.mss.min(largest.max(LEAST_MSS));
        match self.mss_known {
            true => full.max(1),
            false => full.max(LEAST_MSS),
        }
    }

    /// Number of full segments in so many bytes.
    #[inline]
    fn segments_in(&self, bytes: u64, largest: u32) -> u64 {
        bytes / u64::from(self.full_segment(largest))
    }

    /// True for an ACK of a single segment that its receiver did not hold back. The next segment left soon after it, so
    /// the receiver did not wait for that one, unless it was lost.
    #[inline]
    fn is_alone(&self, last: &Segment, newly: u64, largest: u32) -> bool {
        let full = u64::from(self.full_segment(largest));
        newly >= full
            && self.segments.front().is_some_and(|n| {
                n.again == 0 && n.end() - n.start >= full && n.t - last.t <= TOGETHER_NS
            })
    }

    fn repair(&self) -> &Repair {
        self.repair.as_deref().unwrap_or(&NO_REPAIR)
    }

    #[cold]
    fn repair_mut(&mut self) -> &mut Repair {
        self.repair.get_or_insert_default()
    }
}

/// A live direction.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Figures of the direction.
    pub half: Half,
    state: State,
}

/// Payload of the full segments in a packet too large for Ethernet: the size seen in this direction, or a usual one
/// (1500 bytes less the headers of IPv4 or IPv6 and TCP, with and without timestamps).
fn usual_part(payload: u32, seen: u32) -> Option<u32> {
    let usual = [seen, 1448, 1460, 1428, 1440];
    let whole = |full: &u32| (1200..=ETHERNET_MSS).contains(full) && payload.is_multiple_of(*full);
    usual.into_iter().find(whole)
}

/// Largest common divisor of a packet's payload and the largest before it, if it can be that of a segment: offload joins whole
/// segments. Only payloads too large for Ethernet are taken apart, and a packet that was pushed may be of any size.
fn common_part(p: &Packet, before: u32) -> Option<u32> {
    if before <= ETHERNET_MSS || p.payload.is_multiple_of(before) || p.has(flag::PSH) {
        return None;
    }
    let (mut a, mut b) = (before, p.payload);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (a >= LEAST_MSS).then_some(a)
}

/// Extends a sequence number to 64 bits: half of the space lies before `near`, half after it.
#[inline]
fn extend(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

/// Room below the first byte, for data from before it.
const ORIGIN: u64 = 1 << 40;
/// Number of packets with data from which details are kept.
const DETAIL_FROM: u64 = 4;
/// Time within which segments leave together and arrive together: far less than an ACK is held back, ns.
const TOGETHER_NS: i64 = 5_000_000;
/// Payload of a full segment on Ethernet without options, and on Ethernet with jumbo frames of 9000 bytes.
const ETHERNET_MSS: u32 = 1460;
const JUMBO_MSS: u32 = 8960;
/// Payload of the smallest full segment: RFC 9293 section 3.7.1 has 536 bytes, which timestamps shorten by 12.
const LEAST_MSS: u32 = 524;
/// Maximum RTT to the sender for which a capture counts as near it, ns.
const NEAR_NS: i64 = 1_000_000;
/// Least RTT to a receiver that is not beside the capture, ns.
const FAR_NS: i64 = 4 * NEAR_NS;

impl Half {
    /// Losses and other trouble of the direction.
    pub fn events(&self) -> &Events {
        self.events.as_deref().unwrap_or(&NOTHING)
    }

    /// Distributions and course over time; `None` if fewer than five packets carried data.
    pub fn detail(&self) -> Option<&Detail> {
        self.detail.as_deref()
    }

    /// Bytes sent before the first ACK of data; `None` if the connection's start was not captured.
    pub fn initial_window(&self) -> Option<u64> {
        self.isn.map(|_| self.counts.initial_window)
    }

    /// True if the scale of its offered windows is known.
    pub(super) fn windows_known(&self, other: &Half) -> bool {
        self.scale.shift(other.scale).is_some()
    }

    /// Highest rate acknowledged over a round trip or 100 ms, bit/s.
    pub fn peak_bps(&self) -> Option<f64> {
        let rtt_ns = self.rtt.mean_ns().unwrap_or(0.0) as i64;
        self.detail()?.peak_bps(rtt_ns).filter(|bps| *bps > 0.0)
    }

    /// Least time from the capture to the sender and back: of the sender's handshake and other data, or of ACKs whose
    /// timestamps came back. Before any did, it is longer than a far sender was seen to send without having heard.
    #[inline]
    fn away(&self, other: &Side) -> Option<i64> {
        let afar = self.detail.as_ref().map(|d| &d.afar);
        let echoed = afar.and_then(Afar::away);
        let least = [other.least_round_trip(), echoed].into_iter().flatten();
        let beyond = || afar.map(Afar::beyond).filter(|ns| *ns > NEAR_NS);
        least.min().or_else(beyond)
    }

    /// Clock of its sender, from its first packet on.
    fn clock(&self) -> Option<Clock> {
        Some(Clock::new(self.first_ns?, self.first_stamp?))
    }

    fn events_mut(&mut self) -> &mut Events {
        self.events.get_or_insert_default()
    }

    /// Quantile of the RTTs, ns: to 0.8 % if there are many.
    pub fn rtt_at(&self, p: f64) -> Option<f64> {
        if let Some(d) = self.detail.as_ref().filter(|d| d.rtt.count() > 0) {
            return d.rtt.quantile(p);
        }
        let sorted = self.few_round_trips();
        quantile(sorted.len() as u64, p, |k| sorted[k as usize].max(0) as f64)
    }

    /// Every RTT while there are no details, in ascending order.
    fn few_round_trips(&self) -> Vec<i64> {
        let mut all = match &self.early {
            Some(early) => Vec::clone(early),
            None => self.rtt.up_to_three(),
        };
        all.sort_unstable();
        all
    }

    /// Adds an RTT from data to its ACK.
    #[inline]
    fn round_trip(&mut self, t: i64, rtt: i64, prompt: bool) {
        match &mut self.detail {
            Some(d) => d.round_trip(t, rtt, prompt),
            None if self.rtt.count >= 3 => {
                let three = || Box::new(self.rtt.up_to_three());
                self.early.get_or_insert_with(three).push(rtt);
            }
            None => {}
        }
        self.rtt.add(rtt);
    }

    /// Number of segments on the wire for this many bytes of payload.
    pub fn segments(&self, bytes: u64) -> u64 {
        match u64::from(self.segment_bytes) {
            0 => 1,
            full => bytes.div_ceil(full).max(1),
        }
    }

    /// Packets that the capture holds twice because it was taken at two points or by a mirror port; and packets that
    /// the network itself duplicated.
    pub fn held_twice(&self) -> (u64, u64) {
        let e = self.events();
        if self.twice.was_mirrored() {
            (e.twice_elsewhere + e.twice_here, 0)
        } else {
            (e.twice_elsewhere, e.twice_here)
        }
    }

    /// Packets with payload as they were on the wire: a super-segment of offload counts as the segments that it is
    /// split into.
    pub fn wire_packets(&self) -> u64 {
        self.counts.data_packets + self.events().joined_segments
    }
}

impl Touch for Side {
    fn touch(&self) -> u64 {
        let (h, s) = (&self.half, &self.state);
        let counts = h.counts.packets ^ h.counts.in_flight_max;
        let times = h.rtt.count as i64 ^ h.last_ns.unwrap_or(0) ^ s.ack_t ^ s.srtt;
        let marks = u64::from(h.twice.touch()) ^ u64::from(h.timestamps) ^ u64::from(s.said);
        counts ^ s.next ^ s.una ^ u64::from(s.window) ^ s.segments.touch() ^ times as u64 ^ marks
    }
}

impl Side {
    /// Sequence number of the first packet.
    pub fn initial_seq(&self) -> Option<u32> {
        self.half.isn
    }

    /// True if this is the next sequence number.
    pub fn expects(&self, seq: u32) -> bool {
        extend(self.state.next, seq) == self.state.next
    }

    /// True if its FIN was sent and acknowledged.
    pub fn finished(&self) -> bool {
        self.state.fin > 0 && self.state.una >= self.state.fin
    }

    /// Window last offered by this end, if it is known.
    #[inline(always)]
    fn window(&self) -> Option<u32> {
        self.state.window_known.then_some(self.state.window)
    }

    /// Window last offered by this end, of a known scale or not.
    #[inline(always)]
    fn offer(&self) -> Offer {
        Offer {
            bytes: u64::from(self.state.window),
            scaled: self.state.window_known,
        }
    }

    /// True if this packet advances the connection, so that it cannot have been seen before.
    #[inline]
    pub fn is_news(&self, p: &Packet) -> bool {
        let s = &self.state;
        let (known, told) = match p.occupied {
            0 => (s.said, p.ack.wrapping_sub(1)),
            _ => (s.next as u32, p.seq),
        };
        !s.started || told.wrapping_sub(known) as i32 >= 0 && !p.has(flag::RST)
    }

    /// Least RTT of its data, from the capture to the other end and back, ns.
    #[inline(always)]
    pub fn least_round_trip(&self) -> Option<i64> {
        (self.half.rtt.count > 0).then_some(self.half.rtt.min_ns)
    }

    /// Handles a packet that the capture already holds.
    #[inline(never)]
    pub fn came_twice(&mut self, p: &Packet, found: Found) {
        let mirrored = self.half.twice.mirrored();
        let e = self.half.events_mut();
        match found {
            Found::Elsewhere => e.twice_elsewhere += 1,
            Found::Here => {
                e.twice_here += 1;
                if !mirrored {
                    e.mark(p, MarkKind::Doubled);
                }
            }
        }
    }

    /// Counts a packet of several segments.
    #[inline(never)]
    fn joined(&mut self, p: &Packet) {
        let segments = u64::from(p.payload.div_ceil(self.state.mss.max(1)));
        self.half.events_mut().joined_segments += segments - 1;
    }

    /// Records the fields of every packet: options, window, flags.
    #[inline(always)]
    pub fn note(&mut self, p: &Packet, options: &Options, other: &Side) {
        let half = &mut self.half;
        let c = &mut half.counts;
        match half.last_ns {
            Some(last) => c.longest_silence_ns = c.longest_silence_ns.max(p.t - last),
            None => {
                half.first_ns = Some(p.t);
                half.first_stamp = p.timestamps().map(|x| x.0);
            }
        }
        half.last_ns = Some(p.t);
        count(&mut c.packets, 1);
        half.timestamps |= p.timestamps().is_some() | options.stamped;
        const RARE: u8 = flag::ECE | flag::CWR | flag::SYN | flag::FIN | flag::RST;
        let mut plain = false;
        if p.is_marked() | (p.window == 0) | (p.flags & RARE != 0) {
            self.note_rare(p, options);
            if p.has(flag::RST) {
                return;
            }
            // RFC 7323 section 2.2: never in a SYN itself. A closed window is closed on any scale.
            plain = p.has(flag::SYN) || p.window == 0;
        }
        let shift = if plain {
            Some(0)
        } else {
            self.half.scale.shift(other.half.scale)
        };
        self.state.window = u32::from(p.window) << shift.unwrap_or(0);
        self.state.window_known = shift.is_some();
    }

    #[cold]
    fn note_rare(&mut self, p: &Packet, options: &Options) {
        let marks = p.is_marked() || p.flags & (flag::ECE | flag::CWR) != 0;
        let closed = p.window == 0 && p.flags & (flag::SYN | flag::FIN | flag::RST) == 0;
        if marks || closed {
            let e = self.half.events_mut();
            e.ce += u64::from(p.is_marked());
            e.ece += u64::from(p.has(flag::ECE));
            e.cwr += u64::from(p.has(flag::CWR));
            e.zero_windows += u64::from(closed);
            if closed {
                e.mark(p, MarkKind::ZeroWindow);
            }
        }
        let half = &mut self.half;
        let c = &mut half.counts;
        if p.has(flag::RST) {
            c.resets = c.resets.saturating_add(1);
            return;
        }
        if p.has(flag::SYN) {
            c.syns = c.syns.saturating_add(1);
            half.mss = options.mss.or(half.mss);
            half.window_scale = options.window_scale.or(half.window_scale);
            half.scale = match options.window_scale {
                Some(shift) => Scale::Shift(shift),
                None if options.cut => half.scale,
                None => Scale::Plain,
            };
            half.sack_permitted |= options.sack_permitted;
        }
        c.fins = c.fins.saturating_add(u32::from(p.has(flag::FIN)));
    }

    /// Handles the packet's own data.
    #[inline(always)]
    pub fn data(&mut self, p: &Packet, other: &Side, told: &mut impl FnMut(Act)) {
        let s = &mut self.state;
        if !s.started {
            s.started = true;
            s.base = ORIGIN + u64::from(p.seq);
            (s.next, s.una) = (s.base, s.base);
        }
        let occupied = u64::from(p.occupied);
        if occupied == 0 {
            if p.seq.wrapping_add(1) == s.next as u32 {
                self.asks(p, other);
            }
            return;
        }
        if p.has(flag::SYN) && self.answers_again(p) {
            return;
        }
        let s = &self.state;
        let near = s.is_near(self.half.away(other), self.least_round_trip());
        if p.has(flag::SYN) {
            self.half.isn.get_or_insert(p.seq);
        }
        let start = extend(s.next, p.seq);
        let end = start + occupied;
        if p.payload > 0 {
            let c = &mut self.half.counts;
            count(&mut c.data_packets, 1);
            count(&mut c.data_bytes, u64::from(p.payload));
            c.largest = c.largest.max(p.payload);
            // RFC 9293 section 3.8.6.1: a byte into a closed window, to learn if it has opened.
            if other.window() == Some(0) && !p.has(flag::SYN | flag::FIN) {
                let repair = self.state.repair_mut();
                repair.probed = repair.probed.max(end);
                let e = self.half.events_mut();
                e.window_probes += 1;
                e.mark(p, MarkKind::WindowProbe);
                return;
            }
            if !self.state.mss_known
                && (p.payload > self.state.mss || common_part(p, self.state.mss).is_some())
            {
                self.learn_mss(p, other.half.mss);
            }
            if p.payload > self.state.allowed() {
                self.joined(p);
            }
            self.detail_before(p, start, near);
        }
        let s = &mut self.state;
        if p.has(flag::FIN) {
            s.fin = end;
        }
        let position = start.saturating_sub(s.base);
        let fresh = if start >= s.next {
            if start > s.next {
                s.segments.add_hole(Hole {
                    start: s.next,
                    end: start,
                    t: p.t,
                    id: p.id,
                    tsval: p.timestamps().map(|x| x.0),
                });
            }
            let burst = self.half.detail.as_ref().map_or(0, |d| d.bursts.number());
            let segment = Segment::new(start, end, (p.t, p.frame), burst);
            s.segments.push(if near && p.payload > s.allowed() {
                segment.in_super_segment(s.mss)
            } else {
                segment
            });
            s.next = end;
            u64::from(p.payload)
        } else {
            self.again(
                p,
                start..end,
                near,
                other.half.sack_permitted || self.half.isn.is_none(),
            )
        };
        count(&mut self.half.counts.unique_bytes, fresh);
        self.state.data_t = p.t;
        let in_flight = self.flight(p, fresh, other, near);
        told(Act::Sent {
            t: p.t,
            position,
            bytes: u64::from(p.payload),
            fresh,
            in_flight,
        });
    }

    /// Handles a segment without data just below the next byte: it asks if the window has opened, or if the other end
    /// is alive.
    #[inline(never)]
    fn asks(&mut self, p: &Packet, other: &Side) {
        if self.state.una < self.state.next || p.has(flag::RST) {
            return;
        }
        let e = self.half.events_mut();
        if other.window() == Some(0) {
            e.window_probes += 1;
            e.mark(p, MarkKind::WindowProbe);
        } else {
            e.keep_alives += 1;
            e.mark(p, MarkKind::KeepAlive);
        }
    }

    /// True for a SYN of another sequence number than the first one's: a second answer to one SYN. Until either is
    /// acknowledged both may be valid.
    #[cold]
    fn answers_again(&mut self, p: &Packet) -> bool {
        let s = &mut self.state;
        let isn = *self.half.isn.get_or_insert(p.seq);
        if isn == p.seq {
            return false;
        }
        if s.una == s.base && s.next == s.base + 1 {
            s.repair_mut().other_isn = Some(p.seq);
        }
        self.half.events_mut().mark(p, MarkKind::OtherSyn);
        true
    }

    /// Handles the choice of the second of two SYN-ACKs: all positions count from that one on.
    #[cold]
    fn rebase(&mut self, isn: u32) {
        let s = &mut self.state;
        let Some(first) = s.segments.front().copied() else {
            return;
        };
        s.segments.pop_front();
        s.base = ORIGIN + u64::from(isn);
        (s.next, s.una) = (s.base + 1, s.base);
        s.segments.push(Segment::new(
            s.base,
            s.next,
            (first.t, first.frame),
            first.burst,
        ));
        self.half.isn = Some(isn);
        s.repair_mut().other_isn = None;
    }

    /// Updates the payload of a full segment, and the largest payload of a packet with a single segment.
    #[inline(never)]
    fn learn_mss(&mut self, p: &Packet, allowed: Option<u16>) {
        let s = &mut self.state;
        let stamped = p.timestamps().is_some();
        if let Some(mss) = allowed {
            // RFC 6691 section 2: options count against it.
            let options = if stamped { 12 } else { 0 };
            s.mss = u32::from(mss).saturating_sub(options).max(1);
            s.options = options as u8;
            s.mss_known = true;
        } else if let Some(part) = common_part(p, s.mss) {
            // All sizes so far were of several segments.
            s.mss = part;
            let c = &self.half.counts;
            let before = c.data_bytes.saturating_sub(u64::from(p.payload));
            let packets = before.div_ceil(u64::from(part));
            let joined = packets.saturating_sub(c.data_packets.saturating_sub(1));
            let e = self.half.events.get_or_insert_default();
            e.joined_segments = e.joined_segments.max(joined);
        } else if p.payload <= ETHERNET_MSS {
            s.mss = s.mss.max(p.payload);
        } else if let Some(full) = usual_part(p.payload, s.mss) {
            // Without the SYN: several whole segments in one packet were joined by offload.
            s.mss = s.mss.max(full);
        } else if p.payload <= JUMBO_MSS && !p.has(flag::PSH) {
            s.mss = s.mss.max(p.payload);
        } else {
            s.mss = s.mss.max(ETHERNET_MSS);
        }
        self.half.segment_bytes = s.mss;
    }

    /// Updates bursts and timestamps for a packet with data, before it counts.
    #[inline(always)]
    fn detail_before(&mut self, p: &Packet, start: u64, near: bool) {
        let s = &mut self.state;
        // A pushed packet that is not a multiple of the segment size held all the data there was to send. A short one
        // that is not pushed filled the receiver's window.
        let full = s.full_segment(self.half.counts.largest);
        let joined = p.payload > s.allowed();
        let more = s.full;
        s.full = !p.has(flag::PSH) || (p.payload >= full && p.payload.is_multiple_of(full));
        if self.half.detail.is_none() && self.half.counts.data_packets > DETAIL_FROM {
            self.begin_details(p, near);
        }
        let s = &self.state;
        if let Some(d) = &mut self.half.detail {
            let since = p.t - s.data_t;
            let full = u64::from(s.mss);
            let sender = Sender {
                near,
                limit: d.limits.limit(),
                more,
            };
            d.bursts
                .sent(p.t, since, start, p.payload, full, (sender, joined));
            if let Some((value, echo)) = p.timestamps() {
                d.stamped(p.t, value);
                d.afar.came_back(p.t, echo);
            }
        }
    }

    #[cold]
    fn begin_details(&mut self, p: &Packet, near: bool) {
        let before = self.half.few_round_trips();
        self.half.early = None;
        let mut detail = Box::new(Detail::new(p.t, &before, self.half.clock()));
        let gathered = self.state.segments.gather(p.t, GAP_NS, FIRST_BURST);
        if let Some((first, bytes)) = gathered {
            let joined = first.joined != Joined::No;
            detail
                .bursts
                .begin(first.start, first.t, bytes, (near, joined));
        }
        self.half.detail = Some(detail);
    }

    /// Bytes outstanding after a transmission.
    #[inline(always)]
    fn flight(&mut self, p: &Packet, fresh: u64, other: &Side, near: bool) -> u64 {
        let payload = u64::from(p.payload);
        let s = &mut self.state;
        let outstanding = s.next - s.una.min(s.next);
        let c = &mut self.half.counts;
        c.outstanding_max = c.outstanding_max.max(outstanding);
        let sacked = s.segments.sacked_bytes();
        let mut in_flight = outstanding.saturating_sub(sacked);
        c.in_flight_max = c.in_flight_max.max(in_flight);
        if !s.ack_of_data {
            count(&mut c.initial_window, payload);
        }
        let away = self.half.away(other);
        if let Some(d) = &mut self.half.detail {
            let mut now = Moment {
                outstanding,
                window: other.offer(),
                mss: u64::from(s.mss),
                more: s.full,
                repairing: s.recovery != Recovery::None,
                before: None,
                over: false,
            };
            if !near {
                let passing = Passing {
                    t: p.t,
                    echo: p.timestamps().map(|x| x.1),
                    bytes: payload,
                    next: s.next - fresh,
                    last: p.seq.wrapping_add(p.occupied) == s.next as u32,
                    more: now.more,
                    left: p.timestamps().and_then(|_| d.left_ns(p.t)),
                };
                let away = away.unwrap_or(0);
                let shown = other.least_round_trip().unwrap_or(0);
                let (una, window) = d
                    .afar
                    .sends(&passing, (away, shown), now.mss, &mut d.limits);
                now.outstanding = s.next - una.clamp(s.base, s.next);
                if now.more {
                    // It did not know that this was acknowledged.
                    now.outstanding = now.outstanding.max(payload);
                }
                // A sender that repairs has not heard of all that was acknowledged.
                now.repairing = fresh == 0 || now.repairing && una < s.repair().recover;
                in_flight = now.outstanding.saturating_sub(sacked);
                now.before = d.afar.before().filter(|_| now.more);
                now.window = window;
            }
            d.limits.at(p.t, now);
            d.sent(p.t, fresh, payload - fresh.min(payload), in_flight);
        }
        in_flight
    }

    /// Closes the open states.
    pub fn finish(mut self) -> Half {
        self.end_chain(None);
        if self.half.twice.was_mirrored()
            && let Some(e) = &mut self.half.events
        {
            e.marks.retain(|m| m.kind != MarkKind::Doubled);
        }
        let s = &self.state;
        self.half.missing_bytes = s.segments.missing();
        if let Some(d) = &mut self.half.detail {
            d.finish(u64::from(s.mss));
        }
        // Nothing is acknowledged sooner than in the least round trip, which the handshake tells: less a quarter, as the
        // path may have been emptier.
        if let Some(e) = &mut self.half.events
            && self.half.isn.is_some()
            && self.half.rtt.count > 0
        {
            let by_ack = self.half.rtt.min_ns;
            let least = s.repair().least_ns.map_or(by_ack, |ns| ns.min(by_ack));
            e.acked_sooner_than(least - least / 4);
        }
        if let Some(e) = &mut self.half.events {
            e.end(s.una.saturating_sub(s.base));
            e.retransmissions.shrink_to_fit();
            e.marks.shrink_to_fit();
        }
        self.half
    }
}
