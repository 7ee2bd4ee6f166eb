//! The closed form of a table's file.

use crate::batch;
use crate::disk::{Disk, Output, parent, part_of};
use crate::error::StoreError;
use crate::stream;
use arrow_array::RecordBatch;
use base::record::{Kind, TableId};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Turns the stream at `from` into Parquet at `to`, durable when this returns. The stream stays where it is.
/// Returns the number of rows.
///
/// # Errors
/// `DiskFull`, `Io`, or `Damaged` where the stream ends before `rows` rows. There is then nothing at `to`.
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

/// A Parquet file on its way: it has its name only once it is whole and durable.
pub struct Sheet {
    to: PathBuf,
    writer: ArrowWriter<Shared>,
    file: Arc<Mutex<Sequential>>,
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
            failed: None,
        }));
        let writer = ArrowWriter::try_new(
            Shared(file.clone()),
            batch::schema(table),
            Some(properties(table, group_rows)),
        );
        match writer {
            Ok(writer) => Ok(Sheet {
                to: to.to_owned(),
                writer,
                file,
                rows: 0,
            }),
            Err(e) => {
                let _ = disk.remove(&part);
                Err(failed(&file, &part, 0, &e))
            }
        }
    }

    /// # Errors
    /// `DiskFull`, `Io`. There is nothing to be done with it then but to `discard` it.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        self.rows += batch.num_rows() as u64;
        let written = self.writer.write(batch);
        written.map_err(|e| failed(&self.file, &part_of(&self.to), self.rows, &e))
    }

    /// Gives the number of rows, all of them durable.
    ///
    /// # Errors
    /// `DiskFull`, `Io`. There is then nothing of that name.
    pub fn close(self, disk: &dyn Disk) -> Result<u64, StoreError> {
        let (to, rows) = (self.to, self.rows);
        let part = part_of(&to);
        let io = |action, path: &Path, e| StoreError::io(action, path, rows, e);
        let done = (self.writer.close())
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
            // Gives its space back; where even that fails, readers skip it.
            let _ = disk.remove(&part);
        }
        done.map(|()| rows)
    }

    pub fn discard(self, disk: &dyn Disk) {
        drop(self.writer);
        let _ = disk.remove(&part_of(&self.to));
    }
}

/// What the operating system said, which the Parquet writer turned into prose.
fn failed(file: &Mutex<Sequential>, part: &Path, rows: u64, e: &ParquetError) -> StoreError {
    match file.lock().expect("no thread panics with it").failed.take() {
        Some(e) => StoreError::io("write", part, rows, e),
        None => StoreError::Damaged {
            file: part.to_owned(),
            what: e.to_string(),
        },
    }
}

/// A row group is built in memory, and a monitor has little: this many rows of the widest table are 2 MB before they
/// are compressed.
pub const SMALL_GROUP: usize = 16_384;
/// Larger groups are written and read quicker.
pub const LARGE_GROUP: usize = 1 << 20;

/// Integers as differences, text by dictionary, both under zstd: times, numbers and delays change little from row to
/// row. docs/reference/record.md states the sizes.
fn properties(table: TableId, group_rows: usize) -> WriterProperties {
    let mut p = WriterProperties::builder()
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(3).expect("3 is a zstd level"),
        ))
        .set_created_by(concat!("tailback ", env!("CARGO_PKG_VERSION")).into())
        .set_max_row_group_row_count(Some(group_rows))
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

/// `columns`: only these, where the file has them.
///
/// # Errors
/// What is wrong with the file; batches before that have been handed out.
pub fn read(
    path: &Path,
    columns: Option<&[&str]>,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let whole = ArrowReaderMetadata::load(&file, Default::default()).map_err(|e| e.to_string())?;
    let groups = whole.metadata().num_row_groups();
    let all = whole.metadata().file_metadata().num_rows();
    let mut given = 0;
    // Group by group: what stands before a damaged one is not lost with it.
    for group in 0..groups {
        read_group(&file, &whole, group, columns, &mut |b| {
            given += b.num_rows() as i64;
            each(b)
        })
        .map_err(|why| format!("{why}; {} of its {all} rows are lost", all - given))?;
    }
    Ok(())
}

fn read_group(
    file: &File,
    whole: &ArrowReaderMetadata,
    group: usize,
    columns: Option<&[&str]>,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let file = file.try_clone().map_err(|e| e.to_string())?;
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, whole.clone())
        .with_row_groups(vec![group]);
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    let built = builder.with_batch_size(65_536).build();
    let mut reader = built.map_err(|e| e.to_string())?;
    loop {
        // parquet 60 panics on some pages whose bytes are not what was written (`bit_chunk_iterator.rs`: "offset + len
        // out of bounds"); a file must not bring the program down.
        let next = catch_unwind(AssertUnwindSafe(|| reader.next()));
        let next = next.map_err(|_| "a page of it holds what no page can hold")?;
        match next {
            Some(batch) => each(batch.map_err(|e| e.to_string())?)?,
            None => return Ok(()),
        }
    }
}

/// An `Output` written from front to back, which remembers what the operating system said: the Parquet writer turns it
/// into prose.
struct Sequential {
    out: Box<dyn Output>,
    at: u64,
    failed: Option<io::Error>,
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
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
