//! Fair queueing with CoDel: each flow has its own queue with its own CoDel law, served round-robin by bytes. A new
//! flow, or one that sends so little that its queue runs empty, goes first.
//!
//! **Source**: RFC 8290, "The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm"
//! (Hoeiland-Joergensen, McKenney, Taht, Gettys, Dumazet, 2018), sections 2 to 5; CoDel itself as in
//! [`super::codel`].
//!
//! **Deviations**: the flow queue comes from `Packet::flow`, the host's hash of addresses, protocol and ports, mixed
//! with a perturbation from a random stream, instead of the Jenkins hash. The memory limit counts bytes of IP packets;
//! Linux counts its buffers. CoDel's last-packet rule considers the flow's own queue (section 2: each queue has its own
//! CoDel); with `whole_backlog` it considers that of all flows, as in Linux. A drop due to the limit does not raise the flow's CoDel count; in Linux
//! it does.
//!
//! **Units**: quantum, deficit and limits in bytes of whole IP packets (default quantum 1514, as printed
//! in section 5.2.4); the rest as in CoDel.
//!
//! **Validated against**: `reference/fq_codel.py`, written from sections 4.1 and 4.2, by the traces in
//! `tests/golden/fq_codel/`.

use super::codel::{self, CodelLaw};
use super::fair::spread;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::spec::params;
use base::{Bytes, Duration, Ecn, FlowId, Packet, Time};
use std::collections::VecDeque;

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "fq_codel": "a queue with CoDel for each flow, served in turn by bytes, new flows first", [
        "RFC 8290, The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm",
        "RFC 8289, Controlled Delay Active Queue Management",
    ] {
        /// acceptable standing delay
        target: Duration = "5 ms" ["1 us".."10 s"], "RFC 8289 section 4.4";
        /// about a worst-case RTT
        interval: Duration = "100 ms" ["10 us".."100 s"], "RFC 8289 section 4.3";
        /// most packets in all queues together
        limit: u64 as Packets = "10240" ["1".."100000000"], "RFC 8290 section 5.2.3";
        /// bytes that a queue may send per round
        quantum: Bytes = "1514 B" ["64 B".."1 MB"], "RFC 8290 section 5.2.4";
        /// number of queues that flows are hashed to
        flows: u32 = "1024" ["1".."65536"], "RFC 8290 section 5.2.5";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "true", "RFC 8290 section 5.2.6";
        /// backlog at or below which nothing is dropped or marked
        mtu: Bytes = "1500 B" ["0".."1 MB"], "RFC 8289 section 5.3";
        /// compare mtu with the backlog of all queues, not with the flow's own
        whole_backlog: bool = "false", "Linux fq_codel";
        /// most bytes in all queues together
        memory: Bytes = "32 MiB" ["1 kB".."1000 GB"], "Linux fq_codel";
        /// sojourn time above which every ECN-capable packet is marked; if not given, none is
        ce_threshold: Option<Duration> ["0 ms".."10 s"], "Linux fq_codel";
        /// apply ce_threshold to L4S packets only: ECT(1)
        ce_l4s: bool = "false", "Linux fq_codel";
    }
}

/// Largest number of packets dropped at once when the limit is reached (RFC 8290 section 4.1).
const DROP_BATCH: u64 = 64;

/// Place of a queue in the two lists of section 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Neither,
    New,
    Old,
}

/// End of a list: no further packet.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Flow {
    law: CodelLaw,
    place: Place,
    /// Bytes it may still send in this round; negative after a packet larger than the rest.
    deficit: i64,
    bytes: Bytes,
    packets: u64,
    /// Indexes of the first and last packet in `State::slots`.
    head: u32,
    tail: u32,
}

/// Packet, and the index of the one behind it in its flow.
#[derive(Clone, Copy, Debug)]
struct Slot {
    packet: Packet,
    next: u32,
}

#[derive(Clone, Debug)]
struct State {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// Packets of all flows; free slots are chained from `free`, so that no packet needs an allocation.
    slots: Vec<Slot>,
    free: u32,
    backlog: Backlog,
    perturbation: u64,
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
    /// Times that a flow was added to the list of new flows.
    pub new_flows: u64,
}

/// Queues with CoDel, one for each flow.
#[derive(Clone, Debug)]
pub struct FqCodel {
    params: Params,
    codel: codel::Params,
    state: State,
    stats: Stats,
}

