//! Closed form of a table's file.

use crate::batch;
use crate::disk::{self, Disk, Output, parent, part_of};
use crate::error::StoreError;
use crate::group_note::{BLOCK, ColumnKind, ColumnNote, Note};
use crate::guarded::guarded;
use crate::stream;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use base::record::{Kind, TableId};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelector,
};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Converts the stream at `from` to Parquet at `to`, which is durable on return. The stream stays. Returns the number
/// of rows.
///
/// # Errors
/// `DiskFull`, `Io`, or `Damaged` if the stream ends before `rows` rows. Then there is nothing at `to`.
pub fn convert(
    disk: &dyn Disk,
    table: TableId,
    from: &Path,
    to: &Path,
    rows: u64,
) -> Result<(), StoreError> {
    let mut sheet = Sheet::create(disk, table, to, SMALL_GROUP)?;
    let mut fault = None;
    let read = stream::read(from, &mut |b| {
        sheet.write(&b).map_err(|e| {
            fault = Some(e);
            "it cannot be written as Parquet".into()
        })
    });
    let done = read
        .map_err(|e| StoreError::io("read", from, rows, e))
        .and_then(|tail| match fault {
            Some(e) => Err(e),
            None if sheet.rows != rows => Err(StoreError::Damaged {
                file: from.to_owned(),
                what: format!(
                    "{rows} rows were written to it, {} can be read back ({})",
                    sheet.rows, tail.why
                ),
            }),
            None => Ok(()),
        });
    match done {
        Ok(()) => sheet.close(disk).map(drop),
        Err(e) => {
            sheet.discard(disk);
            Err(e)
        }
    }
}

/// Parquet file being written; it gets its final name once it is complete and durable.
pub struct Sheet {
    to: PathBuf,
    writer: ArrowWriter<Shared>,
    file: Arc<Mutex<Sequential>>,
    group_rows: usize,
    /// Rows in finished groups.
    rows_grouped: i64,
    pub rows: u64,
}

impl Sheet {
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn create(
        disk: &dyn Disk,
        table: TableId,
        to: &Path,
        group_rows: usize,
    ) -> Result<Sheet, StoreError> {
        let part = part_of(to);
        let out = disk
            .create(&part)
            .map_err(|e| StoreError::io("create", &part, 0, e))?;
        let file = Arc::new(Mutex::new(Sequential {
            out,
            at: 0,
            checked_from: 0,
            sums: Sums::default(),
            failed: None,
        }));
        let writer = ArrowWriter::try_new(
            Shared(file.clone()),
            batch::schema(table),
            Some(properties(table, group_rows)),
        );
        // The file's first bytes belong to no group.
        let writer = writer.and_then(|mut writer| {
            writer.sync()?;
            file.lock().expect("no thread panics with it").check();
            Ok(writer)
        });
        match writer {
            Ok(writer) => Ok(Sheet {
                to: to.to_owned(),
                writer,
                file,
                group_rows,
                rows_grouped: 0,
                rows: 0,
            }),
            Err(e) => {
                let _ = disk.remove(&part);
                Err(failed(&file, &part, 0, &e))
            }
        }
    }

    /// Name of the file once it is complete.
    pub fn path(&self) -> &Path {
        &self.to
    }

