//! Capture files on disk or from a pipe: plain, gzip or zstd.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// First bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Opens a capture; `-` is standard input.
///
/// # Errors
/// A file that cannot be opened, or whose first bytes cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut input: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path)?)
    };
    let mut head = Vec::new();
    input.by_ref().take(4).read_to_end(&mut head)?;
    let whole = io::Cursor::new(head.clone()).chain(input);
    Ok(if head.starts_with(&GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if head.starts_with(&ZSTD) {
        Box::new(zstd::stream::read::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}
