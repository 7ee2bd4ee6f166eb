//! Owner of a recording that is being written.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Process that writes to a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub pid: u32,
    pub host: String,
    /// Time at which it took the lock, UTC, RFC 3339.
    pub since: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => f.write_str("another process"),
            pid => write!(f, "process {pid} on {} since {}", self.host, self.since),
        }
    }
}
