//! Record batches of one table, one after the other, for other programs that read Arrow.

use crate::batch::{Texts, find, schema, with_dictionaries};
use crate::reader::{days, read_day};
use crate::{OPEN, Recovered, SEALED, StoreError, read_meta_noting};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchReader, StringArray,
    new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use base::record::{Kind, TableId};
use base::text::clean_lines;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Batches that are read ahead of the consumer.
pub(crate) const AHEAD: usize = 2;
/// Rows of a usual batch.
const ROWS: usize = 65_536;

/// Rows of a table as record batches of at most 65,536 rows, in the order of [`crate::scan`]. Files are read while the
/// batches are taken, by a thread that ends when this is dropped.
pub struct Batches {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
    notes: Notes,
}

impl Batches {
    /// Losses of the files, which grow while the batches are taken.
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }
}

/// Losses of files that are being read.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<Recovered>>>);

impl Notes {
    /// Losses of the files read so far.
    pub fn list(&self) -> Vec<Recovered> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Recovered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Arrow schema of a table with these columns, or with all of them if none are named.
///
/// # Errors
/// A column that the table does not have; the message names all columns.
pub fn table_schema(table: TableId, columns: &[String]) -> Result<SchemaRef, String> {
    let plain = schema(table);
    let whole = with_dictionaries(&plain).unwrap_or(plain);
    if columns.is_empty() {
        return Ok(whole);
    }
    let index = |name: &String| {
        whole.index_of(name).map_err(|_| {
            let known: Vec<&str> = whole.fields().iter().map(|f| f.name().as_str()).collect();
            let spec = table.spec();
            format!(
                "table {} has no column {name:?}, but {}",
                spec.name,
                known.join(", ")
            )
        })
    };
    let indexes = columns.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    whole
        .project(&indexes)
        .map(Arc::new)
        .map_err(|e| e.to_string())
}

/// Files of a table in the order of their days: Parquet, or Arrow streams while they may grow.
///
/// # Errors
/// The same as `read`.
pub fn table_files(path: &Path, table: TableId) -> Result<Vec<PathBuf>, StoreError> {
    read_meta_noting(path, &mut Vec::new())?;
    let dir = path.join(table.spec().name);
    let file = |day: String| {
        let sealed = dir.join(&day).with_extension(SEALED);
        if sealed.exists() {
            sealed
        } else {
            dir.join(day).with_extension(OPEN)
        }
    };
    Ok(days(&dir)?.into_iter().map(file).collect())
}

/// Starts to read a table with the columns of `schema`, which is one of [`table_schema`]. Rows with a number that no
/// recording can hold in one of these columns are left out; terminal commands in texts are written out.
///
/// # Errors
/// The same as `read`. A path that does not exist is `NotARecording`. Later errors are those of a batch.
pub fn batches(path: &Path, table: TableId, schema: SchemaRef) -> Result<Batches, StoreError> {
    let notes = Notes::default();
    read_meta_noting(path, &mut notes.locked())?;
    let dir = path.join(table.spec().name);
    let stems = days(&dir)?.into_iter().map(|day| dir.join(day)).collect();
    let (to, batches) = sync_channel(AHEAD);
    let reader = Reading {
        table,
        schema: schema.clone(),
        to,
        notes: notes.clone(),
        nulls: RefCell::default(),
    };
    std::thread::Builder::new()
        .name("batches".into())
        .spawn(move || reader.run(stems))
        .map_err(|e| StoreError::io("start a thread that reads", path, 0, e))?;
    Ok(Batches {
        schema,
        batches,
        notes,
    })
}

/// Thread that reads the files.
struct Reading {
    table: TableId,
    schema: SchemaRef,
    to: SyncSender<Result<RecordBatch, ArrowError>>,
    notes: Notes,
    /// Columns without values, which all batches share: most recordings leave several columns empty.
    nulls: RefCell<Vec<ArrayRef>>,
}

impl Reading {
    fn run(self, stems: Vec<PathBuf>) {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|f| f.name().as_str())
            .collect();
        let mut gone = false;
        for stem in stems {
            let mut take = |batch: RecordBatch| {
                let batch = self.conform(&batch)?;
                let rows = batch.num_rows() as u64;
                self.to.send(Ok(batch)).map_err(|_| {
                    gone = true;
                    "nobody reads on".to_owned()
                })?;
                Ok(rows)
            };
            let mut notes = Vec::new();
            let read = read_day(self.table, &stem, Some(&names), &mut take, &mut notes);
            if gone {
                return;
            }
            self.notes.locked().append(&mut notes);
            if let Err(e) = read {
                // A consumer that is gone needs no error.
                let _ = self.to.send(Err(ArrowError::ExternalError(Box::new(e))));
                return;
            }
        }
    }

    /// Gives a batch the columns of the schema: a nullable one that the file lacks is null.
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let spec = self.table.spec();
        let column = |field: &Arc<Field>| {
            let column = spec.columns.iter().find(|c| c.name == field.name());
            let column = column.ok_or_else(|| format!("there is no column {}", field.name()))?;
            let found = find(batch, column)?;
            Ok(match found {
                None => self.nulls(field.data_type(), batch.num_rows()),
                Some(array) if array.null_count() == array.len() => {
                    self.nulls(field.data_type(), array.len())
                }
                Some(array) if column.kind == Kind::Text => match Texts::of(array) {
                    Texts::Plain(texts) => dictionary(&cleaned(texts))?,
                    Texts::Numbered(keys, texts) => checked(keys, &cleaned(texts))?,
                },
                Some(array) => array.clone(),
            })
        };
        let columns = self.schema.fields().iter().map(column);
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|e| e.to_string())
    }

    /// Column of this many nulls.
    fn nulls(&self, of: &DataType, rows: usize) -> ArrayRef {
        let mut known = self.nulls.borrow_mut();
        let fits = |array: &&ArrayRef| array.data_type() == of && array.len() >= rows;
        if let Some(array) = known.iter().find(fits) {
            return array.slice(0, rows);
        }
        let array = new_null_array(of, rows.max(ROWS));
        known.push(array.clone());
        array.slice(0, rows)
    }
}

/// Texts as numbers of the batch's different texts, of which rows share few.
fn dictionary(texts: &StringArray) -> Result<ArrayRef, String> {
    let (mut words, mut known) = (Vec::new(), HashMap::new());
    // Consecutive rows mostly have the same text.
    let mut last = 0;
    let numbers = texts.iter().map(|text| {
        let text = text?;
        if words.get(last as usize) != Some(&text) {
            last = *known.entry(text).or_insert_with(|| {
                words.push(text);
                words.len() as i32 - 1
            });
        }
        Some(last)
    });
    let numbers: Int32Array = numbers.collect();
    checked(&numbers, &StringArray::from_iter_values(words))
}

/// Dictionary of these texts; fails if a number has no text, since consumers do not look.
fn checked(numbers: &Int32Array, texts: &StringArray) -> Result<ArrayRef, String> {
    let array = DictionaryArray::try_new(numbers.clone(), Arc::new(texts.clone()));
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

/// Texts without terminal commands; nearly all are plain already.
fn cleaned(texts: &StringArray) -> StringArray {
    let (first, last) = (texts.value_offsets().first(), texts.value_offsets().last());
    let range = first.map_or(0, |o| *o as usize)..last.map_or(0, |o| *o as usize);
    let plain = |all: bool, byte: &u8| all & (0x20..0x7f).contains(byte);
    if texts.value_data()[range].iter().fold(true, plain) {
        return texts.clone();
    }
    let each = texts.iter().map(|text| text.map(clean_lines));
    each.collect()
}
