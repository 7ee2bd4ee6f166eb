//! Queues beyond the point of capture in which data waited.

use super::answer::Recorded;
use analysis::answer::{Finding, Severity};
use analysis::passive::{Waiting, finding};
use measure::track::queue::{Steps, Trail, Waits, waits};
use measure::track::{Bin, Connection, Quantiles};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Number of time stretches from which a claim about 95 % of them can be made.
const LEAST_STRETCHES: u64 = 20;
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// Round trips of one direction, and the highest rate that it reached.
#[derive(Clone)]
struct Way<'a> {
    trail: Trail<'a>,
    peak_bps: Option<f64>,
}

/// Findings from tracked connections; see [`findings`].
pub(super) fn of_traffic(connections: &[Connection]) -> Vec<Finding> {
    findings(connections.iter().flat_map(|c| {
        [0, 1].map(|direction| {
            let half = &c.halves[direction];
            let rtt = half.rtt.mean_ns().unwrap_or(0.0) as i64;
            Way {
                trail: Trail::of(c, direction),
                peak_bps: half.detail().and_then(|d| d.peak_bps(rtt)),
            }
        })
    }))
}

/// Findings from a recording.
pub(super) fn of_recorded(directions: &[Recorded]) -> Vec<Finding> {
    findings(directions.iter().map(|d| Way {
        trail: trail(d),
        peak_bps: d.row.peak_bps,
    }))
}

fn trail(d: &Recorded) -> Trail<'_> {
    let r = &d.row;
    let known = |n: i64| u64::try_from(n).unwrap_or(0);
    let course = r.course_ns.map(|begin_ns| {
        let width_ns = d.course.first().map_or(1, |c| c.interval_ns.max(1));
        let mut bins = Vec::new();
        for c in &d.course {
            let at = usize::try_from((c.t_ns - begin_ns) / width_ns).unwrap_or(0);
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
        course,
    }
}

/// Address of an end that is written as `192.0.2.1:80` or `[2001:db8::1]:80`.
fn host(end: &str) -> IpAddr {
    let address = end.rsplit_once(':').map_or(end, |(address, _)| address);
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    bare.parse().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// Findings, gravest first: one for each host to which data waited on the path; at most ten.
fn findings<'a>(ways: impl Iterator<Item = Way<'a>> + Clone) -> Vec<Finding> {
    let all = waits(ways.clone().map(|w| w.trail));
    let mut by_host: BTreeMap<String, Queue> = BTreeMap::new();
    let mut waits = all.iter().peekable();
    for (i, way) in ways.enumerate() {
        if let Some(w) = waits.next_if(|w| w.trail == i) {
            let queue = by_host.entry(way.trail.hosts.1.to_string()).or_default();
            queue.add(w, &way);
        }
    }
    let mut found: Vec<(f64, Finding)> = by_host
        .into_iter()
        .filter_map(|(host, queue)| {
            let w = queue.summed(host)?;
            Some((w.p95_ms, finding(&w)?))
        })
        .collect();
    found.sort_by(|(x, f), (y, g)| {
        let bad = |f: &Finding| f.severity != Severity::Bad;
        bad(f).cmp(&bad(g)).then(y.total_cmp(x))
    });
    found.into_iter().map(|(_, f)| f).take(10).collect()
}

/// Wait of all data towards one host.
#[derive(Default)]
struct Queue {
    waits: Quantiles,
    base_ns: Option<i64>,
    peak_bps: f64,
    measured_ns: i64,
}

impl Queue {
    fn add(&mut self, w: &Waits, way: &Way<'_>) {
        self.waits.merge(&w.waits);
        self.base_ns = Some(self.base_ns.map_or(w.base_ns, |b| b.min(w.base_ns)));
        self.peak_bps = self.peak_bps.max(way.peak_bps.unwrap_or(0.0));
        let width_ns = way.trail.course.as_ref().map_or(0, |c| c.width_ns);
        self.measured_ns = self.measured_ns.max(w.course.len() as i64 * width_ns);
    }

    fn summed(self, towards: String) -> Option<Waiting> {
        // Of fewer, a single one decides where 95 % lie.
        if self.waits.count() < LEAST_STRETCHES {
            return None;
        }
        let ms = |p| self.waits.quantile(p).map(|ns| ns / 1e6);
        Some(Waiting {
            towards,
            base_ms: self.base_ns? as f64 / 1e6,
            median_ms: ms(0.5)?,
            p95_ms: ms(0.95)?,
            max_ms: ms(1.0)?,
            packet_ms: if self.peak_bps > 0.0 {
                PACKET_BITS / self.peak_bps * 1e3
            } else {
                0.0
            },
            measured_s: self.measured_ns as f64 / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_end_is_its_address_without_the_port() {
        assert_eq!(host("192.0.2.1:80"), "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(
            host("[2001:db8::1]:443"),
            "2001:db8::1".parse::<IpAddr>().unwrap()
        );
    }
}
