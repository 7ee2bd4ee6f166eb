//! Signals. The first Ctrl-C asks the run to end and keep its rows; another one a second later ends the process.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Time of the first interrupt, monotonic ms; 0 before it.
static INTERRUPTED: AtomicI64 = AtomicI64::new(0);

/// Time after the first interrupt in which others belong to it, ms: `timeout` sends its signal to the process and to its
/// group, which the process gets twice.
const SAME_MS: i64 = 1_000;

extern "C" fn note(signal: i32) {
    // clock_gettime(2) may be called in a signal handler.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let ms = now.map_or(1, |now| now.num_milliseconds().max(1));
    // SAFETY: signal and raise may be called in a signal handler.
    unsafe {
        let first = INTERRUPTED.compare_exchange(0, ms, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|first| ms - first > SAME_MS) {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

fn interrupts() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Holds SIGINT and SIGTERM back, so that none is lost while this process becomes another program: that one has them as soon as
/// it catches interrupts, or [`release_interrupts`] is called.
pub fn hold_interrupts() {
    interrupts().thread_block().expect("signals can be blocked");
}

/// Lets SIGINT and SIGTERM through again.
pub fn release_interrupts() {
    interrupts()
        .thread_unblock()
        .expect("signals can be unblocked");
}

/// Makes SIGINT and SIGTERM set a flag; one that comes more than a second later has its usual effect.
pub fn catch_interrupt() {
    let action = SigAction::new(
        SigHandler::Handler(note),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler calls nothing that a signal handler must not call.
        unsafe { sigaction(signal, &action) }.expect("SIGINT and SIGTERM can be caught");
    }
    // The program before this one in the same process may hold them back.
    release_interrupts();
}

/// Asks the run to end, as the first Ctrl-C does. A terminal in raw mode sends keys instead of signals.
pub fn interrupt() {
    note(Signal::SIGINT as i32);
}

pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed) != 0
}

static HUNG_UP: AtomicBool = AtomicBool::new(false);

extern "C" fn note_hangup(_: i32) {
    HUNG_UP.store(true, Ordering::Relaxed);
}

/// Makes SIGHUP set a flag, which [`hung_up`] takes.
pub fn catch_hangup() {
    let action = SigAction::new(
        SigHandler::Handler(note_hangup),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    // SAFETY: the handler does nothing but store to an atomic, which is safe in a signal handler.
    unsafe { sigaction(Signal::SIGHUP, &action) }.expect("SIGHUP can be caught");
}

/// True if SIGHUP has come since the last call.
pub fn hung_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Lets the program survive the end of its terminal.
pub fn ignore_hangup() {
    let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler of ours runs.
    unsafe { sigaction(Signal::SIGHUP, &action) }.expect("SIGHUP can be ignored");
}

/// Waits for one of these blocked signals, at most this long: the signal, and true if the kernel itself sent it, as it does
/// for Ctrl-C at the terminal.
pub(crate) fn wait(signals: &SigSet, most: std::time::Duration) -> Option<(Signal, bool)> {
    let timeout = nix::sys::time::TimeSpec::from_duration(most);
    // SAFETY: zeroes are a value of this type, and all three live across the call.
    let (signal, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (
            libc::sigtimedwait(signals.as_ref(), &raw mut info, timeout.as_ref()),
            info,
        )
    };
    let signal = Signal::try_from(signal).ok()?;
    Some((signal, info.si_code == libc::SI_KERNEL))
}
