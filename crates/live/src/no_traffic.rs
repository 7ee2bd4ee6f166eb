//! Counters of interfaces on systems other than Linux, where they are not read.

use crate::clock::Clock;
use base::record::Counter;
use std::io;

/// Reason why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    #[error("cannot use the interface {0} alone: that needs Linux. Leave --interface out")]
    NeedsLinux(String),
}

/// Reader of the counters: there is none.
pub enum Reader {}

impl Reader {
    /// # Errors
    /// Always.
    pub fn open(_: &str) -> io::Result<Reader> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn row(&mut self, _: Clock) -> Option<Counter> {
        match *self {}
    }
}
