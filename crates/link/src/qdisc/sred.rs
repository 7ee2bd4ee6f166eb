//! Stabilized RED: estimates the number of active flows without a state for each, and drops so often that the queue
//! stays at the same length for many and for few flows. Each arriving packet is compared with a random one of a list of
//! recent packets, the *zombies*; it is a *hit* if both belong to one flow.
//!
//! **Source**: Ott, Lakshman, Wong, "SRED: Stabilized RED", IEEE INFOCOM 1999, sections III to V.
//!
//! **Deviations**: marking of ECN-capable packets is ours; the paper drops only. The counts and times of zombies, which serve
//! to name misbehaving flows, are left out.
//!
//! **Units**: queue and list in packets, probabilities as floating-point numbers.
//!
//! **Validated against**: `reference/sred.py` by the traces in `tests/golden/sred/`.

use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Ecn, FlowId, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "sred": "RED by the number of flows: the share of packets that meet their own flow in a random sample", [
        "Ott, Lakshman, Wong, SRED: Stabilized RED, 1999",
    ] {
        /// length of the list of recent packets
        zombies: u64 as Packets = "1000" ["1".."1000000"], "Ott 1999 section III";
        /// probability that a packet without a hit takes the place of the one it met
        replace: f64 as Probability = "0.25" ["0.00001".."1"], "Ott 1999 section III";
        /// drop probability of a queue above a third of its limit, for many flows
        max_p: f64 as Probability = "0.15" ["0".."1"], "Ott 1999 section IV";
        /// number of flows from which the drop probability no longer rises
        flows: f64 = "256" ["1".."1000000"], "Ott 1999 section IV";
        /// drop packets of a hit more often (full SRED)
        full: bool = "true", "Ott 1999 section V";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "ours";
        /// most packets queued
        limit: u64 as Packets = "100" ["1".."100000000"], "ours";
    }
}

/// List of recent packets and the frequency of hits.
#[derive(Clone, Debug, Default)]
pub struct SredLaw {
    zombies: Vec<FlowId>,
    hits: f64,
}

impl SredLaw {
    /// Compares an arriving packet with a zombie; true if it is a hit. `draw` returns a uniform number in [0, 1).
    fn meet(&mut self, params: &Params, flow: FlowId, mut draw: impl FnMut() -> f64) -> bool {
        if (self.zombies.len() as u64) < params.zombies {
            self.zombies.push(flow);
            return self.count(params, false);
        }
        let place = (draw() * self.zombies.len() as f64) as usize;
        let is_hit = self.zombies[place] == flow;
        if !is_hit && draw() < params.replace {
            self.zombies[place] = flow;
        }
        self.count(params, is_hit)
    }

    /// Follows the frequency of hits with the weight of section III: the list forgets within M/p packets.
    fn count(&mut self, params: &Params, is_hit: bool) -> bool {
        let weight = params.replace / params.zombies as f64;
        self.hits += weight * (f64::from(is_hit) - self.hits);
        is_hit
    }

    /// Drop probability of a packet that finds this backlog (section IV, and V for a hit).
    fn probability(&self, params: &Params, backlog: u64, is_hit: bool) -> f64 {
        let by_length = if 3 * backlog >= params.limit {
            params.max_p
        } else if 6 * backlog >= params.limit {
            params.max_p / 4.0
        } else {
            0.0
        };
        let share = params.flows * self.hits;
        let by_flows = if share > 1.0 {
            1.0 / (share * share)
        } else {
            1.0
        };
        let by_hit = if params.full && is_hit {
            1.0 + 1.0 / self.hits
        } else {
            1.0
        };
        (by_length * by_flows * by_hit).min(1.0)
    }

    /// Estimate of the number of active flows; `None` before the first hit.
    pub fn flows(&self) -> Option<f64> {
        (self.hits > 0.0).then(|| 1.0 / self.hits)
    }
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    law: SredLaw,
    /// Drop probability of the last packet that arrived.
    last: f64,
    zombie: Rng,
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

/// Queue whose arrivals SRED drops.
#[derive(Clone, Debug)]
pub struct Sred {
    params: Params,
    state: State,
    stats: Stats,
}

impl Sred {
    /// Creates the discipline; the stream `zombie` chooses and replaces zombies, `early_drop` decides about packets.
    pub fn new(params: Params, zombie: Rng, early_drop: Rng) -> Sred {
        Sred {
            params,
            state: State {
                queue: Store::default(),
                law: SredLaw::default(),
                last: 0.0,
                zombie,
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
    pub fn law(&self) -> &SredLaw {
        &self.state.law
    }
}

impl Qdisc for Sred {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let State {
            queue,
            law,
            last,
            zombie,
            early_drop,
        } = &mut self.state;
        let is_hit = law.meet(&self.params, packet.flow, || uniform(zombie));
        *last = law.probability(&self.params, queue.len(), is_hit);
        if queue.len() >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        let may_mark = self.params.ecn && packet.ecn.is_capable();
        let verdict = match uniform(early_drop) < *last {
            false => Verdict::Forward,
            true if may_mark => Verdict::Mark,
            true => Verdict::Drop,
        };
        match verdict {
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

    fn dequeue(&mut self, _: Time, _: &mut Fates) -> Option<Packet> {
        self.state.queue.pop()
    }

    fn backlog(&self) -> Backlog {
        self.state.queue.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    fn probability(&self) -> Option<f64> {
        Some(self.state.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;

    #[test]
    fn the_share_of_hits_tells_the_number_of_flows() {
        for seed in 1..=20 {
            let streams = Streams::new(seed);
            let (mut chance, mut zombie) = (streams.stream("flows"), streams.stream("zombie"));
            let flows = 1.0 + (uniform(&mut chance) * 200.0).floor();
            let (params, mut law) = (Params::default(), SredLaw::default());
            let (mut sum, mut count) = (0.0, 0);
            for packet in 0..200_000 {
                let flow = FlowId((uniform(&mut chance) * flows) as u64);
                law.meet(&params, flow, || uniform(&mut zombie));
                if packet >= 40_000 {
                    (sum, count) = (sum + law.hits, count + 1);
                }
            }
            // The hits of equal flows are 1/N on average; 160,000 packets are 40 memories of the list.
            let estimate = f64::from(count) / sum;
            assert!(
                (estimate / flows - 1.0).abs() < 0.2,
                "seed {seed}: {estimate} of {flows} flows"
            );
        }
    }

    #[test]
    fn few_flows_are_dropped_less_often_than_many_and_hits_more_often_than_others() {
        let params = Params {
            limit: 60,
            ..Params::default()
        };
        let law = |flows: f64| SredLaw {
            zombies: Vec::new(),
            hits: 1.0 / flows,
        };
        let p = |flows, backlog, is_hit| law(flows).probability(&params, backlog, is_hit);
        assert_eq!(p(1000.0, 9, false), 0.0);
        assert_eq!(p(1000.0, 10, false), 0.15 / 4.0);
        assert_eq!(p(1000.0, 20, false), 0.15);
        assert!((p(128.0, 20, false) - 0.15 / 4.0).abs() < 1e-12);
        assert_eq!(
            p(128.0, 20, true),
            1.0,
            "129 times as often, and no more than always"
        );
        assert!((p(2.0, 20, true) / p(2.0, 20, false) - 3.0).abs() < 1e-12);
    }
}
