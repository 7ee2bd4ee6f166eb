//! Service curve: the rate of a link over time, while its queue stood.
//!
//! **Method.** While a queue stands, departures are the link's capacity. Departures of a download are counted by this
//! host's interface. Departures of an upload are what this host had handed over when a probe left, at the time when the
//! probe left the queue; without counters at each probe, what the senders learn from ACKs. Their slope over short windows is
//! the rate. A window in which probes found the queue empty shows a lower bound only: it is *unseen*, and bridged between its
//! neighbours.
//!
//! **Source.** D(t + q(t)) = A(t), the cumulative arrivals and departures of G. F. Newell, *Applications of Queueing
//! Theory*, 1982.
//!
//! **Limits.** A window holds at least [`PACKETS`] packets. Drops are placed a round trip before their repair, which may have
//! waited longer. With fair queueing a probe overtakes the load, so its wait says nothing about departures.

use crate::observe::Facts;
use crate::start::milliseconds;
use analysis::bottleneck::Bottleneck;
use analysis::{phases, rate};
use base::record::Direction;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Duration};
use link::{LinkSpec, RateSpec, Step};
use std::collections::BTreeMap;

/// Shortest window, s.
const WINDOW_S: f64 = 0.1;
/// Fewest packets of a window: fewer make the count of whole packets a large error.
const PACKETS: f64 = 12.0;
/// Bytes of the Ethernet header that an interface counts.
const LINK_HEADER: f64 = 14.0;
/// IP packet of an ACK relative to its Ethernet frame.
const ACK_SHARE: f64 = 52.0 / (52.0 + LINK_HEADER);
/// Longest time between a probe and the reading of the counters.
const AT_THE_PROBE_NS: i64 = 3_000_000;

/// Rate over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Length of a window, s.
    pub window_s: f64,
    /// Rate of each window, bit/s, and true if its queue stood.
    pub windows: Vec<(f64, bool)>,
}

/// Reads the service curve of a phase that loads a direction.
pub fn table(facts: &Facts, b: &Bottleneck) -> Option<Table> {
    let departed = departures(facts, b)?;
    let (first, last) = (departed.first()?.0, departed.last()?.0);
    let bps = (departed.last()?.1 - departed.first()?.1) * 8.0 / (last - first).max(1e-3);
    let window_s = WINDOW_S.max(PACKETS * b.packet_bytes * 8.0 / bps.max(1.0));
    let from = first.max(0.0);
    let count = ((last - from) / window_s).floor() as usize;
    let least_ms = b.packet_bytes * 8e3 / bps.max(1.0) + b.noise.usual_ms;
    let waits = b.waits.iter().map(|(t, w)| (since(b, *t) + w / 1e3, *w));
    let waits: Vec<(f64, f64)> = waits.collect();
    let mut windows: Vec<(f64, bool)> = (0..count)
        .map(|i| {
            let (a, z) = (from + i as f64 * window_s, from + (i + 1) as f64 * window_s);
            let rate = (at(&departed, z) - at(&departed, a)) * 8.0 / window_s;
            (rate.max(0.0), stood(&waits, a, z, least_ms))
        })
        .collect();
    bridge(&mut windows);
    // The table starts with the phase.
    let lead = (from / window_s).round() as usize;
    let before = windows.first()?.0;
    let mut all = vec![(before, false); lead];
    all.extend(windows);
    (all.len() >= 10 && all.iter().any(|w| w.1)).then_some(Table {
        window_s,
        windows: all,
    })
}

/// Link whose rates that repeat themselves start at times of their own: the capacity of another minute is another one.
pub fn at_another_time(link: &LinkSpec, seed: u64) -> LinkSpec {
    let mut link = link.clone();
    let mut rng = Streams::new(seed).stream("twin/start of the table");
    for side in [&mut link.up, &mut link.down] {
        side.rate = started_at(&side.rate, uniform(&mut rng));
    }
    link
}

