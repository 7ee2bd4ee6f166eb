//! Queue of rows from an importer to the writing thread.

use crate::batch::Rows;
use crate::day::day_of;
use arrow_array::RecordBatch;
use base::record::{Table, TableId};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

const PAGE_ROWS: usize = 65_536;

/// Rows of one table and day.
pub struct Page {
    pub table: TableId,
    pub day: i64,
    pub batch: RecordBatch,
}

pub struct Out {
    pages: SyncSender<Page>,
    utc_offset_s: i32,
    rows: BTreeMap<(TableId, i64), Rows>,
    count: u64,
    span_ns: Option<(i64, i64)>,
    broken: bool,
}

impl Out {
    pub fn new(pages: SyncSender<Page>, utc_offset_s: i32) -> Out {
        Out {
            pages,
            utc_offset_s,
            rows: BTreeMap::new(),
            count: 0,
            span_ns: None,
            broken: false,
        }
    }

    /// Starts a new file: `rows` and `span_ns` are its own.
    pub fn begin(&mut self) {
        (self.count, self.span_ns) = (0, None);
    }

    pub fn rows(&self) -> u64 {
        self.count
    }

    pub fn span_ns(&self) -> Option<(i64, i64)> {
        self.span_ns
    }

    /// True if the writer has failed: no further reading is needed.
    pub fn broken(&self) -> bool {
        self.broken
    }

    pub fn push<T: Table>(&mut self, row: &T) {
        let t_ns = row.time_ns();
        let (first, last) = self.span_ns.unwrap_or((t_ns, t_ns));
        self.span_ns = Some((first.min(t_ns), last.max(t_ns)));
        self.count += 1;
        let day = day_of(t_ns, self.utc_offset_s);
        let rows = self
            .rows
            .entry((T::ID, day))
            .or_insert_with(|| Rows::new(T::ID));
        rows.push_as(row);
        if rows.len() >= PAGE_ROWS {
            let batch = rows.take().expect("columns of a table are equally long");
            let table = T::ID;
            self.broken |= self.pages.send(Page { table, day, batch }).is_err();
        }
    }

    pub fn finish(&mut self) {
        for ((table, day), mut rows) in std::mem::take(&mut self.rows) {
            if rows.len() > 0 {
                let batch = rows.take().expect("columns of a table are equally long");
                self.broken |= self.pages.send(Page { table, day, batch }).is_err();
            }
        }
    }
}
