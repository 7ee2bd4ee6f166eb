//! Ports that are opened for a while at a client's request: the sockets of a [`Post`], which decides what is kept and
//! what is answered.
//!
//! One thread serves them all and the connection of the request, whose end closes them. Ports are opened only if the
//! operator allows them (`tailback serve --allow-listen`), and only at addresses of the interface that the client's
//! connection came in by.

use super::Shared;
use super::connection::{finish, refuse};
use super::line::{Heard, Line};
use super::ports::PortSet;
use super::quota::{FlowPermit, Permit, Use};
use crate::clock::mono_ns;
use crate::load::ceiling::HEADERS;
use crate::load::kernel::random_bytes;
use crate::load::pump::End;
use crate::outlet::Outlet;
use crate::quic;
use crate::quotes::Quotes;
use crate::segments::Segments;
use crate::sys::option;
use crate::timestamp::{enable_headers, receive, set_hops, set_tos, set_whole};
use base::Duration;
use base::record::Direction;
use experiment::middlebox::messages;
use measure::control::listen::{
    Answer, LONGEST, Listening, MOST_BYTES, MOST_ORDERS, MOST_QUOTES, Opened, Order, Place, Quoted,
    Transport, Wanted,
};
use measure::control::post::Post;
use measure::control::{Ended, FlowSpec, Refusal, Response};
use measure::quote::{Quote, UDP};
use measure::segment::{Seen, TCP};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Time within which a report has to be taken, even over GPRS.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// Silence after which a connection is answered with the bytes so far.
const PAUSE_NS: i64 = 1_000_000_000;
/// Time after which a connection to one of the ports is closed in any case.
const CALL_NS: i64 = 20_000_000_000;
/// Greatest number of connections to the ports.
const MOST_CALLS: usize = 32;
/// Greatest number of open ports for all clients together: each takes a descriptor.
const MOST_PORTS: usize = 256;
/// Greatest number of descriptors that the ports take, with connections to them.
pub const MOST_DESCRIPTORS: usize = MOST_PORTS + 4 * MOST_CALLS;
/// Greatest number of ports for QUIC of one request: each takes a thread.
const MOST_QUIC: usize = 2;
/// Number of ports that are tried if any will do.
const TRIES: u32 = 64;
/// Longest datagram that is read; a longer one counts as this long.
const MOST_READ: usize = 16 << 10;
/// Socket option of linux/tcp.h: keep the headers of the packet that began a connection, and return them.
const TCP_SAVE_SYN: i32 = 27;
const TCP_SAVED_SYN: i32 = 28;

enum Port {
    Tcp(TcpListener),
    Udp(UdpSocket),
    Segments(Segments),
}

/// Connection to one of the ports.
struct Call {
    stream: TcpStream,
    listener: usize,
    from: SocketAddr,
    arrival: Option<usize>,
    began: i64,
    latest: i64,
    have: Vec<u8>,
    len: u32,
    answered: bool,
}

struct Open {
    post: Post,
    ports: Vec<Option<Port>>,
    calls: Vec<Call>,
    /// TOS bytes of the ports' sockets.
    tos: Vec<u8>,
    buf: Vec<u8>,
    sent: u64,
    quotes: Option<Quotes>,
}

/// Ports reserved among those of the whole server, until this is dropped.
struct Reserved<'a> {
    all: &'a AtomicUsize,
    count: usize,
}