    /// # Errors
    /// `DiskFull`, `Io`. Only `discard` is possible then.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        self.rows += batch.num_rows() as u64;
        let written = self.write_groups(batch);
        written.map_err(|e| failed(&self.file, &part_of(&self.to), self.rows, &e))
    }

    fn write_groups(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut at = 0;
        while at < batch.num_rows() {
            // Writes never cross the end of a page, so that the pages of all columns end with the same rows.
            let before = self.writer.in_progress_rows();
            let room = self.page_rows() - before % self.page_rows();
            let n = room.min(batch.num_rows() - at);
            self.writer.write(&batch.slice(at, n))?;
            at += n;
            if before + n == self.group_rows {
                self.end_group()?;
            }
        }
        Ok(())
    }

    fn page_rows(&self) -> usize {
        self.group_rows / PAGES
    }

    /// Writes the rows so far as a group, with a note behind it.
    fn end_group(&mut self) -> Result<(), ParquetError> {
        self.writer.flush()?;
        self.writer.sync()?;
        let groups = self.writer.flushed_row_groups();
        let Some(group) = groups.last().filter(|g| g.num_rows() > 0) else {
            return Ok(());
        };
        let (from, to, sums) = self.file.lock().expect("no thread panics with it").check();
        let note = Note {
            group: groups.len() - 1,
            rows: group.num_rows(),
            rows_before: self.rows_grouped,
            from,
            to,
            crc32: sums.whole(),
            blocks: sums.blocks(),
            page_rows: self.page_rows(),
            columns: group.columns().iter().map(column_note).collect(),
        };
        self.rows_grouped += note.rows;
        self.writer.write_all(&note.bytes())?;
        self.writer.sync()?;
        self.file.lock().expect("no thread panics with it").check();
        Ok(())
    }

    /// Finishes the file; returns the number of rows, all durable.
    ///
    /// # Errors
    /// `DiskFull`, `Io`. Then there is no file of that name.
    pub fn close(mut self, disk: &dyn Disk) -> Result<u64, StoreError> {
        let last = match self.writer.in_progress_rows() {
            0 => Ok(()),
            _ => self.end_group(),
        };
        let (to, rows) = (self.to, self.rows);
        let part = part_of(&to);
        let io = |action, path: &Path, e| StoreError::io(action, path, rows, e);
        let done = (last.and_then(|()| self.writer.close()))
            .map_err(|e| failed(&self.file, &part, rows, &e))
            .and_then(|_| {
                let mut file = self.file.lock().expect("no thread panics with it");
                file.out.sync().map_err(|e| io("sync", &part, e))
            })
            .and_then(|()| {
                disk.rename(&part, &to)
                    .map_err(|e| io("rename a finished file to", &to, e))
            })
            .and_then(|()| {
                disk.sync_dir(parent(&to))
                    .map_err(|e| io("sync the directory of", &to, e))
            });
        if done.is_err() {
            // Frees its space; if even that fails, readers skip the file.
            let _ = disk.remove(&part);
        }
        done.map(|()| rows)
    }

    pub fn discard(self, disk: &dyn Disk) {
        drop(self.writer);
        let _ = disk.remove(&part_of(&self.to));
    }
}

/// Restores the operating system's error, which the Parquet writer turns into text.
fn failed(file: &Mutex<Sequential>, part: &Path, rows: u64, e: &ParquetError) -> StoreError {
    match file.lock().expect("no thread panics with it").failed.take() {
        Some(e) => StoreError::io("write", part, rows, e),
        None => StoreError::Damaged {
            file: part.to_owned(),
            what: e.to_string(),
        },
    }
}

/// Rows per group of a monitor. A group is built in memory, and a monitor has little: 16,384 rows of the widest table
/// are 2 MB before compression.
pub const SMALL_GROUP: usize = 16_384;
/// Rows per group elsewhere. Larger groups are faster to write and read; one wrong byte may lose 3 h at ten rows per
/// second.
pub const LARGE_GROUP: usize = 1 << 17;
/// Pages per group, with the same rows in every column: a wrong byte mostly costs one page. Twice as many make a day's
/// file a tenth larger.
const PAGES: usize = 8;

/// Returns the encodings: integers as differences, text by dictionary, both under zstd, because times, numbers and
/// delays change little from row to row. docs/reference/record.md gives the sizes.
fn properties(table: TableId, group_rows: usize) -> WriterProperties {
    let mut p = WriterProperties::builder()
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(3).expect("3 is a zstd level"),
        ))
        .set_created_by(concat!("tailback ", env!("CARGO_PKG_VERSION")).into())
        .set_max_row_group_row_count(Some(group_rows))
        .set_write_batch_size(group_rows / PAGES)
        .set_data_page_row_count_limit(group_rows / PAGES)
        .set_dictionary_enabled(false);
    for c in table.spec().columns {
        let path = ColumnPath::from(c.name);
        p = match c.kind {
            Kind::Int => p.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Kind::Text => p.set_column_dictionary_enabled(path, true),
            Kind::Real | Kind::Flag => p,
        };
    }
    p.build()
}

fn column_note(column: &ColumnChunkMetaData) -> ColumnNote {
    let described = column.column_descr();
    let nulls = column.statistics().and_then(|s| s.null_count_opt());
    let nulls = nulls.and_then(|n| i64::try_from(n).ok());
    ColumnNote {
        name: described.name().to_owned(),
        kind: match described.physical_type() {
            Type::DOUBLE => ColumnKind::Real,
            Type::BOOLEAN => ColumnKind::Flag,
            Type::BYTE_ARRAY => ColumnKind::Text,
            _ => ColumnKind::Int,
        },
        nullable: described.max_def_level() > 0,
        values: column.num_values(),
        all_null: described.max_def_level() > 0 && nulls == Some(column.num_values()),
        compressed_bytes: column.compressed_size(),
        uncompressed_bytes: column.uncompressed_size(),
        at: column.data_page_offset(),
        dictionary_at: column.dictionary_page_offset(),
    }
}

