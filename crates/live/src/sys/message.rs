//! Datagrams and frames with what the kernel knows of them: `recvmmsg`, `sendmsg` and `sendmmsg` of Linux.

use super::check;
use crate::clock::ns_of;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;

/// Largest datagram that is taken whole.
pub const DATAGRAM: usize = 1536;
const CONTROL: usize = 256;

/// `SO_EE_ORIGIN_*` of linux/errqueue.h: who put a message into the error queue.
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
const ORIGIN_TIMESTAMPING: u8 = 4;

/// asm-generic/socket.h.
pub(crate) const SO_RXQ_OVFL: i32 = 40;

/// An ICMP error about a datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetError {
    pub errno: i32,
    pub icmp_type: u8,
    pub icmp_code: u8,
    /// Who complains.
    pub offender: Option<IpAddr>,
}

/// Message of a socket's receive queue or error queue, without its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    pub len: usize,
    pub from: Option<SocketAddr>,
    pub local: Option<IpAddr>,
    /// Kernel time, wall clock, UNIX ns.
    pub wall_ns: Option<i64>,
    pub tos: Option<u8>,
    /// TTL or hop limit; see [`crate::timestamp::enable_ttl`].
    pub ttl: Option<u8>,
    /// Number of the datagram whose transmit time this is.
    pub tx_id: Option<u32>,
    pub error: Option<NetError>,
    /// Datagrams that this socket has had no room for so far; see [`crate::timestamp::enable_overflow_count`].
    pub overflowed: Option<u32>,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Most datagrams of one call, and those of a reader that waits for few.
const MOST: usize = 64;
const FEW: usize = 8;

/// Buffers for up to a fixed number of datagrams, filled by one system call.
pub struct Batch {
    data: Vec<[u8; DATAGRAM]>,
    control: Vec<Control>,
    names: Vec<libc::sockaddr_storage>,
    parsed: Vec<Received>,
    size: usize,
}

impl Batch {
    pub fn new(size: usize) -> Batch {
        let size = size.min(MOST);
        // SAFETY: an address of all zeros is of no family, and valid as plain memory.
        let name: libc::sockaddr_storage = unsafe { zeroed() };
        Batch {
            data: vec![[0; DATAGRAM]; size],
            control: vec![Control([0; CONTROL]); size],
            names: vec![name; size],
            parsed: Vec::with_capacity(size),
            size,
        }
    }

    /// Most messages of one call.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Receives what is there: `flags` as for recvmmsg(2). Gives the number of messages.
    ///
    /// # Errors
    /// The system call's; `WouldBlock` where there is nothing.
    pub fn receive(&mut self, fd: RawFd, flags: i32) -> io::Result<usize> {
        // A reader of few datagrams prepares few headers.
        match self.size {
            ..=FEW => self.receive_with::<FEW>(fd, flags),
            _ => self.receive_with::<MOST>(fd, flags),
        }
    }

