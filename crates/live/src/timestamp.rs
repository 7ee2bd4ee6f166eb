//! UDP datagrams with what the kernel knows of them: when they passed, which marks they carried, which
//! address they were for.
//!
//! Transmit times are taken when the packet enters the kernel's packet scheduler (`SOF_TIMESTAMPING_TX_SCHED`), not at
//! the driver: a queue on our own interface is part of the path, and waiting there must count. Receive times are taken
//! when the driver hands the packet in. Both are wall time; see [`measure::clock::WallClock`].

use crate::clock::{Clock, mono_ns, wall_ns};
use crate::sys::message::SO_RXQ_OVFL;
use crate::sys::option;
use measure::clock::Reading;
use std::io;
use std::os::fd::RawFd;

pub use crate::sys::message::{Batch, DATAGRAM, NetError, Received, send, send_to};
pub(crate) use crate::sys::option::set_int;
pub use crate::sys::option::set_receive_timeout;

/// Enables receive times, and with `tx` transmit times that carry the number of the datagram on its socket, counted
/// from 0. Another call restarts the count.
///
/// # Errors The kernel has no timestamps for this socket.
pub fn enable(fd: RawFd, tx: bool) -> io::Result<()> {
    let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    if tx {
        flags |= libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0)?;
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
}

/// Enables TOS or traffic class and, with `addressee`, the local address of every datagram.
///
/// # Errors The kernel refuses an option.
pub fn enable_headers(fd: RawFd, v6: bool, addressee: bool) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        if addressee {
            set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
    } else if addressee {
        set_int(fd, libc::SOL_IP, libc::IP_PKTINFO, 1)?;
    }
    // On an IPv6 socket this is for IPv4 peers under mapped addresses.
    set_int(fd, libc::SOL_IP, libc::IP_RECVTOS, 1)
}

/// Enables ICMP errors about datagrams of this socket.
///
/// # Errors The kernel refuses the option.
pub fn enable_errors(fd: RawFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(fd, libc::SOL_IP, libc::IP_RECVERR, 1)
    }
}

/// Enables, with every datagram, the number of those that the socket had no room for.
///
/// # Errors The kernel refuses the option.
pub fn enable_overflow_count(fd: RawFd) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, SO_RXQ_OVFL, 1)
}

/// Forbids fragmenting datagrams of this socket, here and on the path, for any believed path MTU; or allows it.
///
/// # Errors The kernel refuses the option.
pub fn set_whole(fd: RawFd, v6: bool, whole: bool) -> io::Result<()> {
    if v6 {
        let mode = if whole {
            libc::IPV6_PMTUDISC_PROBE
        } else {
            libc::IPV6_PMTUDISC_DONT
        };
        set_int(fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, mode)?;
    }
    let mode = if whole {
        libc::IP_PMTUDISC_PROBE
    } else {
        libc::IP_PMTUDISC_DONT
    };
    set_int(fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, mode)
}

/// Sets the TOS or traffic-class byte of datagrams of this socket.
///
/// # Errors The kernel refuses the value.
pub fn set_tos(fd: RawFd, v6: bool, tos: u8) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_TCLASS, i32::from(tos))?;
    }
    set_int(fd, libc::SOL_IP, libc::IP_TOS, i32::from(tos))
}

/// Limits a raw ICMP socket to echo replies.
///
/// # Errors The kernel refuses the option.
pub fn only_echo_replies(fd: RawFd, v6: bool) -> io::Result<()> {
    /// Options ICMP_FILTER of linux/icmp.h and ICMPV6_FILTER of linux/icmpv6.h: a set bit blocks its type.
    const FILTER: i32 = 1;
    const SOL_RAW: i32 = 255;
    let mut blocked = [u32::MAX; 8];
    let reply = if v6 { 129 } else { 0 };
    blocked[reply / 32] &= !(1 << (reply % 32));
    let (level, words) = if v6 {
        (libc::SOL_ICMPV6, 8)
    } else {
        (SOL_RAW, 1)
    };
    let blocked: Vec<u8> = blocked[..words]
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .collect();
    option::set(fd, level, FILTER, &blocked)
}

