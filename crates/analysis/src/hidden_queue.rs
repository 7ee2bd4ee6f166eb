//! Hidden queue: the backlog of a modem that cannot be asked, as a gateway in front of it can estimate it from the
//! bytes it hands over and from one round trip a second.
//!
//! **Method.** Between two measurements the queue grows by the bytes handed over and shrinks by the link's capacity
//! (28). A measurement gives the wait of a packet: the round trip less that with an empty queue (29). Each prediction
//! is set beside the next measurement; the difference is the delay error of table 21.
//!
//! **Source.** Borlaug 2014, section 6.3.2, equations (28) and (29), figure 53, table 21.
//!
//! **Errors in (28) and (29), mended here.** A queue cannot hold less than nothing: without a floor the sum falls by a
//! second for each second without traffic. The median of all round trips is not that of an empty queue. Under a load
//! that lasts longer than the rest before it, the median is that of a full queue, and waits come out negative. The base
//! here is the least round trip of the last hour, which may have begun before the stretch. A round trip shows the queue
//! at the time its probe was sent, not at the time of the answer: bytes handed over meanwhile are added.
//! [`Law::Printed`] leaves all three as they are.
//!
//! **Limits.** A round trip waits in both directions' queues and does not tell which. During a download its wait is
//! taken for one of the upload, until the next measurement without it. Packets that the modem drops were handed over
//! and are counted until the next measurement. The error says how well the queue can be foreseen for a second, not how
//! right it is: base line and capacity are in prediction and measurement alike and cancel.

use base::BitsPerSec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Version of the shape in `--json`.
pub const HIDDEN_QUEUE_VERSION: u32 = 1;

/// Window of the base: its least round trip counts as that of an empty queue. Loads longer than this without one empty
/// moment are rarer than changes of path.
pub const BASE_NS: i64 = 3_600_000_000_000;
const S: f64 = 1e9;

/// Variant of the equations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Equations (28) and (29) as printed.
    Printed,
    /// Equations with a floor, the least round trip as base, and the bytes handed over while the probe was in flight.
    Mended,
}

impl Law {
    /// All values, in order.
    pub const ALL: [Law; 2] = [Law::Printed, Law::Mended];

    /// Word for it in texts and files.
    pub fn word(self) -> &'static str {
        match self {
            Law::Printed => "printed",
            Law::Mended => "mended",
        }
    }
}

/// Bytes handed to the modem in an interval, from begin to end in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    from_ns: i64,
    to_ns: i64,
    bits: f64,
}

/// A measurement beside its prediction from the measurement before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Time that the measurement is about.
    pub at_ns: i64,
    /// Measured wait, ms.
    pub measured_ms: f64,
    /// Predicted wait. `None` for the first measurement, and after an interval whose bytes were not counted.
    pub predicted_ms: Option<f64>,
}

/// Estimator of the hidden queue. It is told of bytes and round trips as they come; all times are on one clock.
#[derive(Clone, Debug)]
pub struct Estimator {
    law: Law,
    /// Capacity, bits a second.
    capacity: f64,
    arrivals: VecDeque<Arrival>,
    base: Base,
    /// Latest measurement: its time, and the waiting bits.
    last: Option<(i64, f64)>,
}

impl Estimator {
    /// Creates an estimator. `capacity` is the link's rate in whole packets, counted as the interface counts them.
    pub fn new(law: Law, capacity: BitsPerSec) -> Estimator {
        Estimator {
            law,
            capacity: capacity.get() as f64,
            arrivals: VecDeque::new(),
            base: match law {
                Law::Printed => Base::Median(Median::default()),
                Law::Mended => Base::Least(VecDeque::new()),
            },
            last: None,
        }
    }

    /// Adds `bytes` handed over between two moments, which follow those of the previous call.
    pub fn counted(&mut self, from_ns: i64, to_ns: i64, bytes: i64) {
        if from_ns < to_ns {
            let bits = bytes as f64 * 8.0;
            self.arrivals.push_back(Arrival {
                from_ns,
                to_ns,
                bits,
            });
        }
    }

    /// Adds an earlier round trip: only the base learns from it.
    pub fn known_before(&mut self, sent_ns: i64, rtt_ns: i64) {
        self.base.with(sent_ns + rtt_ns, rtt_ns);
    }

