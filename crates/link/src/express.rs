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
use base::framing::Framing;
use base::rng::Streams;
use base::{Bytes, Duration, Time};

/// What is inside, and its times.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry<T> {
    arrived: Time,
    /// When its transmission begins.
    start: Time,
    /// When it comes out.
    exit: Time,
    len: u32,
    item: T,
}

impl<T: Default> Entry<T> {
    fn nothing() -> Entry<T> {
        Entry {
            arrived: Time::ZERO,
            start: Time::ZERO,
            exit: Time::ZERO,
            len: 0,
            item: T::default(),
        }
    }
}

/// A packet that comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit<T> {
    pub item: T,
    pub at: Time,
}

/// A plain link for items of the caller's, such as numbers of packets.
#[derive(Debug)]
pub struct Express<T> {
    steady: Steady,
    delay: Duration,
    most_packets: u64,
    most_bytes: u64,
    /// A ring: entry number `i` stands at `i & mask`. Numbers count packets and do not come around.
    ring: Vec<Entry<T>>,
    mask: u64,
    /// Numbers of the first that is kept, of the first that was not taken out, of the first that waited when
    /// that was asked last, and of the next to come.
    first: u64,
    taken: u64,
    waiting: u64,
    next: u64,
    /// Of all before the first that waited.
    begun_bytes: u64,
    /// When that was.
    asked: Time,
    accepted_bytes: u64,
    delivered_bytes: u64,
    refused: Tally,
}

