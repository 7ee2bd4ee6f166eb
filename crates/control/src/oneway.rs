//! Wait of probes in one direction, from their RTT and the difference of two clocks that need not agree.
//!
//! **Method.** The clocks' drift bends the one-way delay, and a queue in the other direction bends the RTT. So the wait is
//! the lesser of both delays above their bases. The RTT knows no clock, so its base is the least ever seen.
//!
//! A clock that is set shifts the waits of both directions by opposite amounts at once, and the RTT stays. Queues can do the
//! same: a probe that waits longer on its way there finds a shorter queue on its way back. So a wait that jumps while that
//! of the other direction falls, and that the bytes sent do not explain, counts as one of the clock: the base rises with
//! it, until a lower delay proves otherwise. A second such jump starts from the last base that was proven; otherwise
//! jumps that are none would add up, and a law would hold a queue that it does not see.
//!
//! **Limits.** A queue that jumps while the one of the other direction drains, and that bytes do not explain, is hidden by
//! the size of that jump until it has run empty. A clock that is set by less than [`JUMP`] is not noticed while a queue
//! stands in the other direction; nor is a clock that is set twice before the queue of the other direction has run empty
//! once.

use crate::baseline::Base;
use base::{Duration, Time};

/// Excess of the wait above the RTT's rise that shows a clock that was set.
const STEPPED: Duration = Duration::from_millis(5);
/// Growth of the wait between two probes that is a jump, and the fall of the other direction's wait meanwhile that makes it
/// doubtful.
const JUMP: Duration = Duration::from_millis(10);
const FALL: Duration = Duration::from_millis(3);
/// Time for which a doubt is told.
const TOLD: Duration = Duration::from_secs(1);
/// Time after a doubtful jump for which waits may be too short.
const HIDDEN: Duration = Duration::from_secs(10);

/// One direction of the probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneWay {
    base: Base,
    /// Base before the first jump that may be one of the clock, while none has proven otherwise.
    proven: Option<Duration>,
    /// Least RTT.
    round: Option<Duration>,
    /// Departure, RTT and one-way delay of the last probe.
    last: Option<(Time, Duration, Duration)>,
    /// Time of the last jump that may be one of the clock.
    doubted: Option<Time>,
}

/// One probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Departure from the gateway.
    pub departed: Time,
    /// RTT without the time that the server held it.
    pub rtt: Duration,
    /// Reading of the clock at the direction's end minus that at its begin, ns.
    pub reading_ns: i64,
    /// True if the gateway's own traffic leaves the link idle.
    pub idle: bool,
    /// Wait that follows from the bytes sent, where they tell.
    pub predicted: Option<Duration>,
}

impl OneWay {
    /// Adds a probe. Returns its wait in this direction, and true if the route became longer.
    pub fn probed(&mut self, now: Time, probe: Probe) -> (Duration, bool) {
        // Order is kept, differences too: the readings may be negative.
        let delay = Duration::from_nanos(probe.reading_ns.cast_unsigned() ^ 1 << 63);
        let before = self.base.get().unwrap_or(delay);
        let longer = self.base.sample(now, delay, probe.idle);
        let base = self.base.get().unwrap_or(delay);
        let grown = if longer {
            base.saturating_sub(before)
        } else {
            Duration::ZERO
        };
        let round = self.round.map_or(probe.rtt, |r| probe.rtt.min(r + grown));
        self.round = Some(round);
        if longer || self.proven.is_some_and(|p| base <= p) {
            self.proven = None;
        }
        if let Some(step) = self.jumped(&probe, delay) {
            self.doubted = Some(now);
            let raised = (*self.proven.get_or_insert(base) + step).min(delay);
            if raised > base {
                self.base.restart(now, raised);
            }
        }
        let rise = probe.rtt.saturating_sub(round);
        if self.above(delay) > rise + STEPPED {
            // Which share of the rise is this direction's is unknown until the queue has run empty; none is assumed, so
            // that nothing is cut for a queue of the other direction.
            self.doubted = Some(now);
            self.proven = None;
            self.base.restart(now, delay);
        }
        (rise.min(self.above(delay)), longer)
    }

    fn above(&self, delay: Duration) -> Duration {
        delay.saturating_sub(self.base.get().unwrap_or(delay))
    }

    /// True if the last second had a jump that may be one of the clock.
    pub fn is_doubtful(&self, now: Time) -> bool {
        (self.doubted).is_some_and(|at| now.saturating_since(at) <= TOLD)
    }

    /// True while waits may be too short, because a jump counts as one of the clock and nothing has proven otherwise.
    pub fn may_hide(&self, now: Time) -> bool {
        let lately = (self.doubted).is_some_and(|at| now.saturating_since(at) <= HIDDEN);
        self.is_doubtful(now) || self.proven.is_some() && lately
    }

    /// Greatest step of the clock since the last probe, if one may have been set meanwhile. This direction's wait may have
    /// become shorter by the time that passed, and that of the other one longer by twice that time: three times as much
    /// arrived as the link carries.
    fn jumped(&mut self, probe: &Probe, delay: Duration) -> Option<Duration> {
        let Probe { departed, rtt, .. } = *probe;
        let (departed_before, rtt_before, delay_before) =
            self.last.replace((departed, rtt, delay))?;
        let passed = departed.saturating_since(departed_before);
        let grown = delay.saturating_sub(delay_before);
        let fell = (grown + rtt_before).saturating_sub(rtt);
        let explained = (probe.predicted).is_some_and(|p| self.above(delay) <= p + JUMP);
        let doubtful = grown > JUMP && fell > FALL && !explained;
        doubtful.then(|| (grown + passed).min(fell + passed * 2))
    }
}
