//! Rate of a shaper on the gateway, so that the hidden queue behind it, or before it, stays short.
//!
//! **Method.** Wait and capacity come from the estimators of the signalled directions. The rate follows the delay law of
//! Nimbus, rate = C − β·C/x·(x − x₀ − target), where x is the RTT, and x₀ the RTT without a queue. So a queue of `target`
//! stays in the modem, which keeps the capacity visible: no hunting. The law's term of cross traffic is absent, because the
//! service curve measures the share of the capacity that is left for this gateway. While the capacity is unknown, the
//! shaper's own rate stands for it, so that the rate grows until a queue shows. The rate changes at most once per RTT.
//!
//! A run that begins under load has met no empty queue, so its base holds one. Then the rate falls in steps until the base falls
//! no longer.
//!
//! **Source.** P. Goyal and others, "Elasticity detection: a building block for Internet congestion control", SIGCOMM 2022
//! (Nimbus), the delay-control rule.
//!
//! **Limits.** A rate that the load does not use tells nothing: it stays. So it does while the wait is unknown or not this
//! gateway's: silence is no congestion.

use crate::upload::Decision;
use base::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Weight of the wait.
const BETA: f64 = 0.5;
/// Greatest rate, as a share of the capacity.
const MOST: f64 = 1.25;
/// Steps of the rate while the capacity is unknown: small, so that a queue stands long enough to show it.
const UNKNOWN: (f64, f64) = (0.95, 1.05);
/// Least rate, as a share of the greatest capacity so far.
const FLOOR: f64 = 0.05;
/// Share of the rate that the load has to use, so that more would be used, too.
const FULL: f64 = 0.85;
/// Time over which the load is measured: TCP pauses for shorter ones.
const LOAD: Duration = Duration::from_millis(60);
/// Smallest change, as a share of the rate: a TBF lets a burst pass at each.
const LEAST: f64 = 0.02;
/// Share of the rate below which the load leaves the link idle.
const IDLE: f64 = 0.1;
/// Share of the rate before while a queue that hides the base drains, length of one step of that, and the fall of the base in
/// a step that makes another one worth while. Where packets are dropped, the capacity may be far below the rate.
const DRAIN: f64 = 0.7;
const DRAIN_STEP: Duration = Duration::from_millis(300);
const DRAINED: Duration = Duration::from_millis(3);
/// Share of the first rate at which the search ends.
const SOUGHT: f64 = 0.3;
/// Time without an idle link after which it begins, and its longest length.
const LOADED: Duration = Duration::from_secs(1);
const DRAIN_MOST: Duration = Duration::from_secs(10);
/// Shortest time between two changes.
const SOONEST: Duration = Duration::from_millis(20);

/// Settings of a shaped direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Wait to keep in the hidden queue.
    pub target: Duration,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            target: Duration::from_millis(10),
        }
    }
}

/// Empty queue, whose RTT is the base.
#[derive(Clone, Copy, Debug)]
enum Empty {
    /// The link was never idle since the run began.
    Unseen,
    /// The rate is low, so that the queue drains.
    Draining(Drain),
    Seen,
}

/// Step of a search for the empty queue.
#[derive(Clone, Copy, Debug)]
struct Drain {
    since: Time,
    /// RTT without the wait at its begin.
    path: Duration,
    /// True if that fell in the step before.
    fell: bool,
    /// Rate before the first step.
    first: f64,
}

/// Rate of one shaper.
#[derive(Clone, Debug)]
pub struct Shaper {
    settings: Shape,
    /// Rate in use, bytes per second.
    rate: f64,
    /// Greatest capacity so far, bytes per second.
    greatest: f64,
    /// Time of the last change.
    changed: Time,
    /// Time at which the load was measured last, and bytes that had passed by then.
    measured: (Time, u64),
    /// Share of the rate that the load used then.
    used: f64,
    empty: Empty,
    /// Time of the first decision on a wait of this gateway's.
    began: Option<Time>,
}

impl Shaper {
    /// Shaper that has `rate`, bytes per second, at `now`, when `passed` bytes have passed.
    pub fn new(settings: Shape, rate: f64, now: Time, passed: u64) -> Shaper {
        Shaper {
            settings,
            rate,
            greatest: rate,
            changed: now,
            measured: (now, passed),
            used: 0.0,
            empty: Empty::Unseen,
            began: None,
        }
    }

    /// Rate in use, bytes per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes a decision of the estimator, the RTT without the wait, and the bytes that have passed so far. Returns the new
    /// rate if it changes.
    pub fn update(
        &mut self,
        decision: &Decision,
        path: Option<Duration>,
        passed: u64,
    ) -> Option<f64> {
        let Decision { at: now, wait, .. } = *decision;
        let path = path?;
        let rtt = path + wait;
        // A rate that follows from the capacity is the same however often it is set. One that follows from itself is not:
        // it has to wait for the answer to the last change.
        let (capacity, (least, most), pause) = match decision.capacity {
            Some(c) => (c.value, (0.0, MOST), path),
            None => (self.rate, UNKNOWN, rtt),
        };
        self.measure(now, passed);
        if !decision.why.is_own() {
            return self.give_up();
        }
        let before = self.rate;
        if self.drains(now, path) {
            return (self.rate != before).then_some(self.rate);
        }
        if now.saturating_since(self.changed) < pause.max(SOONEST) {
            return None;
        }
        self.changed = now;
        self.greatest = self.greatest.max(capacity);
        let above_s = wait.as_secs_f64() - self.settings.target.as_secs_f64();
        let factor = 1.0 - BETA * above_s / rtt.as_secs_f64().max(1e-3);
        let rate = capacity * factor.clamp(least, most);
        let rate = rate.max(FLOOR * self.greatest);
        let grows_unused = rate > self.rate && self.used < FULL;
        if grows_unused || (rate / self.rate - 1.0).abs() < LEAST {
            return None;
        }
        self.rate = rate;
        Some(rate)
    }

    fn measure(&mut self, now: Time, passed: u64) {
        let span = now.saturating_since(self.measured.0);
        if span >= LOAD {
            let used = passed.saturating_sub(self.measured.1) as f64 / span.as_secs_f64();
            self.used = used / self.rate;
            self.measured = (now, passed);
            if self.used < IDLE {
                self.empty = Empty::Seen;
            }
        }
    }

    /// Ends a drain while nothing is known of the queue: silence is no congestion. Returns the rate before it.
    fn give_up(&mut self) -> Option<f64> {
        let Empty::Draining(d) = self.empty else {
            return None;
        };
        self.empty = Empty::Unseen;
        self.began = None;
        self.rate = d.first;
        Some(self.rate)
    }

    /// Lowers the rate while a queue may hide the base. Returns true while it does.
    fn drains(&mut self, now: Time, path: Duration) -> bool {
        let loaded = now.saturating_since(*self.began.get_or_insert(now));
        let (first, fell) = match self.empty {
            Empty::Unseen if loaded >= LOADED => (self.rate, false),
            Empty::Unseen | Empty::Seen => return false,
            Empty::Draining(d) if now.saturating_since(d.since) < DRAIN_STEP.max(path) => {
                return true;
            }
            Empty::Draining(d) => {
                let falls = path + DRAINED < d.path;
                let found = !falls && (d.fell || self.rate <= SOUGHT * d.first);
                if found || loaded > DRAIN_MOST {
                    self.empty = Empty::Seen;
                    return false;
                }
                (d.first, falls)
            }
        };
        self.empty = Empty::Draining(Drain {
            since: now,
            path,
            fell,
            first,
        });
        self.changed = now;
        if !fell {
            self.rate *= DRAIN;
        }
        true
    }
}
