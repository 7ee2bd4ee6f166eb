//! The plan of a fleet: what each point measures, and when.

use base::Bytes;
use ops::usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Greatest number of measurements in a plan, and greatest length of its text.
const MEASUREMENTS: usize = 64;
pub(crate) const MAX_TEXT: usize = 256 * 1024;
/// Shortest period of a measurement.
const SHORTEST: u64 = 1;

/// Plan as TOML. The hub signs its text; the number rises with each plan that the hub publishes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetPlan {
    /// Time after which points stop measuring by this plan, RFC 3339.
    #[serde(default)]
    pub expires: Option<jiff::Timestamp>,
    /// Space that recordings may take on a point before they are uploaded.
    #[serde(default = "spool")]
    pub spool: Bytes,
    /// Time between two reports of a point's state, s.
    #[serde(default = "report_every")]
    pub report_every_s: u64,
    #[serde(default)]
    pub measurement: Vec<Measurement>,
}

fn spool() -> Bytes {
    Bytes::new(2_000_000_000)
}

fn report_every() -> u64 {
    60
}

/// One measurement of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Name: letters, digits and `-`.
    pub name: String,
    /// Time between two starts, s.
    pub every_s: u64,
    /// Largest random delay of a start, s.
    #[serde(default)]
    pub jitter_s: u64,
    /// Longest time that a run may take, s, before the agent ends it.
    pub at_most_s: u64,
    /// Hours of the day (UTC) at which it may start, such as `[0, 6]` for 00:00 to 06:00.
    #[serde(default)]
    pub hours: Option<(u8, u8)>,
    /// Points that run it; all if empty.
    #[serde(default)]
    pub points: Vec<String>,
    /// Plan of the verb, as `tailback run` reads it: `{"verb": …, "plan": …}`.
    pub run: ops::Plan,
}

/// True for a name that is safe as part of a file's name and of a URL.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('-')
}

impl FleetPlan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// Names the fault and its place.
    pub fn parse(text: &str) -> anyhow::Result<FleetPlan> {
        if text.len() > MAX_TEXT {
            return Err(usage(format!("a plan has at most {MAX_TEXT} bytes")));
        }
        let plan: FleetPlan = toml::from_str(text).map_err(|e| usage(e.to_string()))?;
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.measurement.len() > MEASUREMENTS {
            return Err(usage(format!(
                "a plan has at most {MEASUREMENTS} measurements"
            )));
        }
        if !(5..=86_400).contains(&self.report_every_s) {
            return Err(usage("report_every_s is from 5 to 86400"));
        }
        let mut names = BTreeSet::new();
        for m in &self.measurement {
            let refuse = |why: &str| Err(usage(format!("measurement {:?}: {why}", m.name)));
            if !is_name(&m.name) {
                return refuse("a name has 1 to 64 lower-case letters, digits and -");
            }
            if !names.insert(&m.name) {
                return refuse("another measurement has the same name");
            }
            if m.every_s < SHORTEST || m.every_s > 400 * 86_400 {
                return refuse("every_s is from 1 to 34560000");
            }
            if m.jitter_s >= m.every_s {
                return refuse("jitter_s is less than every_s");
            }
            if m.at_most_s == 0 || m.at_most_s > 7 * 86_400 {
                return refuse("at_most_s is from 1 to 604800");
            }
            if m.hours
                .is_some_and(|(from, to)| from > 23 || to > 24 || from == to)
            {
                return refuse("hours are two different hours from 0 to 24, such as [22, 6]");
            }
            if !matches!(
                m.run,
                ops::Plan::Test(_) | ops::Plan::Probe(_) | ops::Plan::Monitor(_)
            ) {
                return refuse("a point runs test, probe or monitor");
            }
            // A plan says what is measured. It names no file of a point.
            if matches!(&m.run, ops::Plan::Monitor(p) if p.metrics.is_some()) {
                return refuse("`metrics` names a file of the point");
            }
        }
        Ok(())
    }
}

impl Measurement {
    /// True if this point runs it.
    pub fn concerns(&self, point: &str) -> bool {
        self.points.is_empty() || self.points.iter().any(|p| p == point)
    }

    /// True if it may start at this time, UNIX s.
    pub fn may_start(&self, at_s: u64) -> bool {
        let Some((from, to)) = self.hours else {
            return true;
        };
        let hour = (at_s / 3600 % 24) as u8;
        if from < to {
            (from..to).contains(&hour)
        } else {
            hour >= from || hour < to
        }
    }
}
