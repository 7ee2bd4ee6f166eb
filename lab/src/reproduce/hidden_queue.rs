//! The queue that a gateway cannot see: its estimate over a simulation whose queue is known.

use analysis::hidden_queue::{Course, Errors, Law, Observed, follow};
use base::record::Row;
use base::{BitsPerSec, Duration};
use sim::{Draft, ScenarioError};
use std::collections::BTreeMap;
use toml::Table;

/// The estimate over a simulation: `[calculate] what = "hidden-queue"`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    law: Law,
    /// Rate of the link that the estimator is given.
    capacity: BitsPerSec,
    every: Duration,
    /// The stretch that it is run over, since the begin.
    from: Duration,
    to: Duration,
    /// Whose first link's queue it is, with a probe and with `[sample] traffic`.
    scenario: Table,
}

impl Simulated {
    fn course(&self, seed: u64) -> Result<(Course, Observed), ScenarioError> {
        let invalid = |what: String| ScenarioError::Invalid(format!("[calculate] {what}"));
        let scenario = Draft::new(&self.scenario.to_string())?.finish()?;
        let begin = sim::run::began_ns(&scenario);
        let [from, to] = [self.from, self.to].map(|d| begin + d.as_nanos() as i64);
        let within = |t: i64| (from..to).contains(&t);
        let mut seen = Observed::default();
        let mut keep = |row: Row| match row {
            Row::Delay(d) if d.sent_ns < to => {
                let list = match within(d.sent_ns) {
                    true => &mut seen.probes,
                    false => &mut seen.probes_before,
                };
                list.extend(d.rtt_ns.map(|rtt| (d.sent_ns, rtt)));
            }
            Row::Traffic(t) if within(t.t_ns - t.interval_ns) && within(t.t_ns - 1) => {
                let sent = t.tx_bytes.map(|b| (t.t_ns - t.interval_ns, t.t_ns, b));
                seen.handed_over.extend(sent);
            }
            Row::Queue(q) if within(q.t_ns) => {
                seen.truth.push((q.t_ns, q.backlog_bytes));
            }
            _ => {}
        };
        sim::run(&scenario, seed, Some(&mut keep), &mut |_| true)?;
        if seen.handed_over.is_empty() || seen.probes.is_empty() {
            return Err(invalid(
                "the scenario needs [sample] traffic and a flow of kind \"probe\"".into(),
            ));
        }
        seen.probes.sort_unstable();
        let every = self.every.as_nanos() as i64;
        Ok((follow(self.law, self.capacity, every, &seen), seen))
    }

    /// Errors of the predictions as table 21 has them, and under `truth.` those against the queue as it was.
    pub fn figures(&self, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
        let (course, _) = self.course(seed)?;
        let mut all = BTreeMap::new();
        let of = [
            ("", Errors::of(&course.errors_ms())),
            ("truth.", Errors::of(&course.beside_truth)),
        ];
        for (lead, errors) in of {
            let Some(e) = errors else { continue };
            let figures = [
                ("max_ms", Some(e.max_ms)),
                ("min_ms", Some(e.min_ms)),
                ("mean_ms", e.mean_ms.value()),
                ("median_ms", e.median_ms.value()),
                ("sd_ms", Some(e.sd_ms)),
                ("variance_ms2", Some(e.variance_ms2)),
                ("count", Some(e.count as f64)),
            ];
            for (name, value) in figures {
                all.extend(value.map(|v| (format!("{lead}{name}"), v)));
            }
        }
        all.extend(course.base_ms.map(|ms| ("base_ms".to_string(), ms)));
        Ok(all)
    }

    /// Returns the estimated, measured and true wait, each in ms, one value a second.
    pub fn courses(&self, seed: u64) -> Result<Vec<(String, Vec<f64>)>, ScenarioError> {
        let (course, seen) = self.course(seed)?;
        let capacity = self.capacity.get() as f64;
        let truth = seen.truth.iter();
        let truth: Vec<(i64, f64)> = truth
            .map(|(t, bytes)| (*t, *bytes as f64 * 8e3 / capacity))
            .collect();
        let measured = course.compared.iter();
        let measured: Vec<(i64, f64)> = measured.map(|c| (c.at_ns, c.measured_ms)).collect();
        let from = seen.handed_over[0].0;
        let steps = (self.to.as_nanos() - self.from.as_nanos()) / STEP_NS as u64;
        let sampled = |points: &[(i64, f64)]| -> Vec<f64> {
            let at = |i: u64| {
                let until = from + (i as i64 + 1) * STEP_NS;
                let last = points.partition_point(|p| p.0 <= until).checked_sub(1);
                last.map_or(0.0, |i| points[i].1)
            };
            (0..steps).map(at).collect()
        };
        Ok(vec![
            ("true".into(), sampled(&truth)),
            ("estimated".into(), sampled(&course.estimated)),
            ("measured".into(), sampled(&measured)),
        ])
    }
}

/// A course has a value for each second.
const STEP_NS: i64 = 1_000_000_000;
