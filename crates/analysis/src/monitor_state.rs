//! State of a monitor's targets now, from the rows of its recording.
//!
//! **Method.** Figures are of the probes sent in the last stretch of time. A target is out when its latest answer is as old
//! as ten of its intervals, and ten seconds at least: the shortest outage that the statistics count. Without a process that
//! writes the recording, time ends at the last row, and no silence is an outage.
//!
//! **Limits.** A probe is lost once the monitor's time for loss is over, ten seconds by default. The loss of the latest
//! seconds is therefore a lower limit.

use base::record::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rises when the meaning of a field changes.
pub const STATE_VERSION: u32 = 1;

/// Shortest silence that is an outage, s.
const SHORTEST_S: f64 = 10.0;
/// Silence that is an outage, in intervals.
const INTERVALS: f64 = 10.0;

/// State of a monitor: the output of `tailback status --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MonitorState {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// Name of the recording.
    pub title: String,
    /// Process that writes the recording; null if none does.
    pub writer: Option<String>,
    /// Time to which the state belongs, UNIX ns: now, or that of the last row if no process writes.
    pub at_ns: i64,
    /// Time of the last row, UNIX ns.
    pub last_row_ns: Option<i64>,
    /// Length of the time to which the figures belong, s.
    pub window_s: f64,
    /// One state for each target of the plan.
    pub targets: Vec<TargetState>,
}

/// State of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetState {
    /// Name of the target.
    pub target: String,
    /// Probes with a row.
    pub rows: u64,
    /// Answered probes.
    pub answered: u64,
    /// Lost probes.
    pub lost: u64,
    /// Share of lost probes; null without a row. At least this: see the module's limits.
    pub loss: Option<f64>,
    /// Round trip of the latest answer, ms.
    pub rtt_ms: Option<f64>,
    /// Median round trip, ms.
    pub median_ms: Option<f64>,
    /// 95th percentile of the round trip, ms.
    pub p95_ms: Option<f64>,
    /// Mean size of the differences between successive round trips (RFC 3393), ms.
    pub ipdv_ms: Option<f64>,
    /// Time of the latest answer, UNIX ns; null if nothing answered.
    pub answered_ns: Option<i64>,
    /// Time since the latest answer, s; null if nothing answered, or if no process writes.
    pub silent_s: Option<f64>,
    /// True while the target does not answer; null if no process writes.
    pub is_out: Option<bool>,
}

/// Probe of a row.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Number of the probe.
    pub seq: i64,
    /// Time at which it was sent, UNIX ns.
    pub sent_ns: i64,
    /// Round trip, ns; none without an answer.
    pub rtt_ns: Option<i64>,
    /// Fate of the probe.
    pub status: Status,
}

/// Probes of the targets, as the rows come.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    targets: BTreeMap<String, Vec<Probe>>,
}

impl Collected {
    /// Takes a probe.
    pub fn push(&mut self, target: &str, probe: Probe) {
        match self.targets.get_mut(target) {
            Some(probes) => probes.push(probe),
            None => drop(self.targets.insert(target.to_owned(), vec![probe])),
        }
    }

    /// Time of the latest row: the time at which its probe was sent.
    pub fn last_ns(&self) -> Option<i64> {
        let probes = self.targets.values().flatten();
        probes.map(|p| p.sent_ns).max()
    }

