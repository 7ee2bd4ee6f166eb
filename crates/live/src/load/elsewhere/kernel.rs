//! State of a connection on systems other than Linux: they tell little.

pub use super::shared::{close_abruptly, random_bytes};
use measure::control::{Limits, SenderState};
use socket2::SockRef;
use std::io;
use std::net::TcpStream;

/// State of a connection: nothing is known.
pub struct TcpInfo;

impl TcpInfo {
    /// # Errors
    /// None.
    pub fn read(_: &TcpStream) -> io::Result<TcpInfo> {
        Ok(TcpInfo)
    }

    pub fn bytes_acked(&self) -> Option<u64> {
        None
    }

    pub fn header_bytes(&self) -> u64 {
        20
    }

    pub fn passed(&self) -> (u64, u64) {
        (0, 0)
    }

    pub fn sender(&self) -> SenderState {
        SenderState::default()
    }

    pub fn limits(&self) -> Limits {
        Limits::default()
    }
}

pub fn lift_send_buffer<S>(_: &S) {}

/// Congestion controls that a program may choose: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionControls {
    pub available: Vec<String>,
    pub allowed: Vec<String>,
}

impl CongestionControls {
    pub fn read() -> CongestionControls {
        CongestionControls::default()
    }
}

/// Error: this system lets nobody choose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("congestion control \"{name}\" cannot be chosen here: that needs Linux")]
pub struct NoSuchCongestionControl {
    pub name: String,
}

/// # Errors
/// A name was given.
pub fn choose_congestion(
    _: SockRef<'_>,
    name: Option<&str>,
) -> Result<(), NoSuchCongestionControl> {
    name.map_or(Ok(()), |name| {
        Err(NoSuchCongestionControl { name: name.into() })
    })
}

/// Nothing: the system does not tell it.
pub fn congestion_of(_: &TcpStream) -> String {
    String::new()
}
