//! What a phase shows of one direction's bottleneck, put side by side: waits of the probes, waits of the
//! load's own packets, rate, and when the load met congestion. Size and kind of the queue are read off it.
//!
//! **Method.** The load's wait is its smoothed round trip less the base round trip and less the time its
//! own full packet takes on the link. Congestion is where a flow's count of retransmissions grew, or its
//! slow-start threshold fell; what one recovery retransmits is one epoch.
//!
//! **Source.** RFC 6298 (smoothed round trip, weight 1/8), RFC 6582 (one reduction a window).
//!
//! **Limits.** A smoothed round trip lags by a few acknowledgements and includes the receiver's delayed
//! acknowledgement, up to one packet's time a flow and, with small windows, 40 ms: differences below that
//! prove nothing.

use crate::answer::Figure;
use crate::clock::ClockFit;
use crate::phases::{self, Phase};
use crate::rate;
use crate::stats;
use base::record::{Delay, Direction, Flow, Recording, Status};
use std::collections::{BTreeMap, BTreeSet};

pub struct Bottleneck {
    pub direction: Direction,
    pub phase: Phase,
    /// (sent ns, wait in this direction in ms) of every probe of the whole phase, warm-up too.
    pub waits: Vec<(i64, f64)>,
    /// (sampled ns, wait of the load's own packets in ms), whole phase.
    pub in_flow: Vec<(i64, f64)>,
    /// Congestion epochs, ns: when the sample that shows them was taken. `None` where no sender has told yet:
    /// that of a download tells when the load has stopped.
    pub epochs: Option<Vec<i64>>,
    /// Usual distance of two samples of one flow, ns.
    pub sample_ns: i64,
    pub flows: usize,
    /// Share of the steady part's seconds in which flows delivered something, each flow by itself.
    pub busy: f64,
    pub goodput: Figure,
    pub link_rate: Figure,
    /// How much the rate of the full link moves, as a share; see [`rate::moves`].
    pub rate_moves: Option<f64>,
    /// Time of one full packet on the link, ms; 0 where the rate is unknown.
    pub packet_ms: f64,
    pub base_rtt_ms: f64,
    /// Probes sent while this direction was not loaded, and those of them that it lost: by the line itself.
    pub unloaded: (u64, u64),
    /// Median round trip of the load's packets in the steady part, ms.
    pub loaded_rtt_ms: f64,
}

/// The wait of a probe in `direction`: from one-way delays, or, where those are unknown and only this
/// direction is loaded, from the round trip.
pub fn wait_ms(
    d: &Delay,
    clock: Option<&ClockFit>,
    direction: Direction,
    phase: &Phase,
    base_rtt_ms: Option<f64>,
) -> Option<f64> {
    match clock {
        Some(fit) => fit.waits(d).map(|w| match direction {
            Direction::Up => w.up_ms,
            Direction::Down => w.down_ms,
        }),
        None if phase.loads(direction) && phase.name != "both" => {
            Some((phases::rtt_ms(d)? - base_rtt_ms?).max(0.0))
        }
        None => None,
    }
}

