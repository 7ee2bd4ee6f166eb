//! Passive bufferbloat: time that packets waited on either side of the capture point.
//!
//! **Method.** For each direction that carried data, RTTs from the capture point to the receiver and back are
//! binned; the excess over the base is queueing delay, on the way of the data, of the ACKs, or of both. The base is the
//! least RTT between the same two hosts within five minutes. It covers all their connections and handshakes, because a
//! connection that fills its queue throughout never shows an empty one. Only RTTs without a delay of the receiver's own
//! count (up to 40 ms in Linux, 500 ms by RFC 9293). These are:
//! - ACKs without data for two full segments, or as many as the receiver waits for by its habit, or for a segment
//!   whose successor was acknowledged separately;
//! - blocks that SACK reports for the first time;
//! - timestamps that a retransmission echoes.
//!
//! TCP timestamps tell the two ways apart. The age of an ACK ([`super::ages`]) beyond the least one is its wait. A round
//! trip less the age of its ACK is the age of its data, but for a constant, and beyond the least one it is the wait of
//! the data. The sum of the two least ones can be more than the base: then the rest waited as well, on one of the two
//! ways. The age of the data itself is its wait before the capture. A wait counts at the time at which the data arrived, as
//! far as the age of its ACK tells: a queue on the way back lets the ACKs of many waits go at once.
//!
//! **Limits.** A queue that was never empty looks shorter than it is. A delay that varies without a queue looks like one.

use super::ages::Ages;
use super::connection::Connection;
use super::detail::{Bin, Detail};
use super::tally::Quantiles;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Time window of the base, ns. Route changes are rarer than queues that last a minute.
const WINDOW_NS: i64 = 300_000_000_000;
/// Time for which a wait holds where no packet tells it, ns.
const HELD_NS: i64 = 500_000_000;
/// Longer stretches of time, ns.
const LONGER_NS: i64 = 100_000_000;
const SECOND_NS: i64 = 1_000_000_000;
/// Shortest window of a highest rate, of data that passes, and of ACKs, ns.
const PASSING_NS: i64 = 100_000_000;
const ACKNOWLEDGED_NS: i64 = 1_000_000_000;
/// Bytes of a full packet, and of the payload in it.
const PACKET_BYTES: f64 = 1500.0;
const SEGMENT_BYTES: u64 = 1448;
/// Stretches with packets from which ages have a course.
const LEAST_AGES: usize = 8;

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
    /// Ages of the data, and of the packets that acknowledge it, in the bins of the course.
    pub ages: Aged<'a>,
}

/// Ages of the packets of a trail.
#[derive(Clone, Debug)]
pub enum Aged<'a> {
    /// Ages that the timestamps of a tracked direction show.
    Tracked(&'a Detail),
    /// Ages of the data, and of the packets that acknowledge it.
    Known([Option<Ages>; 2]),
}

