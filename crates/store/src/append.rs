//! Rows added to a recording beside its writer, which may be another process, or gone.
//!
//! The rows get a closed file of their own. Its name is the day and the time of day in tenths of a millisecond, with nine
//! digits: `2026-11-21-345678901`. A writer numbers its files with three digits, so the names never meet.

use crate::batch::Rows;
use crate::day::{day_name, day_of};
use crate::disk::{Disk, RealDisk};
use crate::lock::Lock;
use crate::parquet_file::{SMALL_GROUP, Sheet};
use crate::reader::read_meta;
use crate::{SEALED, StoreError};
use base::record::{Row, TableId};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Units of a file's number, ns.
const UNIT_NS: i64 = 100_000;
/// Number of those units in a day.
const UNITS: i64 = 864_000_000;
/// Tries to get the directory's lock, one a millisecond: another process needs a few milliseconds for its rows.
const TRIES: u32 = 2_000;

/// Adds rows to the recording at `path`, durable on return. Its writer may run meanwhile. Days begin at midnight
/// `utc_offset_s` east of UTC.
///
/// # Errors
/// `NotFound` and others of `read_meta` if there is no recording; `DiskFull`, `Io`. Files that were finished before stay.
pub fn append(path: &Path, rows: &[Row], utc_offset_s: i32) -> Result<(), StoreError> {
    read_meta(path)?;
    let mut parts: BTreeMap<(TableId, i64), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let day = day_of(row.time_ns(), utc_offset_s);
        parts.entry((row.table(), day)).or_default().push(row);
    }
    for ((table, day), rows) in parts {
        add_file(path, table, day, &rows)?;
    }
    Ok(())
}

/// Writes the rows of one table and day as a file.
fn add_file(recording: &Path, table: TableId, day: i64, rows: &[&Row]) -> Result<(), StoreError> {
    let dir = recording.join(table.spec().name);
    match RealDisk.create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("create the directory", &dir, 0, e));
        }
        Err(_) => {}
        Ok(()) => RealDisk
            .sync_dir(recording)
            .map_err(|e| StoreError::io("sync the directory of", &dir, 0, e))?,
    }
    // Two processes that add rows in the same instant would choose the same name.
    let _lock = locked(&dir)?;
    let first = rows.first().map_or(0, |r| r.time_ns());
    let number = first.div_euclid(UNIT_NS).rem_euclid(UNITS);
    let free = (number..).map(|n| dir.join(format!("{}-{n:09}.{SEALED}", day_name(day))));
    let to = free.into_iter().find(|to| !to.exists());
    let to = to.expect("the numbers do not end");
    let mut all = Rows::new(table);
    rows.iter().for_each(|row| all.push(row));
    let batch = all.take().expect("columns of a table are equally long");
    let mut sheet = Sheet::create(&RealDisk, table, &to, SMALL_GROUP)?;
    match sheet.write(&batch) {
        Ok(()) => sheet.close(&RealDisk).map(|_| ()),
        Err(e) => {
            sheet.discard(&RealDisk);
            Err(e)
        }
    }
}

/// Takes the lock of a table's directory, and waits if another process has it.
fn locked(dir: &Path) -> Result<Lock, StoreError> {
    let mut tries = 0;
    loop {
        match Lock::take(dir) {
            Err(StoreError::InUse { .. }) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}
