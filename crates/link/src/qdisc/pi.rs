//! Proportional-integral controller on the queue length. At a fixed interval the drop probability of arriving packets
//! changes with the queue's distance from a reference and with its change. It holds the same queue length at any load,
//! unlike RED.
//!
//! **Source**: Hollot, Misra, Towsley, Gong, "On Designing Improved Controllers for AQM Routers Supporting TCP
//! Flows", IEEE INFOCOM 2001, section IV: p(k) = a·(q(k) − q_ref) − b·(q(k−1) − q_ref) + p(k−1). In the form of
//! the thesis's equation 16, with lengths instead of delays: α = a − b and β = b.
//!
//! **Deviations**: a and b are valid for one link, load and frequency: the defaults are those of the paper's example,
//! 15 Mbit/s with 60 flows. Updates are caught up at the next call, see `ticks.rs`.
//!
//! **Units**: lengths in packets; a and b per packet; the probability as a floating-point number.
//!
//! **Validated against**: `reference/pi.py` by the traces in `tests/golden/pi/`; the standing queue under a
//! constant overload, below.

use super::store::Store;
use super::ticks::Ticks;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Duration, Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "pi": "proportional integral controller: drops by chance so that the queue keeps a length", [
        "Hollot, Misra, Towsley, Gong, On Designing Improved Controllers for AQM Routers Supporting TCP Flows, 2001",
    ] {
        /// gain on the distance from the reference, per packet
        a: f64 = "0.00001822" ["0".."1"], "Hollot 2001 section IV";
        /// gain on the distance at the preceding update, per packet; less than a
        b: f64 = "0.00001816" ["0".."1"], "Hollot 2001 section IV";
        /// queue length to hold
        reference: u64 as Packets = "50" ["0".."100000000"], "ns-2";
        /// interval between updates
        tupdate: Duration = "6250 us" ["100 us".."10 s"], "Hollot 2001 section IV";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "Hollot 2001 section V";
        /// most packets queued
        limit: u64 as Packets = "800" ["1".."100000000"], "Hollot 2001 section V";
    }
}

/// Law of the controller with its state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PiLaw {
    probability: f64,
    /// Distance from the reference at the last update, in packets; `None` before the first.
    last: Option<f64>,
}

impl PiLaw {
    /// Updates the probability; returns true if another update would change nothing.
    fn update(&mut self, params: &Params, packets: u64) -> bool {
        let before = *self;
        let distance = packets as f64 - params.reference as f64;
        let last = self.last.unwrap_or(distance);
        let p = params.a * distance - params.b * last + self.probability;
        self.probability = p.clamp(0.0, 1.0);
        self.last = Some(distance);
        *self == before
    }

    /// Judges an arriving packet. `draw` returns a uniform number in [0, 1); each packet takes one.
    fn judge(&self, params: &Params, ecn: Ecn, draw: impl FnOnce() -> f64) -> Verdict {
        if draw() >= self.probability {
            Verdict::Forward
        } else if params.ecn && ecn.is_capable() {
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
    law: PiLaw,
    ticks: Ticks,
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

/// Queue whose arrivals PI drops.
#[derive(Clone, Debug)]
pub struct Pi {
    params: Params,
    state: State,
    stats: Stats,
}

impl Pi {
    /// Creates the discipline; the stream `early_drop` decides which packets are dropped.
    pub fn new(params: Params, early_drop: Rng) -> Pi {
        Pi {
            params,
            state: State {
                queue: Store::default(),
                law: PiLaw::default(),
                ticks: Ticks::new(params.tupdate),
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
    pub fn law(&self) -> &PiLaw {
        &self.state.law
    }

    fn catch_up(&mut self, now: Time) {
        let State {
            queue, law, ticks, ..
        } = &mut self.state;
        ticks.pass(now, |_| law.update(&self.params, queue.len()));
    }
}

impl Qdisc for Pi {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        self.catch_up(now);
        let State {
            queue,
            law,
            early_drop,
            ..
        } = &mut self.state;
        if queue.len() >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        match law.judge(&self.params, packet.ecn, || uniform(early_drop)) {
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
        self.catch_up(now);
        self.state.queue.pop()
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
    use base::rng::Streams;
    use base::{Bytes, FlowId, PacketId};

    #[test]
    fn holds_its_reference_under_a_constant_overload_and_drops_what_is_too_much() {
        // 1250 packets per second leave, 1389 arrive: a tenth is too much. The integral term is stable only at the
        // reference. Gains a hundred times the default converge within seconds, because TCP's own delay is absent.
        let params = Params {
            a: 1.822e-3,
            b: 1.816e-3,
            ..Params::default()
        };
        let mut q = Pi::new(params, Streams::new(1).stream("overload"));
        let mut fates = Fates::default();
        let (mut free, mut waiting, mut offered, mut dropped) = (0, 0.0, 0u64, 0u64);
        for id in 0..(1389 * 200) {
            let now = id * 720_000;
            while free <= now {
                q.dequeue(Time::from_nanos(free), &mut fates);
                free += 800_000;
            }
            let packet = Packet {
                id: PacketId(id),
                flow: FlowId(1),
                len: Bytes::new(1000),
                ecn: Ecn::NotEct,
                dscp: 0,
                enqueued: Time::ZERO,
            };
            q.enqueue(Time::from_nanos(now), packet, &mut fates);
            if id > 1389 * 100 {
                offered += 1;
                dropped += fates.list.len() as u64;
                waiting += q.backlog().packets as f64;
            }
            fates.list.clear();
        }
        let (mean, share) = (waiting / offered as f64, dropped as f64 / offered as f64);
        assert!((mean - 50.0).abs() < 2.0, "{mean} packets");
        assert!((share - 0.1).abs() < 0.005, "{share}");
    }
}