/// Row groups of a file, each with its note if there is one.
struct Layout {
    whole: ArrowReaderMetadata,
    notes: Vec<Option<Note>>,
    /// Rows of the file, as far as it still states them.
    rows: i64,
    /// Defect of its description.
    why: Option<String>,
}

impl Layout {
    fn of(file: &File) -> Result<Layout, String> {
        // As in `read_rows`, wrong bytes may cause a panic.
        let described = guarded(|| {
            let whole = ArrowReaderMetadata::load(file, Default::default());
            whole.map(numbered).map_err(|e| e.to_string())
        });
        let described = described.unwrap_or_else(|| Err("it makes no sense".into()));
        if let Ok(whole) = &described {
            let groups = whole.metadata().row_groups().iter();
            let notes: Vec<Option<Note>> = groups.map(|g| Note::at(file, end_of(g))).collect();
            if !notes.is_empty() && notes.iter().enumerate().all(|(i, n)| fits(n.as_ref(), i)) {
                return Layout::noted(notes.into_iter().flatten().collect(), None);
            }
        }
        let found = Note::all(file).map_err(|e| e.to_string())?;
        match (described, found.is_empty()) {
            // Files from before notes existed.
            (Ok(whole), true) => Ok(Layout {
                notes: vec![None; whole.metadata().num_row_groups()],
                rows: whole.metadata().file_metadata().num_rows(),
                whole,
                why: None,
            }),
            (Err(why), true) => Err(why),
            (Ok(whole), false) => {
                let described = whole.metadata().num_row_groups();
                match found.len() == described {
                    true => Layout::noted(found, None),
                    // A note is damaged: that group is read as the end of the file describes it.
                    false => Ok(Layout {
                        notes: (0..described)
                            .map(|i| found.iter().find(|n| n.group == i).cloned())
                            .collect(),
                        rows: whole.metadata().file_metadata().num_rows(),
                        whole,
                        why: None,
                    }),
                }
            }
            (Err(why), false) => {
                // The library's dump of its own state behind it is useless to readers.
                let why = why.split(" {").next().unwrap_or_default();
                let why = format!("its end, where Parquet describes it, cannot be used ({why})");
                Layout::noted(found, Some(why))
            }
        }
    }

    /// Reconstructs the layout from the notes alone.
    fn noted(notes: Vec<Note>, why: Option<String>) -> Result<Layout, String> {
        let Some(last) = notes.last() else {
            return Err("it has no rows".into());
        };
        let rows = last.rows_before + last.rows;
        let fields = last.columns.iter().map(|c| {
            let kind = match c.kind {
                ColumnKind::Int => DataType::Int64,
                ColumnKind::Real => DataType::Float64,
                ColumnKind::Flag => DataType::Boolean,
                ColumnKind::Text => DataType::Utf8,
            };
            Field::new(c.name.clone(), kind, c.nullable)
        });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let built = ArrowSchemaConverter::new()
            .convert(&schema)
            .and_then(|schema| {
                let schema = Arc::new(schema);
                let groups: Result<Vec<_>, _> = notes.iter().map(|n| n.group(&schema)).collect();
                let file = FileMetaData::new(2, rows, None, None, schema, None);
                let whole = ParquetMetaData::new(file, groups?);
                ArrowReaderMetadata::try_new(Arc::new(whole), Default::default())
            })
            .map(numbered);
        Ok(Layout {
            whole: built.map_err(|e| e.to_string())?,
            notes: notes.into_iter().map(Some).collect(),
            rows,
            why,
        })
    }
}

/// Lets texts be read as numbers of the file's own dictionaries: a column of a million rows has a handful of texts.
fn numbered(whole: ArrowReaderMetadata) -> ArrowReaderMetadata {
    let Some(schema) = batch::with_dictionaries(whole.schema()) else {
        return whole;
    };
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(whole.metadata().clone(), options).unwrap_or(whole)
}

/// Returns the end position of a group's bytes.
fn end_of(group: &RowGroupMetaData) -> u64 {
    let ends = group.columns().iter().map(|c| {
        let begin = c.dictionary_page_offset().unwrap_or(c.data_page_offset());
        begin.saturating_add(c.compressed_size())
    });
    ends.max()
        .map_or(u64::MAX, |end| u64::try_from(end).unwrap_or(u64::MAX))
}

