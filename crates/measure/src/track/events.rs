//! Losses and other trouble in a direction, with their causes: stored separately, because most directions have none.

use super::bursts::BurstKind;
use super::packet::Packet;
use std::collections::BTreeSet;

/// Cause of a packet that filled a hole, seen behind the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reordering {
    /// Retransmitted: it left the sender after the data above it.
    Repair,
    /// Sent in order, received out of order.
    Reordered,
    Unknown,
}

/// Counters of rare events, single retransmissions, and breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Packets that filled a hole below the highest byte seen.
    pub out_of_order: u64,
    /// Hole-filling packets by cause: retransmitted after a loss before the capture, and reordered.
    pub upstream_repairs: u64,
    /// Packets that were reordered.
    pub reordered: u64,
    /// Duplicate ACKs: without data or news, with an unchanged window, while data was outstanding; and the third of
    /// each row.
    pub duplicate_acks: u64,
    /// Triple duplicate ACKs.
    pub triple_duplicate_acks: u64,
    /// ACKs that carried SACK blocks, and blocks that reported a duplicate (RFC 2883).
    pub sack_acks: u64,
    /// Blocks that reported a duplicate (RFC 2883).
    pub dsacks: u64,
    /// Packets that offer no window.
    pub zero_windows: u64,
    /// Data sent into a closed window.
    pub window_probes: u64,
    /// Keep-alives: one byte or none, just below the next byte due.
    pub keep_alives: u64,
    /// ACKs for bytes that the capture does not hold: the capture lost packets, not the network.
    pub acks_of_unseen: u64,
    /// Packets with CE, with ECE, with CWR.
    pub ce: u64,
    /// Packets with ECN echo.
    pub ece: u64,
    /// Packets with a reduced congestion window.
    pub cwr: u64,
    /// Segments whose ACK may belong to either copy; segments acknowledged after a loss below them.
    pub acked_ambiguously: u64,
    /// Segments acknowledged after a loss below them.
    pub acked_after_loss: u64,
    /// Packets that were captured before at another point, and at the same point.
    pub twice_elsewhere: u64,
    /// Packets that were captured twice at the same point.
    pub twice_here: u64,
    /// Segments on the wire beyond one per packet: super-segments are split on the path.
    pub joined_segments: u64,
    /// Retransmissions by cause, in the order of [`Cause::ALL`], and the spurious ones.
    pub by_cause: [u64; 6],
    /// Needless retransmissions.
    pub needless: u64,
    /// First hundred thousand retransmissions.
    pub retransmissions: Vec<Retransmission>,
    /// Flow breaks in order.
    pub breaks: Vec<Break>,
    /// Packets that indicate other trouble, in the order of the capture; the first hundred thousand.
    pub marks: Vec<Mark>,
}

/// Maximum number of events kept in each list of a direction.
pub(super) const KEPT: usize = 100_000;

/// A packet that indicates trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Time, ns.
    pub t_ns: i64,
    /// Number of the packet in the capture, from 1.
    pub frame: u32,
    /// Kind of the mark.
    pub kind: MarkKind,
}

/// Kind of a packet that shows a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Packet that filled a hole below the highest byte seen.
    OutOfOrder(Reordering),
    /// Third duplicate ACK of a row.
    TripleDuplicate,
    /// Packet that offers a window of zero.
    ZeroWindow,
    /// Probe that asks if a closed window has opened.
    WindowProbe,
    /// Probe that asks if the other end is alive.
    KeepAlive,
    /// ACK of bytes that the capture does not hold.
    AckOfUnseen,
    /// Second answer to one SYN, with another sequence number.
    OtherSyn,
    /// Duplicate by the network of the packet before it.
    Doubled,
}

/// Events of a direction without any.
pub static NOTHING: Events = Events {
    out_of_order: 0,
    upstream_repairs: 0,
    reordered: 0,
    duplicate_acks: 0,
    triple_duplicate_acks: 0,
    sack_acks: 0,
    dsacks: 0,
    zero_windows: 0,
    window_probes: 0,
    keep_alives: 0,
    acks_of_unseen: 0,
    ce: 0,
    ece: 0,
    cwr: 0,
    acked_ambiguously: 0,
    acked_after_loss: 0,
    twice_elsewhere: 0,
    twice_here: 0,
    joined_segments: 0,
    by_cause: [0; 6],
    needless: 0,
    retransmissions: Vec::new(),
    breaks: Vec::new(),
    marks: Vec::new(),
};

