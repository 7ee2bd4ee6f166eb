//! Causes of retransmissions, and the silences that are breaks of the path.
//!
//! **Method.** A sender retransmits either at once, because of an ACK, or after a silence, because a timer expired.
//! This distinction says more than the length of the wait.
//!
//! **Source.** RFC 6298 (time-out), RFC 5681 section 3.2 (three duplicate ACKs), RFC 6675 (SACK), RFC 8985 (tail
//! loss probe, loss by time).

use super::{Chain, Recovery, Side};
use crate::track::events::{Break, Cause};
use crate::track::segments::Segment;
use std::ops::Range;

/// Least number of retransmissions in a row that is a break of the path; fewer are a loss.
const BREAK_LEAST: usize = 3;
/// Time within which a sender answers an ACK, ns.
const PROMPT_NS: i64 = 2_000_000;
/// Time after an ACK from which nothing is attributed to it, ns.
const PAUSE_NS: i64 = 20_000_000;

impl Side {
    /// Retransmission timeout, ns. RFC 6298 section 2, with Linux's minimum of 200 ms; before any sample, the initial
    /// timeout.
    fn timeout_ns(&self) -> i64 {
        if self.state.srtt == 0 {
            return 1_000_000_000;
        }
        self.state
            .srtt
            .saturating_add(self.state.rttvar.saturating_mul(4).max(200_000_000))
    }

    /// Sender state that explains a retransmission of `start..end`.
    ///
    /// A packet right after an ACK was triggered by it; a packet after a silence in both directions was triggered by a
    /// timer. The wait alone decides between these cases, or if the capture is not at the sender.
    pub(super) fn cause(
        &mut self,
        t: i64,
        Range { start, end }: Range<u64>,
        before: Option<Segment>,
        near: bool,
        sack: bool,
    ) -> Cause {
        let s = &self.state;
        let timeout = self.timeout_ns();
        let waited = t - before.map_or(s.data_t, |b| b.t);
        let quiet = t - s.ack_t.max(s.data_t);
        let at_front = start <= s.una;
        let prompted = near && t - s.ack_t <= PROMPT_NS;
        // An ACK of something new restarts the timer (RFC 6298 section 5.3): a packet right after it is no timeout.
        let released = near && t - s.advance_t <= PROMPT_NS && s.advance_t >= s.repair().timeout_t;
        let timer = near && quiet >= PAUSE_NS.max(timeout / 4);
        // An ACK of something new restarts the timer (RFC 6298 section 5.3), whatever the age of the segment. What comes sooner
        // after one is the reordering timer of RFC 8985 section 6.2, a quarter of a round trip after the SACK.
        let least = (timeout / 4 * 3).min(200_000_000);
        let overdue = waited >= least && (!near || t - s.advance_t >= least);
        // RFC 8985 section 7.2: a tail loss probe is the last segment, sent once, after two RTTs without an ACK and
        // before the retransmission timer. A single segment also waits as long as a receiver holds an ACK back. None is
        // sent while SACK reports a loss, and none without SACK.
        let last_once = end == s.next && before.is_some_and(|b| b.again == 0);
        let pause =
            s.srtt > 0 && quiet >= 2 * s.srtt - s.srtt / 8 && quiet < timeout - timeout / 32;
        if near && sack && last_once && pause && s.segments.sacked_bytes() == 0 {
            return Cause::TailProbe;
        }
        if timer && overdue && !(end == s.next && !at_front && waited < timeout) {
            self.enter(Recovery::Timeout, t);
            return Cause::Timeout;
        }
        if s.una < s.repair().recover {
            match s.recovery {
                // The retransmission itself was lost: only the timer notices. Without SACK no ACK triggers a third
                // transmission of the same segment (RFC 6582 section 3.2).
                Recovery::Fast
                    if !sack && !released && at_front && before.is_some_and(|b| b.again > 0) =>
                {
                    self.enter(Recovery::Timeout, t);
                    return Cause::Timeout;
                }
                Recovery::Fast
                    if !prompted
                        && !released
                        && before.is_some_and(|b| b.again > 0)
                        && t - s.data_t >= timeout / 4 * 3 => {}
                Recovery::Fast => return Cause::Recovery,
                Recovery::Timeout
                    if prompted || before.is_some_and(|b| b.t < s.repair().timeout_t) =>
                {
                    return Cause::Recovery;
                }
                Recovery::Timeout | Recovery::None => {}
            }
        }
        if at_front && s.duplicates >= 3 {
            self.enter(Recovery::Fast, t);
            return Cause::Fast;
        }
        let mss = u64::from(s.mss.min(self.half.counts.largest).max(1));
        if at_front && s.repair().sack_top > s.una + 3 * mss {
            self.enter(Recovery::Fast, t);
            return Cause::Sack;
        }
        // RFC 8985 section 7.2: after two RTTs, the highest segment; the timer is later.
        if end == s.next && !at_front && s.srtt > 0 && waited < timeout {
            return Cause::TailProbe;
        }
        if overdue && !released && !(prompted && s.repair().sack_top > end) {
            self.enter(Recovery::Timeout, t);
            return Cause::Timeout;
        }
        // Loss by time rather than by count (RFC 8985 section 6.2): data that was sent later has arrived, above it or, after a
        // repair, below.
        let overtaken = near && sack && before.is_some_and(|b| b.t < s.last_acked_t);
        if s.repair().sack_top > end || overtaken {
            self.enter(Recovery::Fast, t);
            return Cause::Sack;
        }
        // A partial ACK of a recovery that had ended where the loss was noticed (RFC 6582 section 3.2).
        if released && s.repair().recover > 0 && before.is_some_and(|b| b.t <= s.repair().noticed_t)
        {
            return Cause::Recovery;
        }
        Cause::Unknown
    }

    fn enter(&mut self, recovery: Recovery, t: i64) {
        let s = &mut self.state;
        s.recovery = recovery;
        let recover = s.next;
        let repair = s.repair_mut();
        (repair.recover, repair.noticed_t) = (recover, t);
        if recovery == Recovery::Timeout {
            repair.timeout_t = t;
        }
    }

    /// Records the transmissions of the segment that blocks the direction.
    pub(super) fn chain(
        &mut self,
        sent: (i64, u32),
        start: u64,
        first: Option<(i64, u32)>,
        cause: Cause,
    ) {
        if !matches!(cause, Cause::Timeout | Cause::TailProbe) {
            return;
        }
        if self
            .state
            .repair()
            .chain
            .as_ref()
            .is_none_or(|c| c.at != start)
        {
            self.end_chain(None);
        }
        let chain = self.state.repair_mut().chain.get_or_insert_with(|| Chain {
            sent: first.into_iter().collect(),
            at: start,
        });
        chain.sent.push(sent);
    }

    pub(super) fn end_chain(&mut self, resumed_ns: Option<i64>) {
        let chain = self.state.repair.as_mut().and_then(|r| r.chain.take());
        if let Some(chain) = chain.filter(|c| c.sent.len() > BREAK_LEAST) {
            self.half.events_mut().breaks.push(Break {
                sent_ns: chain.sent.iter().map(|s| s.0).collect(),
                frames: chain.sent.iter().map(|s| s.1).collect(),
                resumed_ns,
            });
        }
    }
}
