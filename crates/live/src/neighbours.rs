//! Hosts and services of an interface's own subnet, asked for over sockets; [`measure::neighbours`] knows what to ask.
//!
//! Each address of the subnet gets one empty datagram, the multicast groups a few questions. The pace is bounded, and
//! answers count only if they come from the subnet.

use crate::outlet::Outlet;
use measure::neighbours::{Neighbours, SEARCH, addresses};
use nix::ifaddrs::getifaddrs;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Instant;

/// Interval between two datagrams.
const APART: std::time::Duration = std::time::Duration::from_millis(10);
/// Times at which the questions to groups are sent, from the begin on.
const ASKED: [std::time::Duration; 2] = [
    std::time::Duration::from_millis(0),
    std::time::Duration::from_millis(1000),
];
/// Time after the last datagram for which answers are awaited: SSDP's two seconds, and three tries of ARP.
const AWAITED: std::time::Duration = std::time::Duration::from_millis(3500);
/// Discard (RFC 863): nobody listens, and an empty datagram asks for nothing.
const DISCARD: u16 = 9;
const MDNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), 5353);
const SSDP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 1900);
/// ICMPv6 echo to all nodes of the link (RFC 4443 section 4.1); the kernel fills in the checksum.
const ECHO6: [u8; 8] = [128, 0, 0, 0, 0, 1, 0, 1];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Hosts of a subnet, and how they were asked.
pub struct Found {
    pub neighbours: Neighbours,
    /// Own address, and the length of the prefix of the part that was asked.
    pub own: Ipv4Addr,
    pub asked_prefix: u8,
    /// Length of the subnet's own prefix.
    pub prefix: u8,
    /// Number of datagrams that were sent.
    pub sent: u32,
    /// Reason why neighbours were not asked by IPv6.
    pub without_v6: Option<String>,
}

/// Address of an interface, and the length of its prefix.
fn own(interface: &str) -> Option<(Ipv4Addr, u8)> {
    getifaddrs()
        .ok()?
        .filter(|e| e.interface_name == interface)
        .find_map(|e| {
            let address = e.address?.as_sockaddr_in()?.ip();
            let mask = e.netmask?.as_sockaddr_in()?.ip();
            Some((address, u32::from(mask).leading_ones() as u8))
        })
}

/// Sockets of the questions, which do not block.
struct Sockets {
    sweep: UdpSocket,
    mdns: UdpSocket,
    ssdp: UdpSocket,
    echo: io::Result<UdpSocket>,
}

impl Sockets {
    fn open(outlet: &Outlet, own: Ipv4Addr) -> io::Result<Sockets> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((own, 0))?;
            outlet.bind(&socket)?;
            let options = SockRef::from(&socket);
            options.set_multicast_if_v4(&own)?;
            options.set_multicast_ttl_v4(1)?;
            options.set_multicast_loop_v4(false)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Sockets {
            sweep: open()?,
            mdns: open()?,
            ssdp: open()?,
            echo: echo(outlet),
        })
    }

    /// Takes all answers that have come, from hosts of the subnet.
    fn hear(&self, found: &mut Neighbours, is_near: &dyn Fn(Ipv4Addr) -> bool) {
        let mut buf = [0; 9000];
        let near = |from: IpAddr| matches!(from, IpAddr::V4(ip) if is_near(ip));
        while let Ok((n, from)) = self.mdns.recv_from(&mut buf) {
            if near(from.ip()) && from.port() == MDNS.port() {
                found.take_mdns(from.ip(), &buf[..n]);
            }
        }
        while let Ok((n, from)) = self.ssdp.recv_from(&mut buf) {
            if near(from.ip()) {
                found.take_ssdp(from.ip(), &buf[..n]);
            }
        }
        // A host answers to this host's link-local address, from its own.
        let Ok(echo) = &self.echo else { return };
        while let Ok((n, from)) = echo.recv_from(&mut buf) {
            if let (IpAddr::V6(ip), true) = (from.ip(), n >= ECHO6.len() && buf[0] == 129)
                && ip.is_unicast_link_local()
            {
                found.take_echo(from.ip());
            }
        }
    }

    /// Asks the groups.
    fn ask(&self, outlet: &Outlet, question: Option<Vec<u8>>) {
        // A network that takes no multicast has no answers either.
        let _ = self.ssdp.send_to(SEARCH, SSDP);
        if let Ok(echo) = &self.echo {
            let all = SocketAddrV6::new(ALL_NODES, 0, 0, outlet.index());
            let _ = echo.send_to(&ECHO6, all);
        }
        self.question(question);
    }

    fn question(&self, question: Option<Vec<u8>>) {
        if let Some(question) = question {
            let _ = self.mdns.send_to(&question, MDNS);
        }
    }
}