fn fits(note: Option<&Note>, group: usize) -> bool {
    note.is_some_and(|n| n.group == group)
}

/// Reads a file. `columns`: only these, if the file has them. Damaged parts are skipped; a file without checksums may
/// have wrong values that still decode.
///
/// # Errors
/// Fails with the file's defect and the extent of the loss; intact batches have been passed on.
pub fn read(
    path: &Path,
    columns: Option<&[&str]>,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let file = disk::open_read(path).map_err(|e| e.to_string())?;
    if file.metadata().is_ok_and(|m| m.len() == 0) {
        return Err("it is empty; all of its rows are lost".into());
    }
    let layout = Layout::of(&file).map_err(|why| format!("{why}; all of its rows are lost"))?;
    let mut given = 0;
    let mut why = None;
    // Group by group, so that data beside a damaged group is not lost.
    for (group, note) in layout.notes.iter().enumerate() {
        let mut refused = None;
        let source = Source {
            file: file.try_clone().map_err(|e| e.to_string())?,
            bad: match note {
                Some(note) if !note.matches(&file) => note.damage(&file),
                _ => Vec::new(),
            },
        };
        let mut hand_out = |b: RecordBatch| {
            given += b.num_rows() as i64;
            each(b).inspect_err(|e| refused = Some(e.clone()))
        };
        let known = columns.map(|all| with_values(all, note.as_ref()));
        let of = Of {
            whole: &layout.whole,
            group,
            columns: known.as_deref(),
        };
        let result = match source.damage() {
            None => read_rows(&source, &of, 0, 65_536, &mut hand_out),
            Some(bad) => {
                let page_rows = note.as_ref().map_or(0, |n| n.page_rows);
                read_around(&source, &of, page_rows, &mut hand_out);
                Err(format!(
                    "bytes {} to {} are not those that were written",
                    bad.start, bad.end
                ))
            }
        };
        if let Some(why) = refused {
            return Err(why);
        }
        if let Err(e) = result {
            why.get_or_insert(e);
        }
    }
    loss(layout.why, why, layout.rows, given)
}

/// Columns that hold a value in a group; readers see the others, which are null, as columns that the file lacks.
fn with_values<'c>(columns: &[&'c str], note: Option<&Note>) -> Vec<&'c str> {
    let is_null = |name: &str| {
        let column = note.and_then(|n| n.columns.iter().find(|c| c.name == name));
        column.is_some_and(|c| c.all_null)
    };
    let columns = columns.iter().copied();
    columns.filter(|name| !is_null(name)).collect()
}

/// Reason why rows are lost: `end` for a file without its last part, `why` for a damaged group.
fn loss(end: Option<String>, why: Option<String>, rows: i64, given: i64) -> Result<(), String> {
    let lost = rows - given;
    match (end, why) {
        (None, None) if lost == 0 => Ok(()),
        (None, why) => {
            let why = why.unwrap_or_else(|| "a part of it is missing".into());
            Err(format!("{why}; {lost} of its {rows} rows are lost"))
        }
        (Some(mut told), why) => {
            if lost > 0 {
                let why = why.map_or(String::new(), |w| format!(" ({w})"));
                told += &format!("; {lost} of its first {rows} rows are lost{why}");
            }
            Err(format!(
                "{told}; what stood behind the first {rows} rows, if anything did, is lost"
            ))
        }
    }
}

/// Request for a part of a row group.
struct Of<'a> {
    whole: &'a ArrowReaderMetadata,
    group: usize,
    columns: Option<&'a [&'a str]>,
}

/// Reads the rows of a damaged group whose pages are intact in every column, requested or not, so that all readers find
/// the same rows. These are the rows before the damage and, if the damage left the pages' own headers intact, those
/// after it.
fn read_around(
    source: &Source,
    of: &Of<'_>,
    page_rows: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) {
    let rows = of.whole.metadata().row_group(of.group).num_rows();
    let mut at = 0;
    let mut refused = false;
    while at < rows as usize && page_rows > 0 && !refused {
        let all = Of {
            columns: None,
            ..*of
        };
        // The checksums report the damage, so the error is ignored.
        let _ = read_rows(source, &all, at, page_rows, &mut |b| {
            at += b.num_rows();
            let wanted = only(&b, of.columns).map_err(|e| e.to_string());
            wanted.and_then(&mut *each).inspect_err(|_| refused = true)
        });
        at = (at / page_rows + 1) * page_rows;
    }
}

