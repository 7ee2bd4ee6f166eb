//! Stochastic fair BLUE: each of a few hash functions assigns every flow to one bin of its level, and each bin has its
//! own BLUE. An unresponsive flow drives all its bins to probability 1 and is rate-limited. Other flows share at most
//! some bins with it; their drop probability is the smallest of their bins'.
//!
//! **Source**: Feng, Kandlur, Saha, Shin, "Stochastic Fair Blue: A Queue Management Algorithm for
//! Enforcing Fairness", IEEE INFOCOM 2001, section III.A and figure 5; unresponsive flows as in section III.B.
//!
//! **Deviations**: the hash functions stay for the run; section III.C changes them from time to time to separate flows
//! that collide with an unresponsive one. Unresponsive flows pass at one packet per `penalty`, for all of them
//! together, by packet times instead of a separate queue.
//!
//! **Units**: bins in packets, times in ns, probabilities as floating-point numbers.
//!
//! **Validated against**: `reference/sfb.py` by the traces in `tests/golden/sfb/`.

use super::fair::spread;
use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Duration, Ecn, FlowId, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "sfb": "stochastic fair BLUE: bins of flows with a BLUE each; flows that do not respond are held down", [
        "Feng, Kandlur, Saha, Shin, Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness, 2001",
    ] {
        /// number of hash functions, and of bins per flow
        levels: u32 = "2" ["1".."8"], "Feng 2001 section III";
        /// bins per level
        bins: u32 = "23" ["1".."65536"], "Feng 2001 section III";
        /// packets that a bin may hold before its probability rises
        bin_size: u64 as Packets = "13" ["1".."100000000"], "Feng 2001 section III";
        /// step upwards if a packet finds a bin too full
        increment: f64 as Probability = "0.0005" ["0".."1"], "Linux sfb";
        /// step downwards if a packet finds a bin empty
        decrement: f64 as Probability = "0.00005" ["0".."1"], "Linux sfb";
        /// time between two packets of unresponsive flows
        penalty: Duration = "100 ms" ["0 ms".."100 s"], "Linux sfb: 10 a second";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "Feng 2001 section III";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux sfb";
    }
}

/// Largest number of hash functions.
pub const MAX_LEVELS: usize = 8;

/// Bin: the packets queued of its flows, and its probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    packets: u64,
    probability: f64,
}

/// Bins of all levels, level by level.
#[derive(Clone, Debug)]
pub struct SfbLaw {
    bins: Vec<Bin>,
    perturbations: [u64; MAX_LEVELS],
    /// Time at which a packet of an unresponsive flow may pass again.
    penalty_over: Time,
}

impl SfbLaw {
    /// Returns the indexes of a flow's bins.
    fn bins_of(&self, params: &Params, flow: FlowId) -> impl Iterator<Item = usize> + use<> {
        let (perturbations, bins) = (self.perturbations, params.bins);
        (0..params.levels as usize)
            .map(move |l| l * bins as usize + spread(flow, perturbations[l], bins) as usize)
    }

