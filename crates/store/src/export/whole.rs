//! Tables as one Parquet file each, whatever the number of days.

use crate::batch::Rows;
use crate::disk::RealDisk;
use crate::parquet_file::{LARGE_GROUP, Sheet};
use crate::{Recovered, StoreError, each_row};
use base::record::{Row, TableId};
use std::path::Path;

/// Rows of a batch.
const BATCH: usize = 1 << 13;

/// Writes a table of a recording to a Parquet file, which is durable on return. Returns the number of rows, and the
/// losses of files that a crash cut off. There is no file if there are no rows.
///
/// # Errors
/// Those of [`each_row`]; `DiskFull`, `Io`. Then there is nothing at `to`.
pub fn write_parquet(
    recording: &Path,
    table: TableId,
    to: &Path,
) -> Result<(u64, Vec<Recovered>), StoreError> {
    let mut filling = Filling {
        sheet: Sheet::create(&RealDisk, table, to, LARGE_GROUP)?,
        rows: Rows::new(table),
        fault: None,
    };
    let read = each_row(recording, table, &mut |row: Row| filling.push(&row));
    filling.flush();
    let Filling { sheet, fault, .. } = filling;
    let notes = match read.and_then(|notes| fault.map_or(Ok(notes), Err)) {
        Ok(notes) => notes,
        Err(e) => {
            sheet.discard(&RealDisk);
            return Err(e);
        }
    };
    if sheet.rows == 0 {
        sheet.discard(&RealDisk);
        return Ok((0, notes));
    }
    Ok((sheet.close(&RealDisk)?, notes))
}

/// File being filled.
struct Filling {
    sheet: Sheet,
    rows: Rows,
    /// First error; nothing is written after it.
    fault: Option<StoreError>,
}

impl Filling {
    fn push(&mut self, row: &Row) {
        self.rows.push(row);
        if self.rows.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = self.rows.take().map_err(|e| StoreError::Damaged {
            file: self.sheet.path().to_owned(),
            what: e.to_string(),
        });
        if self.fault.is_none() {
            self.fault = batch.and_then(|b| self.sheet.write(&b)).err();
        }
    }
}
