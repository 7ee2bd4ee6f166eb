//! Plain UDP sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Opens a socket that talks to one address only.
///
/// # Errors
/// The kernel gives none, or no route leads there.
pub(crate) fn socket_to(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any(at))?;
    socket.connect(at)?;
    Ok(socket)
}

/// Unspecified address of the same version of IP.
pub(crate) fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() {
        ([0u8; 4], 0).into()
    } else {
        ([0u16; 8], 0).into()
    }
}
