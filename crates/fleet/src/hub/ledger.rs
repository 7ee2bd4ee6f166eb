//! Ledger of the hub: one SQLite file with a row for each point, recording, run and change.
//!
//! Each change is one transaction that is on the disk before the answer leaves (`synchronous=FULL`).

mod digests;
mod forward;
mod releases;

pub use digests::Dates;
pub use releases::{Counts, PointRelease};

use super::LogLine;
use super::readers::Scope;
use crate::identity::PublicKey;
use crate::manifest::Manifest;
use crate::wire::{AskedRun, Receipt, Run, SignedPlan, State, Verdict};
use anyhow::{Context, anyhow};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Name in the log of an operator at the hub's machine.
const OPERATOR: &str = "operator";

const SCHEMA: &str = "
create table if not exists point (
    name text primary key, public_key text not null unique, enrolled_s integer not null, revoked_s integer,
    runs_until integer not null default 0) strict;
create table if not exists invitation (
    trace text primary key, name text not null, made_s integer not null, expires_s integer not null, used_s integer) strict;
create table if not exists recording (
    point text not null references point(name), name text not null, measurement text not null, plan integer not null,
    agent text not null, manifest text not null, started_ns integer not null, ended_ns integer not null,
    since_sync_s integer, bytes integer not null, rows integer not null, received_s integer not null,
    verdict text not null, reason text, receipt text not null, primary key (point, name)) strict;
create index if not exists recording_by_time on recording (point, measurement, started_ns);
create table if not exists run (
    point text not null, place integer not null, measurement text not null, number integer not null,
    due_s integer not null, ended_s integer not null, outcome text not null, reason text, recording text,
    primary key (point, place)) strict;
create table if not exists state (
    point text primary key, received_s integer not null, state text not null) strict;
create table if not exists plan (
    number integer primary key, made_s integer not null, plan text not null, signature text not null) strict;
create table if not exists consent (
    point text not null, version text not null, given_s integer not null) strict;
create table if not exists turn (
    server text primary key, point text not null, until_s integer not null) strict;
create table if not exists turn_wanted (
    server text not null, point text not null, asked_s integer not null, had_s integer not null default 0,
    primary key (server, point)) strict;
create table if not exists reader (
    name text primary key, trace text not null, made_s integer not null) strict;
create table if not exists reader_scope (
    name text primary key, key text not null, value text not null) strict;
create table if not exists operator (
    name text primary key, public_key text not null, made_s integer not null) strict;
create table if not exists asked_run (
    number integer primary key autoincrement, point text not null, measurement text not null, asked_s integer not null,
    until_s integer not null) strict;
create table if not exists told (
    name text primary key, state text not null, since_s integer not null) strict;
create table if not exists audit (
    t_s integer not null, who text not null, what text not null) strict;
";

/// Time after its last question for which a point still wants a turn, s. It asks each five seconds.
const WANTED_S: i64 = 10;

/// The ledger, open. Other processes write to it, too (`tailback hub invite`), so each change takes the lock for writing at
/// its begin: SQLite does not wait for a lock that a reader wants to exchange for a writer's.
pub struct Ledger {
    db: Connection,
    /// Name of the operator in the log of changes.
    pub who: Arc<str>,
}

/// Point of the ledger.
#[derive(Clone, Debug)]
pub struct Point {
    pub name: String,
    pub public_key: PublicKey,
    pub revoked: bool,
}

/// Sums over a point's recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub stored: u64,
    pub quarantined: u64,
    pub rows: u64,
    pub bytes: u64,
    /// End of the latest recording, UNIX s.
    pub latest_s: Option<i64>,
}

fn key(text: String) -> rusqlite::Result<PublicKey> {
    PublicKey::try_from(text).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, e.into())
    })
}

