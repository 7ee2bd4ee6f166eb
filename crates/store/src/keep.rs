//! Keeping a recording that runs for weeks: closed days become Parquet while it goes on, and old detail gives way
//! when there is no more room.

use crate::batch::{RowReader, Rows};
use crate::disk::{RealDisk, parent};
use crate::error::StoreError;
use crate::parquet_file::{SMALL_GROUP, Sheet};
use crate::reader::Recovered;
use crate::{OPEN, SEALED, parquet_file, stream};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use base::record::{Row, TableId};
use std::io;
use std::path::{Path, PathBuf};

/// Extension of rows that stand for others which are not gone yet.
const THINNED: &str = "thinned";

/// One file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayFile {
    pub table: TableId,
    /// The day, and a number where the day has several: `2026-11-21`, `2026-11-21-002`.
    pub stem: String,
    pub bytes: u64,
    /// Whether it is Parquet, which nothing is added to any more.
    pub sealed: bool,
}

impl DayFile {
    pub fn day(&self) -> &str {
        self.stem.get(..10).unwrap_or(&self.stem)
    }

    fn path(&self, recording: &Path) -> PathBuf {
        let extension = if self.sealed { SEALED } else { OPEN };
        let dir = recording.join(self.table.spec().name);
        dir.join(format!("{}.{extension}", self.stem))
    }
}

/// The files of a recording, the oldest day first.
///
/// # Errors
/// A directory cannot be listed.
pub fn files(recording: &Path) -> Result<Vec<DayFile>, StoreError> {
    let mut files = Vec::new();
    for &table in TableId::ALL {
        let dir = recording.join(table.spec().name);
        let failed = |e| StoreError::io("list", &dir, 0, e);
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed(e)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some((stem, extension)) = name.to_str().and_then(|n| n.rsplit_once('.')) else {
                continue;
            };
            if extension == OPEN || extension == SEALED {
                files.push(DayFile {
                    table,
                    stem: stem.to_owned(),
                    // One that has gone meanwhile takes no room.
                    bytes: entry.metadata().map_or(0, |m| m.len()),
                    sealed: extension == SEALED,
                });
            }
        }
    }
    files.sort_by(|a, b| (&a.stem, a.table, a.sealed).cmp(&(&b.stem, b.table, b.sealed)));
    Ok(files)
}

/// Turns the open files of days before `day` (as files are named) into Parquet: those that a writer let go of, and
/// those that a crash left. One whose end is damaged stays as it is, so that nothing of it is thrown away; it is
/// told of.
///
/// # Errors
/// `DiskFull`, `Io`: what was done stays done, and the rest can be done later.
pub fn seal_days(recording: &Path, day: &str) -> Result<Vec<Recovered>, StoreError> {
    let mut damaged = Vec::new();
    for file in files(recording)? {
        if file.sealed || file.day() >= day {
            continue;
        }
        let open = file.path(recording);
        let sealed = open.with_extension(SEALED);
        let mut rows = 0;
        let tail = stream::read(&open, &mut |b| {
            rows += b.num_rows() as u64;
            Ok(())
        })
        .map_err(|e| StoreError::io("read", &open, 0, e))?;
        if tail.bytes > 0 {
            damaged.push(Recovered {
                file: open,
                rows_kept: rows,
                bytes_dropped: tail.bytes,
                why: tail.why,
            });
            continue;
        }
        // Where a crash came between the last two steps, this does them again.
        parquet_file::convert(&RealDisk, file.table, &open, &sealed, rows)?;
        std::fs::remove_file(&open).map_err(|e| StoreError::io("remove", &open, rows, e))?;
    }
    Ok(damaged)
}

/// Takes rows of one file, and gives what is to stand for them.
pub trait Thin {
    fn row(&mut self, row: Row, out: &mut Vec<Row>);
    /// After the last row.
    fn end(&mut self, out: &mut Vec<Row>);
}

/// Puts fewer rows in the place of those of a closed file. The new file, of table `to`, is durable before the old one
/// goes; a crash in between costs nothing and doubles nothing, see [`finish_thinning`]. Gives the number of rows before
/// and after.
///
/// # Errors
/// `Damaged` where the file does not read to its end; it stays then. `DiskFull`, `Io`.
pub fn thin(
    recording: &Path,
    file: &DayFile,
    to: TableId,
    thin: &mut dyn Thin,
) -> Result<(u64, u64), StoreError> {
    let from = file.path(recording);
    let dir = recording.join(to.spec().name);
    match std::fs::create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("create the directory", &dir, 0, e));
        }
        _ => {}
    }
    let target = dir.join(format!("{}.{SEALED}", file.stem));
    // Between two tables, under a name that readers pass over until what it stands for is gone: no row counts twice.
    let waiting = target.with_extension(THINNED);
    let written_to = if target == from { &target } else { &waiting };
    let mut sheet = Sheet::create(&RealDisk, to, written_to, SMALL_GROUP)?;
    let before = match write_thinned(&from, file.table, to, thin, &mut sheet) {
        Ok(before) => before,
        Err(e) => {
            sheet.discard(&RealDisk);
            return Err(e);
        }
    };
    let after = sheet.close(&RealDisk)?;
    if target != from {
        remove(recording, file)?;
        rename(&waiting, &target)?;
    }
    Ok((before, after))
}

