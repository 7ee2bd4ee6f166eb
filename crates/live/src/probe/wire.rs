//! Datagram socket whose kernel stamps the departure and arrival of each datagram; all probes use it.

use crate::clock::Clock;
use crate::outlet::Outlet;
pub use crate::timestamp::Batch;
use crate::timestamp::{self, NetError, SentNumbers, compare_clocks};
use base::{Duration, Time};
use measure::clock::WallClock;
use measure::session::Arrival;
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

/// Scale of the kernel's stamps, which are wall time, with its steps.
pub struct Wall {
    clock: WallClock,
    /// Time at which a step was last noticed.
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

    /// Compares the wall clock; call it just after stamps were read.
    fn compare(&mut self, clock: Clock) {
        if let Some(by) = self.clock.observe(compare_clocks(clock)) {
            self.stepped_at = Some(clock.now());
            self.steps.push_back(by);
        }
    }

    /// Time of a stamp of the kernel.
    pub(crate) fn to_mono(&self, wall_ns: i64) -> Option<Time> {
        self.clock.to_mono(wall_ns)
    }

    /// True if all stamps since `since` are on one scale.
    fn steady_since(&self, since: Time) -> bool {
        self.stepped_at.is_none_or(|at| at < since)
    }

    /// Step of the wall clock, ns, forward positive; each step is returned once.
    pub fn take_step(&mut self) -> Option<i64> {
        self.steps.pop_front()
    }
}

pub struct Wire {
    socket: Socket,
    /// True if IPv4 datagrams come with their header.
    pub raw: bool,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    tx: SentNumbers,
    /// True if departures are those at the driver.
    at_driver: bool,
    /// Number of datagrams sent since the last look.
    pub sends: u32,
    pub system_calls: u64,
    last_look: Time,
    hops: bool,
}

/// Message from one of the socket's queues.
pub enum Found<'a> {
    /// Departure of datagram `seq` and its time.
    Left(u64, Time),
    /// Arrival of a datagram.
    Came { arrival: Arrival, bytes: &'a [u8] },
    /// Error of the network; [`told`] says which.
    Trouble(i32),
    /// Error from a router or the far host about a datagram of ours, with the part of its payload that is quoted; on a
    /// wire that [`Wire::listen_to_hops`].
    Hop {
        at: Time,
        steady: bool,
        error: NetError,
        bytes: &'a [u8],
    },
}

impl Wire {
    /// Takes departures at the driver from now on, behind the interface's own queue. Call it before the first datagram.
    ///
    /// # Errors
    /// The kernel has no timestamps for this socket.
    pub fn stamp_at_driver(&mut self) -> io::Result<()> {
        self.at_driver = true;
        self.stamp()
    }

    /// Asks for stamps; the kernel then numbers datagrams from zero.
    fn stamp(&self) -> io::Result<()> {
        match self.at_driver {
            true => timestamp::enable_at_driver(self.fd()),
            false => timestamp::enable(self.fd(), true),
        }
    }

    /// # Errors
    /// Such a socket is not allowed, or there is no route.
    pub fn open(kind: Kind, remote: SocketAddr, clock: Clock, outlet: &Outlet) -> io::Result<Wire> {
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
        outlet.bind(&socket)?;
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
            at_driver: false,
            sends: 0,
            system_calls: 0,
            last_look: clock.now(),
            hops: false,
        })
    }

    /// Sets the TOS or traffic-class byte of sent datagrams.
    ///
    /// # Errors
    /// The kernel refuses the value.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        timestamp::set_tos(self.fd(), self.remote.is_ipv6(), tos)
    }

    /// Makes ICMP errors news instead of trouble.
    pub fn listen_to_hops(&mut self) {
        self.hops = true;
    }

    /// Sets the hop limit of sent datagrams.
    ///
    /// # Errors
    /// The kernel refuses the value.
    pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
        timestamp::set_hops(self.fd(), self.remote.is_ipv6(), Some(ttl))
    }

    /// Waits for the next datagram, at most this long.
    ///
    /// # Errors
    /// Nothing came (`WouldBlock`), or an error of the network.
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
    /// The datagram was not sent.
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
                // This host's own full queue has dropped it: lost, as in any other queue. The kernel tells of that only
                // sockets that ask for errors, and it has counted the datagram.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
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
        if self.stamp().is_ok() {
            self.tx = SentNumbers::new();
        }
        result
    }

    /// Reads all messages from the socket's queues.
    pub fn look(
        &mut self,
        batch: &mut Batch,
        clock: Clock,
        wall: &mut Wall,
        each: &mut dyn FnMut(Time, Found<'_>),
    ) {
        let began = clock.now();
        self.look_at_errors(batch, clock, wall, each);
        self.look_at_arrivals(batch, clock, wall, each);
        self.last_look = began;
        self.sends = 0;
    }

    /// Send times and ICMP errors, from the socket's error queue.
    fn look_at_errors(
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
            if n < batch.size() {
                break;
            }
        }
    }

    /// Datagrams that arrived.
    fn look_at_arrivals(
        &mut self,
        batch: &mut Batch,
        clock: Clock,
        wall: &mut Wall,
        each: &mut dyn FnMut(Time, Found<'_>),
    ) {
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
                let arrival = Arrival {
                    at: kernel.unwrap_or(now),
                    kernel: kernel.is_some(),
                    steady,
                    tos: received.tos,
                };
                each(now, Found::Came { arrival, bytes });
            }
            if n < batch.size() {
                break;
            }
        }
    }
}

/// True for errors that a socket reports once after an ICMP error, which is then in its error queue too.
fn is_news(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES
    )
}

/// Meaning of an error of the network or the kernel.
pub fn told(errno: i32) -> String {
    match errno {
        libc::ECONNREFUSED => "nothing listens on its port (ICMP port unreachable)".into(),
        other => io::Error::from_raw_os_error(other).to_string(),
    }
}
