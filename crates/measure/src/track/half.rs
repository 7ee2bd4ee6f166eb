//! One direction of a connection: what its sender sent, and what came back about it.

use super::segments::{Hole, Segments};
use crate::capture::frame::{Frame, Options, Tcp, flag};

/// Everything counted in one direction.
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
    /// Packets that filled a hole below the highest byte seen.
    pub out_of_order: u64,
    /// Of those: sent again after a loss ahead of the capture, and overtaken on the way.
    pub upstream_repairs: u64,
    pub reordered: u64,
    pub pure_acks: u64,
    /// ACKs without data or news, of the window's size before, while data was outstanding; and the third of each row.
    pub duplicate_acks: u64,
    pub triple_duplicate_acks: u64,
    /// ACKs that carried SACK blocks, and blocks that told of a duplicate (RFC 2883).
    pub sack_acks: u64,
    pub dsacks: u64,
    pub zero_windows: u64,
    /// Data into a closed window.
    pub window_probes: u64,
    /// One byte or none, just below the next one due: asks whether the other end lives.
    pub keep_alives: u64,
    /// ACKs for bytes that the capture does not hold: it lost packets, not the network.
    pub acks_of_unseen: u64,
    pub syns: u64,
    pub fins: u64,
    pub resets: u64,
    /// Packets with CE, with ECE, with CWR.
    pub ce: u64,
    pub ece: u64,
    pub cwr: u64,
    /// Most bytes outstanding: as tcptrace counts them, and without those that SACK reported.
    pub outstanding_max: u64,
    pub in_flight_max: u64,
    /// Data sent before the first ACK of data.
    pub initial_window: u64,
    /// Payload of the largest packet.
    pub largest: u32,
    /// Longest time between two packets of this direction.
    pub longest_silence_ns: i64,
    /// Segments acknowledged together with a later one; with doubt which copy was meant; after a loss below them.
    pub acked_cumulatively: u64,
    pub acked_ambiguously: u64,
    pub acked_after_loss: u64,
}

/// Round trips from data to its ACK: of segments sent once, acknowledged to their last byte, and not held
/// back by a loss below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    pub count: u64,
    pub sum_ns: i128,
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
        self.count += 1;
        self.sum_ns += i128::from(rtt);
    }
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// Why something was sent again, as far as the capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The retransmission timer ran out (RFC 6298).
    Timeout,
    /// Three duplicate ACKs (RFC 5681 section 3.2).
    Fast,
    /// SACK told of data above it before the third duplicate ACK came (RFC 6675 section 4, RFC 8985 section 6).
    Sack,
    /// Further segments of the same recovery, after fast retransmission or a time-out.
    Recovery,
    /// The last segment, sent again early so that its loss is noticed (RFC 8985 section 7).
    TailProbe,
    /// None of these can be shown.
    Unknown,
}

