//! Packets that the capture holds twice: taken on two interfaces, on both sides of a router, by a mirror port; or
//! delivered twice by the network.
//!
//! **Method.** The packets of the last second are remembered, each with all that stays the same on its way and with the
//! place where it was captured: interface, direction, VLAN, hops left. A packet is a copy where an equal one was seen at
//! another place more often than here: so two equal duplicate ACKs that pass two interfaces stay two. A second equal
//! packet at the same place is the same one if its identification says so, or if it came sooner than a sender can
//! repeat it. A mirror port shows nearly every packet twice, the network a few: which of the two it was is told by their
//! share, at the end. Neither counts as sent again.
//!
//! **Limits.** Pure ACKs without identification may be equal and two; at one place they count as one only where the
//! other packets of the direction come twice. Beyond [`MOST`] packets a second, those of a shorter time are remembered.

use super::key::fold;
use super::packet::Packet;

/// The same packet at the same place is a few microseconds apart.
const SOON_NS: i64 = 2_000_000;
/// At another place it may have waited in a queue.
const FAR_NS: i64 = 1_000_000_000;
/// Packets remembered at first: they stay in a core's own cache. Powers of two.
const LEAST: usize = 1 << 12;
/// And at most, where packets come from several places.
const MOST: usize = 1 << 18;

/// Packets of one direction that the capture holds more than once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twice {
    /// Packets whose repetition at the same place could be told, and how often it was.
    originals: u32,
    again: u32,
    /// The latest of the originals that was repeated.
    due: u32,
}

/// Packets between a packet and its copy at most.
const UNDER_WAY: u64 = 4096;

/// A packet that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// At another place.
    Elsewhere,
    /// At the same place.
    Here,
}

impl Twice {
    /// Nearly all packets so far are there twice: a mirror port, or two interfaces that the file does not tell apart.
    /// Those after the last one that was repeated may still be.
    pub fn mirrored(self) -> bool {
        2 * u64::from(self.again) > u64::from(self.due)
            && u64::from(self.originals) <= 2 * u64::from(self.due) + UNDER_WAY
    }

    /// The same of a direction that is over.
    pub fn was_mirrored(self) -> bool {
        2 * u64::from(self.again) > u64::from(self.originals)
    }

    pub(super) fn touch(self) -> u32 {
        self.originals
    }

    /// How often each packet is there.
    fn fold(self) -> u32 {
        1 + self.again.saturating_add(self.due / 2) / self.due.max(1)
    }
}

/// A packet as it comes: two words, which stay in registers. Kept apart from [`Print`], which is written once and as
/// a whole: what is written in parts and then copied as a whole is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    content: u64,
    tick: u32,
    place: u32,
}

/// A packet as it is remembered.
#[derive(Clone, Copy, Debug, Default)]
struct Print {
    /// All of it but place and time, in 64 bits: of a thousand million packets two that differ have the same once in
    /// ten thousand captures.
    content: u64,
    /// As the capture has it, which may run backward; in units of [`TICK_NS`].
    tick: u32,
    place: u32,
    /// Number of the one before it in the same place of the table; 0 for none, or while it is not there yet.
    before: u32,
    /// Number of the packet that it is a copy of; of one that is none, its number in [`Twice::originals`].
    link: u32,
}

/// Bits of [`Print::place`] that tell the interface and the direction.
const INTERFACE: u32 = 0x7ff << 20;
/// Bit of [`Print::place`] that a copy has.
const COPY: u32 = 1 << 31;
/// Equal packets of one place whose copies are told apart.
const ANSWERED: usize = 16;

/// Unit of a print's time, which wraps after 73 minutes.
const TICK_NS: i64 = 1 << TICK_BITS;
const TICK_BITS: u32 = 10;

