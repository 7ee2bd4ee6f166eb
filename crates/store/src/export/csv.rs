//! Tables as CSV (RFC 4180), one file each, for programs that read no better format. Times are in ISO 8601 and UTC, with
//! all nanoseconds; their columns lack the ending `_ns`. Everything else is a plain number or a text.

use super::text::Texts;
use crate::StoreError;
use base::record::{Column, Row, Sink, Table, TableId};
use jiff::Timestamp;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writer of `TABLE.csv` for each table with rows, in one directory; the first line names the columns.
pub struct CsvWriter {
    files: Texts,
    line: Line,
}

impl CsvWriter {
    /// # Errors
    /// `Io` if the directory cannot be created; `Exists` if it exists and is not empty.
    pub fn create(directory: &Path) -> Result<CsvWriter, StoreError> {
        Ok(CsvWriter {
            files: Texts::create(directory, "csv")?,
            line: Line::default(),
        })
    }

    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn push<T: Table>(&mut self, row: &T) -> Result<(), StoreError> {
        self.begin(T::ID);
        row.put(&mut self.line);
        self.end(T::ID)
    }

    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn push_row(&mut self, row: &Row) -> Result<(), StoreError> {
        self.begin(row.table());
        row.put(&mut self.line);
        self.end(row.table())
    }

    fn begin(&mut self, table: TableId) {
        self.line.columns = table.spec().columns;
        self.line.text.clear();
    }

    fn end(&mut self, table: TableId) -> Result<(), StoreError> {
        let first = || {
            let names: Vec<&str> = table.spec().columns.iter().map(heading).collect();
            names.join(",") + "\n"
        };
        self.files.line(table, first, &self.line.text)
    }

    /// Writes everything to the disk. Returns the files.
    ///
    /// # Errors
    /// The same as `push`.
    pub fn close(self) -> Result<Vec<PathBuf>, StoreError> {
        self.files.close()
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
