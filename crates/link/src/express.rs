//! Fast model of the most common link: FIFO, fixed rate, and a propagation delay only. The exit time of a packet is
//! then known on arrival, so queue and transmitter need no events of their own.
//!
//! Results equal those of a [`Link`](crate::Link): exit times, refused packets and all counts (`tests/properties.rs`
//! compares them). A simulator can use exit times that lie in the future. An emulator cannot, because its packets must
//! wait in real time.
//!
//! Arrivals may lie in the future if the preceding link is of this kind, too: counts are then those of the time asked
//! for.

use crate::line::{LinkParams, LinkStats, Tally};
use crate::qdisc::registry::AnyQdisc;
use crate::qdisc::{Backlog, Reason};
use crate::rate::{Rate, Steady};
use base::framing::Framing;
use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Time};

/// Packet inside the link, with its times.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry<T> {
    arrived: Time,
    /// Start of its transmission.
    start: Time,
    /// Exit time at the far end.
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

/// Packet that comes out of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit<T> {
    /// Packet that leaves.
    pub item: T,
    /// Time at which it leaves.
    pub at: Time,
}

/// Plain link for items of the caller's type, such as packet numbers.
#[derive(Debug)]
pub struct Express<T> {
    steady: Steady,
    delay: Duration,
    most_packets: u64,
    most_bytes: u64,
    /// Ring buffer: entry number `i` is at `i & mask`. Numbers count packets and do not wrap.
    ring: Vec<Entry<T>>,
    mask: u64,
    /// Packet numbers: the first that is kept, the first not yet taken, the first that waited at the latest query, and
    /// the next to arrive.
    first: u64,
    taken: u64,
    waiting: u64,
    next: u64,
    /// Bytes of all packets before the first that waited.
    begun_bytes: u64,
    /// Time of the latest query.
    asked: Time,
    accepted_bytes: u64,
    delivered_bytes: u64,
    refused: Tally,
}

impl<T: Copy + Default> Express<T> {
    /// Creates the link; `None` if the parameters need more than this model.
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
        // A FIFO draws no random numbers, so any streams will do.
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

    /// Adds a packet; arrivals must be in order and not before packets already released. Returns its exit time, or
    /// `None` if the queue has no room for it. The refusal counts from the time at which [`refuse`](Express::refuse) is
    /// called.
    #[inline]
    pub fn enqueue(&mut self, arrived: Time, len: u32, item: T) -> Option<Time> {
        let bytes = u64::from(len);
        let next = self.next;
        // While everything inside would fit into the queue, the number of waiting packets does not matter.
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
        // One released packet is kept for its sojourn time.
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

    /// Updates which packets wait at `now`. Frequent calls are cheap.
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

    /// Doubles the ring if it is more than half full, so that the next check comes later.
    pub fn make_room(&mut self) {
        if self.next.wrapping_sub(self.first) > self.mask / 2 {
            self.grow();
        }
    }

    /// True if the next packet needs more memory, unless some are released before.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.next.wrapping_sub(self.first) >= self.mask
    }

    /// True if there is exactly one packet to take.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.next.wrapping_sub(self.taken) == 1
    }

    /// Returns the exit time of the next packet to take.
    #[inline]
    pub fn next_exit(&self) -> Option<Time> {
        (self.taken != self.next).then(|| self.entry(self.taken).exit)
    }

    /// Takes the next packet, which may exit in the future. It stays in the counts until then.
    #[inline]
    pub fn take(&mut self) -> Option<Exit<T>> {
        if self.taken == self.next {
            return None;
        }
        let Entry { item, exit, .. } = *self.entry(self.taken);
        self.taken = self.taken.wrapping_add(1);
        Some(Exit { item, at: exit })
    }

    /// Marks all packets inside as taken, because their destination is known.
    #[inline]
    pub fn hand_on(&mut self) {
        self.taken = self.next;
    }

    /// Removes the taken packets that have come out by `now`; passes each packet's queueing delay, without its own
    /// transmission time, to `waited`.
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

    /// Returns the bytes queued at time `at`. Times must not go back, and all arrivals up to `at` must have been added.
    pub fn backlog(&mut self, at: Time) -> Bytes {
        self.advance(at);
        Bytes::new(self.waiting_bytes())
    }

    /// Counts a refused packet as offered and refused.
    pub fn refuse(&mut self, len: u32) {
        self.refused.add(Bytes::new(u64::from(len)));
    }

    /// Returns the propagation delay, from the end of a transmission to the far end.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the delay of a packet of `len` bytes that finds the link idle.
    pub fn idle_delay(&self, len: u32) -> Duration {
        let rate = BitsPerSec::new(self.steady.rate());
        self.delay + Bytes::new(u64::from(len)).serialization_delay_ceil(rate)
    }

    /// True if no packet can come out at the instant at which it arrives.
    pub fn takes_time(&self) -> bool {
        // One byte at this rate takes 1 ns.
        !self.delay.is_zero() || self.steady.rate() <= 8_000_000_000
    }

    /// Returns the counts at `now`; packets that have come out by then are delivered, taken or not.
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
