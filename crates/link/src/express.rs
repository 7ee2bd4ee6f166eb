//! The commonest link at a fraction of the cost: first in, first out, a fixed rate, and a line that does
//! nothing but delay. There, when a packet comes out is known when it arrives: no queue, no transmitter
//! and no line need be asked on the way.
//!
//! Nothing can be told from outside: what comes out, when, what is refused and every count are those of
//! a [`Link`](crate::Link) (`tests/properties.rs` compares them). A simulator uses this knowledge of the
//! future; an emulator, whose packets must wait in real time, has no use for it.
//!
//! Arrivals may lie ahead of the present, as where the link before is of this kind, too: counts are then
//! those of the time that is asked for.

use crate::line::{LinkParams, LinkStats, Tally};
use crate::qdisc::registry::AnyQdisc;
use crate::qdisc::{Backlog, Reason};
use crate::rate::{Rate, Steady};
use base::rng::Streams;
use base::{Bytes, Duration, Time};

/// What is inside, and its times.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    arrived: Time,
    /// When its transmission begins.
    start: Time,
    /// When it comes out.
    exit: Time,
    len: u32,
    item: T,
}

/// A packet that has come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit<T> {
    pub item: T,
    pub at: Time,
    /// How long it waited in the queue, its own transmission not included.
    pub sojourn: Duration,
}

/// A plain link for items of the caller's, such as numbers of packets.
#[derive(Debug)]
pub struct Express<T> {
    steady: Steady,
    delay: Duration,
    most_packets: u64,
    most_bytes: u64,
    /// A ring: entry number `i` stands at `i` modulo its size, a power of two.
    ring: Vec<Entry<T>>,
    /// Numbers of the first inside, of the first that waits, and of the next to come.
    first: u64,
    waiting: u64,
    next: u64,
    waiting_bytes: u64,
    accepted_bytes: u64,
    delivered_bytes: u64,
    /// When the transmitter is done with the last of them.
    free: Time,
    refused: Tally,
    /// Of the last that has come out.
    last_sojourn: Option<Duration>,
}

impl<T: Copy> Express<T> {
    /// `None` for a link that is more than that.
    pub fn of(params: &LinkParams) -> Option<Express<T>> {
        let plain = params.jitter.is_none()
            && params.loss.is_none()
            && params.reorder.is_none()
            && params.duplicate <= 0.0;
        // A FIFO draws nothing, so any streams will do.
        let queue = params.queue.build(&Streams::new(0), "");
        let (AnyQdisc::Fifo(fifo), Rate::Fixed(rate), true) = (queue, &params.rate, plain) else {
            return None;
        };
        let limits = fifo.params();
        (rate.get() > 0).then(|| Express {
            steady: Steady::new(*rate),
            delay: params.delay,
            most_packets: limits.packets.unwrap_or(u64::MAX),
            most_bytes: limits.bytes.map_or(u64::MAX, Bytes::get),
            ring: Vec::new(),
            first: 0,
            waiting: 0,
            next: 0,
            waiting_bytes: 0,
            accepted_bytes: 0,
            delivered_bytes: 0,
            free: Time::ZERO,
            refused: Tally::default(),
            last_sojourn: None,
        })
    }

