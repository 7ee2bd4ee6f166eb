//! Timing of the calling thread, as the standard library has it.

use crate::clock::mono_ns;
use std::io;
use std::time::Duration;

/// Random bytes from the operating system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    super::random::fill(&mut bytes)?;
    Ok(bytes)
}

/// Nothing, which equals no other boot's identifier.
pub fn boot_id() -> Vec<u8> {
    Vec::new()
}

/// Priority of a thread that sends probes.
pub const PROBES: i32 = 0;

/// Returns false: the priority stays as it is.
pub fn wake_exactly(_priority: i32) -> bool {
    false
}

/// Sleeps until the monotonic clock shows `until_ns`.
pub fn sleep_until(until_ns: i64) {
    let wait = (until_ns - mono_ns()).max(0).unsigned_abs();
    std::thread::sleep(Duration::from_nanos(wait));
}

/// Zero: the processor time of a thread is not read.
pub fn thread_cpu_ns() -> u64 {
    0
}
