//! Open form of a table's file: an Arrow IPC stream that ends behind the last complete batch.
//!
//! A flipped bit would give a wrong figure, and the format has no checksum. The metadata of each frame is therefore
//! eight bytes longer than needed. They hold [`SEAL`] and a CRC-32 over the frame; other readers take them for padding.

use crate::batch::Rows;
use crate::disk;
use arrow_array::RecordBatch;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

/// Encoder of batches; the schema precedes the first. No end marker is written, so the file can be appended to at any
/// time; the format permits its absence.
pub struct Encoder(StreamEncoder);

impl Encoder {
    pub fn new(rows: &Rows) -> Result<Encoder, ArrowError> {
        // Buffers are aligned to 8 bytes, not 64: a batch of one row per second takes 1 kB instead of 3 kB.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        Ok(Encoder(StreamEncoder::try_new_with_options(
            rows.schema(),
            options,
        )?))
    }

    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut frames = Vec::new();
        for buffer in self.0.encode(batch)? {
            frames.extend_from_slice(buffer.as_slice());
        }
        let mut rest = &frames[..];
        while let Some(metadata) = metadata_of(rest) {
            let body = root_as_message(metadata).map_or(0, |m| m.bodyLength() as usize);
            let (frame, next) = rest.split_at(8 + metadata.len() + body);
            out.extend_from_slice(&u32::MAX.to_le_bytes());
            out.extend_from_slice(&(metadata.len() as u32 + SEAL_BYTES).to_le_bytes());
            out.extend_from_slice(metadata);
            out.extend_from_slice(&SEAL);
            out.extend_from_slice(&checksum(metadata, &frame[8 + metadata.len()..]));
            out.extend_from_slice(&frame[8 + metadata.len()..]);
            rest = next;
        }
        Ok(())
    }
}

/// Marker in front of a checksum.
const SEAL: [u8; 4] = *b"crc\x20";
const SEAL_BYTES: u32 = 8;

fn checksum(metadata: &[u8], body: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(metadata);
    sum.update(body);
    sum.finalize().to_le_bytes()
}

/// Returns the metadata of the frame that starts here.
fn metadata_of(frame: &[u8]) -> Option<&[u8]> {
    let (head, rest) = frame.split_at_checked(8)?;
    let len = u32::from_le_bytes(head[4..].try_into().ok()?);
    rest.get(..len as usize)
}

/// End of reading a stream.
#[derive(Debug, PartialEq)]
pub struct Tail {
    /// Bytes after the last complete batch; zero if the file ends with one.
    pub bytes: u64,
    /// Defect found there; empty if the file ends with a complete batch.
    pub why: String,
}

