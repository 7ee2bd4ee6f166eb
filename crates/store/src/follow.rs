use crate::batch::RowReader;
use crate::reader::days;
use crate::{OPEN, bounds, stream};
use base::record::{Row, TableId};
use std::io;
use std::path::{Path, PathBuf};

/// Reader of the rows that a table gains while its recording is open.
pub struct Follow {
    dir: PathBuf,
    table: TableId,
    /// Day that is read, and the bytes of its file that were read.
    day: Option<(String, u64)>,
    reader: RowReader,
}

impl Follow {
    /// Follows a table of the recording at `path`, which need not exist yet.
    pub fn new(path: &Path, table: TableId) -> Follow {
        Follow {
            dir: path.join(table.spec().name),
            table,
            day: None,
            reader: RowReader::new(table),
        }
    }

    /// Passes the rows of the newest day that were written since the last call. The first call passes all of that day. Days
    /// that were closed meanwhile are left out: they are in the recording.
    ///
    /// # Errors
    /// The errors of the operating system. A batch that is not complete yet is read the next time.
    pub fn rows(&mut self, each: &mut dyn FnMut(Row)) -> io::Result<()> {
        let newest = days(&self.dir).map_err(io::Error::other)?;
        let Some(newest) = newest.into_iter().next_back() else {
            return Ok(());
        };
        if self.day.as_ref().is_none_or(|(day, _)| *day != newest) {
            self.day = Some((newest, 0));
        }
        let Some((day, at)) = &mut self.day else {
            return Ok(());
        };
        let path = self.dir.join(day).with_extension(OPEN);
        let spec = self.table.spec();
        let read = stream::read_on(&path, *at, &mut |batch| {
            bounds::within(spec, batch, &mut |batch| {
                let rows = self.reader.rows(&batch)?;
                rows.into_iter().for_each(&mut *each);
                Ok(())
            })
            .map(|_| ())
        });
        match read {
            Ok(end) => *at = end,
            // Closed meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}
