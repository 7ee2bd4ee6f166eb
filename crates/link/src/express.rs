//! The commonest link at a fraction of the cost: first in, first out, a fixed rate, and a line that does
//! nothing but delay. There, when a packet leaves is known when it arrives, so it is put in one row at
//! once with its times, instead of passing a queue, a transmitter and a line.
//!
//! Nothing can be told from outside: what comes out, when, what is refused and every count are as
//! without it (`tests/properties.rs` compares them).

use crate::line::{Delivery, LinkStats, Tally};
use crate::qdisc::{Backlog, Fates, Reason, fifo};
use crate::rate::Serializer;
use base::{Bytes, Duration, Packet, Time};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: Packet,
    /// When its transmission begins.
    start: Time,
    /// When it comes out.
    at: Time,
}

#[derive(Debug)]
pub(crate) struct Express {
    most_packets: usize,
    most_bytes: u64,
    delay: Duration,
    serializer: Serializer,
    /// All that is inside, in order.
    inside: VecDeque<Entry>,
    /// So many of them have left the queue.
    ahead: usize,
    /// Bytes of all that is inside, and of those that wait.
    bytes: u64,
    waiting_bytes: u64,
    /// When the transmitter is done with the last of them.
    free: Time,
    /// The latest time at which something happened at the queue.
    told: Time,
    offered: Tally,
    delivered: Tally,
    refused: Tally,
    last_sojourn: Option<Duration>,
}

impl Express {
    pub(crate) fn new(fifo: fifo::Params, serializer: Serializer, delay: Duration) -> Express {
        let most = |n: Option<u64>| n.unwrap_or(u64::MAX);
        Express {
            most_packets: usize::try_from(most(fifo.packets)).unwrap_or(usize::MAX),
            most_bytes: most(fifo.bytes.map(Bytes::get)),
            delay,
            serializer,
            inside: VecDeque::new(),
            ahead: 0,
            bytes: 0,
            waiting_bytes: 0,
            free: Time::ZERO,
            told: Time::ZERO,
            offered: Tally::default(),
            delivered: Tally::default(),
            refused: Tally::default(),
            last_sojourn: None,
        }
    }

    /// Transmissions that have begun by now have left the queue.
    #[inline]
    fn advance(&mut self, now: Time) {
        while let Some(entry) = self.inside.get(self.ahead) {
            if entry.start > now {
                return;
            }
            self.told = entry.start;
            self.last_sojourn = Some(entry.start.saturating_since(entry.packet.enqueued));
            self.waiting_bytes -= entry.packet.len.get();
            self.ahead += 1;
        }
        if self.free <= now {
            self.told = self.told.max(self.free);
        }
    }

    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        self.advance(now);
        self.told = self.told.max(now);
        let len = packet.len.get();
        self.offered.add(packet.len);
        if self.inside.len() - self.ahead >= self.most_packets
            || self.waiting_bytes.saturating_add(len) > self.most_bytes
        {
            self.refused.add(packet.len);
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        packet.enqueued = self.told;
        let start = self.told.max(self.free);
        self.free = self.serializer.finish(start, packet.len);
        self.bytes += len;
        let idle = start == self.told && self.inside.len() == self.ahead;
        if idle {
            self.ahead += 1;
            self.last_sojourn = Some(Duration::ZERO);
        } else {
            self.waiting_bytes += len;
        }
        self.inside.push_back(Entry {
            packet,
            start,
            at: self.free + self.delay,
        });
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Time) -> Option<Delivery> {
        self.advance(now);
        let entry = self.inside.front().filter(|e| e.at <= now)?;
        let delivery = Delivery {
            packet: entry.packet,
            at: entry.at,
            sojourn: entry.start.saturating_since(entry.packet.enqueued),
            again: false,
        };
        self.inside.pop_front();
        self.ahead -= 1;
        self.bytes -= delivery.packet.len.get();
        self.delivered.add(delivery.packet.len);
        Some(delivery)
    }

    #[inline]
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        self.inside.front().map(|e| e.at)
    }

    pub(crate) fn stats(&self) -> LinkStats {
        let mut stats = LinkStats {
            offered: self.offered,
            delivered: self.delivered,
            backlog: Backlog {
                bytes: Bytes::new(self.waiting_bytes),
                packets: (self.inside.len() - self.ahead) as u64,
            },
            on_line: Tally {
                packets: self.ahead as u64,
                bytes: Bytes::new(self.bytes - self.waiting_bytes),
            },
            last_sojourn: self.last_sojourn,
            ..LinkStats::default()
        };
        stats.dropped[Reason::Overlimit as usize] = self.refused;
        stats
    }
}
