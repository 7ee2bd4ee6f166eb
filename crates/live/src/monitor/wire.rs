//! A datagram socket whose kernel says when each datagram left and arrived.

use super::clocks::Clocks;
use crate::clock::Clock;
use crate::timestamp::{self, Batch, Received, SentNumbers};
use base::Time;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Udp,
    Icmp,
}

pub struct Wire {
    socket: Socket,
    /// Whether IPv4 datagrams come with their header.
    pub raw: bool,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    tx: SentNumbers,
    pub sends: u32,
    last_look: Time,
}

/// What was found in the socket's queues.
pub enum Found<'a> {
    /// Datagram `seq` left then.
    Left(u64, Time),
    /// A datagram came: when, whether that is the kernel's time, and whether clocks ran through.
    Came {
        at: Time,
        kernel: bool,
        steady: bool,
        received: &'a Received,
        bytes: &'a [u8],
    },
    /// The network complains.
    Trouble(String),
}

impl Wire {
    /// # Errors
    /// No such socket is allowed, or there is no route.
    pub fn open(kind: Kind, remote: SocketAddr, clock: Clock) -> io::Result<Wire> {
        let v6 = remote.is_ipv6();
        let domain = Domain::for_address(remote);
        let (socket, raw) = match kind {
            Kind::Udp => (
                Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
                false,
            ),
            Kind::Icmp => {
                let protocol = if v6 {
                    Protocol::ICMPV6
                } else {
                    Protocol::ICMPV4
                };
                // Without privileges where the kernel lets our group ping, else raw.
                match Socket::new(domain, Type::DGRAM, Some(protocol)) {
                    Ok(socket) => (socket, false),
                    Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
                }
            }
        };
        let fd = socket.as_raw_fd();
        timestamp::enable(fd, true)?;
        timestamp::enable_headers(fd, v6, false)?;
        timestamp::enable_errors(fd, v6)?;
        if raw {
            timestamp::only_echo_replies(fd, v6)?;
        }
        // Room for what arrives between two looks; the kernel may grant less, which is enough too.
        let _ = timestamp::set_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, 1 << 20);
        let mut to = remote;
        if kind == Kind::Icmp {
            to.set_port(0);
        }
        socket.connect(&to.into())?;
        let local = socket.local_addr().ok().and_then(|a| a.as_socket());
        Ok(Wire {
            socket,
            raw,
            remote,
            local: local.map(|a| a.ip()),
            tx: SentNumbers::new(),
            sends: 0,
            last_look: clock.now(),
        })
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// # Errors
    /// The datagram did not leave.
    pub fn send(&mut self, bytes: &[u8], probe: Option<u64>) -> io::Result<()> {
        self.sends += 1;
        let mut result = Ok(());
        for _ in 0..3 {
            result = timestamp::send(self.fd(), bytes);
            match &result {
                Ok(()) => {
                    self.tx.sent(probe);
                    return Ok(());
                }
                // News of an earlier datagram: this one has not been tried yet.
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {}
                Err(_) => break,
            }
        }
        // Whether the kernel counted a datagram that failed is its secret: begin anew.
        if timestamp::enable(self.fd(), true).is_ok() {
            self.tx = SentNumbers::new();
        }
        result
    }

    /// Reads everything that is there.
    pub fn look(
        &mut self,
        batch: &mut Batch,
        clock: Clock,
        clocks: &mut Clocks,
        each: &mut dyn FnMut(Time, Found<'_>),
    ) {
        let began = clock.now();
        while let Ok(n) = batch.receive(self.fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            for (received, _) in batch.messages() {
                let at = received.wall_ns.and_then(|ns| clocks.wall.to_mono(ns));
                if let (Some(id), Some(at)) = (received.tx_id, at)
                    && let Some(seq) = self.tx.probe(id)
                {
                    each(began, Found::Left(seq, at));
                }
                if let Some(e) = received.error {
                    each(began, Found::Trouble(told(e.errno)));
                }
            }
            if n < 64 {
                break;
            }
        }
        loop {
            let got = batch.receive(self.fd(), libc::MSG_DONTWAIT);
            clocks.compare(clock);
            let now = clock.now();
            let n = match got {
                Ok(n) => n,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) | None => break,
                    Some(errno) => {
                        each(now, Found::Trouble(told(errno)));
                        if errno == libc::ECONNREFUSED {
                            continue;
                        }
                        break;
                    }
                },
            };
            let steady = clocks.steady_since(self.last_look);
            for (received, bytes) in batch.messages() {
                let kernel = received
                    .wall_ns
                    .and_then(|ns| clocks.wall.to_mono(ns))
                    .filter(|&t| t <= now);
                let came = Found::Came {
                    at: kernel.unwrap_or(now),
                    kernel: kernel.is_some(),
                    steady,
                    received,
                    bytes,
                };
                each(now, came);
            }
            if n < 64 {
                break;
            }
        }
        self.last_look = began;
        self.sends = 0;
    }
}

/// What the network's or the kernel's complaint means.
pub fn told(errno: i32) -> String {
    match errno {
        libc::ECONNREFUSED => "nothing listens on its port (ICMP port unreachable)".into(),
        other => io::Error::from_raw_os_error(other).to_string(),
    }
}

/// The address that packets to `remote` leave from now; `None` without a route.
pub fn local_towards(remote: SocketAddr) -> Option<IpAddr> {
    let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, None).ok()?;
    socket.connect(&remote.into()).ok()?;
    Some(socket.local_addr().ok()?.as_socket()?.ip())
}