    /// Adds a probe's round trip, after the bytes handed over until its answer have been counted.
    pub fn measured(&mut self, sent_ns: i64, rtt_ns: i64) -> Compared {
        let answered_ns = sent_ns + rtt_ns;
        let wait_ns = (rtt_ns - self.base.with(answered_ns, rtt_ns)) as f64;
        let at_ns = match self.law {
            Law::Printed => answered_ns,
            Law::Mended => sent_ns,
        };
        let predicted_ms = self.wait_ms(at_ns);
        self.last = Some((at_ns, wait_ns / S * self.capacity));
        while self.arrivals.front().is_some_and(|a| a.to_ns <= at_ns) {
            self.arrivals.pop_front();
        }
        Compared {
            at_ns,
            measured_ms: wait_ns / 1e6,
            predicted_ms,
        }
    }

    /// Wait of a packet handed over at `t_ns`. `None` before the first measurement, and after an interval that was not
    /// counted.
    pub fn wait_ms(&self, t_ns: i64) -> Option<f64> {
        let (mut at, mut bits) = self.last?;
        for a in &self.arrivals {
            if a.to_ns <= at {
                continue;
            }
            if at >= t_ns {
                break;
            }
            if a.from_ns > at {
                return None;
            }
            // Within an interval the bytes are taken to come evenly: the queue is then least at one of its ends.
            let until = a.to_ns.min(t_ns);
            let came = a.bits * (until - at) as f64 / (a.to_ns - a.from_ns) as f64;
            bits += came - self.capacity * (until - at) as f64 / S;
            if self.law == Law::Mended {
                bits = bits.max(0.0);
            }
            at = until;
        }
        (at >= t_ns).then_some(bits / self.capacity * 1e3)
    }

    /// Round trip that is taken for one through an empty queue.
    pub fn base_ms(&self) -> Option<f64> {
        self.base.now().map(|ns| ns as f64 / 1e6)
    }
}

#[derive(Clone, Debug)]
enum Base {
    Median(Median),
    /// Times and values, each value larger than the one before it.
    Least(VecDeque<(i64, i64)>),
}

impl Base {
    fn with(&mut self, t_ns: i64, rtt_ns: i64) -> i64 {
        match self {
            Base::Median(m) => m.add(rtt_ns),
            Base::Least(kept) => {
                while kept.back().is_some_and(|k| k.1 >= rtt_ns) {
                    kept.pop_back();
                }
                kept.push_back((t_ns, rtt_ns));
                while kept.front().is_some_and(|k| k.0 < t_ns - BASE_NS) {
                    kept.pop_front();
                }
            }
        }
        self.now().unwrap_or(rtt_ns)
    }

    fn now(&self) -> Option<i64> {
        match self {
            Base::Median(m) => m.now(),
            Base::Least(kept) => kept.front().map(|k| k.1),
        }
    }
}

/// Running median: the values up to it in one heap, the others in another.
#[derive(Clone, Debug, Default)]
struct Median {
    low: BinaryHeap<i64>,
    high: BinaryHeap<Reverse<i64>>,
}

impl Median {
    fn add(&mut self, value: i64) {
        self.low.push(value);
        let most = self.low.pop();
        self.high.extend(most.map(Reverse));
        if self.high.len() > self.low.len() {
            let least = self.high.pop();
            self.low.extend(least.map(|r| r.0));
        }
    }

    fn now(&self) -> Option<i64> {
        let low = *self.low.peek()?;
        Some(match self.high.peek() {
            Some(Reverse(high)) if self.high.len() == self.low.len() => low + (high - low) / 2,
            _ => low,
        })
    }
}

/// Input for the estimate, from a recording.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Begin, end and bytes of each interval, in the order of time.
    pub handed_over: Vec<(i64, i64, i64)>,
    /// Send time and round trip of each probe.
    pub probes: Vec<(i64, i64)>,
    /// Probes of the hour before. (29) as printed begins with the stretch, the mended base does not.
    pub probes_before: Vec<(i64, i64)>,
    /// True backlog, if known (from a simulation): times and waiting bytes.
    pub truth: Vec<(i64, i64)>,
}

/// Estimates along a recording.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Measurements beside their predictions.
    pub compared: Vec<Compared>,
    /// Estimated wait at the end of each interval, ms.
    pub estimated: Vec<(i64, f64)>,
    /// Estimated less true wait, ms, if the truth is known.
    pub beside_truth: Vec<f64>,
    /// Base round trip at the end, ms.
    pub base_ms: Option<f64>,
}

