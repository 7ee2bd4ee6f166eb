//! State of the fleet, judged by the data that came back.

use super::ledger::{Ledger, PointRelease, Sums};
use super::releases::ReleaseStatus;
use crate::plan::FleetPlan;
use crate::release::Version;
use crate::task::ReadTask;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Reports that a point may leave out before it counts as silent.
const REPORTS: u64 = 2;
/// Difference between a point's clock and the hub's from which on it is wrong, s.
const CLOCK_S: i64 = 5;
/// Free space of a point below which it is in trouble.
const DISK: u64 = 200_000_000;

/// Health of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    Ok,
    /// Reports, but a measurement has not come back for two of its periods.
    Late,
    /// Its clock differs from the hub's.
    Clock,
    /// Its disk is nearly full.
    Disk,
    /// Has not reported for two periods of its report.
    Silent,
    /// Tries a new release.
    Upgrade,
    /// Has never reported.
    New,
    Revoked,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Health::Ok => "ok",
            Health::Late => "late",
            Health::Clock => "clock",
            Health::Disk => "disk",
            Health::Silent => "silent",
            Health::Upgrade => "upgrade",
            Health::New => "new",
            Health::Revoked => "revoked",
        })
    }
}

/// One point.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct PointStatus {
    pub name: String,
    pub health: Health,
    /// Cause of a health that is not "ok".
    pub why: Option<String>,
    pub agent: Option<String>,
    pub plan: Option<u64>,
    /// Time since its last report, s.
    pub reported_s_ago: Option<i64>,
    /// Time since the end of its latest recording in the store, s.
    pub measured_s_ago: Option<i64>,
    pub recordings: u64,
    pub quarantined: u64,
    pub rows: u64,
    pub bytes: u64,
    pub spool_recordings: Option<u64>,
    pub spool_bytes: Option<u64>,
    /// Rows that the point closed and the hub has not: still in the spool, in quarantine, or lost.
    pub rows_outstanding: Option<i64>,
    /// Traffic of the point on this day and in this month (UTC), bytes, by its own account.
    pub spent_today: Option<u64>,
    pub spent_this_month: Option<u64>,
    /// Sentences of the point about what waits, and why.
    pub remarks: Vec<String>,
    /// Newest release at this point: waiting, trying, proven, failed or left out; null if it was not chosen for it.
    pub release: Option<String>,
    /// Runs by outcome: done, incomplete, deferred, skipped.
    pub runs: BTreeMap<String, u64>,
}

/// Whole fleet.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Status {
    pub plan: Option<u64>,
    /// Newest release, if there is one.
    pub release: Option<ReleaseStatus>,
    /// ClickHouse servers that take rows, too.
    pub clickhouse: Vec<SecondStore>,
    pub points: Vec<PointStatus>,
}

/// Server that takes the rows of all recordings beside the hub's own store.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct SecondStore {
    pub address: String,
    /// Recordings whose rows are all there.
    pub recordings: u64,
    /// Recordings that are not there yet.
    pub waiting: u64,
    /// Reason why the last try failed; null if it did not.
    pub why: Option<String>,
}

/// Time after its last question for which a point counts as one that tries a release, s.
const TRIES_S: i64 = 120;

pub(super) fn status(
    ledger: &Ledger,
    read: ReadTask,
    now_s: i64,
    release: Option<(Version, ReleaseStatus)>,
) -> anyhow::Result<Status> {
    let plan = ledger.plan()?;
    let parsed = plan
        .as_ref()
        .map(|p| FleetPlan::parse(&p.text, read))
        .transpose()?;
    let mut points = Vec::new();
    for point in ledger.points()? {
        let sums = ledger.sums(&point.name)?;
        let state = ledger.state(&point.name)?;
        let (health, why) = match (&state, point.revoked) {
            (_, true) => (Health::Revoked, None),
            (None, _) => (
                Health::New,
                Some("it has joined, and not reported yet".into()),
            ),
            (Some((received_s, state)), _) => judge(
                parsed.as_ref(),
                &point.name,
                &sums,
                now_s,
                *received_s,
                state,
            ),
        };
        let at = match &release {
            Some((version, _)) => ledger.release_at(*version, &point.name)?,
            None => None,
        };
        let is_trying = |at: &PointRelease| {
            let is_now = now_s - at.since_s < TRIES_S;
            (at.outcome == "trying" && is_now).then(|| "it tries the release".to_owned())
        };
        let (health, why) = match at.as_ref().and_then(is_trying) {
            Some(why) if !point.revoked => (Health::Upgrade, Some(why)),
            _ => (health, why),
        };
        let mut remarks = state
            .as_ref()
            .map_or_else(Vec::new, |(_, s)| s.remarks.clone());
        if let (Some(at), Some((version, _))) = (&at, &release)
            && let (true, Some(why)) = (at.outcome == "failed", &at.why)
        {
            remarks.push(format!("it returned from release {version}: {why}"));
        }
        let known = state.as_ref().map(|(_, s)| s);
        points.push(PointStatus {
            health,
            why,
            agent: known.map(|s| s.agent.clone()),
            plan: known.map(|s| s.plan),
            reported_s_ago: state.as_ref().map(|(at, _)| now_s - at),
            measured_s_ago: sums.latest_s.map(|s| now_s - s),
            recordings: sums.stored,
            quarantined: sums.quarantined,
            rows: sums.rows,
            bytes: sums.bytes,
            spool_recordings: known.map(|s| s.spool_recordings),
            spool_bytes: known.map(|s| s.spool_bytes),
            rows_outstanding: known.map(|s| s.rows_closed as i64 - sums.rows as i64),
            spent_today: known.map(|s| s.spent_today),
            spent_this_month: known.map(|s| s.spent_this_month),
            remarks,
            release: at.map(|at| at.outcome),
            runs: ledger.runs(&point.name)?.into_iter().collect(),
            name: point.name,
        });
    }
    let second = ledger.forwards()?.into_iter().map(|f| SecondStore {
        address: f.target,
        recordings: f.there,
        waiting: f.waiting,
        why: (!f.why.is_empty()).then_some(f.why),
    });
    Ok(Status {
        plan: plan.map(|p| p.number),
        release: release.map(|(_, status)| status),
        clickhouse: second.collect(),
        points,
    })
}

fn judge(
    plan: Option<&FleetPlan>,
    point: &str,
    sums: &Sums,
    now_s: i64,
    received_s: i64,
    state: &crate::wire::State,
) -> (Health, Option<String>) {
    let every = plan.map_or(60, |p| p.report_every_s);
    let silent_s = now_s - received_s;
    if silent_s > (REPORTS * every) as i64 {
        return (
            Health::Silent,
            Some(format!(
                "no report for {silent_s} s, one each {every} s is due"
            )),
        );
    }
    let off_s = state.unix_s - received_s;
    if off_s.abs() > CLOCK_S {
        return (
            Health::Clock,
            Some(format!("its clock is {off_s:+} s from the hub's")),
        );
    }
    if state.disk_free < DISK {
        return (
            Health::Disk,
            Some(format!("{} MB free", state.disk_free / 1_000_000)),
        );
    }
    let shortest = plan
        .into_iter()
        .flat_map(FleetPlan::measurements)
        .filter(|(m, _)| m.concerns(point) && m.hours.is_none())
        .map(|(m, _)| 2 * m.every_s + m.at_most_s)
        .min();
    match (shortest, sums.latest_s) {
        (Some(most), Some(latest)) if now_s - latest > most as i64 => (
            Health::Late,
            Some(format!("nothing measured for {} s", now_s - latest)),
        ),
        _ => (Health::Ok, None),
    }
}