pub fn bottleneck(
    rec: &Recording,
    phase: &Phase,
    direction: Direction,
    clock: Option<&ClockFit>,
    base_rtt_ms: Option<f64>,
    probe_ip_bytes: f64,
) -> Bottleneck {
    let probes = phases::probes(rec, "udp", phase.whole());
    let mut waits: Vec<(i64, f64)> = probes
        .iter()
        .filter_map(|d| Some((d.sent_ns, wait_ms(d, clock, direction, phase, base_rtt_ms)?)))
        .collect();
    waits.sort_by_key(|w| w.0);
    let steady = phase.steady();
    let sent = probes
        .iter()
        .filter(|d| crate::loss::was_sent(d) && steady.contains(&d.sent_ns))
        .count() as f64;
    let seconds = (phase.to_ns.saturating_sub(phase.warm_ns) as f64 / 1e9).max(1e-3);
    let mss = rate::mss(rec, direction, phase.whole());
    let carried = rate::carried(rec, direction, steady.clone());
    let (goodput, link_rate) = match &carried {
        Some(c) => (
            c.goodput(),
            rate::link_rate(c, mss, &waits, sent / seconds * probe_ip_bytes * 8.0),
        ),
        None => {
            let why = format!(
                "the load in direction {direction} was sampled for less than half a second of the phase \"{}\"",
                phase.name
            );
            (Figure::cannot_tell(why.clone()), Figure::cannot_tell(why))
        }
    };
    let packet_ms = link_rate
        .value()
        .filter(|r| *r > 0.0)
        .map_or(0.0, |r| (mss + rate::header_bytes(mss)) * 8e3 / r);
    let base = base_rtt_ms.unwrap_or(0.0);
    let rows = phases::flows(rec, direction, phase.whole());
    let moved = moving(&rows);
    let seconds_of = |rows: &[&Flow]| {
        let steady = rows.iter().filter(|f| steady.contains(&f.t_ns));
        let seconds: BTreeSet<_> = steady.map(|f| (f.flow, f.t_ns / 1_000_000_000)).collect();
        seconds.len()
    };
    let busy = seconds_of(&moved) as f64 / seconds_of(&rows).max(1) as f64;
    let srtt: Vec<(i64, f64)> = moved
        .into_iter()
        .filter_map(|f| Some((f.t_ns, f.srtt_ns.filter(|v| *v > 0)? as f64 / 1e6)))
        .collect();
    let in_flow = match base_rtt_ms {
        Some(base) => srtt
            .iter()
            .map(|(t, ms)| (*t, (ms - base - packet_ms).max(0.0)))
            .collect(),
        None => Vec::new(),
    };
    let late: Vec<f64> = srtt
        .iter()
        .filter(|(t, _)| steady.contains(t))
        .map(|s| s.1)
        .collect();
    let probed: Vec<f64> = waits
        .iter()
        .filter(|(t, _)| steady.contains(t))
        .map(|w| w.1 + base)
        .collect();
    let median = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5);
    let loaded_rtt_ms = median(&late).or_else(|| median(&probed)).unwrap_or(base);
    let sample_ns = sampling_interval(&rows);
    let told = rows.iter().any(|f| f.retransmits.is_some());
    let apart = ((2e6 * loaded_rtt_ms) as i64).saturating_add(2 * sample_ns);
    let epochs = told.then(|| epochs(&rows, apart));
    let congested = epochs.as_ref().is_some_and(|e| !e.is_empty());
    let steady_waits: Vec<f64> = waits
        .iter()
        .filter(|(t, _)| steady.contains(t))
        .map(|w| w.1)
        .collect();
    let link_rate = match link_rate {
        Figure::Is { value, .. } if !congested && !stands(&steady_waits, packet_ms) => {
            Figure::cannot_tell(format!(
                "the load did not fill the line: its rate is {:.3} Mbit/s or more",
                value / 1e6
            ))
        }
        rate => rate,
    };
    let rate_moves = carried
        .as_ref()
        .and_then(|c| rate::moves(c, &waits, packet_ms, loaded_rtt_ms));
    Bottleneck {
        direction,
        phase: phase.clone(),
        waits,
        in_flow,
        epochs,
        sample_ns,
        flows: carried.map_or(0, |c| c.flows),
        busy,
        goodput,
        link_rate,
        rate_moves,
        packet_ms,
        base_rtt_ms: base,
        unloaded: unloaded(rec, phase, direction),
        loaded_rtt_ms,
    }
}

fn unloaded(rec: &Recording, phase: &Phase, direction: Direction) -> (u64, u64) {
    let list = phases::phases(rec, None);
    let mut ranges: Vec<_> = list
        .iter()
        .filter(|p| !p.loads(direction))
        .map(Phase::steady)
        .collect();
    if ranges.is_empty() {
        ranges.push(i64::MIN..phase.from_ns);
    }
    let other = match direction {
        Direction::Up => Status::LostDown,
        Direction::Down => Status::LostUp,
    };
    let (mut sent, mut lost) = (0, 0);
    for d in ranges
        .into_iter()
        .flat_map(|range| phases::probes(rec, "udp", range))
    {
        sent += u64::from(crate::loss::was_sent(d));
        lost += u64::from(crate::loss::is_lost(d.status) && d.status != other);
    }
    (sent, lost)
}

/// Whether a queue stood all the time: nine of ten probes found at least half a packet before them. A load
/// that neither met congestion nor kept a queue may be far below the line's rate.
fn stands(waits: &[f64], packet_ms: f64) -> bool {
    let found = waits.iter().filter(|w| **w > 0.5 * packet_ms).count();
    !waits.is_empty() && found * 10 >= waits.len() * 9
}

/// Samples of flows that have delivered something since their last one: a flow at rest still tells the
/// smoothed round trip that it had.
fn moving<'a>(rows: &[&'a Flow]) -> Vec<&'a Flow> {
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for f in rows {
        let bytes = f.delivered_bytes.or(f.bytes_acked).or(f.bytes_received);
        let before = bytes.and_then(|now| last.insert(f.flow, now));
        if bytes.is_none() || before != bytes {
            found.push(*f);
        }
    }
    found
}

fn sampling_interval(rows: &[&Flow]) -> i64 {
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let mut gaps: Vec<f64> = Vec::new();
    for f in rows.iter().filter(|f| f.retransmits.is_some()) {
        if let Some(before) = last.insert(f.flow, f.t_ns) {
            gaps.push(f.t_ns.saturating_sub(before) as f64);
        }
    }
    stats::quantile_of_sorted(&stats::sorted(&gaps), 0.5).map_or(0, |g| g.clamp(0.0, 2e9) as i64)
}

