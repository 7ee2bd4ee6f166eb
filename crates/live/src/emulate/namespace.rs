//! Network namespace that only this process holds: a file descriptor without a name, so that it vanishes with the last
//! process in it, whatever becomes of us.

use super::EmulateError;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Command;
use std::sync::Arc;
use std::thread;

/// Path of the opening thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// Handle of a namespace; clones are the same namespace.
#[derive(Clone, Debug)]
pub struct NetNs {
    fd: Arc<OwnedFd>,
    name: &'static str,
}

impl NetNs {
    /// Creates a namespace. The calling thread stays in its own.
    pub(super) fn create(name: &'static str) -> Result<NetNs, EmulateError> {
        let fd = thread::scope(|s| {
            s.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).map_err(EmulateError::errno(format!(
                    "make the network namespace \"{name}\""
                )))?;
                own().map_err(EmulateError::kernel(format!(
                    "open the network namespace \"{name}\""
                )))
            })
            .join()
            .expect("making a namespace does not panic")
        })?;
        Ok(NetNs {
            fd: Arc::new(fd),
            name,
        })
    }

    /// Name: `near`, `far` or that of a router.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Moves the calling thread into the namespace for good: without root's rights it cannot return to the host's.
    /// Sockets belong to the namespace in which they were opened.
    ///
    /// # Errors
    /// If this thread lacks the rights; see [`super::prepare`].
    pub fn enter(&self) -> Result<(), EmulateError> {
        setns(&*self.fd, CloneFlags::CLONE_NEWNET).map_err(EmulateError::errno(format!(
            "enter the network namespace \"{}\"",
            self.name
        )))
    }

    /// Runs `f` inside, on a thread of its own, and waits for it. A panic of `f` continues in the caller.
    ///
    /// # Errors
    /// Errors of [`NetNs::enter`].
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, EmulateError> {
        let result = thread::scope(|s| s.spawn(|| self.enter().map(|()| f())).join());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Starts a thread that lives inside.
    ///
    /// # Errors
    /// Errors of [`NetNs::enter`], and failure to start a thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, EmulateError> {
        let start = move || thread::Builder::new().name(name.to_string()).spawn(f);
        // A new thread is where the thread is that starts it.
        self.run(start)?
            .map_err(EmulateError::kernel(format!("start the thread \"{name}\"")))
    }

    /// Lets `command` run inside, and die with the thread that starts it. It is for programs that are part of a
    /// measurement; [`super::run_command`] is for a user's.
    pub fn command<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        crate::sys::exec::inside(command, self.clone())
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn own() -> std::io::Result<OwnedFd> {
    File::open(OWN).map(OwnedFd::from)
}
