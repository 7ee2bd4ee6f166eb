//! Tables as JSON Lines, one file each: an object a row, with the columns' names, numbers as the recording has them, and
//! null for what is unknown.

use super::text::Texts;
use crate::StoreError;
use base::record::{Column, Row, Sink};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writer of `TABLE.jsonl` for each table with rows, in one directory.
pub struct JsonWriter {
    files: Texts,
    line: Line,
}

impl JsonWriter {
    /// # Errors
    /// `Io` if the directory cannot be created; `Exists` if it exists and is not empty.
    pub fn create(directory: &Path) -> Result<JsonWriter, StoreError> {
        Ok(JsonWriter {
            files: Texts::create(directory, "jsonl")?,
            line: Line::default(),
        })
    }

    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn push_row(&mut self, row: &Row) -> Result<(), StoreError> {
        self.line.columns = row.table().spec().columns;
        self.line.text.clear();
        row.put(&mut self.line);
        self.line.text.push(b'}');
        self.files.line(row.table(), String::new, &self.line.text)
    }

    /// Writes everything to the disk. Returns the files.
    ///
    /// # Errors
    /// The same as `push_row`.
    pub fn close(self) -> Result<Vec<PathBuf>, StoreError> {
        self.files.close()
    }
}

/// Object being built.
#[derive(Default)]
struct Line {
    text: Vec<u8>,
    columns: &'static [Column],
}

impl Line {
    fn member(&mut self, column: usize, value: Value) {
        let open = if column == 0 { '{' } else { ',' };
        let name = self.columns.get(column).map_or("", |c| c.name);
        write!(self.text, "{open}\"{name}\":{value}").expect("memory takes all");
    }
}

impl Sink for Line {
    fn int(&mut self, column: usize, value: i64) {
        self.member(column, value.into());
    }
    fn real(&mut self, column: usize, value: f64) {
        // JSON has no infinity.
        self.member(column, value.into());
    }
    fn flag(&mut self, column: usize, value: bool) {
        self.member(column, value.into());
    }
    fn text(&mut self, column: usize, value: &str) {
        self.member(column, value.into());
    }
    fn null(&mut self, column: usize) {
        self.member(column, Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::{Delay, Status, Table};

    #[test]
    fn a_row_is_an_object_with_all_columns_and_null_is_what_is_unknown() {
        let dir = testkit::TempDir::new("json");
        let mut json = JsonWriter::create(&dir.join("out")).unwrap();
        let sent_ns = 1_400_000_000_000_000_007;
        let row = Delay {
            rtt_ns: Some(12_345_678),
            status: Status::Ok,
            ..Delay::unanswered(sent_ns, 3, "a \"b\"\n".into())
        };
        json.push_row(&row.into_row()).unwrap();
        let files = json.close().unwrap();
        assert_eq!(files, [dir.join("out/delay.jsonl")]);
        let text = std::fs::read_to_string(&files[0]).unwrap();
        let value: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(value["sent_ns"], sent_ns);
        assert_eq!(value["target"], "a \"b\"\n");
        assert_eq!(
            (&value["rtt_ns"], &value["ecn"]),
            (&12_345_678.into(), &Value::Null)
        );
        assert_eq!(
            value.as_object().map(serde_json::Map::len),
            Some(Delay::SPEC.columns.len())
        );
        assert_eq!(text.lines().count(), 1);
    }
}
