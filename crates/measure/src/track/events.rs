//! What went wrong in a direction, and why: kept apart, because most directions have none of it.

use super::bursts::BurstKind;
use super::packet::Packet;

/// What filled a hole, seen from behind the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reordering {
    /// Sent again: it left the sender after what lies above it.
    Repair,
    /// Sent in order, arrived out of it.
    Reordered,
    Unknown,
}

/// Counts of what is rare, retransmissions one by one, breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Packets that filled a hole below the highest byte seen.
    pub out_of_order: u64,
    /// Of those: sent again after a loss ahead of the capture, and overtaken on the way.
    pub upstream_repairs: u64,
    pub reordered: u64,
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
    /// Packets with CE, with ECE, with CWR.
    pub ce: u64,
    pub ece: u64,
    pub cwr: u64,
    /// Segments acknowledged with doubt which copy was meant; after a loss below them.
    pub acked_ambiguously: u64,
    pub acked_after_loss: u64,
    /// Packets that were captured before at another place, and at the same place.
    pub twice_elsewhere: u64,
    pub twice_here: u64,
    /// Segments on the wire beyond one a packet: super-segments are cut on their way.
    pub joined_segments: u64,
    /// All retransmissions by cause, in the order of [`Cause::ALL`], and those that were needless.
    pub by_cause: [u64; 6],
    pub needless: u64,
    /// The first hundred thousand of them.
    pub retransmissions: Vec<Retransmission>,
    pub breaks: Vec<Break>,
    /// Other packets that tell of trouble, in the order of the capture; the first hundred thousand.
    pub marks: Vec<Mark>,
}

/// Events of a direction that are kept one by one, of each kind of list.
pub(super) const KEPT: usize = 100_000;

/// A packet that tells of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub t_ns: i64,
    /// Number of the packet in the capture, from 1.
    pub frame: u32,
    pub kind: MarkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// It filled a hole below the highest byte seen.
    OutOfOrder(Reordering),
    /// Third duplicate ACK of a row.
    TripleDuplicate,
    /// It offers no window.
    ZeroWindow,
    /// Asks whether a closed window has opened.
    WindowProbe,
    /// Asks whether the other end lives.
    KeepAlive,
    /// Acknowledges bytes that the capture does not hold.
    AckOfUnseen,
    /// Second answer to one SYN, with another sequence number.
    OtherSyn,
    /// The network delivered the packet before it a second time.
    Doubled,
}

/// What nothing happened to.
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
    /// Number of the packet in the capture, from 1.
    pub frame: u32,
    /// When its first byte was sent before; `None` where the capture forgot.
    pub before_ns: Option<i64>,
    /// The packet that sent it then; 0 where that is not known.
    pub before_frame: u32,
    /// From the direction's first byte.
    pub position: u64,
    pub bytes: u64,
    pub cause: Cause,
    /// All of it was acknowledged before, or the receiver said that it had it already (RFC 2883).
    pub needless: bool,
    /// What was lost had left in the midst of a burst.
    pub burst: Option<BurstKind>,
}

/// What a loss is put down to (seed document 002, table 6.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Sent while the path carried nothing.
    Break,
    Burst(BurstKind),
    Neither,
}

/// A silence in which one segment was sent again and again, each time after about twice the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Transmissions of the segment, the first one included.
    pub sent_ns: Vec<i64>,
    /// Their numbers in the capture, from 1.
    pub frames: Vec<u32>,
    /// The ACK that ended it; `None` where none came.
    pub resumed_ns: Option<i64>,
}

impl Events {
    /// Nothing is counted in it.
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

    /// What each loss is put down to, with its bytes; what was sent again needlessly was no loss.
    pub fn losses(&self) -> impl Iterator<Item = (Blame, u64)> + '_ {
        self.retransmissions
            .iter()
            .filter(|r| !r.needless)
            .map(|r| {
                let within = |b: &Break| {
                    r.before_ns.is_some_and(|t| {
                        t >= b.sent_ns[0] && b.resumed_ns.is_none_or(|end| t <= end)
                    })
                };
                let blame = if self.breaks.iter().any(within) {
                    Blame::Break
                } else {
                    r.burst.map_or(Blame::Neither, Blame::Burst)
                };
                (blame, r.bytes)
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

    /// The receiver had `from..to` already: the latest retransmission of it was needless.
    pub(super) fn had_already(&mut self, from: u64, to: u64) {
        let hit = |r: &&mut Retransmission| r.position < to && from < r.position + r.bytes;
        if let Some(r) = self.retransmissions.iter_mut().rev().take(4096).find(hit)
            && !r.needless
        {
            r.needless = true;
            self.needless += 1;
        }
    }
}