    fn receive_with<const N: usize>(&mut self, fd: RawFd, flags: i32) -> io::Result<usize> {
        self.parsed.clear();
        let mut iov: [libc::iovec; N] = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; N];
        // SAFETY: all zeros is a valid mmsghdr: no name, no buffers.
        let mut headers: [libc::mmsghdr; N] = unsafe { zeroed() };
        let n = self.size.min(N);
        for i in 0..n {
            iov[i] = libc::iovec {
                iov_base: self.data[i].as_mut_ptr().cast(),
                iov_len: DATAGRAM,
            };
            let h = &mut headers[i].msg_hdr;
            h.msg_iov = &raw mut iov[i];
            h.msg_iovlen = 1;
            h.msg_name = (&raw mut self.names[i]).cast();
            h.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            h.msg_control = self.control[i].0.as_mut_ptr().cast();
            h.msg_controllen = CONTROL as _;
        }
        // SAFETY: n headers point to buffers that live in `self` and in this frame, with their lengths.
        let got = unsafe {
            libc::recvmmsg(
                fd,
                headers.as_mut_ptr(),
                n as u32,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        check(got)?;
        let got = got as usize;
        for (header, name) in headers[..got].iter().zip(&self.names) {
            // SAFETY: the kernel filled this header and its control buffer.
            let mut received = unsafe { parse_control(&header.msg_hdr) };
            received.len = header.msg_len as usize;
            received.from = if header.msg_hdr.msg_namelen > 0 {
                to_socket_addr(name)
            } else {
                None
            };
            self.parsed.push(received);
        }
        Ok(got)
    }

    /// The messages of the last [`Batch::receive`].
    pub fn messages(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        self.parsed
            .iter()
            .zip(&self.data)
            .map(|(r, data)| (r, &data[..r.len.min(DATAGRAM)]))
    }
}

/// Receives one datagram of any length into `buf`.
///
/// # Errors
/// The system call's; `WouldBlock` where there is nothing in time.
pub fn receive(fd: RawFd, buf: &mut [u8]) -> io::Result<Received> {
    let mut iov = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zeros is a valid msghdr, and an address of no family.
    let (mut header, mut name): (libc::msghdr, libc::sockaddr_storage) =
        unsafe { (zeroed(), zeroed()) };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the header points to buffers of this frame and of the caller, with their lengths.
    let got = unsafe { libc::recvmsg(fd, &raw mut header, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled the header and its control buffer.
    let mut received = unsafe { parse_control(&header) };
    received.len = got as usize;
    received.from = match header.msg_namelen {
        0 => None,
        _ => to_socket_addr(&name),
    };
    Ok(received)
}

/// # Safety
/// `header` must be as `recvmsg` left it, its control buffer alive.
unsafe fn parse_control(header: &libc::msghdr) -> Received {
    let mut r = Received::default();
    // SAFETY: the CMSG macros walk within the buffer that `header` names; each payload is read at its own
    // type, unaligned, after the kernel wrote it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(cmsg) = next.as_ref() {
            let data = libc::CMSG_DATA(next);
            match (cmsg.cmsg_level, cmsg.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    // Three times: software, unused, hardware.
                    let t = data.cast::<libc::timespec>().read_unaligned();
                    if t.tv_sec != 0 {
                        r.wall_ns = Some(ns_of(t.into()));
                    }
                }
                (libc::SOL_SOCKET, SO_RXQ_OVFL) => {
                    r.overflowed = Some(data.cast::<u32>().read_unaligned());
                }
                (libc::SOL_IP, libc::IP_TOS) => r.tos = Some(*data),
                (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                    r.ttl = Some(data.cast::<i32>().read_unaligned() as u8)
                }
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    r.tos = Some(data.cast::<i32>().read_unaligned() as u8)
                }
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    r.local =
                        Some(Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr)).into());
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    r.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    let e = data.cast::<libc::sock_extended_err>().read_unaligned();
                    match e.ee_origin {
                        ORIGIN_TIMESTAMPING => r.tx_id = Some(e.ee_data),
                        ORIGIN_ICMP | ORIGIN_ICMP6 => {
                            r.error = Some(NetError {
                                errno: e.ee_errno as i32,
                                icmp_type: e.ee_type,
                                icmp_code: e.ee_code,
                                offender: offender(cmsg, data),
                            });
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    r
}

/// The address that follows an extended error, SO_EE_OFFENDER of linux/errqueue.h.
///
/// # Safety
/// `data` is the payload of `cmsg`, as the kernel wrote it.
unsafe fn offender(cmsg: &libc::cmsghdr, data: *const u8) -> Option<IpAddr> {
    let at = size_of::<libc::sock_extended_err>();
    // SAFETY: CMSG_LEN only computes.
    let head = unsafe { libc::CMSG_LEN(0) } as usize;
    // A usize or less, by the C library.
    let whole: usize = cmsg.cmsg_len as _;
    let len = whole.checked_sub(head + at)?;
    // SAFETY: all zeros is an address of no family. No more is copied than either side holds.
    let name = unsafe {
        let mut name: libc::sockaddr_storage = zeroed();
        let len = len.min(size_of::<libc::sockaddr_storage>());
        std::ptr::copy_nonoverlapping(data.add(at), (&raw mut name).cast::<u8>(), len);
        name
    };
    Some(to_socket_addr(&name)?.ip())
}

fn to_socket_addr(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which type the storage holds.
            let a = unsafe { (&raw const *name).cast::<libc::sockaddr_in>().read() };
            Some(
                SocketAddrV4::new(
                    Ipv4Addr::from_bits(u32::from_be(a.sin_addr.s_addr)),
                    u16::from_be(a.sin_port),
                )
                .into(),
            )
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which type the storage holds.
            let a = unsafe { (&raw const *name).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            Some(
                SocketAddrV6::new(
                    ip,
                    u16::from_be(a.sin6_port),
                    a.sin6_flowinfo,
                    a.sin6_scope_id,
                )
                .into(),
            )
        }
        _ => None,
    }
}

/// Sends on a connected socket.
///
/// # Errors
/// The system call's, among them a waiting ICMP error.
pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is given with its length.
    let sent = unsafe {
        libc::send(
            fd,
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends to `to` from the local address `local`, with the TOS or traffic-class byte `tos`.
///
/// # Errors
/// The system call's.
pub fn send_to(
    fd: RawFd,
    bytes: &[u8],
    to: SocketAddr,
    local: Option<IpAddr>,
    tos: u8,
) -> io::Result<()> {
    let name = socket2::SockAddr::from(to);
    let mut iov = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len();
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // A mapped address is sent to as IPv4, which has its own option.
    let v4 = to.ip().to_canonical().is_ipv4();
    let (level, kind) = if v4 {
        (libc::SOL_IP, libc::IP_TOS)
    } else {
        (libc::SOL_IPV6, libc::IPV6_TCLASS)
    };
    let mut used = 0;
    // SAFETY: each message is written within the control buffer, which holds both (64 of 256 bytes).
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header);
        if tos != 0 {
            used += put_control(at, level, kind, i32::from(tos));
            at = libc::CMSG_NXTHDR(&raw const header, at);
        }
        match local {
            Some(IpAddr::V4(ip)) => {
                let addr = |ip: Ipv4Addr| libc::in_addr {
                    s_addr: ip.to_bits().to_be(),
                };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: addr(ip),
                    ipi_addr: addr(Ipv4Addr::UNSPECIFIED),
                };
                used += put_control(at, libc::SOL_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(ip)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                used += put_control(at, libc::SOL_IPV6, libc::IPV6_PKTINFO, info);
            }
            None => {}
        }
    }
    header.msg_controllen = used as _;
    // SAFETY: all that the header points to is alive.
    let sent = unsafe {
        libc::sendmsg(
            fd,
            &raw const header,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// # Safety
/// `at` must have room for `value` in a control buffer.
unsafe fn put_control<T>(at: *mut libc::cmsghdr, level: i32, kind: i32, value: T) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        (*at).cmsg_len = libc::CMSG_LEN(size_of::<T>() as u32) as _;
        libc::CMSG_DATA(at).cast::<T>().write_unaligned(value);
        libc::CMSG_SPACE(size_of::<T>() as u32) as usize
    }
}

/// Messages of one system call; the kernel takes at most 1024.
const BATCH: usize = 256;

/// Buffers for many frames to a system call.
#[derive(Default)]
pub(crate) struct Frames {
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Frames {
    /// Sends the frames in order on a packet socket that is bound to its interface. Gives the number that the kernel
    /// refused.
    pub(crate) fn send<'a>(&mut self, fd: RawFd, frames: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut frames = frames.peekable();
        let mut refused = 0;
        while frames.peek().is_some() {
            self.parts.clear();
            let some = frames.by_ref().take(BATCH);
            self.parts.extend(some.map(|f| libc::iovec {
                iov_base: f.as_ptr().cast_mut().cast(),
                iov_len: f.len(),
            }));
            self.messages.clear();
            for part in &mut self.parts {
                // SAFETY: `mmsghdr` is plain data, for which all zeroes is a value: no address, no control data.
                let mut message: libc::mmsghdr = unsafe { zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                self.messages.push(message);
            }
            let mut done = 0;
            while done < self.messages.len() {
                let rest = &mut self.messages[done..];
                // SAFETY: each message points to one part, each part to a frame that is borrowed until this function
                // returns and that the kernel only reads; neither vector changes meanwhile.
                let sent = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as u32, 0) };
                if sent > 0 {
                    done += sent as usize;
                } else {
                    // The first message failed, the others were not tried.
                    refused += 1;
                    done += 1;
                }
            }
        }
        refused
    }
}
