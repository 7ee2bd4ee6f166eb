//! Maintenance of a recording that runs for weeks: closed days become Parquet while it continues, and old detail is
//! thinned out when the space is used up.

use crate::batch::{RowReader, Rows};
use crate::disk::{RealDisk, parent};
use crate::error::StoreError;
use crate::parquet_file::{SMALL_GROUP, Sheet};
use crate::reader::Recovered;
use crate::{OPEN, SEALED, parquet_file, stream};
use base::record::{Row, TableId};
use std::io;
use std::path::{Path, PathBuf};

/// Extension of a file with thinned rows while the original rows still exist.
const THINNED: &str = "thinned";

/// File of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayFile {
    pub table: TableId,
    /// Day, with a number if the day has several files: `2026-11-21`, `2026-11-21-002`.
    pub stem: String,
    pub bytes: u64,
    /// True if the file is Parquet; nothing is added to it any more.
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

/// Lists the files of a recording, oldest day first.
///
/// # Errors
/// Fails if a directory cannot be listed.
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
                    // A file that was removed meanwhile takes no space.
                    bytes: entry.metadata().map_or(0, |m| m.len()),
                    sealed: extension == SEALED,
                });
            }
        }
    }
    files.sort_by(|a, b| (&a.stem, a.table, a.sealed).cmp(&(&b.stem, b.table, b.sealed)));
    Ok(files)
}

/// Converts the open files of days before `day` (named as files are) to Parquet: those that a writer has released, and
/// those that a crash left. A file with a damaged end stays unchanged, so that nothing is lost, and is reported.
/// `go_on` is called before each file.
///
/// # Errors
/// `DiskFull`, `Io`: finished conversions are kept, and the rest can be done later.
pub fn seal_days(
    recording: &Path,
    day: &str,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Recovered>, StoreError> {
    let mut damaged = Vec::new();
    for file in files(recording)? {
        if file.sealed || file.day() >= day {
            continue;
        }
        if !go_on() {
            break;
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
        // After a crash between the last two steps, this repeats them.
        parquet_file::convert(&RealDisk, file.table, &open, &sealed, rows)?;
        std::fs::remove_file(&open).map_err(|e| StoreError::io("remove", &open, rows, e))?;
    }
    Ok(damaged)
}

/// Receives the rows of one file, and returns their replacement.
pub trait Thin {
    fn row(&mut self, row: Row, out: &mut Vec<Row>);
    /// Ends the file, after its last row.
    fn end(&mut self, out: &mut Vec<Row>);
}

/// Result of one attempt to thin a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinned {
    /// File reduced by `freed` bytes; `before` rows became `after`.
    Smaller { before: u64, after: u64, freed: u64 },
    /// File unchanged, because it would not become smaller, or because the target exists.
    NoGain,
    /// File unchanged, because `go_on` returned false.
    Stopped,
}

/// Replaces the rows of a closed file by fewer rows, if that makes it smaller. The new file, of table `to`, is durable
/// before the old one is removed. A crash in between neither loses nor duplicates rows, see [`finish_thinning`].
/// `go_on` is called every few thousand rows.
///
/// # Errors
/// `Damaged` if the file cannot be read to its end; it is kept then. `DiskFull`, `Io`.
pub fn thin(
    recording: &Path,
    file: &DayFile,
    to: TableId,
    thin: &mut dyn Thin,
    go_on: &dyn Fn() -> bool,
) -> Result<Thinned, StoreError> {
    let from = file.path(recording);
    let dir = recording.join(to.spec().name);
    match std::fs::create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("create the directory", &dir, 0, e));
        }
        _ => {}
    }
    let target = dir.join(format!("{}.{SEALED}", file.stem));
    if target != from && target.exists() {
        // Rows of the same day that were thinned before are not overwritten.
        return Ok(Thinned::NoGain);
    }
    // Readers ignore this name until the original is removed, so that no row counts twice.
    let waiting = target.with_extension(THINNED);
    let mut sheet = Sheet::create(&RealDisk, to, &waiting, SMALL_GROUP)?;
    let before = match write_thinned(&from, file.table, to, thin, &mut sheet, go_on) {
        Ok(Some(before)) => before,
        Ok(None) => {
            sheet.discard(&RealDisk);
            return Ok(Thinned::Stopped);
        }
        Err(e) => {
            sheet.discard(&RealDisk);
            return Err(e);
        }
    };
    let after = sheet.close(&RealDisk)?;
    let size = |path: &Path| {
        let found = std::fs::metadata(path);
        found.map_err(|e| StoreError::io("read the size of", path, 0, e))
    };
    let (old, new) = (size(&from)?.len(), size(&waiting)?.len());
    if new >= old {
        std::fs::remove_file(&waiting).map_err(|e| StoreError::io("remove", &waiting, 0, e))?;
        return Ok(Thinned::NoGain);
    }
    if target != from {
        remove(recording, file)?;
    }
    rename(&waiting, &target)?;
    Ok(Thinned::Smaller {
        before,
        after,
        freed: old - new,
    })
}