/// Follows a recording with one answered probe each `every_ns`.
pub fn follow(law: Law, capacity: BitsPerSec, every_ns: i64, seen: &Observed) -> Course {
    let mut estimator = Estimator::new(law, capacity);
    let mut course = Course::default();
    if law == Law::Mended {
        for (sent, rtt) in &seen.probes_before {
            estimator.known_before(*sent, *rtt);
        }
    }
    let mut answers: Vec<(i64, i64)> = Vec::new();
    let mut due = i64::MIN;
    for (sent_ns, rtt_ns) in &seen.probes {
        if *sent_ns >= due {
            due = sent_ns + every_ns - every_ns / 20;
            answers.push((*sent_ns, *rtt_ns));
        }
    }
    answers.sort_by_key(|(sent, rtt)| sent + rtt);
    let mut answers = answers.into_iter().peekable();
    let mut truth = seen.truth.iter().peekable();
    for (from_ns, to_ns, bytes) in &seen.handed_over {
        estimator.counted(*from_ns, *to_ns, *bytes);
        loop {
            let answered = answers.peek().map(|(sent, rtt)| sent + rtt);
            // What is known of a moment is what was answered before it.
            let before = |t: i64| t <= *to_ns && answered.is_none_or(|a| t <= a);
            if let Some((t, waiting)) = truth.next_if(|(t, _)| before(*t)) {
                if let Some(ms) = estimator.wait_ms(*t) {
                    let true_ms = *waiting as f64 * 8.0 / capacity.get() as f64 * 1e3;
                    course.beside_truth.push(ms - true_ms);
                }
            } else if let Some((sent, rtt)) = answers.next_if(|(sent, rtt)| sent + rtt <= *to_ns) {
                course.compared.push(estimator.measured(sent, rtt));
            } else {
                break;
            }
        }
        let ms = estimator.wait_ms(*to_ns);
        course.estimated.extend(ms.map(|ms| (*to_ns, ms)));
    }
    course.base_ms = estimator.base_ms();
    course
}

/// Errors in ms, with the columns of table 21.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Number of errors.
    pub count: u64,
    /// Largest error, ms.
    pub max_ms: f64,
    /// Smallest error, ms.
    pub min_ms: f64,
    /// Mean error, ms.
    pub mean_ms: Figure,
    /// Median error, ms.
    pub median_ms: Figure,
    /// Standard deviation, ms.
    pub sd_ms: f64,
    /// Variance, ms².
    pub variance_ms2: f64,
}

impl Errors {
    /// Summarises `ms`; `None` if it is empty.
    pub fn of(ms: &[f64]) -> Option<Errors> {
        let m = stats::moments(ms)?;
        Some(Errors {
            count: m.n as u64,
            max_ms: m.max,
            min_ms: m.min,
            mean_ms: stats::mean_figure(ms),
            median_ms: stats::quantile_figure(ms, 0.5),
            sd_ms: m.sd,
            variance_ms2: m.sd * m.sd,
        })
    }
}

impl Course {
    /// Predicted less measured waits, ms.
    pub fn errors_ms(&self) -> Vec<f64> {
        let pairs = self.compared.iter();
        pairs
            .filter_map(|c| Some(c.predicted_ms? - c.measured_ms))
            .collect()
    }
}

/// Answer on the hidden queue behind a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenQueue {
    /// Version of the shape, [`HIDDEN_QUEUE_VERSION`].
    pub version: u32,
    /// Name of the recording.
    pub title: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Capacity of the link, bit/s.
    pub capacity_bps: f64,
    /// Source of the capacity.
    pub capacity_from: String,
    /// Interval between two measurements.
    pub every_s: f64,
    /// Results of the printed law, then of the mended one.
    pub laws: Vec<ByLaw>,
}

/// Estimate by one variant of the equations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByLaw {
    /// Variant of the equations.
    pub law: Law,
    /// Base at the end: the round trip taken for one through an empty queue.
    pub base_ms: Option<f64>,
    /// Median and 95 % point of the estimate, one value an interval.
    pub wait_p50_ms: Figure,
    /// 95 % point of the estimate.
    pub wait_p95_ms: Figure,
    /// Predicted less measured, one value a measurement.
    pub error: Option<Errors>,
    /// Estimated less true wait, if the recording knows the queue.
    pub beside_truth: Option<Errors>,
}