impl Ledger {
    /// Opens the ledger, or makes an empty one.
    ///
    /// # Errors
    /// The file cannot be opened, or is no ledger.
    pub fn open(path: &Path) -> anyhow::Result<Ledger> {
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open(path)?;
            db.busy_timeout(Duration::from_secs(20))?;
            db.pragma_update(None, "journal_mode", "wal")?;
            db.pragma_update(None, "synchronous", "full")?;
            db.pragma_update(None, "foreign_keys", true)?;
            db.execute_batch(SCHEMA)?;
            db.execute_batch(digests::SCHEMA)?;
            db.execute_batch(releases::SCHEMA)?;
            db.execute_batch(forward::SCHEMA)?;
            Ok(db)
        };
        let db = open().with_context(|| format!("cannot open the ledger {}", path.display()))?;
        Ok(Ledger {
            db,
            who: OPERATOR.into(),
        })
    }

    fn change(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.db
            .transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Adds a line to the audit log.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn audit(&self, now_s: i64, who: &str, what: &str) -> rusqlite::Result<()> {
        note(&self.db, now_s, who, what)
    }

    /// Lines of the audit log, the oldest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn log(&self) -> rusqlite::Result<Vec<LogLine>> {
        let mut query = self
            .db
            .prepare_cached("select t_s, who, what from audit order by rowid")?;
        let rows = query.query_map([], |row| {
            Ok(LogLine {
                time_s: row.get(0)?,
                who: row.get(1)?,
                what: row.get(2)?,
            })
        })?;
        rows.collect()
    }

    /// Keeps the trace of an invitation.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn invite(
        &self,
        trace: &str,
        name: &str,
        now_s: i64,
        expires_s: i64,
    ) -> anyhow::Result<()> {
        if self.point(name)?.is_some_and(|p| !p.revoked) {
            return Err(ops::usage(format!(
                "{name} has joined already; revoke it first"
            )));
        }
        self.db.execute(
            "insert into invitation values (?1, ?2, ?3, ?4, null)",
            params![trace, name, now_s, expires_s],
        )?;
        Ok(self.audit(now_s, &self.who, &format!("invited {name}"))?)
    }

    /// Lets the holder of an invitation join: its name, or none if the secret is unknown, used or expired. The same key
    /// may join again with the same secret, as an agent does that lost the answer.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn enrol(
        &mut self,
        trace: &str,
        public: &PublicKey,
        consent: &str,
        now_s: i64,
    ) -> anyhow::Result<Option<String>> {
        let change = self.change()?;
        let found: Option<(String, i64, Option<i64>)> = change
            .query_row(
                "select name, expires_s, used_s from invitation where trace = ?1",
                [trace],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((name, expires_s, used_s)) = found else {
            return Ok(None);
        };
        let text = public.to_string();
        if used_s.is_some() {
            let same: Option<i64> = change
                .query_row(
                    "select 1 from point where name = ?1 and public_key = ?2 and revoked_s is null",
                    [&name, &text],
                    |row| row.get(0),
                )
                .optional()?;
            return Ok(same.map(|_| name));
        }
        if expires_s < now_s {
            return Ok(None);
        }
        change.execute(
            "insert into point (name, public_key, enrolled_s) values (?1, ?2, ?3)
             on conflict (name) do update set public_key = ?2, enrolled_s = ?3, revoked_s = null",
            params![name, text, now_s],
        )?;
        change.execute(
            "update invitation set used_s = ?2 where trace = ?1",
            params![trace, now_s],
        )?;
        change.execute(
            "insert into consent values (?1, ?2, ?3)",
            params![name, consent, now_s],
        )?;
        note(&change, now_s, &name, "joined")?;
        change.commit()?;
        Ok(Some(name))
    }

    /// Name for which an invitation was made.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn invited_as(&self, trace: &str) -> rusqlite::Result<Option<String>> {
        let query = "select name from invitation where trace = ?1";
        self.db
            .query_row(query, [trace], |row| row.get(0))
            .optional()
    }

    /// Bytes of all recordings of points whose names begin so.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn bytes_shared(&self, prefix: &str) -> rusqlite::Result<u64> {
        let query =
            "select coalesce(sum(bytes), 0) from recording where substr(point, 1, length(?1)) = ?1";
        self.db.query_row(query, [prefix], |row| {
            row.get::<_, i64>(0).map(i64::unsigned_abs)
        })
    }

    /// Ends the access of a point; its recordings stay. False if there is no such point.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn revoke(&self, name: &str, who: &str, now_s: i64) -> anyhow::Result<bool> {
        let done = self.db.execute(
            "update point set revoked_s = ?2 where name = ?1 and revoked_s is null",
            params![name, now_s],
        )?;
        if done > 0 {
            self.audit(now_s, who, &format!("revoked {name}"))?;
        }
        Ok(done > 0)
    }

    /// Notes that a point's recordings were deleted. Their rows stay, so that none of them is taken in again.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn withdraw(&mut self, name: &str, who: &str, now_s: i64) -> rusqlite::Result<()> {
        let change = self.change()?;
        change.execute(
            "update recording set verdict = 'withdrawn', bytes = 0, rows = 0 where point = ?1",
            [name],
        )?;
        for table in ["state", "asked_run"].iter().chain(&digests::OF_A_POINT) {
            change.execute(&format!("delete from {table} where point = ?1"), [name])?;
        }
        let what = format!("deleted the recordings of {name}");
        note(&change, now_s, who, &what)?;
        change.commit()
    }

    /// Point of a name.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn point(&self, name: &str) -> rusqlite::Result<Option<Point>> {
        let mut all = self.points_where("where name = ?1", &[&name])?;
        Ok(all.pop())
    }

    /// All points of the fleet, by name; those of shared recordings are none of it.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn points(&self) -> rusqlite::Result<Vec<Point>> {
        self.points_where("where name not like 'share-%' order by name", &[])
    }

    /// All points, those of shared recordings included.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn all_points(&self) -> rusqlite::Result<Vec<Point>> {
        self.points_where("order by name", &[])
    }

    fn points_where(
        &self,
        rest: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> rusqlite::Result<Vec<Point>> {
        let text = format!("select name, public_key, revoked_s is not null from point {rest}");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(values, |row| {
            Ok(Point {
                name: row.get(0)?,
                public_key: key(row.get(1)?)?,
                revoked: row.get(2)?,
            })
        })?;
        rows.collect()
    }

    /// Hash of the manifest and the receipt of a recording.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn recording(&self, point: &str, name: &str) -> anyhow::Result<Option<Receipt>> {
        let text: Option<String> = self
            .db
            .query_row(
                "select receipt from recording where point = ?1 and name = ?2",
                [point, name],
                |row| row.get(0),
            )
            .optional()?;
        text.map(|t| serde_json::from_str(&t).context("a receipt of the ledger is damaged"))
            .transpose()
    }

    /// Names of a point's recordings that are in the store.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn stored(&self, point: &str) -> rusqlite::Result<Vec<(String, u64)>> {
        let mut query = self.db.prepare_cached(
            "select name, rows from recording where point = ?1 and verdict = 'stored' order by started_ns, name",
        )?;
        let rows = query.query_map([point], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        rows.collect()
    }

    /// Latest stored recording of each of a point's measurements.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn latest(&self, point: &str) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut query = self.db.prepare_cached(
            "select measurement, name from recording where point = ?1 and verdict = 'stored'
             order by started_ns, received_s",
        )?;
        let rows = query.query_map([point], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Writes the row of a recording, with its receipt. False if the point's access has ended meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn add_recording(
        &mut self,
        manifest: &Manifest,
        receipt: &Receipt,
    ) -> anyhow::Result<bool> {
        let verdict = match receipt.verdict {
            Verdict::Stored => "stored",
            Verdict::Quarantined => "quarantined",
        };
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let change = self.change()?;
        let is_revoked = "select revoked_s is not null from point where name = ?1";
        if change.query_row(is_revoked, [&receipt.point], |row| row.get(0))? {
            return Ok(false);
        }
        change.execute(
            "insert into recording values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                receipt.point,
                receipt.recording,
                manifest.measurement,
                number(manifest.plan),
                manifest.agent,
                receipt.manifest,
                manifest.started_ns,
                manifest.ended_ns,
                manifest.since_sync_s.map(number),
                number(manifest.all_bytes()),
                number(receipt.rows),
                receipt.received_s,
                verdict,
                receipt.reason,
                serde_json::to_string(receipt)?,
            ],
        )?;
        change.commit()?;
        Ok(true)
    }

    /// Keeps a point's state and its runs. Runs that the ledger has already are left out; returns the number of runs
    /// that it has now.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn add_state(&mut self, point: &str, now_s: i64, state: &State) -> anyhow::Result<u64> {
        let change = self.change()?;
        let mut until: i64 = change.query_row(
            "select runs_until from point where name = ?1",
            [point],
            |row| row.get(0),
        )?;
        for run in &state.runs {
            if i64::try_from(run.index) != Ok(until) {
                continue;
            }
            add_run(&change, point, run)?;
            until += 1;
        }
        change.execute(
            "update point set runs_until = ?2 where name = ?1",
            params![point, until],
        )?;
        let bare = State {
            runs: Vec::new(),
            ..state.clone()
        };
        change.execute(
            "insert into state values (?1, ?2, ?3) on conflict (point) do update set received_s = ?2, state = ?3",
            params![point, now_s, serde_json::to_string(&bare)?],
        )?;
        change.commit()?;
        Ok(until.unsigned_abs())
    }

    /// Latest state of a point, and the time at which it came.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn state(&self, point: &str) -> anyhow::Result<Option<(i64, State)>> {
        let found: Option<(i64, String)> = self
            .db
            .query_row(
                "select received_s, state from state where point = ?1",
                [point],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        found
            .map(|(at, text)| Ok((at, serde_json::from_str(&text)?)))
            .transpose()
    }

    /// Sums over the recordings of a point.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn sums(&self, point: &str) -> rusqlite::Result<Sums> {
        self.db.query_row(
            "select count(*) filter (where verdict = 'stored'), count(*) filter (where verdict = 'quarantined'),
                    coalesce(sum(rows) filter (where verdict = 'stored'), 0),
                    coalesce(sum(bytes) filter (where verdict = 'stored'), 0),
                    max(ended_ns / 1000000000) filter (where verdict = 'stored')
             from recording where point = ?1",
            [point],
            |row| {
                let number = |i| row.get::<_, i64>(i).map(i64::unsigned_abs);
                Ok(Sums {
                    stored: number(0)?,
                    quarantined: number(1)?,
                    rows: number(2)?,
                    bytes: number(3)?,
                    latest_s: row.get(4)?,
                })
            },
        )
    }

    /// Number of runs of a point for each outcome.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn runs(&self, point: &str) -> rusqlite::Result<Vec<(String, u64)>> {
        let mut query = self.db.prepare_cached(
            "select outcome, count(*) from run where point = ?1 group by outcome order by outcome",
        )?;
        let rows = query.query_map([point], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        rows.collect()
    }

    /// Gives a point the turn at a server for a time, or back if the time is 0. A free turn is for the point that had it
    /// longest ago among those that want it. Returns the end of another point's turn, or the next second if the free turn is
    /// for another point.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn take_turn(
        &mut self,
        (point, server): (&str, &str),
        now_s: i64,
        for_s: u64,
    ) -> rusqlite::Result<Option<i64>> {
        let change = self.change()?;
        change.execute("delete from turn where until_s <= ?1", [now_s])?;
        let taken = if for_s == 0 {
            give_turn_back(&change, (point, server))?;
            None
        } else {
            want_turn(&change, (point, server), now_s)?;
            let taken = turn_taken(&change, (point, server), now_s)?;
            if taken.is_none() {
                let until_s = now_s.saturating_add_unsigned(for_s);
                start_turn(&change, (point, server), now_s, until_s)?;
            }
            taken
        };
        change.commit()?;
        Ok(taken)
    }

    /// Keeps the trace of a reader's token and what it shows, in place of those before.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn add_reader(
        &mut self,
        name: &str,
        trace: &str,
        scope: &Scope,
        now_s: i64,
    ) -> rusqlite::Result<()> {
        let who = self.who.clone();
        let change = self.change()?;
        let add = "insert or replace into reader values (?1, ?2, ?3)";
        change.execute(add, params![name, trace, now_s])?;
        change.execute("delete from reader_scope where name = ?1", [name])?;
        let mut what = format!("gave the reader {name} a token");
        if let Scope::Label(key, value) = scope {
            let add = "insert into reader_scope values (?1, ?2, ?3)";
            change.execute(add, [name, key, value])?;
            what += &format!(" for the points with {key}={value}");
        }
        note(&change, now_s, &who, &what)?;
        change.commit()
    }

    /// Ends a reader's access. False if there is no such reader.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn end_reader(&mut self, name: &str, now_s: i64) -> rusqlite::Result<bool> {
        let who = self.who.clone();
        let change = self.change()?;
        if change.execute("delete from reader where name = ?1", [name])? == 0 {
            return Ok(false);
        }
        change.execute("delete from reader_scope where name = ?1", [name])?;
        note(
            &change,
            now_s,
            &who,
            &format!("ended the access of the reader {name}"),
        )?;
        change.commit()?;
        Ok(true)
    }

    /// Points that the reader sees whose token has this trace; none if there is no such reader.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn scope_of(&self, trace: &str) -> rusqlite::Result<Option<Scope>> {
        let query = "select s.key, s.value from reader r left join reader_scope s on s.name = r.name where r.trace = ?1";
        self.db
            .prepare_cached(query)?
            .query_row([trace], |row| {
                let (key, value): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
                Ok(key
                    .zip(value)
                    .map_or(Scope::All, |(k, v)| Scope::Label(k, v)))
            })
            .optional()
    }

    /// Keeps the public key of an operator at another machine; another one replaces it.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn add_operator(
        &mut self,
        name: &str,
        public: &PublicKey,
        now_s: i64,
    ) -> rusqlite::Result<()> {
        let who = self.who.clone();
        let change = self.change()?;
        let add = "insert or replace into operator values (?1, ?2, ?3)";
        change.execute(add, params![name, public.to_string(), now_s])?;
        note(&change, now_s, &who, &format!("made {name} an operator"))?;
        change.commit()
    }

    /// Ends an operator's access. False if there is no such operator.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn end_operator(&mut self, name: &str, now_s: i64) -> rusqlite::Result<bool> {
        let who = self.who.clone();
        let change = self.change()?;
        if change.execute("delete from operator where name = ?1", [name])? == 0 {
            return Ok(false);
        }
        let what = format!("ended the access of the operator {name}");
        note(&change, now_s, &who, &what)?;
        change.commit()?;
        Ok(true)
    }

    /// Name of the operator with this public key; none if there is no such operator.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn operator(&self, public: &PublicKey) -> rusqlite::Result<Option<String>> {
        let query = "select name from operator where public_key = ?1";
        self.db
            .query_row(query, [public.to_string()], |row| row.get(0))
            .optional()
    }

    /// Asks a point for a run of a measurement, which it may start until then.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn ask_run(
        &mut self,
        (point, measurement): (&str, &str),
        now_s: i64,
        until_s: i64,
    ) -> rusqlite::Result<()> {
        let who = self.who.clone();
        let change = self.change()?;
        change.execute(
            "insert into asked_run (point, measurement, asked_s, until_s) values (?1, ?2, ?3, ?4)",
            params![point, measurement, now_s, until_s],
        )?;
        let what = format!("asked {point} for a run of {measurement}");
        note(&change, now_s, &who, &what)?;
        change.commit()
    }

    /// Runs that a point is asked for at this time, those up to number `taken` left out.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn asked_runs(
        &self,
        point: &str,
        now_s: i64,
        taken: u64,
    ) -> rusqlite::Result<Vec<AskedRun>> {
        let mut query = self.db.prepare_cached(
            "select number, measurement from asked_run
             where point = ?1 and until_s > ?2 and number > ?3 order by number limit 64",
        )?;
        let taken = i64::try_from(taken).unwrap_or(i64::MAX);
        let rows = query.query_map(params![point, now_s, taken], |row| {
            Ok(AskedRun {
                number: row.get::<_, i64>(0)?.unsigned_abs(),
                measurement: row.get(1)?,
            })
        })?;
        rows.collect()
    }

    /// Number of the last run that each point is asked for at this time.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn last_asked(&self, now_s: i64) -> rusqlite::Result<BTreeMap<String, u64>> {
        let mut query = self.db.prepare_cached(
            "select point, max(number) from asked_run where until_s > ?1 group by point",
        )?;
        let rows = query.query_map([now_s], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        rows.collect()
    }

    /// Bytes of all recordings that the hub keeps, of one point or of all.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn bytes_kept(&self, point: Option<&str>) -> rusqlite::Result<u64> {
        let query = "select coalesce(sum(bytes), 0) from recording where ?1 is null or point = ?1";
        let mut query = self.db.prepare_cached(query)?;
        query.query_row([point], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    }

    /// Present plan.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn plan(&self) -> anyhow::Result<Option<SignedPlan>> {
        let found: Option<(i64, String, String)> = self
            .db
            .query_row(
                "select number, plan, signature from plan order by number desc limit 1",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        found
            .map(|(number, text, signature)| {
                Ok(SignedPlan {
                    number: number.unsigned_abs(),
                    text,
                    signature: signature.try_into().map_err(|e: String| anyhow!(e))?,
                })
            })
            .transpose()
    }

    /// States that alerts told last, by name of a point or release.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn told(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut query = self.db.prepare_cached("select name, state from told")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Keeps the states that alerts have told.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn tell<'n>(
        &mut self,
        now_s: i64,
        states: impl Iterator<Item = (&'n str, &'n str)>,
    ) -> rusqlite::Result<()> {
        let change = self.change()?;
        for (name, state) in states {
            change.execute(
                "insert into told values (?1, ?2, ?3)
                 on conflict do update set state = ?2, since_s = ?3 where state != ?2",
                params![name, state, now_s],
            )?;
        }
        change.commit()
    }

    /// Publishes a plan.
    ///
    /// # Errors
    /// The ledger cannot be written, or has a plan of that number.
    pub fn add_plan(&mut self, now_s: i64, plan: &SignedPlan) -> anyhow::Result<()> {
        let who = self.who.clone();
        let change = self.change()?;
        change.execute(
            "insert into plan values (?1, ?2, ?3, ?4)",
            params![
                plan.number as i64,
                now_s,
                plan.text,
                plan.signature.to_string()
            ],
        )?;
        let what = format!("published plan {}", plan.number);
        note(&change, now_s, &who, &what)?;
        change.commit()?;
        Ok(())
    }
}

