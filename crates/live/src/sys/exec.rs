//! Work of a child between fork and exec: system calls only, no heap and no locks.

use super::check;
use super::keeper::{self, Plan};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the command run in a network namespace and die with the thread that starts it.
pub(crate) fn inside<N: AsFd + Send + Sync + 'static>(
    command: &mut Command,
    net: N,
) -> &mut Command {
    let enter = move || {
        setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
        set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and touches no lock and no heap.
    unsafe { command.pre_exec(enter) }
}

/// Lets the command get an interrupt, as by Ctrl-C, when the thread that starts it ends, however it ends.
pub fn interrupted_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the closure makes one system call and touches no lock and no heap.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGINT)?)) }
}

/// Lets the command run in a network namespace, in namespaces of its own for processes and mounts: see [`keeper`].
pub(crate) fn kept<N: AsFd + Send + Sync + 'static>(command: &mut Command, net: N, plan: Plan) {
    // SAFETY: between fork and exec `isolate` makes system calls only, on what `plan` has made ready.
    unsafe { command.pre_exec(move || keeper::isolate(&plan, net.as_fd())) };
}

/// Hands two descriptors to the command as its descriptors 3 and 4, and lets it die with the thread that starts it. Both
/// must stay open until the command is started.
pub(crate) fn with_pipes(command: &mut Command, third: RawFd, fourth: RawFd) {
    let move_in_place = move || {
        // Out of the way first: one of them may be 3 or 4 itself.
        // SAFETY: fcntl and dup2 take plain numbers and may be called between fork and exec.
        unsafe {
            let third = check(libc::fcntl(third, libc::F_DUPFD_CLOEXEC, 10))?;
            let fourth = check(libc::fcntl(fourth, libc::F_DUPFD_CLOEXEC, 10))?;
            check(libc::dup2(third, 3))?;
            check(libc::dup2(fourth, 4))?;
        }
        set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: the closure calls nothing that is not safe between fork and exec.
    unsafe { command.pre_exec(move_in_place) };
}
