//! Upper limit on the rate at which a host moves load, shared by all flows.
//!
//! **Source.** Generic cell rate algorithm, virtual scheduling (ITU-T I.371, 2004, annex A). **Deviations.** Bytes may be
//! booked ahead of the schedule: a train keeps its instants, and flows that can wait pay for it.
//! **Units.** Monotonic nanoseconds, bytes of payload plus [`HEADERS`] for each datagram.

use crate::clock::mono_ns;
use base::{BitsPerSec, Bytes, Duration};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Time that the schedule may be ahead: a burst of this much at the full rate.
const BURST_NS: i64 = 20_000_000;
/// Largest debt. A burst that could not wait delays later bytes by at most this.
const MOST_DEBT_NS: i64 = 1_000_000_000;
/// Largest share of the limit that one call moves, as time.
const CHUNK_NS: u64 = 5_000_000;
/// IP and UDP headers of a datagram, bytes; those of IPv6.
pub const HEADERS: u64 = 48;

/// Limit and schedule. Without a limit it never delays anybody.
#[derive(Debug, Default)]
pub struct Ceiling {
    rate: Option<BitsPerSec>,
    /// Instant until which the booked bytes occupy the limit.
    booked_until: AtomicI64,
    bytes: AtomicU64,
}

impl Ceiling {
    pub fn new(rate: Option<BitsPerSec>) -> Ceiling {
        Ceiling {
            rate: rate.filter(|r| *r > BitsPerSec::ZERO),
            ..Ceiling::default()
        }
    }

    pub fn rate(&self) -> Option<BitsPerSec> {
        self.rate
    }

    /// Bytes booked so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Time to wait before the next bytes may move, ns; zero if they may move at once.
    pub fn wait_ns(&self, now: i64) -> i64 {
        match self.rate {
            None => 0,
            Some(_) => (self.booked_until.load(Ordering::Relaxed) - now - BURST_NS).max(0),
        }
    }

    /// Largest number of bytes to move in one call.
    pub fn chunk(&self) -> usize {
        self.rate.map_or(usize::MAX, |rate| {
            let chunk = rate.bytes_in_floor(Duration::from_nanos(CHUNK_NS)).get();
            usize::try_from(chunk).unwrap_or(usize::MAX).max(1500)
        })
    }

    /// Books bytes that move now.
    pub fn book(&self, now: i64, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let Some(rate) = self.rate else {
            return;
        };
        let span = Bytes::new(bytes).serialization_delay_ceil(rate).as_nanos();
        let span = i64::try_from(span).unwrap_or(i64::MAX);
        let next = |until: i64| {
            let after = until.max(now).saturating_add(span);
            Some(after.min(now.saturating_add(MOST_DEBT_NS)).max(until))
        };
        let _ = self
            .booked_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// View of a limit by one flow, which counts the time for which the flow was held back.
#[derive(Debug)]
pub struct Gate<'a> {
    ceiling: &'a Ceiling,
    waited_ns: Cell<i64>,
}

impl<'a> Gate<'a> {
    pub fn new(ceiling: &'a Ceiling) -> Gate<'a> {
        Gate {
            ceiling,
            waited_ns: Cell::new(0),
        }
    }

    /// Sleeps while the limit is reached, for `most` ns at a time. True if it slept.
    pub fn sleeps(&self, now: i64, most: i64) -> bool {
        let wait = self.ceiling.wait_ns(now).min(most.max(0));
        if wait <= 0 {
            return false;
        }
        std::thread::sleep(Duration::from_nanos(wait.unsigned_abs()).to_std());
        self.waited_ns
            .set(self.waited_ns.get() + (mono_ns() - now).max(0));
        true
    }

    pub fn chunk(&self) -> usize {
        self.ceiling.chunk()
    }

    pub fn book(&self, now: i64, bytes: u64) {
        self.ceiling.book(now, bytes);
    }

    /// Time for which the flow was held back.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.get().unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use rand::RngExt as _;

    /// Random senders that wait when told to: their bytes in each second stay at the limit.
    #[test]
    fn what_waits_when_told_stays_at_the_limit() {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
        eprintln!("seed {seed}");
        let mut rng = Streams::new(seed).stream("ceiling");
        for _ in 0..50 {
            let rate = BitsPerSec::new(rng.random_range(1_000_000..10_000_000_000));
            let ceiling = Ceiling::new(Some(rate));
            let (mut now, mut moved) = (rng.random_range(0..1_000_000_000i64), 0u64);
            let began = now;
            while now - began < 5_000_000_000 {
                let wait = ceiling.wait_ns(now);
                if wait > 0 {
                    now += wait;
                    continue;
                }
                let n = ceiling.chunk().min(128 << 10) as u64;
                ceiling.book(now, n);
                moved += n;
            }
            let share = moved as f64 * 8.0 / 5.0 / rate.get() as f64;
            assert!((0.99..1.02).contains(&share), "{rate}: {share}");
            assert_eq!(ceiling.bytes(), moved);
        }
    }

    /// Bursts that could not wait: the next sender that can wait pays for them, for at most a second.
    #[test]
    fn a_burst_is_paid_for_within_a_second() {
        let ceiling = Ceiling::new(Some(BitsPerSec::from_mbps(8)));
        ceiling.book(0, 500_000);
        assert_eq!(ceiling.wait_ns(0), 500_000_000 - BURST_NS);
        ceiling.book(0, 1 << 40);
        assert_eq!(ceiling.wait_ns(0), MOST_DEBT_NS - BURST_NS);
        assert_eq!(ceiling.wait_ns(MOST_DEBT_NS), 0);
        let free = Ceiling::new(None);
        free.book(0, u64::MAX / 2);
        assert_eq!(free.wait_ns(0), 0);
    }
}
