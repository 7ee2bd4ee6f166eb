//! Second store: rows of all stored recordings in tables of a ClickHouse server.
//!
//! Each recording is there once, whatever the server, the network or the hub do. Its rows go in blocks, which the server writes whole or
//! not at all, and each row has the number of its block. Before a block is sent, and after a recording is complete, the rows of
//! its blocks are counted. A block that is there is not sent again; one with a wrong count is deleted first. The ledger notes a recording
//! before its first row is sent, and once its rows were counted. So a recording that its owner withdraws is found and deleted, even one
//! of which a part alone was sent.

mod rows;
mod server;

pub use server::Target;

use super::Hub;
use crate::unix_s;
use anyhow::{Context, bail};
use base::record::{Row, TableId};
use ops::usage;
use rows::{Block, create, insert, quoted, type_of};
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;

/// Rows of a block.
const BLOCK: u64 = 100_000;
/// Time between two looks for recordings. After failures in a row it doubles each time, up to the longest.
const EVERY: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// Time between two counts of everything: a server that lost its newest parts in a power cut gets them again.
const COUNT_EVERY: Duration = Duration::from_secs(6 * 3600);
/// Longest time for the server to delete rows.
const DELETION: Duration = Duration::from_secs(120);

/// Recording that the ledger names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub point: String,
    pub recording: String,
    /// Begin, UNIX ns.
    pub started_ns: i64,
}

