//! What any kind notes of its own traffic where rows of the table `datagram` do not tell it.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Whole IP packets that a run put on the line, both directions together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTraffic {
    pub packets: u64,
    pub bytes: u64,
}

impl Noted for OwnTraffic {
    const KIND: &'static str = "own_traffic";
}
