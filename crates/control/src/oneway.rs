//! Wait of probes in one direction, from their RTT and the difference of two clocks that need not agree.
//!
//! **Method.** The clocks' drift bends the one-way delay, and a queue in the other direction bends the RTT. So the wait is
//! the lesser of both delays above their bases. A clock that is set shows as a jump of the one-way delay without one of the
//! RTT: the base of the one-way delay starts anew then, and no wait is assumed until the queue has run empty.
//!
//! **Limits.** A clock that is set by about the interval of the probes, while a queue stands in the other direction, looks
//! as if that queue drained and another one grew.

use crate::baseline::Base;
use base::{Duration, Time};

/// Excess of the one-way delay's rise over the RTT's that shows a clock that was set.
const STEPPED: Duration = Duration::from_millis(5);

/// One direction of the probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneWay {
    base: Base,
    /// Departure, RTT and one-way delay of the last probe.
    last: Option<(Time, Duration, Duration)>,
}

/// One probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Instant of its departure.
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
        let stepped = self.stepped(probe.departed, probe.rtt, delay);
        if stepped || self.above(delay) > rise + STEPPED {
            // Which share of the rise is this direction's is unknown until the queue has run empty; none is assumed, so
            // that nothing is cut for a queue of the other direction.
            self.base.restart(now, delay);
        }
        (rise.min(self.above(delay)), longer)
    }

    fn above(&self, delay: Duration) -> Duration {
        delay.saturating_sub(self.base.get().unwrap_or(delay))
    }

    /// True if a clock was set since the last probe: this direction cannot grow at once while the RTT does not, because a
    /// queue in the other one drains no faster than time passes.
    fn stepped(&mut self, departed: Time, rtt: Duration, delay: Duration) -> bool {
        let Some((before, rtt_before, delay_before)) = self.last.replace((departed, rtt, delay))
        else {
            return false;
        };
        let drained = departed.saturating_since(before) + STEPPED;
        delay.saturating_sub(delay_before) > rtt.saturating_sub(rtt_before) + drained
    }
}