impl ByLaw {
    /// Figures of an estimate along a recording.
    pub fn of(law: Law, course: &Course) -> ByLaw {
        let waits: Vec<f64> = course.estimated.iter().map(|e| e.1).collect();
        ByLaw {
            law,
            base_ms: course.base_ms,
            wait_p50_ms: stats::quantile_figure(&waits, 0.5),
            wait_p95_ms: stats::quantile_figure(&waits, 0.95),
            error: Errors::of(&course.errors_ms()),
            beside_truth: Errors::of(&course.beside_truth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// 1 Mbit/s, 20 ms of way: for two seconds nothing, then 1.25 Mbit/s for four, then nothing. Probes each second meet the true
    /// queue. Bytes each 100 ms.
    fn loaded() -> Observed {
        let mut seen = Observed::default();
        let mut bits = 0.0f64;
        for i in 0..100 {
            let t = i * 100 * MS;
            if i % 10 == 0 {
                seen.probes.push((t, 20 * MS + (bits * 1e3) as i64));
            }
            seen.truth.push((t, (bits / 8.0) as i64));
            let bytes = if (20..60).contains(&i) { 15_625 } else { 0 };
            seen.handed_over.push((t, t + 100 * MS, bytes));
            bits = (bits + bytes as f64 * 8.0 - 1e5).max(0.0);
        }
        seen
    }

    fn errors(law: Law, seen: &Observed) -> (Errors, Errors) {
        let course = follow(law, BitsPerSec::from_mbps(1), 1_000 * MS, seen);
        let own = Errors::of(&course.errors_ms()).unwrap();
        (own, Errors::of(&course.beside_truth).unwrap())
    }

    #[test]
    fn a_queue_that_probes_and_bytes_tell_of_is_followed_between_the_measurements() {
        let (own, truth) = errors(Law::Mended, &loaded());
        assert!(own.max_ms < 0.01 && own.min_ms > -0.01, "{own:?}");
        // 25 % too much for four seconds: 1 s of queue at its end, and it is known at every moment.
        assert!(truth.max_ms < 0.01 && truth.min_ms > -0.01, "{truth:?}");
        let course = follow(Law::Mended, BitsPerSec::from_mbps(1), 1_000 * MS, &loaded());
        let most = course.estimated.iter().map(|e| e.1).fold(0.0, f64::max);
        assert!((most - 1000.0).abs() < 0.01, "{most}");
    }

    #[test]
    fn as_printed_the_sum_falls_below_nothing_while_the_line_is_idle() {
        let (own, _) = errors(Law::Printed, &loaded());
        // A second without traffic, less the way of a probe, is foreseen as nearly a second less than nothing.
        assert!(own.min_ms < -950.0, "{own:?}");
    }

    #[test]
    fn as_printed_a_load_that_lasts_becomes_the_base_and_the_error_does_not_show_it() {
        let mut seen = Observed::default();
        for i in 0..600i64 {
            let t = i * 100 * MS;
            let full = i >= 100;
            if i % 10 == 0 {
                let wait = if i > 100 { 400 } else { 0 };
                seen.probes.push((t, (20 + wait) * MS));
            }
            let waiting = if i > 100 { 50_000 } else { 0 };
            seen.truth.push((t, waiting));
            let first = if i == 100 { 50_000 } else { 0 };
            let bytes = if full { 12_500 + first } else { 0 };
            seen.handed_over.push((t, t + 100 * MS, bytes));
        }
        let (_, truth) = errors(Law::Printed, &seen);
        assert!(truth.median_ms.value().unwrap() < -390.0, "{truth:?}");
        let (_, truth) = errors(Law::Mended, &seen);
        assert!(truth.median_ms.value().unwrap().abs() < 1.0, "{truth:?}");
    }

    #[test]
    fn a_stretch_that_begins_under_load_has_the_base_of_before() {
        let mut seen = loaded();
        let begin = 4_000 * MS;
        seen.handed_over.retain(|(from, ..)| *from >= begin);
        seen.truth.retain(|(t, _)| *t >= begin);
        let (before, probes) = seen.probes.iter().partition(|(sent, _)| *sent < begin);
        (seen.probes_before, seen.probes) = (before, probes);
        let (_, truth) = errors(Law::Mended, &seen);
        assert!(truth.max_ms < 0.01 && truth.min_ms > -0.01, "{truth:?}");
        seen.probes_before.clear();
        let (_, truth) = errors(Law::Mended, &seen);
        assert!(truth.min_ms < -400.0, "{truth:?}");
    }

    #[test]
    fn where_bytes_were_not_counted_nothing_is_foreseen() {
        let mut seen = loaded();
        seen.handed_over.retain(|(from, ..)| *from != 3_500 * MS);
        let course = follow(Law::Mended, BitsPerSec::from_mbps(1), 1_000 * MS, &seen);
        let none = course.compared.iter().filter(|c| c.predicted_ms.is_none());
        // The first measurement, and the one after the hole.
        assert_eq!(none.count(), 2);
    }

    #[test]
    fn the_median_of_all_so_far_is_that_of_a_sorted_list() {
        let mut m = Median::default();
        let mut all = Vec::new();
        for i in 0..200i64 {
            let value = (i * 7919) % 211;
            m.add(value);
            all.push(value);
            all.sort_unstable();
            let n = all.len();
            let expected = (all[(n - 1) / 2] + all[n / 2]) / 2;
            assert!((m.now().unwrap() - expected).abs() <= 1);
        }
    }
}