impl Reserved<'_> {
    fn take(all: &AtomicUsize, count: usize) -> Option<Reserved<'_>> {
        let room = |n: usize| (n + count <= MOST_PORTS).then_some(n + count);
        let taken = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        taken.ok().map(|_| Reserved { all, count })
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Serves one such request to its end.
pub fn serve(
    stream: &Line,
    permit: &Permit,
    spec: &FlowSpec,
    wanted: &[Wanted],
    shared: &Shared,
) -> io::Result<()> {
    if shared.allow_listen.is_empty() {
        let text = "this server opens no further ports: its operator can allow some with `tailback serve --allow-listen PORTS`";
        return refuse(stream, (Refusal::Forbidden, text.into()), shared);
    }
    let Some(_reserved) = Reserved::take(&shared.ports_open, wanted.len()) else {
        let text = format!(
            "this server holds {MOST_PORTS} ports open for its clients already: try again in a minute"
        );
        return refuse(stream, (Refusal::Busy, text), shared);
    };
    // Ports that send datagrams for requests load the uplink, as downloads do: one client at a time.
    let fills = |w: &Wanted| matches!(w.answer, Answer::Pull | Answer::Quic);
    let quic = wanted.iter().filter(|w| w.answer == Answer::Quic).count();
    if quic > MOST_QUIC {
        let text = format!("{quic} ports for QUIC were asked for, and {MOST_QUIC} are the limit");
        return refuse(stream, (Refusal::Malformed, text), shared);
    }
    let usage = match wanted.iter().any(fills) {
        true => (Direction::Down, Use::Datagrams),
        false => (Direction::Up, Use::Listen),
    };
    let mut flow = match shared.quota.flow(permit, spec, usage.0, usage.1) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let (here, peer) = (stream.local_addr()?, canonical(stream.peer_addr()?));
    let addresses = addresses(here.ip().to_canonical());
    let mut ports = Vec::new();
    let opened = wanted
        .iter()
        .map(
            |one| match open(one, here, &addresses, &shared.allow_listen) {
                Ok((port, at)) => {
                    ports.push(Some(port));
                    Opened::At(at)
                }
                Err(why) => {
                    ports.push(None);
                    Opened::Not(why)
                }
            },
        )
        .collect();
    let token = random_bytes();
    let mut open = Open {
        post: Post::new(
            token,
            random_bytes(),
            peer.ip(),
            wanted.to_vec(),
            messages::answer,
        ),
        tos: vec![0; ports.len()],
        ports,
        calls: Vec::new(),
        buf: vec![0; MOST_READ],
        sent: 0,
        quotes: None,
    };
    // Not the longest flow: an open port carries hardly anything.
    let duration = spec.duration.min(LONGEST);
    let listening = Response::Listening(Listening {
        token,
        from: peer,
        duration,
        addresses,
        opened,
    });
    let began = mono_ns();
    shared.counters.flows.fetch_add(1, Ordering::Relaxed);
    let by = began + TAKEN_WITHIN.as_nanos() as i64;
    stream.say(&listening, by, shared)?;
    let until = began + duration.as_nanos() as i64;
    let end = open.run_all(stream, until, &mut flow, shared);
    let foreign = open.post.foreign();
    shared
        .counters
        .foreign
        .fetch_add(foreign, Ordering::Relaxed);
    let end = end?;
    flow.with_report(|r| r.ended = Ended::TimeUp);
    finish(stream, &flow, &end, shared)
}

pub(super) fn canonical(a: SocketAddr) -> SocketAddr {
    SocketAddr::new(a.ip().to_canonical(), a.port())
}

/// Reach of an address: from elsewhere a private one is useless.
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

/// Addresses of the interface that has `here`, of the same reach. Those of the other family may reach farther or less
/// far, down to the interface's own site; they are sorted by reach, farthest first.
fn addresses(here: IpAddr) -> Vec<IpAddr> {
    let Ok(all) = nix::ifaddrs::getifaddrs() else {
        return vec![here];
    };
    let all: Vec<(String, IpAddr)> = all
        .filter_map(|i| {
            let storage = i.address?;
            let v4 = storage.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            let ip = v4.or_else(|| storage.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))?;
            Some((i.interface_name, ip))
        })
        .collect();
    of_interface(here, &all)
}

fn of_interface(here: IpAddr, all: &[(String, IpAddr)]) -> Vec<IpAddr> {
    let has_it = |name: &String| all.iter().any(|(n, ip)| n == name && *ip == here);
    let mut found: Vec<IpAddr> = all
        .iter()
        .filter(|(name, _)| has_it(name))
        .map(|(_, ip)| *ip)
        .filter(|ip| {
            let other = ip.is_ipv4() != here.is_ipv4() && reach(here) != Reach::Host;
            reach(*ip) == reach(here) || other && reach(*ip) >= Reach::Site
        })
        .collect();
    found.push(here);
    found.sort_unstable_by_key(|ip| (std::cmp::Reverse(reach(*ip)), *ip));
    found.dedup();
    found
}