impl Aged<'_> {
    fn ages(&self) -> [Option<Ages>; 2] {
        match self {
            Aged::Tracked(detail) => detail.ages(),
            Aged::Known(ages) => ages.clone(),
        }
    }
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
    /// Begin of a bin, ns.
    fn begin(&self, bin: usize) -> i64 {
        self.begin_ns + bin as i64 * self.width_ns
    }

    /// All bins, their numbers and begins.
    fn all(&self) -> impl Iterator<Item = (usize, i64, &Bin)> {
        let bins = self.bins.iter().enumerate();
        bins.map(|(i, b)| (i, self.begin(i), b))
    }

    /// Bins with round trips, their numbers and begins.
    fn times(&self) -> impl Iterator<Item = (usize, i64, &Bin)> {
        self.all()
            .filter(|(_, _, b)| b.rtt_count > 0 || b.prompt_count > 0)
    }

    /// Time of a full packet on the line at the highest rate at which data passed the capture, ns; 0 if that is not
    /// known. Of the bytes in a window, those of a segment may have been on the line before it.
    fn packet_before_ns(&self) -> i64 {
        let passed = |bin: &Bin| bin.fresh_bytes.saturating_add(bin.again_bytes);
        self.packet_ns(PASSING_NS, SEGMENT_BYTES, passed)
    }

    /// The same beyond the capture, at the highest rate at which data was acknowledged. An ACK of a repair tells of all
    /// that waited for it, and so only long windows count.
    fn packet_beyond_ns(&self) -> i64 {
        self.packet_ns(ACKNOWLEDGED_NS, 2 * SEGMENT_BYTES, |bin| bin.acked_bytes)
    }

    fn packet_ns(&self, window_ns: i64, less: u64, of: impl Fn(&Bin) -> u64) -> i64 {
        let mut sums = vec![0u64];
        for bin in self.bins.iter() {
            sums.push(sums[sums.len() - 1].saturating_add(of(bin)));
        }
        let mut least = f64::INFINITY;
        let mut n = (window_ns / self.width_ns.max(1)).max(1) as usize;
        while n < sums.len() {
            let most = sums.windows(n + 1).map(|w| w[n] - w[0]).max();
            let bytes = most.unwrap_or(0).saturating_sub(less);
            if bytes > 0 {
                let window_ns = n as f64 * self.width_ns as f64;
                least = least.min(window_ns * PACKET_BYTES / bytes as f64);
            }
            n *= 2;
        }
        if least.is_finite() { least as i64 } else { 0 }
    }
}

impl Trail<'_> {
    /// Time of a full packet on the line before the capture, and beyond it, ns; 0 if that is not known.
    pub fn packet_ns(&self) -> [i64; 2] {
        let course = self.course.as_ref();
        course.map_or([0; 2], |c| [c.packet_before_ns(), c.packet_beyond_ns()])
    }

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
            ages: detail.map_or(Aged::Known([None, None]), Aged::Tracked),
        }
    }

    /// Course, if there are enough samples to show it.
    fn told(&self) -> Option<&Steps<'_>> {
        self.course.as_ref().filter(|_| self.samples >= 8)
    }
}

/// Waits on one way, one for each bin that has a sample.
#[derive(Clone, Debug, Default)]
pub struct Waited {
    /// Time of the bin and wait in it, ns.
    pub course: Vec<(i64, i64)>,
    /// Distribution over bins, so that equal times have equal weight.
    pub waits: Quantiles,
    /// The same with all that may have waited on this way or on the other, and the time of a packet on the line.
    pub most: Quantiles,
    /// Mean waits of longer stretches: a wait's peaks are the lower, the longer the stretches are.
    pub longer: Quantiles,
    /// Bins that had no sample of their own.
    pub filled: u64,
    /// Seconds in which hardly anything waited.
    pub empty: BTreeSet<i64>,
    /// Bins whose wait is within the error of the least one, and those of up to twice the error.
    pub near: [u64; 2],
}

impl Waited {
    /// Waits of these times, each with an error of `doubt_ns`. A time without one has that of the nearest time with one, if
    /// that is near.
    fn over(times: &[(i64, Option<(i64, i64)>)], doubt_ns: i64) -> Option<Waited> {
        let known: Vec<(i64, (i64, i64))> = times
            .iter()
            .filter_map(|(t, wait)| Some((*t, (*wait)?)))
            .collect();
        let mut waited = Waited::default();
        for (t, own) in times {
            let after = known.partition_point(|(at, _)| at <= t);
            let sides = known[after.saturating_sub(1)..].iter().take(2);
            let away = |at: i64| at.abs_diff(*t);
            let nearest = sides.min_by_key(|(at, _)| away(*at));
            if let Some((at, (wait, more))) = nearest
                && away(*at) <= HELD_NS.unsigned_abs()
            {
                waited.add(*t, *wait, *more);
                match own {
                    Some((wait, _)) => waited.is_near(*t, *wait, doubt_ns),
                    None => waited.filled += 1,
                }
            }
        }
        waited.told()
    }

    fn add(&mut self, t: i64, wait: i64, more: i64) {
        let wait = wait.max(0);
        self.course.push((t, wait));
        self.waits.add(wait as u64);
        self.most.add(wait.saturating_add(more.max(0)) as u64);
    }

