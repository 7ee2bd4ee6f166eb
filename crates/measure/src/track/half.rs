//! One direction of a connection: what its sender sent, and what came back about it.

mod cause;

use super::bursts::BurstKind;
use super::count;
use super::detail::{Detail, UnderWay};
use super::events::{Events, NOTHING, Retransmission};
use super::limits::Moment;
use super::packet::Packet;
use super::segments::{Hole, Segment, Segments};
use super::table::Touch;
use super::watch::{Act, Watch};
use crate::capture::frame::{Options, flag};
use std::ops::Range;

/// What is counted in every direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    /// Packets with payload, and their payload, copies included.
    pub data_packets: u64,
    pub data_bytes: u64,
    /// Payload counted once.
    pub unique_bytes: u64,
    /// Packets of which at least a byte was seen before (a repeated SYN or FIN among them), and how many bytes.
    pub retransmitted_packets: u64,
    pub retransmitted_bytes: u64,
    pub pure_acks: u64,
    /// Segments acknowledged together with a later one.
    pub acked_cumulatively: u64,
    /// Most bytes outstanding: as tcptrace counts them, and without those that SACK reported.
    pub outstanding_max: u64,
    pub in_flight_max: u64,
    /// Data sent before the first ACK of data.
    pub initial_window: u64,
    /// Longest time between two packets of this direction.
    pub longest_silence_ns: i64,
    /// Payload of the largest packet.
    pub largest: u32,
    pub syns: u32,
    pub fins: u32,
    pub resets: u32,
}

/// Round trips from data to its ACK: of segments sent once, acknowledged to their last byte, and not held
/// back by a loss below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    pub count: u64,
    pub sum_ns: i64,
    pub min_ns: i64,
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
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// What is known of one direction at its end.
#[derive(Clone, Debug, Default)]
pub struct Half {
    pub counts: Counts,
    pub rtt: RoundTrips,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
    /// Sequence number of the SYN.
    isn: Option<u32>,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    /// Payload that the other end acknowledged or the sender numbered, but the capture does not hold.
    pub missing_bytes: u64,
    scale: Scale,
    events: Option<Box<Events>>,
    detail: Option<Box<Detail>>,
}

/// What a direction's SYN says of how its windows are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scale {
    /// No SYN was captured, or not all of its options.
    #[default]
    Unknown,
    /// They are not.
    Plain,
    Shift(u8),
}

impl Scale {
    /// By how much this direction's windows are shifted. RFC 7323 section 2.2: by nothing unless both sides agreed.
    #[inline(always)]
    fn shift(self, other: Scale) -> Option<u8> {
        match (self, other) {
            (Scale::Shift(shift), Scale::Shift(_)) => Some(shift),
            (Scale::Plain, _) | (_, Scale::Plain) => Some(0),
            _ => None,
        }
    }
}

/// What filled a hole, seen from behind the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reordering {
    /// Sent again: it left the sender after what lies above it.
    Repair,
    /// Sent in order, arrived out of it.
    Reordered,
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Recovery {
    #[default]
    None,
    Fast,
    Timeout,
}

/// What is needed of a direction while it lives.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Extended sequence space: the first byte, the one after the highest sent, the one after the highest acknowledged.
    base: u64,
    next: u64,
    una: u64,
    /// After the FIN; 0 before there is one.
    fin: u64,
    /// Highest ACK that this end has sent, to know its repetitions.
    acked: u64,
    segments: Segments,
    /// Latest transmission of anything that was acknowledged.
    last_acked_t: i64,
    /// When data was last sent, and when an ACK last came.
    data_t: i64,
    ack_t: i64,
    srtt: i64,
    rttvar: i64,
    repair: Option<Box<Repair>>,
    /// What this end last offered to the other.
    window: u32,
    /// Payload of a full segment: what the other end allowed, or the largest seen.
    mss: u32,
    duplicates: u32,
    /// As it stood in the header of the packet before the latest ACK.
    previous_window: u16,
    recovery: Recovery,
    /// Its scale is known.
    window_known: bool,
    started: bool,
    ack_of_data: bool,
    /// The last data sent filled its segment.
    full: bool,
    mss_known: bool,
}

