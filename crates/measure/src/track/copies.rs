//! Packets that were captured twice: on two interfaces, by a mirror port, on both sides of a router.
//!
//! **Method.** The last packets of the whole capture leave a print each, in a table of fixed size. The same
//! identification, sequence, ACK, flags, length, checksum and ends within 2 ms is the same packet; within 1 s it is
//! where the copy has another TTL or VLAN, for it has gone one hop further, where it may have waited.

use super::packet::Packet;
use super::table::fold;

/// The same packet at the same place is a few microseconds apart; after another hop it may have waited.
const TWICE_NS: i64 = 2_000_000;
const TWICE_AWAY_NS: i64 = 1_000_000_000;
/// Prints kept: a quarter of a mebibyte, which stays in a core's own cache. Between the two copies of a packet in
/// a link of 1 Gbit/s and a queue of 10 ms lie 800 others, of which one in 40 takes the place of its print.
const PRINTS: usize = 1 << 15;
/// A print's clock, which wraps after two seconds.
const TICK_NS: i64 = 1 << 15;

/// In one word: hash (40 bits), place (8 bits: a copy from another interface has gone one hop further or carries
/// another tag), time (16 bits).
#[derive(Debug)]
pub struct Copies(Vec<u64>);

impl Default for Copies {
    fn default() -> Copies {
        Copies(vec![0; PRINTS])
    }
}

impl Copies {
    /// Whether this packet was captured before; `ends` is the hash of its flow, `news` says that it cannot have been.
    #[inline(always)]
    pub fn is_copy(&mut self, p: &Packet, ends: u64, news: bool) -> bool {
        // Without an identification two equal packets may well be two: a second duplicate ACK, say. Data
        // with a timestamp cannot be repeated within a millisecond.
        if p.id == 0 && (p.timestamps().is_none() || p.payload == 0) {
            return false;
        }
        let hash = fingerprint(p, ends);
        let place = (u64::from(p.vlan) * 151 + u64::from(p.ttl)) & 0xff;
        let tick = (p.t / TICK_NS) as u16;
        let slot = &mut self.0[hash as usize % PRINTS];
        let print = hash >> 24 << 24 | place << 16 | u64::from(tick);
        // The print of what is news need not be looked up, and waiting for memory costs more than the question.
        if !news && *slot >> 24 == hash >> 24 {
            let apart = i64::from(tick.wrapping_sub(*slot as u16)) * TICK_NS;
            let limit = if *slot >> 16 & 0xff == place {
                TWICE_NS
            } else {
                TWICE_AWAY_NS
            };
            if apart < limit {
                return true;
            }
        }
        *slot = print;
        false
    }
}

/// Everything by which two packets that left one sender differ, and who they are between.
#[inline(always)]
fn fingerprint(p: &Packet, ends: u64) -> u64 {
    let ends = if p.swapped { !ends } else { ends };
    let numbers = u64::from(p.seq) << 32 | u64::from(p.ack);
    // An identification counts in its low bits and a timestamp in its high ones, so that they do not meet.
    let stamp = p.timestamps().map_or(0, |(value, _)| value).swap_bytes();
    let sums = u64::from(p.checksum) << 16 | u64::from(p.flags) << 8 | u64::from(p.payload & 0xff);
    let content = u64::from(p.id ^ stamp) << 32 | sums;
    fold(ends ^ numbers, content ^ 0x9e37_79b9_7f4a_7c15)
}
