//! All unsafe code of the workspace: system calls that no dependency wraps, as small safe functions.
//!
//! Every `unsafe` block has a comment with the reason why it is sound. Nothing here decides what is measured.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

pub(crate) mod clock;
pub(crate) mod exec;
pub(crate) mod guard;
pub(crate) mod interface;
pub(crate) mod keeper;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod option;
pub(crate) mod random;
pub(crate) mod rights;
pub(crate) mod ring;
pub mod signal;
pub mod thread;
pub(crate) mod words;

/// Turns the result of a system call into a `Result`.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
