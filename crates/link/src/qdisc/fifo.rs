//! FIFO with a limit in packets, in bytes, or in both. A packet that does not fit is refused on arrival (drop-tail);
//! queued packets stay.
//!
//! **Source**: RFC 7567, "IETF Recommendations Regarding Active Queue Management" (Baker, Fairhurst,
//! 2015), section 1, names it tail drop; the default limit is that of the Linux kernel's `pfifo`.
//!
//! **Deviations**: none.
//!
//! **Units**: limits in whole packets and in bytes of whole IP packets. The packet in transmission has left the queue
//! and does not count: a limit of 37 625 bytes holds 25 packets of 1500 bytes, and a burst of 26 passes an idle link
//! without loss.
//!
//! **Validated against**: conservation and limits in `tests/properties.rs`; a byte limit takes a packet
//! that fills it exactly, as Linux `bfifo` does.

use super::{Backlog, Fates, Qdisc, Reason};
use base::spec::params;
use base::{Bytes, Packet, Time};
use std::collections::VecDeque;

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "fifo": "first in, first out; refuses what does not fit (drop-tail)", [
        "RFC 7567, IETF Recommendations Regarding Active Queue Management, section 1",
    ] {
        /// most packets queued; 1000 if neither packets nor bytes is given
        packets: Option<u64> as Packets ["1".."100000000"], "Linux pfifo: 1000";
        /// most bytes queued; no limit in bytes if not given
        bytes: Option<Bytes> ["1 B".."1000 GB"], "RFC 7567 section 1";
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    queue: VecDeque<Packet>,
    bytes: Bytes,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because they did not fit.
    pub overlimits: u64,
}

/// Queue in order of arrival.
#[derive(Clone, Debug)]
pub struct Fifo {
    params: Params,
    state: State,
    stats: Stats,
}

impl Params {
    /// Adds a limit of 1000 packets if none was given.
    pub fn limited(mut self) -> Params {
        if self.bytes.is_none() {
            self.packets.get_or_insert(1000);
        }
        self
    }
}

impl Fifo {
    /// Creates it with its parameters.
    pub fn new(params: Params) -> Fifo {
        Fifo {
            params,
            state: State::default(),
            stats: Stats::default(),
        }
    }
    /// Parameters of the queue.
    pub fn params(&self) -> Params {
        self.params
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Fifo {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let full = self
            .params
            .packets
            .is_some_and(|limit| self.state.queue.len() as u64 >= limit)
            || self
                .params
                .bytes
                .is_some_and(|limit| self.state.bytes + packet.len > limit);
        if full {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        packet.enqueued = now;
        self.state.bytes += packet.len;
        self.state.queue.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _fates: &mut Fates) -> Option<Packet> {
        let packet = self.state.queue.pop_front()?;
        self.state.bytes -= packet.len;
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.state.bytes,
            packets: self.state.queue.len() as u64,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}
