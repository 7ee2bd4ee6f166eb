//! Timing and priority of the calling thread.

use crate::clock::{ns_of, timespec};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::io;

/// Random bytes from the kernel.
///
/// # Errors
/// The kernel has none, which does not happen on a running Linux.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    super::random::fill(&mut bytes)?;
    Ok(bytes)
}

/// Identifier of this boot of the kernel; empty if it cannot be read, which equals no other boot's.
pub fn boot_id() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Real-time priority of a thread that sends probes.
pub const PROBES: i32 = 50;

/// Requests exact wake-ups of the calling thread: a timer slack of 1 ns, and a real-time priority if allowed. Returns
/// true if the priority was allowed.
pub fn wake_exactly(priority: i32) -> bool {
    sleep_exactly();
    // SAFETY: the call takes plain numbers and one struct by address, and concerns this thread only.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        // By its number: musl's function of that name refuses always.
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const param,
        ) == 0
    }
}

/// Requests exact wake-ups of the calling thread at its usual priority.
pub fn sleep_exactly() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Sleeps until the monotonic clock shows `mono_ns`.
pub fn sleep_until(mono_ns: i64) {
    let until = timespec(mono_ns);
    // An interrupted sleep is a wake-up like any other: the caller looks at the clock.
    let _ = clock_nanosleep(
        ClockId::CLOCK_BOOTTIME,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &until,
    );
}

/// Processor time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |t| ns_of(t).unsigned_abs())
}

/// The calling thread gives way to all others.
pub fn be_nice() {
    // SAFETY: takes plain numbers; on Linux it concerns the calling thread only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
