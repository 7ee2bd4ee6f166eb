//! Fair queueing with PIE: each flow has its own queue with its own PIE, and the queues take turns by
//! bytes as in FQ-CoDel. Packets are dropped as they arrive, so a queue that is full refuses the
//! newcomer, whoever is to blame.
//!
//! **Source**: Ramakrishnan, Bhasi, Saicharan, Monis, Patil, Tahiliani, "FQ-PIE Queue Discipline in the
//! Linux Kernel: Design, Implementation and Challenges", IEEE LCN 2019; the turns as RFC 8290, "The Flow
//! Queue CoDel Packet Scheduler and Active Queue Management Algorithm" (2018), sections 4.1 and 4.2; PIE
//! itself as in [`super::pie`], in the variant of Linux.
//!
//! **Deviations**: the delay of a flow is its sojourn time, as Linux has it by default. Flows are hashed as in
//! [`super::fq_codel`]. Each flow's updates are made up for when the flow is next touched, see `ticks.rs`.
//!
//! **Units**: quantum, deficit and memory in bytes of whole IP packets; the rest as in PIE.
//!
//! **Validated against**: `reference/fq_pie.py` by the traces in `tests/golden/fq_pie/`.

use super::fair::FairQueues;
use super::pie::{self, PieLaw};
use super::ticks::Ticks;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::{Bytes, Duration, Ecn, Packet, Time};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// RFC 8033 section 4.2: 15 ms.
    pub target: Duration,
    /// RFC 8033 section 4.2: 15 ms.
    pub tupdate: Duration,
    /// RFC 8033 section 4.2: 1/8 Hz.
    pub alpha: f64,
    /// RFC 8033 section 4.2: 1 1/4 Hz.
    pub beta: f64,
    /// RFC 8290 section 5.2.4: 1514.
    pub quantum: Bytes,
    /// RFC 8290 section 5.2.5: 1024.
    pub flows: u32,
    /// Linux fq_pie: off.
    pub ecn: bool,
    /// RFC 8033 section 5.1: 0.1.
    pub mark_limit: f64,
    /// Most packets waiting in all queues. Linux fq_pie: 10 240.
    pub limit: u64,
    /// Most bytes waiting in all queues. Linux fq_pie: 32 MiB.
    pub memory: Bytes,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            quantum: Bytes::new(1514),
            flows: 1024,
            ecn: false,
            mark_limit: 0.1,
            limit: 10_240,
            memory: Bytes::new(32 << 20),
        }
    }
}

#[derive(Clone, Debug)]
struct State {
    queues: FairQueues,
    /// One for each queue.
    laws: Vec<(PieLaw, Ticks)>,
    early_drop: Rng,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub overlimits: u64,
    pub drops: u64,
    pub marks: u64,
}

#[derive(Clone, Debug)]
pub struct FqPie {
    params: Params,
    pie: pie::Params,
    state: State,
    stats: Stats,
}

impl FqPie {
    /// `perturbation` is a random number: it decides which flows share a queue in this run. `early_drop`
    /// decides which packets are dropped.
    pub fn new(params: Params, perturbation: u64, early_drop: Rng) -> FqPie {
        let pie = pie::Params {
            target: params.target,
            tupdate: params.tupdate,
            alpha: params.alpha,
            beta: params.beta,
            ecn: params.ecn,
            mark_limit: params.mark_limit,
            ..pie::Params::of(pie::Variant::Linux)
        };
        let law = (PieLaw::new(&pie), Ticks::new(params.tupdate));
        FqPie {
            params,
            pie,
            state: State {
                queues: FairQueues::new(params.flows, params.quantum, perturbation),
                laws: vec![law; params.flows as usize],
                early_drop,
            },
            stats: Stats::default(),
        }
    }
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn catch_up(&mut self, at: usize, now: Time) {
        let (law, ticks) = &mut self.state.laws[at];
        let bytes = self.state.queues.flow_bytes(at);
        ticks.pass(now, |_| law.update(&self.pie, bytes));
    }
}

impl Qdisc for FqPie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let at = self.state.queues.hashed(packet.flow);
        self.catch_up(at, now);
        let State {
            queues,
            laws,
            early_drop,
        } = &mut self.state;
        let law = &mut laws[at].0;
        let backlog = queues.backlog();
        if backlog.packets >= self.params.limit || backlog.bytes + packet.len > self.params.memory {
            law.overflowed();
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        match law.judge(&self.pie, queues.flow_bytes(at), packet.ecn, || {
            uniform(early_drop)
        }) {
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
        queues.push(at, now, packet);
    }

    fn dequeue(&mut self, now: Time, _: &mut Fates) -> Option<Packet> {
        loop {
            let at = self.state.queues.turn()?;
            self.catch_up(at, now);
            let queues = &mut self.state.queues;
            let Some(packet) = queues.pop(at) else {
                queues.ran_empty(at);
                continue;
            };
            queues.sent(at, packet.len);
            let sojourn = now.saturating_since(packet.enqueued);
            self.state.laws[at].0.departed(
                &self.pie,
                now,
                packet.len,
                sojourn,
                queues.flow_bytes(at),
            );
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