    /// Returns the state of a target at a time, over the nanoseconds before it. `interval_ns` is that of its probes, and
    /// `writes` is true while a process writes the recording.
    pub fn state(
        &self,
        target: &str,
        (at_ns, window_ns): (i64, i64),
        interval_ns: i64,
        writes: bool,
    ) -> TargetState {
        let none = Vec::new();
        let all = self.targets.get(target).unwrap_or(&none);
        let from_ns = at_ns.saturating_sub(window_ns);
        let mut probes: Vec<Probe> = all.to_vec();
        probes.retain(|p| p.status != Status::Duplicate);
        probes.sort_by_key(|p| p.seq);
        let arrival = |p: &Probe| Some(p.sent_ns.saturating_add(p.rtt_ns?));
        let answered_ns = probes.iter().filter_map(arrival).max();
        probes.retain(|p| p.sent_ns >= from_ns);
        let is_lost = |p: &&Probe| {
            let losses = [Status::Lost, Status::LostUp, Status::LostDown];
            losses.contains(&p.status)
        };
        let lost = probes.iter().filter(is_lost).count() as u64;
        let ms = |ns: i64| ns as f64 / 1e6;
        let answers: Vec<(i64, f64)> = probes
            .iter()
            .filter_map(|p| Some((p.seq, ms(p.rtt_ns?))))
            .collect();
        let steps: Vec<f64> = answers
            .windows(2)
            .filter(|w| w[1].0 == w[0].0 + 1)
            .map(|w| (w[1].1 - w[0].1).abs())
            .collect();
        let delays: Vec<f64> = answers.iter().map(|a| a.1).collect();
        let latest = probes.iter().filter(|p| p.rtt_ns.is_some());
        let latest = latest.max_by_key(|p| arrival(p));
        let silent_ns = answered_ns.map(|t| at_ns.saturating_sub(t).max(0));
        let silent_s = silent_ns.filter(|_| writes).map(|ns| ns as f64 / 1e9);
        let limit_s = SHORTEST_S.max(INTERVALS * interval_ns as f64 / 1e9);
        // A target that has not answered in all the time read is out as soon as that time is long enough.
        let first_ns = all.iter().map(|p| p.sent_ns).min();
        let known_s = first_ns.map_or(0.0, |t| at_ns.saturating_sub(t) as f64 / 1e9);
        let rows = probes.len() as u64;
        TargetState {
            target: target.to_owned(),
            rows,
            answered: answers.len() as u64,
            lost,
            loss: (rows > 0).then(|| lost as f64 / rows as f64),
            rtt_ms: latest.and_then(|p| p.rtt_ns).map(ms),
            median_ms: stats::median(&delays),
            p95_ms: stats::quantile(&delays, 0.95),
            ipdv_ms: (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / steps.len() as f64),
            answered_ns,
            silent_s,
            is_out: writes.then(|| silent_s.unwrap_or(known_s) >= limit_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;

    /// Ten probes a second, of which those of a stretch are unanswered; rows of the last `pending` are not written yet.
    fn collected(seconds: i64, out: std::ops::Range<i64>, pending: i64) -> Collected {
        let mut c = Collected::default();
        for seq in 0..seconds * 10 {
            let sent_ns = seq * 100 * MS;
            let lost = out.contains(&(sent_ns / S));
            if lost && sent_ns / S >= seconds - pending {
                continue;
            }
            let probe = Probe {
                seq,
                sent_ns,
                rtt_ns: (!lost).then_some((20 + seq % 2) * MS),
                status: if lost { Status::Lost } else { Status::Ok },
            };
            c.push("icmp:192.0.2.1", probe);
        }
        c
    }

    #[test]
    fn an_outage_is_seen_before_the_rows_of_its_probes_are_written() {
        let c = collected(600, 560..600, 180);
        let state = |writes| c.state("icmp:192.0.2.1", (600 * S, 300 * S), 100 * MS, writes);
        let s = state(true);
        assert_eq!(s.is_out, Some(true));
        assert!(
            (s.silent_s.expect("it answered") - 40.1).abs() < 0.1,
            "{s:?}"
        );
        // Nothing is known yet of the probes without an answer.
        assert_eq!((s.rows, s.lost), (2_600, 0));
        assert_eq!(state(false).is_out, None);
        assert_eq!(state(false).silent_s, None);
    }

    #[test]
    fn figures_are_of_the_last_stretch_only() {
        let c = collected(600, 100..120, 180);
        let s = c.state("icmp:192.0.2.1", (600 * S, 60 * S), 100 * MS, true);
        assert_eq!((s.rows, s.answered, s.lost), (600, 600, 0));
        assert_eq!(s.ipdv_ms, Some(1.0));
        assert_eq!(s.is_out, Some(false));
        let s = c.state("icmp:192.0.2.1", (600 * S, 600 * S), 100 * MS, true);
        assert_eq!((s.rows, s.answered, s.lost), (6_000, 5_800, 200));
        let s = c.state("icmp:192.0.2.9", (600 * S, 600 * S), 100 * MS, true);
        assert_eq!(
            (s.rows, s.loss, s.rtt_ms, s.is_out),
            (0, None, None, Some(false))
        );
    }
}
