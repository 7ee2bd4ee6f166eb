//! First in, first out with a step: a packet that finds more than a threshold of packets waiting is marked. Nothing is
//! dropped before the queue is full, so that packets that cannot be marked meet a plain queue.
//!
//! **Source**: RFC 8257, "Data Center TCP (DCTCP): TCP Congestion Control for Data Centers" (Bensley, Thaler,
//! Balasubramanian, Eggert, Judd, 2017), section 3.1; M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section
//! 3.1: "an arriving packet is marked with the CE codepoint if the queue occupancy is greater than K upon its arrival".
//!
//! **Deviations**: the packet in transmission has left the queue and does not count.
//!
//! **Units**: whole packets.
//!
//! **Validated against**: `reference/threshold.py`, by the traces in `tests/golden/threshold/`.

use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason};
use base::spec::params;
use base::{Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "threshold": "first in, first out; marks arrivals above a length, as switches for DCTCP do", [
        "RFC 8257, Data Center TCP (DCTCP): TCP Congestion Control for Data Centers, section 3.1",
    ] {
        /// length above which an arriving packet is marked; 65 suits 10 Gbit/s, 20 suits 1 Gbit/s
        mark: u64 as Packets = "65" ["0".."100000000"], "Alizadeh 2010 section 3.5";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux pfifo";
    }
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because the queue was full.
    pub overlimits: u64,
    /// Packets marked with CE.
    pub marks: u64,
}

/// Queue that marks above a length.
#[derive(Clone, Debug)]
pub struct Threshold {
    params: Params,
    queue: Store,
    stats: Stats,
}

impl Threshold {
    /// Creates it with its parameters.
    pub fn new(params: Params) -> Threshold {
        Threshold {
            params,
            queue: Store::default(),
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Threshold {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let length = self.queue.backlog().packets;
        if length >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        if length > self.params.mark && packet.ecn.is_capable() {
            packet.ecn = Ecn::Ce;
            self.stats.marks += 1;
            fates.marked(packet, Reason::TargetExceeded);
        }
        self.queue.push(now, packet);
    }

    fn dequeue(&mut self, _now: Time, _fates: &mut Fates) -> Option<Packet> {
        self.queue.pop()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}