/// Adds a line to the audit log.
fn note(db: &Connection, now_s: i64, who: &str, what: &str) -> rusqlite::Result<()> {
    let add = "insert into audit values (?1, ?2, ?3)";
    db.execute(add, params![now_s, who, what]).map(|_| ())
}

fn add_run(change: &Transaction<'_>, point: &str, run: &Run) -> rusqlite::Result<()> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    change.execute(
        "insert into run values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            point,
            number(run.index),
            run.measurement,
            number(run.number),
            number(run.due_s),
            number(run.ended_s),
            run.end.word(),
            run.reason,
            run.recording,
        ],
    )?;
    Ok(())
}

fn give_turn_back(change: &Transaction<'_>, (point, server): (&str, &str)) -> rusqlite::Result<()> {
    let held = "delete from turn where server = ?1 and point = ?2";
    change.execute(held, [server, point])?;
    let wanted = "update turn_wanted set asked_s = 0 where server = ?1 and point = ?2";
    change.execute(wanted, [server, point])?;
    Ok(())
}

fn want_turn(
    change: &Transaction<'_>,
    (point, server): (&str, &str),
    now_s: i64,
) -> rusqlite::Result<()> {
    change.execute(
        "insert into turn_wanted (server, point, asked_s) values (?1, ?2, ?3)
         on conflict do update set asked_s = excluded.asked_s",
        params![server, point, now_s],
    )?;
    Ok(())
}