/// Finishes a `thin` that a crash interrupted: thinned rows are accepted if the original is gone, and deleted
/// otherwise.
///
/// # Errors
/// `Io`.
pub fn finish_thinning(recording: &Path) -> Result<(), StoreError> {
    for table in TableId::ALL {
        // A table without files has nothing to finish.
        let dir = recording.join(table.spec().name);
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let waiting = entry.path();
            if waiting.extension().is_none_or(|e| e != THINNED) {
                continue;
            }
            let target = waiting.with_extension(SEALED);
            let name = target.file_name().unwrap_or_default();
            let delays = recording.join(TableId::Delay.spec().name).join(name);
            let of_delays = *table == TableId::Distribution && delays.exists();
            if of_delays || target.exists() {
                std::fs::remove_file(&waiting)
                    .map_err(|e| StoreError::io("remove", &waiting, 0, e))?;
            } else {
                rename(&waiting, &target)?;
            }
        }
    }
    Ok(())
}

/// Returns the extensions and tables that rows of a table's file may have by now.
pub(crate) fn heirs(table: TableId) -> impl Iterator<Item = (TableId, &'static str)> {
    let tables = match table {
        TableId::Delay => vec![TableId::Delay, TableId::Distribution],
        other => vec![other],
    };
    let of = |t| [OPEN, SEALED, THINNED].map(move |extension| (t, extension));
    tables.into_iter().flat_map(of)
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
    go_on: &dyn Fn() -> bool,
) -> Result<Option<u64>, StoreError> {
    let mut reader = RowReader::new(table);
    let mut pending = Rows::new(to);
    let mut out = Vec::new();
    let mut before = 0;
    let mut fault = None;
    let mut stopped = false;
    let mut pass = |out: &mut Vec<Row>, all: bool| {
        out.drain(..).for_each(|row| pending.push(&row));
        if pending.len() >= SLICE || (all && pending.len() > 0) {
            let batch = pending.take().expect("columns of a table are equally long");
            return sheet.write(&batch);
        }
        Ok(())
    };
    let read = parquet_file::read(from, None, &mut |batch| {
        // One slice at a time: a row takes ten times the memory of its place in a column.
        for at in (0..batch.num_rows()).step_by(SLICE) {
            // The error only stops the reading.
            stopped = !go_on();
            if stopped {
                return Err(String::new());
            }
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
        _ if stopped => Ok(None),
        (Some(e), _) => Err(e),
        (None, Err(what)) => Err(StoreError::Damaged {
            file: from.to_owned(),
            what,
        }),
        (None, Ok(())) => {
            thin.end(&mut out);
            pass(&mut out, true)?;
            Ok(Some(before))
        }
    }
}

const SLICE: usize = 4096;

/// Removes a closed file.
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
    let synced = crate::system::sync_dir(dir);
    synced.map_err(|e| StoreError::io("sync the directory of", path, 0, e))
}
