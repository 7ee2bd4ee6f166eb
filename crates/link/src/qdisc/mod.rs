//! Queue disciplines: each in its own file, all in one [`registry`].

pub mod blue;
pub mod cake;
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
mod store;
pub mod tbf;
mod ticks;

use base::{Bytes, Packet, Time};

/// Why a packet did not simply pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The queue was full.
    Overlimit,
    /// The AQM's delay target was exceeded.
    TargetExceeded,
    /// Dropped by chance before the queue was full.
    EarlyDrop,
    /// Another flow's packet was taken out to make room.
    FlowEvicted,
    /// Lost on the line, after it left the queue.
    LineLoss,
    /// Above the rate of a policer, in front of the queue.
    Policed,
}

impl Reason {
    pub const ALL: [Reason; 6] = [
        Reason::Overlimit,
        Reason::TargetExceeded,
        Reason::EarlyDrop,
        Reason::FlowEvicted,
        Reason::LineLoss,
        Reason::Policed,
    ];

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

/// What a law says of the packet that it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Forward,
    Mark,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Refused on arrival, or taken out of the queue, and gone.
    Dropped(Reason),
    /// Carries ECN CE from here on; it was marked as it came in, or as it left.
    Marked(Reason),
}

/// Records what became of every packet that did not simply pass.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    pub list: Vec<(Packet, Fate)>,
}

impl Fates {
    pub fn dropped(&mut self, packet: Packet, why: Reason) {
        self.list.push((packet, Fate::Dropped(why)));
    }
    pub fn marked(&mut self, packet: Packet, why: Reason) {
        self.list.push((packet, Fate::Marked(why)));
    }
}

/// The most that may wait in a discipline; `None` where it does not count that way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub packets: Option<u64>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub bytes: Bytes,
    pub packets: u64,
}

/// A queue discipline: told the time, asked for packets.
pub trait Qdisc {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates);
    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet>;
    fn backlog(&self) -> Backlog;
    /// When the discipline wants to be asked again though nothing arrives; `None` for most.
    fn next_wakeup(&self) -> Option<Time>;
    /// The probability with which packets are dropped or marked now, where the law has one.
    fn probability(&self) -> Option<f64> {
        None
    }
}