/// Rate that repeats itself, started at this share of its period; any other as it is.
fn started_at(rate: &RateSpec, share: f64) -> RateSpec {
    if let RateSpec::Opportunities(all) = rate
        && let Some(period) = all.last()
    {
        let first = (share.rem_euclid(1.0) * all.len() as f64) as usize;
        let start = all[first];
        let later = all.iter().filter(|t| **t > start).map(|t| t - start);
        let sooner = all.iter().filter(|t| **t <= start);
        let sooner = sooner.map(|t| t + (period - start));
        return RateSpec::Opportunities(later.chain(sooner).collect());
    }
    let RateSpec::Steps {
        steps,
        repeat: Some(period),
    } = rate
    else {
        return rate.clone();
    };
    let Some(last) = steps.last() else {
        return rate.clone();
    };
    let start = milliseconds(share.rem_euclid(1.0) * period.as_millis_f64());
    let next = steps.partition_point(|s| s.at <= start);
    let current = next.checked_sub(1).map_or(last.rate, |i| steps[i].rate);
    let mut turned = vec![Step {
        at: Duration::ZERO,
        rate: current,
    }];
    let later = steps[next..].iter().map(|s| (s.at - start, s.rate));
    let sooner = steps[..next]
        .iter()
        .map(|s| (s.at + (*period - start), s.rate));
    for (at, rate) in later.chain(sooner) {
        if at > Duration::ZERO && at < *period {
            turned.push(Step { at, rate });
        }
    }
    RateSpec::Steps {
        steps: turned,
        repeat: Some(*period),
    }
}

/// Departures from the queue: seconds since the phase began, and whole IP packets in bytes so far.
fn departures(facts: &Facts, b: &Bottleneck) -> Option<Vec<(f64, f64)>> {
    match b.direction {
        Direction::Down => received(facts, b),
        // ACKs of a download share the uplink, and only the interface counts them.
        Direction::Up if b.phase.loads(Direction::Down) => sent(facts, b),
        Direction::Up => sent(facts, b).or_else(|| delivered(facts, b)),
    }
    .filter(|all| all.len() >= 10)
}

/// Share of an interface's bytes that are IP packets, if packets are full.
fn ip_share(b: &Bottleneck) -> f64 {
    b.packet_bytes / (b.packet_bytes + LINK_HEADER)
}

fn since(b: &Bottleneck, t_ns: i64) -> f64 {
    t_ns.saturating_sub(b.phase.from_ns) as f64 / 1e9
}

/// Departures of a downlink, as this host's interface counts their arrival: at each probe where the recording has that,
/// else each 100 ms.
fn received(facts: &Facts, b: &Bottleneck) -> Option<Vec<(f64, f64)>> {
    let way_ns = (facts.base_rtt.value()? * 1e6 / 2.0) as i64;
    let range = b.phase.from_ns..b.phase.to_ns;
    let counters = facts.counters();
    let mut counted: Vec<(i64, f64)> = counters
        .iter()
        .map(|c| (c.t_ns, c.rx_bytes as f64))
        .collect();
    if counted.is_empty() {
        let mut rows: Vec<_> = facts.rec.traffic.iter().collect();
        rows.sort_by_key(|r| r.t_ns);
        let mut sum = 0.0;
        for row in rows {
            sum += row.rx_bytes.unwrap_or(0) as f64;
            counted.push((row.t_ns, sum));
        }
    }
    let left = counted
        .iter()
        .map(|(t, sum)| (t.saturating_sub(way_ns), sum));
    let left = left.filter(|(t, _)| range.contains(t));
    Some(
        left.map(|(t, sum)| (since(b, t), sum * ip_share(b)))
            .collect(),
    )
}

/// Departures of an uplink: what the interface had sent when a probe left it, less what the queue dropped of it, has left
/// the queue when the probe does. Drops are known as packets that were sent again, a round trip later.
fn sent(facts: &Facts, b: &Bottleneck) -> Option<Vec<(f64, f64)>> {
    let base_ns = facts.base_rtt.value()? * 1e6;
    let counters = facts.counters();
    let again = again(facts, b);
    let mut all: Vec<(f64, f64)> = Vec::new();
    for (t, wait_ms) in &b.waits {
        // They are read just after the probe is sent.
        let next = counters.partition_point(|c| c.t_ns < *t);
        let Some(counter) = counters.get(next) else {
            continue;
        };
        if counter.t_ns.saturating_sub(*t) > AT_THE_PROBE_NS {
            continue;
        }
        let left = since(b, *t) + wait_ms / 1e3;
        let dropped = at(&again, left + base_ns / 1e9) * b.packet_bytes;
        let bytes = counter.tx_bytes as f64 * ip_share(b) - dropped;
        let before = all.last().copied().unwrap_or((f64::NEG_INFINITY, 0.0));
        if left > before.0 {
            all.push((left, bytes.max(before.1)));
        }
    }
    calibrated(all, b, base_ns)
}

