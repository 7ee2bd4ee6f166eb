//! Columns of one table without conversion to rows, for statistics over millions of rows.

use crate::batch::{Texts, find};
use crate::batches::AHEAD;
use crate::reader::{days, read_day};
use crate::{OPEN, Recovered, SEALED, StoreError};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use base::record::{Column, Kind, TableId, Text};
use base::text::clean_lines;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

/// Consecutive rows of one table, with the requested columns.
pub struct Columns<'b> {
    table: TableId,
    batch: &'b RecordBatch,
}

/// Column of integers. `values` holds anything at nulls.
pub struct Ints<'b> {
    values: &'b [i64],
    /// The same column; `None` if the file lacks it.
    array: Option<&'b Int64Array>,
    has_nulls: bool,
}

impl Ints<'_> {
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        let array = self.array?;
        (!self.has_nulls || array.is_valid(row)).then(|| self.values[row])
    }
}

impl<'b> Columns<'b> {
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn array(&self, name: &str, kind: Kind) -> Option<&'b ArrayRef> {
        let column = self.table.spec().columns.iter().find(|c| c.name == name);
        let column = column.unwrap_or_else(|| panic!("there is no column {name}"));
        assert!(column.kind == kind, "column {name} is no {kind:?}");
        find(self.batch, column).unwrap_or(None)
    }

    /// Returns a column of integers. All values are null if the file lacks the column, or if it was not requested.
    ///
    /// # Panics
    /// Panics if the table has no such column of integers.
    pub fn ints(&self, name: &str) -> Ints<'b> {
        let array = self.array(name, Kind::Int);
        let array = array.map(|a| a.as_primitive::<Int64Type>());
        Ints {
            values: array.map_or(&[][..], |a| a.values()),
            array,
            has_nulls: array.is_some_and(|a| a.null_count() > 0),
        }
    }

    /// # Panics
    /// The same as `ints`.
    pub fn flags(&self, name: &str) -> Vec<Option<bool>> {
        match self.array(name, Kind::Flag) {
            Some(array) => array.as_boolean().iter().collect(),
            None => vec![None; self.len()],
        }
    }

    /// Returns a column of texts as indexes into `words`, to which new texts are added: rows share few texts, and
    /// comparing indexes is fast. Keep `words` from one call to the next. `None` if the file lacks the column.
    ///
    /// # Panics
    /// The same as `ints`.
    pub fn words(&self, name: &str, words: &mut Vec<Text>) -> Option<Vec<u32>> {
        let texts = Texts::of(self.array(name, Kind::Text)?);
        let mut place = |text: &str, near: usize| {
            let text = &*clean_lines(text);
            match words.get(near).is_some_and(|w| **w == *text) {
                true => near,
                false => words.iter().position(|w| **w == *text).unwrap_or_else(|| {
                    words.push(text.into());
                    words.len() - 1
                }),
            }
        };
        // Consecutive rows mostly have the same text.
        let mut last = 0;
        let Texts::Numbered(keys, known) = texts else {
            let numbers = (0..self.len()).map(|row| {
                last = place(texts.get(row).unwrap_or_default(), last);
                last as u32
            });
            return Some(numbers.collect());
        };
        // A dictionary may have texts that no row has, so a text gets its place at its first row.
        let mut places: Vec<Option<u32>> = vec![None; known.len()];
        let has_nulls = keys.null_count() > 0;
        let numbers = keys.values().iter().enumerate().map(|(row, key)| {
            let known = places.get_mut(*key as usize);
            let mut known = known.filter(|_| !has_nulls || keys.is_valid(row));
            if let Some(Some(place)) = known {
                return *place;
            }
            last = place(texts.get(row).unwrap_or_default(), last);
            if let Some(known) = &mut known {
                **known = Some(last as u32);
            }
            last as u32
        });
        Some(numbers.collect())
    }
}

/// Passes the rows of a table to `each`, day by day, and within a day in the order written, some ten thousand at a
/// time. Only the named columns are read. Returns the parts of files that a crash cut off.
///
/// # Errors
/// The same as `read`.
///
/// # Panics
/// Panics if the table has no column of that name.
pub fn scan(
    path: impl AsRef<Path>,
    table: TableId,
    columns: &[&str],
    each: &mut dyn FnMut(&Columns<'_>),
) -> Result<Vec<Recovered>, StoreError> {
    scan_days(path, table, columns, &|_| true, each)
}

/// Does the same for the files of some days, such as `2026-11-21`.
///
/// # Errors
/// The same as `read`.
///
/// # Panics
/// Panics if the table has no column of that name.
pub fn scan_days(
    path: impl AsRef<Path>,
    table: TableId,
    columns: &[&str],
    wanted: &dyn Fn(&str) -> bool,
    each: &mut dyn FnMut(&Columns<'_>),
) -> Result<Vec<Recovered>, StoreError> {
    let spec = table.spec();
    for name in columns {
        assert!(
            spec.columns.iter().any(|c| c.name == *name),
            "table {} has no column {name}",
            spec.name
        );
    }
    let dir = path.as_ref().join(spec.name);
    // A name may have a number after its day, as `2026-11-21-002`.
    let is_wanted = |name: &String| wanted(name.get(..10).unwrap_or(name));
    let days: Vec<PathBuf> = days(&dir)?
        .into_iter()
        .filter(is_wanted)
        .map(|day| dir.join(day))
        .collect();
    let mut pass = |batch: RecordBatch| {
        each(&Columns {
            table,
            batch: &batch,
        });
    };
    if bytes(&days) < WORTH_A_THREAD {
        return read_days(table, &days, columns, &mut |batch| {
            pass(batch);
            Ok(())
        });
    }
    // One thread decodes while the other one computes.
    std::thread::scope(|scope| {
        let (to, batches) = sync_channel(AHEAD);
        let reading = scope.spawn(move || {
            let mut send = |batch| to.send(batch).map_err(|e| e.to_string());
            read_days(table, &days, columns, &mut send)
        });
        batches.into_iter().for_each(&mut pass);
        reading.join().expect("reading does not panic")
    })
}

/// Bytes of files that are worth a thread of their own.
const WORTH_A_THREAD: u64 = 1 << 20;

/// Bytes of the files of some days.
fn bytes(days: &[PathBuf]) -> u64 {
    let file =
        |stem: &PathBuf, ext| std::fs::metadata(stem.with_extension(ext)).map_or(0, |m| m.len());
    let day = |stem| file(stem, SEALED) + file(stem, OPEN);
    days.iter().map(day).sum()
}

/// Reads columns of the files of some days; returns the parts of files that a crash cut off.
fn read_days(
    table: TableId,
    days: &[PathBuf],
    columns: &[&str],
    pass: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<Vec<Recovered>, StoreError> {
    let named = |c: &&Column| columns.contains(&c.name);
    let named: Vec<&Column> = table.spec().columns.iter().filter(named).collect();
    let mut notes = Vec::new();
    let mut take = |batch: RecordBatch| {
        for column in &named {
            find(&batch, column)?;
        }
        let rows = batch.num_rows() as u64;
        pass(batch)?;
        Ok(rows)
    };
    for day in days {
        read_day(table, day, Some(columns), &mut take, &mut notes)?;
    }
    Ok(notes)
}