/// When each flow met congestion. Retransmissions of one recovery follow each other within `apart` ns and
/// leave the threshold alone; one that lasts longer than four times that is another loss.
fn epochs(rows: &[&Flow], apart: i64) -> Vec<i64> {
    struct Last {
        retransmits: i64,
        threshold: Option<i64>,
        began: i64,
        latest: i64,
    }
    let mut flows: BTreeMap<i64, Last> = BTreeMap::new();
    let mut found = Vec::new();
    for f in rows {
        let Some(retransmits) = f.retransmits else {
            continue;
        };
        let Some(last) = flows.get_mut(&f.flow) else {
            flows.insert(
                f.flow,
                Last {
                    retransmits,
                    threshold: f.ssthresh_bytes,
                    began: i64::MIN,
                    latest: i64::MIN,
                },
            );
            continue;
        };
        let fell = matches!((last.threshold, f.ssthresh_bytes), (Some(before), Some(now)) if now < before - before / 10);
        if retransmits > last.retransmits || fell {
            let same = f.t_ns.saturating_sub(last.latest) <= apart
                && f.t_ns.saturating_sub(last.began) <= apart.saturating_mul(4)
                && last.threshold == f.ssthresh_bytes;
            if !same {
                found.push(f.t_ns);
                last.began = f.t_ns;
            }
            last.latest = f.t_ns;
        }
        (last.retransmits, last.threshold) = (retransmits, f.ssthresh_bytes);
    }
    found.sort_unstable();
    found
}

impl Bottleneck {
    /// Values of `series` within the steady part.
    pub fn steady(&self, series: &[(i64, f64)]) -> Vec<f64> {
        let range = self.phase.steady();
        series
            .iter()
            .filter(|(t, _)| range.contains(t))
            .map(|s| s.1)
            .collect()
    }

    /// Means of `waits` and `in_flow` in the same stretches of time, each long enough for the smoothed round
    /// trip to have caught up: (mean wait of probes, mean wait of the load's packets).
    pub fn side_by_side(&self) -> Vec<(f64, f64)> {
        let length = ((2.0 * self.loaded_rtt_ms).max(500.0) * 1e6) as i64;
        let count =
            (self.phase.to_ns.saturating_sub(self.phase.from_ns) / length.max(1)).clamp(0, 10_000);
        let mean = |series: &[(i64, f64)], from: i64| {
            let a = series.partition_point(|s| s.0 < from);
            let b = series.partition_point(|s| s.0 < from.saturating_add(length));
            stats::moments(
                series
                    .get(a..b)?
                    .iter()
                    .map(|s| s.1)
                    .collect::<Vec<_>>()
                    .as_slice(),
            )
            .map(|m| m.mean)
        };
        (0..count)
            .filter_map(|i| {
                let from = self.phase.from_ns.saturating_add(i * length);
                Some((mean(&self.waits, from)?, mean(&self.in_flow, from)?))
            })
            .collect()
    }

    /// What packets waited when each congestion epoch began: the most within the round trip and a half
    /// before the sender noticed. `apart` says that the load stands in queues of its own; otherwise the
    /// probes tell, and the load's own packets help out where probes are sparse.
    pub fn levels(&self, apart: bool) -> Vec<f64> {
        self.levels_at(self.epochs.iter().flatten().copied(), apart)
    }

    /// The same at any times.
    pub fn levels_at(&self, times: impl Iterator<Item = i64>, apart: bool) -> Vec<f64> {
        let back = ((1.6e6 * self.loaded_rtt_ms) as i64).saturating_add(self.sample_ns);
        let seen = |series: &[(i64, f64)], t: i64| {
            let a = series.partition_point(|s| s.0 < t.saturating_sub(back));
            let b = series.partition_point(|s| s.0 <= t);
            let within = series.get(a..b).unwrap_or_default();
            (within.len(), within.iter().map(|s| s.1).reduce(f64::max))
        };
        // Delayed acknowledgements make the load's samples longer, never the probes': none is believed above these.
        let most = if self.waits.len() >= 30 {
            self.top(&self.waits).unwrap_or(f64::INFINITY)
        } else {
            f64::INFINITY
        };
        let trusted = |load: f64| (load - self.packet_ms).max(0.0).min(most);
        let level = |t: i64| {
            let (_, load) = seen(&self.in_flow, t);
            let (probes, probe) = seen(&self.waits, t);
            match (probe, load) {
                (_, load) if apart => load,
                (Some(p), _) if probes >= 8 => Some(p),
                (Some(p), Some(l)) => Some(p.max(trusted(l))),
                (p, l) => p.or(l.map(trusted)),
            }
        };
        times.filter_map(level).collect()
    }

    /// The highest level of `series` that is no single outlier.
    pub fn top(&self, series: &[(i64, f64)]) -> Option<f64> {
        stats::quantile_of_sorted(
            &stats::sorted(&series.iter().map(|s| s.1).collect::<Vec<_>>()),
            0.995,
        )
    }
}
