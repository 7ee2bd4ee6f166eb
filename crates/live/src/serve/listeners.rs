//! Ports that are opened for a while because a client asked for them: what comes there is written down, and answered
//! where it shows the client's token.
//!
//! One thread serves them all and the connection that they were asked for on, which closes them when it ends. What it
//! stores and sends is bounded: see `measure::control::listen`.

use super::Shared;
use super::book::{FlowPermit, Permit};
use super::connection::{finish, refuse, write_all};
use crate::clock::mono_ns;
use crate::load::kernel::random_bytes;
use crate::load::pump::End;
use crate::timestamp::set_whole;
use base::Duration;
use base::record::Direction;
use measure::control::listen::{
    Arrival, LONGEST, Listening, MOST_ARRIVALS, MOST_BYTES, MOST_ORDERS, Opened, Order, Place,
    TOKEN_LEN, Transport, Wanted,
};
use measure::control::{Ended, FlowSpec, Refusal, Response};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

/// A report is taken by then, even over GPRS.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// A connection that has brought nothing for so long is answered with what has come.
const PAUSE_NS: i64 = 1_000_000_000;
/// A connection to one of the ports is closed after this, whatever it does.
const CALL_NS: i64 = 20_000_000_000;
/// Connections to the ports at once.
const MOST_CALLS: usize = 64;
/// linux/tcp.h: keep the headers of the packet that began a connection, and give them.
const TCP_SAVE_SYN: i32 = 27;
const TCP_SAVED_SYN: i32 = 28;

enum Port {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// A connection to one of the ports.
struct Call {
    stream: TcpStream,
    listener: usize,
    arrival: usize,
    began: i64,
    latest: i64,
    have: Vec<u8>,
    answered: bool,
}

struct Open<'a> {
    wanted: &'a [Wanted],
    ports: Vec<Option<Port>>,
    token: [u8; TOKEN_LEN],
    arrivals: Vec<Arrival>,
    calls: Vec<Call>,
    /// Who has shown the token.
    shown: BTreeSet<SocketAddr>,
    sent: u64,
}

/// Serves one such request to its end.
pub fn serve(
    stream: &TcpStream,
    permit: &Permit,
    spec: &FlowSpec,
    wanted: &[Wanted],
    shared: &Shared,
) -> io::Result<()> {
    if !shared.opens_ports {
        let text = "this server opens no further ports (it was started with --one-port)";
        return refuse(stream, (Refusal::Forbidden, text.into()), shared);
    }
    let mut flow = match shared.book.flow(permit, spec, Direction::Up) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let here = stream.local_addr()?;
    let addresses = addresses(here.ip().to_canonical());
    let mut ports = Vec::new();
    let opened = wanted
        .iter()
        .map(|one| match open(one, here, &addresses) {
            Ok((port, at)) => {
                ports.push(Some(port));
                Opened::At(at)
            }
            Err(why) => {
                ports.push(None);
                Opened::Not(why)
            }
        })
        .collect();
    let mut open = Open {
        wanted,
        ports,
        token: random_bytes(),
        arrivals: Vec::new(),
        calls: Vec::new(),
        shown: BTreeSet::new(),
        sent: 0,
    };
    // Not the longest flow: an open port carries hardly anything.
    let duration = spec.duration.min(LONGEST);
    let listening = Response::Listening(Listening {
        token: open.token,
        from: canonical(stream.peer_addr()?),
        duration,
        addresses,
        opened,
    });
    let began = mono_ns();
    shared.counters.flows.fetch_add(1, Ordering::Relaxed);
    write_all(
        stream,
        &listening.encode(),
        began + TAKEN_WITHIN.as_nanos() as i64,
        shared,
    )?;
    let until = began + duration.as_nanos() as i64;
    let end = open.run(stream, until, &mut flow, shared)?;
    flow.with_report(|r| r.ended = Ended::TimeUp);
    finish(stream, &flow, &end, shared)
}

fn canonical(a: SocketAddr) -> SocketAddr {
    SocketAddr::new(a.ip().to_canonical(), a.port())
}

/// How far an address reaches: from elsewhere a private one is as good as none.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Host,
    Link,
    Site,
    World,
}

fn reach(ip: IpAddr) -> Reach {
    match ip {
        ip if ip.is_loopback() => Reach::Host,
        IpAddr::V4(v4) if v4.is_link_local() => Reach::Link,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Reach::Link,
        // RFC 1918, RFC 6598 (shared by providers), RFC 4193.
        IpAddr::V4(v4) if v4.is_private() => Reach::Site,
        IpAddr::V4(v4) if v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64 => Reach::Site,
        IpAddr::V6(v6) if v6.is_unique_local() => Reach::Site,
        _ => Reach::World,
    }
}