/// What most directions never need: of losses and their repair.
#[derive(Debug, Default)]
struct Repair {
    /// The highest byte that SACK reported, and one.
    sack_top: u64,
    /// Where the loss was noticed.
    recover: u64,
    /// When the time-out that is being recovered from came.
    timeout_t: i64,
    chain: Option<Chain>,
}

/// Where nothing was lost.
static NO_REPAIR: Repair = Repair {
    sack_top: 0,
    recover: 0,
    timeout_t: 0,
    chain: None,
};

/// Transmissions of the segment that everything waits for.
#[derive(Debug, Default)]
struct Chain {
    sent: Vec<i64>,
    at: u64,
}

impl State {
    /// Whether packets take hardly any time from here to the sender and back, and far less than to the receiver.
    #[inline]
    fn is_near(&self, away: i64) -> bool {
        away <= NEAR_NS && (self.srtt == 0 || 4 * away <= self.srtt)
    }

    fn repair(&self) -> &Repair {
        self.repair.as_deref().unwrap_or(&NO_REPAIR)
    }

    #[cold]
    fn repair_mut(&mut self) -> &mut Repair {
        self.repair.get_or_insert_default()
    }
}

/// One direction while it lives.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub half: Half,
    state: State,
}

/// What the other direction knows and this one needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    /// The window it offers.
    window: Option<u32>,
    mss: Option<u16>,
    scale: Scale,
    /// It understands SACK.
    sack: bool,
    /// Least time from here to this direction's sender and back.
    away: i64,
}

