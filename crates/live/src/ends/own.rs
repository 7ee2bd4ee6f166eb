//! UDP sockets of our own.

use super::trouble;
use crate::clock::{mono_ns, wall_ns};
use crate::outlet::Outlet;
use crate::sys::option;
use crate::timestamp::{enable, enable_headers, receive, set_hops, set_tos, set_whole};
use base::Duration;
use experiment::ask::{Extension, Heard, Kind, Marking, Opening, Trouble};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Longest datagram that is heard whole.
const MOST: usize = 8192;

/// Socket with one other end, or with any.
pub(super) struct Own {
    socket: UdpSocket,
    to: Option<SocketAddr>,
}

impl Own {
    /// Binds a socket to the local address that leads there.
    pub fn free(toward: SocketAddr, outlet: &Outlet) -> io::Result<Own> {
        let ip = outlet.socket_to(toward)?.local_addr()?.ip();
        let socket = UdpSocket::bind((ip, 0))?;
        outlet.bind(&socket)?;
        enable_headers(socket.as_raw_fd(), ip.is_ipv6(), false)?;
        // Without stamps, the time of taking a datagram stands for that of its arrival.
        let _ = enable(socket.as_raw_fd(), false);
        Ok(Own { socket, to: None })
    }

    pub fn towards(to: SocketAddr, opening: &Opening, outlet: &Outlet) -> io::Result<Own> {
        let socket = outlet.socket_to(to)?;
        enable_headers(socket.as_raw_fd(), to.is_ipv6(), false)?;
        if let Some(whole) = opening.whole {
            set_whole(socket.as_raw_fd(), to.is_ipv6(), whole)?;
        }
        if let Some(header) = opening.header {
            extend(&socket, header)?;
        }
        Ok(Own {
            socket,
            to: Some(to),
        })
    }

    /// True if it has no other end of its own.
    pub fn is_free(&self) -> bool {
        self.to.is_none()
    }

    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub fn send(&self, to: SocketAddr, bytes: &[u8], marking: Marking) -> Result<(), Trouble> {
        let sent = self.mark(to, marking).and_then(|()| match self.to {
            Some(_) => self.socket.send(bytes),
            None => self.socket.send_to(bytes, to),
        });
        sent.map(drop).map_err(|e| trouble(&e))
    }

    fn mark(&self, to: SocketAddr, marking: Marking) -> io::Result<()> {
        let (fd, v6) = (self.socket.as_raw_fd(), to.is_ipv6());
        set_tos(fd, v6, marking.tos)?;
        set_hops(fd, v6, marking.hops)
    }

    /// Waits for the next datagram. A socket with one other end hears its refusals, too.
    pub fn hear(&self, within: Duration) -> Result<Heard, Trouble> {
        let until = mono_ns() + within.as_nanos() as i64;
        let mut buf = [0; MOST];
        loop {
            let left = until - mono_ns();
            if left > 0 {
                let left = std::time::Duration::from_nanos(left as u64);
                let set = self.socket.set_read_timeout(Some(left));
                set.map_err(|e| trouble(&e))?;
            }
            // Without time left, a datagram that is there is taken.
            let _ = self.socket.set_nonblocking(left <= 0);
            match receive(self.socket.as_raw_fd(), &mut buf) {
                Ok(received) => {
                    // A UDP socket always tells the source.
                    let Some(from) = received.from.or(self.to) else {
                        continue;
                    };
                    return Ok(Heard {
                        from,
                        bytes: buf[..received.len].to_vec(),
                        tos: received.tos,
                        waited: received.wall_ns.map_or(Duration::ZERO, since),
                    });
                }
                Err(e) => {
                    let trouble = trouble(&e);
                    let waits =
                        trouble.kind == Kind::Silence || e.kind() == io::ErrorKind::Interrupted;
                    // The error of a free socket is about an earlier datagram, to anybody.
                    if self.to.is_some() && !waits {
                        return Err(trouble);
                    }
                }
            }
            if left <= 0 {
                return Err(Trouble::new(Kind::Silence, "nothing came in time"));
            }
        }
    }
}

/// Time since an arrival that the kernel stamped with the wall clock; a clock that was set meanwhile shows no more than a
/// second.
fn since(stamp_ns: i64) -> Duration {
    let waited = wall_ns().saturating_sub(stamp_ns);
    Duration::from_nanos(waited.clamp(0, 1_000_000_000) as u64)
}

/// Returns the path MTU that the kernel assumes; null if it does not say.
pub(super) fn path_mtu(own: &Own) -> Option<u32> {
    let (level, name) = match own.to?.is_ipv6() {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        false => (libc::IPPROTO_IP, libc::IP_MTU),
    };
    let mtu = option::get_int(own.socket.as_raw_fd(), level, name).ok()?;
    u32::try_from(mtu).ok().filter(|mtu| *mtu > 0)
}

/// Puts an extension header with eight bytes of padding into all packets of a socket.
fn extend(socket: &UdpSocket, header: Extension) -> io::Result<()> {
    // linux/in6.h
    let name = match header {
        Extension::HopByHop => 54,
        Extension::Destination => 59,
    };
    let bytes = [0u8, 0, 1, 4, 0, 0, 0, 0];
    option::set(socket.as_raw_fd(), libc::IPPROTO_IPV6, name, &bytes)
}
