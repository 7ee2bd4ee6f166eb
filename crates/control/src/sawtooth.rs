//! Law that signals one packet when the wait passes the target, waits one RTT for the answer, and doubles the signals per
//! RTT while the wait stays long.

use base::{Duration, Time};

/// Most signals per RTT.
pub(crate) const MOST_SIGNALS: u32 = 256;

/// Law that signals single packets and waits for the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sawtooth {
    /// Time of the next signal.
    next: Option<Time>,
    /// Signals per RTT.
    per_rtt: u32,
    /// Time from which the number may change.
    changes: Time,
    /// True if the wait was long at the last change.
    long: bool,
}

impl Sawtooth {
    /// True if the packet at `now` is to be signalled. `long` is true while the wait is above the target.
    pub fn strikes(&mut self, now: Time, long: bool, rtt: Duration) -> bool {
        if now >= self.changes && (self.long != long || self.per_rtt > 0) {
            // Many flows need many signals, and again soon after the last ones; a single flow needs one.
            self.per_rtt = match (long, self.long) {
                (true, true) => (2 * self.per_rtt).clamp(1, MOST_SIGNALS),
                (true, false) => self.per_rtt.max(1),
                (false, _) => self.per_rtt / 2,
            };
            self.changes = now + rtt;
            self.long = long;
        }
        if !long || self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.per_rtt = self.per_rtt.max(1);
        self.next = Some(now + rtt / u64::from(self.per_rtt));
        true
    }
}
