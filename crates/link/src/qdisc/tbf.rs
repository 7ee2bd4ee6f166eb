//! Token bucket: packets leave at the bucket's rate, slower than the link, with bursts up to the bucket's size. It
//! moves the bottleneck to a place where the queue can be managed.
//!
//! **Source**: RFC 2697, "A Single Rate Three Color Marker" (Heinanen, Guerin, 1999), section 3, for the
//! bucket; delaying instead of colouring is shaping as in RFC 2475, "An Architecture for Differentiated
//! Services" (1998), section 2.3.3.3.
//!
//! **Deviations**: a packet larger than the bucket leaves when the bucket is full and owes the rest,
//! instead of never.
//!
//! **Units**: tokens in billionths of a bit, so that rate times nanoseconds is exact.
//!
//! **Validated against**: `reference/tbf.py` by the traces in `tests/golden/tbf/`.

use super::store::Store;
use super::{Backlog, Fates, Qdisc, Reason};
use crate::bucket::Bucket;
use base::spec::params;
use base::{BitsPerSec, Bytes, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "tbf": "token bucket: lets packets leave at a rate of its own, with bursts as large as the bucket", [
        "RFC 2697, A Single Rate Three Color Marker",
        "RFC 2475, An Architecture for Differentiated Services",
    ] {
        /// rate of whole IP packets
        rate: BitsPerSec = "10 Mbit/s" ["1 kbit/s".."100000 Gbit/s"], "ours";
        /// size of the bucket
        burst: Bytes = "3028 B" ["1 B".."1 GB"], "RFC 2697 section 3";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux pfifo";
    }
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    bucket: Bucket,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because the queue was full.
    pub overlimits: u64,
}

/// Queue behind a token bucket.
#[derive(Clone, Debug)]
pub struct Tbf {
    params: Params,
    state: State,
    stats: Stats,
}

impl Tbf {
    /// Creates it with its parameters.
    pub fn new(params: Params) -> Tbf {
        Tbf {
            params,
            state: State {
                queue: Store::default(),
                bucket: Bucket::new(params.rate, params.burst),
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        self.state.bucket.fill(now);
        if self.state.queue.len() >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        self.state.queue.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _: &mut Fates) -> Option<Packet> {
        let State { queue, bucket } = &mut self.state;
        bucket.fill(now);
        if bucket.ready(queue.front()?.len) > now {
            return None;
        }
        let packet = queue.pop()?;
        bucket.spend(packet.len);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.state.queue.backlog()
    }

    /// Returns the time at which the head packet has its tokens.
    fn next_wakeup(&self) -> Option<Time> {
        let State { queue, bucket } = &self.state;
        queue.front().map(|head| bucket.ready(head.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Ecn, FlowId, PacketId};

    #[test]
    fn after_the_burst_packets_leave_at_the_rate_to_the_nanosecond() {
        let mut q = Tbf::new(Params::default());
        let mut fates = Fates::default();
        for id in 0..5 {
            let packet = Packet {
                id: PacketId(id),
                flow: FlowId(1),
                len: Bytes::new(1500),
                ecn: Ecn::NotEct,
                dscp: 0,
                enqueued: Time::ZERO,
            };
            q.enqueue(Time::ZERO, packet, &mut fates);
        }
        let mut left = Vec::new();
        while let Some(t) = q.next_wakeup() {
            assert!(q.dequeue(t, &mut fates).is_some());
            left.push(t.as_nanos());
        }
        // The bucket of 3028 bytes holds two packets; the third lacks 1472 bytes, 1.1776 ms; then 1.2 ms each.
        assert_eq!(left, [0, 0, 1_177_600, 2_377_600, 3_577_600]);
    }
}
