//! Releases in the ledger: which points have one, which are to try it, what came of it.
//!
//! A release goes to a share of the points, then to a larger one, and so on. It moves on once it has proved itself at the points
//! that it has reached, and halts if too many return from it.

use super::{Ledger, note};
use crate::release::Version;
use crate::schedule::hash;
use crate::wire::State;
use anyhow::anyhow;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

pub(super) const SCHEMA: &str = "
create table if not exists release (
    version text not null, target text not null, bytes integer not null, signature text not null,
    primary key (version, target)) strict;
create table if not exists rollout (
    version text primary key, made_s integer not null, stages text not null, stage_time_s integer not null,
    stage integer not null, since_s integer not null, halted text) strict;
create table if not exists release_point (
    version text not null, point text not null, outcome text not null, since_s integer not null, why text,
    primary key (version, point)) strict;
";

/// Points that may return from a release before it halts: one of so many.
const ONE_FAILED_OF: u64 = 50;
/// Time without a word from a point that tries a release after which it counts as failed, s.
const LOST_S: i64 = 1800;

/// Way of a release to the points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub version: Version,
    /// Shares of the points, per cent, each larger than the one before.
    pub stages: Vec<u64>,
    /// Shortest time of a stage, s.
    pub stage_time_s: i64,
    /// Place of the present stage.
    pub stage: usize,
    /// Begin of the present stage, UNIX s.
    pub since_s: i64,
    /// Reason for which no further point gets it.
    pub halted: Option<String>,
}

impl Rollout {
    /// Share of the points that the release is to reach now, per cent.
    pub fn share(&self) -> u64 {
        self.stages.get(self.stage).copied().unwrap_or(100)
    }
}

/// Points of a release by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Counts {
    /// Not begun: the point has not reported since, or it waits for its budget or its disk.
    pub waiting: u64,
    /// The release runs there, and nothing it measured has come back yet.
    pub trying: u64,
    pub proven: u64,
    /// The point has returned to the program before.
    pub failed: u64,
}

impl Counts {
    fn all(self) -> u64 {
        self.waiting + self.trying + self.proven + self.failed
    }
}

/// Release at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointRelease {
    pub outcome: String,
    pub since_s: i64,
    pub why: Option<String>,
}

