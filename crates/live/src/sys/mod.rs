//! All unsafe code of the workspace: system calls that no dependency wraps, as small safe functions.
//!
//! Every `unsafe` block has a comment with the reason why it is sound. Nothing here decides what is measured.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

#[cfg(target_os = "linux")]
pub(crate) mod clock;
#[cfg(target_os = "linux")]
pub(crate) mod exec;
#[cfg(target_os = "linux")]
pub(crate) mod guard;
#[cfg(target_os = "linux")]
pub(crate) mod interface;
#[cfg(target_os = "linux")]
pub(crate) mod keeper;
#[cfg(target_os = "linux")]
pub(crate) mod memory;
#[cfg(target_os = "linux")]
pub(crate) mod message;
#[cfg(target_os = "linux")]
pub(crate) mod option;
#[cfg(target_os = "linux")]
pub(crate) mod random;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/random.rs"]
pub(crate) mod random;
#[cfg(target_os = "linux")]
pub(crate) mod rights;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
#[cfg(target_os = "linux")]
pub mod signal;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/signal.rs"]
pub mod signal;
#[cfg(target_os = "linux")]
pub mod thread;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/thread.rs"]
pub mod thread;
#[cfg(target_os = "linux")]
pub(crate) mod words;

/// Turns the result of a system call into a `Result`.
#[cfg(target_os = "linux")]
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
