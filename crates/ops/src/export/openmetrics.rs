//! Probes as OpenMetrics text with times, a sample a minute: `promtool tsdb create-blocks-from openmetrics` fills a
//! Prometheus with it.
//!
//! Names, labels and limits are those of the monitor's own metrics. Counters begin at zero with the recording.
//!
//! **Source.** OpenMetrics 1.0: families in one piece, series in one piece, times that grow.

use super::{Written, in_one_file, probes};
use crate::metrics::escaped;
use crate::scan::Source;
use base::record::{Delay, Status};
use experiment::monitor::LIMITS;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Time between two samples.
const STEP_NS: i64 = 60_000_000_000;
/// Fates of a probe, as the monitor names them.
const FATES: [&str; 4] = ["answered", "late", "lost", "not_sent"];

/// Counts of a target until a time.
#[derive(Clone, Default)]
struct Counts {
    fates: [u64; FATES.len()],
    /// Round trips up to each limit and no smaller one; the last are above all.
    within: [u64; LIMITS.len() + 1],
    sum_ns: i128,
}

/// Counts of a target at the end of each step that had probes.
#[derive(Default)]
struct Series {
    step: Option<i64>,
    now: Counts,
    samples: Vec<(i64, Counts)>,
}

impl Series {
    fn add(&mut self, delay: &Delay) {
        let step = delay.sent_ns.div_euclid(STEP_NS);
        // Rows of one target come nearly in order: a probe that is written late belongs to the step that is open.
        if let Some(open) = self.step.filter(|open| *open < step) {
            self.samples.push((open, self.now.clone()));
        }
        self.step = Some(self.step.map_or(step, |open| open.max(step)));
        self.now.add(delay);
    }

    fn close(&mut self) {
        self.samples
            .extend(self.step.take().map(|open| (open, self.now.clone())));
    }
}

impl Counts {
    fn add(&mut self, delay: &Delay) {
        let fate = match delay.status {
            Status::Ok => 0,
            Status::Late => 1,
            Status::Lost | Status::LostUp | Status::LostDown => 2,
            Status::NotSent => 3,
            Status::Duplicate | Status::Invalid => return,
        };
        self.fates[fate] += 1;
        if let Some(rtt) = delay.status.trusted(delay.rtt_ns) {
            let below = LIMITS
                .iter()
                .position(|limit| rtt <= limit.as_nanos() as i64);
            self.within[below.unwrap_or(LIMITS.len())] += 1;
            self.sum_ns += i128::from(rtt);
        }
    }
}

/// Writes the probes of all targets, or of one.
pub(super) fn write(
    from: Source<'_>,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let wanted = probes::only(from, target)?;
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    let mut others = 0u64;
    probes::each(from, &mut |delay| {
        if wanted.as_ref().is_some_and(|w| *w != *delay.target) {
            return;
        }
        others += u64::from(matches!(delay.status, Status::Duplicate | Status::Invalid));
        match all.get_mut(&*delay.target) {
            Some(series) => series.add(delay),
            None => all.entry(delay.target.to_string()).or_default().add(delay),
        }
    })?;
    all.values_mut().for_each(Series::close);
    let rows = in_one_file(output, |out| Ok(text(&all, out)?))?;
    let left = (others > 0)
        .then(|| format!("{others} second answers, and probes whose answer cannot be trusted"));
    let file = output.to_owned();
    Ok((vec![Written { file, rows }], left.into_iter().collect()))
}

/// Writes the text. Returns the number of samples.
fn text(all: &BTreeMap<String, Series>, out: &mut impl Write) -> std::io::Result<u64> {
    let mut samples = 0;
    let mut sample = |out: &mut dyn Write, series: &str, value: f64, step: i64| {
        samples += 1;
        // The end of the step, s.
        let at = (step + 1) * (STEP_NS / 1_000_000_000);
        writeln!(out, "{series} {value} {at}")
    };
    writeln!(out, "# TYPE tailback_probes counter")?;
    writeln!(out, "# HELP tailback_probes Probes by their fate.")?;
    for (target, series) in all {
        for (fate, name) in FATES.iter().enumerate() {
            let target = escaped(target);
            let named = format!("tailback_probes_total{{target=\"{target}\",fate=\"{name}\"}}");
            for (step, counts) in &series.samples {
                sample(out, &named, counts.fates[fate] as f64, *step)?;
            }
        }
    }
    writeln!(out, "# TYPE tailback_rtt_seconds histogram")?;
    writeln!(out, "# UNIT tailback_rtt_seconds seconds")?;
    writeln!(out, "# HELP tailback_rtt_seconds Round trips.")?;
    for (target, series) in all {
        let target = escaped(target);
        for (step, counts) in &series.samples {
            let mut sum = 0;
            for (limit, n) in counts.within.iter().enumerate() {
                sum += n;
                let limit = LIMITS
                    .get(limit)
                    .map_or("+Inf".into(), |l| l.as_secs_f64().to_string());
                let named =
                    format!("tailback_rtt_seconds_bucket{{target=\"{target}\",le=\"{limit}\"}}");
                sample(out, &named, sum as f64, *step)?;
            }
            let named = format!("tailback_rtt_seconds_sum{{target=\"{target}\"}}");
            sample(out, &named, counts.sum_ns as f64 / 1e9, *step)?;
            let named = format!("tailback_rtt_seconds_count{{target=\"{target}\"}}");
            sample(out, &named, sum as f64, *step)?;
        }
    }
    writeln!(out, "# EOF")?;
    Ok(samples)
}
