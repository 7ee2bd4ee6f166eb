//! BLUE: ignores the queue's length. A queue overflow raises the drop probability of arriving packets by a step; an
//! idle link lowers it by a smaller step.
//!
//! **Source**: Feng, Shin, Kandlur, Saha, "The BLUE Active Queue Management Algorithms", IEEE/ACM
//! Transactions on Networking 10(4), 2002, section III and figure 6, with the values of table I.
//!
//! **Deviations**: none. The variant that also rises above a length L, named in section III, is `length`.
//!
//! **Units**: times in ns, probabilities as floating-point numbers.
//!
//! **Validated against**: `reference/blue.py` by the traces in `tests/golden/blue/`.

use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Duration, Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "blue": "drops by chance, more often after each overflow, less often after each idle time", [
        "Feng, Shin, Kandlur, Saha, The BLUE Active Queue Management Algorithms, 2002",
    ] {
        /// step upwards on loss
        increment: f64 as Probability = "0.02" ["0.00001".."1"], "Feng 2002 table I";
        /// step downwards when the link is idle
        decrement: f64 as Probability = "0.002" ["0.00001".."1"], "Feng 2002 table I";
        /// shortest time between two steps
        freeze: Duration = "100 ms" ["0 ms".."100 s"], "Feng 2002 table I";
        /// queue length above which a step upwards is made; if not given, only loss counts
        length: Option<u64> as Packets ["0".."100000000"], "Feng 2002 section III";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "Feng 2002 section III";
        /// most packets queued
        limit: u64 as Packets = "100" ["1".."100000000"], "ours";
    }
}

/// Drop probability and its clock: the whole of BLUE, and of each bin of stochastic fair BLUE.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlueLaw {
    probability: f64,
    last_update: Option<Time>,
}

impl BlueLaw {
    /// Raises the probability because the queue overflowed (figure 6, upon packet loss).
    pub fn overflowed(&mut self, step: f64, freeze: Duration, now: Time) {
        if self.may_move(freeze, now) {
            self.probability = (self.probability + step).min(1.0);
            self.last_update = Some(now);
        }
    }

    /// Lowers the probability because the link is idle (figure 6, upon link idle).
    pub fn idled(&mut self, step: f64, freeze: Duration, now: Time) {
        if self.may_move(freeze, now) {
            self.probability = (self.probability - step).max(0.0);
            self.last_update = Some(now);
        }
    }

    fn may_move(&self, freeze: Duration, now: Time) -> bool {
        self.last_update
            .is_none_or(|last| now.saturating_since(last) > freeze)
    }

    /// Judges an arriving packet. `draw` returns a uniform number in [0, 1); each packet takes one.
    pub fn judge(&self, may_mark: bool, ecn: Ecn, draw: impl FnOnce() -> f64) -> Verdict {
        if draw() >= self.probability {
            Verdict::Forward
        } else if may_mark && ecn.is_capable() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Present probability, 0 to 1.
    pub fn probability(&self) -> f64 {
        self.probability
    }
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    law: BlueLaw,
    early_drop: Rng,
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

/// Queue whose arrivals BLUE drops.
#[derive(Clone, Debug)]
pub struct Blue {
    params: Params,
    state: State,
    stats: Stats,
}

impl Blue {
    /// Creates the discipline; the stream `early_drop` decides which packets are dropped.
    pub fn new(params: Params, early_drop: Rng) -> Blue {
        Blue {
            params,
            state: State {
                queue: Store::default(),
                law: BlueLaw::default(),
                early_drop,
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
    /// Law in its present state.
    pub fn law(&self) -> &BlueLaw {
        &self.state.law
    }
}

impl Qdisc for Blue {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let State {
            queue,
            law,
            early_drop,
        } = &mut self.state;
        let Params {
            increment, freeze, ..
        } = self.params;
        if queue.len() >= self.params.limit {
            law.overflowed(increment, freeze, now);
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        if self.params.length.is_some_and(|most| queue.len() > most) {
            law.overflowed(increment, freeze, now);
        }
        match law.judge(self.params.ecn, packet.ecn, || uniform(early_drop)) {
            Verdict::Forward => {}
            Verdict::Mark => {
                packet.ecn = Ecn::Ce;
                self.stats.marks += 1;
                fates.marked(packet, Reason::EarlyDrop);
            }
            Verdict::Drop => {
                self.stats.drops += 1;
                fates.dropped(packet, Reason::EarlyDrop);
                return;
            }
        }
        queue.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _: &mut Fates) -> Option<Packet> {
        let State { queue, law, .. } = &mut self.state;
        let packet = queue.pop();
        if packet.is_none() {
            law.idled(self.params.decrement, self.params.freeze, now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.state.queue.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    fn probability(&self) -> Option<f64> {
        Some(self.state.law.probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_up_on_loss_and_down_on_idleness_and_rests_between() {
        let freeze = Duration::from_millis(100);
        let mut law = BlueLaw::default();
        for ms in [1000, 1050, 1100, 1101] {
            law.overflowed(0.02, freeze, Time::from_millis(ms));
        }
        assert_eq!(law.probability(), 0.04);
        law.idled(0.002, freeze, Time::from_millis(1150));
        assert_eq!(law.probability(), 0.04);
        law.idled(0.002, freeze, Time::from_millis(1300));
        assert!((law.probability() - 0.038).abs() < 1e-12);
    }
}