/// The curve with the slope of what was carried: an interface that sends several segments as one packet counts their
/// headers once. What it counted beyond that are ACKs, where a download ran beside.
fn calibrated(mut all: Vec<(f64, f64)>, b: &Bottleneck, base_ns: f64) -> Option<Vec<(f64, f64)>> {
    // What was carried is counted when its ACKs arrive.
    let acked = |t_ns: i64| since(b, t_ns) - base_ns / 2e9;
    let bps = 8.0 * slope(&all, acked(b.phase.warm_ns), acked(b.phase.to_ns));
    let carried = b.carried_bps?;
    let acks = match b.phase.loads(Direction::Down) {
        true => ACK_SHARE * (bps - carried).max(0.0),
        false => 0.0,
    };
    let scale = (carried + acks) / bps.max(1.0);
    if !(0.9..1.1).contains(&scale) {
        return None;
    }
    for point in &mut all {
        point.1 *= scale;
    }
    Some(all)
}

/// Slope of a curve by least squares, as that of what was carried: where the rate moves it is not the mean.
fn slope(curve: &[(f64, f64)], from: f64, to: f64) -> f64 {
    const POINTS: i32 = 200;
    let middle = f64::from(POINTS - 1) / 2.0;
    let step = (to - from).max(1e-3) / (2.0 * middle);
    let (mut with_time, mut of_time) = (0.0, 0.0);
    for i in 0..POINTS {
        let off = (f64::from(i) - middle) * step;
        with_time += off * at(curve, from + (middle * step + off));
        of_time += off * off;
    }
    with_time / of_time
}

/// Segments that all senders of a direction had sent again by then: seconds since the phase began, and their number.
fn again(facts: &Facts, b: &Bottleneck) -> Vec<(f64, f64)> {
    let mut each: BTreeMap<i64, i64> = BTreeMap::new();
    let mut sum = 0;
    let mut all = Vec::new();
    for row in phases::flows(facts.rec, b.direction, b.phase.whole()) {
        if let Some(again) = row.retransmits {
            sum += again - each.insert(row.flow, again).unwrap_or(0);
            all.push((since(b, row.t_ns), sum as f64));
        }
    }
    all
}

/// Departures of an uplink, as its senders learn of them from ACKs.
fn delivered(facts: &Facts, b: &Bottleneck) -> Option<Vec<(f64, f64)>> {
    let base_ns = (facts.base_rtt.value()? * 1e6) as i64;
    let carried = rate::carried(facts.rec, b.direction, b.phase.whole())?;
    let mss = b.packet_bytes - b.header_bytes;
    let probes = b.waits.len() as f64 * facts.probe_bytes()
        / (b.phase.to_ns.saturating_sub(b.phase.from_ns) as f64 / 1e9).max(0.1);
    let mut sum = 0.0;
    let mut all = Vec::new();
    for (from, to, bps) in carried.batches(usize::MAX) {
        let left = from.saturating_sub(base_ns);
        all.push((since(b, left), sum));
        sum += (bps / 8.0 * b.packet_bytes / mss + probes) * (to - from) as f64 / 1e9;
    }
    Some(all)
}

/// Value of a curve between its points.
fn at(curve: &[(f64, f64)], t: f64) -> f64 {
    let i = curve.partition_point(|p| p.0 <= t);
    match (i.checked_sub(1).map(|j| curve[j]), curve.get(i)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (t - a.0) / (b.0 - a.0).max(1e-9),
        (Some(only), None) => only.1,
        (None, Some(only)) => only.1,
        (None, None) => 0.0,
    }
}

/// True if every probe that left in the window had waited.
fn stood(waits: &[(f64, f64)], from: f64, to: f64, least_ms: f64) -> bool {
    let mut seen = waits
        .iter()
        .filter(|w| (from..to).contains(&w.0))
        .peekable();
    seen.peek().is_some() && seen.all(|w| w.1 >= least_ms)
}

/// Fills unseen windows between the nearest seen ones, no lower than what was carried in them.
fn bridge(windows: &mut [(f64, bool)]) {
    let seen: Vec<(usize, f64)> = windows
        .iter()
        .enumerate()
        .filter(|(_, w)| w.1)
        .map(|(i, w)| (i, w.0))
        .collect();
    for (i, window) in windows.iter_mut().enumerate().filter(|(_, w)| !w.1) {
        let after = seen.partition_point(|s| s.0 < i);
        let before = after.checked_sub(1).and_then(|j| seen.get(j));
        let between = match (before, seen.get(after)) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (i - a.0) as f64 / (b.0 - a.0) as f64,
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => continue,
        };
        window.0 = window.0.max(between);
    }
}

impl Table {
    /// Share of the windows that were seen.
    pub fn seen(&self) -> f64 {
        self.windows.iter().filter(|w| w.1).count() as f64 / self.windows.len().max(1) as f64
    }

