//! Slots: short stretches of equal length for gaps, outages, the base line and the worst sliding window.

use super::block::{Counts, Probe};
use super::plan::Plan;
use base::histogram::Histogram;
use base::record::Status;

/// Slot of probes.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Send time of the first probe, UNIX ns.
    pub first_sent_ns: i64,
    /// Send time of the last probe, UNIX ns.
    pub last_sent_ns: i64,
    /// Send times of the first and the last probe answered in time; `first` is after `last` if there is none.
    pub first_ok_ns: i64,
    /// Send time of the last probe answered in time, UNIX ns.
    pub last_ok_ns: i64,
    /// Probes that went out, or that the network kept from leaving.
    pub sent: u32,
    /// Number of judged probes: it is known whether they were answered in time.
    pub judged: u32,
    /// Probes lost.
    pub lost: u32,
    /// Round trips: their number, the smallest, and their sum.
    pub answered: u32,
    /// Least round trip, ns.
    pub least_rtt_ns: i64,
    /// Sum of the round trips, ns.
    pub rtt_sum_ns: i64,
}

impl Slot {
    const EMPTY: Slot = Slot {
        first_sent_ns: i64::MAX,
        last_sent_ns: i64::MIN,
        first_ok_ns: i64::MAX,
        last_ok_ns: i64::MIN,
        sent: 0,
        judged: 0,
        lost: 0,
        answered: 0,
        least_rtt_ns: i64::MAX,
        rtt_sum_ns: 0,
    };
}

/// Slots of a series.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Begin of the first slot, UNIX ns.
    pub from_ns: i64,
    /// Length of a slot, ns.
    pub length_ns: i64,
    /// Slots in order.
    pub all: Vec<Slot>,
    limits_ns: Vec<i64>,
    /// Number of probes of each slot that were answered within each limit but not within the one before.
    in_time: Vec<u32>,
    at: usize,
}

impl Slots {
    pub(super) fn new(plan: &Plan) -> Slots {
        let count = (plan.to_ns - plan.from_ns).div_euclid(plan.slot_ns) as usize + 1;
        let limits_ns = plan.cuts.limits_ns.clone();
        Slots {
            from_ns: plan.from_ns,
            length_ns: plan.slot_ns,
            all: vec![Slot::EMPTY; count],
            in_time: vec![0; count * limits_ns.len()],
            limits_ns,
            at: 0,
        }
    }

    /// Begin of a slot, UNIX ns.
    pub fn begin_ns(&self, slot: usize) -> i64 {
        self.from_ns + slot as i64 * self.length_ns
    }

    fn slot_of(&mut self, t_ns: i64) -> Option<usize> {
        let begin = self.begin_ns(self.at);
        if !(begin..begin + self.length_ns).contains(&t_ns) {
            self.at = usize::try_from((t_ns - self.from_ns).div_euclid(self.length_ns)).ok()?;
        }
        (self.at < self.all.len()).then_some(self.at)
    }

    /// Adds a probe. `cut_off`: the network kept it from leaving, so it counts as not answered.
    pub(super) fn add(&mut self, p: Probe, cut_off: bool) {
        if !p.was_sent() && !cut_off {
            return;
        }
        let Some(i) = self.slot_of(p.sent_ns) else {
            return;
        };
        let s = &mut self.all[i];
        s.first_sent_ns = s.first_sent_ns.min(p.sent_ns);
        s.last_sent_ns = s.last_sent_ns.max(p.sent_ns);
        s.sent += 1;
        s.judged += u32::from(p.status != Status::Invalid);
        match p.status {
            Status::Ok => {
                s.first_ok_ns = s.first_ok_ns.min(p.sent_ns);
                s.last_ok_ns = s.last_ok_ns.max(p.sent_ns);
            }
            Status::Invalid => {}
            _ => s.lost += 1,
        }
        if let Some(rtt) = p.rtt() {
            s.answered += 1;
            s.least_rtt_ns = s.least_rtt_ns.min(rtt);
            s.rtt_sum_ns = s.rtt_sum_ns.saturating_add(rtt);
            self.count_in_time(i, rtt, 1);
        }
    }

    fn count_in_time(&mut self, slot: usize, rtt_ns: i64, n: u32) {
        // The limits are few, and most delays are below the first ones.
        if let Some(limit) = self.limits_ns.iter().position(|l| rtt_ns <= *l) {
            self.in_time[slot * self.limits_ns.len() + limit] += n;
        }
    }

    pub(super) fn add_thinned(
        &mut self,
        t_ns: i64,
        interval_ns: i64,
        counts: &Counts,
        histogram: &Histogram,
    ) {
        let Some(i) = self.slot_of(t_ns) else { return };
        let last = t_ns + (interval_ns - 1).max(0);
        let s = &mut self.all[i];
        let due = counts.sent() + counts.cut_off;
        if due > 0 {
            s.first_sent_ns = s.first_sent_ns.min(t_ns);
            s.last_sent_ns = s.last_sent_ns.max(last);
        }
        if counts.ok > 0 {
            s.first_ok_ns = s.first_ok_ns.min(t_ns);
            s.last_ok_ns = s.last_ok_ns.max(last);
        }
        s.sent += due as u32;
        s.judged += counts.judged() as u32;
        s.lost += (counts.missed() + counts.cut_off) as u32;
        for (us, n) in histogram.counts_us() {
            let rtt = (us as i64).saturating_mul(1000);
            let s = &mut self.all[i];
            s.answered += n as u32;
            s.least_rtt_ns = s.least_rtt_ns.min(rtt);
            s.rtt_sum_ns = s.rtt_sum_ns.saturating_add(rtt.saturating_mul(n as i64));
            self.count_in_time(i, rtt, n as u32);
        }
    }

    /// Number of a slot's judged probes that were answered within each limit.
    pub fn in_time(&self, slot: usize) -> impl Iterator<Item = u64> + '_ {
        let width = self.limits_ns.len();
        self.in_time[slot * width..(slot + 1) * width]
            .iter()
            .scan(0u64, |sum, n| {
                *sum += u64::from(*n);
                Some(*sum)
            })
    }

    /// Limits of reliability, ns, ascending.
    pub fn limits_ns(&self) -> &[i64] {
        &self.limits_ns
    }
}
