//! Tables as CSV (RFC 4180), one file each, for programs that read no better format. Times are in ISO 8601 and UTC, with
//! all nanoseconds; their columns lack the ending `_ns`. Everything else is a plain number or a text.

use crate::{StoreError, disk};
use base::record::{Column, Sink, Table, TableId};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writer of `TABLE.csv` for each table with rows, in one directory; the first line names the columns.
pub struct CsvWriter {
    directory: PathBuf,
    files: BTreeMap<TableId, BufWriter<File>>,
    line: Line,
}

impl CsvWriter {
    /// # Errors
    /// `Io` if the directory cannot be created; `Exists` if it exists and is not empty.
    pub fn create(directory: &Path) -> Result<CsvWriter, StoreError> {
        let io = |action, e| StoreError::io(action, directory, 0, e);
        std::fs::create_dir_all(directory).map_err(|e| io("create the directory", e))?;
        let mut entries = std::fs::read_dir(directory).map_err(|e| io("list", e))?;
        if entries.next().is_some() {
            return Err(StoreError::Exists {
                path: directory.to_owned(),
            });
        }
        Ok(CsvWriter {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
            line: Line::default(),
        })
    }

    fn path(&self, table: TableId) -> PathBuf {
        self.directory.join(format!("{}.csv", table.spec().name))
    }

    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn push<T: Table>(&mut self, row: &T) -> Result<(), StoreError> {
        if !self.files.contains_key(&T::ID) {
            let path = self.path(T::ID);
            let names: Vec<&str> = T::SPEC.columns.iter().map(heading).collect();
            let begun = disk::create_new(&path).and_then(|file| {
                let mut file = BufWriter::with_capacity(1 << 16, file);
                writeln!(file, "{}", names.join(","))?;
                Ok(file)
            });
            let file = begun.map_err(|e| StoreError::io("create", &path, 0, e))?;
            self.files.insert(T::ID, file);
        }
        self.line.columns = T::SPEC.columns;
        self.line.text.clear();
        row.put(&mut self.line);
        self.line.text.push(b'\n');
        let written = self
            .files
            .get_mut(&T::ID)
            .map_or(Ok(()), |f| f.write_all(&self.line.text));
        written.map_err(|e| StoreError::io("write", &self.path(T::ID), 0, e))
    }

    /// Writes everything to the disk.
    ///
    /// # Errors
    /// The same as `push`.
    pub fn close(mut self) -> Result<(), StoreError> {
        for (table, file) in std::mem::take(&mut self.files) {
            let path = self.path(table);
            file.into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .map_err(|e| StoreError::io("write", &path, 0, e))?;
        }
        Ok(())
    }
}

/// Name of a column without the unit that an ISO time does not have.
fn heading(column: &Column) -> &'static str {
    match column.is_time() {
        true => column.name.trim_end_matches("_ns"),
        false => column.name,
    }
}

/// Line being built; a null is an empty field.
#[derive(Default)]
struct Line {
    text: Vec<u8>,
    columns: &'static [Column],
}

impl Line {
    fn cell(&mut self, column: usize, value: std::fmt::Arguments<'_>) {
        if column > 0 {
            self.text.push(b',');
        }
        self.text.write_fmt(value).expect("memory takes all");
    }
}

impl Sink for Line {
    fn int(&mut self, column: usize, value: i64) {
        let is_time = self.columns.get(column).is_some_and(Column::is_time);
        match Timestamp::from_nanosecond(i128::from(value)) {
            Ok(time) if is_time => self.cell(column, format_args!("{time:.9}")),
            _ => self.cell(column, format_args!("{value}")),
        }
    }
    fn real(&mut self, column: usize, value: f64) {
        self.cell(column, format_args!("{value}"));
    }
    fn flag(&mut self, column: usize, value: bool) {
        self.cell(column, format_args!("{value}"));
    }
    fn text(&mut self, column: usize, value: &str) {
        if value.contains(['"', ',', '\n', '\r']) {
            let quoted = value.replace('"', "\"\"");
            self.cell(column, format_args!("\"{quoted}\""));
        } else {
            self.cell(column, format_args!("{value}"));
        }
    }
    fn null(&mut self, column: usize) {
        self.cell(column, format_args!(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Event;

    #[test]
    fn a_line_names_its_columns_first_and_quotes_what_would_break_it() {
        let directory = std::env::temp_dir().join(format!("tailback-csv-{}", std::process::id()));
        let mut csv = CsvWriter::create(&directory).unwrap();
        csv.push(&Event {
            t_ns: 1_400_000_000_000_000_007,
            kind: "damage".into(),
            subject: "".into(),
            detail: "a \"b\", c".into(),
        })
        .unwrap();
        csv.close().unwrap();
        let text = std::fs::read_to_string(directory.join("event.csv")).unwrap();
        assert_eq!(
            text,
            "t,kind,subject,detail\n2014-05-13T16:53:20.000000007Z,damage,,\"a \"\"b\"\", c\"\n"
        );
        let again = CsvWriter::create(&directory);
        assert!(matches!(again, Err(StoreError::Exists { .. })));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
