//! Judgement of the signal: does the wait belong to this gateway's own traffic?
//!
//! **Method.** Two faults can be seen with byte counters and probes alone:
//!
//! - *Others' queue.* Probes wait, and this gateway has sent next to nothing for longer than they wait: less than
//!   [`OWN_SHARE`] of the highest capacity of the last minute. Whatever is queued came from others, or the server's
//!   own link is busy. Signals would not shorten it.
//! - *Bypass.* The link carries the capacity that a standing queue proved last for [`BYPASSED`], and no probe waits.
//!   They do not share the queue of the load, for example because a router gives them priority.
//!
//! Either verdict ends with the first second that contradicts it.
//!
//! **Limits.** A bypass from the beginning is not noticed: without a wait there is no capacity to compare with. A queue
//! that others share with this gateway counts as its own.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Length of a bin.
const BIN: Duration = Duration::from_millis(100);
/// Bins kept, newest last.
const BINS: usize = 50;
/// Share of the reference capacity below which a queue cannot be this gateway's.
pub const OWN_SHARE: f64 = 0.05;
/// Share of the capacity that this gateway has to send before a longer wait shows that the capacity fell.
const LOADED: f64 = 0.5;
/// Rate that is too low for any link's capacity, bytes per second.
const SLOWEST: f64 = 8_000.0;
/// Time for which a reference capacity holds.
const REFERENCE: Duration = Duration::from_secs(60);
/// Time of a full link without waits after which probes bypass the queue.
pub const BYPASSED: Duration = Duration::from_secs(4);
/// Wait below which a probe met no queue.
const EMPTY: Duration = Duration::from_millis(2);
/// Range of the carried rate that is the capacity, as shares of it, and bins over which it is taken.
const FULL: std::ops::RangeInclusive<f64> = 0.93..=1.07;
const FULL_BINS: usize = 10;

/// Verdict on the signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nothing speaks against it.
    #[default]
    Good,
    /// The queue is not made of this gateway's traffic.
    Others,
    /// Probes do not meet the queue.
    Bypassed,
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug)]
struct Bin {
    from: Time,
    /// Bytes handed over until its begin.
    total: u64,
    /// Longest wait of a probe; `None` without a probe.
    wait: Option<Duration>,
    /// Packets signalled.
    signals: u64,
}

/// Record of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    bins: VecDeque<Bin>,
    /// Highest capacity of the last minute with its time, bytes per second.
    reference: Option<(Time, f64)>,
    /// Capacity that was proven last.
    proven: Option<f64>,
}

impl Judge {
    /// Records the wait of a probe that was answered now.
    pub fn sample(&mut self, wait: Duration) {
        if let Some(bin) = self.bins.back_mut() {
            bin.wait = Some(bin.wait.map_or(wait, |w| w.max(wait)));
        }
    }

    /// Records signals.
    pub fn signalled(&mut self, signals: u64) {
        if let Some(bin) = self.bins.back_mut() {
            bin.signals += signals;
        }
    }

    /// Records a capacity that was told or measured before.
    pub fn expect(&mut self, now: Time, capacity: f64) {
        self.reference = Some((now, capacity));
        self.proven = Some(capacity);
    }

    /// Records a capacity that was proven by a standing queue: its estimate, and the lower end of its interval.
    pub fn proven(&mut self, now: Time, capacity: f64, low: f64) {
        self.proven = Some(capacity);
        let holds = |r: &(Time, f64)| r.1 > low && now.saturating_since(r.0) < REFERENCE;
        if !self.reference.as_ref().is_some_and(holds) {
            self.reference = Some((now, low));
        }
    }

    /// Judges the signal. `total` bytes are handed over so far, and the newest probe waited `wait`.
    pub fn judge(&mut self, now: Time, total: u64, wait: Duration) -> Trust {
        let next = |bin: &Bin| now.saturating_since(bin.from) >= BIN;
        if self.bins.back().is_none_or(next) {
            self.bins.push_back(Bin {
                from: now,
                total,
                wait: None,
                signals: 0,
            });
            if self.bins.len() > BINS {
                self.bins.pop_front();
            }
        }
        if wait > EMPTY * 2 {
            let span = (wait + BIN * 3).max(BIN * 5);
            let least = self.reference.map_or(0.0, |r| OWN_SHARE * r.1).max(SLOWEST);
            let own = self.rate_since(now, total, span).is_none_or(|r| r >= least);
            return if own { Trust::Good } else { Trust::Others };
        }
        match self.proven {
            Some(c) if self.is_bypassed(now, c) => Trust::Bypassed,
            _ => Trust::Good,
        }
    }

    /// True if this gateway has lately sent at least `LOADED` of a capacity, so that a queue is its own. `total` bytes are
    /// handed over so far.
    pub fn is_loaded(&self, now: Time, total: u64, capacity: f64) -> bool {
        self.rate_since(now, total, BIN * 3)
            .is_some_and(|r| r >= LOADED * capacity)
    }

    /// Mean rate of the last `span`, bytes per second; `None` while less is recorded.
    fn rate_since(&self, now: Time, total: u64, span: Duration) -> Option<f64> {
        let i = self
            .bins
            .partition_point(|b| now.saturating_since(b.from) >= span);
        let bin = self.bins.get(i.checked_sub(1)?)?;
        let span_s = now.saturating_since(bin.from).as_secs_f64();
        Some((total - bin.total) as f64 / span_s)
    }

    fn is_bypassed(&self, now: Time, capacity: f64) -> bool {
        let from = self
            .bins
            .partition_point(|b| now.saturating_since(b.from) > BYPASSED);
        if from == 0 {
            return false;
        }
        let bins = || self.bins.range(from..);
        let empty = bins().all(|b| b.signals == 0 && b.wait.is_none_or(|w| w < EMPTY));
        // Each second on its own: a mean of bursts is no full link.
        let full = bins().zip(bins().skip(FULL_BINS)).all(|(a, b)| {
            let span_s = b.from.saturating_since(a.from).as_secs_f64();
            FULL.contains(&((b.total - a.total) as f64 / span_s / capacity))
        });
        empty && full && bins().any(|b| b.wait.is_some())
    }
}