impl FqCodel {
    /// Creates the discipline; `perturbation` is a random number that decides which flows share a queue in this run.
    pub fn new(params: Params, perturbation: u64) -> FqCodel {
        let flow = Flow {
            law: CodelLaw::default(),
            place: Place::Neither,
            deficit: 0,
            bytes: Bytes::ZERO,
            packets: 0,
            head: NONE,
            tail: NONE,
        };
        FqCodel {
            params,
            codel: codel::Params {
                target: params.target,
                interval: params.interval,
                limit: params.limit,
                mtu: params.mtu,
                ecn: params.ecn,
                ce_threshold: params.ce_threshold,
                ce_l4s: params.ce_l4s,
            },
            state: State {
                flows: vec![flow; params.flows as usize],
                new: VecDeque::new(),
                old: VecDeque::new(),
                slots: Vec::new(),
                free: NONE,
                backlog: Backlog::default(),
                perturbation,
            },
            stats: Stats::default(),
        }
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the queue of a flow (section 4.1).
    fn classify(&self, flow: FlowId) -> u32 {
        spread(flow, self.state.perturbation, self.params.flows)
    }

    /// Drops packets from the head of the flow with the most bytes, up to half of its bytes, at most [`DROP_BATCH`]
    /// packets (section 4.1). A flood therefore does not cause a search for every packet.
    fn drop_from_fattest(&mut self, arriving: u32, fates: &mut Fates) {
        let mut fattest = 0;
        for (i, flow) in self.state.flows.iter().enumerate() {
            if flow.bytes > self.state.flows[fattest].bytes {
                fattest = i;
            }
        }
        let half = self.state.flows[fattest].bytes / 2;
        let why = if fattest as u32 == arriving {
            Reason::Overlimit
        } else {
            Reason::FlowEvicted
        };
        let mut gone = Bytes::ZERO;
        for _ in 0..DROP_BATCH {
            let Some(packet) = self.state.pop(fattest as u32) else {
                break;
            };
            gone += packet.len;
            self.stats.evictions += 1;
            fates.dropped(packet, why);
            if gone >= half {
                break;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.state.backlog.packets > self.params.limit
            || self.state.backlog.bytes > self.params.memory
    }
}

impl State {
    fn push(&mut self, flow: u32, packet: Packet) {
        let slot = Slot { packet, next: NONE };
        let at = self.free;
        let at = if at == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        };
        let queue = &mut self.flows[flow as usize];
        if queue.tail == NONE {
            queue.head = at;
        } else {
            self.slots[queue.tail as usize].next = at;
        }
        queue.tail = at;
        queue.bytes += packet.len;
        queue.packets += 1;
        self.backlog.bytes += packet.len;
        self.backlog.packets += 1;
    }

    fn pop(&mut self, flow: u32) -> Option<Packet> {
        let queue = &mut self.flows[flow as usize];
        let at = queue.head;
        if at == NONE {
            return None;
        }
        let Slot { packet, next } = self.slots[at as usize];
        queue.head = next;
        if next == NONE {
            queue.tail = NONE;
        }
        queue.bytes -= packet.len;
        queue.packets -= 1;
        self.backlog.bytes -= packet.len;
        self.backlog.packets -= 1;
        self.slots[at as usize].next = self.free;
        self.free = at;
        Some(packet)
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let at = self.classify(packet.flow);
        packet.enqueued = now;
        self.state.push(at, packet);
        let flow = &mut self.state.flows[at as usize];
        if flow.place == Place::Neither {
            // Section 4.1: an inactive queue goes to the end of the new ones, with a full quantum.
            flow.place = Place::New;
            flow.deficit = self.params.quantum.get() as i64;
            self.state.new.push_back(at);
            self.stats.new_flows += 1;
        }
        while self.is_over() {
            self.drop_from_fattest(at, fates);
        }
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        loop {
            // Section 4.2: new flows first, then old ones.
            let at = *self.state.new.front().or_else(|| self.state.old.front())?;
            let flow = &mut self.state.flows[at as usize];
            let list = if flow.place == Place::New {
                &mut self.state.new
            } else {
                &mut self.state.old
            };
            if flow.deficit <= 0 {
                flow.deficit += self.params.quantum.get() as i64;
                flow.place = Place::Old;
                list.pop_front();
                self.state.old.push_back(at);
                continue;
            }
            let Some(packet) = self.next_of(at, now, fates) else {
                // Section 4.2: an empty new queue goes through the old ones once, so that a flow cannot stay new by
                // sending exactly as fast as it is served; an empty old one leaves.
                let flow = &mut self.state.flows[at as usize];
                if flow.place == Place::New {
                    flow.place = Place::Old;
                    self.state.new.pop_front();
                    self.state.old.push_back(at);
                } else {
                    flow.place = Place::Neither;
                    self.state.old.pop_front();
                }
                continue;
            };
            self.state.flows[at as usize].deficit -= packet.len.get() as i64;
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.state.backlog
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

impl FqCodel {
    /// Returns the next packet of one flow that its CoDel forwards.
    fn next_of(&mut self, at: u32, now: Time, fates: &mut Fates) -> Option<Packet> {
        while let Some(mut packet) = self.state.pop(at) {
            let flow = &mut self.state.flows[at as usize];
            let sojourn = now.saturating_since(packet.enqueued);
            let behind = match self.params.whole_backlog {
                true => self.state.backlog.bytes,
                false => flow.bytes,
            };
            let verdict = flow
                .law
                .judge(&self.codel, now, sojourn, behind, packet.ecn);
            let at_threshold = self.codel.marks_at_threshold(sojourn, packet.ecn);
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
        self.state.flows[at as usize].law.emptied();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PacketId;

    fn packet(id: u64, flow: u64) -> Packet {
        Packet {
            id: PacketId(id),
            flow: FlowId(flow),
            len: Bytes::new(1500),
            ecn: Ecn::NotEct,
            dscp: 0,
            enqueued: Time::ZERO,
        }
    }

    #[test]
    fn a_packet_of_a_new_flow_passes_a_standing_queue() {
        let (mut q, mut fates) = (FqCodel::new(Params::default(), 1), Fates::default());
        for id in 0..100 {
            q.enqueue(Time::ZERO, packet(id, 1), &mut fates);
        }
        // The first flow uses up its quantum and becomes an old one.
        for id in 0..2 {
            assert_eq!(q.dequeue(Time::ZERO, &mut fates).unwrap().id, PacketId(id));
        }
        q.enqueue(Time::ZERO, packet(100, 2), &mut fates);
        assert_eq!(q.dequeue(Time::ZERO, &mut fates).unwrap().id, PacketId(100));
    }

    #[test]
    fn greedy_flows_share_equally_by_bytes() {
        let (mut q, mut fates) = (FqCodel::new(Params::default(), 1), Fates::default());
        for id in 0..3_000 {
            // Flow 1 sends full packets; flow 2 twice as many of half the size.
            let flow = if id % 3 == 0 { 1 } else { 2 };
            let len = Bytes::new(if flow == 1 { 1500 } else { 750 });
            q.enqueue(
                Time::ZERO,
                Packet {
                    len,
                    ..packet(id, flow)
                },
                &mut fates,
            );
        }
        let mut bytes = [0u64; 2];
        for _ in 0..900 {
            let p = q.dequeue(Time::ZERO, &mut fates).unwrap();
            bytes[p.flow.0 as usize - 1] += p.len.get();
        }
        let difference = bytes[0].abs_diff(bytes[1]);
        assert!(difference <= 2 * 1514 + 1500, "{bytes:?}");
    }

    #[test]
    fn the_fattest_flow_makes_room_and_the_thin_one_stays() {
        let params = Params {
            limit: 100,
            ..Params::default()
        };
        let (mut q, mut fates) = (FqCodel::new(params, 1), Fates::default());
        for id in 0..100 {
            q.enqueue(Time::ZERO, packet(id, 1), &mut fates);
        }
        q.enqueue(Time::ZERO, packet(100, 2), &mut fates);
        // Half of 100 packets, from the head; the reason is the arrival of another flow.
        assert_eq!(fates.list.len(), 50);
        for (i, (p, fate)) in fates.list.iter().enumerate() {
            assert_eq!(
                (p.id.0, *fate),
                (i as u64, super::super::Fate::Dropped(Reason::FlowEvicted))
            );
        }
        assert_eq!(q.backlog().packets, 51);
    }

    #[test]
    fn flows_spread_over_the_queues_and_differently_in_each_run() {
        let queues = |perturbation| {
            let q = FqCodel::new(Params::default(), perturbation);
            (0..1000)
                .map(|flow| q.classify(FlowId(flow)))
                .collect::<Vec<_>>()
        };
        let (a, b) = (queues(1), queues(2));
        assert_ne!(a, b);
        let mut used = a.clone();
        used.sort_unstable();
        used.dedup();
        // 1000 flows hashed to 1024 queues use 1024 (1 - exp(-1000/1024)) = 638, ± 16.
        assert!((590..690).contains(&used.len()), "{}", used.len());
        assert!(a.iter().all(|q| *q < 1024));
    }
}
