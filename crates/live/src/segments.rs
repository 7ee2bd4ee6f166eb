//! Ports for hand-made TCP segments (CAP_NET_RAW): the kernel holds the port and answers nothing there, neither SYN-ACK nor
//! RST, and a raw socket beside it sends and hears segments.

use crate::outlet::Outlet;
use crate::sys::message;
use crate::sys::option::{attach_filter, statement};
use crate::timestamp::{enable_headers, set_hops, set_tos};
use measure::segment::seal;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Longest packet that is read; hand-made ones are shorter.
const MOST: usize = 256;

/// A port and its raw socket.
pub struct Segments {
    /// Holds the port; its filter drops all.
    _holder: Socket,
    raw: Socket,
    local: SocketAddr,
}

impl Segments {
    /// Takes a port; any free one for 0.
    ///
    /// # Errors
    /// The port is in use, or raw sockets are not permitted.
    pub fn open(at: SocketAddr, outlet: &Outlet) -> io::Result<Segments> {
        let v6 = at.is_ipv6();
        let domain = Domain::for_address(at);
        let raw = Socket::new(domain, Type::RAW, Some(Protocol::TCP)).map_err(not_permitted)?;
        raw.set_nonblocking(true)?;
        outlet.bind(&raw)?;
        let holder = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        if v6 {
            holder.set_only_v6(true)?;
        }
        // A filter that drops all: the listener takes every segment of the port, so that the kernel sends no RST either.
        let mut none = [statement(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];
        attach_filter(holder.as_raw_fd(), libc::SO_ATTACH_FILTER, &mut none)?;
        outlet.bind(&holder)?;
        holder.bind(&at.into())?;
        holder.listen(1)?;
        let local = holder.local_addr()?.as_socket();
        let local = local.ok_or_else(|| io::Error::other("the port has no address"))?;
        only_port(&raw, v6, local.port())?;
        enable_headers(raw.as_raw_fd(), v6, false)?;
        raw.bind(&SocketAddr::new(local.ip(), 0).into())?;
        Ok(Segments {
            _holder: holder,
            raw,
            local,
        })
    }

    /// Address of the port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends a segment, whose checksum it computes, with this TOS byte and hop limit.
    ///
    /// # Errors
    /// The kernel does not send it.
    pub fn send(
        &self,
        to: SocketAddr,
        bytes: &[u8],
        (tos, hops): (u8, Option<u8>),
    ) -> io::Result<()> {
        let (fd, v6) = (self.raw.as_raw_fd(), to.is_ipv6());
        set_tos(fd, v6, tos)?;
        set_hops(fd, v6, hops)?;
        let mut bytes = bytes.to_vec();
        seal(&mut bytes, self.local.ip(), to.ip());
        let host = SocketAddr::new(to.ip(), 0);
        self.raw.send_to(&bytes, &host.into()).map(drop)
    }

    /// Next segment that is there: its source, TOS byte and bytes.
    pub fn take(&self) -> Option<(SocketAddr, Option<u8>, Vec<u8>)> {
        let mut buf = [0; MOST];
        loop {
            let received = message::receive(self.raw.as_raw_fd(), &mut buf).ok()?;
            let packet = &buf[..received.len.min(MOST)];
            let Some(from) = received.from.map(|f| f.ip().to_canonical()) else {
                continue;
            };
            // Over IPv4 the IP header comes with it.
            let segment = match from {
                IpAddr::V4(_) => packet.get(usize::from(packet.first()? & 15) * 4..),
                IpAddr::V6(_) => Some(packet),
            };
            let ports = segment.and_then(|s| s.first_chunk::<4>());
            let (Some(segment), Some(ports)) = (segment, ports) else {
                continue;
            };
            if u16::from_be_bytes([ports[2], ports[3]]) != self.local.port() {
                continue;
            }
            let port = u16::from_be_bytes([ports[0], ports[1]]);
            return Some((SocketAddr::new(from, port), received.tos, segment.to_vec()));
        }
    }
}

impl AsFd for Segments {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

fn not_permitted(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::PermissionDenied => io::Error::other(
            "raw sockets are not permitted, which TCP segments with chosen flags need: run as root, or with CAP_NET_RAW",
        ),
        _ => e,
    }
}

/// Limits a raw socket to segments to a port. Its filter sees the IP header over IPv4 and the segment alone over IPv6.
fn only_port(raw: &Socket, v6: bool, port: u16) -> io::Result<()> {
    let load = match v6 {
        true => vec![statement(
            libc::BPF_LD | libc::BPF_H | libc::BPF_ABS,
            0,
            0,
            2,
        )],
        false => vec![
            statement(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
            statement(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
        ],
    };
    let mut program = load;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    program.extend([
        statement(equal, 0, 1, u32::from(port)),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, MOST as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]);
    attach_filter(raw.as_raw_fd(), libc::SO_ATTACH_FILTER, &mut program)
}
