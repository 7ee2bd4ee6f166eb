//! CAKE's core: a queue for each flow, assigned by a set-associative hash and served round-robin by bytes, each with
//! COBALT. COBALT is CoDel whose drop rate also decreases step by step, combined with BLUE against unresponsive
//! senders.
//!
//! **Source**: Høiland-Jørgensen, Täht, Morton, "Piece of CAKE: A Comprehensive Queue Management Solution
//! for Home Gateways", IEEE LANMAN 2018; Palmei et al., "Design and Evaluation of COBALT Queue
//! Discipline", IEEE LANMAN 2019; the constants as in Linux `sch_cake`; the round robin as RFC 8290, "The Flow Queue
//! CoDel Packet Scheduler and Active Queue Management Algorithm" (2018), sections 4.1 and 4.2.
//!
//! **Deviations**: the core only, without shaper (use `tbf`, or the link's own rate), host fairness, DSCP classes and
//! ACK filter. The rate is not known here, so the target is not raised to a few packet times on slow links: below 2.4
//! Mbit/s set it to that.
//!
//! **Units**: times in ns; the control law is floor(interval / √count) in exact integers; probabilities
//! as floating-point numbers; quantum and memory in bytes of whole IP packets.
//!
//! **Validated against**: `reference/cake.py` by the traces in `tests/golden/cake/`.

use super::fair::FairQueues;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Bytes, Duration, Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "cake": "CAKE's core: a queue with COBALT (CoDel and BLUE) for each flow, flows kept apart", [
        "Hoiland-Jorgensen, Taht, Morton, Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways, 2018",
        "Palmei et al., Design and Evaluation of COBALT Queue Discipline, 2019",
    ] {
        /// acceptable standing delay
        target: Duration = "5 ms" ["1 us".."10 s"], "RFC 8289 section 4.4";
        /// about a worst-case RTT
        interval: Duration = "100 ms" ["10 us".."100 s"], "RFC 8289 section 4.3";
        /// BLUE's step upwards on overflow
        increment: f64 as Probability = "0.00390625" ["0".."1"], "Linux cake: 1/256";
        /// BLUE's step downwards when a flow's queue runs empty
        decrement: f64 as Probability = "0.000244140625" ["0".."1"], "Linux cake: 1/4096";
        /// bytes that a queue may send per round
        quantum: Bytes = "1514 B" ["64 B".."1 MB"], "RFC 8290 section 5.2.4";
        /// number of queues that flows are hashed to
        flows: u32 = "1024" ["1".."65536"], "RFC 8290 section 5.2.5";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "true", "Piece of CAKE";
        /// most bytes in all queues together
        memory: Bytes = "4 MB" ["1 kB".."1000 GB"], "Linux cake";
    }
}

/// COBALT's state of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CobaltLaw {
    count: u64,
    dropping: bool,
    /// Time of the next drop; while `count` is zero, end of the flow's active time.
    drop_next: Time,
    /// Probability of BLUE, and the time of its last step in the next field.
    probability: f64,
    blue_timer: Time,
}

impl CobaltLaw {
    /// Judges the packet at the head. `draw` returns a uniform number in [0, 1) and is called at most once.
    pub fn judge(
        &mut self,
        params: &Params,
        now: Time,
        sojourn: Duration,
        ecn: Ecn,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        let due = self.count > 0 && now >= self.drop_next;
        if sojourn > params.target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control_law(params, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut verdict = Verdict::Forward;
        if due && self.dropping {
            verdict = if params.ecn && ecn.is_capable() {
                Verdict::Mark
            } else {
                Verdict::Drop
            };
            self.count += 1;
            self.drop_next = self.control_law(params, self.drop_next);
        } else if due {
            self.unwind(params, now);
        }
        if self.probability > 0.0 && draw() < self.probability {
            verdict = Verdict::Drop;
        }
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if now > self.drop_next && verdict != Verdict::Drop {
            self.drop_next = now;
        }
        verdict
    }

    /// Lowers the drop rate step by step while the delay is below target.
    fn unwind(&mut self, params: &Params, now: Time) {
        while self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = self.control_law(params, self.drop_next);
        }
    }

