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

use super::packet::Packet;
use super::table::fold;
use crate::capture::frame::flag;

/// The same packet at the same place is a few microseconds apart.
const SOON_NS: i64 = 2_000_000;
/// At another place it may have waited in a queue.
const FAR_NS: i64 = 1_000_000_000;
/// Packets remembered at first: they stay in a core's own cache. Powers of two.
const LEAST: usize = 1 << 13;
/// And at most, where packets come from several places.
const MOST: usize = 1 << 18;

/// Packets of one direction that the capture holds more than once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twice {
    /// Packets whose repetition at the same place could be told, and how often it was.
    originals: u32,
    again: u32,
    /// Others that came again at the same place and were left out.
    unsure: u32,
    /// At another place.
    elsewhere: u32,
}

impl Twice {
    /// Nearly all packets are there twice: a mirror port, or two interfaces that the file does not tell apart.
    pub fn mirrored(self) -> bool {
        2 * u64::from(self.again) > u64::from(self.originals)
    }

    /// How often each packet is there.
    fn fold(self) -> u32 {
        1 + (self.again + self.originals / 2) / self.originals.max(1)
    }

    /// Captured more than once, and delivered more than once by the network.
    pub fn told(self) -> (u64, u64) {
        let (elsewhere, here) = (
            u64::from(self.elsewhere),
            u64::from(self.again + self.unsure),
        );
        if self.mirrored() {
            (elsewhere + here, 0)
        } else {
            (elsewhere, here)
        }
    }
}

/// A packet as it is remembered.
#[derive(Clone, Copy, Debug, Default)]
struct Print {
    /// As the capture has it, which may run backward.
    t: i64,
    seq: u32,
    ack: u32,
    id: u32,
    stamp: u32,
    payload: u32,
    connection: u32,
    place: u32,
    /// Number of the one before it with the same hash; 0 for none.
    before: u32,
    window: u16,
    checksum: u16,
    flags: u8,
    swapped: bool,
}

impl Print {
    #[inline(always)]
    fn of(p: &Packet, t: i64, connection: u32) -> Print {
        Print {
            t,
            seq: p.seq,
            ack: p.ack,
            id: p.id,
            stamp: p.timestamps().map_or(0, |(value, _)| value),
            payload: p.payload,
            connection,
            place: p.place,
            before: 0,
            window: p.window,
            checksum: p.checksum,
            flags: p.flags,
            swapped: p.swapped,
        }
    }

    /// Everything but the place and the time.
    fn equals(&self, o: &Print) -> bool {
        let numbers = |p: &Print| (p.seq, p.ack, p.id, p.stamp, p.payload, p.connection);
        let rest = |p: &Print| (p.window, p.checksum, p.flags, p.swapped);
        numbers(self) == numbers(o) && rest(self) == rest(o)
    }

    #[inline(always)]
    fn hash(&self) -> u64 {
        let numbers = u64::from(self.seq) << 32 | u64::from(self.ack);
        let content = u64::from(self.id ^ self.stamp.swap_bytes()) << 32
            | u64::from(self.connection ^ self.payload.rotate_left(16));
        fold(
            numbers ^ 0x243f_6a88_85a3_08d3,
            content ^ 0x9e37_79b9_7f4a_7c15,
        )
    }
}

/// The latest packets of a capture, found by what they hold.
#[derive(Debug)]
pub struct Copies {
    ring: Vec<Print>,
    /// Number of the latest packet of each hash.
    heads: Vec<u32>,
    /// Number of the next packet; from 1, and over again after 2^32.
    next: u32,
    /// Packets come from several places.
    spread: bool,
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            ring: vec![Print::default(); LEAST],
            heads: vec![0; LEAST],
            next: 1,
            spread: false,
        }
    }
}

impl Copies {
    /// True for a packet that the capture holds already, captured at `t`; `news` says that it cannot be one, `round_trip`
    /// how soon its sender can repeat it.
    #[inline(always)]
    pub fn is_copy(
        &mut self,
        p: &Packet,
        (t, connection): (i64, u32),
        news: bool,
        round_trip: Option<i64>,
        twice: &mut Twice,
    ) -> bool {
        let print = Print::of(p, t, connection);
        let hash = print.hash();
        // What is news need not be looked up, and waiting for memory costs more than the question.
        let copy = !news && self.found(&print, hash, round_trip, twice);
        if !copy {
            twice.originals += u32::from(print.certain());
        }
        self.put(print, hash);
        copy
    }

