//! Socket options and socket queries that neither nix nor socket2 has.

use super::check;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

/// Sets an option. The value must hold no pointers.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn set(fd: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the value, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    check(done).map(drop)
}

/// Sets an option whose value is an integer.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn set_int(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(fd, level, name, &value.to_ne_bytes())
}

/// Reads an option into a buffer; gives the length of the value.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn get(fd: RawFd, level: i32, name: i32, buf: &mut [u8]) -> io::Result<usize> {
    let mut len = buf.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `buf`, which has that many, and sets `len` to their number.
    let done = unsafe { libc::getsockopt(fd, level, name, buf.as_mut_ptr().cast(), &raw mut len) };
    check(done)?;
    Ok((len as usize).min(buf.len()))
}

/// Reads an option whose value is an integer.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn get_int(fd: RawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = [0; 4];
    get(fd, level, name, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

/// Limits how long a blocking receive waits.
///
/// # Errors
/// The kernel refuses it.
pub fn set_receive_timeout(fd: RawFd, wait: base::Duration) -> io::Result<()> {
    let micros = (wait.as_nanos() / 1_000).max(1);
    let time = libc::timeval {
        tv_sec: (micros / 1_000_000) as _,
        tv_usec: (micros % 1_000_000) as _,
    };
    // SAFETY: the option takes a timeval, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    check(done).map(drop)
}

/// Statement of a packet filter, linux/filter.h.
pub(crate) fn statement(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Attaches a packet filter by `SO_ATTACH_FILTER` or `SO_ATTACH_REUSEPORT_CBPF`.
///
/// # Errors
/// The kernel refuses the filter or does not know the option.
pub(crate) fn attach_filter(
    fd: RawFd,
    option: i32,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the option takes a sock_fprog, whose address and size are given; the statements that it points to outlive
    // the call, which copies them.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    check(done).map(drop)
}

/// Bytes of a connection that the far end has not acknowledged; zero if the kernel does not say.
pub(crate) fn unacknowledged(stream: &TcpStream) -> i32 {
    let mut bytes = 0i32;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ by another name, writes an int to the address given.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn an_option_is_read_as_it_was_set_and_a_short_buffer_is_not_overrun() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let fd = socket.as_raw_fd();
        for ttl in [1, 64, 255] {
            set_int(fd, libc::SOL_IP, libc::IP_TTL, ttl).unwrap();
            assert_eq!(get_int(fd, libc::SOL_IP, libc::IP_TTL).unwrap(), ttl);
        }
        assert!(set_int(fd, libc::SOL_IP, libc::IP_TTL, 300).is_err());
        let mut buf = [0xaa; 8];
        let len = get(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &mut buf[..2]);
        assert!(len.is_err() || len.is_ok_and(|n| n <= 2));
        assert_eq!(buf[2..], [0xaa; 6]);
    }

    #[test]
    fn a_receive_ends_after_its_timeout() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        set_receive_timeout(socket.as_raw_fd(), base::Duration::from_millis(20)).unwrap();
        let wait = socket.read_timeout().unwrap().unwrap();
        assert!((20..=30).contains(&wait.as_millis()), "{wait:?}");
    }
}
