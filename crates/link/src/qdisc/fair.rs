//! Flow queues served round-robin: shared by disciplines with an AQM for each flow.
//!
//! The order is that of RFC 8290 sections 4.1 and 4.2. New flows come first. Each queue sends while its deficit is
//! above zero. A new queue that runs empty goes through the old ones once.

use super::Backlog;
use super::store::Store;
use base::{Bytes, FlowId, Packet, Time};
use std::collections::VecDeque;

/// Place of a queue in the two lists of RFC 8290 section 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Neither,
    New,
    Old,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    store: Store,
    place: Place,
    /// Bytes it may still send in this round; negative after a packet larger than the rest.
    deficit: i64,
    /// Flow that the queue belongs to, if flows are kept apart.
    tag: Option<FlowId>,
}

#[derive(Clone, Debug)]
pub(super) struct FairQueues {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
    perturbation: u64,
    backlog: Backlog,
}

/// Number of queues per set in which a flow may be placed, if flows are kept apart.
const WAYS: usize = 8;

/// Spreads flows evenly over `queues`; the perturbation decides which flows share one. The finalizer of SplitMix64
/// mixes the bits, the product scales them.
pub(super) fn spread(flow: FlowId, perturbation: u64, queues: u32) -> u32 {
    let mut x = flow.0 ^ perturbation;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((u128::from(x) * u128::from(queues)) >> 64) as u32
}

impl FairQueues {
    /// Creates empty queues, whose flows `perturbation` distributes.
    pub fn new(queues: u32, quantum: Bytes, perturbation: u64) -> FairQueues {
        FairQueues {
            flows: vec![Flow::default(); queues as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: quantum.get() as i64,
            perturbation,
            backlog: Backlog::default(),
        }
    }

    /// Returns the queue of a flow by its hash alone.
    pub fn hashed(&self, flow: FlowId) -> usize {
        spread(flow, self.perturbation, self.flows.len() as u32) as usize
    }

    /// Returns the queue of a flow within its set of eight: its own, or a free one, or the one that its hash names,
    /// shared.
    pub fn set_associative(&mut self, flow: FlowId) -> usize {
        let hashed = self.hashed(flow);
        let start = hashed - hashed % WAYS;
        let set = start..(start + WAYS).min(self.flows.len());
        if let Some(own) = set.clone().find(|i| self.flows[*i].tag == Some(flow)) {
            return own;
        }
        let is_free = |i: &usize| self.flows[*i].place == Place::Neither;
        // The search starts at the hashed queue, so that free queues of a set are used evenly.
        let free = (hashed..set.end).chain(set.start..hashed).find(is_free);
        let at = free.unwrap_or(hashed);
        self.flows[at].tag = Some(flow);
        at
    }

    /// Appends a packet to a queue.
    pub fn push(&mut self, at: usize, now: Time, packet: Packet) {
        self.backlog.bytes += packet.len;
        self.backlog.packets += 1;
        let flow = &mut self.flows[at];
        flow.store.push(now, packet);
        if flow.place == Place::Neither {
            flow.place = Place::New;
            flow.deficit = self.quantum;
            self.new.push_back(at as u32);
        }
    }

    /// Removes the head packet of one queue.
    pub fn pop(&mut self, at: usize) -> Option<Packet> {
        let packet = self.flows[at].store.pop()?;
        self.backlog.bytes -= packet.len;
        self.backlog.packets -= 1;
        Some(packet)
    }

    /// Returns the queue to serve next; it may have run empty, see [`FairQueues::ran_empty`].
    pub fn turn(&mut self) -> Option<usize> {
        loop {
            let at = *self.new.front().or_else(|| self.old.front())?;
            let flow = &mut self.flows[at as usize];
            if flow.deficit > 0 {
                return Some(at as usize);
            }
            flow.deficit += self.quantum;
            self.leave(at);
            self.flows[at as usize].place = Place::Old;
            self.old.push_back(at);
        }
    }

    /// Records that the queue to serve has nothing to send.
    pub fn ran_empty(&mut self, at: usize) {
        let was_new = self.flows[at].place == Place::New;
        self.leave(at as u32);
        self.flows[at].place = if was_new {
            self.old.push_back(at as u32);
            Place::Old
        } else {
            Place::Neither
        };
    }

    /// Charges the bytes of a packet that left a queue.
    pub fn sent(&mut self, at: usize, len: Bytes) {
        self.flows[at].deficit -= len.get() as i64;
    }

    /// Bytes in one queue.
    pub fn flow_bytes(&self, at: usize) -> Bytes {
        self.flows[at].store.bytes()
    }

    /// Returns the queue with the most bytes.
    pub fn fattest(&self) -> usize {
        let mut fattest = 0;
        for (i, flow) in self.flows.iter().enumerate() {
            if flow.store.bytes() > self.flows[fattest].store.bytes() {
                fattest = i;
            }
        }
        fattest
    }

    /// Backlog in bytes and packets.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Removes the queue to serve from the front of its list.
    fn leave(&mut self, at: u32) {
        if self.flows[at as usize].place == Place::New {
            self.new.pop_front();
        } else {
            self.old.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_flows_of_one_set_get_a_queue_each_and_the_ninth_shares() {
        let mut queues = FairQueues::new(8, Bytes::new(1514), 1);
        let packet = |flow| Packet {
            id: base::PacketId(flow),
            flow: FlowId(flow),
            len: Bytes::new(100),
            ecn: base::Ecn::NotEct,
            dscp: 0,
            enqueued: Time::ZERO,
        };
        let mut taken = Vec::new();
        for flow in 0..9 {
            let at = queues.set_associative(FlowId(flow));
            queues.push(at, Time::ZERO, packet(flow));
            taken.push(at);
        }
        let shared = taken[8];
        taken.truncate(8);
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(shared, queues.hashed(FlowId(8)));
    }
}
