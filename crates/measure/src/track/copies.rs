//! Packets that the capture holds twice: captured on two interfaces, on both sides of a router, or by a mirror port; or
//! duplicated by the network.
//!
//! **Method.** The packets of the last second are remembered, each with its invariant fields and its capture point:
//! interface, direction, VLAN, hops left. A packet is a copy if an equal one was seen at another point more often than
//! here; so two equal duplicate ACKs that pass two interfaces stay two. A second equal packet at the same point is a
//! copy if its identification says so, or if it came sooner than a sender can repeat it. A mirror port shows nearly
//! every packet twice, the network only a few: their share decides, at the end. Neither counts as a retransmission.
//!
//! **Limits.** Pure ACKs without identification may be equal and yet different packets. At one point they count as
//! copies only if the other packets of the direction come twice. Beyond [`MOST`] packets a second, packets are
//! remembered for a shorter time.

use super::key::fold;
use super::packet::Packet;

/// Maximum time between copies at the same capture point, ns; usually it is a few microseconds.
const SOON_NS: i64 = 2_000_000;
/// Maximum time between copies at two points, where one may have waited in a queue, ns.
const FAR_NS: i64 = 1_000_000_000;
/// Packets remembered at first: they stay in a core's own cache. Powers of two.
const LEAST: usize = 1 << 12;
/// Maximum number of packets remembered, if they come from several points.
const MOST: usize = 1 << 18;

/// Packets of one direction that the capture holds more than once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twice {
    /// Packets for which a copy at the same point would be recognised, and the number of copies.
    originals: u32,
    again: u32,
    /// Latest of these packets that has a copy.
    due: u32,
}

/// Maximum number of packets between a packet and its copy.
const UNDER_WAY: u64 = 4096;

/// Capture point of an earlier copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another capture point.
    Elsewhere,
    /// The same capture point.
    Here,
}

impl Twice {
    /// True if nearly all packets so far are there twice: a mirror port, or two interfaces that the file does not
    /// distinguish. Packets after the last one with a copy may still get theirs.
    pub fn mirrored(self) -> bool {
        2 * u64::from(self.again) > u64::from(self.due)
            && u64::from(self.originals) <= 2 * u64::from(self.due) + UNDER_WAY
    }

    /// True if nearly all packets were there twice, for a direction that is over.
    pub fn was_mirrored(self) -> bool {
        2 * u64::from(self.again) > u64::from(self.originals)
    }

    pub(super) fn touch(self) -> u32 {
        self.originals
    }

    /// Number of times that each packet is in the capture.
    fn fold(self) -> u32 {
        1 + self.again.saturating_add(self.due / 2) / self.due.max(1)
    }
}

/// A packet as it arrives: two words, which stay in registers. Kept apart from [`Print`], which is written once and as
/// a whole, because copying a value written in parts causes a stall.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    content: u64,
    tick: u32,
    place: u32,
}

/// A remembered packet.
#[derive(Clone, Copy, Debug, Default)]
struct Print {
    /// Hash of all fields but capture point and time, in 64 bits. Among 10⁹ packets, two different ones collide in one
    /// of ten thousand captures.
    content: u64,
    /// Time as captured, which may run backward; in units of [`TICK_NS`].
    tick: u32,
    place: u32,
    /// Number of the previous packet in the same slot of the table; 0 for none, or while it is not listed yet.
    before: u32,
    /// Number of the packet that it is a copy of; for an original, its number in [`Twice::originals`].
    link: u32,
}

/// Bits of [`Print::place`] with the interface and the direction.
const INTERFACE: u32 = 0x7ff << 20;
/// Bit of [`Print::place`] that marks a copy.
const COPY: u32 = 1 << 31;
/// Maximum number of equal packets at one point whose copies are told apart.
const ANSWERED: usize = 16;

/// Unit of a print's time, which wraps after 73 minutes.
const TICK_NS: i64 = 1 << TICK_BITS;
const TICK_BITS: u32 = 10;

/// Hash of everything by which two packets of one connection differ, except capture point and time.
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
    /// Sight of a packet with this content, at a time and place.
    #[inline(always)]
    pub fn new(content: u64, t: i64, place: u32) -> Sight {
        Sight {
            content,
            tick: (t >> TICK_BITS) as u32,
            place: place & !COPY,
        }
    }

    /// Time between two packets in either order, ns.
    fn apart(&self, o: &Print) -> i64 {
        i64::from((self.tick.wrapping_sub(o.tick) as i32).unsigned_abs()) * TICK_NS
    }
}

/// Latest packets of a capture, found by their contents.
#[derive(Clone, Debug)]
pub struct Copies {
    ring: Vec<Print>,
    /// Number of the latest packet of each hash, among those before `listed`.
    heads: Vec<u32>,
    /// Number of the next packet; from 1, and over again after 2^32.
    next: u32,
    /// Number of the first packet that is not in the table yet. Most packets are new, and most are forgotten before
    /// anything looks them up.
    listed: u32,
    /// True if packets come from several capture points.
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
    /// Looks for an earlier copy of a packet captured at `t`. `news` says that there cannot be one, `round_trip` how
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

    /// Looks for an earlier copy. `certain`: its sender would not send two equal packets sooner than `soonest` says.
    #[inline(always)]
    pub fn look(
        &mut self,
        sight: Sight,
        news: bool,
        certain: bool,
        soonest: impl FnOnce() -> i64,
        twice: &mut Twice,
    ) -> Option<Found> {
        // New packets need no look-up, which would cost a memory access.
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

    /// Enters every remembered packet into the table.
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

    /// Doubles the memory if the packet about to be forgotten may still have a copy.
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

    /// Finds a copy and the number of its original. `soonest` is `None` for a packet whose equal may be a different one
    /// at any time.
    #[inline(never)]
    fn find(
        &mut self,
        sight: Sight,
        soonest: Option<i64>,
        twice: &mut Twice,
    ) -> Option<(Found, u32)> {
        self.list();
        let mut number = self.heads[sight.content as usize & (self.heads.len() - 1)];
        // State of the search: the previous equal packet at this point, the number of those here, originals with copies
        // here, and the oldest one from elsewhere without a copy.
        let (mut latest, mut here) = (None, 0u32);
        let mut answered = [0; ANSWERED];
        let (mut n, mut oldest) = (0, 0);
        // An overwritten packet is older than all that are remembered, and ends the chain.
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
            // A packet that was repeated at its first point is repeated here too.
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

/// Minimum time between two equal packets that are different transmissions; sooner ones are copies.
pub fn soonest(id: u32, stamped: bool, round_trip: Option<i64>) -> i64 {
    match (id, stamped) {
        // Both fields advance with every packet that a host sends.
        (1.., true) => FAR_NS,
        // No retransmission can come before the sender knows of the loss.
        (0, _) => round_trip.map_or(SOON_NS, |rtt| SOON_NS.min(rtt / 2)),
        _ => SOON_NS,
    }
}
