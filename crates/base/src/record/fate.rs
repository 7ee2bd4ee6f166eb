//! Fate of a probe: which rows count as sent, answered and lost. All figures of loss and delay use these rules.
//!
//! **Source.** RFC 7680 ("A One-Way Loss Metric for IP Performance Metrics"), whose loss includes packets that arrive
//! after the limit.

use super::{Delay, Status};

impl Status {
    /// True if the row is a probe that was sent, neither a missed slot nor a second answer.
    #[inline]
    pub fn was_sent(self) -> bool {
        !matches!(self, Status::NotSent | Status::Duplicate)
    }

    /// True if an answer with trustworthy times came, in time or late.
    #[inline]
    pub fn is_answered(self) -> bool {
        matches!(self, Status::Ok | Status::Late)
    }

    /// True if no answer ever came.
    #[inline]
    pub fn is_unanswered(self) -> bool {
        matches!(self, Status::Lost | Status::LostUp | Status::LostDown)
    }

    /// True if the probe counts as lost: no answer within the limit.
    #[inline]
    pub fn is_lost(self) -> bool {
        self.is_unanswered() || self == Status::Late
    }

    /// Returns the RTT of a row with this status, ns, if it can be trusted.
    #[inline]
    pub fn trusted(self, rtt_ns: Option<i64>) -> Option<i64> {
        rtt_ns.filter(|rtt| self.is_answered() && *rtt > 0)
    }
}

impl Delay {
    /// Returns the RTT in ms, if it can be trusted.
    pub fn rtt_ms(&self) -> Option<f64> {
        Some(self.status.trusted(self.rtt_ns)? as f64 / 1e6)
    }
}
