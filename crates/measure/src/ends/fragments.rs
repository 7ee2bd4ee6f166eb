//! Fragmented datagrams: which of the fragments arrived.
//!
//! **Source.** P. Gao, *Campus-Wide Smart Grid Communication Network Project Report*, EPFL 2012,
//! sections 3.3 and 4.5 (first and second fragments counted at both ends); RFC 791, RFC 8200.

use super::capture::Packet;
use std::collections::HashMap;

/// Fragment counters of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    /// First, second and later fragments that the upstream end saw.
    pub sent: [u64; 3],
    /// Fragments of each of these kinds that the downstream end saw.
    pub arrived: [u64; 3],
    /// Fragmented datagrams.
    pub datagrams: u64,
    /// Datagrams all of whose fragments arrived.
    pub whole: u64,
    /// Datagrams whose first fragment was lost and whose second was not; and so on.
    pub lost_first_only: u64,
    /// Datagrams that lost the second fragment only.
    pub lost_second_only: u64,
    /// Datagrams that lost both.
    pub lost_both: u64,
}

#[derive(Default)]
struct Datagram {
    /// Fragments as (offset, arrived).
    pieces: Vec<(u32, bool)>,
    t_ns: i64,
}

/// Longest time between fragments with the same identification that belong to one datagram (RFC 8200 section 4.5: 60
/// s).
const TOGETHER_NS: i64 = 60_000_000_000;

/// Counts the upstream fragments of one direction, given in the order of time with true if it arrived.
pub(super) fn count<'a>(pieces: impl Iterator<Item = (&'a Packet, bool)>, out: &mut Fragments) {
    let mut open: HashMap<u32, usize> = HashMap::new();
    let mut all: Vec<Datagram> = Vec::new();
    for (p, arrived) in pieces {
        let at = open.get(&p.id).copied().filter(|at| {
            let d: &Datagram = &all[*at];
            p.t_ns - d.t_ns <= TOGETHER_NS && d.pieces.iter().all(|(offset, _)| *offset != p.seq)
        });
        let at = at.unwrap_or_else(|| {
            all.push(Datagram::default());
            open.insert(p.id, all.len() - 1);
            all.len() - 1
        });
        all[at].t_ns = p.t_ns;
        all[at].pieces.push((p.seq, arrived));
    }
    for d in &mut all {
        d.pieces.sort_unstable();
        // Datagram older than the capture: which fragment is the first cannot be known.
        if d.pieces[0].0 != 0 {
            continue;
        }
        out.datagrams += 1;
        for (i, (_, arrived)) in d.pieces.iter().enumerate() {
            out.sent[i.min(2)] += 1;
            out.arrived[i.min(2)] += u64::from(*arrived);
        }
        out.whole += u64::from(d.pieces.iter().all(|(_, arrived)| *arrived));
        if let [(_, first), (_, second), ..] = d.pieces[..] {
            out.lost_first_only += u64::from(!first && second);
            out.lost_second_only += u64::from(first && !second);
            out.lost_both += u64::from(!first && !second);
        }
    }
}