/// Cause of a retransmission, as far as the capture shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Expired retransmission timer (RFC 6298).
    Timeout,
    /// Three duplicate ACKs (RFC 5681 section 3.2).
    Fast,
    /// SACK of data above it before the third duplicate ACK came (RFC 6675 section 4, RFC 8985 section 6).
    Sack,
    /// Further segments of the same recovery, after fast retransmission or a timeout.
    Recovery,
    /// Tail loss probe: the last segment, retransmitted early so that its loss is noticed (RFC 8985 section 7).
    TailProbe,
    /// Cause that the capture does not show.
    Unknown,
}

impl Cause {
    /// All values, in order.
    pub const ALL: [Cause; 6] = [
        Cause::Timeout,
        Cause::Fast,
        Cause::Sack,
        Cause::Recovery,
        Cause::TailProbe,
        Cause::Unknown,
    ];
    /// Word for it in texts and files.
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

/// Retransmitted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// Time, ns.
    pub t_ns: i64,
    /// Number of the packet in the capture, from 1.
    pub frame: u32,
    /// Time of the previous transmission of its first byte, ns; `None` if the capture no longer holds it.
    pub before_ns: Option<i64>,
    /// Packet of that previous transmission; 0 if unknown.
    pub before_frame: u32,
    /// Position from the direction's first byte.
    pub position: u64,
    /// Retransmitted bytes.
    pub bytes: u64,
    /// Cause of the retransmission.
    pub cause: Cause,
    /// True if it was spurious: an earlier packet had brought all of it. The receiver reported so (RFC 2883), or its ACKs
    /// show it.
    pub needless: bool,
    /// Bytes of it that the receiver reported to have had.
    pub(super) reported: u64,
    /// Bytes of it that an earlier packet had brought, by other signs.
    pub(super) arrived: u64,
    /// True if the receiver lacked it: the ACK echoes its timestamp; or it was the first, and the receiver had reported data
    /// above it.
    pub(super) missed: bool,
    /// True if the ACK echoes its timestamp.
    pub(super) echoed: bool,
    /// Number of its run: the retransmissions until all is acknowledged that had been sent at the first of them.
    pub(super) run: u32,
    /// True if the capture lacks the ACK for it or an earlier transmission.
    pub(super) unanswered: bool,
    /// Time of the ACK for it, if it was the last transmission before that, ns.
    pub(super) acked_ns: Option<i64>,
    /// Kind of the burst, if the lost segment had left inside one.
    pub burst: Option<BurstKind>,
}

impl Retransmission {
    /// Bytes of it in a range.
    fn within(&self, from: u64, to: u64) -> u64 {
        let end = self.position.saturating_add(self.bytes);
        to.min(end).saturating_sub(from.max(self.position))
    }

    /// Bytes of it that were for nothing.
    fn spared(&self) -> u64 {
        self.reported.max(self.arrived).min(self.bytes)
    }

    /// True if it turns out now that all of it was for nothing.
    fn is_spared_now(&mut self) -> bool {
        let all = self.spared() == self.bytes && !self.needless;
        self.needless |= all;
        all
    }
}

/// Cause to which a loss is attributed (A. R. Chandele, *Network Measurement in 2G/3G Cellular Network*, IIT Delhi
/// 2012, table 6.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Sent while the path carried nothing.
    Break,
    Burst(BurstKind),
    Neither,
}

/// Loss that a retransmission tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Cause to which it is attributed.
    pub blame: Blame,
    /// Lost bytes.
    pub bytes: u64,
    /// True if the retransmission may have been spurious: others of its run were, or its ACK is not in the capture;
    /// and the receiver had reported no data above it. Its ACK or its report may be lost, or beyond the capture.
    pub doubtful: bool,
}

/// Silence in which a segment was retransmitted repeatedly, each time after about twice the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Times of the segment's transmissions, the first one included, ns.
    pub sent_ns: Vec<i64>,
    /// Numbers of these packets in the capture, from 1.
    pub frames: Vec<u32>,
    /// Time of the ACK that ended it; `None` if none came.
    pub resumed_ns: Option<i64>,
}

impl Events {
    /// True if nothing is counted.
    pub fn is_quiet(&self) -> bool {
        *self == NOTHING
    }

    #[cold]
    pub(super) fn mark(&mut self, p: &Packet, kind: MarkKind) {
        if self.marks.len() < KEPT {
            self.marks.push(Mark {
                t_ns: p.t,
                frame: p.frame,
                kind,
            });
        }
    }

