//! Timer of laws that update themselves at a fixed interval.
//!
//! Such a law needs no wake-up. Nothing that it reads changes between two calls of its discipline. Updates due since
//! the last call are therefore caught up before the next one, with the same outcome. An idle link stays idle: hosts are
//! not woken sixty times per second for nothing.

use base::{Duration, Time};

/// Updates at whole multiples of a period since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    period: Duration,
    next: Time,
}

impl Ticks {
    /// Creates a timer of this period.
    pub fn new(period: Duration) -> Ticks {
        Ticks {
            period,
            next: Time::ZERO + period,
        }
    }

    /// Calls `update` for each tick up to and including `now`, with its time. It returns true if another update would
    /// change nothing; the remaining ticks are then skipped, so that a long idle time costs no more than a short one.
    pub fn pass(&mut self, now: Time, mut update: impl FnMut(Time) -> bool) {
        while self.next <= now {
            let tick = self.next;
            self.next += self.period;
            if update(tick) && self.next <= now {
                let whole = (now - self.next).as_nanos() / self.period.as_nanos();
                self.next += self.period * (whole + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_comes_at_each_multiple_of_the_period_and_once() {
        let mut ticks = Ticks::new(Duration::from_millis(15));
        let mut seen = Vec::new();
        for ms in [0, 14, 15, 15, 16, 61] {
            ticks.pass(Time::from_millis(ms), |t| {
                seen.push((ms, t.as_nanos() / 1_000_000));
                false
            });
        }
        assert_eq!(seen, [(15, 15), (61, 30), (61, 45), (61, 60)]);
    }

    #[test]
    fn ticks_of_a_law_at_rest_are_skipped_and_those_after_keep_their_times() {
        let mut ticks = Ticks::new(Duration::from_millis(15));
        let mut updates = 0;
        ticks.pass(Time::from_secs(1_000_000_000), |_| {
            updates += 1;
            updates == 3
        });
        assert_eq!(updates, 3);
        let mut seen = Vec::new();
        ticks.pass(Time::from_nanos(1_000_000_000_020_000_000), |t| {
            seen.push(t.as_nanos());
            false
        });
        // The first multiple of 15 ms after 1e18 ns: 1e18 = 15e6 · 66 666 666 666 + 10e6.
        assert_eq!(seen, [1_000_000_000_005_000_000, 1_000_000_000_020_000_000]);
    }
}
