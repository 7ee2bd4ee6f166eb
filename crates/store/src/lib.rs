//! Recordings on disk.
//!
//! While it runs, a recording is a directory of append-only Arrow IPC streams, one file a table and day, that any
//! Arrow reader opens up to the last whole batch. Once closed, each file is Parquet. `meta.json` is there from the
//! first moment. See `docs/reference/record.md` for the tables.
//!
//! **What a crash costs.** Rows reach the kernel at most half a second after they were handed in (`Writer::tick`), and
//! the disk by `fdatasync` in the same flush: a killed process and a power cut alike lose less than the last second,
//! plus the time that the disk itself takes to sync. Rows of simulated and imported recordings, which can be made
//! again, are synced only when the recording is closed.
//!
//! **What a full disk costs.** The rows that did not fit, nothing else: batches are written whole at a known offset,
//! and a batch that was cut short is written again at the same place once there is room.
//!
//! This room reads no clock: times come with the rows and with `tick`.

mod batch;
mod bounds;
mod checksum;
mod columns;
mod csv;
mod day;
pub mod disk;
mod error;
mod group_note;
pub mod import;
mod keep;
mod lock;
mod owner;
mod parquet_file;
mod reader;
mod stream;
mod writer;

pub use columns::{Columns, Ints, scan};
pub use csv::CsvWriter;
pub use error::StoreError;
pub use keep::{DayFile, Thin, Thinned, files, finish_thinning, remove, seal_days, thin};
pub use lock::Lock;
pub use owner::Owner;
pub use reader::{Recovered, each_row, read, read_meta, read_meta_noting, read_noting};
pub use writer::{Closed, Name, Options, Writer};

/// Extension of a table's file while it may still grow: an Arrow IPC stream.
const OPEN: &str = "arrows";
/// Extension of a table's file once closed.
const SEALED: &str = "parquet";
const META: &str = "meta.json";
