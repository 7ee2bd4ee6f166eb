//! Bursts: packets that a sender releases at once, and the reason.
//!
//! **Method.** Packets form a burst while each follows the previous one within a gap of 100 µs. If the sender's own
//! link is slower than that, the gap is one and a half times the least time between two full segments, up to 2 ms. A
//! burst counts if it exceeds two full segments, because every second ACK releases two. Its kind:
//! - *offload*: a packet larger than a segment was captured at the sender;
//! - *ACKs*: the ACK just before it released that much, because the receiver acknowledged many segments at once (or
//!   ACKs were lost or thinned out on the path), or opened a window that was full;
//! - *application*: more than all ACKs since the previous burst released, by a sender that neither the network nor the
//!   receiver's window had held back: a write after a pause, the initial window;
//! - *unknown*: several ACKs released it together, or a congestion window that grew by more. A sender that splits its super-segments before the capture looks
//!   like a sender that paces, or like a sender whose ACKs arrived in bunches.
//!
//! **Source.** A. R. Chandele, *Network Measurement in 2G/3G Cellular Network*, IIT Delhi 2012, sections
//! 5.2.2 and 6.6, which attributes every burst to offload and delayed ACKs together and asks for a better rule.
//! RFC 5681 section 3.1: slow start sends twice what was acknowledged. **Limits.** If the capture is far from the
//! sender, the ACK that released a burst cannot be determined.

use super::limits::Limit;
use super::tally::{Quantiles, count};
use std::collections::VecDeque;

/// Cause of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstKind {
    Offload,
    Acks,
    Application,
    /// The capture is too far from the sender, or several ACKs released it together.
    Unknown,
}

impl BurstKind {
    /// All values, in order.
    pub const ALL: [BurstKind; 4] = [
        BurstKind::Offload,
        BurstKind::Acks,
        BurstKind::Application,
        BurstKind::Unknown,
    ];
    /// Word for it in texts and files.
    pub fn word(self) -> &'static str {
        match self {
            BurstKind::Offload => "offload",
            BurstKind::Acks => "acks",
            BurstKind::Application => "application",
            BurstKind::Unknown => "unknown",
        }
    }
}

/// Minimum of the gap within a burst, ns.
pub(super) const GAP_NS: i64 = 100_000;
/// Number of the first burst; 0 is none.
pub(super) const FIRST: u32 = 1;
/// Maximum of the gap, ns: a full segment on a link of 6 Mbit/s. Segments written every 20 ms form no burst.
const GAP_MOST_NS: i64 = 2_000_000;
/// Maximum time between a burst and the ACK that released it, ns.
const RELEASE_NS: i64 = 1_000_000;
/// Maximum number of bursts remembered while their segments are not acknowledged.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    number: u32,
    start: u64,
    first_t: i64,
    bytes: u64,
    /// True if it holds a packet larger than a segment.
    joined: bool,
    /// Bytes acknowledged by the last ACK before it, and by all ACKs since the previous burst.
    released: u64,
    gathered: u64,
    acks: u32,
    last_ack_t: i64,
    sender: Sender,
}

/// Sender of a burst, as seen from the capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sender {
    /// True if the capture is beside it.
    pub near: bool,
    /// Limit that held it back before.
    pub limit: Limit,
    /// True if its packet before was a full one: there was more.
    pub more: bool,
}

impl Burst {
    fn kind(&self, mss: u64) -> BurstKind {
        if !self.sender.near {
            return BurstKind::Unknown;
        }
        if self.joined {
            return BurstKind::Offload;
        }
        let prompt = self.first_t - self.last_ack_t <= RELEASE_NS;
        if prompt && self.bytes <= 2 * self.released + mss {
            return BurstKind::Acks;
        }
        if self.acks >= 2 && self.bytes <= 2 * self.gathered + mss {
            return BurstKind::Unknown;
        }
        match self.sender.limit {
            // The ACK of all that was under way, in a congestion window that has grown meanwhile.
            Limit::Sender if prompt && self.sender.more => BurstKind::Unknown,
            Limit::Sender => BurstKind::Application,
            Limit::Receiver if prompt => BurstKind::Acks,
            Limit::Receiver | Limit::Network => BurstKind::Unknown,
        }
    }
}

