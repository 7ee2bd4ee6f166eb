use crate::batch::RowReader;
use crate::{META, OPEN, SEALED, StoreError, parquet_file, stream};
use arrow_array::RecordBatch;
use base::record::{FORMAT_VERSION, Meta, Recording, Row, TableId};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a file lost to a crash or to damage, and what could be kept of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    pub file: PathBuf,
    pub rows_kept: u64,
    /// Bytes after the last whole batch; zero where that is not what was lost.
    pub bytes_dropped: u64,
    pub why: String,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovered {
            file,
            rows_kept,
            bytes_dropped,
            why,
        } = self;
        if file.ends_with(META) {
            return write!(f, "{}: {why}", file.display());
        }
        write!(f, "{}: kept {rows_kept} rows", file.display())?;
        if *bytes_dropped > 0 {
            write!(f, ", left out {bytes_dropped} bytes")?;
        }
        write!(f, ": {why}")
    }
}

/// Reads a recording, closed or not, whole into memory.
///
/// # Errors
/// `NotARecording`, `NewerFormat`, `Damaged`, `Io`. A tail that a crash cut off is not an error: see `read_noting`.
pub fn read(path: impl AsRef<Path>) -> Result<Recording, StoreError> {
    read_noting(path).map(|(recording, _)| recording)
}

/// As `read`, and what had to be left out of files that a crash cut short.
///
/// # Errors
/// As `read`.
pub fn read_noting(path: impl AsRef<Path>) -> Result<(Recording, Vec<Recovered>), StoreError> {
    let path = path.as_ref();
    let mut notes = Vec::new();
    let mut recording = Recording {
        meta: read_meta_noting(path, &mut notes)?,
        ..Recording::default()
    };
    for &table in TableId::ALL {
        notes.extend(each_row(path, table, &mut |row| recording.push(row))?);
    }
    Ok((recording, notes))
}

/// Hands the rows of one table to `each`, in the order in which [`crate::scan`] does. Returns what had to be left out of files
/// that a crash cut short.
///
/// # Errors
/// As `read`.
pub fn each_row(
    path: impl AsRef<Path>,
    table: TableId,
    each: &mut dyn FnMut(Row),
) -> Result<Vec<Recovered>, StoreError> {
    let mut notes = Vec::new();
    let mut reader = RowReader::new(table);
    let dir = path.as_ref().join(table.spec().name);
    for day in days(&dir)? {
        let mut take = |batch: RecordBatch| {
            let rows = reader.rows(&batch)?;
            let count = rows.len() as u64;
            rows.into_iter().for_each(&mut *each);
            Ok(count)
        };
        read_day(&dir.join(day), None, &mut take, &mut notes)?;
    }
    Ok(notes)
}

/// As `read_meta`; where it is damaged, nothing is known but what the tables hold, and `notes` says so.
///
/// # Errors
/// As `read`.
pub fn read_meta_noting(
    path: impl AsRef<Path>,
    notes: &mut Vec<Recovered>,
) -> Result<Meta, StoreError> {
    let path = path.as_ref();
    let has_tables = || {
        let mut dirs = TableId::ALL.iter().map(|t| path.join(t.spec().name));
        dirs.any(|dir| dir.is_dir())
    };
    let why = match read_meta(path) {
        Err(StoreError::Damaged { what, .. }) if has_tables() => what,
        other => return other,
    };
    notes.push(Recovered {
        file: path.join(META),
        rows_kept: 0,
        bytes_dropped: 0,
        why: format!(
            "it is damaged ({why}); title, plan and what is known of the link are lost, the tables are not"
        ),
    });
    Ok(Meta {
        format: FORMAT_VERSION,
        ..Meta::default()
    })
}