/// Everything by which two packets of one connection differ, but place and time.
#[inline(always)]
fn content(p: &Packet, connection: u32) -> u64 {
    let numbers = u64::from(p.seq) << 32 | u64::from(p.ack);
    let marks = u64::from(p.id ^ p.stamp.swap_bytes()) << 32 | u64::from(connection);
    let rest = u64::from(p.payload) << 42
        ^ u64::from(p.window) << 26
        ^ u64::from(p.checksum) << 10
        ^ u64::from(p.flags) << 2
        ^ u64::from(p.swapped);
    // An odd factor loses nothing.
    let spread = rest.wrapping_mul(0xd1b5_4a32_d192_ed03);
    fold(
        numbers ^ spread ^ 0x243f_6a88_85a3_08d3,
        marks ^ 0x9e37_79b9_7f4a_7c15,
    )
}

impl Sight {
    #[inline(always)]
    pub fn new(content: u64, t: i64, place: u32) -> Sight {
        Sight {
            content,
            tick: (t >> TICK_BITS) as u32,
            place: place & !COPY,
        }
    }

    /// Time between two packets, whichever was first.
    fn apart(&self, o: &Print) -> i64 {
        i64::from((self.tick.wrapping_sub(o.tick) as i32).unsigned_abs()) * TICK_NS
    }
}

/// The latest packets of a capture, found by what they hold.
#[derive(Clone, Debug)]
pub struct Copies {
    ring: Vec<Print>,
    /// Number of the latest packet of each hash, of those ahead of `listed`.
    heads: Vec<u32>,
    /// Number of the next packet; from 1, and over again after 2^32.
    next: u32,
    /// Number of the first packet that has no place in the table yet. Most packets are news, and most are forgotten
    /// before anything asks for a place.
    listed: u32,
    /// Packets come from several places.
    spread: bool,
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            ring: vec![Print::default(); LEAST],
            heads: vec![0; LEAST],
            next: 1,
            listed: 1,
            spread: false,
        }
    }
}

impl Copies {
    /// Where the capture holds a packet already, which is captured at `t`; `news` says that it cannot, `round_trip` how
    /// soon its sender can repeat it.
    #[inline(always)]
    pub(super) fn seen(
        &mut self,
        p: &Packet,
        (t, connection): (i64, u32),
        news: bool,
        round_trip: Option<i64>,
        twice: &mut Twice,
    ) -> Option<Found> {
        let content = content(p, connection);
        self.look(
            Sight::new(content, t, p.place),
            news,
            p.id != 0 || p.occupied > 0,
            || soonest(p.id, p.timestamps().is_some(), round_trip),
            twice,
        )
    }

    /// `certain`: its sender would not send two that are equal sooner than `soonest` says.
    #[inline(always)]
    pub fn look(
        &mut self,
        sight: Sight,
        news: bool,
        certain: bool,
        soonest: impl FnOnce() -> i64,
        twice: &mut Twice,
    ) -> Option<Found> {
        // What is news need not be looked up, and waiting for memory costs more than the question.
        let found = if news {
            None
        } else {
            self.find(sight, certain.then(soonest), twice)
        };
        match found {
            None => {
                twice.originals = twice.originals.saturating_add(u32::from(certain));
                self.put(sight, twice.originals);
                None
            }
            Some((found, number)) => {
                let place = sight.place | COPY;
                self.put(Sight { place, ..sight }, number);
                Some(found)
            }
        }
    }

    #[inline(always)]
    fn put(&mut self, sight: Sight, link: u32) {
        if self.spread | (sight.place & INTERFACE != 0) {
            self.widen(sight);
        }
        let at = self.next as usize & (self.ring.len() - 1);
        self.ring[at] = Print {
            content: sight.content,
            tick: sight.tick,
            place: sight.place,
            before: 0,
            link,
        };
        self.next = self.next.wrapping_add(1).max(1);
    }

