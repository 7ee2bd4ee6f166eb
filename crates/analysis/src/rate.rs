//! Rates: what the load carried, and how fast the bottleneck is.
//!
//! **Method.** Goodput is the slope of the payload acknowledged (up) or received (down), summed over the
//! flows, over the steady part of a phase; its interval from
//! the correlated residuals. The link's rate counts
//! whole IP packets: goodput × (mss + headers) / mss, plus what the probes take. Where the load left the
//! link idle at times, only the stretches with a standing queue count.
//!
//! **Source.** RFC 3148 (bulk transfer capacity); RFC 9293 section 3.7.1 (MSS), RFC 7323 (timestamps, 12 bytes a segment).
//!
//! **Limits.** Layers below IP (Ethernet, PPPoE, ATM cells) are not seen. A path whose queue is always
//! empty bounds its rate from below only. Header size is inferred from the segment size.

use crate::answer::Figure;
use crate::phases;
use crate::stats;
use base::record::{Direction, Flow, Recording};
use std::collections::BTreeMap;
use std::ops::Range;

/// Payload per segment where the sender did not say.
pub const USUAL_MSS: f64 = 1448.0;

/// Payload summed over the flows of one direction at evenly spaced instants: (seconds since the range's
/// first sample, bytes).
pub struct Carried {
    from_ns: i64,
    grid: Vec<(f64, f64)>,
    pub flows: usize,
    /// Whether it was counted on delivery. Counts in order stall behind a hole and jump when it is repaired,
    /// so that their short-term rate says nothing of the link's.
    pub smooth: bool,
}

pub fn carried(rec: &Recording, direction: Direction, range: Range<i64>) -> Option<Carried> {
    let rows = phases::flows(rec, direction, range);
    let smooth = rows.iter().any(|f| f.delivered_bytes.is_some());
    let mut series: BTreeMap<i64, Vec<(i64, f64)>> = BTreeMap::new();
    for (flow, t_ns, bytes) in counted(&rows, direction) {
        series.entry(flow).or_default().push((t_ns, bytes));
    }
    series.values_mut().for_each(|s| undo_resets(s));
    let from = series
        .values()
        .filter_map(|s| s.first())
        .map(|s| s.0)
        .min()?;
    let to = series
        .values()
        .filter_map(|s| s.last())
        .map(|s| s.0)
        .max()?;
    let span = (i128::from(to) - i128::from(from)) as f64 / 1e9;
    if span < 0.5 {
        return None;
    }
    let steps = ((span / 0.1) as usize).clamp(20, 600);
    let at = |series: &[(i64, f64)], t: f64| {
        let key = |s: &(i64, f64)| (i128::from(s.0) - i128::from(from)) as f64 / 1e9;
        let i = series.partition_point(|s| key(s) <= t);
        match (i.checked_sub(1).and_then(|j| series.get(j)), series.get(i)) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (t - key(a)) / (key(b) - key(a)).max(1e-9),
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 0.0,
        }
    };
    let grid = (0..=steps)
        .map(|i| {
            let t = span * i as f64 / steps as f64;
            (t, series.values().map(|s| at(s, t)).sum())
        })
        .collect();
    Some(Carried {
        from_ns: from,
        grid,
        flows: series.len(),
        smooth,
    })
}

/// Payload counted so far: (flow, t_ns, bytes) of each row that tells it. Three counts run apart, by what is
/// under way and by what waits behind a hole: mixed they would make a zigzag. What the sender knows to be
/// delivered is the smoothest. Without it, what the receiver read in order, or for an upload, whose
/// receiver is far, what was acknowledged.
pub fn counted(rows: &[&Flow], direction: Direction) -> Vec<(i64, i64, f64)> {
    type Count = fn(&Flow) -> Option<i64>;
    let near: [Count; 2] = match direction {
        Direction::Up => [|f| f.bytes_acked, |f| f.bytes_received],
        Direction::Down => [|f| f.bytes_received, |f| f.bytes_acked],
    };
    let counts: [Count; 3] = [|f| f.delivered_bytes, near[0], near[1]];
    let Some(count) = counts
        .into_iter()
        .find(|c| rows.iter().any(|f| c(f).is_some()))
    else {
        return Vec::new();
    };
    let told = |f: &&Flow| Some((f.flow, f.t_ns, count(f).filter(|b| *b >= 0)? as f64));
    rows.iter().filter_map(told).collect()
}

