//! Requests of ethtool to a network interface (linux/ethtool.h).

use super::check;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Smallest buffer that is handed to the kernel, words: the names of 2,000 features, of which there are about 64.
const ROOM: usize = 1 << 14;

/// Makes a request to the interface of that name in the calling thread's namespace. The kernel reads and writes `words`,
/// a command of linux/ethtool.h with what follows it.
///
/// # Errors
/// There is no such interface, or its driver rejects the request.
pub(crate) fn ethtool(interface: &str, words: &mut [u32]) -> io::Result<()> {
    // Any socket will do to ask about an interface.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: `ifreq` is plain data, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // The kernel writes as much as the request's own header asks for, and as many names as the driver has.
    let mut room = words.to_vec();
    room.resize(words.len().max(ROOM), 0);
    request.ifr_ifru.ifru_data = room.as_mut_ptr().cast();
    // SAFETY: the request is filled in as netdevice(7) asks; `room` outlives the call and is larger than anything that
    // the commands used here write.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    check(done)?;
    words.copy_from_slice(&room[..words.len()]);
    Ok(())
}