/// Ends what a crash interrupted in `thin`: rows that stand for others are let in where those are gone, and given up
/// where they are not.
///
/// # Errors
/// `Io`.
pub fn finish_thinning(recording: &Path) -> Result<(), StoreError> {
    let dir = recording.join(TableId::Distribution.spec().name);
    // Without distributions there is nothing to end.
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        let waiting = entry.path();
        if waiting.extension().is_none_or(|e| e != THINNED) {
            continue;
        }
        let target = waiting.with_extension(SEALED);
        let name = target.file_name().unwrap_or_default();
        let delays = recording.join(TableId::Delay.spec().name).join(name);
        if delays.exists() {
            std::fs::remove_file(&waiting).map_err(|e| StoreError::io("remove", &waiting, 0, e))?;
        } else {
            rename(&waiting, &target)?;
        }
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    let renamed = std::fs::rename(from, to);
    renamed.map_err(|e| StoreError::io("rename a finished file to", to, 0, e))?;
    sync_dir(to)
}

fn write_thinned(
    from: &Path,
    table: TableId,
    to: TableId,
    thin: &mut dyn Thin,
    sheet: &mut Sheet,
) -> Result<u64, StoreError> {
    let mut reader = RowReader::new(table);
    let mut pending = Rows::new(to);
    let mut out = Vec::new();
    let mut before = 0;
    let mut fault = None;
    let mut pass = |out: &mut Vec<Row>, all: bool| {
        out.drain(..).for_each(|row| pending.push(&row));
        if pending.len() >= SLICE || (all && pending.len() > 0) {
            let batch = pending.take().expect("columns of a table are equally long");
            return sheet.write(&batch);
        }
        Ok(())
    };
    let read = parquet_file::read(from, None, &mut |batch| {
        // A slice at a time: a row is ten times as large as its place in a column.
        for at in (0..batch.num_rows()).step_by(SLICE) {
            let n = (batch.num_rows() - at).min(SLICE);
            for row in reader.rows(&batch.slice(at, n))? {
                before += 1;
                thin.row(row, &mut out);
            }
            pass(&mut out, false).map_err(|e| {
                fault = Some(e);
                String::new()
            })?;
        }
        Ok(())
    });
    match (fault, read) {
        (Some(e), _) => Err(e),
        (None, Err(what)) => Err(StoreError::Damaged {
            file: from.to_owned(),
            what,
        }),
        (None, Ok(())) => {
            thin.end(&mut out);
            pass(&mut out, true)?;
            Ok(before)
        }
    }
}

const SLICE: usize = 4096;

/// The first value of a column of integers of a closed file.
pub fn first_value(recording: &Path, file: &DayFile, column: &str) -> Option<i64> {
    ints(recording, file, column, 1).first().copied()
}

/// Mean time between the first hundred rows of a closed file.
pub fn mean_spacing_ns(recording: &Path, file: &DayFile) -> Option<i64> {
    let times = ints(recording, file, file.table.spec().time, 100);
    let gaps = i64::try_from(times.len())
        .ok()?
        .checked_sub(1)
        .filter(|n| *n > 0)?;
    Some((times.last()? - times.first()?) / gaps)
}

fn ints(recording: &Path, file: &DayFile, column: &str, most: usize) -> Vec<i64> {
    let mut found = Vec::new();
    // Reading stops by an error of our own once there is enough.
    let _ = parquet_file::read(&file.path(recording), Some(&[column]), &mut |b| {
        let values = b
            .column_by_name(column)
            .map(|a| a.as_primitive::<Int64Type>());
        let values = values.into_iter().flat_map(|a| a.values().iter().copied());
        found.extend(values.take(most - found.len()));
        if found.len() >= most {
            Err(String::new())
        } else {
            Ok(())
        }
    });
    found
}

/// Gives up a closed file.
///
/// # Errors
/// `Io`.
pub fn remove(recording: &Path, file: &DayFile) -> Result<(), StoreError> {
    let path = file.path(recording);
    std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, 0, e))?;
    sync_dir(&path)
}

fn sync_dir(path: &Path) -> Result<(), StoreError> {
    let dir = parent(path);
    let synced = std::fs::File::open(dir).and_then(|d| d.sync_all());
    synced.map_err(|e| StoreError::io("sync the directory of", path, 0, e))
}