/// Opens one port: the requested one, or any that is allowed and free.
fn open(
    wanted: &Wanted,
    here: SocketAddr,
    all: &[IpAddr],
    allowed: &PortSet,
) -> Result<(Port, SocketAddr), String> {
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
    let ip = found.ok_or("the server has no such address on the interface of this session")?;
    if wanted.port != 0 && !allowed.contains(wanted.port) {
        return Err(format!(
            "the server's operator does not allow it (--allow-listen {allowed})"
        ));
    }
    let mut tries = if wanted.port == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let port = match wanted.port {
            0 => allowed.draw(u64::from_ne_bytes(random_bytes())),
            given => given,
        };
        let at = SocketAddr::new(ip, port);
        let done = match wanted.answer {
            Answer::Segments => segments_at(wanted.transport, at),
            _ => open_at(wanted.transport, at),
        };
        match done {
            Err(_) if tries > 0 => {}
            done => return done.map_err(|e| cannot_open(&e)),
        }
    }
}

/// Opens a port for hand-made segments.
fn segments_at(transport: Transport, at: SocketAddr) -> io::Result<(Port, SocketAddr)> {
    if transport != Transport::Tcp {
        return Err(io::Error::other("segments are of TCP"));
    }
    let segments = Segments::open(at, &Outlet::default())?;
    let local = segments.local();
    Ok((Port::Segments(segments), local))
}

fn cannot_open(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::AddrInUse => "in use by another service at the server".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "the server may not open ports below 1024: it needs CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => format!("the server cannot open it: {e}"),
    }
}

