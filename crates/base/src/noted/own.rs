//! Note on an experiment's own traffic, used if rows of the table `datagram` do not cover it.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Whole IP packets that a run sent over the link, both directions combined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTraffic {
    /// Number of IP packets, both directions combined.
    pub packets: u64,
    /// Bytes of IP packets, both directions combined.
    pub bytes: u64,
}

impl Noted for OwnTraffic {
    const KIND: &'static str = "own_traffic";
}