/// This host's addresses that reach as far as the one that was asked; of the other family also those that reach
/// farther or less far, down to its own site, farthest first.
fn addresses(here: IpAddr) -> Vec<IpAddr> {
    let Ok(all) = nix::ifaddrs::getifaddrs() else {
        return Vec::new();
    };
    let mut found: Vec<IpAddr> = all
        .filter_map(|i| {
            let storage = i.address?;
            let v4 = storage.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| storage.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        })
        .filter(|ip| {
            let other = ip.is_ipv4() != here.is_ipv4() && reach(here) != Reach::Host;
            reach(*ip) == reach(here) || other && reach(*ip) >= Reach::Site
        })
        .collect();
    found.sort_unstable_by_key(|ip| (std::cmp::Reverse(reach(*ip)), *ip));
    found.dedup();
    found
}

fn open(wanted: &Wanted, here: SocketAddr, all: &[IpAddr]) -> Result<(Port, SocketAddr), String> {
    let own = here.ip().to_canonical();
    let found = match wanted.place {
        Place::Here => Some(own),
        Place::Elsewhere => all
            .iter()
            .find(|a| **a != own && a.is_ipv4() == own.is_ipv4())
            .copied(),
        Place::V4 if own.is_ipv4() => Some(own),
        Place::V6 if own.is_ipv6() => Some(own),
        Place::V4 => all.iter().find(|a| a.is_ipv4()).copied(),
        Place::V6 => all.iter().find(|a| a.is_ipv6()).copied(),
    };
    let ip = found.ok_or("the server has no such address")?;
    let at = SocketAddr::new(ip, wanted.port);
    let made = || -> io::Result<(Port, SocketAddr)> {
        let (kind, protocol) = match wanted.transport {
            Transport::Tcp => (Type::STREAM, Protocol::TCP),
            Transport::Udp => (Type::DGRAM, Protocol::UDP),
        };
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if wanted.transport == Transport::Tcp {
            // Connections of the request before linger for a minute.
            socket.set_reuse_address(true)?;
            // Older kernels keep none, and then there is none to be had.
            let _ = keep_syn(&socket);
        } else {
            // What is told to be sent in pieces is.
            set_whole(socket.as_raw_fd(), at.is_ipv6(), false)?;
        }
        socket.bind(&at.into())?;
        let port = if wanted.transport == Transport::Tcp {
            socket.listen(16)?;
            Port::Tcp(socket.into())
        } else {
            Port::Udp(socket.into())
        };
        let bound = match &port {
            Port::Tcp(l) => l.local_addr()?,
            Port::Udp(u) => u.local_addr()?,
        };
        Ok((port, bound))
    };
    made().map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => "in use by another service at the server".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "the server may not open ports below 1024: it needs CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => format!("the server cannot open it: {e}"),
    })
}

