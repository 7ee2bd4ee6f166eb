//! Sizes of datagrams. Systems other than Linux send none at a rate.

use std::net::SocketAddr;

pub use measure::cadence::payload_for;

/// IP and UDP headers of a datagram.
pub fn headers(to: SocketAddr) -> u64 {
    match to.ip().to_canonical().is_ipv4() {
        true => 28,
        false => 48,
    }
}
