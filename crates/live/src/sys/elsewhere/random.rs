//! Random bytes of the operating system.

use rand::TryRng;
use std::io;

pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    rand::rngs::SysRng
        .try_fill_bytes(bytes)
        .map_err(io::Error::other)
}
