//! Strict priority: packets whose DSCP asks for low delay have a short queue of their own and always leave first. All
//! others have another discipline, as on a slower link.
//!
//! **Source**: RFC 3246, "An Expedited Forwarding PHB (Per-Hop Behavior)" (2002), section 2.2; the field as in
//! RFC 2474, "Definition of the Differentiated Services Field (DS Field) in the IPv4 and IPv6 Headers" (1998),
//! section 3; on the last mile as proposed by the thesis (6.3.1).
//!
//! **Deviations**: the rate of the first class is not policed; RFC 3246 section 2.2 expects that of the network's edge.
//! A sender that marks all packets gets the whole link. Use `drr` if senders cannot be trusted.
//!
//! **Units**: packets; DSCP as the six bits' number.
//!
//! **Validated against**: `reference/prio.py` by the traces in `tests/golden/prio/`.

use super::registry::AnyQdisc;
use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason};
use base::spec::{choices, params};
use base::{Packet, Time};

choices! {
    /// Discipline for packets outside the first class.
    pub enum Rest {
        Pie = "pie",
        Fifo = "fifo",
        Codel = "codel",
        FqCodel = "fq_codel",
        Red = "red",
        DualPi2 = "dualpi2",
    }
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "prio": "strict priority: packets that ask for low delay by their DSCP go first, the rest as another discipline", [
        "RFC 3246, An Expedited Forwarding PHB (Per-Hop Behavior)",
    ] {
        /// lowest DSCP of the first class; 46 is expedited forwarding
        from_dscp: u8 = "46" ["0".."63"], "RFC 3246 section 2.7";
        /// most packets queued in the first class
        first_limit: u64 as Packets = "50" ["1".."100000000"], "half a second of a call";
        /// discipline for all others, with its defaults
        rest: Rest = "pie", "RFC 8033";
        /// most other packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux pie";
    }
}

struct State {
    first: Store,
    rest: AnyQdisc,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets of the first class that were refused.
    pub overlimits: u64,
}

/// Two classes of strict priority.
pub struct Prio {
    params: Params,
    state: State,
    stats: Stats,
}

impl Prio {
    /// Creates the discipline; `rest` serves all packets outside the first class.
    pub fn new(params: Params, rest: AnyQdisc) -> Prio {
        Prio {
            params,
            state: State {
                first: Store::default(),
                rest,
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Prio {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        let State { first, rest } = &mut self.state;
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
        let State { first, rest } = &mut self.state;
        first.pop().or_else(|| rest.dequeue(now, fates))
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
