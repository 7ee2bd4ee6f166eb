//! Where data waited beyond the point of capture.

use analysis::answer::{Finding, Severity};
use analysis::passive::{Waiting, finding};
use measure::track::queue::{Waits, waits};
use measure::track::{Quantiles, Traffic};
use std::collections::BTreeMap;

const PACKET_BITS: f64 = 1500.0 * 8.0;

/// Findings, one for each host that data waited on its way to, gravest first; of many hosts the gravest ten.
pub(super) fn findings(traffic: &Traffic) -> Vec<Finding> {
    let mut by_host: BTreeMap<String, Vec<Waits>> = BTreeMap::new();
    for w in waits(&traffic.connections) {
        let c = &traffic.connections[w.connection];
        let to = if w.direction == 0 { c.b } else { c.a };
        by_host.entry(to.ip().to_string()).or_default().push(w);
    }
    let mut found: Vec<(f64, Finding)> = by_host
        .into_iter()
        .filter_map(|(host, all)| {
            let w = summed(traffic, host, &all)?;
            Some((w.p95_ms, finding(&w)?))
        })
        .collect();
    found.sort_by(|(x, f), (y, g)| {
        let bad = |f: &Finding| f.severity != Severity::Bad;
        bad(f).cmp(&bad(g)).then(y.total_cmp(x))
    });
    found.into_iter().map(|(_, f)| f).take(10).collect()
}

fn summed(traffic: &Traffic, towards: String, all: &[Waits]) -> Option<Waiting> {
    let mut waits = Quantiles::default();
    let (mut peak, mut measured) = (0.0f64, 0);
    for w in all {
        waits.merge(&w.waits);
        let half = &traffic.connections[w.connection].halves[w.direction];
        if let Some(d) = half.detail() {
            let rtt = half.rtt.mean_ns().unwrap_or(0.0) as i64;
            peak = peak.max(d.peak_bps(rtt).unwrap_or(0.0));
            measured = measured.max(w.course.len() as i64 * d.course.width_ns);
        }
    }
    let ms = |p| waits.at(p).map(|ns| ns as f64 / 1e6);
    Some(Waiting {
        towards,
        base_ms: all.iter().map(|w| w.base_ns).min()? as f64 / 1e6,
        median_ms: ms(0.5)?,
        p95_ms: ms(0.95)?,
        max_ms: ms(1.0)?,
        packet_ms: if peak > 0.0 {
            PACKET_BITS / peak * 1e3
        } else {
            0.0
        },
        measured_s: measured as f64 / 1e9,
    })
}