    /// Losses; spurious retransmissions are none.
    pub fn losses(&self) -> impl Iterator<Item = Loss> + '_ {
        let spared = self.retransmissions.iter().filter(|r| r.spared() > 0);
        let doubtful: BTreeSet<u32> = spared.map(|r| r.run).collect();
        let lost = self.retransmissions.iter().filter(|r| !r.needless);
        lost.map(move |r| {
            let within = |b: &Break| {
                r.before_ns
                    .is_some_and(|t| t >= b.sent_ns[0] && b.resumed_ns.is_none_or(|end| t <= end))
            };
            Loss {
                blame: match self.breaks.iter().any(within) {
                    true => Blame::Break,
                    false => r.burst.map_or(Blame::Neither, Blame::Burst),
                },
                bytes: r.bytes - r.spared(),
                doubtful: !r.missed && (r.unanswered || doubtful.contains(&r.run)),
            }
        })
    }

    /// Time from the first loss of each break to the ACK that ended it, or to its last attempt.
    pub fn time_in_breaks_ns(&self) -> i64 {
        let last = |b: &Break| b.resumed_ns.or(b.sent_ns.last().copied());
        self.breaks
            .iter()
            .map(|b| last(b).map_or(0, |end| end - b.sent_ns[0]))
            .sum()
    }

    /// Marks a retransmission of `from..to` as spurious: the receiver says that it had it already. Each report is of another
    /// one; those that are known to be spurious are reported, too.
    pub(super) fn had_already(&mut self, from: u64, to: u64) {
        let of = |r: &Retransmission| r.within(from, to) > 0 && r.reported < r.bytes;
        let lately = self.retransmissions.len().saturating_sub(4096);
        let lately = &mut self.retransmissions[lately..];
        let known = lately.iter().rposition(|r| of(r) && r.needless);
        let Some(at) = known.or_else(|| lately.iter().rposition(of)) else {
            return;
        };
        let r = &mut lately[at];
        r.reported = r.reported.saturating_add(r.within(from, to));
        self.needless += u64::from(r.is_spared_now());
    }

    /// Notes the ACK, at `t`, of the retransmission of `from..to` that left at `sent`.
    #[cold]
    pub(super) fn was_acked(&mut self, (from, to): (u64, u64), sent: i64, t: i64) {
        let later = self.retransmissions.iter_mut().rev().take(4096);
        for r in later.take_while(|r| r.t_ns >= sent) {
            if r.within(from, to) > 0 && r.t_ns == sent {
                r.acked_ns = Some(t);
            }
        }
    }

    /// Marks the retransmissions that were acknowledged in less than `least` as spurious: the ACK was for an earlier packet.
    #[cold]
    pub(super) fn acked_sooner_than(&mut self, least: i64) {
        for r in &mut self.retransmissions {
            let soon = r.acked_ns.is_some_and(|t| t.saturating_sub(r.t_ns) < least);
            if soon && !r.echoed {
                r.arrived = r.bytes;
                self.needless += u64::from(r.is_spared_now());
            }
        }
    }

    /// Marks the retransmission of `from..to` that left at `sent` as the first transmission to arrive.
    #[cold]
    pub(super) fn had_not_arrived(&mut self, from: u64, to: u64, sent: i64) {
        let later = self.retransmissions.iter_mut().rev().take(4096);
        for r in later.take_while(|r| r.t_ns >= sent) {
            if r.t_ns == sent && r.within(from, to) > 0 {
                (r.missed, r.echoed) = (true, true);
            }
        }
    }

    /// Marks the retransmissions of `from..to`, whose ACK the capture lacks.
    #[cold]
    pub(super) fn was_acked_unseen(&mut self, from: u64, to: u64) {
        let later = self.retransmissions.iter_mut().rev().take(4096);
        for r in later.filter(|r| r.within(from, to) > 0) {
            r.unanswered = true;
        }
    }

    /// Marks the retransmissions beyond the last byte that the capture acknowledges.
    #[cold]
    pub(super) fn end(&mut self, acknowledged: u64) {
        let later = self.retransmissions.iter_mut().rev();
        for r in later.take(4096) {
            r.unanswered |= r.position.saturating_add(r.bytes) > acknowledged;
        }
    }

    /// Marks the retransmissions of `from..to` that left after `since` as spurious: an earlier packet had arrived.
    #[cold]
    pub(super) fn had_arrived(&mut self, from: u64, to: u64, since: i64) {
        let later = self.retransmissions.iter_mut().rev().take(4096);
        for r in later.take_while(|r| r.t_ns > since) {
            if r.within(from, to) > 0 {
                r.arrived = r.bytes;
            }
            self.needless += u64::from(r.is_spared_now());
        }
    }
}
