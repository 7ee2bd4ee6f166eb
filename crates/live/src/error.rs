//! Reason why a run over sockets ended early.

use crate::load::LoadError;
use crate::probe::ProbeError;
use crate::traffic::TrafficError;
#[cfg(target_os = "linux")]
use crate::via::ViaError;
use base::Duration;
use experiment::{Failure, Stopped};
use std::io;
use std::net::SocketAddr;

/// Reason why an experiment over sockets ended early. Rows up to then are in the recording.
#[derive(Debug, thiserror::Error)]
pub enum CraftError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Via(#[from] ViaError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error(
        "{server} let us in over TCP, and no datagram reached it on UDP port {} within {waited}: a firewall on the way blocks it", .server.port()
    )]
    NoUdp {
        server: SocketAddr,
        waited: Duration,
    },
    #[error("{server} allows {granted} at once, and the next program takes {needed}")]
    TooLong {
        server: SocketAddr,
        granted: Duration,
        needed: Duration,
    },
    #[error("{server} said something else than what was asked for")]
    Unexpected { server: SocketAddr },
    #[error(
        "the time stamps of {server} span {spanned}, and its whole train took {took}: its clock is wrong, or it does not tell the truth. Try another server"
    )]
    Untrue {
        server: SocketAddr,
        spanned: Duration,
        took: Duration,
    },
    #[error("cannot {what}: {source}")]
    Socket {
        what: &'static str,
        source: io::Error,
    },
}

impl Failure for CraftError {
    fn interrupted(&self) -> bool {
        matches!(self, CraftError::Stopped(Stopped::Interrupted))
    }
}

impl CraftError {
    /// Maps an error of a socket; `what` is the operation that failed.
    pub fn socket(what: &'static str) -> impl Fn(io::Error) -> CraftError {
        move |source| CraftError::Socket { what, source }
    }
}
