//! Fair queueing with PIE: each flow has its own queue with its own PIE, served round-robin by bytes as in FQ-CoDel.
//! Packets are dropped on arrival, so a full queue refuses the new packet, whichever flow filled the queue.
//!
//! **Source**: Ramakrishnan, Bhasi, Saicharan, Monis, Patil, Tahiliani, "FQ-PIE Queue Discipline in the
//! Linux Kernel: Design, Implementation and Challenges", IEEE LCN 2019; the round robin as RFC 8290, "The Flow Queue
//! CoDel Packet Scheduler and Active Queue Management Algorithm" (2018), sections 4.1 and 4.2; PIE itself as in
//! [`super::pie`], in the variant of Linux.
//!
//! **Deviations**: the delay of a flow is its sojourn time, as is the default in Linux. Flows are hashed as in
//! [`super::fq_codel`]. Updates of a flow are caught up when the flow is next used, see `ticks.rs`.
//!
//! **Units**: quantum, deficit and memory in bytes of whole IP packets; the rest as in PIE.
//!
//! **Validated against**: `reference/fq_pie.py` by the traces in `tests/golden/fq_pie/`.

use super::fair::FairQueues;
use super::pie::{self, PieLaw};
use super::ticks::Ticks;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Bytes, Duration, Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "fq_pie": "a queue with PIE for each flow, served in turn by bytes, new flows first", [
        "Ramakrishnan et al., FQ-PIE Queue Discipline in the Linux Kernel, 2019",
        "RFC 8033, Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem",
    ] {
        /// delay to hold in each queue
        target: Duration = "15 ms" ["1 us".."10 s"], "RFC 8033 section 4.2";
        /// interval between updates
        tupdate: Duration = "15 ms" ["100 us".."10 s"], "RFC 8033 section 4.2";
        /// gain on the distance from the target, in Hz
        alpha: f64 = "0.125" ["0".."100"], "RFC 8033 section 4.2";
        /// gain on the change of the delay, in Hz
        beta: f64 = "1.25" ["0".."100"], "RFC 8033 section 4.2";
        /// bytes that a queue may send per round
        quantum: Bytes = "1514 B" ["64 B".."1 MB"], "RFC 8290 section 5.2.4";
        /// number of queues that flows are hashed to
        flows: u32 = "1024" ["1".."65536"], "RFC 8290 section 5.2.5";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "Linux fq_pie";
        /// probability at or above which ECN-capable packets are dropped, too
        mark_limit: f64 as Probability = "0.1" ["0".."1"], "RFC 8033 section 5.1";
        /// most packets queued
        limit: u64 as Packets = "10240" ["1".."100000000"], "Linux fq_pie";
        /// most bytes in all queues together
        memory: Bytes = "32 MiB" ["1 kB".."1000 GB"], "Linux fq_pie";
    }
}

#[derive(Clone, Debug)]
struct State {
    queues: FairQueues,
    /// PIE states with their timers, one for each queue.
    laws: Vec<(PieLaw, Ticks)>,
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

/// Queues with PIE, one for each flow.
#[derive(Clone, Debug)]
pub struct FqPie {
    params: Params,
    pie: pie::Params,
    state: State,
    stats: Stats,
}

impl FqPie {
    /// Creates the discipline. `perturbation` is a random number that decides which flows share a queue in this run.
    /// The stream `early_drop` decides which packets are dropped.
    pub fn new(params: Params, perturbation: u64, early_drop: Rng) -> FqPie {
        let pie = pie::Params {
            target: params.target,
            tupdate: params.tupdate,
            alpha: params.alpha,
            beta: params.beta,
            ecn: params.ecn,
            mark_limit: params.mark_limit,
            variant: pie::Variant::Linux,
            ..pie::Params::default()
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
    /// Counters so far.
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
