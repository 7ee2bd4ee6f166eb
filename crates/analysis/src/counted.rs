//! Traffic of interfaces, counted by the kernel: bytes, rates and the time that was counted, of the whole and of each day.
//!
//! **Method.** Rows hold the bytes of an interval, or none across a reset of the counter. Bytes are spread evenly over
//! their interval, into bins of a second or more. A bin has a rate if at least half of it was counted. Time without a row
//! is missing; time of rows without bytes is unknown. Neither counts as no traffic.
//!
//! **Source.** Borlaug 2014, section 4.2 (traffic monitor). **Limits.** Bursts shorter than a bin do not show in its rate.
//! A recording has at most [`MOST`] interfaces and 262,144 bins.

use crate::host_load::HostSummary;
use crate::modem::ModemSummary;
use crate::moments::Moment;
use crate::radio::RadioSummary;
use crate::survey::Span;
use base::record::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the shape in `--json`.
pub const COUNTED_VERSION: u32 = 1;
/// Most interfaces.
pub const MOST: usize = 16;
/// Most bins of a recording.
const BINS: i64 = 1 << 18;
const S: i64 = 1_000_000_000;
/// Lengths of a bin, s.
const LENGTHS: [i64; 12] = [1, 2, 5, 10, 20, 30, 60, 300, 600, 1800, 3600, 86_400];

/// Traffic of a recording without probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedTraffic {
    /// Version of the shape, [`COUNTED_VERSION`].
    pub version: u32,
    /// Name of the recording.
    pub title: String,
    /// Origin of its rows.
    pub origin: Origin,
    /// True if the run went to its planned end.
    pub complete: bool,
    /// Begin of the first interval, UNIX ns.
    pub from_ns: i64,
    /// End of the last interval, UNIX ns.
    pub to_ns: i64,
    /// Length of the bins whose rates are given, s.
    pub bin_s: f64,
    /// Interfaces, the one with the most bytes first.
    pub interfaces: Vec<InterfaceTraffic>,
    /// Moments that the user marked, in order.
    pub moments: Vec<Moment>,
    /// Load of the measuring host; null if it was not sampled.
    #[serde(default)]
    pub host: Option<HostSummary>,
    /// State of the modem; null if it was not read.
    #[serde(default)]
    pub modem: Option<ModemSummary>,
    /// State of the radios.
    #[serde(default)]
    pub radios: Vec<RadioSummary>,
}

/// Traffic of an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceTraffic {
    /// Name of the interface.
    pub interface: String,
    /// Traffic of the whole recording.
    pub whole: SpanTraffic,
    /// Traffic of each day; empty if the recording has one day.
    pub each_day: Vec<SpanTraffic>,
}

/// Traffic of a span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanTraffic {
    /// Name of the span.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Time of the rows, s.
    pub counted_s: f64,
    /// Time of rows that lack the bytes of a direction, as across a reset of the counter, s.
    pub unknown_s: f64,
    /// Time of the span without rows, s.
    pub missing_s: f64,
    /// Received by this host.
    pub down: Rates,
    /// Sent by this host.
    pub up: Rates,
}

/// Bytes and rates of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Bytes, link-layer headers included.
    pub bytes: f64,
    /// Mean rate over the counted time; null if nothing was counted.
    pub mean_bps: Option<f64>,
    /// Rate that half of the bins are below.
    pub p50_bps: Option<f64>,
    /// Rate that 95 % of the bins are below.
    pub p95_bps: Option<f64>,
    /// Rate of the busiest bin.
    pub most_bps: Option<f64>,
}

/// Bins of one interface, into which rows are added.
pub struct Bins {
    name: String,
    /// Span of the recording.
    from_ns: i64,
    to_ns: i64,
    /// Begin of the first bin: a whole number of bins after midnight.
    first_ns: i64,
    length_ns: i64,
    /// Time of rows in each bin, ns.
    rows_ns: Vec<i64>,
    /// Time of rows without bytes, ns.
    unknown_ns: Vec<i64>,
    directions: [Vec<Bin>; 2],
}

#[derive(Clone, Copy, Default)]
struct Bin {
    bytes: f64,
    counted_ns: i64,
}

