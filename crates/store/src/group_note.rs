//! Note behind each row group of a closed file: the positions of its columns, and a checksum over it.
//!
//! Parquet describes a file only at its end, and the writer used here makes no checksums. A file without its end would
//! be lost completely, and a flipped bit would give a wrong figure. Notes lie between row groups, where other readers
//! do not look (the format permits any bytes there). Layout: `MAGIC`, length of the text (u32, little endian), the text
//! (JSON), CRC-32 of the text. docs/decisions/0006-damage-is-found.md gives the reasons.

use crate::system::read_exact_at;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescPtr;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Start of a note. No text or compressed page is likely to contain it, and a checksum covers the bytes behind it.
const MAGIC: [u8; 16] = *b"\xf3tailback group\n";
/// Longest text of a note; longer ones are invalid.
const MOST_BYTES: u32 = 1 << 20;
/// Size of the pieces in which a file is searched, bytes.
const PIECE: usize = 1 << 16;

/// Bytes per block checksum of a damaged group.
pub const BLOCK: usize = 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Number of the row group in the file, from 0.
    pub group: usize,
    pub rows: i64,
    /// Rows in the preceding groups.
    pub rows_before: i64,
    /// Position of the group's bytes; the following fields hold their end and CRC-32.
    pub from: u64,
    pub to: u64,
    pub crc32: u32,
    /// CRC-32 of each `BLOCK` bytes of the group, the last block shorter; it shows which pages are intact. Old files
    /// have none.
    #[serde(default)]
    pub blocks: Vec<u32>,
    /// Rows per page, the same in every column; the last page may have fewer.
    #[serde(default)]
    pub page_rows: usize,
    pub columns: Vec<ColumnNote>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnNote {
    pub name: String,
    pub kind: ColumnKind,
    pub nullable: bool,
    pub values: i64,
    /// True if all values are null, so that readers can pass over the column.
    #[serde(default)]
    pub all_null: bool,
    pub compressed_bytes: i64,
    pub uncompressed_bytes: i64,
    /// Position of its first page with values; the next field holds that of its dictionary, if it has one.
    pub at: i64,
    pub dictionary_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    Int,
    Real,
    Flag,
    Text,
}

impl Note {
    pub fn bytes(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).expect("a note is plain data");
        let mut out = MAGIC.to_vec();
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(&text);
        out.extend(crc32fast::hash(&text).to_le_bytes());
        out
    }

    /// Reads the note at `offset`, if there is an intact one.
    pub fn at(file: &File, offset: u64) -> Option<Note> {
        let mut head = [0; MAGIC.len() + 4];
        read_exact_at(file, &mut head, offset).ok()?;
        let (magic, len) = head.split_at(MAGIC.len());
        let len = u32::from_le_bytes(len.try_into().ok()?);
        if magic != MAGIC || len > MOST_BYTES {
            return None;
        }
        let mut text = vec![0; len as usize + 4];
        read_exact_at(file, &mut text, offset + head.len() as u64).ok()?;
        let (text, sum) = text.split_at(len as usize);
        (crc32fast::hash(text).to_le_bytes() == sum).then_some(())?;
        serde_json::from_slice(text).ok()
    }

    /// Finds all notes of a file, in the order of the groups.
    pub fn all(file: &File) -> io::Result<Vec<Note>> {
        let len = file.metadata()?.len();
        let mut notes: Vec<Note> = Vec::new();
        let mut piece = vec![0; PIECE + MAGIC.len() - 1];
        let mut begin = 0;
        while begin < len {
            let n = piece.len().min((len - begin) as usize);
            read_exact_at(file, &mut piece[..n], begin)?;
            let mut from = 0;
            while let Some(found) = piece[from..n].iter().position(|b| *b == MAGIC[0]) {
                let at = from + found;
                if piece[at..n].starts_with(&MAGIC) {
                    notes.extend(Note::at(file, begin + at as u64));
                }
                from = at + 1;
            }
            begin += PIECE as u64;
        }
        notes.sort_by_key(|n| n.group);
        notes.dedup_by_key(|n| n.group);
        Ok(notes)
    }

    /// True if the bytes of the group are those that were written.
    pub fn matches(&self, file: &File) -> bool {
        let mut sum = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = self.from;
        while at < self.to {
            let n = PIECE.min((self.to - at) as usize);
            if read_exact_at(file, &mut piece[..n], at).is_err() {
                return false;
            }
            sum.update(&piece[..n]);
            at += n as u64;
        }
        sum.finalize() == self.crc32
    }

    /// Returns the damaged ranges of the group, in ascending order; the whole group if the note has no block checksums.
    pub fn damage(&self, file: &File) -> Vec<Range<u64>> {
        let mut bad: Vec<Range<u64>> = Vec::new();
        let mut block = [0; BLOCK];
        let mut at = self.from;
        for sum in &self.blocks {
            let end = self.to.min(at + BLOCK as u64);
            let n = end.saturating_sub(at) as usize;
            let same = read_exact_at(file, &mut block[..n], at).is_ok()
                && crc32fast::hash(&block[..n]) == *sum;
            match bad.last_mut().filter(|b| b.end == at) {
                _ if same => {}
                Some(last) => last.end = end,
                None => bad.push(at..end),
            }
            at = end;
        }
        if at < self.to {
            bad.clear();
            bad.push(self.from..self.to);
        }
        bad
    }

    /// Returns the description of the group as in the end of the file.
    pub fn group(&self, schema: &SchemaDescPtr) -> Result<RowGroupMetaData, ParquetError> {
        let column = |(i, c): (usize, &ColumnNote)| {
            ColumnChunkMetaData::builder(schema.column(i))
                .set_num_values(c.values)
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_total_compressed_size(c.compressed_bytes)
                .set_total_uncompressed_size(c.uncompressed_bytes)
                .set_data_page_offset(c.at)
                .set_dictionary_page_offset(c.dictionary_at)
                .build()
        };
        let columns: Result<Vec<_>, _> = self.columns.iter().enumerate().map(column).collect();
        RowGroupMetaData::builder(schema.clone())
            .set_num_rows(self.rows)
            .set_total_byte_size(self.columns.iter().map(|c| c.uncompressed_bytes).sum())
            .set_column_metadata(columns?)
            .build()
    }
}
