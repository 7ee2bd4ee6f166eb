//! Probes of a target beside the readings of the radio that carried them.

use super::OneRadio;
use crate::host_load::{RARE, SecondCounter};
use base::record::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Figure, rank_correlation};

/// Most pairs of signal and round trip that are correlated; more are averaged in groups.
const PAIRS: usize = 2_000;

/// Seconds with probes, counted by their quality, within some times and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WithinSeconds {
    /// Seconds with a lost probe, or one above the 95 % point.
    pub bad: u64,
    /// Bad seconds within the times.
    pub bad_within: u64,
    /// Other seconds.
    pub others: u64,
    /// Other seconds within the times.
    pub others_within: u64,
    /// Share of the shifts of the times that have as many bad seconds within; null where the counts alone show that nothing
    /// is suspect.
    pub chance: Option<f64>,
}

impl WithinSeconds {
    /// True if what these times stand for may be the cause of the bad seconds.
    pub fn are_suspect(&self) -> bool {
        self.chance.is_some_and(|share| share <= RARE)
    }
}

/// Probes of a target beside a radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RadioBeside {
    /// Name of the target.
    pub target: String,
    /// Spearman's rank correlation of the signal and the mean round trip between two readings: −1 if the stronger signal
    /// always has the shorter round trip.
    pub correlation: Figure,
    /// Seconds while the signal was weak; null if it was steady.
    pub weak: Option<WithinSeconds>,
    /// Seconds beside handovers, from the reading before to 5 s after; null without any.
    pub handover: Option<WithinSeconds>,
}

/// Counter of a target's probes beside a radio.
pub struct Counter<'r> {
    target: String,
    radio: &'r OneRadio,
    weak: Option<SecondCounter<'r>>,
    handover: Option<SecondCounter<'r>>,
    /// Sum and number of the round trips of each reading, ns.
    trips: Vec<(f64, u32)>,
}

impl<'r> Counter<'r> {
    /// Counter of a target whose 95 % point is `slow_ms`.
    pub fn new(radio: &'r OneRadio, target: &str, slow_ms: f64) -> Counter<'r> {
        let seconds = |times: &'r Option<Vec<(i64, i64)>>| {
            let times = times.as_deref()?;
            Some(SecondCounter::new(target, slow_ms, times))
        };
        Counter {
            target: target.to_owned(),
            weak: seconds(&radio.weak),
            handover: seconds(&radio.handovers),
            trips: vec![(0.0, 0); radio.signal.len()],
            radio,
        }
    }

    /// Adds a probe.
    pub fn probe(&mut self, sent_ns: i64, rtt_ns: Option<i64>, status: Status) {
        for seconds in [&mut self.weak, &mut self.handover].into_iter().flatten() {
            seconds.probe(sent_ns, rtt_ns, status);
        }
        let (Status::Ok, Some(rtt)) = (status, rtt_ns) else {
            return;
        };
        let readings = &self.radio.signal;
        let place = readings.partition_point(|r| r.1 <= sent_ns);
        if readings.get(place).is_some_and(|r| r.0 <= sent_ns) {
            self.trips[place].0 += rtt as f64;
            self.trips[place].1 += 1;
        }
    }

    /// Figures of all probes.
    pub fn finish(self) -> RadioBeside {
        let readings = self.radio.signal.iter().zip(&self.trips);
        let pairs: Vec<(f64, f64)> = readings
            .filter(|(_, (_, n))| *n > 0)
            .filter_map(|((.., signal), (sum, n))| {
                Some((f64::from((*signal)?), sum / f64::from(*n)))
            })
            .collect();
        let group = pairs.len().div_ceil(PAIRS).max(1);
        let mean = |of: &[(f64, f64)]| {
            let n = of.len() as f64;
            let sums = of.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
            (sums.0 / n, sums.1 / n)
        };
        let pairs: Vec<(f64, f64)> = pairs.chunks(group).map(mean).collect();
        let counted = |seconds: Option<SecondCounter<'_>>| {
            let s = seconds?.finish();
            Some(WithinSeconds {
                bad: s.bad,
                bad_within: s.bad_busy,
                others: s.others,
                others_within: s.others_busy,
                chance: s.chance,
            })
        };
        RadioBeside {
            target: self.target,
            correlation: rank_correlation(&pairs),
            weak: counted(self.weak),
            handover: counted(self.handover),
        }
    }
}