/// `meta.json` of a recording alone.
///
/// # Errors
/// As `read`.
pub fn read_meta(path: impl AsRef<Path>) -> Result<Meta, StoreError> {
    let path = path.as_ref();
    let file = path.join(META);
    let not = |why: &str| StoreError::NotARecording {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !path.exists() => {
            return Err(not("it does not exist"));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(not("there is no meta.json in it"));
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(not("it is a file")),
        Err(e) => return Err(StoreError::io("read", &file, 0, e)),
    };
    let damaged = |what: String| StoreError::Damaged {
        file: file.clone(),
        what,
    };
    // The version first: a newer one may hold fields that this build would take for damage.
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        None | Some(0) => {
            return Err(damaged(
                "it does not say which version of the format it has".into(),
            ));
        }
        Some(found) if found > u64::from(FORMAT_VERSION) => {
            return Err(StoreError::NewerFormat {
                path: path.to_owned(),
                found,
                supported: FORMAT_VERSION,
            });
        }
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|e| damaged(e.to_string()))
}

/// The days a table has files for, in order; files that are not whole yet and files of others are passed over.
pub(crate) fn days(dir: &Path) -> Result<BTreeSet<String>, StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(e) => return Err(StoreError::io("list", dir, 0, e)),
    };
    let mut days = BTreeSet::new();
    for entry in entries {
        let name = entry
            .map_err(|e| StoreError::io("list", dir, 0, e))?
            .file_name();
        let Some((day, ext)) = name.to_str().and_then(|n| n.rsplit_once('.')) else {
            continue;
        };
        if ext == OPEN || ext == SEALED {
            days.insert(day.to_owned());
        }
    }
    Ok(days)
}

/// Takes a batch and says how many rows it kept of it, or why it refuses it.
pub(crate) type Take<'t> = &'t mut dyn FnMut(RecordBatch) -> Result<u64, String>;

/// One day of one table; of its columns only those named, if any are. A crash in the middle of closing leaves both
/// files, holding the same rows: the Parquet file has its name only once it is whole, so it counts, unless it does not
/// read.
pub(crate) fn read_day(
    stem: &Path,
    columns: Option<&[&str]>,
    take: Take<'_>,
    notes: &mut Vec<Recovered>,
) -> Result<(), StoreError> {
    let [open, sealed] = [OPEN, SEALED].map(|ext| stem.with_extension(ext));
    let mut kept = 0;
    let mut why_not_sealed = None;
    if sealed.exists() && open.exists() {
        why_not_sealed = parquet_file::read(&sealed, None, &mut |_| Ok(())).err();
    }
    let mut push = |batch: RecordBatch| {
        kept += take(batch)?;
        Ok(())
    };
    if why_not_sealed.is_none() && sealed.exists() {
        let read = parquet_file::read(&sealed, columns, &mut push);
        note_damage(sealed, kept, read, notes);
        return Ok(());
    }
    let tail = match stream::read(&open, &mut push) {
        Ok(tail) => tail,
        // Closed by its writer since we looked.
        Err(e) if e.kind() == io::ErrorKind::NotFound && sealed.exists() => {
            let read = parquet_file::read(&sealed, columns, &mut push);
            note_damage(sealed, kept, read, notes);
            return Ok(());
        }
        Err(e) => return Err(StoreError::io("read", &open, 0, e)),
    };
    if let Some(why) = why_not_sealed {
        let why = format!(
            "it does not read ({why}); the rows are those of {}",
            open.display()
        );
        notes.push(Recovered {
            file: sealed,
            rows_kept: kept,
            bytes_dropped: 0,
            why,
        });
    }
    if !tail.why.is_empty() {
        notes.push(Recovered {
            file: open,
            rows_kept: kept,
            bytes_dropped: tail.bytes,
            why: tail.why,
        });
    }
    Ok(())
}

fn note_damage(
    file: PathBuf,
    rows_kept: u64,
    read: Result<(), String>,
    notes: &mut Vec<Recovered>,
) {
    if let Err(why) = read {
        notes.push(Recovered {
            file,
            rows_kept,
            bytes_dropped: 0,
            why,
        });
    }
}