/// A counter that falls began anew with a new connection: what was counted before stays counted.
fn undo_resets(series: &mut [(i64, f64)]) {
    let (mut carried, mut last) = (0.0, 0.0);
    for (_, bytes) in series {
        if *bytes < last {
            carried += last;
        }
        last = *bytes;
        *bytes += carried;
    }
}

impl Carried {
    /// Mean rates of `count` equal stretches: (start ns, end ns, bit/s).
    pub fn batches(&self, count: usize) -> Vec<(i64, i64, f64)> {
        let steps = self.grid.len() - 1;
        let count = count.clamp(1, steps);
        (0..count)
            .map(|i| {
                let (a, b) = (
                    self.grid[steps * i / count],
                    self.grid[steps * (i + 1) / count],
                );
                let ns = |s: f64| self.from_ns.saturating_add((s * 1e9) as i64);
                (ns(a.0), ns(b.0), (b.1 - a.1) * 8.0 / (b.0 - a.0).max(1e-9))
            })
            .collect()
    }

    pub fn seconds(&self) -> f64 {
        self.grid.last().map_or(0.0, |g| g.0)
    }

    pub fn bytes(&self) -> f64 {
        self.grid.last().map_or(0.0, |g| g.1) - self.grid.first().map_or(0.0, |g| g.1)
    }

    /// Slope by least squares: a stall at either end, while TCP repairs a hole, weighs less than in a
    /// difference of ends.
    pub fn goodput(&self) -> Figure {
        let n = self.grid.len() as f64;
        let (mt, mb) = (
            self.grid.iter().map(|g| g.0).sum::<f64>() / n,
            self.grid.iter().map(|g| g.1).sum::<f64>() / n,
        );
        let cov: f64 = self.grid.iter().map(|g| (g.0 - mt) * (g.1 - mb)).sum();
        let var: f64 = self.grid.iter().map(|g| (g.0 - mt).powi(2)).sum();
        let value = cov / var * 8.0;
        if !(value.is_finite() && value > 0.0) {
            return Figure::cannot_tell("the load carried nothing");
        }
        // What the line does not explain, seen as correlated noise: its effective size sets the slope's error.
        let residuals: Vec<f64> = self
            .grid
            .iter()
            .map(|g| g.1 - mb - cov / var * (g.0 - mt))
            .collect();
        let independent = stats::effective_size(&residuals);
        let sd = (residuals.iter().map(|r| r * r).sum::<f64>() / n).sqrt();
        let half = stats::student_t95((independent - 2.0).max(1.0)) * sd
            / (independent * var / n).sqrt()
            * 8.0;
        Figure::Is {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        }
    }
}

/// Bytes of IP and TCP headers that go with a segment of `mss` bytes: those that make up a usual MTU,
/// else IPv4 with timestamps.
pub fn header_bytes(mss: f64) -> f64 {
    const MTUS: [f64; 9] = [
        1492.0, 1480.0, 1460.0, 1420.0, 1400.0, 1280.0, 576.0, 9000.0, 65_535.0,
    ];
    // IPv4 and IPv6, with and without timestamps (RFC 7323: 10 bytes and 2 of padding).
    const HEADERS: [f64; 4] = [52.0, 72.0, 40.0, 60.0];
    let ethernet = HEADERS[..3].iter().find(|h| mss + **h == 1500.0);
    ethernet
        .or_else(|| HEADERS.iter().find(|h| MTUS.contains(&(mss + **h))))
        .copied()
        .unwrap_or(52.0)
}

/// The segment size the senders used in `direction`.
pub fn mss(rec: &Recording, direction: Direction, range: Range<i64>) -> f64 {
    let sizes = phases::flows(rec, direction, range)
        .into_iter()
        .filter_map(|f| f.mss_bytes);
    sizes
        .filter(|m| (88..=65_535).contains(m))
        .max()
        .map_or(USUAL_MSS, |m| m as f64)
}