fn keep_syn(socket: &Socket) -> io::Result<()> {
    let on = 1i32;
    // SAFETY: the option takes an int, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_SAVE_SYN,
            (&raw const on).cast(),
            size_of::<i32>() as u32,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The headers of the packet that began this connection; empty where the kernel has none.
fn saved_syn(stream: &TcpStream) -> Vec<u8> {
    let mut buf = [0u8; 200];
    let mut len = buf.len() as u32;
    // SAFETY: the kernel writes at most `len` bytes, which is the length of `buf`, and says how many.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_SAVED_SYN,
            buf.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done == 0 {
        buf[..(len as usize).min(buf.len())].to_vec()
    } else {
        Vec::new()
    }
}

impl Open<'_> {
    fn run(
        &mut self,
        stream: &TcpStream,
        until: i64,
        flow: &mut FlowPermit,
        shared: &Shared,
    ) -> io::Result<End> {
        let (mut said, mut orders) = (Vec::new(), 0);
        loop {
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            if mono_ns() >= until {
                return Ok(End::TimeUp);
            }
            self.wait(stream);
            self.take();
            self.serve_calls();
            if !flow.spend(self.sent) {
                return Ok(End::Enough);
            }
            let mut buf = [0; 4096];
            stream.set_nonblocking(true)?;
            let heard = { stream }.read(&mut buf);
            stream.set_nonblocking(false)?;
            match heard {
                Ok(0) => return Ok(End::PeerClosed),
                Ok(n) => said.extend_from_slice(&buf[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Ok(End::Failed(e)),
            }
            while let Some((order, len)) = Order::decode(&said).map_err(io::Error::other)? {
                said.drain(..len);
                orders += 1;
                if orders > MOST_ORDERS {
                    return Ok(End::Enough);
                }
                let answer = self.obey(order).encode();
                self.sent += answer.len() as u64;
                let by = mono_ns() + TAKEN_WITHIN.as_nanos() as i64;
                write_all(stream, &answer, by, shared)?;
            }
        }
    }

    /// Until something happens, but not for long: calls have their times too.
    fn wait(&self, stream: &TcpStream) {
        let mut fds = vec![PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        for port in self.ports.iter().flatten() {
            let fd = match port {
                Port::Tcp(l) => l.as_fd(),
                Port::Udp(u) => u.as_fd(),
            };
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        for call in &self.calls {
            // One that has its answer is only waited for.
            if !call.answered {
                fds.push(PollFd::new(call.stream.as_fd(), PollFlags::POLLIN));
            }
        }
        let _ = poll(&mut fds, PollTimeout::from(50u8));
    }

    fn arrival(&mut self, arrival: Arrival) -> Option<usize> {
        if self.arrivals.len() >= MOST_ARRIVALS {
            return None;
        }
        self.arrivals.push(arrival);
        Some(self.arrivals.len() - 1)
    }

    fn take(&mut self) {
        for i in 0..self.ports.len() {
            match self.ports[i].take() {
                Some(Port::Tcp(listener)) => {
                    while let Ok((stream, from)) = listener.accept() {
                        self.called(i, stream, canonical(from));
                    }
                    self.ports[i] = Some(Port::Tcp(listener));
                }
                Some(Port::Udp(socket)) => {
                    let mut buf = [0; 65536];
                    while let Ok((n, from)) = socket.recv_from(&mut buf) {
                        self.came(i, &socket, &buf[..n], from);
                    }
                    self.ports[i] = Some(Port::Udp(socket));
                }
                None => {}
            }
        }
    }

    fn shows_token(&self, bytes: &[u8]) -> bool {
        // As it is, or written out, where what carries it is text.
        let text: String = self.token.iter().map(|b| format!("{b:02x}")).collect();
        bytes.windows(TOKEN_LEN).any(|w| w == self.token)
            || bytes.windows(text.len()).any(|w| w == text.as_bytes())
    }

    fn came(&mut self, listener: usize, socket: &UdpSocket, bytes: &[u8], from: SocketAddr) {
        let known = self.shows_token(bytes);
        if known {
            self.shown.insert(canonical(from));
        }
        let answer = &self.wanted[listener].answer;
        let mut answered = false;
        if known && !answer.is_empty() {
            answered = socket.send_to(answer, from).is_ok();
            self.sent += answer.len() as u64;
        }
        self.arrival(Arrival {
            listener: listener as u32,
            from: Some(canonical(from)),
            len: bytes.len() as u32,
            bytes: bytes[..bytes.len().min(MOST_BYTES)].to_vec(),
            syn: Vec::new(),
            answered,
        });
    }

    fn called(&mut self, listener: usize, stream: TcpStream, from: SocketAddr) {
        let arrival = self.arrival(Arrival {
            listener: listener as u32,
            from: Some(from),
            syn: saved_syn(&stream),
            ..Arrival::default()
        });
        let ready = stream.set_nonblocking(true).is_ok();
        if let (Some(arrival), true, true) = (arrival, ready, self.calls.len() < MOST_CALLS) {
            let now = mono_ns();
            self.calls.push(Call {
                stream,
                listener,
                arrival,
                began: now,
                latest: now,
                have: Vec::new(),
                answered: false,
            });
        }
    }

    fn serve_calls(&mut self) {
        let now = mono_ns();
        let calls = std::mem::take(&mut self.calls);
        for mut call in calls {
            if self.serve_call(&mut call, now) && now - call.began < CALL_NS {
                self.calls.push(call);
            }
        }
    }

    /// Whether there is more to be done for it.
    fn serve_call(&mut self, call: &mut Call, now: i64) -> bool {
        let mut buf = [0; 4096];
        let mut over = false;
        loop {
            match call.stream.read(&mut buf) {
                Ok(0) => {
                    over = true;
                    break;
                }
                Ok(n) => {
                    call.latest = now;
                    let arrival = &mut self.arrivals[call.arrival];
                    arrival.len = arrival.len.saturating_add(n as u32);
                    let room = MOST_BYTES.saturating_sub(call.have.len());
                    call.have.extend_from_slice(&buf[..n.min(room)]);
                    arrival.bytes.clone_from(&call.have);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if call.answered {
            return !over;
        }
        let wanted = &self.wanted[call.listener];
        let enough = call.have.len() >= (wanted.expect as usize).clamp(1, MOST_BYTES);
        if !enough && !over && now - call.latest < PAUSE_NS {
            return true;
        }
        if !call.have.is_empty() && self.shows_token(&call.have) && !wanted.answer.is_empty() {
            // Two kilobytes go into the buffer of a fresh connection at once.
            let whole = call.stream.write(&wanted.answer).ok() == Some(wanted.answer.len());
            self.arrivals[call.arrival].answered = whole;
            self.sent += wanted.answer.len() as u64;
        }
        if call.have.is_empty() && !over {
            return true;
        }
        call.answered = true;
        let _ = call.stream.shutdown(std::net::Shutdown::Write);
        !over
    }

    fn obey(&mut self, order: Order) -> Response {
        match order {
            Order::Report => Response::Arrivals(self.arrivals.clone()),
            Order::Send {
                listener,
                to,
                bytes,
            } => {
                let Some(Some(Port::Udp(socket))) = self.ports.get(listener as usize) else {
                    return Response::Refused {
                        why: Refusal::Malformed,
                        text: format!("no UDP port {listener} is open"),
                    };
                };
                if !self.shown.contains(&to) {
                    return Response::Refused {
                        why: Refusal::Malformed,
                        text: format!("{to} has not shown the token"),
                    };
                }
                self.sent += bytes.len() as u64;
                match socket.send_to(&bytes, to) {
                    Ok(_) => Response::Ready,
                    Err(e) => Response::Refused {
                        why: Refusal::Failed,
                        text: format!("cannot send to {to}: {e}"),
                    },
                }
            }
        }
    }
}