    /// Judges an arriving packet. `draw` returns a uniform number in [0, 1).
    fn judge(
        &mut self,
        params: &Params,
        now: Time,
        packet: &Packet,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        // Figure 5: a bin that is too full raises its probability, an empty one lowers it.
        let mut least: f64 = 1.0;
        for at in self.bins_of(params, packet.flow) {
            let bin = &mut self.bins[at];
            if bin.packets >= params.bin_size {
                bin.probability = (bin.probability + params.increment).min(1.0);
            } else if bin.packets == 0 {
                bin.probability = (bin.probability - params.decrement).max(0.0);
            }
            least = least.min(bin.probability);
        }
        let chance = draw();
        if least >= 1.0 {
            // Section III.B: all bins are at probability 1, so the flow is unresponsive.
            if now < self.penalty_over {
                return Verdict::Drop;
            }
            self.penalty_over = now + params.penalty;
            return Verdict::Forward;
        }
        if chance >= least {
            Verdict::Forward
        } else if params.ecn && packet.ecn.is_capable() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn entered(&mut self, params: &Params, flow: FlowId) {
        for at in self.bins_of(params, flow) {
            self.bins[at].packets += 1;
        }
    }

    fn left(&mut self, params: &Params, flow: FlowId) {
        for at in self.bins_of(params, flow) {
            self.bins[at].packets -= 1;
        }
    }

    /// Returns the smallest probability among a flow's bins.
    pub fn probability(&self, params: &Params, flow: FlowId) -> f64 {
        self.bins_of(params, flow)
            .fold(1.0, |least, at| least.min(self.bins[at].probability))
    }
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    law: SfbLaw,
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

/// Queue whose arrivals SFB drops by flow.
#[derive(Clone, Debug)]
pub struct Sfb {
    params: Params,
    state: State,
    stats: Stats,
}

impl Sfb {
    /// Creates the discipline. `perturbations` are random numbers that decide which flows share bins. The stream
    /// `early_drop` decides which packets are dropped.
    pub fn new(params: Params, perturbations: [u64; MAX_LEVELS], early_drop: Rng) -> Sfb {
        Sfb {
            params,
            state: State {
                queue: Store::default(),
                law: SfbLaw {
                    bins: vec![Bin::default(); (params.levels * params.bins) as usize],
                    perturbations,
                    penalty_over: Time::ZERO,
                },
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
    pub fn law(&self) -> &SfbLaw {
        &self.state.law
    }
}

impl Qdisc for Sfb {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let State {
            queue,
            law,
            early_drop,
        } = &mut self.state;
        let verdict = law.judge(&self.params, now, &packet, || uniform(early_drop));
        if verdict == Verdict::Drop {
            self.stats.drops += 1;
            fates.dropped(packet, Reason::EarlyDrop);
        } else if queue.len() >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
        } else {
            if verdict == Verdict::Mark {
                packet.ecn = Ecn::Ce;
                self.stats.marks += 1;
                fates.marked(packet, Reason::EarlyDrop);
            }
            law.entered(&self.params, packet.flow);
            queue.push(now, packet);
        }
    }

    fn dequeue(&mut self, _: Time, _: &mut Fates) -> Option<Packet> {
        let State { queue, law, .. } = &mut self.state;
        let packet = queue.pop()?;
        law.left(&self.params, packet.flow);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.state.queue.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use base::{Bytes, PacketId};

    #[test]
    fn a_flow_that_does_not_respond_is_held_down_and_a_sparse_one_passes() {
        let params = Params {
            increment: 0.01,
            decrement: 0.001,
            ..Params::default()
        };
        let streams = Streams::new(1);
        let mut q = Sfb::new(params, [1, 2, 3, 4, 5, 6, 7, 8], streams.stream("sfb"));
        let mut fates = Fates::default();
        let mut lost = [0u32; 2];
        for id in 0..40_000u64 {
            // 10 Mbit/s and 1000 bytes: 1250 packets per second leave; 2500 of the flood and 50 of a call arrive.
            let now = Time::from_micros(id * 400);
            let mut offer = |flow| {
                let packet = Packet {
                    id: PacketId(id),
                    flow: FlowId(flow),
                    len: Bytes::new(1000),
                    ecn: Ecn::NotEct,
                    dscp: 0,
                    enqueued: now,
                };
                q.enqueue(now, packet, &mut fates);
            };
            offer(0);
            if id % 50 == 0 {
                offer(1);
            }
            if id % 2 == 0 {
                q.dequeue(now, &mut fates);
            }
            for (p, _) in fates.list.drain(..) {
                lost[p.flow.0 as usize] += 1;
            }
        }
        assert_eq!(lost[1], 0);
        // The link carries only half of the flood.
        assert!(lost[0] >= 19_000, "{lost:?}");
        let law = q.law();
        assert!(law.probability(&params, FlowId(0)) > 0.4);
        assert_eq!(law.probability(&params, FlowId(1)), 0.0);
    }
}
