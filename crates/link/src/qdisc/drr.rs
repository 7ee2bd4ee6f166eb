//! Weighted sharing of the link by two classes, round-robin by bytes. Packets whose DSCP asks for low delay have a
//! short queue, all others another discipline. Neither class can starve the other.
//!
//! **Source**: Shreedhar, Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", IEEE/ACM
//! Transactions on Networking 4(3), 1996, section 3; the field as in RFC 2474, "Definition of the
//! Differentiated Services Field (DS Field) in the IPv4 and IPv6 Headers" (1998), section 3.
//!
//! **Deviations**: a class sends while its deficit is above zero and may go below it, as the queues of RFC 8290 do. The
//! paper compares the deficit with the head packet, but with an AQM the next packet is known only once it has left. The
//! shares over time are the same. A class that was empty starts its turn, with a full quantum, as soon as the other's
//! packet has left.
//!
//! **Units**: quanta and deficits in bytes of whole IP packets; DSCP as the six bits' number.
//!
//! **Validated against**: `reference/drr.py` by the traces in `tests/golden/drr/`.

use super::prio::Rest;
use super::registry::AnyQdisc;
use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason};
use base::spec::params;
use base::{Bytes, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "drr": "two classes by DSCP that take turns by bytes, the first in a short queue, the rest as another discipline", [
        "Shreedhar, Varghese, Efficient Fair Queuing Using Deficit Round-Robin, 1996",
    ] {
        /// lowest DSCP of the first class; 46 is expedited forwarding
        from_dscp: u8 = "46" ["0".."63"], "RFC 3246 section 2.7";
        /// most packets queued in the first class
        first_limit: u64 as Packets = "50" ["1".."100000000"], "half a second of a call";
        /// bytes that the first class may send per round
        first_quantum: Bytes = "1514 B" ["64 B".."1 MB"], "Shreedhar 1996 section 3";
        /// bytes that all other packets may send per round
        quantum: Bytes = "1514 B" ["64 B".."1 MB"], "Shreedhar 1996 section 3";
        /// discipline for all others, with its defaults
        rest: Rest = "pie", "RFC 8033";
        /// most other packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux pie";
    }
}

/// Scheduler's state, without the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrLaw {
    quanta: [i64; 2],
    deficits: [i64; 2],
    turn: usize,
}

impl DrrLaw {
    fn new(params: &Params) -> DrrLaw {
        let quanta = [params.first_quantum, params.quantum].map(|q| q.get() as i64);
        DrrLaw {
            quanta,
            deficits: quanta,
            turn: 0,
        }
    }

    /// Returns the class that sends next, among those with packets; there must be one.
    fn next(&mut self, waiting: [bool; 2]) -> usize {
        // Section 3: the deficit of an empty queue is reset.
        for class in [0, 1] {
            if !waiting[class] {
                self.deficits[class] = self.quanta[class];
            }
        }
        while !waiting[self.turn] || self.deficits[self.turn] <= 0 {
            if waiting[self.turn] {
                self.deficits[self.turn] += self.quanta[self.turn];
            }
            self.turn = 1 - self.turn;
        }
        self.turn
    }

    fn sent(&mut self, class: usize, len: Bytes) {
        self.deficits[class] -= len.get() as i64;
    }
}

struct State {
    first: Store,
    rest: AnyQdisc,
    law: DrrLaw,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets of the first class that were refused.
    pub overlimits: u64,
}

/// Two classes that take turns by bytes.
pub struct Drr {
    params: Params,
    state: State,
    stats: Stats,
}

impl Drr {
    /// Creates the discipline. `rest` serves all packets outside the first class. It must not hold packets back.
    pub fn new(params: Params, rest: AnyQdisc) -> Drr {
        Drr {
            params,
            state: State {
                first: Store::default(),
                rest,
                law: DrrLaw::new(&params),
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Drr {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        let State { first, rest, .. } = &mut self.state;
        if packet.dscp < self.params.from_dscp {
            rest.enqueue(now, packet, fates);
        } else if first.len() >= self.params.first_limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
        } else {
            first.push(now, packet);
        }
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        let State { first, rest, law } = &mut self.state;
        loop {
            let waiting = [!first.is_empty(), rest.backlog().packets > 0];
            if waiting == [false; 2] {
                return None;
            }
            let class = law.next(waiting);
            let packet = if class == 0 {
                first.pop()
            } else {
                rest.dequeue(now, fates)
            };
            // The other discipline may have dropped all its packets.
            if let Some(packet) = packet {
                law.sent(class, packet.len);
                return Some(packet);
            }
            if rest.backlog().packets > 0 {
                return None;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        let (first, rest) = (self.state.first.backlog(), self.state.rest.backlog());
        Backlog {
            bytes: first.bytes + rest.bytes,
            packets: first.packets + rest.packets,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.state.rest.next_wakeup()
    }

    fn probability(&self) -> Option<f64> {
        self.state.rest.probability()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::fifo::{self, Fifo};
    use base::{Ecn, FlowId, PacketId};

    #[test]
    fn greedy_classes_share_as_their_quanta_are_whatever_their_packets() {
        let params = Params {
            first_limit: 10_000,
            first_quantum: Bytes::new(1000),
            quantum: Bytes::new(3000),
            ..Params::default()
        };
        let rest = Fifo::new(fifo::Params {
            packets: None,
            bytes: None,
        });
        let (mut q, mut fates) = (Drr::new(params, AnyQdisc::Fifo(rest)), Fates::default());
        for id in 0..20_000 {
            let first = id % 2 == 0;
            let packet = Packet {
                id: PacketId(id),
                flow: FlowId(id % 2),
                len: Bytes::new(if first { 200 } else { 1500 }),
                ecn: Ecn::NotEct,
                dscp: if first { 46 } else { 0 },
                enqueued: Time::ZERO,
            };
            q.enqueue(Time::ZERO, packet, &mut fates);
        }
        let mut bytes = [0u64; 2];
        for _ in 0..7_000 {
            let p = q.dequeue(Time::ZERO, &mut fates).unwrap();
            bytes[usize::from(p.dscp == 0)] += p.len.get();
        }
        // One round of each is 1000 and 3000 bytes.
        assert!(bytes[0].abs_diff(bytes[1] / 3) <= 2_000, "{bytes:?}");
    }
}
