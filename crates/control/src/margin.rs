//! Wait that is held in addition to the target, because the link would run empty otherwise.
//!
//! **Method.** A signal makes senders slower. If the queue is empty afterwards although they still send, the wait was too
//! short for a link whose rate moves: the margin grows. While packets wait, it shrinks. Both balance where the queue is empty
//! for [`EMPTY_SHARE`] of the time.
//!
//! **Limits.** A sender that pauses after a signal looks like one that was slowed down. It adds little: a link that is not
//! loaded does not count.

use base::{Duration, Time};

/// Part of the loaded time in which the queue may be empty.
const EMPTY_SHARE: f64 = 0.06;
/// Growth of the margin while the queue is empty, seconds per second.
const GROWTH: f64 = 0.04;
/// Deviation of the capacity from its mean, as a part of it, from which a margin is allowed, and from which it is allowed whole.
const MOVES: std::ops::RangeInclusive<f64> = 0.04..=0.12;
/// Time over which the capacity's mean and deviation are taken.
const MEMORY_S: f64 = 5.0;
/// Time after a signal in which an empty queue is its consequence.
const CONSEQUENCE: Duration = Duration::from_secs(2);
/// Wait below which a queue is empty.
const EMPTY: Duration = Duration::from_millis(1);
/// Longest time that one look stands for.
const LOOK_S: f64 = 0.1;

/// Margin of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Margin {
    seconds: f64,
    /// Mean of the capacity, bytes per second, and its mean deviation as a part of it.
    capacity: f64,
    deviation: f64,
    /// Time of the newest signal.
    signalled: Option<Time>,
    /// Time of the last look.
    looked: Time,
}

impl Margin {
    /// Looks at the queue: `signals` were given since the last look, and a packet now waits `wait`; `None` if that is
    /// unknown, or the link is not loaded. It carries `capacity` bytes per second. The margin stays below `most`.
    pub fn look(
        &mut self,
        now: Time,
        signals: u64,
        (wait, capacity): (Option<Duration>, f64),
        most: Duration,
    ) {
        let before = std::mem::replace(&mut self.looked, now);
        let span_s = now.saturating_since(before).as_secs_f64().min(LOOK_S);
        if signals > 0 {
            self.signalled = Some(now);
        }
        let slowed = (self.signalled).is_some_and(|at| now.saturating_since(at) < CONSEQUENCE);
        let Some(wait) = wait else {
            return;
        };
        let most = most.as_secs_f64() * self.moves(capacity, span_s);
        self.seconds = self.seconds.min(most);
        if !slowed {
            return;
        }
        let speed = match wait < EMPTY {
            true => GROWTH,
            false => -GROWTH * EMPTY_SHARE / (1.0 - EMPTY_SHARE),
        };
        self.seconds = (self.seconds + speed * span_s).clamp(0.0, most);
    }

    /// Part of the margin that is allowed: none on a link whose rate stays. There a long queue is no remedy: another load, or
    /// more flows, would find it long.
    fn moves(&mut self, capacity: f64, span_s: f64) -> f64 {
        if capacity <= 0.0 || !capacity.is_finite() {
            return 0.0;
        }
        if self.capacity == 0.0 {
            self.capacity = capacity;
        }
        let share = span_s / MEMORY_S;
        let off = (capacity - self.capacity).abs() / self.capacity;
        self.deviation += share * (off - self.deviation);
        self.capacity += share * (capacity - self.capacity);
        ((self.deviation - MOVES.start()) / (MOVES.end() - MOVES.start())).clamp(0.0, 1.0)
    }

    /// Wait in addition to the target.
    pub fn get(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(20);
    const RATE: f64 = 1e6;

    /// Margin after 100 s of looks each 10 ms, in which every `of`-th meets an empty queue, with a signal each second. The
    /// capacity is higher and lower by `moves` in turn, a second each.
    fn after(of: u64, is_loaded: bool, moves: f64) -> f64 {
        let mut margin = Margin::default();
        for i in 1..10_000u64 {
            let wait = Duration::from_millis(if i % of == 0 { 0 } else { 15 });
            let wait = is_loaded.then_some(wait);
            let signals = u64::from(i % 100 == 0);
            let sign = if (i / 100).is_multiple_of(2) {
                1.0
            } else {
                -1.0
            };
            let capacity = RATE * (1.0 + sign * moves);
            margin.look(Time::from_millis(10 * i), signals, (wait, capacity), MOST);
        }
        margin.get().as_millis_f64()
    }

    #[test]
    fn it_grows_where_a_link_that_moves_runs_empty_too_often_and_only_there() {
        assert!(after(10, true, 0.3) > 19.0);
        assert!(after(40, true, 0.3) < 1.0);
        assert_eq!(after(10, false, 0.3), 0.0);
        assert_eq!(after(10, true, 0.02), 0.0);
    }

    #[test]
    fn a_queue_that_is_empty_without_a_signal_was_not_emptied_by_one() {
        let mut margin = Margin::default();
        let look = |m: &mut Margin, i: u64, signals| {
            let sign = if (i / 100).is_multiple_of(2) {
                1.3
            } else {
                0.7
            };
            let seen = (Some(Duration::ZERO), RATE * sign);
            m.look(Time::from_millis(10 * i), signals, seen, MOST);
        };
        (1..1000).for_each(|i| look(&mut margin, i, 0));
        assert_eq!(margin.get(), Duration::ZERO);
        look(&mut margin, 1000, 1);
        (1001..2000).for_each(|i| look(&mut margin, i, 0));
        // 2 s of consequence would be 80 ms.
        assert_eq!(margin.get(), MOST);
    }
}