/// The bottleneck's rate in whole IP packets. `waits` are the probes' (sent ns, wait ms) in this direction;
/// `probe_bps` is what the probes themselves put on the link.
/// How much the rate of a full link moves: the standard deviation of its rate in stretches with a standing
/// queue, as a share of their mean. `None` where too few stretches were full to say. A link of constant rate
/// keeps it whatever the queue does; one whose rate moves (radio) moves its delays too.
pub fn moves(
    carried: &Carried,
    waits: &[(i64, f64)],
    packet_ms: f64,
    loaded_rtt_ms: f64,
) -> Option<f64> {
    if !carried.smooth {
        return None;
    }
    let length_s = (4.0 * loaded_rtt_ms / 1e3).max(1.0);
    let full: Vec<f64> = carried
        .batches((carried.seconds() / length_s) as usize)
        .iter()
        .filter(|(from, to, _)| full(waits, *from, *to, 2.0 * packet_ms))
        .map(|b| b.2)
        .collect();
    let m = stats::moments(&full).filter(|_| full.len() >= 4)?;
    (m.mean > 0.0).then(|| m.sd / m.mean)
}

/// Whether nine of ten probes between two instants waited longer than `least_ms`.
fn full(waits: &[(i64, f64)], from: i64, to: i64, least_ms: f64) -> bool {
    let seen = waits.iter().filter(|(t, _)| (from..to).contains(t));
    let (n, stood) = seen.fold((0, 0), |(n, s), w| (n + 1, s + usize::from(w.1 > least_ms)));
    n >= 4 && stood * 10 >= n * 9
}

pub fn link_rate(carried: &Carried, mss: f64, waits: &[(i64, f64)], probe_bps: f64) -> Figure {
    let factor = (mss + header_bytes(mss)) / mss;
    let goodput = carried.goodput();
    let Figure::Is { value, low, high } = goodput else {
        return goodput;
    };
    let packet_ms = (mss + header_bytes(mss)) * 8e3 / (value * factor);
    let all = carried.batches((carried.seconds() / 2.0) as usize);
    let full: Vec<f64> = all
        .iter()
        .filter(|(from, to, _)| full(waits, *from, *to, 0.3 * packet_ms + 0.05))
        .map(|b| b.2)
        .collect();
    let idle_at_times = full.len() < all.len();
    let (value, low, high) = match stats::mean_figure(&full) {
        Figure::Is {
            value: v,
            low: l,
            high: h,
        } if idle_at_times && full.len() >= 3 && v > value => (v, l.min(v), h.max(high)),
        _ => (value, low, high),
    };
    Figure::Is { value, low, high }.map(|v| v * factor + probe_bps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Flow;

    fn row(t_ms: i64, flow: i64, acked: i64) -> Flow {
        Flow {
            bytes_acked: Some(acked),
            mss_bytes: Some(1448),
            ..Flow::about(t_ms * 1_000_000, flow, Direction::Up)
        }
    }

    #[test]
    fn two_flows_of_half_the_rate_add_up_across_a_counter_that_begins_anew() {
        let mut rec = Recording::default();
        for i in 0..=100i64 {
            rec.flow.push(row(i * 100, 1, i * 4000));
            rec.flow.push(row(
                i * 100,
                2,
                if i < 50 { i * 4000 } else { (i - 50) * 4000 },
            ));
        }
        let c = carried(&rec, Direction::Up, 0..i64::MAX).unwrap();
        // 8 kB every 100 ms: 640 kbit/s; the step that is lost at the reset weighs 1.5 × 3.2 kbit/s.
        let g = c.goodput().value().unwrap();
        assert!((g - 635.2e3).abs() < 100.0, "{g}");
        assert_eq!(c.flows, 2);
    }

    #[test]
    fn whole_packets_and_probes_make_the_links_rate() {
        let mut rec = Recording::default();
        for i in 0..=100i64 {
            rec.flow.push(row(i * 100, 1, i * 8447));
        }
        let c = carried(&rec, Direction::Up, 0..i64::MAX).unwrap();
        // 84 470 B/s of payload × 1500/1448 × 8 = 700.02 kbit/s, and 8 kbit/s of probes.
        let r = link_rate(&c, 1448.0, &[], 8e3).value().unwrap();
        assert!((r - 708_028.0).abs() < 100.0, "{r}");
    }

    #[test]
    fn headers_follow_from_the_segment_size() {
        let of = [
            (1448.0, 52.0),
            (1460.0, 40.0),
            (1428.0, 72.0),
            (1440.0, 52.0),
            (1368.0, 52.0),
            (1234.0, 52.0),
        ];
        for (mss, headers) in of {
            assert_eq!(header_bytes(mss), headers, "{mss}");
        }
    }
}