    /// Counts a wait near the least one.
    fn is_near(&mut self, t: i64, wait: i64, doubt_ns: i64) {
        if wait <= doubt_ns {
            self.near[0] += 1;
            self.empty.insert(t.div_euclid(SECOND_NS));
        } else if wait <= doubt_ns.saturating_mul(2) {
            self.near[1] += 1;
        }
    }

    /// The waits if there are enough.
    fn told(mut self) -> Option<Waited> {
        for stretch in self
            .course
            .chunk_by(|a, b| a.0.div_euclid(LONGER_NS) == b.0.div_euclid(LONGER_NS))
        {
            let sum = stretch
                .iter()
                .fold(0i64, |sum, (_, wait)| sum.saturating_add(*wait));
            let mean = sum / stretch.len() as i64;
            stretch.iter().for_each(|_| self.longer.add(mean as u64));
        }
        (self.course.len() >= LEAST_AGES).then_some(self)
    }
}

/// Queueing delay of one direction.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Index of the trail, from 0.
    pub trail: usize,
    /// Least round trip, ns.
    pub base_ns: Option<i64>,
    /// Waits beyond the capture, of the data and of its ACKs together.
    pub round: Option<Waited>,
    /// Waits of the data beyond the capture, where timestamps tell it.
    pub towards: Option<Waited>,
    /// Waits of the ACKs on their way to the capture.
    pub answers: Option<Waited>,
    /// Waits of the data before the capture.
    pub before: Option<Waited>,
    /// Errors of the clocks of the data's sender and receiver, ns; 0 for one without timestamps.
    pub error_ns: [i64; 2],
}

/// Least value in each window of time.
#[derive(Default)]
struct Least(BTreeMap<i64, i64>);

impl Least {
    fn add(&mut self, t: i64, value: i64) {
        let slot = self.0.entry(t.div_euclid(WINDOW_NS)).or_insert(value);
        *slot = value.min(*slot);
    }

    /// Least value in the window of `t` and those beside it.
    fn at(&self, t: i64) -> Option<i64> {
        let at = t.div_euclid(WINDOW_NS);
        let near = (at - 1..=at + 1).filter_map(|w| self.0.get(&w));
        near.min().copied()
    }
}

/// Queueing delay of every direction with enough data to show its course.
pub fn waits<'a>(trails: impl Iterator<Item = Trail<'a>> + Clone) -> Vec<Waits> {
    let wanted: BTreeSet<_> = trails
        .clone()
        .filter(|t| t.told().is_some())
        .map(|t| t.hosts)
        .collect();
    // Least RTT between two hosts in each direction.
    let mut least: BTreeMap<_, Least> = BTreeMap::new();
    for trail in trails.clone().filter(|t| wanted.contains(&t.hosts)) {
        let course = trail.course.iter().flat_map(Steps::times);
        let timed = course.filter(|(_, _, bin)| bin.rtt_count > 0);
        let course = timed.map(|(_, t, bin)| (t, bin.rtt_min_ns));
        // The least RTT from before the details, such as that of the handshake.
        let outside = trail.outside_ns.map(|rtt| (trail.first_ns, rtt));
        for (t, rtt) in course.chain(outside) {
            least.entry(trail.hosts).or_default().add(t, rtt);
        }
    }
    let mut all = Vec::new();
    for (i, trail) in trails.enumerate() {
        let told = trail.told().is_some();
        let [data, answers] = trail.ages.ages();
        if !told && data.is_none() {
            continue;
        }
        let error = |ages: &Option<Ages>| ages.as_ref().map_or(0, |a| a.error_ns);
        let base = least.get(&trail.hosts).filter(|_| told);
        let mut one = Waits {
            trail: i,
            base_ns: None,
            round: None,
            towards: None,
            answers: None,
            before: data.as_ref().and_then(|data| trail.before(data)),
            error_ns: [error(&data), error(&answers)],
        };
        if let Some(base) = base {
            one.beyond(&trail, answers.as_ref(), base);
        }
        all.push(one);
    }
    all
}