impl Ledger {
    /// Newest release, if there is one.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn rollout(&self) -> anyhow::Result<Option<Rollout>> {
        newest(&self.db)
    }

    /// Publishes a release, for one processor or more.
    ///
    /// # Errors
    /// A version that is not newer than the last one; the ledger cannot be written.
    pub fn add_release(
        &mut self,
        now_s: i64,
        (version, programs): (Version, &[(String, u64, String)]),
        (stages, stage_time_s): (&[u64], i64),
    ) -> anyhow::Result<()> {
        let who = self.who.clone();
        let change = self.change()?;
        if let Some(last) = newest(&change)?
            && last.version >= version
        {
            return Err(ops::usage(format!(
                "release {} is published already; {version} is not newer",
                last.version
            )));
        }
        for (target, bytes, signature) in programs {
            change.execute(
                "insert into release values (?1, ?2, ?3, ?4)",
                params![version.to_string(), target, bytes.cast_signed(), signature],
            )?;
        }
        let stages: Vec<String> = stages.iter().map(u64::to_string).collect();
        change.execute(
            "insert into rollout values (?1, ?2, ?3, ?4, 0, ?2, null)",
            params![version.to_string(), now_s, stages.join(","), stage_time_s],
        )?;
        note(
            &change,
            now_s,
            &who,
            &format!("published release {version}"),
        )?;
        change.commit()?;
        Ok(())
    }

    /// Halts the newest release, or lets it go on. Points that returned from it do not count from then on.
    ///
    /// # Errors
    /// There is no release; the ledger cannot be written.
    pub fn halt_release(&mut self, now_s: i64, why: Option<&str>) -> anyhow::Result<Version> {
        let who = self.who.clone();
        let change = self.change()?;
        let found = newest(&change)?.ok_or_else(|| ops::usage("there is no release"))?;
        let version = found.version.to_string();
        change.execute(
            "update rollout set halted = ?2 where version = ?1",
            params![version, why],
        )?;
        if why.is_none() {
            change.execute(
                "update release_point set outcome = 'left out' where version = ?1 and outcome = 'failed'",
                [&version],
            )?;
        }
        let what = if why.is_some() { "halted" } else { "resumed" };
        note(&change, now_s, &who, &format!("{what} release {version}"))?;
        change.commit()?;
        Ok(found.version)
    }

    /// Bytes and signature of a release for a target.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn release(
        &self,
        version: Version,
        target: &str,
    ) -> rusqlite::Result<Option<(u64, String)>> {
        let query = "select bytes, signature from release where version = ?1 and target = ?2";
        self.db
            .query_row(query, params![version.to_string(), target], |row| {
                Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
            })
            .optional()
    }

    /// Release at a point, if it was chosen for it.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn release_at(
        &self,
        version: Version,
        point: &str,
    ) -> rusqlite::Result<Option<PointRelease>> {
        let query =
            "select outcome, since_s, why from release_point where version = ?1 and point = ?2";
        self.db
            .query_row(query, params![version.to_string(), point], |row| {
                Ok(PointRelease {
                    outcome: row.get(0)?,
                    since_s: row.get(1)?,
                    why: row.get(2)?,
                })
            })
            .optional()
    }

    /// Points of a release by outcome.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn release_counts(&self, version: Version) -> rusqlite::Result<Counts> {
        counts(&self.db, version)
    }

    /// Notes what a point's state says about a release.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn note_release(
        &mut self,
        point: &str,
        now_s: i64,
        (version, state): (Version, &State),
    ) -> rusqlite::Result<()> {
        let failed = state
            .failed_release
            .as_ref()
            .filter(|f| f.version == version);
        let runs = state.agent.parse() == Ok(version);
        let (outcome, why) = match failed {
            Some(failed) => (
                "failed",
                Some(failed.why.chars().take(300).collect::<String>()),
            ),
            // A release on trial reports, too; what counts is the recording.
            None if runs => ("proven", None),
            None => return Ok(()),
        };
        let change = self.change()?;
        let tries: Option<i64> = change
            .query_row(
                "select 1 from release_point where version = ?1 and point = ?2 and outcome in ('waiting', 'trying', 'left out')
                 and not exists (select 1 from recording where point = ?2 and agent = ?1 and verdict = 'stored')",
                params![version.to_string(), point],
                |row| row.get(0),
            )
            .optional()?;
        if outcome == "failed" || tries.is_none() {
            change.execute(
                "insert into release_point values (?1, ?2, ?3, ?4, ?5)
                 on conflict do update set outcome = ?3, since_s = ?4, why = ?5
                 where outcome != ?3 and not (outcome = 'left out' and ?3 = 'failed')",
                params![version.to_string(), point, outcome, now_s, why],
            )?;
        }
        change.commit()
    }

    /// Notes that a point tries a release, and counts the recordings of it that are in the store.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn prove_release(
        &mut self,
        point: &str,
        version: Version,
        now_s: i64,
    ) -> rusqlite::Result<u64> {
        let change = self.change()?;
        change.execute(
            "update release_point set outcome = 'trying', since_s = ?3 where version = ?1 and point = ?2
             and outcome in ('waiting', 'trying')",
            params![version.to_string(), point, now_s],
        )?;
        let stored: i64 = change.query_row(
            "select count(*) from recording where point = ?2 and agent = ?1 and verdict = 'stored'",
            params![version.to_string(), point],
            |row| row.get(0),
        )?;
        change.commit()?;
        Ok(stored.unsigned_abs())
    }

    /// Moves the newest release on: chooses the points of the present stage, begins the next one, or halts. `may` says if a point
    /// can take the release at all.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub fn roll_out(&mut self, now_s: i64, may: &dyn Fn(&State) -> bool) -> anyhow::Result<()> {
        let Some(rollout) = self.rollout()?.filter(|r| r.halted.is_none()) else {
            return Ok(());
        };
        let version = rollout.version.to_string();
        self.db.execute(
            "update release_point set outcome = 'failed', why = 'not heard of since it tried the release'
             where version = ?1 and outcome = 'trying' and since_s < ?2",
            params![version, now_s - LOST_S],
        )?;
        let found = self.release_counts(rollout.version)?;
        if found.failed * ONE_FAILED_OF > found.all() {
            return self.halt(now_s, &rollout, found);
        }
        if self.has_passed(&rollout, found, now_s)? {
            self.db.execute(
                "update rollout set stage = stage + 1, since_s = ?2 where version = ?1",
                params![version, now_s],
            )?;
            let next = rollout
                .stages
                .get(rollout.stage + 1)
                .copied()
                .unwrap_or(100);
            let what = format!("release {version} goes to {next} % of the points");
            self.audit(now_s, "hub", &what)?;
        }
        self.choose(now_s, may)
    }

    fn halt(&mut self, now_s: i64, rollout: &Rollout, found: Counts) -> anyhow::Result<()> {
        let version = rollout.version.to_string();
        let (point, why): (String, Option<String>) = self.db.query_row(
            "select point, why from release_point where version = ?1 and outcome = 'failed' order by since_s limit 1",
            [&version],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let halted = format!(
            "{} of {} returned from it; {point}: {}",
            found.failed,
            ops::counted(found.all(), "point"),
            why.unwrap_or_default()
        );
        self.db.execute(
            "update rollout set halted = ?2 where version = ?1",
            params![version, halted],
        )?;
        let what = format!("halted release {version}: {halted}");
        Ok(self.audit(now_s, "hub", &what)?)
    }

    /// True if a release may go to more points: its time at the present ones is over, none of them tries it still, and of those
    /// that report half have it at least.
    fn has_passed(&self, rollout: &Rollout, found: Counts, now_s: i64) -> rusqlite::Result<bool> {
        let is_last = rollout.stage + 1 >= rollout.stages.len();
        if is_last
            || found.trying > 0
            || found.proven == 0
            || now_s - rollout.since_s < rollout.stage_time_s
        {
            return Ok(false);
        }
        let waiting: i64 = self.db.query_row(
            "select count(*) from release_point join state using (point)
             where version = ?1 and outcome = 'waiting' and received_s > ?2",
            params![rollout.version.to_string(), rollout.since_s],
            |row| row.get(0),
        )?;
        Ok(waiting.unsigned_abs() <= found.proven)
    }

    /// Chooses points until the present stage has its share. The order is a hash of version and name: other points are first with
    /// each release.
    fn choose(&mut self, now_s: i64, may: &dyn Fn(&State) -> bool) -> anyhow::Result<()> {
        let Some(rollout) = self.rollout()? else {
            return Ok(());
        };
        let version = rollout.version.to_string();
        let (chosen, others) = self.choice(&version)?;
        let is_older = |s: &State| s.agent.parse().is_ok_and(|v: Version| v < rollout.version);
        let mut able: BTreeMap<u64, String> = BTreeMap::new();
        for (name, state) in others {
            let state: State = serde_json::from_str(&state)?;
            if is_older(&state) && may(&state) {
                able.insert(hash(&[&version, &name]), name);
            }
        }
        let all = chosen + able.len() as u64;
        let wanted = (all * rollout.share()).div_ceil(100);
        let change = self.change()?;
        for point in able
            .into_values()
            .take(wanted.saturating_sub(chosen) as usize)
        {
            change.execute(
                "insert or ignore into release_point values (?1, ?2, 'waiting', ?3, null)",
                params![version, point, now_s],
            )?;
        }
        change.commit()?;
        Ok(())
    }
}