    /// Raises BLUE's probability because a packet of this flow was evicted.
    pub fn overflowed(&mut self, params: &Params, now: Time) {
        if now.saturating_since(self.blue_timer) > params.target {
            self.probability = (self.probability + params.increment).min(1.0);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Lowers BLUE's probability because the flow's queue has run empty.
    pub fn emptied(&mut self, params: &Params, now: Time) {
        if self.probability > 0.0 && now.saturating_since(self.blue_timer) > params.target {
            self.probability = (self.probability - params.decrement).max(0.0);
            self.blue_timer = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = self.control_law(params, self.drop_next);
        }
    }

    /// Returns t + interval / √count, as RFC 8289 section 5.6.
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
    /// Present probability, 0 to 1.
    pub fn probability(&self) -> f64 {
        self.probability
    }
}

#[derive(Clone, Debug)]
struct State {
    queues: FairQueues,
    /// COBALT states, one for each queue.
    laws: Vec<CobaltLaw>,
    blue: Rng,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that the law dropped.
    pub drops: u64,
    /// Packets that the law marked with CE.
    pub marks: u64,
    /// Packets evicted from the queue with the most bytes because the limit was reached.
    pub evictions: u64,
}

/// Queues of CAKE's core, one for each flow.
#[derive(Clone, Debug)]
pub struct Cake {
    params: Params,
    state: State,
    stats: Stats,
}

impl Cake {
    /// Creates the discipline. `perturbation` is a random number that decides which flows share a set. The stream
    /// `blue` decides which packets of unresponsive senders are dropped.
    pub fn new(params: Params, perturbation: u64, blue: Rng) -> Cake {
        Cake {
            params,
            state: State {
                queues: FairQueues::new(params.flows, params.quantum, perturbation),
                laws: vec![CobaltLaw::default(); params.flows as usize],
                blue,
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Cake {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        let State { queues, laws, .. } = &mut self.state;
        let at = queues.set_associative(packet.flow);
        queues.push(at, now, packet);
        while queues.backlog().bytes > self.params.memory {
            let fattest = queues.fattest();
            let Some(packet) = queues.pop(fattest) else {
                break;
            };
            laws[fattest].overflowed(&self.params, now);
            self.stats.evictions += 1;
            let why = if fattest == at {
                Reason::Overlimit
            } else {
                Reason::FlowEvicted
            };
            fates.dropped(packet, why);
        }
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        let State { queues, laws, blue } = &mut self.state;
        loop {
            let at = queues.turn()?;
            let law = &mut laws[at];
            let Some(mut packet) = queues.pop(at) else {
                law.emptied(&self.params, now);
                queues.ran_empty(at);
                continue;
            };
            let sojourn = now.saturating_since(packet.enqueued);
            let verdict = law.judge(&self.params, now, sojourn, packet.ecn, || uniform(blue));
            // The last packet of a flow may be marked, but not dropped: without later packets its sender would not
            // detect the loss.
            if verdict == Verdict::Drop && queues.flow_bytes(at) > Bytes::ZERO {
                self.stats.drops += 1;
                fates.dropped(packet, Reason::TargetExceeded);
                continue;
            }
            if verdict == Verdict::Mark {
                packet.ecn = Ecn::Ce;
                self.stats.marks += 1;
                fates.marked(packet, Reason::TargetExceeded);
            }
            queues.sent(at, packet.len);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.state.queues.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_drops_sinks_as_it_rose_once_the_delay_is_below_target() {
        let params = Params::default();
        let mut law = CobaltLaw::default();
        let mut run = |from_ms: u64, to_ms: u64, sojourn_ms| {
            let mut drops = 0;
            for ms in from_ms..to_ms {
                let now = Time::from_millis(ms);
                let sojourn = Duration::from_millis(sojourn_ms);
                drops += u32::from(
                    law.judge(&params, now, sojourn, Ecn::NotEct, || 1.0) == Verdict::Drop,
                );
            }
            (drops, law.count())
        };
        // At 100 ms, then 100/√2, 100/√3, … ms later: 100, 171, 229, 279, 324 and 364 ms.
        assert_eq!(run(0, 400, 50), (6, 7));
        // The next would have been at 402 ms; from there the count falls by one after each 100/√6, 100/√5, … ms: 402,
        // 443, 488, 538, 596, 666 and 766 ms.
        assert_eq!(run(400, 470, 1), (0, 5));
        assert_eq!(run(470, 800, 1), (0, 0));
    }

    #[test]
    fn a_flow_that_floods_is_met_by_blue() {
        let params = Params::default();
        let mut law = CobaltLaw::default();
        for ms in (0..2_000).step_by(2) {
            law.overflowed(&params, Time::from_millis(ms));
        }
        // One step each 6 ms, the first multiple of 2 ms above the target: 333 steps of 1/256 exceed 1.
        assert_eq!((law.probability(), law.count()), (1.0, 1));
        law.emptied(&params, Time::from_millis(2_100));
        assert_eq!(law.probability(), 1.0 - 1.0 / 4096.0);
    }
}
