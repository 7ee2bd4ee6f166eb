//! Controlled delay: lets bursts pass. It drops or marks at the head once every packet during a whole interval has been
//! queued longer than a small target. The drop rate grows with the square root of the number of drops until the
//! standing queue is gone.
//!
//! **Source**: RFC 8289, "Controlled Delay Active Queue Management" (Nichols, Jacobson, McGregor,
//! Iyengar, 2018), sections 3, 4 and 5; ECN marking as RFC 3168, "The Addition of Explicit Congestion
//! Notification (ECN) to IP" (2001), section 5, allows it.
//!
//! **Deviations**: the law is called once per head packet ([`CodelLaw::judge`]) instead of looping inside dequeue as in
//! section 5, so that it never touches a packet; the outcome is the same. A mark forwards the packet and schedules the
//! next mark at once. `ce_threshold` marks beside the law, as Linux does (`include/net/codel_impl.h`). `MAXPACKET` is a parameter, 1500 bytes of IP packet, because lengths here exclude the link-layer
//! header.
//!
//! **Units**: times in ns; `count` in drops and marks. The control law is floor(interval / √count) in
//! exact integers.
//!
//! **Validated against**: `reference/codel.py`, written from section 5 in its looping form, by the
//! traces in `tests/golden/codel/`.

use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::spec::params;
use base::{Bytes, Duration, Ecn, Packet, Time};
use std::collections::VecDeque;

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "codel": "controlled delay: drops or marks at the head once the delay has stood above a target", [
        "RFC 8289, Controlled Delay Active Queue Management",
    ] {
        /// acceptable standing delay
        target: Duration = "5 ms" ["1 us".."10 s"], "RFC 8289 section 4.4";
        /// about a worst-case RTT
        interval: Duration = "100 ms" ["10 us".."100 s"], "RFC 8289 section 4.3";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux codel";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "RFC 8289 section 5";
        /// backlog at or below which nothing is dropped or marked
        mtu: Bytes = "1500 B" ["0".."1 MB"], "RFC 8289 section 5.3";
        /// sojourn time above which every ECN-capable packet is marked; if not given, none is
        ce_threshold: Option<Duration> ["0 ms".."10 s"], "Linux codel";
        /// apply ce_threshold to L4S packets only: ECT(1)
        ce_l4s: bool = "false", "Linux fq_codel";
    }
}

impl Params {
    /// True if `ce_threshold` marks a packet that leaves after this sojourn time (Linux, `codel_dequeue`).
    pub(super) fn marks_at_threshold(&self, sojourn: Duration, ecn: Ecn) -> bool {
        let applies = match ecn {
            Ecn::Ect1 => true,
            Ecn::Ect0 => !self.ce_l4s,
            Ecn::NotEct | Ecn::Ce => false,
        };
        applies && self.ce_threshold.is_some_and(|most| sojourn > most)
    }
}

/// State of the law: one for a plain queue, one per flow with fair queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelLaw {
    /// Time at which the delay will have been above target for one interval; `None` while it is below.
    first_above_time: Option<Time>,
    /// Time of the next drop, while dropping.
    drop_next: Time,
    /// Drops and marks since dropping started.
    count: u64,
    /// Value of `count` when dropping last started.
    last_count: u64,
    dropping: bool,
    /// True after a drop whose successor is not yet scheduled, because that depends on the next packet.
    unscheduled: bool,
}

impl CodelLaw {
    /// Judges the packet taken from the head. `sojourn` is its own, `behind` the bytes still queued behind it. After
    /// `Drop` the next head packet must be judged at the same `now`; if there is none, call [`CodelLaw::emptied`].
    pub fn judge(
        &mut self,
        params: &Params,
        now: Time,
        sojourn: Duration,
        behind: Bytes,
        ecn: Ecn,
    ) -> Verdict {
        let ok_to_drop = self.ok_to_drop(params, now, sojourn, behind);
        if self.dropping {
            if !ok_to_drop {
                // Section 5.5: sojourn time below target, leave the drop state.
                self.dropping = false;
                self.unscheduled = false;
                return Verdict::Forward;
            }
            if std::mem::take(&mut self.unscheduled) {
                self.drop_next = self.control_law(params, self.drop_next);
            }
            if now < self.drop_next {
                return Verdict::Forward;
            }
            self.count += 1;
            if params.ecn && ecn.is_capable() {
                self.drop_next = self.control_law(params, self.drop_next);
                return Verdict::Mark;
            }
            self.unscheduled = true;
            return Verdict::Drop;
        }
        if !ok_to_drop {
            return Verdict::Forward;
        }
        // Section 5.5: enter the drop state. If the last one ended recently, continue at the drop rate that controlled
        // the queue then.
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.saturating_since(self.drop_next) < params.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(params, now);
        self.last_count = self.count;
        if params.ecn && ecn.is_capable() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Records that the queue is empty: the delay cannot be above target.
    pub fn emptied(&mut self) {
        self.first_above_time = None;
        self.dropping = false;
        self.unscheduled = false;
    }

    /// Returns true if a drop is permitted (section 5.6, `dodeque`).
    fn ok_to_drop(&mut self, params: &Params, now: Time, sojourn: Duration, behind: Bytes) -> bool {
        if sojourn < params.target || behind <= params.mtu {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + params.interval);
                false
            }
            Some(t) => now >= t,
        }
    }

    /// Returns t + interval / √count (section 5.6, `control_law`).
    fn control_law(&self, params: &Params, t: Time) -> Time {
        let interval = u128::from(params.interval.as_nanos());
        t + Duration::from_nanos(
            (interval * interval / u128::from(self.count.max(1))).isqrt() as u64,
        )
    }

    /// Number of drops in the present dropping state.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    queue: VecDeque<Packet>,
    bytes: Bytes,
    law: CodelLaw,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because the queue was full.
    pub overlimits: u64,
    /// Packets that the law dropped.
    pub drops: u64,
    /// Packets that the law marked with CE.
    pub marks: u64,
}

