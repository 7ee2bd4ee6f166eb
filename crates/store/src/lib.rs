//! Recordings on disk.
//!
//! An open recording is a directory of append-only Arrow IPC streams, one file per table and day. Any Arrow reader
//! opens them up to the last complete batch. Closing converts each file to Parquet. `meta.json` exists from the start.
//! See `docs/reference/record.md` for the tables.
//!
//! **Data loss in a crash.** Rows reach the kernel at most 0.5 s after they were passed in (`Writer::tick`), and the
//! disk by `fdatasync` in the same flush. A killed process and a power failure therefore both lose less than the last
//! second, plus the disk's own sync time. Rows of simulated and imported recordings can be regenerated and are synced
//! only when the recording is closed.
//!
//! **Data loss on a full disk.** Only the rows that did not fit: complete batches are written at a known offset, and an
//! incomplete batch is written again at the same place once there is space.
//!
//! This crate reads no clock: times come with the rows and with `tick`.

#![forbid(unsafe_code)]

mod append;
mod batch;
mod batches;
mod bounds;
mod checksum;
mod columns;
mod day;
pub mod disk;
mod error;
mod export;
pub mod figures;
mod follow;
mod group_note;
mod guarded;
pub mod import;
mod keep;
mod lock;
mod owner;
mod parquet_file;
mod reader;
mod stream;
mod system;
mod writer;

pub use append::append;
pub use batches::{Batches, Notes, batches, table_files, table_schema};
pub use columns::{Columns, Ints, scan, scan_days};
pub use error::StoreError;
pub use export::{CsvWriter, JsonWriter, write_parquet};
pub use follow::Follow;
pub use keep::{DayFile, Thin, Thinned, files, finish_thinning, remove, seal_days, thin};
pub use lock::Lock;
pub use owner::Owner;
pub use reader::{Recovered, each_row, read, read_meta, read_meta_noting, read_noting};
pub use writer::{Closed, Name, Options, Writer};

/// Extension of a table's file while it may grow: an Arrow IPC stream.
const OPEN: &str = "arrows";
/// Extension of a table's closed file.
const SEALED: &str = "parquet";
const META: &str = "meta.json";
