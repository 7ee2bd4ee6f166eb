//! How long data waited in queues beyond the point of capture, from nothing but its round trips: passive bufferbloat.
//!
//! **Method.** Of each direction that carried data, the round trips from the point of capture to the receiver and back,
//! in bins; what exceeds the base is waiting. The base is the least round trip between the same two hosts within five
//! minutes, of all their connections, handshakes included: a connection that fills its queue from the first
//! second to the last has no empty one to show. A bin of fewer than four round trips counts with its least, because
//! one ACK that its receiver held back (up to 40 ms in Linux, 500 ms by RFC 9293) is no queue.
//!
//! **Limits.** A round trip says that something waits beyond the capture, on the way there or on the way back;
//! a direction that carries data at full rate fills its own queue, ACKs alone seldom do.

use super::{Connection, Half, Quantiles};
use std::collections::{BTreeMap, BTreeSet};

/// Route changes are rarer than queues that stand for a minute.
const WINDOW_NS: i64 = 300_000_000_000;

/// Waiting of one direction of one connection.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Index into [`super::Traffic::connections`], and which of its halves.
    pub connection: usize,
    pub direction: usize,
    pub base_ns: i64,
    /// Time and wait of each bin that holds a round trip, ns.
    pub course: Vec<(i64, i64)>,
    /// Of the bins, so that each stretch of time counts alike.
    pub waits: Quantiles,
}

/// The waiting of every direction with enough data to show its course.
pub fn waits(connections: &[Connection]) -> Vec<Waits> {
    // Least round trip between two hosts in each direction, in stretches of the window's length.
    let mut least: BTreeMap<_, i64> = BTreeMap::new();
    let hosts = |c: &Connection, direction: usize| match direction {
        0 => (c.a.address, c.b.address),
        _ => (c.b.address, c.a.address),
    };
    let mut note = |key, t: i64, rtt: i64| {
        let slot = least.entry((key, t.div_euclid(WINDOW_NS))).or_insert(rtt);
        *slot = rtt.min(*slot);
    };
    let told = |half: &Half| half.detail().is_some_and(|d| d.rtt.count() >= 8);
    let wanted: BTreeSet<_> = connections
        .iter()
        .flat_map(|c| [0, 1].map(|d| (c, d)))
        .filter(|(c, d)| told(&c.halves[*d]))
        .map(|(c, d)| hosts(c, d))
        .collect();
    for c in connections {
        for (direction, half) in c.halves.iter().enumerate() {
            let key = hosts(c, direction);
            if !wanted.contains(&key) {
                continue;
            }
            if half.rtt.count > 0 && half.detail().is_none() {
                note(key, c.first_ns, half.rtt.min_ns);
            }
            let Some(d) = half.detail() else { continue };
            // Among them what came before the details, such as the handshake.
            if let Some(first) = d.rtt_before_ns {
                note(key, c.first_ns, first);
            }
            for (i, bin) in d
                .course
                .bins
                .iter()
                .enumerate()
                .filter(|(_, b)| b.rtt_count > 0)
            {
                note(
                    key,
                    d.course.begin_ns + i as i64 * d.course.width_ns,
                    bin.rtt_min_ns,
                );
            }
        }
    }
    let mut all = Vec::new();
    for (connection, c) in connections.iter().enumerate() {
        for (direction, half) in c.halves.iter().enumerate() {
            let Some(d) = half.detail().filter(|_| told(half)) else {
                continue;
            };
            let key = hosts(c, direction);
            let base = |t: i64| {
                let at = t.div_euclid(WINDOW_NS);
                (at - 1..=at + 1)
                    .filter_map(|w| least.get(&(key, w)))
                    .min()
                    .copied()
            };
            let mut one = Waits {
                connection,
                direction,
                base_ns: i64::MAX,
                course: Vec::new(),
                waits: Quantiles::default(),
            };
            for (i, bin) in d.course.bins.iter().enumerate() {
                let t = d.course.begin_ns + i as i64 * d.course.width_ns;
                let Some(base) = base(t).filter(|_| bin.rtt_count > 0) else {
                    continue;
                };
                let rtt = match bin.rtt_count {
                    1..4 => bin.rtt_min_ns,
                    n => bin.rtt_sum_ns / i64::from(n),
                };
                one.base_ns = one.base_ns.min(base);
                one.course.push((t, rtt - base));
                one.waits.add(rtt - base);
            }
            all.push(one);
        }
    }
    all
}