/// Passes each complete batch to `each`, which may refuse it with a reason. Reading ends at the first batch that is
/// incomplete, damaged or refused.
///
/// # Errors
/// The errors of the operating system; damage is in the `Tail`.
pub fn read(
    path: &Path,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> io::Result<Tail> {
    read_from(path, 0, each).map(|(_, tail)| tail)
}

/// Passes the batches after the first `from` bytes, as an earlier call returned them; 0 for all. Returns the end of the last
/// complete batch.
///
/// # Errors
/// The errors of the operating system.
pub fn read_on(
    path: &Path,
    from: u64,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> io::Result<u64> {
    read_from(path, from, each).map(|(end, _)| end)
}

fn read_from(
    path: &Path,
    from: u64,
    each: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> io::Result<(u64, Tail)> {
    let file = disk::open_read(path)?;
    let len = file.metadata()?.len();
    let progress = Rc::new(RefCell::new(Progress::default()));
    let frames = WholeFrames {
        file: BufReader::new(file),
        left: len,
        goes_on_at: (0 < from && from <= len).then_some((from, len)),
        frame: Vec::new(),
        at: 0,
        columns: Vec::new(),
        sealed: false,
        progress: progress.clone(),
    };
    // End of the accepted batches; everything after them is the tail.
    let mut taken = 0;
    let mut fault = None;
    match StreamReader::try_new(frames, None) {
        Ok(reader) => {
            taken = progress.borrow().whole.max(from.min(len));
            for batch in reader {
                if let Err(why) = batch.map_err(|e| e.to_string()).and_then(&mut *each) {
                    fault = Some(why);
                    break;
                }
                taken = progress.borrow().whole;
            }
        }
        Err(e) => fault = Some(e.to_string()),
    }
    let mut progress = progress.borrow_mut();
    if let Some(e) = progress.os_error.take() {
        return Err(e);
    }
    let why = progress
        .torn
        .take()
        .or(fault)
        .unwrap_or_else(|| "it goes on after its end marker".into());
    let tail = Tail {
        bytes: len - taken,
        why: match len {
            0 => "it is empty; what rows it had are lost".into(),
            _ if len == taken => String::new(),
            _ => why,
        },
    };
    Ok((taken, tail))
}

#[derive(Default)]
struct Progress {
    /// End of the last frame that was passed on complete.
    whole: u64,
    torn: Option<String>,
    os_error: Option<io::Error>,
}

/// Reader that passes a stream on frame by frame and ends before the first incomplete frame. Lengths are checked
/// against the file's before anything is allocated.
struct WholeFrames {
    file: BufReader<File>,
    left: u64,
    /// Place of the file at which reading goes on after the schema, and the file's length.
    goes_on_at: Option<(u64, u64)>,
    frame: Vec<u8>,
    at: usize,
    /// Types of the columns, once the schema has passed.
    columns: Vec<DataType>,
    /// True once a frame had a checksum: then all must have one.
    sealed: bool,
    progress: Rc<RefCell<Progress>>,
}

impl WholeFrames {
    /// Reads the next frame into `frame`; false at the end of the data, clean or not.
    fn next(&mut self) -> io::Result<bool> {
        self.frame.clear();
        self.at = 0;
        if !self.columns.is_empty()
            && let Some((from, len)) = self.goes_on_at.take()
        {
            self.file.seek(SeekFrom::Start(from))?;
            self.left = len - from;
            self.progress.borrow_mut().whole = from;
        }
        if self.left == 0 {
            return Ok(false);
        }
        // Arrow columnar format, "Encapsulated message format": 0xFFFFFFFF, i32 length of the metadata, metadata, body.
        if !self.take(8)? {
            return Ok(false);
        }
        let [marker, len] =
            [0, 4].map(|i| u32::from_le_bytes([0, 1, 2, 3].map(|k: usize| self.frame[i + k])));
        if marker != u32::MAX {
            return self.torn("no frame begins where one should");
        }
        if len == 0 || !self.take(u64::from(len))? {
            return if len == 0 { Ok(true) } else { Ok(false) };
        }
        let Some(body) = body_len(&self.frame[8..], &mut self.columns) else {
            return self.torn("a frame's head does not make sense");
        };
        Ok(self.take(body)? && self.is_as_written(8 + len as usize)?)
    }

    /// True if the frame is intact; its body starts at `body`.
    fn is_as_written(&mut self, body: usize) -> io::Result<bool> {
        let (head, body) = self.frame.split_at(body);
        let seal = head[8..].split_last_chunk::<8>();
        let Some((metadata, seal)) = seal.filter(|(_, seal)| seal[..4] == SEAL) else {
            // Files from before checksums existed.
            return if self.sealed {
                self.torn("a batch has lost its checksum")
            } else {
                Ok(true)
            };
        };
        self.sealed = true;
        if seal[4..] == checksum(metadata, body) {
            Ok(true)
        } else {
            self.torn("a batch is not what was written")
        }
    }

    /// Appends `n` bytes to the frame if the file still has them.
    fn take(&mut self, n: u64) -> io::Result<bool> {
        if n > self.left {
            return self.torn("the last batch is cut short");
        }
        let from = self.frame.len();
        self.frame.resize(from + n as usize, 0);
        self.file.read_exact(&mut self.frame[from..])?;
        self.left -= n;
        Ok(true)
    }

    fn torn(&mut self, why: &str) -> io::Result<bool> {
        self.progress.borrow_mut().torn = Some(why.to_owned());
        self.left = 0;
        self.frame.clear();
        Ok(false)
    }
}

/// Returns the length of the body that a frame's metadata announces. `None` if the metadata is damaged. arrow-ipc 60
/// verifies that it can be parsed, but panics if its numbers do not fit the schema, so those are verified here.
fn body_len(metadata: &[u8], columns: &mut Vec<DataType>) -> Option<u64> {
    let message = root_as_message(metadata).ok()?;
    let body = u64::try_from(message.bodyLength()).ok()?;
    if let Some(schema) = message.header_as_schema() {
        let schema = try_fb_to_schema(schema).ok()?;
        *columns = schema
            .fields()
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
    } else if let Some(batch) = message.header_as_record_batch() {
        let rows = u64::try_from(batch.length()).ok()?;
        let nodes = batch.nodes()?;
        let mut buffers = batch.buffers()?.iter();
        // True if the next buffer lies inside the body and holds at least `n` whole items of `size` bytes.
        let mut holds = |n: u64, size: u64| {
            let buffer = buffers.next()?;
            let (at, len) = (
                u64::try_from(buffer.offset()).ok()?,
                u64::try_from(buffer.length()).ok()?,
            );
            let fits =
                at.checked_add(len)? <= body && len % size == 0 && len >= n.checked_mul(size)?;
            fits.then_some(())
        };
        if batch.compression().is_some() || nodes.len() != columns.len() {
            return None;
        }
        for (node, column) in nodes.iter().zip(&*columns) {
            if u64::try_from(node.length()).ok()? != rows || node.null_count() < 0 {
                return None;
            }
            holds(
                if node.null_count() > 0 {
                    rows.div_ceil(8)
                } else {
                    0
                },
                1,
            )?;
            match column {
                DataType::Int64 | DataType::Float64 => holds(rows, 8)?,
                DataType::Boolean => holds(rows.div_ceil(8), 1)?,
                DataType::Utf8 => {
                    holds(rows.checked_add(1)?, 4)?;
                    holds(0, 1)?;
                }
                _ => return None,
            }
        }
    } else {
        return None;
    }
    Some(body)
}

impl Read for WholeFrames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.frame.len() {
            match self.next() {
                Ok(false) => return Ok(0),
                Ok(true) => self.progress.borrow_mut().whole += self.frame.len() as u64,
                // Kept separately: inside the reader it would look like damage of the file.
                Err(e) => {
                    self.left = 0;
                    self.frame.clear();
                    self.progress.borrow_mut().os_error = Some(e);
                    return Ok(0);
                }
            }
        }
        let n = out.len().min(self.frame.len() - self.at);
        out[..n].copy_from_slice(&self.frame[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
