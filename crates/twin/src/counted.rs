//! Evidence that a plain queue counts its limit in bytes.
//!
//! **Method.** An overload train keeps the queue full, with small datagrams beside the full ones. A queue of packets drops
//! both alike. A queue of bytes has room for a small datagram long before it has room for a full one.
//!
//! **Limits.** Small datagrams that are lost prove nothing: a limit just above a whole number of full packets has no room
//! for them either. A train whose excess was not lost tells nothing.

use base::record::{Datagram, Direction, Recording};
use stats::Figure;
use std::collections::BTreeMap;
use std::ops::Range;

/// Size up to which a datagram is small, and from which it is full, bytes.
const SIZES: (i64, i64) = (400, 1000);
/// Fewest datagrams of each size while the queue is full; with so few, all small ones have to fare alike.
const FEWEST: f64 = 6.0;
/// Share of full datagrams lost from which a train kept the queue full.
const OVERLOADED: f64 = 0.1;
/// Loss of small datagrams relative to that of full ones below which bytes are counted: value, and end of the interval.
const FAVOURED: (f64, f64) = (0.4, 0.7);

#[derive(Clone, Copy, Default)]
struct Fates {
    sent: f64,
    lost: f64,
}

impl Fates {
    fn add(&mut self, lost: bool) {
        self.sent += 1.0;
        self.lost += f64::from(u8::from(lost));
    }
    fn join(&mut self, part: Fates) {
        self.sent += part.sent;
        self.lost += part.lost;
    }
    fn share(self) -> f64 {
        self.lost / self.sent.max(1.0)
    }
}

/// True if the overload trains of a direction show that its queue counts bytes.
pub fn in_bytes(rec: &Recording, direction: Direction) -> bool {
    let rows: Vec<&Datagram> = rec
        .datagram
        .iter()
        .filter(|d| d.direction == direction)
        .collect();
    let (mut small, mut full) = (Fates::default(), Fates::default());
    for range in full_times(&rows) {
        let (mut few, mut many) = (Fates::default(), Fates::default());
        for d in rows.iter().filter(|d| range.contains(&d.sent_ns)) {
            if d.size_bytes <= SIZES.0 {
                few.add(d.received_ns.is_none());
            } else if d.size_bytes >= SIZES.1 {
                many.add(d.received_ns.is_none());
            }
        }
        if many.sent >= FEWEST && many.share() >= OVERLOADED {
            small.join(few);
            full.join(many);
        }
    }
    if small.sent < FEWEST || full.sent < FEWEST {
        return false;
    }
    // Few small datagrams scatter: their interval has to lie below, too.
    let Figure::Is { value, high, .. } = stats::wilson(small.lost, small.sent) else {
        return false;
    };
    value < FAVOURED.0 * full.share() && high < FAVOURED.1 * full.share()
}

/// Times in which floods kept the queue full: from the first lost datagram to the last one sent.
fn full_times(rows: &[&Datagram]) -> Vec<Range<i64>> {
    let mut floods: BTreeMap<i64, Range<i64>> = BTreeMap::new();
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    for d in rows.iter().filter(|d| d.size_bytes >= SIZES.1) {
        let end = last.entry(d.train).or_insert(d.sent_ns);
        *end = d.sent_ns.max(*end);
        if d.received_ns.is_none() {
            let range = floods.entry(d.train).or_insert(d.sent_ns..d.sent_ns);
            range.start = range.start.min(d.sent_ns);
        }
    }
    for (train, range) in &mut floods {
        range.end = last.get(train).copied().unwrap_or(range.start);
    }
    floods.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Recording;

    /// Flood of a link that has room for every third full datagram, with small ones beside it.
    fn flood(small_too: bool) -> Recording {
        let row = |i: i64, train: i64, size_bytes: i64, lost: bool| Datagram {
            sent_ns: i * 1_000_000,
            seq: i,
            train,
            direction: Direction::Up,
            size_bytes,
            received_ns: (!lost).then_some(i * 1_000_000 + 5_000_000),
            ecn: None,
        };
        let full = (0..600).map(|i| row(i, 1, 1500, i > 60 && i % 3 != 0));
        let small = (0..600)
            .step_by(7)
            .map(|i| row(i, 2, 128, small_too && i > 60 && i % 3 != 0));
        Recording {
            datagram: full.chain(small).collect(),
            ..Recording::default()
        }
    }

    #[test]
    fn small_datagrams_that_pass_a_full_queue_show_that_it_counts_bytes() {
        assert!(in_bytes(&flood(false), Direction::Up));
        assert!(!in_bytes(&flood(true), Direction::Up));
        assert!(!in_bytes(&flood(false), Direction::Down));
        assert!(!in_bytes(&Recording::default(), Direction::Up));
    }
}
