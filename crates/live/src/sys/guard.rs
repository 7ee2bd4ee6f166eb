//! Process that restores what this one changed in the kernel, when this one ends, however it ends, or falls silent.
//!
//! It has everything ready before the first change: the messages, and the socket that takes them. It runs between fork
//! and exit: system calls only, no heap, no locks.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Silence after which the guard restores, ms. Signs of life come each second.
const SILENCE_MS: libc::c_int = 4000;
/// Signs to the guard.
const ALIVE: u8 = b'.';
const DISMISSED: u8 = b'x';

/// Hold on the guard; dropping it makes the guard restore, and waits until it has.
pub(crate) struct Guard {
    /// None once the guard was told to end.
    signs: Option<UnixStream>,
    child: libc::pid_t,
}

impl Guard {
    /// Starts a process that sends `messages` to `socket` when this process ends or is silent for four seconds.
    ///
    /// # Errors
    /// The kernel refuses a socket or a process.
    pub(crate) fn start(socket: &OwnedFd, messages: &[Vec<u8>]) -> io::Result<Guard> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child calls `watch` alone, which neither allocates nor returns.
        let child = check(unsafe { libc::fork() })?;
        if child == 0 {
            watch(theirs.as_raw_fd(), socket.as_raw_fd(), messages);
        }
        Ok(Guard {
            signs: Some(ours),
            child,
        })
    }

    /// Tells the guard that this process works.
    ///
    /// # Errors
    /// The guard is gone: it has restored after a silence, or was killed.
    pub(crate) fn live(&self) -> io::Result<()> {
        self.sign(ALIVE)
    }

    /// Ends the guard, which leaves everything as it is.
    pub(crate) fn dismiss(&mut self) {
        // A guard that is gone needs no dismissal.
        let _ = self.sign(DISMISSED);
    }

    fn sign(&self, sign: u8) -> io::Result<()> {
        let Some(signs) = &self.signs else {
            return Ok(());
        };
        // SAFETY: one byte that lives across the call.
        let sent = unsafe {
            libc::send(
                signs.as_raw_fd(),
                (&raw const sign).cast(),
                1,
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        check(sent as libc::c_int).map(drop)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.signs = None;
        // SAFETY: waits for a child of this process; no status is asked for.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// Life of the guard.
fn watch(signs: RawFd, socket: RawFd, messages: &[Vec<u8>]) -> ! {
    // SAFETY: system calls on descriptors of this process and on values that live across them. Descriptors of the parent
    // are closed, so that nothing but the parent's life holds its end of the pair open.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"tailback-guard".as_ptr());
        let plain: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const plain);
        let (low, high) = (signs.min(socket) as u32, signs.max(socket) as u32);
        close(0, low);
        close(low + 1, high);
        close(high + 1, u32::MAX);
        loop {
            let mut fd = libc::pollfd {
                fd: signs,
                events: libc::POLLIN,
                revents: 0,
            };
            let ready = libc::poll(&raw mut fd, 1, SILENCE_MS);
            let mut sign = 0u8;
            let read = match ready {
                1 => libc::read(signs, (&raw mut sign).cast(), 1),
                _ => 0,
            };
            match (read, sign) {
                (1, DISMISSED) => libc::_exit(0),
                (1, _) => {}
                _ => break,
            }
        }
        for message in messages {
            libc::send(socket, message.as_ptr().cast(), message.len(), 0);
        }
        libc::_exit(0)
    }
}

/// Closes the descriptors from `from` to the one before `to`.
fn close(from: u32, to: u32) {
    if from < to {
        // SAFETY: closes descriptors that the guard does not use.
        unsafe { libc::syscall(libc::SYS_close_range, from, to - 1, 0) };
    }
}