/// Half of the space lies before a number, half after it.
#[inline]
fn extend(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

/// Room below the first byte, for data from before it.
const ORIGIN: u64 = 1 << 40;
/// Retransmissions kept one by one.
const KEPT: usize = 100_000;
/// From so many packets with data on, details are kept.
const DETAIL_FROM: u64 = 4;
/// A capture is near the sender where its packets take no longer from there and back.
const NEAR_NS: i64 = 1_000_000;

impl Half {
    /// What went wrong in it.
    pub fn events(&self) -> &Events {
        self.events.as_deref().unwrap_or(&NOTHING)
    }

    /// Distributions and course over time; `None` where fewer than five packets carried data.
    pub fn detail(&self) -> Option<&Detail> {
        self.detail.as_deref()
    }

    /// Data sent before the first ACK of data; `None` where the connection's begin was not captured.
    pub fn initial_window(&self) -> Option<u64> {
        self.isn.map(|_| self.counts.initial_window)
    }

    /// Whether the scale of the windows that it offers is known.
    pub(super) fn windows_known(&self, other: &Half) -> bool {
        self.scale.shift(other.scale).is_some()
    }

    fn events_mut(&mut self) -> &mut Events {
        self.events.get_or_insert_default()
    }

    /// A quantile of the round trips, ns: to 0.8 % where there are many.
    pub fn rtt_at(&self, p: f64) -> Option<u64> {
        if let Some(d) = self.detail.as_ref().filter(|d| d.rtt.count() > 0) {
            return d.rtt.at(p);
        }
        let r = &self.rtt;
        let middle = r.sum_ns - r.min_ns - r.max_ns;
        let sorted: &[i64] = match r.count {
            1 => &[r.min_ns],
            2 => &[r.min_ns, r.max_ns],
            3 => &[r.min_ns, middle, r.max_ns],
            _ => &[],
        };
        let rank = ((p * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len().max(1));
        sorted.get(rank - 1).map(|v| (*v).max(0) as u64)
    }
}

impl Touch for Side {
    fn touch(&self) -> u64 {
        let (h, s) = (&self.half, &self.state);
        let counts = h.counts.packets ^ h.counts.in_flight_max;
        let times = h.rtt.count as i64 ^ h.last_ns.unwrap_or(0) ^ s.ack_t ^ s.srtt;
        counts ^ s.next ^ s.acked ^ u64::from(s.window) ^ s.segments.touch() ^ times as u64
    }
}

impl Side {
    pub fn initial_seq(&self) -> Option<u32> {
        self.half.isn
    }

    pub fn expects(&self, seq: u32) -> bool {
        extend(self.state.next, seq) == self.state.next
    }

    /// Its FIN was sent and acknowledged.
    pub fn finished(&self) -> bool {
        self.state.fin > 0 && self.state.una >= self.state.fin
    }

    #[inline]
    pub fn seen_by_other(&self) -> Other {
        Other {
            window: self.window(),
            mss: self.half.mss,
            scale: self.half.scale,
            sack: self.half.sack_permitted,
            away: self.half.rtt.min_ns,
        }
    }

    /// What this end last offered, where it is known.
    #[inline(always)]
    fn window(&self) -> Option<u32> {
        self.state.window_known.then_some(self.state.window)
    }

    /// Whether this packet moves the connection on: such a one has not been seen before.
    #[inline]
    pub fn is_news(&self, p: &Packet) -> bool {
        let s = &self.state;
        let (known, said) = match p.occupied {
            0 => (s.acked, p.ack.wrapping_sub(1)),
            _ => (s.next, p.seq),
        };
        !s.started || said.wrapping_sub(known as u32) as i32 >= 0
    }

    /// What every packet says: options, window, flags.
    #[inline(always)]
    pub fn note(&mut self, p: &Packet, options: &Options, other: Other) {
        let half = &mut self.half;
        let c = &mut half.counts;
        match half.last_ns {
            Some(last) => c.longest_silence_ns = c.longest_silence_ns.max(p.t - last),
            None => half.first_ns = Some(p.t),
        }
        half.last_ns = Some(p.t);
        count(&mut c.packets, 1);
        half.timestamps |= p.timestamps().is_some() | options.stamped;
        const RARE: u8 = flag::ECE | flag::CWR | flag::SYN | flag::FIN | flag::RST;
        if p.is_marked() || p.window == 0 || p.flags & RARE != 0 {
            self.note_rare(p, options);
        }
        if p.has(flag::RST) {
            return;
        }
        // RFC 7323 section 2.2: never in a SYN itself. A closed window is closed on any scale.
        let shift = if p.has(flag::SYN) || p.window == 0 {
            Some(0)
        } else {
            self.half.scale.shift(other.scale)
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

    /// What this packet says of its own sender's data.
    #[inline(always)]
    pub fn data<W: Watch>(&mut self, p: &Packet, other: Other, watch: &mut W) {
        let s = &mut self.state;
        if !s.started {
            s.started = true;
            s.base = ORIGIN + u64::from(p.seq);
            (s.next, s.una) = (s.base, s.base);
        }
        let occupied = u64::from(p.occupied);
        if occupied == 0 {
            return;
        }
        let near = s.is_near(other.away);
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
            // RFC 9293 section 3.8.6.1: a byte into a closed window, to learn whether it has opened.
            if other.window == Some(0) && !p.has(flag::SYN | flag::FIN) {
                self.half.events_mut().window_probes += 1;
                return;
            }
            if !self.state.mss_known {
                self.learn_mss(p, other.mss);
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
            s.segments.push(Segment::new(start, end, p.t, burst));
            s.next = end;
            u64::from(p.payload)
        } else {
            self.again(p, start..end, near, other.sack || self.half.isn.is_none())
        };
        count(&mut self.half.counts.unique_bytes, fresh);
        self.state.data_t = p.t;
        let in_flight = self.flight(p, fresh, other, near);
        watch.act(Act::Sent {
            t: p.t,
            position,
            bytes: u64::from(p.payload),
            fresh,
            in_flight,
        });
    }

    #[inline(never)]
    fn learn_mss(&mut self, p: &Packet, allowed: Option<u16>) {
        let s = &mut self.state;
        match allowed {
            Some(mss) => {
                // RFC 6691 section 2: options count against it.
                let options = if self.half.timestamps { 12 } else { 0 };
                s.mss = u32::from(mss).saturating_sub(options).max(1);
                s.mss_known = true;
            }
            // Without the SYN, the largest that is no super-segment of offload.
            None if p.payload <= 1460 => s.mss = s.mss.max(p.payload),
            None => s.mss = s.mss.max(536),
        }
    }

    /// The bursts and timestamps of a packet with data, before it counts.
    #[inline(always)]
    fn detail_before(&mut self, p: &Packet, start: u64, near: bool) {
        let s = &mut self.state;
        // What is not a multiple of the segment and was pushed was all that there was to send.
        let full = s.mss.min(self.half.counts.largest);
        s.full = p.payload >= full && (!p.has(flag::PSH) || p.payload.is_multiple_of(full.max(1)));
        if let Some(d) = &mut self.half.detail {
            let since = p.t - s.data_t;
            d.bursts
                .sent(p.t, since, start, p.payload, u64::from(s.mss), near);
            if let Some((value, _)) = p.timestamps() {
                d.stamped(p.t, value);
            }
        } else if self.half.counts.data_packets > DETAIL_FROM {
            self.half.detail = Some(Box::new(Detail::new(p.t, &self.half.rtt)));
        }
    }

    /// Bytes outstanding after a transmission.
    #[inline(always)]
    fn flight(&mut self, p: &Packet, fresh: u64, other: Other, near: bool) -> u64 {
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
        if let Some(d) = &mut self.half.detail {
            let mut now = Moment {
                outstanding,
                window: other.window.map(u64::from),
                mss: u64::from(s.mss),
                more: s.full,
                repairing: s.recovery != Recovery::None,
                over: false,
            };
            if !near {
                let echo = p.timestamps().map(|x| x.1);
                let (una, window) = d.known_at(p.t, other.away, echo);
                (now.outstanding, now.window) = (s.next - una.clamp(s.base, s.next), window);
            }
            d.limits.at(p.t, now);
            in_flight = now.outstanding.saturating_sub(sacked);
            d.sent(p.t, fresh, payload - fresh.min(payload), in_flight);
        }
        in_flight
    }

    /// A packet that begins below what was sent already; says how much of its payload is new.
    #[inline(never)]
    fn again(&mut self, p: &Packet, span: Range<u64>, near: bool, sack: bool) -> u64 {
        let (t, start, end) = (p.t, span.start, span.end);
        let data_start = start + u64::from(p.has(flag::SYN));
        let data_end = data_start + u64::from(p.payload);
        let s = &mut self.state;
        if start < s.base {
            // From before the capture began.
            s.segments.add_hole(Hole {
                start,
                end: s.base,
                t,
                id: p.id,
                tsval: None,
            });
            s.base = start;
        }
        let old_next = s.next;
        let mut fresh = 0;
        let mut fresh_data = 0;
        let mut hole = None;
        if s.segments.has_holes() {
            let control = |segments: &mut Segments, from, to| {
                if from < to {
                    segments.fill(from, to)
                } else {
                    (0, None)
                }
            };
            let (a, _) = control(&mut s.segments, start, data_start);
            let (b, first) = control(&mut s.segments, data_start, data_end);
            let (c, _) = control(&mut s.segments, data_end, end);
            fresh = a + b + c;
            fresh_data = b;
            hole = first;
        }
        let beyond = end.saturating_sub(old_next);
        fresh += beyond;
        fresh_data += data_end.saturating_sub(old_next.max(data_start));
        let counts = &mut self.half.counts;
        let old = end - start - fresh;
        let control = p.has(flag::SYN | flag::FIN);
        let keep_alive = !control && end - start <= 1 && start + 1 == old_next && s.una == s.next;
        if old > 0 {
            counts.retransmitted_packets += 1;
            counts.retransmitted_bytes += old;
        }
        if start < s.una {
            // A copy of acknowledged data: what is acknowledged next may have been set off by it.
            s.last_acked_t = s.last_acked_t.max(t);
        }
        let burst = self.half.detail.as_ref().map_or(0, |d| d.bursts.number());
        let segment = Segment::new(start, end, t, burst);
        let before = if fresh > 0 && end <= old_next {
            let e = self.half.events.get_or_insert_default();
            e.out_of_order += 1;
            match hole.map_or(Reordering::Unknown, |h| origin(&h, p)) {
                Reordering::Repair => e.upstream_repairs += 1,
                Reordering::Reordered => e.reordered += 1,
                Reordering::Unknown => {}
            }
            s.segments.insert(segment);
            None
        } else {
            s.segments.resent(start, end.min(old_next), t)
        };
        if end > old_next {
            s.segments.push(Segment::new(old_next, end, t, burst));
            s.next = end;
        }
        if keep_alive {
            self.half.events_mut().keep_alives += u64::from(old > 0);
        } else if old > 0 {
            let sack = sack && (self.half.sack_permitted || self.half.isn.is_none());
            self.retransmitted(t, start..end, old, before, near, sack);
        }
        fresh_data
    }

    fn retransmitted(
        &mut self,
        t: i64,
        Range { start, end }: Range<u64>,
        bytes: u64,
        before: Option<Segment>,
        near: bool,
        sack: bool,
    ) {
        let cause = self.cause(t, start..end, before, near, sack);
        self.chain(t, start, before.map(|s| s.t), cause);
        let needless = end <= self.state.una;
        let one = Retransmission {
            t_ns: t,
            before_ns: before.map(|s| s.t),
            position: start - self.state.base,
            bytes,
            cause,
            needless,
            burst: before.filter(|s| s.again == 0).and_then(|s| self.burst(&s)),
        };
        let e = self.half.events_mut();
        e.by_cause[cause as usize] += 1;
        e.needless += u64::from(needless);
        if e.retransmissions.len() < KEPT {
            e.retransmissions.push(one);
        }
    }

    fn burst(&self, s: &Segment) -> Option<BurstKind> {
        let d = self.half.detail.as_ref()?;
        d.bursts.of(s.burst, s.start, u64::from(self.state.mss))
    }

    /// What `from`'s packet says of the data of this direction.
    #[inline(always)]
    pub fn acknowledged<W: Watch>(
        &mut self,
        p: &Packet,
        options: &Options,
        from: &mut Side,
        watch: &mut W,
    ) {
        let t = p.t;
        let s = &mut self.state;
        if !s.started {
            return;
        }
        s.ack_t = t;
        let ack = extend(s.una, p.ack);
        let pure = p.occupied == 0;
        count(&mut from.half.counts.pure_acks, u64::from(pure));
        if let (Some(d), Some((_, echo))) = (&mut self.half.detail, p.timestamps()) {
            d.echoed(t, echo);
        }
        if !options.sack().is_empty() {
            from.half.events_mut().sack_acks += 1;
            self.sacked(ack, options, from);
        }
        let s = &mut self.state;
        if ack > s.next {
            from.half.events_mut().acks_of_unseen += 1;
            return;
        }
        if ack <= s.una {
            if ack == s.una && pure && s.next > s.una {
                s.duplicates += 1;
                if from.state.acked == ack && from.state.previous_window == p.window {
                    let e = from.half.events_mut();
                    e.duplicate_acks += 1;
                    e.triple_duplicate_acks += u64::from(s.duplicates == 3);
                }
            }
            from.state.previous_window = p.window;
        } else {
            from.state.acked = ack;
            from.state.previous_window = p.window;
            s.duplicates = 0;
            s.ack_of_data |= ack > s.base + u64::from(self.half.isn.is_some());
            let newly = ack - s.una;
            s.una = ack;
            if s.repair.is_some() {
                self.repaired(t, ack);
            }
            self.take_acked(t, ack, watch);
            if let Some(d) = &mut self.half.detail {
                d.acknowledged(t, newly, self.state.last_acked_t, self.state.srtt);
            }
        }
        let s = &mut self.state;
        let away = from.half.rtt.min_ns;
        if let Some(d) = &mut self.half.detail {
            let window = from.window().map(u64::from);
            if !s.is_near(away) {
                d.set_out(UnderWay {
                    t,
                    una: s.una,
                    window,
                    stamp: p.timestamps().map(|x| x.0),
                });
            } else {
                let moment = Moment {
                    outstanding: s.next - s.una,
                    window,
                    mss: u64::from(s.mss),
                    more: s.full,
                    repairing: s.recovery != Recovery::None,
                    over: s.fin > 0 && s.una >= s.fin,
                };
                d.limits.at(t, moment);
            }
        }
        watch.act(Act::Acknowledged {
            t,
            position: s.una.saturating_sub(s.base),
            window: from.window(),
        });
    }

    /// An ACK of something new, after a loss.
    #[inline(never)]
    fn repaired(&mut self, t: i64, ack: u64) {
        let s = &mut self.state;
        if ack >= s.repair().recover {
            s.recovery = Recovery::None;
        }
        if s.repair().chain.as_ref().is_some_and(|c| ack > c.at) {
            self.end_chain(Some(t));
        }
    }

    #[inline(always)]
    fn take_acked<W: Watch>(&mut self, t: i64, ack: u64, watch: &mut W) {
        let s = &mut self.state;
        let mut latest = s.last_acked_t;
        while let Some(front) = s.segments.front().copied().filter(|f| f.start < ack) {
            if front.end() > ack {
                s.segments.trim_front(ack);
                break;
            }
            s.segments.pop_front();
            s.last_acked_t = s.last_acked_t.max(front.t);
            if front.end() == ack {
                if latest > front.t {
                    self.half.events.get_or_insert_default().acked_after_loss += 1;
                } else if front.again > 0 {
                    self.half.events.get_or_insert_default().acked_ambiguously += 1;
                } else {
                    let rtt = t - front.t;
                    self.half.rtt.add(rtt);
                    // RFC 6298 section 2.3
                    if s.srtt == 0 {
                        (s.srtt, s.rttvar) = (rtt.max(1), rtt / 2);
                    } else {
                        s.rttvar += ((s.srtt - rtt).abs() - s.rttvar) / 4;
                        s.srtt = (s.srtt + (rtt - s.srtt) / 8).max(1);
                    }
                    if let Some(d) = &mut self.half.detail {
                        d.round_trip(t, rtt);
                    }
                    watch.act(Act::RoundTrip { sent: front.t, rtt });
                }
            } else {
                count(&mut self.half.counts.acked_cumulatively, 1);
            }
            latest = latest.max(front.t);
        }
    }

    #[inline(never)]
    fn sacked(&mut self, ack: u64, options: &Options, from: &mut Side) {
        let s = &mut self.state;
        for (i, (left, right)) in options.sack().iter().enumerate() {
            let (left, right) = (extend(ack, *left), extend(ack, *right));
            if left >= right || right > s.next {
                continue;
            }
            // RFC 2883 section 4: the first block may lie below the ACK, or within the second.
            let within_second = i == 0
                && options
                    .sack()
                    .get(1)
                    .is_some_and(|(l, r)| extend(ack, *l) <= left && right <= extend(ack, *r));
            if i == 0 && (right <= ack || within_second) {
                from.half.events_mut().dsacks += 1;
                let base = s.base;
                if let Some(e) = &mut self.half.events {
                    e.had_already(left.saturating_sub(base), right.saturating_sub(base));
                }
                continue;
            }
            let repair = s.repair_mut();
            repair.sack_top = repair.sack_top.max(right);
            s.segments.sack(left, right);
        }
    }

    /// Closes what is open.
    pub fn finish(mut self) -> Half {
        self.end_chain(None);
        let s = &self.state;
        self.half.missing_bytes = s.segments.missing();
        if let Some(d) = &mut self.half.detail {
            d.finish(u64::from(s.mss));
        }
        if let Some(e) = &mut self.half.events {
            e.retransmissions.shrink_to_fit();
        }
        self.half
    }
}

/// Whether what fills a hole was sent after what lies above it (a repair) or before it (overtaken).
fn origin(hole: &Hole, p: &Packet) -> Reordering {
    if let (Some(above), Some((this, _))) = (hole.tsval, p.timestamps()) {
        let ahead = this.wrapping_sub(above) as i32;
        if ahead > 0 {
            return Reordering::Repair;
        }
        if ahead < 0 {
            return Reordering::Reordered;
        }
    }
    // Hosts that count their packets leave the order in the identification (RFC 6864 allows it, and
    // does not ask for it).
    if hole.id != 0 && p.id != 0 {
        let ahead = (p.id as u16).wrapping_sub(hole.id as u16) as i16;
        if (1..=4096).contains(&ahead) {
            return Reordering::Repair;
        }
        if (-4096..0).contains(&ahead) {
            return Reordering::Reordered;
        }
    }
    Reordering::Unknown
}