/// Queue whose head CoDel judges.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    params: Params,
    state: State,
    stats: Stats,
}

impl Codel {
    /// Creates it with its parameters.
    pub fn new(params: Params) -> Codel {
        Codel {
            params,
            state: State::default(),
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
    /// Law in its present state.
    pub fn law(&self) -> &CodelLaw {
        &self.state.law
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        if self.state.queue.len() as u64 >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        // Section 5.4: enqueue adds only the timestamp.
        packet.enqueued = now;
        self.state.bytes += packet.len;
        self.state.queue.push_back(packet);
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        let State { queue, bytes, law } = &mut self.state;
        while let Some(mut packet) = queue.pop_front() {
            *bytes -= packet.len;
            let sojourn = now.saturating_since(packet.enqueued);
            let verdict = law.judge(&self.params, now, sojourn, *bytes, packet.ecn);
            let at_threshold = self.params.marks_at_threshold(sojourn, packet.ecn);
            match verdict {
                Verdict::Forward if !at_threshold => return Some(packet),
                Verdict::Forward | Verdict::Mark => {
                    packet.ecn = Ecn::Ce;
                    self.stats.marks += 1;
                    fates.marked(packet, Reason::TargetExceeded);
                    return Some(packet);
                }
                Verdict::Drop => {
                    self.stats.drops += 1;
                    fates.dropped(packet, Reason::TargetExceeded);
                }
            }
        }
        law.emptied();
        None
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.state.bytes,
            packets: self.state.queue.len() as u64,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEHIND: Bytes = Bytes::new(15_000);

    /// Judges one packet per millisecond, all with the same sojourn time, and returns the times at which packets were
    /// not forwarded.
    fn verdicts(
        params: &Params,
        sojourn: Duration,
        behind: Bytes,
        ecn: Ecn,
    ) -> Vec<(u64, Verdict)> {
        let mut law = CodelLaw::default();
        (0..400)
            .map(|ms| {
                (
                    ms,
                    law.judge(params, Time::from_millis(ms), sojourn, behind, ecn),
                )
            })
            .filter(|v| v.1 != Verdict::Forward)
            .collect()
    }

    #[test]
    fn forwards_while_sojourn_is_below_target() {
        let below = Duration::from_nanos(4_999_999);
        assert_eq!(verdicts(&Params::default(), below, BEHIND, Ecn::NotEct), []);
    }

    #[test]
    fn a_sojourn_of_exactly_the_target_is_too_long() {
        let v = verdicts(
            &Params::default(),
            Duration::from_millis(5),
            BEHIND,
            Ecn::NotEct,
        );
        assert_eq!(v[0], (100, Verdict::Drop));
    }

    #[test]
    fn drops_come_closer_by_the_square_root_of_their_number() {
        let v = verdicts(
            &Params::default(),
            Duration::from_millis(50),
            BEHIND,
            Ecn::NotEct,
        );
        // First after one interval; then 100/√1, 100/√2, 100/√3 ms later; the next would be at 428 ms.
        assert_eq!(
            v.iter().map(|v| v.0).collect::<Vec<_>>(),
            [100, 200, 271, 329, 379]
        );
        assert!(v.iter().all(|v| v.1 == Verdict::Drop));
    }

    #[test]
    fn marks_instead_of_dropping_when_ect() {
        let params = Params {
            ecn: true,
            ..Params::default()
        };
        let v = verdicts(&params, Duration::from_millis(50), BEHIND, Ecn::Ect1);
        assert_eq!(
            v.iter().map(|v| v.0).collect::<Vec<_>>(),
            [100, 200, 271, 329, 379]
        );
        assert!(v.iter().all(|v| v.1 == Verdict::Mark));
        let v = verdicts(&params, Duration::from_millis(50), BEHIND, Ecn::NotEct);
        assert!(v.iter().all(|v| v.1 == Verdict::Drop));
    }

    #[test]
    fn leaves_a_backlog_of_one_packet_alone_however_long_it_waited() {
        let params = Params::default();
        assert_eq!(
            verdicts(&params, Duration::from_secs(3), params.mtu, Ecn::NotEct),
            []
        );
    }
}
