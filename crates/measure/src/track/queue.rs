//! How long data waited in queues beyond the point of capture, from nothing but its round trips: passive bufferbloat.
//!
//! **Method.** Of each direction that carried data, the round trips from the point of capture to the receiver and back,
//! in bins; what exceeds the base is waiting. The base is the least round trip between the same two hosts within five
//! minutes, of all their connections, handshakes included: a connection that fills its queue from the first
//! second to the last has no empty one to show. Only round trips count that hold no delay of the receiver's own (up
//! to 40 ms in Linux, 500 ms by RFC 9293): of ACKs without data for two full segments, or for one whose successor was
//! acknowledged apart from it; of blocks that SACK reports for the first time; of timestamps that a repair echoes.
//!
//! **Limits.** A round trip says that something waits beyond the capture, on the way there or on the way back;
//! a direction that carries data at full rate fills its own queue, ACKs alone seldom do.

use super::connection::Connection;
use super::detail::Bin;
use super::tally::Quantiles;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Route changes are rarer than queues that stand for a minute.
const WINDOW_NS: i64 = 300_000_000_000;

/// The round trips of one direction of a connection, as it was tracked or as a recording holds it.
#[derive(Clone, Debug)]
pub struct Trail<'a> {
    /// Whose data it is, and where it went.
    pub hosts: (IpAddr, IpAddr),
    pub first_ns: i64,
    /// Round trips that were measured.
    pub samples: u64,
    /// The least one that is not in the course: of a direction that has none, or from before it begins.
    pub outside_ns: Option<i64>,
    /// `None` where hardly anything was sent.
    pub course: Option<Steps<'a>>,
}

/// A course over time: bins of equal width.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    pub begin_ns: i64,
    pub width_ns: i64,
    pub bins: Cow<'a, [Bin]>,
}

impl Steps<'_> {
    fn times(&self) -> impl Iterator<Item = (i64, &Bin)> {
        let bins = self.bins.iter().enumerate();
        bins.map(|(i, b)| (self.begin_ns + i as i64 * self.width_ns, b))
            .filter(|(_, b)| b.rtt_count > 0 || b.prompt_count > 0)
    }
}

impl Trail<'_> {
    /// Of what `direction` 0 (from `a`) or 1 sent.
    pub fn of(c: &Connection, direction: usize) -> Trail<'_> {
        let half = &c.halves[direction];
        let (a, b) = (c.a.ip(), c.b.ip());
        let detail = half.detail();
        Trail {
            hosts: if direction == 0 { (a, b) } else { (b, a) },
            first_ns: c.first_ns,
            samples: detail.map_or(half.rtt.count, |d| d.rtt.count()),
            outside_ns: match detail {
                Some(d) => d.rtt_before_ns,
                None => (half.rtt.count > 0).then_some(half.rtt.min_ns),
            },
            course: detail.map(|d| Steps {
                begin_ns: d.course.begin_ns,
                width_ns: d.course.width_ns,
                bins: Cow::Borrowed(&d.course.bins),
            }),
        }
    }

    /// Enough of them to show their course.
    fn told(&self) -> Option<&Steps<'_>> {
        self.course.as_ref().filter(|_| self.samples >= 8)
    }
}

/// Waiting of one direction.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Which of the trails, counted from 0.
    pub trail: usize,
    pub base_ns: i64,
    /// Time and wait of each bin that tells one, ns.
    pub course: Vec<(i64, i64)>,
    /// Of the bins, so that each stretch of time counts alike.
    pub waits: Quantiles,
}

/// The waiting of every direction with enough data to show its course.
pub fn waits<'a>(trails: impl Iterator<Item = Trail<'a>> + Clone) -> Vec<Waits> {
    let wanted: BTreeSet<_> = trails
        .clone()
        .filter(|t| t.told().is_some())
        .map(|t| t.hosts)
        .collect();
    // Least round trip between two hosts in each direction, in stretches of the window's length.
    let mut least: BTreeMap<_, i64> = BTreeMap::new();
    for trail in trails.clone().filter(|t| wanted.contains(&t.hosts)) {
        let course = trail.course.iter().flat_map(Steps::times);
        let timed = course.filter(|(_, bin)| bin.rtt_count > 0);
        let course = timed.map(|(t, bin)| (t, bin.rtt_min_ns));
        // Outside of it is what came before the details, such as the handshake.
        let outside = trail.outside_ns.map(|rtt| (trail.first_ns, rtt));
        for (t, rtt) in course.chain(outside) {
            let slot = least
                .entry((trail.hosts, t.div_euclid(WINDOW_NS)))
                .or_insert(rtt);
            *slot = rtt.min(*slot);
        }
    }
    let mut all = Vec::new();
    for (i, trail) in trails.enumerate() {
        let Some(steps) = trail.told() else { continue };
        let base = |t: i64| {
            let at = t.div_euclid(WINDOW_NS);
            (at - 1..=at + 1)
                .filter_map(|w| least.get(&(trail.hosts, w)))
                .min()
                .copied()
        };
        let mut one = Waits {
            trail: i,
            base_ns: i64::MAX,
            course: Vec::new(),
            waits: Quantiles::default(),
        };
        for (t, bin) in steps.times() {
            let (Some(base), Some(rtt)) = (base(t), bin.prompt_ns()) else {
                continue;
            };
            let wait = (rtt - base).max(0);
            one.base_ns = one.base_ns.min(base);
            one.course.push((t, wait));
            one.waits.add(wait as u64);
        }
        all.push(one);
    }
    all
}