    #[inline(always)]
    fn put(&mut self, mut print: Print, hash: u64) {
        if self.spread | (print.place >> 20 != 0) {
            self.widen(print.t);
        }
        let head = hash as usize & (self.heads.len() - 1);
        let at = self.next as usize & (self.ring.len() - 1);
        print.before = std::mem::replace(&mut self.heads[head], self.next);
        self.ring[at] = print;
        self.next = self.next.wrapping_add(1).max(1);
    }

    /// Makes room where the packet that is about to be forgotten may still come again.
    #[inline(never)]
    fn widen(&mut self, t: i64) {
        self.spread = true;
        let size = self.ring.len();
        let oldest = &self.ring[self.next as usize & (size - 1)];
        if size >= MOST || oldest.connection == 0 && oldest.t == 0 || t - oldest.t > FAR_NS {
            return;
        }
        let old = std::mem::replace(&mut self.ring, vec![Print::default(); 2 * size]);
        self.heads = vec![0; 2 * size];
        let first = self.next.saturating_sub(size as u32).max(1);
        for number in first..self.next {
            let mut print = old[number as usize & (size - 1)];
            let head = print.hash() as usize & (2 * size - 1);
            print.before = std::mem::replace(&mut self.heads[head], number);
            self.ring[number as usize & (2 * size - 1)] = print;
        }
    }

    #[inline(never)]
    fn found(
        &mut self,
        print: &Print,
        hash: u64,
        round_trip: Option<i64>,
        twice: &mut Twice,
    ) -> bool {
        let mut number = self.heads[hash as usize & (self.heads.len() - 1)];
        let mut here = 0;
        let mut latest = None;
        let mut places: [(u32, u32); 4] = [(0, 0); 4];
        // What was overwritten is older than all that is remembered, and ends the chain.
        while number != 0 && (self.next.wrapping_sub(number) as usize) < self.ring.len() {
            let other = &self.ring[number as usize & (self.ring.len() - 1)];
            let older = self.next.wrapping_sub(other.before) > self.next.wrapping_sub(number);
            number = if older { other.before } else { 0 };
            if !other.equals(print) {
                continue;
            }
            if (print.t - other.t).abs() > FAR_NS {
                break;
            }
            if other.place == print.place {
                here += 1;
                latest.get_or_insert((print.t - other.t).abs());
            } else if let Some(slot) = places
                .iter_mut()
                .find(|(place, n)| *n == 0 || *place == other.place)
            {
                *slot = (other.place, slot.1 + 1);
            }
        }
        let elsewhere = places.iter().map(|(_, n)| *n).max().unwrap_or(0);
        if here < elsewhere {
            twice.elsewhere += 1;
            self.spread = true;
            return true;
        }
        let Some(age) = latest else { return false };
        if print.certain() {
            let again = age <= print.soonest(round_trip);
            twice.again += u32::from(again);
            return again;
        }
        let again = age <= SOON_NS && twice.mirrored() && here % twice.fold() != 0;
        twice.unsure += u32::from(again);
        again
    }
}

impl Print {
    /// Its sender would not send two that are equal within the time that [`Print::soonest`] says.
    #[inline(always)]
    fn certain(&self) -> bool {
        self.id != 0 || self.payload > 0 || self.flags & (flag::SYN | flag::FIN) != 0
    }

    /// What comes again within this time was sent once.
    fn soonest(&self, round_trip: Option<i64>) -> i64 {
        match (self.id, self.stamp) {
            // Both count on with every packet that a host sends.
            (1.., 1..) => FAR_NS,
            // Nothing is repeated before the loss of the first can be known.
            (0, _) => round_trip.map_or(SOON_NS, |rtt| SOON_NS.min(rtt / 2)),
            _ => SOON_NS,
        }
    }
}
