//! Queues on either side of the point of capture in which packets waited.

use super::answer::Recorded;
use analysis::answer::{Finding, Severity};
use analysis::passive::{Waiting, Way, finding};
use base::record;
use measure::track::ages::Ages;
use measure::track::queue::{Aged, Steps, Trail, Waited, waits};
use measure::track::{Bin, Connection, Quantiles};
use stats::Figure;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// Number of time stretches from which a claim about 95 % of them can be made.
const LEAST_STRETCHES: u64 = 20;
/// Time after which a wait says something new, ns: queues fill and empty over several round trips.
const INDEPENDENT_NS: f64 = 250e6;
/// Error of a quantile of many waits.
const SKETCH: f64 = 0.008;
/// Half-width of the 95 % interval of a normal variable, in standard deviations.
const Z95: f64 = 1.96;
/// Greatest number of bins of a course.
const BINS: usize = 1024;
/// Seconds in which a way must have been seen empty: a queue that stood all the time was at its least once or twice.
const EMPTY_S: usize = 6;
/// Times by which a way was oftener empty than nearly so. A queue that turns before it is empty is as often at one height as
/// at the next.
const EMPTY_TIMES: u64 = 2;

/// Waits in tracked connections; see [`all`].
pub(super) fn of_traffic(connections: &[Connection]) -> Vec<Waiting> {
    all(connections
        .iter()
        .flat_map(|c| [0, 1].map(|direction| Trail::of(c, direction))))
}

/// Waits in a recording.
pub(super) fn of_recorded(directions: &[Recorded]) -> Vec<Waiting> {
    all(directions.iter().map(trail))
}

fn trail(d: &Recorded) -> Trail<'_> {
    let r = &d.row;
    let known = |n: i64| u64::try_from(n).unwrap_or(0);
    let course = r.course_ns.map(|begin_ns| {
        let width_ns = d.course.first().map_or(1, |c| c.interval_ns.max(1));
        let mut bins = Vec::new();
        for c in &d.course {
            let Some(at) = bin_of(c, begin_ns, width_ns) else {
                continue;
            };
            bins.resize(bins.len().max(at + 1), Bin::default());
            let n = c.rtt_samples.clamp(0, i64::from(u32::MAX));
            bins[at] = Bin {
                fresh_bytes: known(c.fresh_bytes),
                again_bytes: known(c.again_bytes),
                acked_bytes: known(c.acked_bytes),
                in_flight_max: known(c.in_flight_max_bytes),
                rtt_count: n as u32,
                rtt_min_ns: c.rtt_min_ns.unwrap_or(0),
                rtt_max_ns: c.rtt_max_ns.unwrap_or(0),
                rtt_sum_ns: c.rtt_mean_ns.unwrap_or(0).saturating_mul(n),
                prompt_count: known(c.prompt_samples.unwrap_or(0)) as u32,
                prompt_sum_ns: c
                    .prompt_mean_ns
                    .unwrap_or(0)
                    .saturating_mul(c.prompt_samples.unwrap_or(0)),
                ..Bin::default()
            };
        }
        Steps {
            begin_ns,
            width_ns,
            bins: Cow::Owned(bins),
        }
    });
    Trail {
        hosts: (host(&r.source), host(&r.destination)),
        first_ns: r.first_ns,
        samples: known(r.rtt_samples),
        outside_ns: match course {
            Some(_) => r.rtt_before_ns,
            None => r.rtt_min_ns,
        },
        ages: Aged::Known([
            ages(d, r.data_clock_error_ns, |c| c.data_age_ns),
            ages(d, r.answer_clock_error_ns, |c| c.answer_age_ns),
        ]),
        course,
    }
}

/// Number of a row's bin. A course has at most 1024 of them; a recording may claim anything.
fn bin_of(c: &record::Course, begin_ns: i64, width_ns: i64) -> Option<usize> {
    let since_ns = c.t_ns.checked_sub(begin_ns)?;
    usize::try_from(since_ns / width_ns)
        .ok()
        .filter(|at| *at < BINS)
}

/// Ages of packets whose clock has this error, by the bins of the course.
fn ages(
    d: &Recorded,
    error_ns: Option<i64>,
    of: impl Fn(&record::Course) -> Option<i64>,
) -> Option<Ages> {
    let (error_ns, begin_ns) = (error_ns?, d.row.course_ns?);
    let width_ns = d.course.first()?.interval_ns.max(1);
    let mut bins = Vec::new();
    for c in &d.course {
        let Some(at) = bin_of(c, begin_ns, width_ns) else {
            continue;
        };
        bins.resize(bins.len().max(at + 1), None);
        bins[at] = of(c);
    }
    Some(Ages { error_ns, bins })
}

