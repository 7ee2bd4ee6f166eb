//! UDP datagrams with what the kernel knows of them: when they passed, which marks they carried, which
//! address they were for.
//!
//! Transmit times are taken when the packet enters the kernel's packet scheduler (`SOF_TIMESTAMPING_TX_SCHED`), not at
//! the driver: a queue on our own interface is part of the path, and waiting there must count, except where a shaper of
//! ours makes it ([`enable_at_driver`]). Receive times are taken
//! when the driver hands the packet in. Both are wall time; see [`measure::clock::WallClock`].

use crate::clock::{Clock, mono_ns, wall_ns};
use crate::sys::message::SO_RXQ_OVFL;
use crate::sys::option;
use measure::clock::Reading;
use std::io;
use std::os::fd::RawFd;

pub use crate::sys::message::{Batch, DATAGRAM, NetError, Received, receive, send, send_to};
pub(crate) use crate::sys::option::set_int;
pub use crate::sys::option::set_receive_timeout;

/// Enables receive times, and with `tx` transmit times that carry the number of the datagram on its socket, counted
/// from 0. Another call restarts the count.
///
/// # Errors
/// The kernel has no timestamps for this socket.
pub fn enable(fd: RawFd, tx: bool) -> io::Result<()> {
    ask(fd, tx.then_some(libc::SOF_TIMESTAMPING_TX_SCHED))
}

/// Enables receive times, and transmit times at the driver, behind the queue of our own interface.
///
/// # Errors
/// The kernel has no timestamps for this socket.
pub fn enable_at_driver(fd: RawFd) -> io::Result<()> {
    ask(fd, Some(libc::SOF_TIMESTAMPING_TX_SOFTWARE))
}

/// Asks for receive times, and for transmit times at that place.
fn ask(fd: RawFd, departure: Option<u32>) -> io::Result<()> {
    let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    if let Some(place) = departure {
        flags |= place | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0)?;
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
}

/// Enables TOS or traffic class and, with `addressee`, the local address of every datagram.
///
/// # Errors
/// The kernel refuses an option.
pub fn enable_headers(fd: RawFd, v6: bool, addressee: bool) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        if addressee {
            set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
    } else if addressee {
        set_int(fd, libc::SOL_IP, libc::IP_PKTINFO, 1)?;
    }
    let v4 = set_int(fd, libc::SOL_IP, libc::IP_RECVTOS, 1);
    // On an IPv6 socket this is for IPv4 peers under mapped addresses, which a raw one does not have.
    if v6 { Ok(()) } else { v4 }
}

/// Enables the TTL or hop limit of every datagram.
///
/// # Errors
/// The kernel refuses an option.
pub fn enable_ttl(fd: RawFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    }
    let v4 = set_int(fd, libc::SOL_IP, libc::IP_RECVTTL, 1);
    // As above.
    if v6 { Ok(()) } else { v4 }
}

/// Enables ICMP errors about datagrams of this socket.
///
/// # Errors
/// The kernel refuses the option.
pub fn enable_errors(fd: RawFd, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(fd, libc::SOL_IP, libc::IP_RECVERR, 1)
    }
}

/// Enables, with every datagram, the number of those that the socket had no room for.
///
/// # Errors
/// The kernel refuses the option.
pub fn enable_overflow_count(fd: RawFd) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, SO_RXQ_OVFL, 1)
}

/// Forbids fragmenting datagrams of this socket, here and on the path, for any believed path MTU; or allows it.
///
/// # Errors
/// The kernel refuses the option.
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
/// # Errors
/// The kernel refuses the value.
pub fn set_tos(fd: RawFd, v6: bool, tos: u8) -> io::Result<()> {
    if v6 {
        set_int(fd, libc::SOL_IPV6, libc::IPV6_TCLASS, i32::from(tos))?;
    }
    let v4 = set_int(fd, libc::SOL_IP, libc::IP_TOS, i32::from(tos));
    // On an IPv6 socket this is for IPv4 peers under mapped addresses, which a raw one does not have.
    if v6 { Ok(()) } else { v4 }
}

/// Sets the hop limit of datagrams of this socket; the system's default if not given.
///
/// # Errors
/// The kernel refuses the value.
pub fn set_hops(fd: RawFd, v6: bool, hops: Option<u8>) -> io::Result<()> {
    let (level, name) = match v6 {
        true => (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS),
        false => (libc::SOL_IP, libc::IP_TTL),
    };
    set_int(fd, level, name, hops.map_or(-1, i32::from))
}

/// Limits a raw ICMP socket to echo replies.
///
/// # Errors
/// The kernel refuses the option.
pub fn only_echo_replies(fd: RawFd, v6: bool) -> io::Result<()> {
    only_icmp(fd, v6, &[if v6 { 129 } else { 0 }])
}

/// Limits a raw ICMP socket to messages of these types.
///
/// # Errors
/// The kernel refuses the option.
pub fn only_icmp(fd: RawFd, v6: bool, types: &[usize]) -> io::Result<()> {
    /// Options ICMP_FILTER of linux/icmp.h and ICMPV6_FILTER of linux/icmpv6.h: a set bit blocks its type.
    const FILTER: i32 = 1;
    const SOL_RAW: i32 = 255;
    let mut blocked = [u32::MAX; 8];
    for kind in types {
        blocked[kind / 32] &= !(1 << (kind % 32));
    }
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
