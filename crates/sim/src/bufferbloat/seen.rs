//! Link's own view of a run: the truth that the recording does not contain.

use base::FlowId;
use base::record::Direction;
use link::LinkStats;
use link::qdisc::Reason;

/// Owner of a packet that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Probe,
    Load,
}

/// A packet that left the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time of entry into the queue, ns since the start.
    pub t_ns: u64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Kind of the packet.
    pub who: Who,
    /// Sojourn time in the queue, ns.
    pub sojourn_ns: u64,
    /// Time from entry into the queue to the link's far end, ns.
    pub passage_ns: u64,
}

/// A packet that the queue marked with CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Time of entry into the queue, ns since the start.
    pub t_ns: u64,
    /// Flow of the packet.
    pub flow: FlowId,
    /// Sojourn time in the queue, ns.
    pub sojourn_ns: u64,
}

/// Link's view of a phase. Arrays are by direction: up, down.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseSeen {
    /// Name of the phase.
    pub name: &'static str,
    /// Start, end of the warm-up and end; ns since the start of the run.
    pub from_ns: u64,
    /// End of the warm-up, ns.
    pub warm_ns: u64,
    /// End of the phase, ns.
    pub to_ns: u64,
    /// Packets dropped in the whole phase, in the order of [`Reason::ALL`].
    pub dropped: [[u64; Reason::ALL.len()]; 2],
    /// Packets marked in the whole phase.
    pub marked: [u64; 2],
    /// Bytes delivered in the whole phase, and cross traffic among the bytes offered.
    pub delivered_bytes: [u64; 2],
    /// Bytes of cross traffic, up and down.
    pub cross_bytes: [u64; 2],
    /// Share of the busy time in which the receiver's window held a flow back; largest over the flows.
    pub held_back: [f64; 2],
}

/// Link's view of the whole test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Phases in order.
    pub phases: Vec<PhaseSeen>,
    /// Every probe, and at most one packet of the load per millisecond.
    pub waits: Vec<Wait>,
    /// Every mark of both directions, if [`super::Plan::logs_marks`] asks for them.
    pub marks: Vec<Mark>,
}

impl Seen {
    /// Phase with this name.
    pub fn phase(&self, name: &str) -> Option<&PhaseSeen> {
        self.phases.iter().find(|p| p.name == name)
    }

    /// Packets of `who` that entered the queue of `direction` within a time range.
    pub fn waits(
        &self,
        direction: Direction,
        who: Who,
        range: std::ops::Range<u64>,
    ) -> impl Iterator<Item = &Wait> {
        self.waits
            .iter()
            .filter(move |w| w.direction == direction && w.who == who && range.contains(&w.t_ns))
    }
}

/// Counters of both directions at one time.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    /// Counters of the link, up and down.
    pub stats: [LinkStats; 2],
    /// Bytes of cross traffic, up and down.
    pub cross: [u64; 2],
}

impl Counters {
    /// Phase between these two readings.
    pub fn phase(before: &Counters, after: &Counters) -> PhaseSeen {
        let each = |f: fn(&LinkStats) -> u64| {
            [0, 1].map(|d: usize| f(&after.stats[d]) - f(&before.stats[d]))
        };
        PhaseSeen {
            name: "",
            from_ns: 0,
            warm_ns: 0,
            to_ns: 0,
            dropped: [0, 1].map(|d: usize| {
                Reason::ALL.map(|why| {
                    after.stats[d].dropped_for(why).packets
                        - before.stats[d].dropped_for(why).packets
                })
            }),
            marked: each(|s| s.marked.packets),
            delivered_bytes: each(|s| s.delivered.bytes.get()),
            cross_bytes: [0, 1].map(|d: usize| after.cross[d] - before.cross[d]),
            held_back: [0.0; 2],
        }
    }
}
