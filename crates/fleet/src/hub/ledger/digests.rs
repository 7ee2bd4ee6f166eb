//! Digests of recordings in the ledger: days of probes, figures of tests; and what the operator says of the points.

use super::Ledger;
use ops::points::{Day, Digest, Hour, Point, of_steps, steps};
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SCHEMA: &str = "
create table if not exists digest (
    point text not null, recording text not null, fault text, primary key (point, recording)) strict;
create table if not exists delay_day (
    point text not null, target text not null, date text not null, judged integer not null, missed integer not null,
    steps text not null, primary key (point, target, date)) strict;
create table if not exists delay_hour (
    point text not null, target text not null, date text not null, hour integer not null, judged integer not null,
    missed integer not null, steps text not null, primary key (point, target, date, hour)) strict, without rowid;
create table if not exists round (
    point text not null, recording text not null, date text not null, round text not null,
    primary key (point, recording)) strict;
create table if not exists label (
    point text not null, key text not null, value text not null, primary key (point, key)) strict;
";

/// Tables whose rows go when a point's recordings are deleted.
pub(super) const OF_A_POINT: [&str; 5] = ["digest", "delay_day", "delay_hour", "round", "label"];

/// Days whose hours are kept: they take more room than days, and old ones tell little of today's.
const DAYS_OF_HOURS: u64 = 62;

/// Dates, UTC, both included; empty for no limit.
pub type Dates<'d> = (&'d str, &'d str);

impl Ledger {
    /// Stored recordings without a digest: point and name.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn undigested(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let mut query = self.db.prepare_cached(
            "select r.point, r.name from recording r left join digest d on d.point = r.point and d.recording = r.name
             where r.verdict = 'stored' and d.point is null and r.point not like 'share-%' order by r.started_ns",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Adds what a recording has to the days of its point, once.
    ///
    /// # Errors
    /// The ledger cannot be written, or a row of it is damaged.
    pub fn add_digest(
        &mut self,
        point: &str,
        recording: &str,
        digest: &Result<Digest, String>,
    ) -> anyhow::Result<()> {
        let change = self.change()?;
        // Its owner may have withdrawn it meanwhile; another process may have been faster.
        let is_stored =
            "select 1 from recording where point = ?1 and name = ?2 and verdict = 'stored'";
        let stored: Option<i64> = change
            .query_row(is_stored, [point, recording], |row| row.get(0))
            .optional()?;
        let fault = digest.as_ref().err();
        let add = "insert or ignore into digest values (?1, ?2, ?3)";
        if stored.is_none() || change.execute(add, params![point, recording, fault])? == 0 {
            return Ok(());
        }
        if let Ok(digest) = digest {
            digest
                .days
                .iter()
                .try_for_each(|day| add_day(&change, point, day))?;
            digest
                .hours
                .iter()
                .try_for_each(|hour| add_hour(&change, point, hour))?;
            let targets: BTreeSet<&str> = digest.hours.iter().map(|h| &*h.target).collect();
            targets
                .into_iter()
                .try_for_each(|target| forget_hours(&change, point, target))?;
            if let Some(round) = &digest.round {
                change.execute(
                    "insert into round values (?1, ?2, ?3, ?4)",
                    params![
                        point,
                        recording,
                        ops::points::date(round.started_ns),
                        serde_json::to_string(round)?
                    ],
                )?;
            }
        }
        Ok(change.commit()?)
    }

    /// Recordings that no report can use, with the reasons.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn digest_faults(&self) -> rusqlite::Result<Vec<(String, String, String)>> {
        let mut query = self.db.prepare_cached(
            "select point, recording, fault from digest where fault is not null order by 1, 2",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    /// Sets a label of a point, or removes it if the value is empty.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn label(&self, point: &str, key: &str, value: &str) -> rusqlite::Result<()> {
        match value {
            "" => self.db.execute(
                "delete from label where point = ?1 and key = ?2",
                [point, key],
            )?,
            _ => self.db.execute(
                "insert or replace into label values (?1, ?2, ?3)",
                [point, key, value],
            )?,
        };
        Ok(())
    }