fn only(batch: &RecordBatch, columns: Option<&[&str]>) -> Result<RecordBatch, ArrowError> {
    let Some(columns) = columns else {
        return Ok(batch.clone());
    };
    let fields = batch.schema_ref().fields().iter().enumerate();
    let wanted = fields.filter(|(_, f)| columns.contains(&f.name().as_str()));
    batch.project(&wanted.map(|(i, _)| i).collect::<Vec<_>>())
}

/// Reads the rows of a group from `skip` on, in batches of this size.
fn read_rows(
    source: &Source,
    of: &Of<'_>,
    skip: usize,
    batch_rows: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let source = source.again().map_err(|e| e.to_string())?;
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, of.whole.clone())
        .with_row_groups(vec![of.group]);
    if let Some(columns) = of.columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    if skip > 0 {
        let rows = of.whole.metadata().row_group(of.group).num_rows();
        let left = (rows as usize).saturating_sub(skip);
        let selected = vec![RowSelector::skip(skip), RowSelector::select(left)];
        builder = builder.with_row_selection(selected.into());
    }
    let built = builder.with_batch_size(batch_rows).build();
    let mut reader = built.map_err(|e| e.to_string())?;
    loop {
        // parquet 60 panics on some damaged pages (`bit_chunk_iterator.rs`: "offset + len out of bounds"); a file must
        // not crash the program.
        let next = guarded(|| reader.next());
        let next = next.ok_or("a page of it holds what no page can hold")?;
        match next {
            Some(batch) => each(batch.map_err(|e| e.to_string())?)?,
            None => return Ok(()),
        }
    }
}

/// File reader that returns no bytes known to be damaged.
struct Source {
    file: File,
    /// Damaged ranges, ascending.
    bad: Vec<Range<u64>>,
}

impl Source {
    fn again(&self) -> io::Result<Source> {
        Ok(Source {
            file: self.file.try_clone()?,
            bad: self.bad.clone(),
        })
    }

    /// Returns the range from the first damaged byte to the last.
    fn damage(&self) -> Option<Range<u64>> {
        Some(self.bad.first()?.start..self.bad.last()?.end)
    }

    /// Returns the number of intact bytes from `start` on.
    fn sound_from(&self, start: u64) -> u64 {
        let next = self.bad.iter().find(|b| start < b.end);
        next.map_or(u64::MAX, |b| b.start.saturating_sub(start))
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Source {
    type T = io::Take<<File as ChunkReader>::T>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.file.get_read(start)?.take(self.sound_from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if self.sound_from(start) < length as u64 {
            return Err(ParquetError::General("it is damaged".into()));
        }
        self.file.get_bytes(start, length)
    }
}

/// Sequential writer to an `Output`, which keeps the operating system's error: the Parquet writer turns it into text.
struct Sequential {
    out: Box<dyn Output>,
    at: u64,
    /// Position from which the checksums count.
    checked_from: u64,
    sums: Sums,
    failed: Option<io::Error>,
}

impl Sequential {
    /// Returns the position and the checksums of the bytes written since the last call.
    fn check(&mut self) -> (u64, u64, Sums) {
        let from = std::mem::replace(&mut self.checked_from, self.at);
        (from, self.at, std::mem::take(&mut self.sums))
    }
}

/// CRC-32 of written bytes, and of each block of them.
#[derive(Default)]
struct Sums {
    whole: crc32fast::Hasher,
    full: Vec<u32>,
    block: crc32fast::Hasher,
    /// Bytes in the last block.
    filled: usize,
}

impl Sums {
    fn update(&mut self, mut bytes: &[u8]) {
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block.update(now);
            self.filled += now.len();
            if self.filled == BLOCK {
                self.full.push(std::mem::take(&mut self.block).finalize());
                self.filled = 0;
            }
            bytes = later;
        }
    }

    fn whole(&self) -> u32 {
        self.whole.clone().finalize()
    }

    fn blocks(&self) -> Vec<u32> {
        let last = (self.filled > 0).then(|| self.block.clone().finalize());
        self.full.iter().copied().chain(last).collect()
    }
}

struct Shared(Arc<Mutex<Sequential>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().expect("no thread panics with it");
        let at = file.at;
        if let Err(e) = file.out.write_at(bytes, at) {
            let told = io::Error::from(e.kind());
            file.failed = Some(e);
            return Err(told);
        }
        file.at += bytes.len() as u64;
        file.sums.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
