//! Passive bufferbloat: queueing delay beyond the capture point, estimated from the RTTs of data.
//!
//! **Method.** For each direction that carried data, the RTTs from the capture point to the receiver and back are
//! binned; the excess over the base is queueing delay. The base is the least RTT between the same two hosts within five
//! minutes. It covers all their connections and handshakes, because a connection that fills its queue throughout never
//! shows an empty one. Only RTTs without a delay of the receiver's own count (up to 40 ms in Linux, 500 ms by
//! RFC 9293). These are:
//! - ACKs without data for two full segments, or for a segment whose successor was acknowledged separately;
//! - blocks that SACK reports for the first time;
//! - timestamps that a retransmission echoes.
//!
//! **Limits.** An RTT includes queues in both directions beyond the capture. A direction that carries data at full rate
//! fills its own queue; ACKs alone rarely do.

use super::connection::Connection;
use super::detail::Bin;
use super::tally::Quantiles;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Time window of the base, ns. Route changes are rarer than queues that last a minute.
const WINDOW_NS: i64 = 300_000_000_000;

/// RTTs of one direction of a connection, as tracked or as read from a recording.
#[derive(Clone, Debug)]
pub struct Trail<'a> {
    /// Sender and receiver of the data.
    pub hosts: (IpAddr, IpAddr),
    /// Time of the first packet, ns.
    pub first_ns: i64,
    /// Number of RTT samples.
    pub samples: u64,
    /// Least RTT outside the course: of a direction without a course, or from before the course starts.
    pub outside_ns: Option<i64>,
    /// Course of the RTT; `None` if almost nothing was sent.
    pub course: Option<Steps<'a>>,
}

/// Course over time: bins of equal width.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    /// Begin of the first bin, ns.
    pub begin_ns: i64,
    /// Width of a bin, ns.
    pub width_ns: i64,
    /// Bins in order.
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
    /// Trail of the data sent in `direction` 0 (from `a`) or 1.
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

    /// Course, if there are enough samples to show it.
    fn told(&self) -> Option<&Steps<'_>> {
        self.course.as_ref().filter(|_| self.samples >= 8)
    }
}

/// Queueing delay of one direction.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Index of the trail, from 0.
    pub trail: usize,
    /// Least round trip, ns.
    pub base_ns: i64,
    /// Time and queueing delay of each bin that has a sample, ns.
    pub course: Vec<(i64, i64)>,
    /// Distribution over bins, so that equal times have equal weight.
    pub waits: Quantiles,
}

/// Queueing delay of every direction with enough data to show its course.
pub fn waits<'a>(trails: impl Iterator<Item = Trail<'a>> + Clone) -> Vec<Waits> {
    let wanted: BTreeSet<_> = trails
        .clone()
        .filter(|t| t.told().is_some())
        .map(|t| t.hosts)
        .collect();
    // Least RTT between two hosts in each direction, by stretches of the window's length.
    let mut least: BTreeMap<_, i64> = BTreeMap::new();
    for trail in trails.clone().filter(|t| wanted.contains(&t.hosts)) {
        let course = trail.course.iter().flat_map(Steps::times);
        let timed = course.filter(|(_, bin)| bin.rtt_count > 0);
        let course = timed.map(|(t, bin)| (t, bin.rtt_min_ns));
        // The least RTT from before the details, such as that of the handshake.
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
