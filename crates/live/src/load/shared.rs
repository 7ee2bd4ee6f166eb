//! Parts of a load that every system has alike.

use socket2::SockRef;
use std::net::TcpStream;

/// Makes the coming close a reset: the socket drops its data instead of draining for a minute through a queue that is
/// seconds long.
pub fn close_abruptly(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
}

/// Random bytes of the operating system.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut out = [0u8; N];
    if let Err(e) = crate::sys::random::fill(&mut out) {
        panic!("the system has no randomness: {e}");
    }
    out
}
