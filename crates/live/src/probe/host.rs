//! Services of the host for a timing thread.

use std::io;

/// Random bytes from the kernel.
///
/// # Errors The kernel has none, which does not happen on a running Linux.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    // SAFETY: the buffer is given with its length. Requests of up to 256 bytes are never cut short.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
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
    // SAFETY: both calls take plain numbers and one struct by address, and concern this thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
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
    // SAFETY: the call takes plain numbers, and concerns this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Sleeps until the monotonic clock shows `mono_ns`.
pub fn sleep_until(mono_ns: i64) {
    let until = libc::timespec {
        tv_sec: mono_ns / 1_000_000_000,
        tv_nsec: mono_ns % 1_000_000_000,
    };
    // An interrupted sleep is a wake-up like any other: the caller looks at the clock.
    // SAFETY: the time is given by address.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_BOOTTIME,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}

/// Processor time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |t| {
        t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs()
    })
}