/// Address of an end that is written as `192.0.2.1:80` or `[2001:db8::1]:80`.
fn host(end: &str) -> IpAddr {
    let address = end.rsplit_once(':').map_or(end, |(address, _)| address);
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    bare.parse().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// Findings on the waits, gravest first; at most ten.
pub(super) fn findings(waits: &[Waiting]) -> Vec<Finding> {
    let mut found: Vec<Finding> = waits.iter().filter_map(finding).collect();
    found.sort_by_key(|f| f.severity != Severity::Bad);
    found.truncate(10);
    found
}

/// Waits on each way to and from each host, the longest first.
fn all<'a>(trails: impl Iterator<Item = Trail<'a>> + Clone) -> Vec<Waiting> {
    let waits = waits(trails.clone());
    let mut ways: BTreeMap<(String, Way), Queue> = BTreeMap::new();
    let mut waits = waits.iter().peekable();
    for (i, trail) in trails.enumerate() {
        let Some(w) = waits.next_if(|w| w.trail == i) else {
            continue;
        };
        let (from, to) = trail.hosts;
        let [data_error, ack_error] = w.error_ns;
        let [before_ns, beyond_ns] = trail.packet_ns();
        let mut add = |host: IpAddr, way, waited: &Waited, error_ns| {
            let queue = ways.entry((host.to_string(), way)).or_default();
            let packet_ns = match way {
                Way::From => before_ns,
                _ => beyond_ns,
            };
            queue.add(waited, &trail, packet_ns);
            queue.error_ns = queue.error_ns.max(error_ns);
            if matches!(way, Way::Towards | Way::RoundTrip) {
                queue.base_ns = queue.base_ns.into_iter().chain(w.base_ns).min();
            }
        };
        match (&w.towards, &w.answers, &w.round) {
            (Some(towards), Some(answers), _) => {
                add(to, Way::Towards, towards, ack_error);
                add(to, Way::AcksFrom, answers, ack_error);
            }
            (_, _, Some(round)) => add(to, Way::RoundTrip, round, 0),
            _ => {}
        }
        if let Some(before) = &w.before {
            add(from, Way::From, before, data_error);
        }
    }
    // Data tells more of a queue than the ACKs in it.
    let with_data: BTreeSet<String> = (ways.keys())
        .filter(|(_, way)| *way == Way::From)
        .map(|(host, _)| host.clone())
        .collect();
    ways.retain(|(host, way), _| *way != Way::AcksFrom || !with_data.contains(host));
    let mut all: Vec<Waiting> = ways
        .into_iter()
        .filter_map(|((host, way), queue)| queue.summed(host, way))
        .collect();
    all.sort_by(|a, b| {
        let p95 = |w: &Waiting| w.p95_ms.value().unwrap_or(0.0);
        p95(b).total_cmp(&p95(a))
    });
    all
}

/// Wait of all packets on one way.
#[derive(Default)]
struct Queue {
    waits: Quantiles,
    most: Quantiles,
    longer: Quantiles,
    filled: u64,
    base_ns: Option<i64>,
    error_ns: i64,
    packet_ns: i64,
    empty: BTreeSet<i64>,
    near: [u64; 2],
    measured_ns: i64,
}

impl Queue {
    fn add(&mut self, w: &Waited, trail: &Trail<'_>, packet_ns: i64) {
        self.waits.merge(&w.waits);
        self.most.merge(&w.most);
        self.longer.merge(&w.longer);
        self.filled = self.filled.saturating_add(w.filled);
        self.empty.extend(&w.empty);
        for (sum, near) in self.near.iter_mut().zip(w.near) {
            *sum = sum.saturating_add(near);
        }
        self.packet_ns = match (self.packet_ns, packet_ns) {
            (0, one) | (one, 0) => one,
            (a, b) => a.min(b),
        };
        let width_ns = trail.course.as_ref().map_or(0, |c| c.width_ns);
        self.measured_ns = self.measured_ns.max(w.course.len() as i64 * width_ns);
    }

    /// True if the least wait is that of an empty way.
    fn was_empty(&self) -> bool {
        let [empty, nearly] = self.near;
        self.empty.len() >= EMPTY_S && empty >= EMPTY_TIMES.saturating_mul(nearly)
    }

    fn summed(self, host: String, way: Way) -> Option<Waiting> {
        // Of fewer, a single one decides where 95 % lie.
        if self.waits.count() < LEAST_STRETCHES {
            return None;
        }
        let error_ms = self.error_ns as f64 / 1e6;
        let ms = |of: &Quantiles, p| of.quantile(p).map(|ns| ns / 1e6);
        // Stretches without a sample of their own may have waited less, or longer.
        let filled = self.filled as f64 / self.waits.count().max(1) as f64 / 2.0;
        let independent = (self.measured_ns as f64 / INDEPENDENT_NS).max(1.0);
        let figure = |p: f64| {
            let reach = Z95 * (p * (1.0 - p) / independent).sqrt() + p.min(1.0 - p) * filled;
            let least = ms(&self.waits, p - reach)?.min(ms(&self.longer, p - reach)?);
            Some(Figure::Is {
                value: ms(&self.waits, p)?,
                low: (least * (1.0 - SKETCH) - error_ms).max(0.0),
                high: ms(&self.most, p + reach)? * (1.0 + SKETCH) + error_ms,
            })
        };
        Some(Waiting {
            host,
            way,
            base_ms: self.base_ns.map(|ns| ns as f64 / 1e6),
            median_ms: figure(0.5)?,
            p95_ms: figure(0.95)?,
            max_ms: ms(&self.waits, 1.0)?,
            packet_ms: self.packet_ns as f64 / 1e6,
            at_least: !self.was_empty(),
            measured_s: self.measured_ns as f64 / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_turns_before_it_is_empty_was_not_seen_empty() {
        let was_empty = |seconds: i64, near| {
            let queue = Queue {
                empty: (0..seconds).collect(),
                near,
                ..Queue::default()
            };
            queue.was_empty()
        };
        assert!(was_empty(6, [40, 20]));
        assert!(!was_empty(5, [40, 20]), "too few seconds");
        assert!(!was_empty(60, [40, 21]), "as often nearly empty");
    }

    #[test]
    fn the_host_of_an_end_is_its_address_without_the_port() {
        assert_eq!(host("192.0.2.1:80"), "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(
            host("[2001:db8::1]:443"),
            "2001:db8::1".parse::<IpAddr>().unwrap()
        );
    }
}
