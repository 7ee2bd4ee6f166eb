//! RTT of the path with an empty queue.
//!
//! **Method.** The base is the smallest RTT of the last [`WINDOW`]. A route that became longer is noticed where it cannot be
//! queueing: if every sample of 1.5 s that was taken while the gateway's own traffic left the link idle exceeds the
//! base by 3 ms, and the samples lie close together, the smallest of these is the new base. A queue of others wanders.
//!
//! **Limits.** A queue of others that stands still counts as a longer route. A load that never lets the queue run empty for the whole window raises the base to the queue's floor.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Time after which a minimum is forgotten.
pub const WINDOW: Duration = Duration::from_secs(600);
/// Time after which higher RTTs of an idle link are those of another route.
const ROUTE: Duration = Duration::from_millis(1500);
/// Samples that this takes.
const SAMPLES: u32 = 20;
/// Smallest step that is a change of the route.
const STEP: Duration = Duration::from_millis(3);
/// Mean of the samples above their minimum that a route may have, in seconds and as a share of its step; a queue of others
/// has more.
const JITTER_S: f64 = 2e-3;
const SPREAD: f64 = 0.1;

/// Smallest RTT, with its time, and candidates for the time after it.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// RTTs that are smaller than all later ones: monotone queue.
    minima: VecDeque<(Time, Duration)>,
    /// Idle samples that all exceed the base.
    longer: Option<Longer>,
}

/// Idle samples that all exceed the base.
#[derive(Clone, Copy, Debug)]
struct Longer {
    since: Time,
    count: u32,
    least: Duration,
    /// Sum of what they exceed the base by, seconds.
    sum_s: f64,
}

impl Base {
    /// Smallest RTT, if one is known.
    pub fn get(&self) -> Option<Duration> {
        self.minima.front().map(|m| m.1)
    }

    /// Replaces all that is known by this RTT.
    pub fn restart(&mut self, now: Time, rtt: Duration) {
        self.minima.clear();
        self.minima.push_back((now, rtt));
        self.longer = None;
    }

    /// Adds an RTT. `idle` is true if the packet met no queue of the gateway's own traffic. Returns true if the route
    /// became longer.
    pub fn sample(&mut self, now: Time, rtt: Duration, idle: bool) -> bool {
        while self.minima.back().is_some_and(|m| m.1 >= rtt) {
            self.minima.pop_back();
        }
        self.minima.push_back((now, rtt));
        let old = now.saturating_sub(WINDOW);
        while self.minima.len() > 1 && self.minima.front().is_some_and(|m| m.0 < old) {
            self.minima.pop_front();
        }
        let base = self.get().unwrap_or(rtt);
        if rtt < base + STEP {
            self.longer = None;
            return false;
        }
        if !idle {
            return false;
        }
        let longer = self.longer.get_or_insert(Longer {
            since: now,
            count: 0,
            least: rtt,
            sum_s: 0.0,
        });
        longer.count += 1;
        longer.least = longer.least.min(rtt);
        longer.sum_s += rtt.saturating_sub(base).as_secs_f64();
        let Longer {
            since,
            count,
            least,
            sum_s,
        } = *longer;
        if now.saturating_since(since) < ROUTE || count < SAMPLES {
            return false;
        }
        let step_s = least.saturating_sub(base).as_secs_f64();
        if sum_s / f64::from(count) > (1.0 + SPREAD) * step_s + JITTER_S {
            self.longer = None;
            return false;
        }
        self.restart(now, least);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_load_does_not_raise_the_base_and_a_longer_route_does() {
        let mut base = Base::default();
        let at = Time::from_millis;
        base.sample(at(0), ms(20), true);
        for i in 0..600 {
            assert!(!base.sample(at(100 * i), ms(120), false));
        }
        assert_eq!(base.get(), Some(ms(20)));
        let moved = (0..80).any(|i| base.sample(at(60_000 + 100 * i), ms(35 + i % 3), true));
        assert!(moved);
        assert_eq!(base.get(), Some(ms(35)));
        base.sample(at(90_000), ms(18), false);
        assert_eq!(base.get(), Some(ms(18)));
    }

    #[test]
    fn a_minimum_is_forgotten_after_its_window() {
        let mut base = Base::default();
        base.sample(Time::ZERO, ms(20), true);
        for s in 1..=700 {
            base.sample(Time::from_secs(s), ms(22), false);
        }
        assert_eq!(base.get(), Some(ms(22)));
    }
}