/// Opens a socket for ICMPv6 echo on the interface.
fn echo(outlet: &Outlet) -> io::Result<UdpSocket> {
    let kind = |kind| Socket::new(Domain::IPV6, kind, Some(Protocol::ICMPV6));
    let socket = kind(Type::DGRAM).or_else(|_| kind(Type::RAW))?;
    outlet.bind(&socket)?;
    socket.set_multicast_if_v6(outlet.index())?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Asks the subnet of an interface. `interrupted` is asked all the time.
///
/// # Errors
/// An interface without an address of IPv4, or a socket that this host does not give.
pub fn find(interface: &str, interrupted: &mut dyn FnMut() -> bool) -> io::Result<Found> {
    let (own, prefix) = own(interface).ok_or_else(|| {
        io::Error::other(format!("{interface} is not there or has no IPv4 address"))
    })?;
    let outlet = Outlet::of(Some(interface));
    let sockets = Sockets::open(&outlet, own)?;
    let (addresses, asked_prefix) = addresses(own, prefix);
    let near = |ip: Ipv4Addr| {
        let shift = 32 - u32::from(prefix.min(32));
        (u64::from(u32::from(ip)) >> shift) == (u64::from(u32::from(own)) >> shift)
    };
    let mut found = Found {
        neighbours: Neighbours::default(),
        own,
        asked_prefix,
        prefix,
        sent: 0,
        without_v6: sockets.echo.as_ref().err().map(ToString::to_string),
    };
    let (began, mut asked, mut left) = (Instant::now(), 0, addresses.iter());
    let mut until = None;
    while until.is_none_or(|at| Instant::now() < at) && !interrupted() {
        if ASKED.get(asked).is_some_and(|at| began.elapsed() >= *at) {
            // The first question again, for a host that was asleep or a packet that was lost.
            let question = found
                .neighbours
                .question()
                .or_else(|| found.neighbours.first());
            sockets.ask(&outlet, question);
            (asked, found.sent) = (asked + 1, found.sent + 3);
        } else if let Some(address) = left.next() {
            // A neighbour that is not there makes the kernel refuse a later datagram.
            let _ = sockets.sweep.send_to(&[], (*address, DISCARD));
            found.sent += 1;
        } else if let Some(question) = found.neighbours.question() {
            sockets.question(Some(question));
            found.sent += 1;
            until = None;
        }
        std::thread::sleep(APART);
        sockets.hear(&mut found.neighbours, &near);
        if left.len() == 0 && asked == ASKED.len() {
            until = until.or_else(|| Some(Instant::now() + AWAITED));
        }
    }
    let table = std::fs::read_to_string("/proc/thread-self/net/arp")?;
    let lines = table.lines().skip(1);
    lines.for_each(|line| found.neighbours.take_arp(line, interface));
    Ok(found)
}

/// Interface by which packets to the rest of the world leave.
///
/// # Errors
/// There is no such route.
pub fn usual() -> io::Result<String> {
    // An address of documentation, RFC 5737: nothing is sent to it.
    Ok(crate::route::to(Ipv4Addr::new(192, 0, 2, 1).into())?.interface)
}
