//! The plan of a fleet: what each point measures, and when.

use crate::task::{ReadTask, Task};
use base::Bytes;
use ops::usage;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Greatest number of measurements in a plan, and greatest length of its text.
const MEASUREMENTS: usize = 64;
pub(crate) const MAX_TEXT: usize = 256 * 1024;
/// Shortest and longest period of a measurement, s.
const SHORTEST_S: u64 = 1;
const LONGEST_S: u64 = 400 * 86_400;
/// Longest time of a run, s.
const LONGEST_RUN_S: u64 = 7 * 86_400;

/// Plan as TOML. The hub signs its text; the number rises with each plan that the hub publishes.
#[derive(Clone, Debug, Deserialize)]
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
    /// True if points keep a connection to the hub, so that they hear of plans and runs at once and their live values can be seen.
    #[serde(default = "push")]
    pub push: bool,
    /// Traffic of a point in a day and in a month (UTC), uploads included; no limit if absent.
    #[serde(default)]
    pub day_budget: Option<Bytes>,
    #[serde(default)]
    pub month_budget: Option<Bytes>,
    /// Time within which a recording of a new release must have reached the hub, s. While the hub cannot be reached it stands.
    #[serde(default = "upgrade_within")]
    pub upgrade_within_s: u64,
    #[serde(default)]
    measurement: Vec<Measurement>,
    /// Parsed command line of each measurement, in the same order.
    #[serde(skip)]
    tasks: Vec<Task>,
}

fn spool() -> Bytes {
    Bytes::new(2_000_000_000)
}

fn upgrade_within() -> u64 {
    900
}

fn report_every() -> u64 {
    300
}

fn push() -> bool {
    true
}

fn wait() -> u64 {
    60
}

/// One measurement of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Name: letters, digits and `-`.
    pub name: String,
    /// Command line of the run, such as `test far.example --budget 50MB`.
    run: String,
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
    /// True if a run starts only while there is no cross traffic on its interface.
    #[serde(default)]
    pub idle_link: bool,
    /// Longest time that a start waits for an idle link or for its turn at the server, s.
    #[serde(default = "wait")]
    wait_s: u64,
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
    pub fn parse(text: &str, read: ReadTask) -> anyhow::Result<FleetPlan> {
        if text.len() > MAX_TEXT {
            return Err(usage(format!("a plan has at most {MAX_TEXT} bytes")));
        }
        let mut plan: FleetPlan = toml::from_str(text).map_err(|e| usage(e.to_string()))?;
        if plan.measurement.len() > MEASUREMENTS {
            return Err(usage(format!(
                "a plan has at most {MEASUREMENTS} measurements"
            )));
        }
        if !(5..=86_400).contains(&plan.report_every_s) {
            return Err(usage("report_every_s is from 5 to 86400"));
        }
        if !(10..=86_400).contains(&plan.upgrade_within_s) {
            return Err(usage("upgrade_within_s is from 10 to 86400"));
        }
        let mut names = BTreeSet::new();
        for m in &plan.measurement {
            let refuse = |why: String| usage(format!("measurement {:?}: {why}", m.name));
            m.check().map_err(|why| refuse(why.into()))?;
            if !names.insert(&m.name) {
                return Err(refuse("another measurement has the same name".into()));
            }
            let task = read(&m.run).map_err(|e| refuse(format!("run = {:?}: {e:#}", m.run)))?;
            if m.idle_link && task.server().is_none() {
                return Err(refuse(
                    "idle_link is for a test or probe of a server".into(),
                ));
            }
            plan.tasks.push(task);
        }
        Ok(plan)
    }

    /// Measurements with their parsed command lines.
    pub fn measurements(&self) -> impl Iterator<Item = (&Measurement, &Task)> {
        self.measurement.iter().zip(&self.tasks)
    }
}

impl Measurement {
    fn check(&self) -> Result<(), &'static str> {
        if !is_name(&self.name) {
            return Err("a name has 1 to 64 lower-case letters, digits and -");
        }
        if !(SHORTEST_S..=LONGEST_S).contains(&self.every_s) {
            return Err("every_s is from 1 to 34560000");
        }
        if self.jitter_s >= self.every_s {
            return Err("jitter_s is less than every_s");
        }
        if !(1..=LONGEST_RUN_S).contains(&self.at_most_s) {
            return Err("at_most_s is from 1 to 604800");
        }
        let is_wrong = |(from, to): (u8, u8)| from > 23 || to > 24 || from == to;
        if self.hours.is_some_and(is_wrong) {
            return Err("hours are two different hours from 0 to 24, such as [22, 6]");
        }
        Ok(())
    }

    /// True if this point runs it.
    pub fn concerns(&self, point: &str) -> bool {
        self.points.is_empty() || self.points.iter().any(|p| p == point)
    }

    /// Longest time that a start is late, s: less than a period, so that no start is passed over.
    pub fn patience_s(&self) -> u64 {
        self.wait_s.min(self.every_s.saturating_sub(2))
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