/// Bursts of one direction.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    /// Bursts of more than two segments, by kind in the order of [`BurstKind::ALL`]; and their bytes.
    pub count: [u64; 4],
    /// Bytes of the bursts, by kind.
    pub bytes: [u64; 4],
    /// Sizes of all bursts, single packets included, in bytes.
    pub sizes: Quantiles,
    /// Largest burst, bytes.
    pub largest: u64,
    least_gap: i64,
    now: Burst,
    kept: VecDeque<(Burst, BurstKind)>,
    released: u64,
    gathered: u64,
    acks: u32,
    last_ack_t: i64,
}

impl Bursts {
    /// Maximum time between two packets of a burst, ns.
    pub fn gap_ns(&self) -> i64 {
        (self.least_gap + self.least_gap / 2).clamp(GAP_NS, GAP_MOST_NS)
    }

    /// Adds a packet of `payload` bytes at `start`, `since` ns after the previous one; returns the number of its burst.
    /// `joined`: the packet is larger than a segment.
    #[inline]
    pub fn sent(
        &mut self,
        t: i64,
        since: i64,
        start: u64,
        payload: u32,
        mss: u64,
        (sender, joined): (Sender, bool),
    ) -> u32 {
        if u64::from(payload) >= mss && since > 0 && (self.least_gap == 0 || since < self.least_gap)
        {
            self.least_gap = since;
        }
        if self.now.number > 0 && (since <= GAP_NS || since <= self.gap_ns()) {
            count(&mut self.now.bytes, u64::from(payload));
            self.now.joined |= joined;
            // ACKs that came meanwhile released the rest of it.
            count(&mut self.now.gathered, self.gathered);
            self.now.acks = self.now.acks.saturating_add(self.acks);
            (self.gathered, self.acks) = (0, 0);
        } else {
            self.close(mss);
            self.now = Burst {
                number: self.now.number.wrapping_add(1).max(1),
                start,
                first_t: t,
                bytes: u64::from(payload),
                joined,
                released: self.released,
                gathered: self.gathered,
                acks: self.acks,
                last_ack_t: self.last_ack_t,
                sender,
            };
            (self.gathered, self.acks) = (0, 0);
        }
        self.now.number
    }

    /// Sets the burst in progress when the details start.
    pub(super) fn begin(
        &mut self,
        start: u64,
        first_t: i64,
        bytes: u64,
        (near, joined): (bool, bool),
    ) {
        self.now = Burst {
            number: FIRST,
            start,
            first_t,
            bytes,
            joined,
            sender: Sender {
                near,
                limit: Limit::Sender,
                more: false,
            },
            ..Burst::default()
        };
    }

    /// Handles an ACK of `newly` more bytes.
    #[inline]
    pub fn acknowledged(&mut self, t: i64, newly: u64) {
        self.released = newly;
        count(&mut self.gathered, newly);
        self.acks = self.acks.saturating_add(1);
        self.last_ack_t = t;
    }

    /// Number of the last packet's burst.
    #[inline]
    pub fn number(&self) -> u32 {
        self.now.number
    }

    /// Ends the present burst.
    pub fn close(&mut self, mss: u64) {
        let b = std::mem::take(&mut self.now);
        self.now.number = b.number;
        if b.bytes == 0 {
            return;
        }
        self.sizes.add(b.bytes);
        self.largest = self.largest.max(b.bytes);
        if b.bytes > 2 * mss {
            let kind = b.kind(mss);
            self.count[kind as usize] += 1;
            self.bytes[kind as usize] += b.bytes;
            if self.kept.len() >= KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back((b, kind));
        }
    }

    /// Kind of the burst with that number, if the segment at `start` was not its first.
    pub fn of(&self, number: u32, start: u64, mss: u64) -> Option<BurstKind> {
        let later = |b: &Burst| start > b.start;
        if number == self.now.number {
            let b = &self.now;
            return (b.bytes > 2 * mss && later(b)).then(|| b.kind(mss));
        }
        let at = self.kept.binary_search_by_key(&number, |(b, _)| b.number);
        let (b, kind) = self.kept.get(at.ok()?)?;
        later(b).then_some(*kind)
    }
}