/// Compares the wall clock with the run's clock. Of three tries the tightest comparison is taken: losing the processor
/// between two readings spoils one.
pub fn compare_clocks(clock: Clock) -> Reading {
    let start = clock.mono_of(base::Time::ZERO);
    let once = || {
        let (before, wall, after) = (mono_ns(), wall_ns(), mono_ns());
        Reading {
            wall_minus_mono_ns: wall - (before - start) - (after - before) / 2,
            uncertainty_ns: (after - before) / 2 + 1,
        }
    };
    let (a, b, c) = (once(), once(), once());
    [b, c].into_iter().fold(a, |best, r| {
        if r.uncertainty_ns < best.uncertainty_ns {
            r
        } else {
            best
        }
    })
}

/// ICMP error about a datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetError {
    pub errno: i32,
    pub icmp_type: u8,
    pub icmp_code: u8,
    /// Sender of the error.
    pub offender: Option<IpAddr>,
}

/// Facts on one message of a socket's receive queue or error queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    pub len: usize,
    pub from: Option<SocketAddr>,
    pub local: Option<IpAddr>,
    /// Kernel time, wall clock, UNIX ns.
    pub wall_ns: Option<i64>,
    pub tos: Option<u8>,
    /// Number of the datagram whose transmit time this is.
    pub tx_id: Option<u32>,
    pub error: Option<NetError>,
    /// Datagrams that this socket has dropped so far for lack of space; see [`enable_overflow_count`].
    pub overflowed: Option<u32>,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

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

    /// Receives waiting messages: `flags` as for recvmmsg(2). Returns their number.
    ///
    /// # Errors Those of the system call; `WouldBlock` if there is nothing.
    pub fn receive(&mut self, fd: RawFd, flags: i32) -> io::Result<usize> {
        self.parsed.clear();
        let mut iov: [libc::iovec; 64] = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; 64];
        // SAFETY: all zeros is a valid mmsghdr: no name, no buffers.
        let mut headers: [libc::mmsghdr; 64] = unsafe { zeroed() };
        let n = self.size.min(64);
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

    /// Messages of the last [`Batch::receive`].
    pub fn messages(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        self.parsed
            .iter()
            .zip(&self.data)
            .map(|(r, data)| (r, &data[..r.len.min(DATAGRAM)]))
    }
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
                        r.wall_ns = Some(t.tv_sec * 1_000_000_000 + t.tv_nsec);
                    }
                }
                (libc::SOL_SOCKET, SO_RXQ_OVFL) => {
                    r.overflowed = Some(data.cast::<u32>().read_unaligned());
                }
                (libc::SOL_IP, libc::IP_TOS) => r.tos = Some(*data),
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

/// Address that follows an extended error, SO_EE_OFFENDER of linux/errqueue.h.
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
/// # Errors Those of the system call, among them a waiting ICMP error.
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
/// # Errors Those of the system call.
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

/// Which probe the kernel's number of a datagram stands for. The kernel counts from 0 since timestamps
/// were asked for last.
pub(crate) struct SentNumbers {
    next: u32,
    probes: [Option<(u32, u64)>; 128],
}

impl SentNumbers {
    pub fn new() -> SentNumbers {
        SentNumbers {
            next: 0,
            probes: [None; 128],
        }
    }
    pub fn sent(&mut self, probe: Option<u64>) {
        self.probes[self.next as usize % 128] = probe.map(|seq| (self.next, seq));
        self.next = self.next.wrapping_add(1);
    }
    pub fn probe(&self, number: u32) -> Option<u64> {
        self.probes[number as usize % 128]
            .filter(|(n, _)| *n == number)
            .map(|(_, seq)| seq)
    }
}