impl Trail<'_> {
    /// Waits of the data before the capture.
    fn before(&self, ages: &Ages) -> Option<Waited> {
        let steps = self.course.as_ref()?;
        let packet_ns = steps.packet_before_ns();
        let aged = || (ages.bins.iter().enumerate()).map(|(k, age)| (steps.begin(k), *age));
        // The first packet may be a short one, such as a SYN.
        let (mut least, mut first) = (Least::default(), Least::default());
        first.add(self.first_ns, 0);
        for (t, age) in aged() {
            if let Some(age) = age {
                least.add(t, age);
            }
        }
        let times: Vec<_> = aged()
            .map(|(t, age)| {
                let wait = || {
                    let (base, more) = base(first.at(t), least.at(t)?, packet_ns);
                    Some((age?.saturating_sub(base), more))
                };
                (t, wait())
            })
            .collect();
        Waited::over(&times, packet_ns.saturating_add(ages.error_ns))
    }
}

/// Least delay of full packets, where the quickest of any size took `any` and the quickest of full size `full`; and by
/// how much less it may be.
fn base(any: Option<i64>, full: i64, packet_ns: i64) -> (i64, i64) {
    let Some(any) = any.filter(|any| *any < full) else {
        return (full, 0);
    };
    let on_the_line = full.saturating_sub(any).min(packet_ns);
    (any.saturating_add(on_the_line), on_the_line)
}

impl Waits {
    /// Adds the waits beyond the capture.
    fn beyond(&mut self, trail: &Trail<'_>, answers: Option<&Ages>, base: &Least) {
        let Some(steps) = trail.told() else { return };
        let packet_ns = steps.packet_beyond_ns();
        let prompt = || {
            let timed = steps.times();
            timed.filter_map(|(k, t, bin)| Some((k, t, bin.prompt_ns()?)))
        };
        let mut least = Least::default();
        prompt().for_each(|(_, t, rtt)| least.add(t, rtt));
        let bases = steps.times().filter_map(|(_, t, _)| base.at(t));
        self.base_ns = bases.min();
        let wait = |t, bin: &Bin| {
            let (base, more) = self::base(base.at(t), least.at(t)?, packet_ns);
            Some((bin.prompt_ns()?.saturating_sub(base), more))
        };
        let times: Vec<_> = (steps.all()).map(|(_, t, bin)| (t, wait(t, bin))).collect();
        self.round = Waited::over(&times, packet_ns);
        let Some(ages) = answers else { return };
        let split = |k: usize, bin: &Bin| {
            let age = (*ages.bins.get(k)?)?;
            Some((bin.prompt_ns()?.saturating_sub(age), age))
        };
        let (mut least_data, mut least_ack) = (Least::default(), Least::default());
        // The receiver's first packet, such as its SYN-ACK, has the age of 0.
        least_ack.add(trail.first_ns, 0);
        for (k, t, bin) in steps.times() {
            if let Some((data, ack)) = split(k, bin) {
                least_data.add(t, data);
                least_ack.add(t, ack);
            }
        }
        // What both never lost: it waited on one of the two ways, and none can tell on which.
        let more = |t| {
            let shown = least_data.at(t)?.saturating_add(least_ack.at(t)?);
            let known = base.at(t)?;
            Some(shown.saturating_sub(known).max(0))
        };
        let towards: Vec<_> = (steps.all())
            .map(|(k, t, bin)| {
                let wait = || Some((split(k, bin)?.0.saturating_sub(least_data.at(t)?), more(t)?));
                (t, wait())
            })
            .collect();
        let back: Vec<_> = (steps.all())
            .map(|(k, t, bin)| {
                let wait = || Some((split(k, bin)?.1.saturating_sub(least_ack.at(t)?), more(t)?));
                (t, wait())
            })
            .collect();
        self.towards = Waited::over(&towards, packet_ns.saturating_add(ages.error_ns));
        self.answers = Waited::over(&back, ages.error_ns);
    }
}
