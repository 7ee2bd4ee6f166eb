//! Token buckets at a link: a policer in front of the queue, and a shaper at the transmitter.
//!
//! **Source**: RFC 2697, "A Single Rate Three Color Marker" (Heinanen, Guerin, 1999), section 3, for the bucket; RFC 2475,
//! "An Architecture for Differentiated Services" (1998), sections 2.3.3.3 (shapers delay) and 2.3.3.4 (droppers drop).
//!
//! **Deviations**: a packet larger than a shaper's bucket leaves when the bucket is full and owes the rest, instead of
//! never. A link description with a policer whose bucket is smaller than a packet is rejected.
//!
//! **Units**: tokens in billionths of a bit, so that rate times nanoseconds is exact. A policer counts IP packets; a
//! shaper counts the transmitter's bytes, framing included.

use crate::words::{Entry, Words, worded};
use base::spec::{Params as _, params};
use base::{BitsPerSec, Bytes, Duration, Time};

const NO_USUAL: &str = "none: there is no usual one";

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TokenBucket for "token_bucket": "packets that find too few tokens are dropped before the queue; nothing waits", [
        "RFC 2697, A Single Rate Three Color Marker, section 3",
    ] {
        /// rate at which the bucket fills
        rate: BitsPerSec = "10 Mbit/s" ["1 bit/s".."100000 Gbit/s"], NO_USUAL;
        /// size of the bucket; it is full at the start
        burst: Bytes = "15000 B" ["1 B".."1 GB"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Htb for "htb": "packets leave while the bucket owes nothing, and the queue chooses them when they leave, as under Linux's HTB", [
        "Linux, net/sched/sch_htb.c",
    ] {
        /// rate at which the bucket fills
        rate: BitsPerSec = "10 Mbit/s" ["1 bit/s".."100000 Gbit/s"], NO_USUAL;
        /// size of the bucket; it is full at the start
        burst: Bytes = "1600 B" ["1 B".."1 GB"], "iproute2, tc/q_htb.c: one packet at low rates";
    }
}

/// Laws of policers.
pub const POLICERS: &[Entry] = &[TokenBucket::ENTRY];

/// Laws of shapers.
pub const SHAPERS: &[Entry] = &[
    Entry {
        summary: "bursts leave at the link's rate, the rest at the bucket's; packets wait in the queue",
        ..TokenBucket::ENTRY
    },
    Htb::ENTRY,
];

/// Returns the rate at which a shaper's bucket fills.
pub fn shaped_rate(shaper: &ShaperSpec) -> BitsPerSec {
    let words = shaper.words();
    match words.entry().name == Htb::ENTRY.name {
        true => words.read::<Htb>().rate,
        false => words.read::<TokenBucket>().rate,
    }
}

worded! {
    /// Policer in front of the queue, written as `token_bucket:rate=20 Mbit/s,burst=50 kB`.
    PolicerSpec, "policer", POLICERS.iter()
}
worded! {
    /// Shaper at the transmitter, written as `token_bucket:rate=20 Mbit/s,burst=1 MB`.
    ShaperSpec, "shaper", SHAPERS.iter()
}

/// Token bucket, with its state at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: i128,
    size: i128,
    tokens: i128,
    at: Time,
}

/// Shaper of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shaper {
    bucket: Bucket,
    /// True if the bucket may owe the rest of a packet, and the queue is asked only once it owes nothing.
    owes: bool,
}

impl Shaper {
    pub(crate) fn of(shaper: &ShaperSpec) -> Shaper {
        let words = shaper.words();
        if words.entry().name == Htb::ENTRY.name {
            let Htb { rate, burst } = words.read();
            let bucket = Bucket::new(rate, burst);
            return Shaper { bucket, owes: true };
        }
        Shaper {
            bucket: Bucket::of(words),
            owes: false,
        }
    }

    /// Returns the time before which the queue is not asked, if that is after `at`.
    pub(crate) fn held(&mut self, at: Time) -> Option<Time> {
        if !self.owes {
            return None;
        }
        self.bucket.fill(at);
        Some(self.bucket.ready(Bytes::ZERO)).filter(|ready| *ready > at)
    }

    /// Returns the time at which a packet of `len` that is ready at `at` leaves; its tokens are removed.
    pub(crate) fn release(&mut self, at: Time, len: Bytes) -> Time {
        if self.owes {
            self.bucket.fill(at);
            self.bucket.spend(len);
            return at;
        }
        self.bucket.release(at, len)
    }

    /// Returns the time in which a backlog leaves from `now` on, if the line sends at `line`.
    pub(crate) fn drain(mut self, now: Time, backlog: Bytes, line: BitsPerSec) -> Duration {
        self.bucket.fill(now);
        let credit = self.bucket.tokens / worth(Bytes::new(1));
        let rest = backlog.saturating_sub(Bytes::new(u64::try_from(credit).unwrap_or(0)));
        let rate = BitsPerSec::new(u64::try_from(self.bucket.rate).unwrap_or(u64::MAX));
        let by_bucket = rest.serialization_delay_ceil(rate);
        let by_line = backlog.serialization_delay_ceil(line.max(BitsPerSec::new(1)));
        by_bucket.max(by_line)
    }
}

/// Converts bytes to tokens.
fn worth(bytes: Bytes) -> i128 {
    i128::from(bytes.get()) * 8 * 1_000_000_000
}

impl Bucket {
    /// Creates a full bucket.
    pub(crate) fn new(rate: BitsPerSec, size: Bytes) -> Bucket {
        Bucket {
            rate: i128::from(rate.get()),
            size: worth(size),
            tokens: worth(size),
            at: Time::ZERO,
        }
    }

    pub(crate) fn of(words: &Words) -> Bucket {
        let TokenBucket { rate, burst } = words.read();
        Bucket::new(rate, burst)
    }

    /// Returns the time at which a packet of `len` may leave, not before the bucket's instant.
    pub(crate) fn ready(&self, len: Bytes) -> Time {
        let missing = worth(len).min(self.size) - self.tokens;
        if missing <= 0 {
            return self.at;
        }
        let ns = (missing + self.rate - 1) / self.rate;
        self.at + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Removes the tokens of a packet of `len` that leaves.
    pub(crate) fn spend(&mut self, len: Bytes) {
        self.tokens -= worth(len);
    }

    /// Fills the bucket up to `now`.
    pub(crate) fn fill(&mut self, now: Time) {
        let gained = i128::from(now.saturating_since(self.at).as_nanos()) * self.rate;
        self.tokens = (self.tokens + gained).min(self.size);
        self.at = self.at.max(now);
    }

    /// True if a packet of `len` that arrives now conforms; then its tokens are removed.
    pub(crate) fn admits(&mut self, now: Time, len: Bytes) -> bool {
        self.fill(now);
        let admits = self.tokens >= worth(len);
        if admits {
            self.spend(len);
        }
        admits
    }

    /// Returns the time at which a packet of `len` that is ready at `at` leaves; its tokens are removed.
    pub(crate) fn release(&mut self, at: Time, len: Bytes) -> Time {
        self.fill(at);
        let ready = self.ready(len).max(at);
        self.fill(ready);
        self.spend(len);
        ready
    }
}
