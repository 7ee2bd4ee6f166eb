//! Wait of probes in one direction, from their RTT and the difference of two clocks that need not agree.
//!
//! **Method.** The clocks' drift bends the one-way delay, and a queue in the other direction bends the RTT. So the wait is
//! the lesser of both delays above their bases. A clock that is set shifts the waits of both directions by opposite amounts
//! at once, and the RTT stays. So where a wait jumps while that of the other direction falls, the jump counts as one of the
//! clock: the base rises with it, until a lower delay proves otherwise.
//!
//! **Limits.** A queue that jumps while the one of the other direction drains is not acted on until it has run empty. A
//! clock that is set by less than [`JUMP`] is not noticed while a queue stands in the other direction.

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

/// One direction of the probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneWay {
    base: Base,
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
    /// True if the probe met no queue of the gateway's own traffic.
    pub idle: bool,
}

impl OneWay {
    /// Adds a probe whose RTT is `rise` above its base. Returns its wait in this direction, and true if the route became
    /// longer.
    pub fn probed(&mut self, now: Time, probe: Probe, rise: Duration) -> (Duration, bool) {
        // Order is kept, differences too: the readings may be negative.
        let delay = Duration::from_nanos(probe.reading_ns.cast_unsigned() ^ 1 << 63);
        let longer = self.base.sample(now, delay, probe.idle);
        if let Some(grown) = self.jumped(&probe, delay) {
            self.doubted = Some(now);
            let base = self.base.get().unwrap_or(delay) + grown;
            self.base.restart(now, base.min(delay));
        }
        if self.above(delay) > rise + STEPPED {
            // Which share of the rise is this direction's is unknown until the queue has run empty; none is assumed, so
            // that nothing is cut for a queue of the other direction.
            self.doubted = Some(now);
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

    /// Greatest step of the clock since the last probe, if one may have been set meanwhile: the wait may have become shorter
    /// by the time that passed, and the step be as much greater.
    fn jumped(&mut self, probe: &Probe, delay: Duration) -> Option<Duration> {
        let Probe { departed, rtt, .. } = *probe;
        let (departed_before, rtt_before, delay_before) =
            self.last.replace((departed, rtt, delay))?;
        let grown = delay.saturating_sub(delay_before);
        let doubtful = grown > JUMP && grown + rtt_before > rtt + FALL;
        doubtful.then(|| grown + departed.saturating_since(departed_before))
    }
}
