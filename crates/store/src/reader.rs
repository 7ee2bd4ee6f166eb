use crate::batch::RowReader;
use crate::{META, OPEN, SEALED, StoreError, bounds, checksum, disk, parquet_file, stream};
use arrow_array::RecordBatch;
use base::record::{FORMAT_VERSION, Meta, Recording, Row, TableId};
use base::text::{clean, clean_lines};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Largest `meta.json`: a plan of thousands of lines fits.
const MOST_META: u64 = 16 << 20;

/// Loss of a file due to a crash or damage, and the part that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    pub file: PathBuf,
    pub rows_kept: u64,
    /// Bytes after the last complete batch; zero if something else was lost.
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
        let file_name = file.display().to_string();
        let file_name = clean(&file_name);
        if file.ends_with(META) {
            return write!(f, "{file_name}: {why}");
        }
        write!(f, "{file_name}: kept {rows_kept} rows")?;
        if *bytes_dropped > 0 {
            write!(f, ", left out {bytes_dropped} bytes")?;
        }
        write!(f, ": {}", clean(why))
    }
}

/// Reads a whole recording, closed or not, into memory.
///
/// # Errors
/// `NotARecording`, `NewerFormat`, `Damaged`, `Io`. An end cut off by a crash is not an error: see `read_noting`.
pub fn read(path: impl AsRef<Path>) -> Result<Recording, StoreError> {
    read_noting(path).map(|(recording, _)| recording)
}

/// Reads like `read`, and also returns the losses of files that a crash cut off.
///
/// # Errors
/// The same as `read`.
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

/// Passes the rows of one table to `each`, in the order of [`crate::scan`]. Returns the losses of files that a crash
/// cut off.
///
/// # Errors
/// The same as `read`.
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
        read_day(table, &dir.join(day), None, &mut take, &mut notes)?;
    }
    Ok(notes)
}