    /// Mean rate, bit/s.
    pub fn mean_bps(&self) -> f64 {
        self.windows.iter().map(|w| w.0).sum::<f64>() / self.windows.len().max(1) as f64
    }

    /// Length, s.
    pub fn seconds(&self) -> f64 {
        self.window_s * self.windows.len() as f64
    }

    /// Rate of a link file that repeats this table, and starts it at `start_s` of the link's time.
    pub fn rate(&self, start_s: f64) -> RateSpec {
        let count = self.windows.len();
        let late = (start_s / self.window_s).round() as usize % count;
        let rest_s = start_s - (start_s / self.window_s).round() * self.window_s;
        let mut steps: Vec<Step> = Vec::with_capacity(count + 1);
        for i in 0..count {
            let bps = self.windows[(i + count - late) % count].0;
            let at_s = if i == 0 {
                0.0
            } else {
                i as f64 * self.window_s + rest_s
            };
            steps.push(Step {
                at: milliseconds(at_s * 1e3),
                rate: BitsPerSec::new(bps.round() as u64),
            });
        }
        RateSpec::Steps {
            steps,
            repeat: Some(milliseconds(self.seconds() * 1e3)),
        }
    }

    /// Length of a window.
    pub fn window(&self) -> Duration {
        milliseconds(self.window_s * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp() -> Table {
        Table {
            window_s: 0.1,
            windows: (0..20).map(|i| (1e6 + 1e5 * f64::from(i), true)).collect(),
        }
    }

    #[test]
    fn a_table_starts_where_it_is_told_to() {
        for start_s in [0.0, 0.3, 1.9, 2.0, 7.25] {
            let rate = ramp().rate(start_s);
            let RateSpec::Steps { steps, repeat } = &rate else {
                panic!("a table is steps")
            };
            let length = repeat.unwrap().as_secs_f64();
            assert!((length - 2.0).abs() < 1e-9);
            let at = |t: f64| {
                let t = t % length;
                steps
                    .iter()
                    .rev()
                    .find(|s| s.at.as_secs_f64() <= t + 1e-9)
                    .unwrap()
                    .rate
                    .get()
            };
            for i in 0..20u64 {
                let t = start_s + 0.1 * i as f64 + 0.06;
                assert_eq!(at(t), 1_000_000 + 100_000 * i, "{start_s} {i}");
            }
        }
    }

    #[test]
    fn a_rate_that_repeats_starts_anywhere_in_its_period() {
        let rate = ramp().rate(0.0);
        let at = |rate: &RateSpec, t: f64| {
            let RateSpec::Steps { steps, .. } = rate else {
                panic!("steps")
            };
            let now = Duration::from_secs_f64(t.rem_euclid(2.0));
            steps.iter().rev().find(|s| s.at <= now).unwrap().rate
        };
        for share in [0.0, 0.013, 0.5, 0.77, 0.999, 1.0] {
            let turned = started_at(&rate, share);
            for i in 0..40 {
                let t = 0.05 * f64::from(i) + 0.0213;
                assert_eq!(at(&turned, t), at(&rate, t + 2.0 * share), "{share} {t}");
            }
        }
        let fixed = crate::start::fixed(1e6);
        assert_eq!(started_at(&fixed, 0.5), fixed);
    }

    #[test]
    fn opportunities_that_start_later_keep_their_distances_and_their_period() {
        let all = vec![2, 2, 5, 9, 10];
        let turned = |share| match started_at(&RateSpec::Opportunities(all.clone()), share) {
            RateSpec::Opportunities(turned) => turned,
            _ => panic!("opportunities"),
        };
        // After that at 5 come 9, 10, then 2, 2 and 5 of the next period.
        assert_eq!(turned(0.5), [4, 5, 7, 7, 10]);
        for share in [0.0, 0.19, 0.2, 0.7, 0.999, 1.0] {
            let (turned, n) = (turned(share), all.len() as u64);
            assert_eq!((turned.last(), turned.len() as u64), (Some(&10), n));
            assert!(turned.is_sorted());
        }
    }

    #[test]
    fn unseen_windows_are_bridged_and_never_below_what_they_carried() {
        let mut windows = vec![(4.0, true), (1.0, false), (9.0, false), (8.0, true)];
        bridge(&mut windows);
        assert!((windows[1].0 - (4.0 + 4.0 / 3.0)).abs() < 1e-9);
        assert_eq!(windows[2].0, 9.0);
    }
}
