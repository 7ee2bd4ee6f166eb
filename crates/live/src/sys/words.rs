//! Words of an eBPF array in memory shared with the kernel: read and written without system calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Mapping of an array of 64-bit words.
pub(crate) struct Words {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to this value alone until it is dropped, and atomics may be used from any thread.
unsafe impl Send for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: `base` and `count` are those of the mapping made in `Words::map`, and no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

impl Words {
    /// Maps the first `count` words of an array that was made to be mapped (`BPF_F_MMAPABLE`).
    pub fn map(map: BorrowedFd<'_>, count: usize) -> io::Result<Words> {
        // SAFETY: the kernel chooses the place of a new mapping, whose length is that of the words.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                count * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Words { base, count })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `count` words, begins at a page, lives as long as `self`, and is only used atomically.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }

    /// Copy of `N` words from `from` on.
    pub fn read<const N: usize>(&self, from: usize) -> [u64; N] {
        let words = &self.words()[from..from + N];
        std::array::from_fn(|i| words[i].load(Ordering::Acquire))
    }

    /// Stores words from `from` on, in order.
    pub fn write(&self, from: usize, values: &[u64]) {
        for (word, value) in self.words()[from..][..values.len()].iter().zip(values) {
            word.store(*value, Ordering::Release);
        }
    }
}