/// Length of the bins of a span, ns.
pub fn bin_ns(from_ns: i64, to_ns: i64) -> i64 {
    let least = to_ns.saturating_sub(from_ns) / BINS;
    let fits = LENGTHS.iter().map(|l| l * S).find(|l| *l >= least);
    fits.unwrap_or(least)
}

/// Adds times of foreign rows, which may overlap without end.
fn add(sum_ns: &mut i64, part_ns: i64) {
    *sum_ns = sum_ns.saturating_add(part_ns);
}

fn total(all: impl Iterator<Item = i64>) -> i64 {
    all.fold(0, i64::saturating_add)
}

impl Bins {
    /// Empty bins of an interface for a span of time; `midnight_ns` is the begin of its first day.
    pub fn new(name: &str, (from_ns, to_ns): (i64, i64), midnight_ns: i64) -> Bins {
        let length_ns = bin_ns(from_ns, to_ns);
        let since = from_ns.saturating_sub(midnight_ns).rem_euclid(length_ns);
        let first_ns = from_ns.saturating_sub(since);
        let length = to_ns.saturating_sub(first_ns).max(1).unsigned_abs();
        let n = length.div_ceil(length_ns.unsigned_abs()) as usize;
        Bins {
            name: name.to_owned(),
            from_ns,
            to_ns,
            first_ns,
            length_ns,
            rows_ns: vec![0; n],
            unknown_ns: vec![0; n],
            directions: [vec![Bin::default(); n], vec![Bin::default(); n]],
        }
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the bytes of an interval that ends at `t_ns`; what lies outside the span is left out.
    pub fn add(&mut self, t_ns: i64, interval_ns: i64, down: Option<i64>, up: Option<i64>) {
        if interval_ns <= 0 {
            return;
        }
        let mut from = t_ns.saturating_sub(interval_ns).max(self.from_ns);
        let to = t_ns.min(self.to_ns);
        while from < to {
            let bin = (from.saturating_sub(self.first_ns) / self.length_ns) as usize;
            let until = to.min(self.end_ns(bin));
            let part_ns = until - from;
            add(&mut self.rows_ns[bin], part_ns);
            if down.is_none() || up.is_none() {
                add(&mut self.unknown_ns[bin], part_ns);
            }
            for (direction, bytes) in self.directions.iter_mut().zip([down, up]) {
                if let Some(bytes) = bytes {
                    direction[bin].bytes += bytes as f64 * part_ns as f64 / interval_ns as f64;
                    add(&mut direction[bin].counted_ns, part_ns);
                }
            }
            from = until;
        }
    }

    /// Traffic of the whole and of these days.
    pub fn traffic(&self, days: &[Span]) -> InterfaceTraffic {
        InterfaceTraffic {
            interface: self.name.clone(),
            whole: self.span("whole", self.first_ns, self.to_ns),
            each_day: match days.len() {
                0 | 1 => Vec::new(),
                _ => days
                    .iter()
                    .map(|d| self.span(&d.name, d.from_ns, d.to_ns))
                    .collect(),
            },
        }
    }

    /// Traffic of the bins that begin within a span.
    fn span(&self, name: &str, from_ns: i64, to_ns: i64) -> SpanTraffic {
        let at = |t: i64| {
            let since = t.saturating_sub(self.first_ns).max(0).unsigned_abs();
            let bin = since.div_ceil(self.length_ns.unsigned_abs()) as usize;
            bin.min(self.rows_ns.len())
        };
        let bins = at(from_ns)..at(to_ns);
        let sum = |all: &[i64]| total(all[bins.clone()].iter().copied());
        let counted_ns = sum(&self.rows_ns);
        let (from_ns, to_ns) = (from_ns.max(self.from_ns), to_ns.min(self.to_ns));
        let missing_ns = to_ns.saturating_sub(from_ns).saturating_sub(counted_ns);
        let [down, up] = [0, 1].map(|d: usize| self.rates(&self.directions[d][bins.clone()]));
        SpanTraffic {
            name: name.to_owned(),
            from_ns,
            to_ns,
            counted_s: counted_ns as f64 / 1e9,
            unknown_s: sum(&self.unknown_ns) as f64 / 1e9,
            missing_s: missing_ns.max(0) as f64 / 1e9,
            down,
            up,
        }
    }

    /// End of a bin, UNIX ns.
    fn end_ns(&self, bin: usize) -> i64 {
        let after = (bin as i64 + 1).saturating_mul(self.length_ns);
        self.first_ns.saturating_add(after)
    }

    fn rates(&self, bins: &[Bin]) -> Rates {
        let bytes: f64 = bins.iter().map(|b| b.bytes).sum();
        let counted_ns = total(bins.iter().map(|b| b.counted_ns));
        let rate = |bytes: f64, ns: i64| 8.0 * bytes / (ns as f64 / 1e9);
        let counted = bins.iter().filter(|b| b.counted_ns >= self.length_ns / 2);
        let each: Vec<f64> = counted.map(|b| rate(b.bytes, b.counted_ns)).collect();
        let each = stats::sorted(&each);
        let at = |p: f64| stats::quantile_of_sorted(&each, p);
        Rates {
            bytes,
            mean_bps: (counted_ns > 0).then(|| rate(bytes, counted_ns)),
            p50_bps: at(0.5),
            p95_bps: at(0.95),
            most_bps: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Random rows with resets and gaps: no byte is lost, no unknown time counts as silence, and days add up to the whole.
    #[test]
    fn bytes_and_times_are_those_of_the_rows() {
        for seed in 0..100 {
            let mut rng = Streams::new(seed).stream("counted");
            let mut draw = |most: f64| uniform(&mut rng) * most;
            let from_ns = draw(1e15) as i64;
            let length_ns = (draw(40.0) * 86_400e9) as i64 + 10 * S;
            let midnight = from_ns - draw(86_400e9) as i64;
            let mut bins = Bins::new("eth0", (from_ns, from_ns + length_ns), midnight);
            let (mut bytes, mut counted, mut unknown) = (0i64, 0i64, 0i64);
            let mut t = from_ns;
            while t < from_ns + length_ns {
                let interval = 1 + draw(2.0 * length_ns as f64 / 1000.0) as i64;
                let interval = interval.min(from_ns + length_ns - t);
                t += interval;
                let kind = draw(10.0) as u32;
                if kind == 0 {
                    continue;
                }
                let down = (kind > 1).then_some(draw(1e9) as i64);
                bins.add(t, interval, down, Some(0));
                bytes += down.unwrap_or(0);
                counted += interval;
                unknown += if down.is_none() { interval } else { 0 };
            }
            let days = (0..42).map(|d| Span {
                name: d.to_string(),
                from_ns: midnight + d * 86_400 * S,
                to_ns: midnight + (d + 1) * 86_400 * S,
            });
            let found = bins.traffic(&days.collect::<Vec<_>>());
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            let w = &found.whole;
            assert!(near(w.down.bytes, bytes as f64), "seed {seed}");
            assert!(near(w.counted_s, counted as f64 / 1e9), "seed {seed}");
            assert!(near(w.unknown_s, unknown as f64 / 1e9), "seed {seed}");
            assert!(
                near(w.missing_s, (length_ns - counted) as f64 / 1e9),
                "seed {seed}"
            );
            assert_eq!(w.up.most_bps.unwrap_or(0.0), 0.0);
            let mean = w.down.mean_bps.unwrap_or(0.0) * (w.counted_s - w.unknown_s) / 8.0;
            assert!(near(mean, bytes as f64), "seed {seed}: {mean} {bytes}");
            let sum: f64 = found.each_day.iter().map(|d| d.down.bytes).sum();
            assert!(near(sum, bytes as f64), "seed {seed}: {sum} {bytes}");
        }
    }

    #[test]
    fn rates_of_a_steady_flow_are_its_rate_and_a_gap_has_none() {
        let mut bins = Bins::new("eth0", (0, 100 * S), 0);
        for i in 1..=1000 {
            // 1 Mbit/s, but nothing recorded from 50 to 60 s.
            if !(501..=600).contains(&i) {
                bins.add(i * S / 10, S / 10, Some(12_500), None);
            }
        }
        let w = bins.traffic(&[]).whole;
        for rate in [
            w.down.mean_bps,
            w.down.p50_bps,
            w.down.p95_bps,
            w.down.most_bps,
        ] {
            assert!((rate.unwrap() - 1e6).abs() < 10.0, "{rate:?}");
        }
        assert!(
            (w.missing_s - 10.0).abs() < 1e-3 && w.up.mean_bps.is_none(),
            "{w:?}"
        );
    }
}
