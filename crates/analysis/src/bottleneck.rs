//! What a phase shows of one direction's bottleneck, put side by side: waits of the probes, waits of the
//! load's own packets, rate, and when the load met congestion. Size and kind of the queue are read off it.
//!
//! **Method.** The load's wait is its smoothed round trip less the base round trip and less the time its
//! own full packet takes on the link. Congestion is where a flow's count of retransmissions grew, or its
//! slow-start threshold fell; what comes within one and a half round trips is one epoch.
//!
//! **Source.** RFC 6298 (smoothed round trip, weight 1/8), RFC 6582 (one reduction a window).
//!
//! **Limits.** A smoothed round trip lags by a few acknowledgements and includes the receiver's delayed
//! acknowledgement, up to one packet's time a flow: differences below that prove nothing.

use crate::answer::Figure;
use crate::clock::ClockFit;
use crate::phases::{self, Phase};
use crate::rate;
use crate::stats;
use base::record::{Delay, Direction, Recording};
use std::collections::BTreeMap;

pub struct Bottleneck {
    pub direction: Direction,
    pub phase: Phase,
    /// (sent ns, wait in this direction in ms) of every probe of the whole phase, warm-up too.
    pub waits: Vec<(i64, f64)>,
    /// (sampled ns, wait of the load's own packets in ms), whole phase.
    pub in_flow: Vec<(i64, f64)>,
    /// Congestion epochs, ns.
    pub epochs: Vec<i64>,
    pub flows: usize,
    pub goodput: Figure,
    pub link_rate: Figure,
    /// Time of one full packet on the link, ms; 0 where the rate is unknown.
    pub packet_ms: f64,
    pub base_rtt_ms: f64,
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
    let srtt: Vec<(i64, f64)> = rows
        .iter()
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
    let mut events: Vec<i64> = Vec::new();
    let mut last: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for f in &rows {
        let (Some(retransmits), threshold) = (f.retransmits, f.ssthresh_bytes.unwrap_or(i64::MAX))
        else {
            continue;
        };
        let before = last.insert(f.flow, (retransmits, threshold));
        // A threshold that falls by a tenth without loss: marks, or a loss that the count does not show yet.
        if before.is_some_and(|(r, s)| retransmits > r || threshold < s.saturating_sub(s / 10)) {
            events.push(f.t_ns);
        }
    }
    let apart = (1.5e6 * loaded_rtt_ms) as i64;
    let mut epochs: Vec<i64> = Vec::new();
    let mut latest = i64::MIN;
    for t in events {
        if t.saturating_sub(latest) > apart || epochs.is_empty() {
            epochs.push(t);
        }
        latest = t;
    }
    Bottleneck {
        direction,
        phase: phase.clone(),
        waits,
        in_flow,
        epochs,
        flows: carried.map_or(0, |c| c.flows),
        goodput,
        link_rate,
        packet_ms,
        base_rtt_ms: base,
        loaded_rtt_ms,
    }
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
    /// before the sender noticed.
    pub fn level_at_epochs(&self, series: &[(i64, f64)]) -> Vec<f64> {
        let back = (1.6e6 * self.loaded_rtt_ms) as i64;
        let most = |t: &i64| {
            let a = series.partition_point(|s| s.0 < t.saturating_sub(back));
            let b = series.partition_point(|s| s.0 <= *t);
            series.get(a..b)?.iter().map(|s| s.1).reduce(f64::max)
        };
        self.epochs.iter().filter_map(most).collect()
    }

    /// The largest value before each epoch since the one before.
    pub fn peaks(&self, series: &[(i64, f64)]) -> Vec<f64> {
        let mut from = self.phase.from_ns;
        let mut found = Vec::new();
        for t in &self.epochs {
            let a = series.partition_point(|s| s.0 < from);
            let b = series.partition_point(|s| s.0 <= *t);
            found.extend(
                series
                    .get(a..b)
                    .and_then(|s| s.iter().map(|s| s.1).reduce(f64::max)),
            );
            from = *t;
        }
        found
    }

    /// The highest level of `series` that is no single outlier.
    pub fn top(&self, series: &[(i64, f64)]) -> Option<f64> {
        stats::quantile_of_sorted(
            &stats::sorted(&series.iter().map(|s| s.1).collect::<Vec<_>>()),
            0.995,
        )
    }
}
