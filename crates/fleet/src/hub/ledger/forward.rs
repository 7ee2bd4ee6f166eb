//! Recordings that a second store has, in the ledger.

use super::Ledger;
use crate::hub::clickhouse::Named;
use rusqlite::{Row, params};

/// `rows` is null from before the first row is sent until all were counted.
pub(super) const SCHEMA: &str = "
create table if not exists forwarded (
    target text not null, point text not null, recording text not null, rows integer, done_s integer,
    primary key (target, point, recording)) strict, without rowid;
create table if not exists forward_state (target text primary key, why text not null) strict;
";

/// Recordings sent in one pass.
const AT_ONCE: u64 = 500;

/// Second store as its hub left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub target: String,
    /// Failure of the last try; empty if it succeeded.
    pub why: String,
    /// Recordings that are there, and those that are not yet.
    pub there: u64,
    pub waiting: u64,
}

fn named(row: &Row<'_>) -> rusqlite::Result<Named> {
    Ok(Named {
        point: row.get(0)?,
        recording: row.get(1)?,
        started_ns: row.get(2)?,
    })
}

/// Recordings that a second store lacks; those of shares are no points of the fleet.
const LACKS: &str = "from recording r left join forwarded f on f.target = ?1 and f.point = r.point and f.recording = r.name
    where r.verdict = 'stored' and f.rows is null and r.point not like 'share-%'";

impl Ledger {
    /// Stored recordings that the target does not have, the oldest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn not_forwarded(&self, target: &str) -> rusqlite::Result<Vec<Named>> {
        let sql = format!(
            "select r.point, r.name, r.started_ns {LACKS} order by r.received_s, r.rowid limit {AT_ONCE}"
        );
        let mut query = self.db.prepare_cached(&sql)?;
        query.query_map([target], named)?.collect()
    }

    /// Recordings that the target has, or a part of them, although they were withdrawn.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn forwarded_withdrawn(&self, target: &str) -> rusqlite::Result<Vec<Named>> {
        let mut query = self.db.prepare_cached(
            "select f.point, f.recording, r.started_ns from forwarded f
             join recording r on r.point = f.point and r.name = f.recording
             where f.target = ?1 and r.verdict <> 'stored'",
        )?;
        query.query_map([target], named)?.collect()
    }

    /// Recordings that the target has, with their rows; without rows those that were begun.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn forwarded(&self, target: &str) -> rusqlite::Result<Vec<(Named, Option<u64>)>> {
        let mut query = self.db.prepare_cached(
            "select f.point, f.recording, r.started_ns, f.rows from forwarded f
             join recording r on r.point = f.point and r.name = f.recording
             where f.target = ?1",
        )?;
        let rows = |row: &Row<'_>| row.get::<_, Option<i64>>(3);
        let row = |row: &Row<'_>| Ok((named(row)?, rows(row)?.map(i64::unsigned_abs)));
        query.query_map([target], row)?.collect()
    }

    /// Notes that a recording's rows go to the target from now on. False if it was withdrawn meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn begin_forward(&self, target: &str, of: &Named) -> rusqlite::Result<bool> {
        let noted = self.db.execute(
            "insert or replace into forwarded (target, point, recording)
             select ?1, point, name from recording where point = ?2 and name = ?3 and verdict = 'stored'",
            params![target, of.point, of.recording],
        )?;
        Ok(noted > 0)
    }

    /// Notes that the target has a recording.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn end_forward(
        &self,
        target: &str,
        of: &Named,
        rows: u64,
        now_s: i64,
    ) -> rusqlite::Result<()> {
        let sql = "update forwarded set rows = ?4, done_s = ?5 where target = ?1 and point = ?2 and recording = ?3";
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let values = params![target, of.point, of.recording, rows, now_s];
        self.db.execute(sql, values).map(|_| ())
    }

    /// Notes that a recording has to go to the target again.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn repeat_forward(&self, target: &str, of: &Named) -> rusqlite::Result<()> {
        let sql =
            "update forwarded set rows = null where target = ?1 and point = ?2 and recording = ?3";
        let values = params![target, of.point, of.recording];
        self.db.execute(sql, values).map(|_| ())
    }

    /// Forgets a recording that the target has no longer.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn forget_forwarded(&self, target: &str, of: &Named) -> rusqlite::Result<()> {
        let sql = "delete from forwarded where target = ?1 and point = ?2 and recording = ?3";
        let values = params![target, of.point, of.recording];
        self.db.execute(sql, values).map(|_| ())
    }

    /// Notes why the last try failed; empty if it did not.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn told_forward(&self, target: &str, why: &str) -> rusqlite::Result<()> {
        let sql = "insert into forward_state values (?1, ?2) on conflict do update set why = excluded.why where why <> excluded.why";
        self.db.execute(sql, params![target, why]).map(|_| ())
    }

    /// Second stores.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn forwards(&self) -> rusqlite::Result<Vec<Forward>> {
        let lacks = format!("select count(*) {LACKS}");
        let has = "select count(*) from forwarded where target = ?1 and rows is not null";
        let count = |sql: &str, target: &str| {
            let mut query = self.db.prepare_cached(sql)?;
            query.query_row([target], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
        };
        let mut query = self
            .db
            .prepare_cached("select target, why from forward_state order by target")?;
        let states = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let states: Vec<(String, String)> = states.collect::<rusqlite::Result<_>>()?;
        let forward = |(target, why): (String, String)| {
            Ok(Forward {
                there: count(has, &target)?,
                waiting: count(&lacks, &target)?,
                target,
                why,
            })
        };
        states.into_iter().map(forward).collect()
    }
}
