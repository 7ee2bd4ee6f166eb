//! Segments that were split or merged between the two captures, matched by the bytes they hold.

use super::capture::Packet;
use std::collections::BTreeMap;

/// Sequence numbers of one direction, unwrapped by their distance from the largest so far.
pub(super) struct Line {
    base: u32,
    at: i64,
}

impl Line {
    /// Line that starts at a sequence number.
    pub fn new(first: u32) -> Line {
        Line { base: first, at: 0 }
    }

    /// Position of a sequence number.
    pub fn place(&mut self, seq: u32) -> i64 {
        let place = self.at + i64::from(seq.wrapping_sub(self.base) as i32);
        if place > self.at {
            self.at = place;
            self.base = seq;
        }
        place
    }
}

/// An upstream segment that has no twin.
struct Sent {
    index: usize,
    from: i64,
    to: i64,
    timestamp: u32,
    t_ns: i64,
    got: i64,
    first_piece: Option<usize>,
}

/// Fate of the upstream segments without a twin.
pub(super) struct Covered {
    /// Upstream index, downstream index of the first piece, and true if every byte arrived.
    pub arrived: Vec<(usize, usize, bool)>,
    /// Downstream segments all of whose bytes were explained.
    pub explained: Vec<usize>,
}

/// Matches bytes. Both lists hold (index, place, packet) in the order of time. `lag` is the typical downstream time
/// minus the upstream one, so that the bytes of a retransmission are not taken for those of the lost copy.
pub(super) fn cover(
    up: &[(usize, i64, &Packet)],
    down: &[(usize, i64, &Packet)],
    lag: i64,
) -> Covered {
    let mut sent: Vec<Sent> = up
        .iter()
        .map(|(index, from, p)| Sent {
            index: *index,
            from: *from,
            to: from + i64::from(p.space()),
            timestamp: p.timestamp,
            t_ns: p.t_ns,
            got: 0,
            first_piece: None,
        })
        .collect();
    let mut by_start: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (i, s) in sent.iter().enumerate() {
        by_start.entry(s.from).or_default().push(i);
    }
    // Longest segment of an offload, bytes.
    const LONGEST: i64 = 1 << 20;
    let mut explained = Vec::new();
    for (index, from, p) in down {
        let to = from + i64::from(p.space());
        let mut at = *from;
        while at < to {
            // Of the copies that hold this byte, the one whose delay is nearest to the usual.
            let best = by_start
                .range(at - LONGEST..=at)
                .flat_map(|(_, list)| list)
                .copied()
                .filter(|i| {
                    let s = &sent[*i];
                    s.to > at && s.timestamp == p.timestamp && s.got < s.to - s.from
                })
                .min_by_key(|i| (p.t_ns - sent[*i].t_ns - lag).abs());
            let Some(i) = best else { break };
            let s = &mut sent[i];
            s.got += to.min(s.to) - at;
            s.first_piece.get_or_insert(*index);
            at = s.to;
        }
        if at >= to {
            explained.push(*index);
        }
    }
    let arrived = sent.iter().filter_map(|s| {
        let piece = s.first_piece?;
        Some((s.index, piece, s.got >= s.to - s.from))
    });
    Covered {
        arrived: arrived.collect(),
        explained,
    }
}