/// Time until which a point cannot have the turn at a server; none if it can have it now.
fn turn_taken(
    change: &Transaction<'_>,
    (point, server): (&str, &str),
    now_s: i64,
) -> rusqlite::Result<Option<i64>> {
    let query = "select point, until_s from turn where server = ?1";
    let holder: Option<(String, i64)> = change
        .query_row(query, [server], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((name, until_s)) = holder {
        return Ok((name != point).then_some(until_s));
    }
    let is_another_first: bool = change.query_row(
        "select exists (select 1 from turn_wanted mine join turn_wanted other using (server)
         where server = ?1 and mine.point = ?2 and other.had_s < mine.had_s and other.asked_s > ?3)",
        params![server, point, now_s - WANTED_S],
        |row| row.get(0),
    )?;
    Ok(is_another_first.then_some(now_s + 1))
}

fn start_turn(
    change: &Transaction<'_>,
    (point, server): (&str, &str),
    now_s: i64,
    until_s: i64,
) -> rusqlite::Result<()> {
    change.execute(
        "insert or replace into turn values (?1, ?2, ?3)",
        params![server, point, until_s],
    )?;
    change.execute(
        "update turn_wanted set asked_s = 0, had_s = ?3 where server = ?1 and point = ?2",
        params![server, point, now_s],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    /// State of the turns in the plainest form: who holds a server until when, who asked for it and had it when.
    #[derive(Default)]
    struct Turns {
        held: BTreeMap<String, (String, i64)>,
        asked: BTreeMap<(String, String), i64>,
        had: BTreeMap<(String, String), i64>,
    }

    impl Turns {
        fn take(&mut self, (point, server): (&str, &str), now: i64, for_s: u64) -> Option<i64> {
            self.held.retain(|_, (_, until)| *until > now);
            let slot = (server.to_owned(), point.to_owned());
            let holder = self.held.get(server).cloned();
            let holds = holder.as_ref().is_some_and(|(name, _)| name == point);
            if for_s == 0 {
                self.asked.remove(&slot);
                if holds {
                    self.held.remove(server);
                }
                return None;
            }
            self.asked.insert(slot.clone(), now);
            let had = |slot: &(String, String)| self.had.get(slot).copied().unwrap_or(0);
            let is_first = self
                .asked
                .iter()
                .filter(|((at, _), asked)| at == server && **asked > now - WANTED_S)
                .all(|(other, _)| had(other) >= had(&slot));
            match holder {
                Some((_, until)) if !holds => return Some(until),
                None if !is_first => return Some(now + 1),
                _ => {}
            }
            let until = now.saturating_add_unsigned(for_s);
            self.held.insert(server.into(), (point.into(), until));
            self.asked.remove(&slot);
            self.had.insert(slot, now);
            None
        }
    }

    /// Turns drawn at random, against lists.
    #[test]
    fn no_two_points_have_the_turn_at_one_server() {
        const SEED: u64 = 20_261_127;
        println!("seed {SEED}");
        let mut rng = base::rng::Streams::new(SEED).stream("turns");
        let mut ledger = Ledger::open(Path::new(":memory:")).unwrap();
        let mut turns = Turns::default();
        let mut now = 1_795_608_000;
        for _ in 0..2000 {
            now += rng.random_range(0..8);
            let point = format!("p{}", rng.random_range(0..5));
            let server = format!("s{}", rng.random_range(0..3));
            let for_s = rng.random_range(0..4) * rng.random_range(0..50);
            let expected = turns.take((&point, &server), now, for_s);
            let answer = ledger.take_turn((&point, &server), now, for_s).unwrap();
            assert_eq!(answer, expected);
        }
    }

    /// Points that want a turn again soon after their last one have it about equally often, whenever they ask.
    #[test]
    fn every_point_gets_its_turns() {
        const RUN_S: i64 = 5;
        for seed in 1..=20 {
            let mut rng = base::rng::Streams::new(seed).stream("turns");
            let mut ledger = Ledger::open(Path::new(":memory:")).unwrap();
            let (mut asks, mut runs_until) = ([0; 6], [None; 6]);
            let mut turns = [0; 6];
            for now in 0..600 {
                for place in 0..asks.len() {
                    let slot = (&*format!("p{place}"), "server");
                    if runs_until[place].is_some_and(|until| until <= now) {
                        ledger.take_turn(slot, now, 0).unwrap();
                        runs_until[place] = None;
                        asks[place] = now + rng.random_range(0..3);
                    }
                    if runs_until[place].is_some() || asks[place] > now {
                        continue;
                    }
                    match ledger.take_turn(slot, now, 60).unwrap() {
                        Some(until) => asks[place] = now + (until - now).clamp(1, 5),
                        None => {
                            runs_until[place] = Some(now + RUN_S);
                            turns[place] += 1;
                        }
                    }
                }
            }
            println!("seed {seed}: {turns:?}");
            let (least, most) = (turns.iter().min(), turns.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 2, "{turns:?}");
            assert!(turns.iter().sum::<i32>() >= 60, "{turns:?}");
        }
    }
}
