//! Errors that keep an emulation from starting, with their remedies.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    #[error("an emulation needs at least one link")]
    NoLink,
    /// Neither privileges nor user namespaces; `missing` names the setting that refuses, `remedy` the change.
    #[error("cannot make a network namespace without root: {missing}. {remedy}")]
    NotAllowed { missing: String, remedy: String },
    /// `prepare` came too late: the kernel lets only a process of one thread enter a user namespace.
    #[error(
        "cannot enter a user namespace: this process already runs {threads} threads and the kernel allows it only to one. \
         Call emulate::prepare() first thing in main, or run as root"
    )]
    TooLate { threads: usize },
    /// The kernel refused one step; `operation` names it and its object.
    #[error("cannot {operation}: {source}")]
    Kernel {
        operation: String,
        source: io::Error,
    },
    #[error("cannot run \"{program}\" behind the link: {source}")]
    Command { program: String, source: io::Error },
    #[error("nothing to run: give a command after \"--\"")]
    NoCommand,
    #[error(transparent)]
    Link(#[from] link::SpecError),
    #[error("the emulator's thread ended early: {reason}")]
    ThreadDied { reason: String },
}

impl EmulateError {
    pub(super) fn kernel(operation: impl Into<String>) -> impl FnOnce(io::Error) -> EmulateError {
        let operation = operation.into();
        move |source| EmulateError::Kernel { operation, source }
    }

    /// Maps errors of nix, which are bare numbers.
    pub(super) fn errno(
        operation: impl Into<String>,
    ) -> impl FnOnce(nix::errno::Errno) -> EmulateError {
        let operation = operation.into();
        move |e| EmulateError::Kernel {
            operation,
            source: e.into(),
        }
    }
}