/// Sends recordings until `ended` says so.
pub(super) fn run(hub: &Arc<Hub>, target: &Target, ended: &dyn Fn() -> bool) {
    let mut counted: Option<Instant> = None;
    let mut told: Option<String> = None;
    let mut failures = 0u32;
    while !ended() {
        let mut sent = 0;
        let done = pass(hub, target, (&mut counted, &mut sent), ended);
        let why = done.err().map(|e| format!("{e:#}")).unwrap_or_default();
        if !why.is_empty() {
            // What a server that was away lost is found at once.
            counted = None;
        }
        if told.as_ref() != Some(&why) {
            match why.is_empty() {
                true if told.is_none() => {}
                true => eprintln!("tailback hub: {target} takes recordings again"),
                false => eprintln!("tailback hub: {target} lacks recordings: {why}"),
            }
            let noted = hub.ledger().told_forward(&target.to_string(), &why);
            if let Err(e) = noted {
                eprintln!("tailback hub: {e}");
            }
            told = Some(why.clone());
        }
        failures = match why.is_empty() || sent > 0 {
            true => 0,
            false => (failures + 1).min(10),
        };
        let end = Instant::now() + (EVERY * 2u32.pow(failures)).min(LONGEST);
        while !ended() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Brings the server up to date, if there is something to do; counts the blocks that were sent.
fn pass(
    hub: &Hub,
    target: &Target,
    (counted, sent): (&mut Option<Instant>, &mut u64),
    ended: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let name = target.to_string();
    let is_due = counted.is_none_or(|at| at.elapsed() > COUNT_EVERY);
    let gone = hub.ledger().forwarded_withdrawn(&name)?;
    let waiting = hub.ledger().not_forwarded(&name)?;
    if !is_due && gone.is_empty() && waiting.is_empty() {
        return Ok(());
    }
    let mut store = Store::open(hub, target)?;
    if is_due {
        store.count_all()?;
        *counted = Some(Instant::now());
    }
    for named in gone {
        store.delete_everywhere(&named)?;
        hub.ledger().forget_forwarded(&name, &named)?;
    }
    let mut unread = None;
    for named in waiting {
        if ended() {
            break;
        }
        if !hub.ledger().begin_forward(&name, &named)? {
            continue;
        }
        let what = || format!("{} of {}", named.recording, named.point);
        let done = store.send(&named);
        *sent = store.sent;
        match done {
            Ok(rows) => hub.ledger().end_forward(&name, &named, rows, unix_s())?,
            // The others need not wait for one that cannot be read.
            Err(e) if e.is::<StoreError>() => unread = Some(e.context(what())),
            Err(e) => return Err(e.context(what())),
        }
    }
    unread.map_or(Ok(()), Err)
}

/// Rows by recording or block.
type Counts<K> = BTreeMap<K, u64>;

struct Store<'h> {
    hub: &'h Hub,
    server: Server,
    target: &'h Target,
    /// Tables that are there with all of their columns.
    tables: BTreeSet<TableId>,
    /// Blocks that were sent.
    sent: u64,
}

/// Month in which a recording began, such as 202611.
fn month(started_ns: i64) -> u32 {
    let at = jiff::Timestamp::from_nanosecond(i128::from(started_ns)).unwrap_or_default();
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    u32::from(at.year().unsigned_abs()) * 100 + u32::from(at.month().unsigned_abs())
}

impl<'h> Store<'h> {
    fn open(hub: &'h Hub, target: &'h Target) -> anyhow::Result<Store<'h>> {
        let mut server = Server::connect(target)?;
        let database = &target.database;
        server.run(&format!("CREATE DATABASE IF NOT EXISTS {database}"))?;
        let mut store = Store {
            hub,
            server,
            target,
            tables: BTreeSet::new(),
            sent: 0,
        };
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let asked = format!(
            "SELECT table, name FROM system.columns WHERE database = '{database}' FORMAT TabSeparated"
        );
        for line in store.server.run(&asked)?.lines() {
            let (table, column) = line.split_once('\t').unwrap_or_default();
            names.entry(table.into()).or_default().insert(column.into());
        }
        for &table in TableId::ALL {
            if let Some(columns) = names.get(table.spec().name) {
                store.widen(table, columns)?;
                store.tables.insert(table);
            }
        }
        Ok(store)
    }

    /// Table with its database.
    fn place(&self, table: TableId) -> String {
        format!("{}.{}", self.target.database, table.spec().name)
    }

    /// Adds columns that the table of an earlier version lacks.
    fn widen(&mut self, table: TableId, columns: &BTreeSet<String>) -> anyhow::Result<()> {
        let spec = table.spec();
        for column in spec.columns.iter().filter(|c| !columns.contains(c.name)) {
            let (place, kind) = (self.place(table), type_of(column));
            let sql = format!("ALTER TABLE {place} ADD COLUMN {} {kind}", column.name);
            self.server.run(&sql)?;
        }
        Ok(())
    }

    /// Sends the rows of a recording, and counts them.
    fn send(&mut self, named: &Named) -> anyhow::Result<u64> {
        let path = self.hub.recordings(&named.point).join(&named.recording);
        let mut all = 0;
        for &table in TableId::ALL {
            let there = match self.tables.contains(&table) {
                true => self.blocks(table, named)?,
                false => Counts::new(),
            };
            let mut sent = Counts::new();
            let mut block = Block::new(table);
            let mut fault = None;
            let mut each = |row: Row| {
                if fault.is_some() {
                    return;
                }
                let number = sent.len() as u32;
                let whose = (&*named.point, &*named.recording);
                block.push(whose, month(named.started_ns), number, &row);
                if block.rows >= BLOCK {
                    let full = std::mem::replace(&mut block, Block::new(table));
                    sent.insert(number, full.rows);
                    fault = self.put(table, named, (number, full), &there).err();
                }
            };
            store::each_row(&path, table, &mut each)?;
            if block.rows > 0 && fault.is_none() {
                let number = sent.len() as u32;
                sent.insert(number, block.rows);
                fault = self.put(table, named, (number, block), &there).err();
            }
            if let Some(e) = fault {
                return Err(e);
            }
            if sent.is_empty() && there.is_empty() {
                continue;
            }
            let counted = self.blocks(table, named)?;
            if counted != sent {
                self.delete(table, named)?;
                bail!(
                    "{} had {} rows instead of {}; they are sent again",
                    table.spec().name,
                    counted.values().sum::<u64>(),
                    sent.values().sum::<u64>()
                );
            }
            all += sent.values().sum::<u64>();
        }
        Ok(all)
    }

    /// Sends a block, unless it is there.
    fn put(
        &mut self,
        table: TableId,
        named: &Named,
        (number, block): (u32, Block),
        there: &Counts<u32>,
    ) -> anyhow::Result<()> {
        if self.tables.insert(table) {
            self.server.run(&create(&self.place(table), table.spec()))?;
        }
        if there.contains_key(&number) {
            // If it is a part of it, or more than one, the count that follows finds it.
            return Ok(());
        }
        let name = table.spec().name;
        let id = format!(
            "tailback {} {} {name} {number}",
            named.point, named.recording
        );
        let sql = insert(&self.place(table), table.spec());
        self.server.insert(&sql, &id, block.bytes)?;
        self.sent += 1;
        Ok(())
    }

    /// Condition that holds for the rows of a recording.
    fn of(named: &Named) -> String {
        let (point, recording) = (quoted(&named.point), quoted(&named.recording));
        format!("point = {point} AND recording = {recording}")
    }

    /// Rows of each block of a recording.
    fn blocks(&mut self, table: TableId, named: &Named) -> anyhow::Result<Counts<u32>> {
        let sql = format!(
            "SELECT block, count() FROM {} WHERE {} GROUP BY block FORMAT TabSeparated",
            self.place(table),
            Store::of(named)
        );
        let text = self.server.run(&sql)?;
        let line = |line: &str| {
            let (block, rows) = line.split_once('\t')?;
            Some((block.parse().ok()?, rows.parse().ok()?))
        };
        let counts: Option<Counts<u32>> = text.lines().map(line).collect();
        counts.context("ClickHouse answers a count with something else")
    }

    /// Deletes the rows of a recording in one table, and waits until they are gone.
    fn delete(&mut self, table: TableId, named: &Named) -> anyhow::Result<()> {
        let (place, of) = (self.place(table), Store::of(named));
        let sql = format!("ALTER TABLE {place} DELETE WHERE {of}");
        self.server.run(&sql)?;
        let until = Instant::now() + DELETION;
        while !self.blocks(table, named)?.is_empty() {
            if Instant::now() > until {
                bail!(
                    "ClickHouse has not deleted rows within {} s",
                    DELETION.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn delete_everywhere(&mut self, named: &Named) -> anyhow::Result<()> {
        for table in self.tables.clone() {
            if !self.blocks(table, named)?.is_empty() {
                self.delete(table, named)?;
            }
        }
        Ok(())
    }

    /// Counts the rows of all recordings. Those that lack rows are sent again. Rows of others would be counted with this fleet's: nothing
    /// goes to a database that has some.
    fn count_all(&mut self) -> anyhow::Result<()> {
        let mut counts: Counts<(String, String)> = Counts::new();
        for table in self.tables.clone() {
            let sql = format!(
                "SELECT point, recording, count() FROM {} GROUP BY point, recording FORMAT TabSeparated",
                self.place(table)
            );
            // Names of points and recordings have no character that the format writes in another way.
            for line in self.server.run(&sql)?.lines() {
                let mut cells = line.split('\t');
                if let (Some(point), Some(recording), Some(rows)) =
                    (cells.next(), cells.next(), cells.next())
                {
                    *counts.entry((point.into(), recording.into())).or_default() +=
                        rows.parse::<u64>()?;
                }
            }
        }
        let (hub, target) = (self.hub, &self.target.to_string());
        let forwarded = hub.ledger().forwarded(target)?;
        for (named, rows) in forwarded {
            let whose = (named.point.clone(), named.recording.clone());
            // Null rows: the recording was begun, and goes there again anyway.
            if counts.remove(&whose).unwrap_or(0) != rows.unwrap_or(0) {
                hub.ledger().repeat_forward(target, &named)?;
            }
        }
        if let Some((point, recording)) = counts.keys().next() {
            return Err(usage(format!(
                "it has rows of {}, such as {recording} of {point}, that are not this hub's: give it a database of its own",
                ops::counted(counts.len() as u64, "recording")
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::month;

    #[test]
    fn a_month_is_that_of_the_begin_in_utc() {
        assert_eq!(month(1_795_262_400_000_000_000), 202_611);
        assert_eq!(month(-1), 196_912);
        assert_eq!(month(0), 197_001);
    }
}