impl Ledger {
    /// Number of points that were chosen for a release, and the others with their states.
    fn choice(&self, version: &str) -> rusqlite::Result<(u64, Vec<(String, String)>)> {
        let chosen: i64 = self.db.query_row(
            "select count(*) from release_point join point on point.name = point
             where version = ?1 and revoked_s is null",
            [version],
            |row| row.get(0),
        )?;
        let mut query = self.db.prepare_cached(
            "select state.point, state from state join point on point.name = state.point
             where revoked_s is null and not exists (
                 select 1 from release_point r where r.version = ?1 and r.point = state.point)",
        )?;
        let rows = query.query_map([version], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((chosen.unsigned_abs(), rows.collect::<Result<_, _>>()?))
    }
}

fn newest(db: &Connection) -> anyhow::Result<Option<Rollout>> {
    let mut query = db.prepare_cached(
        "select version, stages, stage_time_s, stage, since_s, halted from rollout",
    )?;
    let rows = query.query_map([], |row| {
        let words: (String, String) = (row.get(0)?, row.get(1)?);
        let numbers: [i64; 3] = [row.get(2)?, row.get(3)?, row.get(4)?];
        Ok((words, numbers, row.get::<_, Option<String>>(5)?))
    })?;
    let mut found: Option<Rollout> = None;
    for row in rows {
        let ((version, stages), [stage_time_s, stage, since_s], halted) = row?;
        let version: Version = version.parse().map_err(|e: String| anyhow!(e))?;
        if found.as_ref().is_none_or(|f| f.version < version) {
            let stages = stages
                .split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            found = Some(Rollout {
                version,
                stages,
                stage_time_s,
                stage: usize::try_from(stage)?,
                since_s,
                halted,
            });
        }
    }
    Ok(found)
}

fn counts(db: &Connection, version: Version) -> rusqlite::Result<Counts> {
    let query = "select count(*) filter (where outcome = 'waiting'), count(*) filter (where outcome = 'trying'),
        count(*) filter (where outcome = 'proven'), count(*) filter (where outcome = 'failed')
        from release_point where version = ?1";
    db.query_row(query, [version.to_string()], |row| {
        let number = |i| row.get::<_, i64>(i).map(i64::unsigned_abs);
        Ok(Counts {
            waiting: number(0)?,
            trying: number(1)?,
            proven: number(2)?,
            failed: number(3)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::PublicKey;
    use crate::wire::FailedRelease;
    use base::rng::{Rng, Streams};
    use rand::RngExt;
    use std::path::Path;

    const STAGES: [u64; 3] = [1, 10, 100];
    const STAGE_S: i64 = 600;

    /// Point of a simulated fleet.
    struct Sim {
        name: String,
        agent: String,
        failed: Option<FailedRelease>,
        /// Time at which its trial ends, and if the release proves itself.
        trial: Option<(i64, bool)>,
        /// False while it is off.
        on: bool,
    }

    impl Sim {
        fn state(&self) -> State {
            State {
                agent: self.agent.clone(),
                failed_release: self.failed.clone(),
                ..State::default()
            }
        }
    }

    fn ledger(rng: &mut Rng, points: usize) -> (Ledger, Vec<Sim>) {
        let ledger = Ledger::open(Path::new(":memory:")).unwrap();
        let sims: Vec<Sim> = (0..points)
            .map(|i| Sim {
                name: format!("p{i}"),
                agent: "1.0.0".into(),
                failed: None,
                trial: None,
                on: rng.random_range(0..20) > 0,
            })
            .collect();
        for (i, sim) in sims.iter().enumerate() {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&(i as u64).to_be_bytes());
            let row = "insert into point (name, public_key, enrolled_s) values (?1, ?2, 0)";
            let key = PublicKey(key).to_string();
            ledger.db.execute(row, params![sim.name, key]).unwrap();
        }
        (ledger, sims)
    }

    fn store(ledger: &Ledger, sim: &Sim, version: Version, now: i64) {
        let row = "insert or ignore into recording values
            (?1, ?2, 'm', 1, ?3, 'h', 0, 1, null, 1, 1, ?4, 'stored', null, '{}')";
        let name = format!("m.{now}.rec");
        let values = params![sim.name, name, version.to_string(), now];
        ledger.db.execute(row, values).unwrap();
    }

    /// One second of a point: its trial, and each minute its report.
    fn step(
        (ledger, sim): (&mut Ledger, &mut Sim),
        (version, now): (Version, i64),
        (bad, rng): (f64, &mut Rng),
    ) {
        if let Some((ends, is_good)) = sim.trial {
            ledger.prove_release(&sim.name, version, now).unwrap();
            if now < ends {
                return;
            }
            sim.trial = None;
            match is_good {
                true => {
                    sim.agent = version.to_string();
                    store(ledger, sim, version, now);
                }
                false => {
                    let why = "it ended 3 times".into();
                    sim.failed = Some(FailedRelease { version, why });
                }
            }
        }
        let state = sim.state();
        ledger.add_state(&sim.name, now, &state).unwrap();
        let noted = (version, &state);
        ledger.note_release(&sim.name, now, noted).unwrap();
        let at = ledger.release_at(version, &sim.name).unwrap();
        let is_halted = ledger.rollout().unwrap().unwrap().halted.is_some();
        if at.is_some_and(|at| at.outcome == "waiting") && !is_halted && sim.agent == "1.0.0" {
            let lasts = rng.random_range(10..120);
            sim.trial = Some((now + lasts, !rng.random_bool(bad)));
        }
    }

    /// Fleets of random size, of which some points are off, and releases of which a random share fails.
    #[test]
    fn a_release_reaches_its_share_and_no_more_and_halts_if_it_fails() {
        for seed in 1..=30 {
            let mut rng = Streams::new(seed).stream("releases");
            let points = rng.random_range(1..120usize);
            let bad = [0.0, 0.0, 0.3, 1.0][seed as usize % 4];
            let (mut ledger, mut sims) = ledger(&mut rng, points);
            let version: Version = "1.1.0".parse().unwrap();
            for sim in sims.iter().filter(|s| s.on) {
                ledger.add_state(&sim.name, 0, &sim.state()).unwrap();
            }
            let on = sims.iter().filter(|s| s.on).count() as u64;
            ledger
                .add_release(0, (version, &[]), (&STAGES, STAGE_S))
                .unwrap();
            let (mut stages, mut tried) = (vec![0], 0);
            for now in (0..4000).step_by(10) {
                ledger.roll_out(now, &|_| true).unwrap();
                let rollout = ledger.rollout().unwrap().unwrap();
                let found = ledger.release_counts(version).unwrap();
                let most = (on * rollout.share()).div_ceil(100);
                assert!(
                    found.all() <= most,
                    "seed {seed} at {now}: {found:?} of {on}"
                );
                if rollout.stage != *stages.last().unwrap() {
                    assert!(
                        found.proven > 0 && rollout.stage == stages.len(),
                        "seed {seed}"
                    );
                    stages.push(rollout.stage);
                    assert!(
                        now >= STAGE_S * (stages.len() as i64 - 1),
                        "seed {seed} at {now}"
                    );
                }
                tried = tried.max(found.all());
                for sim in sims.iter_mut().filter(|s| s.on) {
                    step((&mut ledger, sim), (version, now), (bad, &mut rng));
                }
            }
            let rollout = ledger.rollout().unwrap().unwrap();
            let found = ledger.release_counts(version).unwrap();
            println!(
                "seed {seed}: {on} of {points} on, {bad} bad: {found:?}, {:?}",
                rollout.halted
            );
            if on == 0 {
                continue;
            }
            if bad == 0.0 {
                assert_eq!((found.proven, &rollout.halted), (on, &None), "seed {seed}");
            }
            if bad == 1.0 {
                // The first share alone has seen it.
                assert!(rollout.halted.is_some() && found.failed > 0, "seed {seed}");
                assert_eq!(tried, on.div_ceil(100), "seed {seed}");
            }
            assert!(found.failed * ONE_FAILED_OF <= found.all() || rollout.halted.is_some());
        }
    }
}