    #[inline]
    fn entry(&self, number: u64) -> &Entry<T> {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// A packet arrives, not before the one before it; when it will come out, or `None` where there is no
    /// room for it. That it was refused counts from the time at which [`refuse`](Express::refuse) is told.
    #[inline]
    pub fn enqueue(&mut self, arrived: Time, len: u32, item: T) -> Option<Time> {
        while self.waiting < self.next {
            let Entry { start, len, .. } = *self.entry(self.waiting);
            if start > arrived {
                break;
            }
            self.waiting_bytes -= u64::from(len);
            self.waiting += 1;
        }
        let bytes = u64::from(len);
        if self.next - self.waiting >= self.most_packets
            || self.waiting_bytes.saturating_add(bytes) > self.most_bytes
        {
            return None;
        }
        let start = arrived.max(self.free);
        self.free = self.steady.finish(start, len);
        self.accepted_bytes += bytes;
        if start > arrived || self.waiting < self.next {
            self.waiting_bytes += bytes;
        } else {
            self.waiting += 1;
        }
        let exit = self.free + self.delay;
        let entry = Entry {
            arrived,
            start,
            exit,
            len,
            item,
        };
        if self.next - self.first == self.ring.len() as u64 {
            self.grow(entry);
        }
        let mask = self.ring.len() - 1;
        self.ring[self.next as usize & mask] = entry;
        self.next += 1;
        Some(exit)
    }

    #[cold]
    fn grow(&mut self, filler: Entry<T>) {
        let mut ring = vec![filler; (self.ring.len() * 2).max(4)];
        let mask = ring.len() - 1;
        for number in self.first..self.next {
            ring[number as usize & mask] = *self.entry(number);
        }
        self.ring = ring;
    }

    /// A packet that was not let in counts as offered and refused from now on.
    pub fn refuse(&mut self, len: u32) {
        self.refused.add(Bytes::new(u64::from(len)));
    }

    /// When the next packet comes out.
    #[inline]
    pub fn next_exit(&self) -> Option<Time> {
        (self.first < self.next).then(|| self.entry(self.first).exit)
    }

    /// The next packet that comes out, whenever that is.
    #[inline]
    pub fn pop(&mut self) -> Option<Exit<T>> {
        if self.first == self.next {
            return None;
        }
        let entry = *self.entry(self.first);
        if self.waiting == self.first {
            self.waiting_bytes -= u64::from(entry.len);
            self.waiting += 1;
        }
        self.first += 1;
        self.delivered_bytes += u64::from(entry.len);
        let sojourn = entry.start.saturating_since(entry.arrived);
        self.last_sojourn = Some(sojourn);
        Some(Exit {
            item: entry.item,
            at: entry.exit,
            sojourn,
        })
    }

    /// Whether a packet of that many bytes can come out at the instant at which it arrives.
    pub fn takes_time(&self) -> bool {
        // A byte at this rate takes a nanosecond.
        !self.delay.is_zero() || self.steady.rate() <= 8_000_000_000
    }

    /// Counts as of `now`; what comes out by then is delivered, whether it was taken or not.
    pub fn stats(&self, now: Time) -> LinkStats {
        let tally = |packets, bytes| Tally {
            packets,
            bytes: Bytes::new(bytes),
        };
        let mut offered = tally(self.next, self.accepted_bytes);
        let (mut delivered_packets, mut delivered_bytes) = (self.first, self.delivered_bytes);
        let mut backlog = Backlog {
            bytes: Bytes::new(self.waiting_bytes),
            packets: self.next - self.waiting,
        };
        let mut last_sojourn = self.last_sojourn;
        let ahead = self.first < self.next && self.entry(self.next - 1).arrived > now;
        if ahead {
            backlog = Backlog::default();
            for number in self.first..self.next {
                let entry = self.entry(number);
                let len = Bytes::new(u64::from(entry.len));
                if entry.arrived > now {
                    offered.remove(len);
                } else if entry.start > now {
                    backlog.packets += 1;
                    backlog.bytes += len;
                } else {
                    last_sojourn = Some(entry.start.saturating_since(entry.arrived));
                }
            }
        } else {
            let begun = |number: &u64| self.entry(*number).start <= now;
            let started = (self.waiting..self.next).take_while(begun).count() as u64;
            for number in self.waiting..self.waiting + started {
                backlog.packets -= 1;
                backlog.bytes -= Bytes::new(u64::from(self.entry(number).len));
            }
            if self.waiting + started > self.first {
                let entry = self.entry(self.waiting + started - 1);
                last_sojourn = Some(entry.start.saturating_since(entry.arrived));
            }
        }
        for number in self.first..self.next {
            let entry = self.entry(number);
            if entry.exit > now {
                break;
            }
            delivered_packets += 1;
            delivered_bytes += u64::from(entry.len);
        }
        let delivered = tally(delivered_packets, delivered_bytes);
        let on_line = Tally {
            packets: offered.packets - delivered.packets - backlog.packets,
            bytes: offered.bytes - delivered.bytes - backlog.bytes,
        };
        offered.packets += self.refused.packets;
        offered.bytes += self.refused.bytes;
        let mut stats = LinkStats {
            offered,
            delivered,
            backlog,
            on_line,
            last_sojourn,
            ..LinkStats::default()
        };
        stats.dropped[Reason::Overlimit as usize] = self.refused;
        stats
    }
}
