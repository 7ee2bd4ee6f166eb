//! Errors of the instrument itself, and cross traffic beside the test.
//!
//! **Method.** Missed slots, lateness, the hosts' own share of the delay and the load of the processors are compared
//! with limits. Beyond a limit, the run says why it should be doubted. Cross traffic is the interface's traffic less
//! that of the test's own flows and probes.
//!
//! **Source.** field notes on peers: none of them says how much delay its own host added.
//!
//! **Limits.** The test's own share on the interface is known to about a tenth (pure acknowledgements,
//! fresh connections): less than that, or than 8 kbit/s, counts as none.

use crate::answer::Instrument;
use crate::host_load::{BUSY, HostSamples, HostSummary};
use crate::phases::{self, Phase};
use crate::rate;
use base::record::{Direction, Origin, Recording, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Errors and limits of the instrument in a recording.
pub fn instrument(rec: &Recording, base_rtt_ms: Option<f64>) -> Instrument {
    let probes = phases::own_probes(rec, i64::MIN..i64::MAX);
    let planned = probes
        .iter()
        .filter(|d| d.status != Status::Duplicate)
        .count() as u64;
    let sent = probes.iter().filter(|d| d.status.was_sent()).count() as u64;
    let ms = |v: Option<i64>| v.map(|v| v as f64 / 1e6);
    let added: Vec<f64> = probes.iter().filter_map(|d| ms(d.host_ns)).collect();
    let late: Vec<f64> = probes
        .iter()
        .filter(|d| d.status.was_sent())
        .filter_map(|d| ms(d.late_send_ns))
        .collect();
    let host_share = stats::delays(&added, "no probe carried the hosts' own times");
    let late_send = stats::delays(&late, "no probe carried its lateness");
    let host = host(rec);
    let cpu_max = host.as_ref().and_then(|h| Some(h.cpu?.most));
    let invalid = probes
        .iter()
        .filter(|d| d.status == Status::Invalid)
        .count() as u64;
    let mut instrument = Instrument {
        probes_planned: planned,
        probes_sent: sent,
        missed_slots: planned - sent,
        host_share,
        late_send,
        cpu_max,
        host,
        doubts: Vec::new(),
    };
    instrument.doubts = doubts(rec, &instrument, invalid, base_rtt_ms);
    instrument
}

/// Load of this host's processors throughout the recording.
fn host(rec: &Recording) -> Option<HostSummary> {
    let mut samples = HostSamples::default();
    rec.host.iter().for_each(|row| samples.add(row));
    samples.summary()
}

/// Parts of the processors' load where they are known, such as ` (at most: user 20 %, system 60 %)`.
fn parts(host: Option<&HostSummary>) -> String {
    let of = |h: &HostSummary| {
        let parts = [
            ("user", h.cpu_user),
            ("system", h.cpu_system),
            ("interrupts", h.cpu_interrupt),
        ];
        let known = parts.into_iter().filter_map(|(name, shares)| {
            let most = shares?.most;
            Some(format!("{name} {:.0} %", most * 100.0))
        });
        known.collect::<Vec<String>>().join(", ")
    };
    match host.map(of) {
        Some(known) if !known.is_empty() => format!(" (at most: {known})"),
        _ => String::new(),
    }
}

/// Reasons to doubt small figures, each a sentence.
fn doubts(
    rec: &Recording,
    seen: &Instrument,
    invalid: u64,
    base_rtt_ms: Option<f64>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let (missed, planned, sent) = (seen.missed_slots, seen.probes_planned, seen.probes_sent);
    if missed * 100 > planned {
        doubts.push(format!(
            "{missed} of {planned} probes were not sent in time: this host was too busy"
        ));
    }
    if invalid * 100 > sent {
        doubts.push(format!(
            "{invalid} of {sent} answers had times that cannot be right: did a clock step?"
        ));
    }
    if let (Some(share), Some(base)) = (seen.host_share.p95_ms.value(), base_rtt_ms)
        && share > 1.0
        && share > 0.2 * base
    {
        doubts.push(format!("the hosts added {share:.1} ms (95 % point) themselves; it was subtracted, but the load suffers from it too"));
    }
    if let Some(late) = seen.late_send.p99_ms.value().filter(|l| *l > 5.0) {
        doubts.push(format!("probes left up to {late:.1} ms late (99 % point)"));
    }
    if let Some(cpu) = seen.cpu_max.filter(|c| *c > BUSY) {
        doubts.push(format!(
            "the processors of this host were {:.0} % busy at times{}",
            cpu * 100.0,
            parts(seen.host.as_ref())
        ));
    }
    let failed: BTreeSet<&str> = (rec.event.iter())
        .filter(|e| &*e.kind == "fault" && e.subject.starts_with("flow "))
        .map(|e| &*e.subject)
        .collect();
    let first = (rec.event.iter()).find(|e| &*e.kind == "fault" && e.subject.starts_with("flow "));
    if let Some(first) = first {
        doubts.push(format!(
            "{} flows of the loads failed, the first: {}",
            failed.len(),
            first.detail
        ));
    }
    let told = rec.event.iter().filter(|e| &*e.kind == "doubt");
    doubts.extend(told.map(|e| e.detail.to_string()));
    for x in &rec.meta.exclusions {
        doubts.push(format!(
            "{:.1} s are left out: {}",
            x.to_ns.saturating_sub(x.from_ns) as f64 / 1e9,
            x.reason
        ));
    }
    doubts
}

/// Bytes of loads that may have passed the interface within `range` without being counted as carried: the growth of the
/// uploads' windows, and downloaded data that wait behind a hole.
fn uncounted(rec: &Recording, range: &Range<i64>) -> f64 {
    let mut flows: BTreeMap<(i64, bool), (i64, i64)> = BTreeMap::new();
    for direction in [Direction::Up, Direction::Down] {
        for f in phases::flows(rec, direction, range.clone()) {
            if let Some(cwnd) = f.cwnd_bytes {
                let least = if direction == Direction::Up { cwnd } else { 0 };
                let seen = flows
                    .entry((f.flow, direction == Direction::Up))
                    .or_insert((least, cwnd));
                *seen = (seen.0.min(least), seen.1.max(cwnd));
            }
        }
    }
    flows
        .values()
        .map(|(least, most)| (*most as f64 - *least as f64).max(0.0))
        .sum()
}

/// Segments of loads in `direction` that were retransmitted within `range`. Uploads send these through the interface
/// twice; of downloads it is not known which arrive twice.
fn retransmitted(rec: &Recording, direction: Direction, range: &Range<i64>) -> f64 {
    let mut flows: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for f in phases::flows(rec, direction, range.clone()) {
        if let Some(n) = f.retransmits {
            let (first, last) = flows.entry(f.flow).or_insert((n, n));
            (*first, *last) = ((*first).min(n), (*last).max(n));
        }
    }
    flows
        .values()
        .map(|(first, last)| *last as f64 - *first as f64)
        .sum()
}

/// True if nobody but the test reaches the link: `tailback test` over a link that it emulates itself.
fn is_private(rec: &Recording) -> bool {
    rec.meta.origin == Origin::Emulated && rec.meta.verb == "test"
}

/// Rate of cross traffic on the busiest interface in the steady part of a phase; `None` if no interface was watched, or
/// if the link's queues held an earlier load for most of it. From `drained` on they do not. A private link has none,
/// whatever the test's own share leaves open.
pub fn cross_traffic_bps(
    rec: &Recording,
    phase: &Phase,
    drained: Option<i64>,
    probe_ip_bytes: f64,
) -> Option<f64> {
    let range = phase.warm_ns.max(drained.unwrap_or(phase.warm_ns))..phase.to_ns;
    let mut interfaces: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for t in rec
        .traffic
        .iter()
        // An interval that began before the phase holds traffic of whatever came before it.
        .filter(|t| {
            t.interval_ns > 0
                && range.contains(&t.t_ns)
                && range.contains(&t.t_ns.saturating_sub(t.interval_ns))
        })
    {
        if let (Some(rx), Some(tx)) = (t.rx_bytes, t.tx_bytes) {
            let sum = interfaces.entry(&t.interface).or_default();
            sum.0 += rx.max(0) as f64 + tx.max(0) as f64;
            sum.1 += t.interval_ns as f64 / 1e9;
        }
    }
    let (bytes, seconds) = interfaces
        .into_values()
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    if is_private(rec) {
        return Some(0.0);
    }
    let span = |range: &Range<i64>| range.end.saturating_sub(range.start);
    if drained.is_none() || span(&range) < span(&phase.steady()) / 2 {
        return None;
    }
    let own = |direction| {
        let mss = rate::mss(rec, direction, phase.whole());
        // The load's segments, and one pure acknowledgement for two of them the other way.
        let per_segment = mss
            + rate::header_bytes(mss)
            + LINK_HEADER
            + (rate::header_bytes(mss) + LINK_HEADER) / 2.0;
        let again = match direction {
            Direction::Up => retransmitted(rec, direction, &range),
            Direction::Down => 0.0,
        };
        rate::carried(rec, direction, range.clone())
            .filter(|c| c.seconds() > 0.0)
            .map_or(0.0, |c| {
                (c.bytes() / mss + again) * per_segment / c.seconds()
            })
    };
    let probes = phases::own_probes(rec, range.clone())
        .iter()
        .filter(|d| d.status.was_sent())
        .count() as f64;
    let length = range.end.saturating_sub(range.start) as f64 / 1e9;
    let own = own(Direction::Up)
        + own(Direction::Down)
        + probes / length.max(1e-3) * (probe_ip_bytes + LINK_HEADER) * 2.0;
    let others = bytes / seconds - own;
    let mss = rate::mss(rec, Direction::Down, phase.whole());
    let twice =
        retransmitted(rec, Direction::Down, &range) * (mss + rate::header_bytes(mss) + LINK_HEADER);
    let growth = (uncounted(rec, &range) + twice) / length.max(1e-3);
    Some(if others > 0.1 * own + growth + 1_000.0 {
        others * 8.0
    } else {
        0.0
    })
}

/// Rate in `direction` on the busiest interface that the test's own segments and probes do not account for, if it
/// exceeds their uncertainty; `None` if no interface was watched.
pub fn unexplained_bps(
    rec: &Recording,
    phase: &Phase,
    direction: Direction,
    probe_ip_bytes: f64,
) -> Option<f64> {
    let range = phase.steady();
    let mut interfaces: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for t in rec.traffic.iter().filter(|t| {
        t.interval_ns > 0
            && range.contains(&t.t_ns)
            && range.contains(&t.t_ns.saturating_sub(t.interval_ns))
    }) {
        let bytes = match direction {
            Direction::Up => t.tx_bytes,
            Direction::Down => t.rx_bytes,
        };
        if let Some(bytes) = bytes {
            let sum = interfaces.entry(&t.interface).or_default();
            *sum = (
                sum.0 + bytes.max(0) as f64,
                sum.1 + t.interval_ns as f64 / 1e9,
            );
        }
    }
    let (bytes, seconds) = interfaces
        .into_values()
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let carried = rate::carried(rec, direction, range.clone()).filter(|c| c.seconds() > 0.0)?;
    let mss = rate::mss(rec, direction, phase.whole());
    let full = mss + rate::header_bytes(mss) + LINK_HEADER;
    let again = retransmitted(rec, direction, &range);
    let (sent_twice, perhaps) = match direction {
        Direction::Up => (again, 0.0),
        Direction::Down => (0.0, again),
    };
    let segments = (carried.bytes() / mss + sent_twice) * full / carried.seconds();
    let probes = phases::own_probes(rec, range)
        .iter()
        .filter(|d| d.status.was_sent())
        .count() as f64;
    let length = phase.to_ns.saturating_sub(phase.warm_ns) as f64 / 1e9;
    let own = segments + probes / length.max(1e-3) * (probe_ip_bytes + LINK_HEADER);
    let rest = bytes / seconds.max(1e-3) - own;
    Some(
        if rest > UNCERTAIN * own + perhaps * full / length.max(1e-3) {
            rest * 8.0
        } else {
            0.0
        },
    )
}

/// Share of the test's own traffic that its counts leave open.
const UNCERTAIN: f64 = 0.02;
/// Ethernet header, which an interface counts.
const LINK_HEADER: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::{Meta, Traffic};

    /// 100 kbit/s on an idle interface: others on a line to a server, and nobody on a link that the test emulates.
    #[test]
    fn nobody_else_uses_a_link_that_the_test_made_itself() {
        let second = 1_000_000_000;
        let row = |i: i64| Traffic {
            t_ns: i * second,
            interval_ns: second,
            interface: "wan".into(),
            rx_bytes: Some(12_500),
            tx_bytes: Some(0),
        };
        let phase = Phase {
            name: "idle".into(),
            from_ns: 0,
            warm_ns: 0,
            to_ns: 10 * second,
            ended: true,
        };
        for (origin, verb, others) in [
            (Origin::Measured, "test", true),
            (Origin::Emulated, "emulate", true),
            (Origin::Emulated, "test", false),
        ] {
            let rec = Recording {
                meta: Meta {
                    origin,
                    verb: verb.into(),
                    ..Meta::default()
                },
                traffic: (1..10).map(row).collect(),
                ..Recording::default()
            };
            let found = cross_traffic_bps(&rec, &phase, Some(0), 92.0);
            assert_eq!(
                found.map(|bps| bps > 0.0),
                Some(others),
                "{origin:?} {verb}"
            );
        }
    }
}