fn open_at(transport: Transport, at: SocketAddr) -> io::Result<(Port, SocketAddr)> {
    let (kind, protocol) = match transport {
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if transport == Transport::Tcp {
        // Connections of the request before linger for a minute.
        socket.set_reuse_address(true)?;
        // Older kernels keep none, and then there is none to be had.
        let _ = keep_syn(&socket);
    } else {
        // What is told to be sent in pieces is.
        set_whole(socket.as_raw_fd(), at.is_ipv6(), false)?;
        enable_headers(socket.as_raw_fd(), at.is_ipv6(), false)?;
    }
    socket.bind(&at.into())?;
    let port = if transport == Transport::Tcp {
        socket.listen(16)?;
        Port::Tcp(socket.into())
    } else {
        Port::Udp(socket.into())
    };
    let bound = match &port {
        Port::Tcp(l) => l.local_addr()?,
        Port::Udp(u) => u.local_addr()?,
        Port::Segments(s) => s.local(),
    };
    Ok((port, bound))
}

fn keep_syn(socket: &Socket) -> io::Result<()> {
    option::set_int(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_SAVE_SYN, 1)
}

/// Headers of the packet that began this connection; empty if the kernel has none.
fn saved_syn(stream: &TcpStream) -> Vec<u8> {
    let mut buf = [0u8; 200];
    let fd = stream.as_raw_fd();
    match option::get(fd, libc::IPPROTO_TCP, TCP_SAVED_SYN, &mut buf) {
        Ok(len) => buf[..len].to_vec(),
        Err(_) => Vec::new(),
    }
}

/// Ends the threads of ports for QUIC when dropped.
struct Closing<'a>(&'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Open {
    /// Serves all ports: those for QUIC each in a thread, the others in this one.
    fn run_all(
        &mut self,
        stream: &Line,
        until: i64,
        flow: &mut FlowPermit,
        shared: &Shared,
    ) -> io::Result<End> {
        let is_quic = |i: &usize| self.post.wanted()[*i].answer == Answer::Quic;
        let numbers: Vec<usize> = (0..self.ports.len()).filter(is_quic).collect();
        let sockets: Vec<Port> = numbers
            .into_iter()
            .filter_map(|i| self.ports[i].take())
            .collect();
        let moved: Vec<AtomicU64> = sockets.iter().map(|_| AtomicU64::new(0)).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _closing = Closing(&over);
            for (port, moved) in sockets.into_iter().zip(&moved) {
                let Port::Udp(socket) = port else { continue };
                let service = quic::Service {
                    socket,
                    client: self.post.client(),
                    token: *self.post.token(),
                    tls: shared.tls.as_ref().map(|t| t.config.clone()),
                    ceiling: &shared.ceiling,
                    moved,
                    over: &over,
                };
                std::thread::Builder::new().spawn_scoped(scope, || quic::serve(service))?;
            }
            self.run(stream, (until, &moved), flow, shared)
        })
    }

    fn run(
        &mut self,
        stream: &Line,
        (until, quic): (i64, &[AtomicU64]),
        flow: &mut FlowPermit,
        shared: &Shared,
    ) -> io::Result<End> {
        let mut orders = 0;
        loop {
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            if mono_ns() >= until {
                return Ok(End::TimeUp);
            }
            self.wait(stream);
            self.take(flow, shared);
            self.serve_calls();
            let quic: u64 = quic.iter().map(|m| m.load(Ordering::Relaxed)).sum();
            if !flow.spend(self.sent + quic) {
                return Ok(End::Enough);
            }
            loop {
                let order = match stream.heard() {
                    Ok(Heard::Frame(frame)) => Order::decode(&frame).map_err(io::Error::other)?,
                    Ok(Heard::Nothing) => break,
                    Ok(Heard::PeerClosed) => return Ok(End::PeerClosed),
                    Err(e) => return Ok(End::Failed(e)),
                };
                orders += 1;
                if orders > MOST_ORDERS {
                    return Ok(End::Enough);
                }
                let by = mono_ns() + TAKEN_WITHIN.as_nanos() as i64;
                self.sent += stream.say(&self.obey(order), by, shared)?;
            }
        }
    }

    /// Waits until something happens, for a short time at most: calls have deadlines too.
    fn wait(&self, stream: &TcpStream) {
        let mut fds = vec![PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        for port in self.ports.iter().flatten() {
            let fd = match port {
                Port::Tcp(l) => l.as_fd(),
                Port::Udp(u) => u.as_fd(),
                Port::Segments(s) => s.as_fd(),
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

    /// Takes arrivals, at most a fixed number of each port: a flood there does not keep the others waiting.
    fn take(&mut self, flow: &mut FlowPermit, shared: &Shared) {
        const AT_ONCE: usize = 64;
        for i in 0..self.ports.len() {
            match &self.ports[i] {
                Some(Port::Tcp(listener)) => {
                    let come: Vec<_> = std::iter::from_fn(|| listener.accept().ok())
                        .take(AT_ONCE)
                        .collect();
                    for (stream, from) in come {
                        self.called(i, stream, canonical(from));
                    }
                }
                Some(Port::Udp(socket)) => {
                    for _ in 0..AT_ONCE {
                        let Ok(got) = receive(socket.as_raw_fd(), &mut self.buf) else {
                            break;
                        };
                        let Some(from) = got.from else { continue };
                        let bytes = &self.buf[..got.len];
                        let at_ns = mono_ns().unsigned_abs();
                        if let Some((pulled, tos)) = self.post.pull(i, from, bytes, at_ns) {
                            // A hundred datagrams of a load must not outlast its budget.
                            if !flow.spend(self.sent + pulled.len() as u64) {
                                return;
                            }
                            // Beyond the server's limit on its rate, datagrams are lost as on a slower link.
                            let now = mono_ns();
                            if shared.ceiling.wait_ns(now) > 0 {
                                continue;
                            }
                            shared.ceiling.book(now, pulled.len() as u64 + HEADERS);
                            if self.tos[i] != tos {
                                let v6 = from.is_ipv6();
                                self.tos[i] = match set_tos(socket.as_raw_fd(), v6, tos) {
                                    Ok(()) => tos,
                                    Err(_) => continue,
                                };
                            }
                            let _ = socket.send_to(&pulled, from);
                            self.sent += pulled.len() as u64;
                        } else if let Some(answer) = self.post.datagram(i, (from, got.tos), bytes) {
                            // What this host does not send is lost, as on the way.
                            let _ = socket.send_to(&answer, from);
                            self.sent += answer.len() as u64;
                        }
                    }
                }
                Some(Port::Segments(segments)) => {
                    for (from, tos, bytes) in std::iter::from_fn(|| segments.take()).take(AT_ONCE) {
                        self.post.segment(i, from, tos, &bytes);
                    }
                }
                None => {}
            }
        }
    }

    fn called(&mut self, listener: usize, stream: TcpStream, from: SocketAddr) {
        let arrival = self.post.call(listener, from, saved_syn(&stream));
        let ready = stream.set_nonblocking(true).is_ok();
        if ready && self.calls.len() < MOST_CALLS {
            let now = mono_ns();
            self.calls.push(Call {
                stream,
                listener,
                from,
                arrival,
                began: now,
                latest: now,
                have: Vec::new(),
                len: 0,
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

    /// True if the call needs further service.
    fn serve_call(&mut self, call: &mut Call, now: i64) -> bool {
        let mut over = false;
        // Bounded, so that one that never stops sending does not keep the others waiting.
        for _ in 0..16 {
            match call.stream.read(&mut self.buf) {
                Ok(0) => {
                    over = true;
                    break;
                }
                Ok(n) => {
                    call.latest = now;
                    call.len = call.len.saturating_add(n as u32);
                    let room = MOST_BYTES.saturating_sub(call.have.len());
                    call.have.extend_from_slice(&self.buf[..n.min(room)]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if call.answered {
            return !over;
        }
        let expect = self
            .post
            .wanted()
            .get(call.listener)
            .map_or(0, |w| w.expect);
        let enough = call.have.len() >= (expect as usize).clamp(1, MOST_BYTES);
        if !enough && !over && now - call.latest < PAUSE_NS {
            return true;
        }
        let place = (call.listener, &mut call.arrival);
        let answer = self
            .post
            .answer_call(place, call.from, &call.have, call.len);
        if let Some(answer) = answer {
            // The buffer of a fresh connection takes it at once.
            let _ = call.stream.write(&answer);
            self.sent += answer.len() as u64;
        }
        if call.have.is_empty() && !over {
            return true;
        }
        call.answered = true;
        let _ = call.stream.shutdown(std::net::Shutdown::Write);
        !over
    }

    /// Quotes of datagrams from the client's ports; those of others belong to nobody here.
    fn quoted(&mut self) -> Quoted {
        let quotes = match &mut self.quotes {
            Some(quotes) => quotes,
            none => match Quotes::open() {
                Ok(quotes) => none.insert(quotes),
                Err(why) => {
                    return Quoted {
                        closed: Some(why),
                        ..Quoted::default()
                    };
                }
            },
        };
        let own = |protocol: u8, of: u16| {
            self.ports.iter().flatten().any(|port| match port {
                Port::Udp(socket) => {
                    protocol == UDP && socket.local_addr().is_ok_and(|a| a.port() == of)
                }
                Port::Segments(segments) => protocol == TCP && segments.local().port() == of,
                Port::Tcp(_) => false,
            })
        };
        let mut quotes = quotes.take();
        let client = self.post.client();
        let source = |q: &Quote| match q.protocol {
            TCP => Seen::read(&q.rest).map(|s| s.from),
            _ => q.udp().map(|u| u.from),
        };
        quotes.retain(|q| match source(q) {
            Some(from) => own(q.protocol, from),
            None => q.to == client,
        });
        quotes.truncate(MOST_QUOTES);
        Quoted {
            closed: None,
            quotes,
        }
    }

    fn obey(&mut self, order: Order) -> Response {
        let malformed = |text| Response::Refused {
            why: Refusal::Malformed,
            text,
        };
        let (listener, to, cookie, number, len, marking) = match order {
            Order::Segment {
                listener,
                to,
                form,
                number,
                tos,
                hops,
            } => {
                let port = usize::try_from(listener).ok();
                let port = port.and_then(|i| self.ports.get(i)?.as_ref());
                let Some(Port::Segments(segments)) = port else {
                    return malformed(format!("no port {listener} for segments is open"));
                };
                let own = segments.local().port();
                let sending = self.post.order_segment(listener, own, to, (form, number));
                let sending = match sending {
                    Ok(sending) => sending,
                    Err(why) => return malformed(why),
                };
                self.sent += sending.bytes.len() as u64;
                let marking = (tos, Some(hops).filter(|h| *h > 0));
                return match segments.send(sending.to, &sending.bytes, marking) {
                    Ok(()) => Response::Ready,
                    Err(e) => cannot_send(to, &e),
                };
            }
            Order::Report => return Response::Arrivals(self.post.arrivals().to_vec()),
            Order::Quotes => return Response::Quotes(self.quoted()),
            Order::Send {
                listener,
                to,
                cookie,
                number,
                len,
                tos,
                hops,
            } => (listener, to, cookie, number, len, (tos, hops)),
        };
        let sending = match self.post.send(listener, to, &cookie, (number, len)) {
            Ok(sending) => sending,
            Err(why) => return malformed(why),
        };
        let Some(Some(Port::Udp(socket))) = self.ports.get(sending.listener) else {
            return malformed(format!("UDP port {listener} could not be opened"));
        };
        self.sent += sending.bytes.len() as u64;
        self.tos[sending.listener] = 0;
        match send_marked(socket, &sending.bytes, sending.to, marking) {
            Ok(()) => Response::Ready,
            Err(e) => cannot_send(to, &e),
        }
    }
}

fn cannot_send(to: SocketAddr, e: &io::Error) -> Response {
    Response::Refused {
        why: Refusal::Failed,
        text: format!("cannot send to {to}: {e}"),
    }
}

/// Sends a datagram with this TOS byte and hop limit; later ones have the system's again.
fn send_marked(
    socket: &UdpSocket,
    bytes: &[u8],
    to: SocketAddr,
    (tos, hops): (u8, u8),
) -> io::Result<()> {
    let (fd, v6) = (socket.as_raw_fd(), to.is_ipv6());
    let mark = |tos, hops| set_tos(fd, v6, tos).and_then(|()| set_hops(fd, v6, hops));
    mark(tos, Some(hops).filter(|h| *h > 0))?;
    let sent = socket.send_to(bytes, to);
    mark(0, None)?;
    sent.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_sessions_interface_are_offered() {
        let ip = |s: &str| s.parse::<IpAddr>().expect("an address");
        let all: Vec<(String, IpAddr)> = [
            ("lo", "127.0.0.1"),
            ("lo", "::1"),
            ("wan", "192.0.2.1"),
            ("wan", "192.0.2.2"),
            ("wan", "2001:db8::1"),
            ("wan", "fe80::1"),
            ("lan", "10.0.0.1"),
            ("lan", "203.0.113.9"),
            ("lan", "2001:db8:1::1"),
        ]
        .map(|(name, a)| (name.to_owned(), ip(a)))
        .to_vec();
        let found = of_interface(ip("192.0.2.1"), &all);
        let expected = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(ip);
        assert_eq!(found, expected);
        assert_eq!(
            of_interface(ip("127.0.0.1"), &all),
            ["127.0.0.1", "::1"].map(ip)
        );
        // An address that no interface has, such as 127.0.0.2, stands for itself.
        assert_eq!(of_interface(ip("127.0.0.2"), &all), [ip("127.0.0.2")]);
    }

    #[test]
    fn the_server_holds_a_bounded_number_of_ports_open() {
        let all = AtomicUsize::new(0);
        let first = Reserved::take(&all, MOST_PORTS - 1).expect("room");
        assert!(Reserved::take(&all, 2).is_none());
        assert!(Reserved::take(&all, 1).is_some());
        drop(first);
        assert!(Reserved::take(&all, MOST_PORTS).is_some());
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
