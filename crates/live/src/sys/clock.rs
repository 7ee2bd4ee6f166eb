//! State of the kernel's wall clock (adjtimex(2)).

/// Greatest error of the wall clock, ns; `None` if nothing steers it, or the process may not ask.
pub(crate) fn greatest_error_ns() -> Option<u64> {
    // SAFETY: all zeros is a valid timex, and asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    let steered = answer >= 0 && answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    let us = u64::try_from(state.maxerror).ok()?;
    steered.then(|| us.saturating_mul(1000))
}