impl Cause {
    pub const ALL: [Cause; 6] = [
        Cause::Timeout,
        Cause::Fast,
        Cause::Sack,
        Cause::Recovery,
        Cause::TailProbe,
        Cause::Unknown,
    ];
    pub fn word(self) -> &'static str {
        match self {
            Cause::Timeout => "timeout",
            Cause::Fast => "fast",
            Cause::Sack => "sack",
            Cause::Recovery => "recovery",
            Cause::TailProbe => "tail_probe",
            Cause::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    pub t_ns: i64,
    /// From the direction's first byte.
    pub position: u64,
    pub bytes: u64,
    pub cause: Cause,
    /// All of it was acknowledged before.
    pub needless: bool,
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

/// A silence in which one segment was sent again and again, each time after about twice the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Transmissions of the segment, the first one included.
    pub sent_ns: Vec<i64>,
    /// The ACK that ended it; `None` where none came.
    pub resumed_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Recovery {
    #[default]
    None,
    Fast,
    Timeout,
}

/// The last few packets, to know one that was captured twice.
#[derive(Clone, Copy, Debug)]
struct Print {
    t: i64,
    hash: u64,
    /// Where it was seen: a copy from another interface has gone one hop further or carries another tag.
    place: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Half {
    pub counts: Counts,
    pub rtt: RoundTrips,
    pub retransmissions: Vec<Retransmission>,
    pub breaks: Vec<Break>,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,

    /// Sequence number of the SYN.
    isn: Option<u32>,
    started: bool,
    /// Extended sequence space: the first byte, the one after the highest sent, the one after the highest acknowledged.
    base: u64,
    next: u64,
    una: u64,
    fin: Option<u64>,
    segments: Segments,
    /// Latest transmission of anything that was acknowledged.
    last_acked_t: i64,
    /// When data was last sent.
    data_t: i64,
    /// What this end last offered to the other, scaled where both SYNs were seen.
    window: u32,
    window_seen: bool,
    /// As it stood in the header of the packet before the latest ACK.
    previous_window: u16,
    /// Highest ACK that this end has sent, to know its repetitions.
    acked: u64,
    duplicates: u32,
    sack_top: u64,
    recovery: Recovery,
    recover: u64,
    /// When the time-out that is being recovered from came.
    timeout_t: i64,
    srtt: i64,
    rttvar: i64,
    ack_of_data: bool,
    chain: Vec<i64>,
    chain_at: u64,
    prints: Vec<Print>,
    print: u8,
}

/// Half of the space lies before a number, half after it.
#[inline]
fn extend(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

/// Room below the first byte, for data from before it.
const ORIGIN: u64 = 1 << 40;
/// The same packet at the same place is a few microseconds apart; after another hop it may have waited.
const TWICE_NS: i64 = 2_000_000;
const TWICE_AWAY_NS: i64 = 1_000_000_000;
/// Packets of one direction between the two copies of one.
const PRINTS: usize = 16;
/// Fewer retransmissions in a row are no break of the path but a loss.
const BREAK_LEAST: usize = 3;

impl Half {
    pub fn initial_seq(&self) -> Option<u32> {
        self.isn
    }

    pub fn expects(&self, seq: u32) -> bool {
        extend(self.next, seq) == self.next
    }

    /// Its FIN was sent and acknowledged.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|end| self.una >= end)
    }

    /// Payload that the other end acknowledged or the sender numbered, but the capture does not hold.
    pub fn missing_bytes(&self) -> u64 {
        self.segments.missing()
    }

    pub fn forgotten_segments(&self) -> u64 {
        self.segments.forgotten
    }

    /// The receive window last offered; `None` before the first packet.
    pub fn advertised(&self) -> Option<u32> {
        self.window_seen.then_some(self.window)
    }

    /// Whether this packet was captured before, on another interface or by a mirror port.
    #[inline]
    pub(super) fn is_copy(
        &mut self,
        t: i64,
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        options: &Options,
    ) -> bool {
        // Without an identification two equal packets may well be two: a second duplicate ACK, say. Data
        // with a timestamp cannot be repeated within a millisecond.
        if frame.id == 0 && (options.timestamps.is_none() || tcp.payload == 0) {
            return false;
        }
        let place = u32::from(frame.vlan) << 8 | u32::from(frame.ttl);
        let hash = fingerprint(frame, tcp);
        // What moves the connection on has not been seen before.
        let news = if tcp.payload > 0 || tcp.flags & (flag::SYN | flag::FIN) != 0 {
            self.started && extend(self.next, tcp.seq) >= self.next
        } else {
            extend(self.acked, tcp.ack) > self.acked
        };
        let copy = !news
            && self.prints.iter().any(|p| {
                p.hash == hash
                    && t - p.t
                        < if p.place == place {
                            TWICE_NS
                        } else {
                            TWICE_AWAY_NS
                        }
            });
        if !copy {
            let print = Print { t, hash, place };
            if self.prints.len() < PRINTS {
                self.prints.push(print);
            } else {
                self.prints[usize::from(self.print)] = print;
                self.print = (self.print + 1) % PRINTS as u8;
            }
        }
        copy
    }

    /// What every packet says: options, window, flags.
    pub(super) fn note(
        &mut self,
        t: i64,
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        options: &Options,
        other: &Half,
    ) {
        if let Some(last) = self.last_ns {
            self.counts.longest_silence_ns = self.counts.longest_silence_ns.max(t - last);
        }
        self.first_ns.get_or_insert(t);
        self.last_ns = Some(t);
        let c = &mut self.counts;
        c.packets += 1;
        c.ce += u64::from(frame.traffic_class & 3 == 3);
        c.ece += u64::from(tcp.has(flag::ECE));
        c.cwr += u64::from(tcp.has(flag::CWR));
        self.timestamps |= options.timestamps.is_some();
        if tcp.has(flag::RST) {
            c.resets += 1;
            return;
        }
        if tcp.has(flag::SYN) {
            c.syns += 1;
            self.mss = options.mss.or(self.mss);
            self.window_scale = options.window_scale.or(self.window_scale);
            self.sack_permitted |= options.sack_permitted;
        }
        c.fins += u64::from(tcp.has(flag::FIN));
        // RFC 7323 section 2.2: scaled only where both sides agreed, and never in a SYN itself.
        let shift = match (self.window_scale, other.window_scale) {
            (Some(shift), Some(_)) if !tcp.has(flag::SYN) => shift,
            _ => 0,
        };
        self.window = u32::from(tcp.window) << shift;
        self.window_seen = true;
        c.zero_windows += u64::from(tcp.window == 0 && !tcp.has(flag::SYN) && !tcp.has(flag::FIN));
    }

    /// What this packet says of its own sender's data. `window` is what the other end last offered.
    #[inline]
    pub(super) fn data(
        &mut self,
        t: i64,
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        options: &Options,
        window: Option<u32>,
    ) {
        let syn = tcp.has(flag::SYN);
        let fin = tcp.has(flag::FIN);
        if !self.started {
            self.started = true;
            self.base = ORIGIN + u64::from(tcp.seq);
            (self.next, self.una, self.sack_top) = (self.base, self.base, self.base);
        }
        if syn {
            self.isn.get_or_insert(tcp.seq);
        }
        let payload = u64::from(tcp.payload);
        let occupied = payload + u64::from(syn) + u64::from(fin);
        if occupied == 0 {
            return;
        }
        let start = extend(self.next, tcp.seq);
        let end = start + occupied;
        if payload > 0 {
            self.counts.data_packets += 1;
            self.counts.data_bytes += payload;
            self.counts.largest = self.counts.largest.max(tcp.payload);
        }
        // RFC 9293 section 3.8.6.1: a byte into a closed window, to learn whether it has opened.
        if window == Some(0) && !syn && !fin && payload > 0 {
            self.counts.window_probes += 1;
            return;
        }
        if fin {
            self.fin = Some(end);
        }
        if start >= self.next {
            if start > self.next {
                let hole = Hole {
                    start: self.next,
                    end: start,
                    t,
                    id: frame.id,
                    tsval: options.timestamps.map(|x| x.0),
                };
                self.segments.add_hole(hole);
            }
            self.segments.push(start, end, t);
            self.next = end;
            self.counts.unique_bytes += payload;
        } else {
            if start < self.base {
                // From before the capture began.
                let hole = Hole {
                    start,
                    end: self.base,
                    t,
                    id: frame.id,
                    tsval: None,
                };
                self.segments.add_hole(hole);
                self.base = start;
            }
            self.again(t, start, end, frame, tcp, options);
        }
        self.data_t = t;
        self.flight(payload);
    }

    /// Bytes outstanding after a transmission.
    #[inline]
    fn flight(&mut self, payload: u64) {
        let outstanding = self.next - self.una.min(self.next);
        let c = &mut self.counts;
        c.outstanding_max = c.outstanding_max.max(outstanding);
        let in_flight = outstanding.saturating_sub(self.segments.sacked_bytes());
        c.in_flight_max = c.in_flight_max.max(in_flight);
        if !self.ack_of_data {
            c.initial_window += payload;
        }
    }

    /// A packet that begins below what was sent already.
    fn again(
        &mut self,
        t: i64,
        start: u64,
        end: u64,
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        options: &Options,
    ) {
        let data_start = start + u64::from(tcp.has(flag::SYN));
        let data_end = data_start + u64::from(tcp.payload);
        let old_next = self.next;
        let mut fresh = 0;
        let mut fresh_data = 0;
        let mut hole = None;
        if self.segments.has_holes() {
            let control = |segments: &mut Segments, from, to| {
                if from < to {
                    segments.fill(from, to)
                } else {
                    (0, None)
                }
            };
            let (a, _) = control(&mut self.segments, start, data_start);
            let (b, first) = control(&mut self.segments, data_start, data_end);
            let (c, _) = control(&mut self.segments, data_end, end);
            fresh = a + b + c;
            fresh_data = b;
            hole = first;
        }
        let beyond = end.saturating_sub(old_next);
        fresh += beyond;
        fresh_data += data_end.saturating_sub(old_next.max(data_start));
        self.counts.unique_bytes += fresh_data;
        let old = end - start - fresh;
        let keep_alive = end - start <= 1 && start + 1 == old_next && self.una == self.next;
        if old > 0 {
            self.counts.retransmitted_packets += 1;
            self.counts.retransmitted_bytes += old;
            self.counts.keep_alives += u64::from(keep_alive);
        }
        if start < self.una {
            // A copy of acknowledged data: what is acknowledged next may have been set off by it.
            self.last_acked_t = self.last_acked_t.max(t);
        }
        let before = if fresh > 0 && end <= old_next {
            self.counts.out_of_order += 1;
            match hole.map_or(Reordering::Unknown, |h| origin(&h, frame, options)) {
                Reordering::Repair => self.counts.upstream_repairs += 1,
                Reordering::Reordered => self.counts.reordered += 1,
                Reordering::Unknown => {}
            }
            self.segments.insert(start, end, t);
            None
        } else {
            self.segments.resent(start, end.min(old_next), t)
        };
        if end > old_next {
            self.segments.push(old_next, end, t);
            self.next = end;
        }
        if old > 0 && !keep_alive {
            let cause = self.cause(t, start, end, before);
            self.chain(t, start, before.map(|s| s.t), cause);
            self.retransmissions.push(Retransmission {
                t_ns: t,
                position: start - self.base,
                bytes: old,
                cause,
                needless: end <= self.una,
            });
        }
    }

    /// RFC 6298 section 2, with Linux's least time-out of 200 ms; before any sample, the first time-out.
    fn timeout_ns(&self) -> i64 {
        if self.srtt == 0 {
            return 1_000_000_000;
        }
        self.srtt + (4 * self.rttvar).max(200_000_000)
    }

    /// The state of the sender that explains a retransmission of `start..end`.
    fn cause(
        &mut self,
        t: i64,
        start: u64,
        end: u64,
        before: Option<super::segments::Segment>,
    ) -> Cause {
        let waited = t - before.map_or(self.data_t, |s| s.t);
        let silent = t - self.data_t;
        if self.una < self.recover {
            match self.recovery {
                // The repair itself was lost: only the timer notices.
                Recovery::Fast
                    if before.is_some_and(|s| s.again > 0)
                        && silent * 4 >= self.timeout_ns() * 3 => {}
                Recovery::Fast => return Cause::Recovery,
                Recovery::Timeout if before.is_some_and(|s| s.t < self.timeout_t) => {
                    return Cause::Recovery;
                }
                Recovery::Timeout | Recovery::None => {}
            }
        }
        let at_front = start <= self.una;
        if at_front && self.duplicates >= 3 {
            self.enter(Recovery::Fast, t);
            return Cause::Fast;
        }
        let mss = u64::from(self.counts.largest.max(1));
        if at_front && self.sack_top > self.una + 3 * mss {
            self.enter(Recovery::Fast, t);
            return Cause::Sack;
        }
        // RFC 8985 section 7.2: after two round trips, the highest segment; the timer is later.
        if end == self.next && !at_front && self.srtt > 0 && waited < self.timeout_ns() {
            return Cause::TailProbe;
        }
        if waited * 4 >= self.timeout_ns() * 3 || waited >= 200_000_000 {
            self.enter(Recovery::Timeout, t);
            return Cause::Timeout;
        }
        // By time rather than by count (RFC 8985 section 6.2): what was sent later has arrived.
        if self.sack_top > end {
            self.enter(Recovery::Fast, t);
            return Cause::Sack;
        }
        Cause::Unknown
    }

    fn enter(&mut self, recovery: Recovery, t: i64) {
        self.recovery = recovery;
        self.recover = self.next;
        self.timeout_t = t;
    }

    /// Keeps the transmissions of the segment that everything waits for.
    fn chain(&mut self, t: i64, start: u64, first: Option<i64>, cause: Cause) {
        if !matches!(cause, Cause::Timeout | Cause::TailProbe) {
            return;
        }
        if self.chain.is_empty() || self.chain_at != start {
            self.end_chain(None);
            self.chain_at = start;
            self.chain.extend(first);
        }
        self.chain.push(t);
    }

    fn end_chain(&mut self, resumed_ns: Option<i64>) {
        if self.chain.len() > BREAK_LEAST {
            self.breaks.push(Break {
                sent_ns: std::mem::take(&mut self.chain),
                resumed_ns,
            });
        }
        self.chain.clear();
    }

    /// What `from`'s packet says of the data of this direction.
    #[inline]
    pub(super) fn acknowledged(
        &mut self,
        t: i64,
        tcp: &Tcp<'_>,
        options: &Options,
        from: &mut Half,
    ) {
        if !self.started {
            return;
        }
        let ack = extend(self.una, tcp.ack);
        let pure = tcp.payload == 0 && tcp.flags & (flag::SYN | flag::FIN) == 0;
        from.counts.pure_acks += u64::from(pure);
        if !options.sack().is_empty() {
            from.counts.sack_acks += 1;
            self.sacked(ack, options, from);
        }
        if ack > self.next {
            from.counts.acks_of_unseen += 1;
            return;
        }
        if ack <= self.una {
            if ack == self.una && pure && self.next > self.una {
                self.duplicates += 1;
                if from.acked == ack && from.previous_window == tcp.window {
                    from.counts.duplicate_acks += 1;
                    from.counts.triple_duplicate_acks += u64::from(self.duplicates == 3);
                }
            }
            from.previous_window = tcp.window;
            return;
        }
        from.acked = ack;
        from.previous_window = tcp.window;
        self.duplicates = 0;
        self.ack_of_data |= ack > self.base + u64::from(self.isn.is_some());
        self.una = ack;
        if ack >= self.recover {
            self.recovery = Recovery::None;
        }
        if !self.chain.is_empty() && ack > self.chain_at {
            self.end_chain(Some(t));
        }
        self.take_acked(t, ack);
    }

    fn take_acked(&mut self, t: i64, ack: u64) {
        let mut latest = self.last_acked_t;
        while let Some(front) = self.segments.front().copied().filter(|s| s.start < ack) {
            if front.end > ack {
                self.segments.trim_front(ack);
                break;
            }
            self.segments.pop_front();
            self.last_acked_t = self.last_acked_t.max(front.t);
            if front.end == ack {
                if latest > front.t {
                    self.counts.acked_after_loss += 1;
                } else if front.again > 0 {
                    self.counts.acked_ambiguously += 1;
                } else {
                    self.sample(t - front.t);
                }
            } else {
                self.counts.acked_cumulatively += 1;
            }
            latest = latest.max(front.t);
        }
    }

    fn sample(&mut self, rtt: i64) {
        self.rtt.add(rtt);
        // RFC 6298 section 2.3
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (rtt.max(1), rtt / 2);
        } else {
            self.rttvar += ((self.srtt - rtt).abs() - self.rttvar) / 4;
            self.srtt = (self.srtt + (rtt - self.srtt) / 8).max(1);
        }
    }

    fn sacked(&mut self, ack: u64, options: &Options, from: &mut Half) {
        for (i, (left, right)) in options.sack().iter().enumerate() {
            let (left, right) = (extend(ack, *left), extend(ack, *right));
            if left >= right || right > self.next {
                continue;
            }
            // RFC 2883 section 4: the first block may lie below the ACK, or within the second.
            let within_second = i == 0
                && options
                    .sack()
                    .get(1)
                    .is_some_and(|(l, r)| extend(ack, *l) <= left && right <= extend(ack, *r));
            if i == 0 && (right <= ack || within_second) {
                from.counts.dsacks += 1;
                continue;
            }
            self.sack_top = self.sack_top.max(right);
            self.segments.sack(left, right);
        }
    }

    pub(super) fn finish(&mut self) {
        self.end_chain(None);
        self.retransmissions.shrink_to_fit();
    }
}

/// Everything by which two packets that left one sender differ.
#[inline]
fn fingerprint(frame: &Frame<'_>, tcp: &Tcp<'_>) -> u64 {
    let mut h = u64::from(frame.id) << 32 | u64::from(tcp.seq);
    for word in [
        u64::from(tcp.ack) << 32 | u64::from(tcp.payload),
        u64::from(tcp.checksum) << 8 | u64::from(tcp.flags),
    ] {
        let product = u128::from(h ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        h = (product >> 64) as u64 ^ product as u64;
    }
    h
}

/// Whether what fills a hole was sent after what lies above it (a repair) or before it (overtaken).
fn origin(hole: &Hole, frame: &Frame<'_>, options: &Options) -> Reordering {
    if let (Some(above), Some((this, _))) = (hole.tsval, options.timestamps) {
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
    if hole.id != 0 && frame.id != 0 {
        let ahead = (frame.id as u16).wrapping_sub(hole.id as u16) as i16;
        if (1..=4096).contains(&ahead) {
            return Reordering::Repair;
        }
        if (-4096..0).contains(&ahead) {
            return Reordering::Reordered;
        }
    }
    Reordering::Unknown
}