/// Reads like `read_meta`; if it is damaged, only the tables' contents are known, and `notes` says so.
///
/// # Errors
/// The same as `read`.
pub fn read_meta_noting(
    path: impl AsRef<Path>,
    notes: &mut Vec<Recovered>,
) -> Result<Meta, StoreError> {
    let path = path.as_ref();
    let has_tables = || {
        let mut dirs = TableId::ALL.iter().map(|t| path.join(t.spec().name));
        dirs.any(|dir| dir.is_dir())
    };
    let why = match read_checked(path) {
        Err(StoreError::Damaged { what, .. }) if has_tables() => what,
        Err(e) => return Err(e),
        Ok((meta, fits)) => {
            if !fits {
                notes.push(Recovered {
                    file: path.join(META),
                    rows_kept: 0,
                    bytes_dropped: 0,
                    why: "its checksum does not fit: it was damaged or changed after it was written, so its title, plan and times may be wrong".into(),
                });
            }
            return Ok(meta);
        }
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

/// Reads only `meta.json` of a recording.
///
/// # Errors
/// The same as `read`.
pub fn read_meta(path: impl AsRef<Path>) -> Result<Meta, StoreError> {
    read_checked(path.as_ref()).map(|(meta, _)| meta)
}

/// Reads `meta.json`; the second value is true if its checksum fits.
fn read_checked(path: &Path) -> Result<(Meta, bool), StoreError> {
    let file = path.join(META);
    let not = |why: &str| StoreError::NotARecording {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let text = match disk::read_whole(&file, MOST_META) {
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
    // The version is checked first: a newer one may hold fields that this build would treat as damage.
    let mut value: serde_json::Value =
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
    let stated = value
        .as_object_mut()
        .and_then(|o| o.shift_remove(checksum::MEMBER));
    let fits = checksum::fits(&text, stated.is_some());
    let meta: Meta = serde_json::from_value(cleaned(value)).map_err(|e| damaged(e.to_string()))?;
    let spans = meta.exclusions.iter().flat_map(|e| [e.from_ns, e.to_ns]);
    let mut instants = spans.chain([meta.started_ns]).chain(meta.ended_ns);
    match instants.find(|ns| !bounds::is_instant(*ns)) {
        Some(ns) => Err(damaged(format!("{ns} ns is no time of a recording"))),
        None => Ok((meta, fits)),
    }
}

/// Escapes every text so that it is safe to show.
fn cleaned(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(clean_lines(&text).into_owned()),
        Value::Array(all) => all.into_iter().map(cleaned).collect(),
        Value::Object(all) => {
            let each = |(key, value): (String, Value)| (clean(&key).into_owned(), cleaned(value));
            all.into_iter().map(each).collect()
        }
        other => other,
    }
}

/// Returns the days for which a table has files, in order; incomplete and foreign files are skipped.
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
        let plain = day.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if plain && (ext == OPEN || ext == SEALED) {
            days.insert(day.to_owned());
        }
    }
    Ok(days)
}

/// Receiver of a batch; returns the number of rows kept, or the reason for refusing the batch.
pub(crate) type Take<'t> = &'t mut dyn FnMut(RecordBatch) -> Result<u64, String>;

/// Reads one day of one table, only the named columns if any are named. A crash during closing leaves both files, with
/// the same rows. The Parquet file then counts, because it gets its name only once it is complete, unless it cannot be
/// read.
pub(crate) fn read_day(
    table: TableId,
    stem: &Path,
    columns: Option<&[&str]>,
    take: Take<'_>,
    notes: &mut Vec<Recovered>,
) -> Result<(), StoreError> {
    let [open, sealed] = [OPEN, SEALED].map(|ext| stem.with_extension(ext));
    let (kept, mut left_out) = (Cell::new(0), 0);
    let mut push = |batch: RecordBatch| {
        let mut within = |batch| {
            kept.set(kept.get() + take(batch)?);
            Ok(())
        };
        left_out += bounds::within(table.spec(), batch, &mut within)?;
        Ok(())
    };
    let read = read_one(&open, &sealed, columns, &mut push, &kept, notes);
    if left_out > 0 {
        notes.push(Recovered {
            file: if sealed.exists() { sealed } else { open },
            rows_kept: kept.get(),
            bytes_dropped: 0,
            why: format!(
                "{left_out} rows hold a time or a number that no recording can hold, and are left out"
            ),
        });
    }
    read
}

/// Reads the file that counts of the two.
fn read_one(
    open: &Path,
    sealed: &Path,
    columns: Option<&[&str]>,
    mut push: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
    kept: &Cell<u64>,
    notes: &mut Vec<Recovered>,
) -> Result<(), StoreError> {
    let mut why_not_sealed = None;
    if sealed.exists() && open.exists() {
        why_not_sealed = parquet_file::read(sealed, None, &mut |_| Ok(())).err();
    }
    if why_not_sealed.is_none() && sealed.exists() {
        let read = parquet_file::read(sealed, columns, &mut push);
        note_damage(sealed, kept.get(), read, notes);
        return Ok(());
    }
    let tail = match stream::read(open, &mut push) {
        Ok(tail) => tail,
        // The writer has closed it meanwhile.
        Err(e) if e.kind() == io::ErrorKind::NotFound && sealed.exists() => {
            let read = parquet_file::read(sealed, columns, &mut push);
            note_damage(sealed, kept.get(), read, notes);
            return Ok(());
        }
        Err(e) => return Err(StoreError::io("read", open, 0, e)),
    };
    if let Some(why) = why_not_sealed {
        let why = format!(
            "it does not read ({why}); the rows are those of {}",
            open.display()
        );
        notes.push(Recovered {
            file: sealed.to_owned(),
            rows_kept: kept.get(),
            bytes_dropped: 0,
            why,
        });
    }
    if !tail.why.is_empty() {
        notes.push(Recovered {
            file: open.to_owned(),
            rows_kept: kept.get(),
            bytes_dropped: tail.bytes,
            why: tail.why,
        });
    }
    Ok(())
}

fn note_damage(file: &Path, rows_kept: u64, read: Result<(), String>, notes: &mut Vec<Recovered>) {
    if let Err(why) = read {
        notes.push(Recovered {
            file: file.to_owned(),
            rows_kept,
            bytes_dropped: 0,
            why,
        });
    }
}
