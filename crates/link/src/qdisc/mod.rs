//! Queue disciplines, each in its own file, all in one [`registry`].

pub mod blue;
pub mod cake;
pub mod check;
pub mod codel;
pub mod drr;
pub mod dualpi2;
mod fair;
pub mod fifo;
pub mod fq_codel;
pub mod fq_pie;
pub mod pi;
pub mod pie;
pub mod prio;
pub mod red;
pub mod registry;
pub mod sfb;
pub mod sred;
mod store;
pub mod tbf;
pub mod threshold;
mod ticks;

use base::{Bytes, Packet, Time};

/// Reason for a drop or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Queue was full.
    Overlimit,
    /// Delay target of the AQM was exceeded.
    TargetExceeded,
    /// Random drop before the queue was full.
    EarlyDrop,
    /// Packet of another flow was evicted to make room.
    FlowEvicted,
    /// Loss on the link, after the packet left the queue.
    LineLoss,
    /// Packet exceeded the rate of a policer in front of the queue.
    Policed,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 6] = [
        Reason::Overlimit,
        Reason::TargetExceeded,
        Reason::EarlyDrop,
        Reason::FlowEvicted,
        Reason::LineLoss,
        Reason::Policed,
    ];

    /// Word in recordings.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Overlimit => "overlimit",
            Reason::TargetExceeded => "target_exceeded",
            Reason::EarlyDrop => "early_drop",
            Reason::FlowEvicted => "flow_evicted",
            Reason::LineLoss => "line_loss",
            Reason::Policed => "policed",
        }
    }
}

/// Verdict of a law on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Forward,
    Mark,
    Drop,
}

/// Fate of a packet that did not simply pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Packet refused on arrival, or removed from the queue.
    Dropped(Reason),
    /// Packet marked with ECN CE, on arrival or on departure.
    Marked(Reason),
}

/// Records the fate of every dropped or marked packet.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    /// Packets with their fates, in order.
    pub list: Vec<(Packet, Fate)>,
}

impl Fates {
    /// Adds a dropped packet.
    pub fn dropped(&mut self, packet: Packet, why: Reason) {
        self.list.push((packet, Fate::Dropped(why)));
    }
    /// Adds a marked packet.
    pub fn marked(&mut self, packet: Packet, why: Reason) {
        self.list.push((packet, Fate::Marked(why)));
    }
}

/// Limits of a discipline's backlog; `None` if it does not count that unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Greatest number of packets, if limited.
    pub packets: Option<u64>,
    /// Greatest number of bytes, if limited.
    pub bytes: Option<Bytes>,
}

impl Limits {
    pub(crate) fn packets(packets: u64) -> Limits {
        Limits {
            packets: Some(packets),
            bytes: None,
        }
    }

    pub(crate) fn both(packets: u64, bytes: Bytes) -> Limits {
        Limits {
            packets: Some(packets),
            bytes: Some(bytes),
        }
    }
}

/// Contents of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes that wait.
    pub bytes: Bytes,
    /// Packets that wait.
    pub packets: u64,
}

/// Queue discipline, called with the current time.
pub trait Qdisc {
    /// Takes a packet; `fates` gets those that it drops or marks.
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates);
    /// Returns the packet to transmit next, if there is one.
    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet>;
    /// Returns packets and bytes queued now.
    fn backlog(&self) -> Backlog;
    /// Returns the time at which the discipline needs a call even without arrivals; `None` for most.
    fn next_wakeup(&self) -> Option<Time>;
    /// Returns the current drop or mark probability, if the law has one.
    fn probability(&self) -> Option<f64> {
        None
    }
}
