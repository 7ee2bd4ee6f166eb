//! Tables and rows as ClickHouse takes them.

use base::record::{Column, Kind, Row, Sink, TableId, TableSpec};
use std::fmt::Write;

/// Columns that stand before those of a recording's table: whose row it is, and in which block of rows it came.
pub(super) const FIRST: [(&str, &str); 4] = [
    ("point", "String"),
    ("recording", "String"),
    ("month", "UInt32"),
    ("block", "UInt32"),
];

/// Type of a column.
pub(super) fn type_of(column: &Column) -> String {
    let plain = match column.kind {
        Kind::Int => "Int64",
        Kind::Real => "Float64",
        Kind::Flag => "UInt8",
        Kind::Text => "String",
    };
    match column.nullable {
        true => format!("Nullable({plain})"),
        false => plain.to_owned(),
    }
}

/// Statement that makes a table. A part of it holds rows of one month, so a block of rows of one recording is written whole or not
/// at all.
pub(super) fn create(place: &str, table: &TableSpec) -> String {
    let mut sql = format!("CREATE TABLE IF NOT EXISTS {place} (");
    for (name, kind) in FIRST {
        let _ = write!(sql, "{name} {kind}, ");
    }
    let own = table.columns.iter();
    let own: Vec<String> = own.map(|c| format!("{} {}", c.name, type_of(c))).collect();
    let _ = write!(
        sql,
        "{}) ENGINE = MergeTree PARTITION BY month ORDER BY (point, recording, {})",
        own.join(", "),
        table.time
    );
    sql
}

/// Statement that begins an insertion.
pub(super) fn insert(place: &str, table: &TableSpec) -> String {
    let first = FIRST.iter().map(|(name, _)| *name);
    let all: Vec<&str> = first.chain(table.columns.iter().map(|c| c.name)).collect();
    let columns = all.join(", ");
    format!("INSERT INTO {place} ({columns}) FORMAT RowBinary")
}

/// Text in quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        if matches!(c, '\'' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('\'');
    out
}

/// Rows of one table in ClickHouse's format RowBinary.
pub(super) struct Block {
    pub bytes: Vec<u8>,
    pub rows: u64,
    columns: &'static [Column],
}

impl Block {
    pub fn new(table: TableId) -> Block {
        Block {
            bytes: Vec::new(),
            rows: 0,
            columns: table.spec().columns,
        }
    }

    /// Adds a row; the values of [`FIRST`] precede its own.
    pub fn push(&mut self, (point, recording): (&str, &str), month: u32, number: u32, row: &Row) {
        self.string(point);
        self.string(recording);
        self.bytes.extend_from_slice(&month.to_le_bytes());
        self.bytes.extend_from_slice(&number.to_le_bytes());
        row.put(self);
        self.rows += 1;
    }

    fn string(&mut self, text: &str) {
        let mut left = text.len();
        while left >= 0x80 {
            self.bytes.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        self.bytes.push(left as u8);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Marks a value that may be absent as present.
    fn present(&mut self, column: usize) {
        if self.columns.get(column).is_some_and(|c| c.nullable) {
            self.bytes.push(0);
        }
    }
}

impl Sink for Block {
    fn int(&mut self, column: usize, value: i64) {
        self.present(column);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    fn real(&mut self, column: usize, value: f64) {
        self.present(column);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    fn flag(&mut self, column: usize, value: bool) {
        self.present(column);
        self.bytes.push(u8::from(value));
    }
    fn text(&mut self, column: usize, value: &str) {
        self.present(column);
        self.string(value);
    }
    fn null(&mut self, _column: usize) {
        self.bytes.push(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Event;

    #[test]
    fn a_row_is_written_as_the_format_says() {
        let event = Event {
            t_ns: -2,
            kind: "note".into(),
            subject: "".into(),
            detail: "x".repeat(300).as_str().into(),
        };
        let mut block = Block::new(TableId::Event);
        block.push(("p", "r.rec"), 202_611, 7, &Row::Event(event));
        let mut expected = b"\x01p\x05r.rec".to_vec();
        expected.extend(202_611u32.to_le_bytes());
        expected.extend(7u32.to_le_bytes());
        expected.extend((-2i64).to_le_bytes());
        expected.extend(b"\x04note\x00\xac\x02");
        expected.extend([b'x'; 300]);
        assert_eq!((block.bytes, block.rows), (expected, 1));
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
    }
}