    /// Names of all labels.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn label_keys(&self) -> rusqlite::Result<Vec<String>> {
        let mut query = self
            .db
            .prepare_cached("select distinct key from label order by key")?;
        let rows = query.query_map([], |row| row.get(0))?;
        rows.collect()
    }

    /// Labels of a point.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn labels(&self, point: &str) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut query = self
            .db
            .prepare_cached("select key, value from label where point = ?1")?;
        let rows = query.query_map([point], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Days and tests of a point within these dates.
    ///
    /// # Errors
    /// The ledger cannot be read, or a row of it is damaged.
    pub fn measured(&self, name: &str, (from, to): Dates<'_>) -> anyhow::Result<Point> {
        let within = "point = ?1 and date >= ?2 and (?3 = '' or date <= ?3)";
        let days = format!(
            "select target, date, judged, missed, steps from delay_day where {within} order by target, date"
        );
        let mut query = self.db.prepare_cached(&days)?;
        let mut rows = query.query([name, from, to])?;
        let mut point = Point {
            name: name.into(),
            labels: self.labels(name)?,
            ..Point::default()
        };
        while let Some(row) = rows.next()? {
            let text = row.get_ref(4)?.as_str()?;
            point.days.push(Day {
                target: row.get(0)?,
                date: row.get(1)?,
                judged: row.get::<_, i64>(2)?.unsigned_abs(),
                missed: row.get::<_, i64>(3)?.unsigned_abs(),
                rtts: of_steps(&serde_json::from_str::<Vec<(u64, u64)>>(text)?),
            });
        }
        let rounds = format!("select round from round where {within} order by date, recording");
        let mut query = self.db.prepare_cached(&rounds)?;
        let mut rows = query.query([name, from, to])?;
        while let Some(row) = rows.next()? {
            point
                .rounds
                .push(serde_json::from_str(row.get_ref(0)?.as_str()?)?);
        }
        Ok(point)
    }

    /// Hours of a point within these dates, of the newest days alone.
    ///
    /// # Errors
    /// The ledger cannot be read, or a row of it is damaged.
    pub fn hours(&self, name: &str, (from, to): Dates<'_>) -> anyhow::Result<Vec<Hour>> {
        let mut query = self.db.prepare_cached(
            "select target, date, hour, judged, missed, steps from delay_hour
             where point = ?1 and date >= ?2 and (?3 = '' or date <= ?3) order by target, date, hour",
        )?;
        let mut rows = query.query([name, from, to])?;
        let mut hours = Vec::new();
        while let Some(row) = rows.next()? {
            let text = row.get_ref(5)?.as_str()?;
            hours.push(Hour {
                target: row.get(0)?,
                date: row.get(1)?,
                hour: row.get::<_, i64>(2)?.unsigned_abs(),
                judged: row.get::<_, i64>(3)?.unsigned_abs(),
                missed: row.get::<_, i64>(4)?.unsigned_abs(),
                rtts: of_steps(&serde_json::from_str::<Vec<(u64, u64)>>(text)?),
            });
        }
        Ok(hours)
    }
}

/// Count as the ledger has it.
fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Adds probes to an hour of a point.
fn add_hour(change: &Transaction<'_>, point: &str, hour: &Hour) -> anyhow::Result<()> {
    let key = params![point, hour.target, hour.date, number(hour.hour)];
    let before: Option<(i64, i64, String)> = change
        .query_row(
            "select judged, missed, steps from delay_hour where point = ?1 and target = ?2 and date = ?3 and hour = ?4",
            key,
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let (mut judged, mut missed, mut rtts) = (hour.judged, hour.missed, hour.rtts.clone());
    if let Some((j, m, text)) = before {
        judged = judged.saturating_add(j.unsigned_abs());
        missed = missed.saturating_add(m.unsigned_abs());
        rtts.merge(&of_steps(&serde_json::from_str::<Vec<(u64, u64)>>(&text)?));
    }
    change.execute(
        "insert or replace into delay_hour values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            point,
            hour.target,
            hour.date,
            number(hour.hour),
            number(judged),
            number(missed),
            serde_json::to_string(&steps(&rtts))?
        ],
    )?;
    Ok(())
}

/// Deletes the hours of all but the newest days.
fn forget_hours(change: &Transaction<'_>, point: &str, target: &str) -> rusqlite::Result<()> {
    change.execute(
        "delete from delay_hour where point = ?1 and target = ?2 and date <= (
             select distinct date from delay_hour where point = ?1 and target = ?2 order by date desc limit 1 offset ?3)",
        params![point, target, number(DAYS_OF_HOURS)],
    )?;
    Ok(())
}

/// Adds probes to a day of a point.
fn add_day(change: &Transaction<'_>, point: &str, day: &Day) -> anyhow::Result<()> {
    let before: Option<(i64, i64, String)> = change
        .query_row(
            "select judged, missed, steps from delay_day where point = ?1 and target = ?2 and date = ?3",
            [point, &day.target, &day.date],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let (mut judged, mut missed, mut rtts) = (day.judged, day.missed, day.rtts.clone());
    if let Some((j, m, text)) = before {
        judged = judged.saturating_add(j.unsigned_abs());
        missed = missed.saturating_add(m.unsigned_abs());
        rtts.merge(&of_steps(&serde_json::from_str::<Vec<(u64, u64)>>(&text)?));
    }
    change.execute(
        "insert or replace into delay_day values (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            point,
            day.target,
            day.date,
            number(judged),
            number(missed),
            serde_json::to_string(&steps(&rtts))?
        ],
    )?;
    Ok(())
}