    /// Gives every packet that is remembered its place in the table.
    fn list(&mut self) {
        let size = self.ring.len();
        if self.next.wrapping_sub(self.listed) as usize > size {
            self.listed = self.next.wrapping_sub(size as u32).max(1);
        }
        while self.listed != self.next {
            let print = &mut self.ring[self.listed as usize & (size - 1)];
            let head = &mut self.heads[print.content as usize & (size - 1)];
            print.before = std::mem::replace(head, self.listed);
            self.listed = self.listed.wrapping_add(1).max(1);
        }
    }

    /// Makes room where the packet that is about to be forgotten may still come again.
    #[inline(never)]
    fn widen(&mut self, sight: Sight) {
        self.spread = true;
        let size = self.ring.len();
        let oldest = &self.ring[self.next as usize & (size - 1)];
        if size >= MOST || oldest.content == 0 || sight.apart(oldest) > FAR_NS {
            return;
        }
        let old = std::mem::replace(&mut self.ring, vec![Print::default(); 2 * size]);
        self.heads = vec![0; 2 * size];
        self.listed = self.next.saturating_sub(size as u32).max(1);
        for number in self.listed..self.next {
            self.ring[number as usize & (2 * size - 1)] = old[number as usize & (size - 1)];
        }
    }

    /// Tells a copy, and the number of the packet that it is a copy of. `soonest` is `None` for a packet whose equal may
    /// be another one at any time.
    #[inline(never)]
    fn find(
        &mut self,
        sight: Sight,
        soonest: Option<i64>,
        twice: &mut Twice,
    ) -> Option<(Found, u32)> {
        self.list();
        let mut number = self.heads[sight.content as usize & (self.heads.len() - 1)];
        // The packet before it at this place and how many there are, the packets whose copies were here, and the oldest
        // one from elsewhere that had none.
        let (mut latest, mut here) = (None, 0u32);
        let mut answered = [0; ANSWERED];
        let (mut n, mut oldest) = (0, 0);
        // What was overwritten is older than all that is remembered, and ends the chain.
        while number != 0 && (self.next.wrapping_sub(number) as usize) < self.ring.len() {
            let other = self.ring[number as usize & (self.ring.len() - 1)];
            let this = number;
            let older = self.next.wrapping_sub(other.before) > self.next.wrapping_sub(number);
            number = if older { other.before } else { 0 };
            if other.content != sight.content {
                continue;
            }
            if sight.apart(&other) > FAR_NS {
                break;
            }
            let copy = other.place & COPY != 0;
            if other.place & !COPY == sight.place {
                here += 1;
                latest.get_or_insert((other, this));
                if copy && n < ANSWERED {
                    answered[n] = other.link;
                    n += 1;
                }
            } else if !copy && !answered[..n].contains(&this) {
                oldest = this;
            }
        }
        if oldest != 0 {
            self.spread = true;
            return Some((Found::Elsewhere, oldest));
        }
        let (before, number) = latest?;
        let age = sight.apart(&before);
        let again = match soonest {
            Some(soonest) => age <= soonest,
            None => age <= SOON_NS && twice.mirrored() && !here.is_multiple_of(twice.fold()),
        };
        if !again {
            return None;
        }
        let origin = self.ring[before.link as usize & (self.ring.len() - 1)];
        if before.place & COPY != 0 && origin.place & !COPY != sight.place {
            // What came again where it was seen first, comes again here.
            return Some((Found::Elsewhere, before.link));
        }
        if soonest.is_some() {
            twice.again = twice.again.saturating_add(1);
            if before.place & COPY == 0 {
                twice.due = twice.due.max(before.link);
            }
        }
        Some((Found::Here, number))
    }
}

/// What comes again within this time was sent once.
pub fn soonest(id: u32, stamped: bool, round_trip: Option<i64>) -> i64 {
    match (id, stamped) {
        // Both count on with every packet that a host sends.
        (1.., true) => FAR_NS,
        // Nothing is repeated before the loss of the first can be known.
        (0, _) => round_trip.map_or(SOON_NS, |rtt| SOON_NS.min(rtt / 2)),
        _ => SOON_NS,
    }
}
