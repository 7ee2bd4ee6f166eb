//! A datagram socket whose kernel says when each datagram left and arrived: the one around all that probes.

use crate::clock::Clock;
use crate::timestamp::{self, Batch, NetError, Received, SentNumbers, compare_clocks};
use base::{Duration, Time};
use measure::clock::WallClock;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Udp,
    Icmp,
}

/// The scale of the kernel's stamps, which are wall time, and the steps that it made.
pub struct Wall {
    clock: WallClock,
    /// When a step was noticed last.
    stepped_at: Option<Time>,
    steps: VecDeque<i64>,
}

impl Wall {
    pub fn new(clock: Clock) -> Wall {
        let mut wall = Wall {
            clock: WallClock::default(),
            stepped_at: None,
            steps: VecDeque::new(),
        };
        wall.compare(clock);
        wall
    }

    /// Compares the wall clock; to be done right after stamps were read.
    fn compare(&mut self, clock: Clock) {
        if let Some(by) = self.clock.observe(compare_clocks(clock)) {
            self.stepped_at = Some(clock.now());
            self.steps.push_back(by);
        }
    }

    /// Whether all stamps since `since` are on one scale.
    fn steady_since(&self, since: Time) -> bool {
        self.stepped_at.is_none_or(|at| at < since)
    }

    /// By how much the wall clock was set forward, ns; each step is told once.
    pub fn take_step(&mut self) -> Option<i64> {
        self.steps.pop_front()
    }
}

pub struct Wire {
    socket: Socket,
    /// Whether IPv4 datagrams come with their header.
    pub raw: bool,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    tx: SentNumbers,
    /// Datagrams since the last look.
    pub sends: u32,
    pub system_calls: u64,
    last_look: Time,
    hops: bool,
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
    /// The network complains; what about, [`told`] says.
    Trouble(i32),
    /// A router or the far host complains about a datagram of ours, whose payload it quotes as far as it likes: of a wire
    /// that [`Wire::listen_to_hops`].
    Hop {
        at: Time,
        steady: bool,
        error: NetError,
        bytes: &'a [u8],
    },
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
            system_calls: 0,
            last_look: clock.now(),
            hops: false,
        })
    }

    /// Sets the TOS or traffic-class byte of all that is sent.
    ///
    /// # Errors
    /// When the kernel refuses the value.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        timestamp::set_tos(self.fd(), self.remote.is_ipv6(), tos)
    }

    /// From now on ICMP errors are news and no trouble.
    pub fn listen_to_hops(&mut self) {
        self.hops = true;
    }

    /// How many routers what is sent may pass.
    ///
    /// # Errors
    /// When the kernel refuses the value.
    pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
        let (level, name) = if self.remote.is_ipv6() {
            (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS)
        } else {
            (libc::SOL_IP, libc::IP_TTL)
        };
        timestamp::set_int(self.fd(), level, name, i32::from(ttl))
    }

    /// The next datagram, waited for at most this long.
    ///
    /// # Errors
    /// Nothing came (`WouldBlock`), or the network complains.
    pub fn receive_within(&self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize> {
        timestamp::set_receive_timeout(self.fd(), wait)?;
        Ok(nix::sys::socket::recv(
            self.fd(),
            buffer,
            nix::sys::socket::MsgFlags::empty(),
        )?)
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
            self.system_calls += 1;
            result = timestamp::send(self.fd(), bytes);
            match &result {
                Ok(()) => {
                    self.tx.sent(probe);
                    return Ok(());
                }
                // News of an earlier datagram: this one has not been tried yet.
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {}
                Err(e) if self.hops && e.raw_os_error().is_some_and(is_news) => {}
                Err(_) => break,
            }
        }
        // Whether the kernel counted a datagram that failed is its secret: begin anew.
        self.system_calls += 2;
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
        wall: &mut Wall,
        each: &mut dyn FnMut(Time, Found<'_>),
    ) {
        let began = clock.now();
        loop {
            self.system_calls += 1;
            let Ok(n) = batch.receive(self.fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) else {
                break;
            };
            if self.hops {
                wall.compare(clock);
            }
            let now = clock.now();
            let steady = wall.steady_since(self.last_look);
            for (received, bytes) in batch.messages() {
                let at = received.wall_ns.and_then(|ns| wall.clock.to_mono(ns));
                if let (Some(id), Some(at)) = (received.tx_id, at)
                    && let Some(seq) = self.tx.probe(id)
                {
                    each(began, Found::Left(seq, at));
                }
                if let Some(error) = received.error {
                    let at = at.filter(|&t| t <= now).unwrap_or(now);
                    let found = match self.hops {
                        true => Found::Hop {
                            at,
                            steady,
                            error,
                            bytes,
                        },
                        false => Found::Trouble(error.errno),
                    };
                    each(began, found);
                }
            }
            if n < 64 {
                break;
            }
        }
        loop {
            self.system_calls += 1;
            let got = batch.receive(self.fd(), libc::MSG_DONTWAIT);
            wall.compare(clock);
            let now = clock.now();
            let n = match got {
                Ok(n) => n,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) | None => break,
                    Some(errno) if self.hops && is_news(errno) => continue,
                    Some(errno) => {
                        each(now, Found::Trouble(errno));
                        if errno == libc::ECONNREFUSED {
                            continue;
                        }
                        break;
                    }
                },
            };
            let steady = wall.steady_since(self.last_look);
            for (received, bytes) in batch.messages() {
                let kernel = received
                    .wall_ns
                    .and_then(|ns| wall.clock.to_mono(ns))
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

/// What a socket says once after an ICMP error has come, which then also stands in its error queue.
fn is_news(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES
    )
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