impl<T: Copy + Default> Express<T> {
    /// `None` for a link that is more than that.
    pub fn of(params: &LinkParams) -> Option<Express<T>> {
        let plain = params.framing == Framing::NONE
            && params.policer.is_none()
            && params.shaper.is_none()
            && params.drift.is_none()
            && params.jitter.is_none()
            && params.sleep.is_none()
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
            ring: vec![Entry::nothing(); 4],
            mask: 3,
            first: 0,
            taken: 0,
            waiting: 0,
            next: 0,
            begun_bytes: 0,
            asked: Time::ZERO,
            accepted_bytes: 0,
            delivered_bytes: 0,
            refused: Tally::default(),
        })
    }

    #[inline]
    fn entry(&self, number: u64) -> &Entry<T> {
        &self.ring[(number & self.mask) as usize]
    }

    /// A packet arrives, not before the one before it and not before what was released; when it will come out, or `None` where there is no room for it. That it was refused counts from the time at
    /// which [`refuse`](Express::refuse) is told.
    #[inline]
    pub fn enqueue(&mut self, arrived: Time, len: u32, item: T) -> Option<Time> {
        let bytes = u64::from(len);
        let next = self.next;
        // As long as all that is inside would find room in the queue, it does not matter how much of it
        // waits there.
        if next.wrapping_sub(self.first) >= self.most_packets
            || self.accepted_bytes - self.delivered_bytes + bytes > self.most_bytes
        {
            self.advance(arrived);
            if next - self.waiting >= self.most_packets
                || self.waiting_bytes() + bytes > self.most_bytes
            {
                return None;
            }
        }
        let (start, free) = self.steady.take(arrived, len);
        let exit = free + self.delay;
        // One that was released is kept for its sojourn time.
        if next.wrapping_sub(self.first) >= self.mask {
            self.grow();
        }
        let at = (next & self.mask) as usize;
        self.ring[at] = Entry {
            arrived,
            start,
            exit,
            len,
            item,
        };
        self.next = next.wrapping_add(1);
        self.accepted_bytes += bytes;
        Some(exit)
    }

    /// Finds out what waits at an instant. Asking often makes asking cheap.
    pub fn advance(&mut self, now: Time) {
        self.asked = self.asked.max(now);
        if self.waiting < self.first {
            (self.waiting, self.begun_bytes) = (self.first, self.delivered_bytes);
        }
        while self.waiting < self.next {
            let Entry { start, len, .. } = *self.entry(self.waiting);
            if start > now {
                return;
            }
            self.begun_bytes += u64::from(len);
            self.waiting += 1;
        }
    }

    fn waiting_bytes(&self) -> u64 {
        self.accepted_bytes - self.begun_bytes
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.mask * 2 + 1;
        let mut ring = vec![Entry::nothing(); mask as usize + 1];
        for number in self.first.saturating_sub(1)..self.next {
            ring[(number & mask) as usize] = *self.entry(number);
        }
        (self.ring, self.mask) = (ring, mask);
    }

    /// Makes room for as many as there are, so that they need not be looked through soon again.
    pub fn make_room(&mut self) {
        if self.next.wrapping_sub(self.first) > self.mask / 2 {
            self.grow();
        }
    }

    /// Whether the next packet needs more memory, unless some are released before.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.next.wrapping_sub(self.first) >= self.mask
    }

    /// Whether there is one packet to take.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.next.wrapping_sub(self.taken) == 1
    }

    /// When the next packet to take comes out.
    #[inline]
    pub fn next_exit(&self) -> Option<Time> {
        (self.taken != self.next).then(|| self.entry(self.taken).exit)
    }

    /// The next packet that comes out, whenever that is. It stays in the counts until then.
    #[inline]
    pub fn take(&mut self) -> Option<Exit<T>> {
        if self.taken == self.next {
            return None;
        }
        let Entry { item, exit, .. } = *self.entry(self.taken);
        self.taken = self.taken.wrapping_add(1);
        Some(Exit { item, at: exit })
    }

    /// All that are inside count as taken: it is known where they go.
    #[inline]
    pub fn hand_on(&mut self) {
        self.taken = self.next;
    }

    /// Forgets those of the packets taken that have come out by now; tells of each how long it waited in the
    /// queue, its own transmission not included.
    pub fn release(&mut self, now: Time, mut waited: impl FnMut(Duration)) {
        while self.first != self.taken {
            let Entry {
                arrived,
                start,
                exit,
                len,
                ..
            } = *self.entry(self.first);
            if exit > now {
                return;
            }
            self.first = self.first.wrapping_add(1);
            self.delivered_bytes += u64::from(len);
            waited(start.saturating_since(arrived));
        }
    }

    /// Bytes that wait at an instant, which is not before one that was asked for; all that arrive by then have.
    pub fn backlog(&mut self, at: Time) -> Bytes {
        self.advance(at);
        Bytes::new(self.waiting_bytes())
    }

    /// A packet that was not let in counts as offered and refused from now on.
    pub fn refuse(&mut self, len: u32) {
        self.refused.add(Bytes::new(u64::from(len)));
    }

    /// From the end of a transmission to the far end.
    pub fn delay(&self) -> Duration {
        self.delay
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
        let sojourn_of = |number| {
            let entry: &Entry<T> = self.entry(number);
            Some(entry.start.saturating_since(entry.arrived))
        };
        let mut last_sojourn = self.first.checked_sub(1).and_then(sojourn_of);
        let mut backlog = Backlog::default();
        let last = self.next.checked_sub(1).map(|n| self.entry(n).arrived);
        let ahead = self.asked > now || last.is_some_and(|arrived| arrived > now);
        if ahead {
            for number in self.first..self.next {
                let entry = self.entry(number);
                let len = Bytes::new(u64::from(entry.len));
                if entry.arrived > now {
                    offered.remove(len);
                } else if entry.start > now {
                    backlog.packets += 1;
                    backlog.bytes += len;
                } else {
                    last_sojourn = sojourn_of(number);
                }
            }
        } else {
            let (mut waiting, mut begun) = (self.waiting, self.begun_bytes);
            if waiting < self.first {
                (waiting, begun) = (self.first, self.delivered_bytes);
            }
            while waiting < self.next && self.entry(waiting).start <= now {
                begun += u64::from(self.entry(waiting).len);
                waiting += 1;
            }
            backlog.packets = self.next - waiting;
            backlog.bytes = Bytes::new(self.accepted_bytes - begun);
            if waiting > self.first {
                last_sojourn = sojourn_of(waiting - 1);
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
            delivered_wire: delivered.bytes,
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
