//! Server: one port, with load and control over TCP and the reflector of probes over UDP.
//!
//! A thread accepts connections, each connection has a thread of its own, and none of them outlives its deadline: a
//! request has to come within seconds, a flow ends at its granted time, one that stalls ends sooner.

mod admission;
mod capture;
mod connection;
mod datagrams;
mod guests;
mod iperf3;
pub mod journal;
mod kept;
pub mod keys;
mod line;
mod listeners;
pub mod metrics;
mod networks;
mod ports;
mod promises;
mod quota;
mod shared;
mod sync;
mod tls;
mod train;
pub mod udp;
mod uplink;
mod web;

pub use guests::{Guest, Protocol};
pub use keys::{Keys, KeysError};
pub use networks::Network;
pub use ports::PortSet;
pub use quota::{Budgets, Holds};
pub use tls::{Tls, TlsError, TlsKey};
pub use web::{
    AcmeConfig, Authority, Counts as WebCounts, File, Keep, Keeper, SiteName, WebConfig, WebGuests,
};

use crate::clock::Clock;
use crate::load::ceiling::Ceiling;
use crate::load::kernel::choose_congestion;
use crate::privileges::{Kept, PrivilegeError, Target};
use base::BitsPerSec;
use datagrams::Inboxes;
use journal::{Entry, Journal};
use keys::Ring;
use measure::control::Refusal;
use measure::keys::Pin;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use promises::Promises;
use quota::Quota;
use shared::{Counters, FULL, NOT_ALLOWED, Shared};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use sync::lock;

#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Addresses to listen on, over UDP and TCP. Sockets belong to the network namespace of the thread
    /// that starts the server.
    pub listen: Vec<SocketAddr>,
    /// Keys of the users who are served; without them everybody is served.
    pub keys: Option<Keys>,
    /// Key of the server's TLS.
    pub tls: TlsKey,
    /// True to refuse control messages outside TLS.
    pub tls_only: bool,
    pub budgets: Budgets,
    /// Budget of probes.
    pub probe_budget: measure::reflector::Budget,
    /// Networks whose clients are served; all if there is none.
    pub allow: Vec<Network>,
    /// Ports that it opens for a while at a client's request; none by default.
    pub allow_listen: PortSet,
    /// True if clients may have their own packets captured.
    pub allow_capture: bool,
    /// Upper limit on what the server sends and asks for, both directions combined.
    pub max_rate: Option<BitsPerSec>,
    /// Upper limit on the sum of all UDP load and trains.
    pub max_udp_rate: BitsPerSec,
    /// Ports for the clients of other tools; none by default.
    pub guests: Vec<Guest>,
    /// Site for browsers; none by default.
    pub web: Option<WebConfig>,
    /// User to become once the ports are open.
    pub user: Option<Target>,
    /// Receiver of the log.
    pub log: Option<SyncSender<Entry>>,
}

/// Default of [`ServeConfig::max_udp_rate`].
pub const MAX_UDP_RATE: BitsPerSec = BitsPerSec::from_mbps(10_000);

impl Default for ServeConfig {
    /// Default: all addresses of both families, on the usual port, for everybody.
    fn default() -> ServeConfig {
        ServeConfig {
            listen: vec![(Ipv6Addr::UNSPECIFIED, measure::control::DEFAULT_PORT).into()],
            keys: None,
            tls: TlsKey::Off,
            tls_only: false,
            budgets: Budgets::default(),
            probe_budget: measure::reflector::Budget::default(),
            allow: Vec::new(),
            allow_listen: PortSet::default(),
            allow_capture: false,
            max_rate: None,
            max_udp_rate: MAX_UDP_RATE,
            guests: Vec::new(),
            web: None,
            user: None,
            log: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "cannot listen on {addr} ({protocol}): the port is in use. Stop what listens there (ss -lnp shows it), or choose another port"
    )]
    InUse {
        addr: SocketAddr,
        protocol: &'static str,
    },
    #[error(
        "cannot listen on {addr} ({protocol}): permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one"
    )]
    Permission {
        addr: SocketAddr,
        protocol: &'static str,
    },
    #[error(
        "cannot listen on {addr}: this host has no such address. `ip address` lists what it has"
    )]
    NoSuchAddress { addr: SocketAddr },
    #[error("cannot listen on {addr} ({protocol}): {source}")]
    Listen {
        addr: SocketAddr,
        protocol: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("no address to listen on was given")]
    Nowhere,
    #[error("cannot set up the reflector of probes: {0}")]
    Reflector(#[source] io::Error),
    #[error("cannot start a thread of the server: {0}")]
    Thread(#[source] io::Error),
}

/// Counts of a server so far.
#[derive(Clone, Debug, Default)]
pub struct ServerStats {
    pub connections: u64,
    pub refused: u64,
    pub flows: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Datagrams and connections of other hosts at ports that were open for clients.
    pub foreign: u64,
    /// Requests with an unknown key.
    pub wrong_keys: u64,
    /// Bytes that each user with a key has moved in the current hour.
    pub users: Vec<(Arc<str>, u64)>,
    /// TLS handshakes that were started.
    pub tls_handshakes: u64,
    /// True while the key file has a fault or cannot be read.
    pub key_file_faulty: bool,
    /// Sessions that ended and refusals.
    pub counts: journal::Counts,
    pub log_left_out: u64,
    pub holds: Holds,
    /// Sum over all reflectors.
    pub probes: udp::Published,
    /// Counters of the ports for other tools' clients.
    pub guests: Vec<(Protocol, measure::guest::Counts)>,
    /// Counters of the site for browsers, if there is one.
    pub web: Option<WebCounts>,
    /// Bytes of load, trains and probes, both directions combined.
    pub moved_bytes: u64,
    pub max_rate: Option<BitsPerSec>,
}

/// Running server. Dropping it stops it.
pub struct Server {
    addrs: Vec<SocketAddr>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    reflectors: Vec<Arc<Mutex<udp::Published>>>,
    guests: Vec<(Guest, guests::Published)>,
    web: Option<(String, Arc<web::Site>)>,
    trouble: Arc<Mutex<Option<String>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// # Errors
    /// An address cannot be listened on; the message gives the remedy.
    pub fn start(config: ServeConfig) -> Result<Server, ServeError> {
        if config.listen.is_empty() {
            return Err(ServeError::Nowhere);
        }
        let ring = Ring::new(config.keys.as_ref())?;
        let tls = Tls::new(&config.tls)?;
        let budgets = within_descriptors(config.budgets, config.listen.len());
        let ports = config
            .listen
            .iter()
            .map(|addr| bind_port(*addr))
            .collect::<Result<Vec<_>, _>>()?;
        let guests = guests::bind(&config.guests)?;
        let site = config.web.as_ref().map(open_site).transpose()?;
        if let Some(user) = &config.user {
            user.become_it(Kept {
                low_ports: config.allow_listen.holds_below(1024),
                raw: config.allow_capture,
            })?;
        }
        let clock = Clock::start();
        let journal = Arc::new(Journal::new(config.log, clock));
        let mut server = Server {
            addrs: Vec::new(),
            shared: Arc::new(Shared {
                ring,
                tls,
                tls_only: config.tls_only,
                clock,
                stop: Arc::default(),
                allow: config.allow,
                allow_listen: config.allow_listen,
                allow_capture: config.allow_capture,
                capturing: Mutex::new(()),
                ports_open: AtomicUsize::new(0),
                quota: Quota::new(budgets, journal.clone()),
                ceiling: Ceiling::new(config.max_rate),
                promises: Promises::new(config.max_udp_rate, config.max_rate),
                journal,
                counters: Counters::default(),
                datagrams: Inboxes::default(),
                payload: OnceLock::new(),
                awake: train::Awake::default(),
            }),
            threads: Vec::new(),
            reflectors: Vec::new(),
            guests: Vec::new(),
            web: None,
            trouble: Arc::default(),
            notes: Arc::default(),
        };
        if config.keys.is_some() {
            let (shared, notes) = (server.shared.clone(), server.notes.clone());
            server.thread("serve-keys", move || {
                keys::watch(&shared, |note| lock(&notes).push(note));
                Ok(())
            })?;
        }
        for port in ports {
            server.serve(port, config.probe_budget)?;
        }
        for (guest, port) in guests {
            server.welcome(guest, port)?;
        }
        if let Some(bound) = site {
            server.offer(bound)?;
        }
        Ok(server)
    }

    /// Starts the threads of one port: control connections, probes, and UDP load.
    fn serve(&mut self, port: Port, budget: measure::reflector::Budget) -> Result<(), ServeError> {
        let clock = self.shared.clock;
        let Port {
            addr,
            tcp,
            probes,
            load,
        } = port;
        self.addrs.push(addr);
        let its = self.shared.clone();
        let tickets = its.tls.as_ref().map(|tls| tls.tickets.clone());
        let reflector = udp::reflector(budget, its.ring.users(), clock)
            .map_err(ServeError::Reflector)?
            .with_tickets(tickets)
            .with_accounts(Box::new(move |from, user| its.quota.account(from, user)));
        let load = Arc::new(load);
        let (shared, socket) = (self.shared.clone(), load.clone());
        self.thread("serve-tcp", move || {
            accept(&tcp, &socket, &shared);
            Ok(())
        })?;
        let published = Arc::<Mutex<udp::Published>>::default();
        self.reflectors.push(published.clone());
        let shared = self.shared.clone();
        self.thread("serve-udp", move || {
            let within = udp::Within {
                allow: &shared.allow,
                ceiling: &shared.ceiling,
                published: &published,
                ring: Some(&shared.ring),
            };
            udp::run_within(&probes, reflector, clock, &within, &shared.stop)
                .map(drop)
                .map_err(|e| format!("the reflector of probes on {addr} has failed: {e}"))
        })?;
        let shared = self.shared.clone();
        self.thread("serve-load", move || {
            datagrams::receive(&load, &shared.datagrams, &shared.stop)
                .map_err(|e| format!("the receiver of UDP load on {addr} has failed: {e}"))
        })?;
        Ok(())
    }

    /// Starts the thread of a port for the clients of another tool.
    fn welcome(&mut self, guest: Guest, port: guests::Port) -> Result<(), ServeError> {
        let published = guests::Published::default();
        self.guests.push((guest, published.clone()));
        let shared = self.shared.clone();
        self.thread("serve-guest", move || {
            guests::run(guest, port, &shared, &published).map_err(|e| {
                let name = guest.protocol.name();
                format!("the {name} server on {} has failed: {e}", guest.listen)
            })
        })
    }

    /// Starts the threads of the site for browsers.
    fn offer(&mut self, bound: web::Bound) -> Result<(), ServeError> {
        let url = bound.url();
        let (site, tasks) =
            web::start(bound, &self.shared, &self.notes).map_err(ServeError::Reflector)?;
        self.web = Some((url, site));
        for task in tasks {
            self.reflectors.push(task.published);
            self.thread(task.name, task.run)?;
        }
        Ok(())
    }

    fn thread(
        &mut self,
        name: &str,
        run: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<(), ServeError> {
        let trouble = self.trouble.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                if let Err(e) = run() {
                    *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                }
            })
            .map_err(ServeError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// First address it listens on; a port of `0` in the plan has become a real one.
    pub fn local_addr(&self) -> SocketAddr {
        self.addrs[0]
    }

    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Ports for the clients of other tools.
    pub fn guests(&self) -> impl Iterator<Item = Guest> {
        self.guests.iter().map(|(guest, _)| *guest)
    }

    /// Address of the site for browsers, if there is one.
    pub fn web(&self) -> Option<&str> {
        self.web.as_ref().map(|(url, _)| url.as_str())
    }

    pub fn stats(&self) -> ServerStats {
        let c = &self.shared.counters;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let (counts, log_left_out) = self.shared.journal.counts();
        let probes = self.reflectors.iter().map(|p| *lock(p));
        let guests = self.guests.iter();
        let guests = guests.map(|(guest, counts)| (guest.protocol, *lock(counts)));
        ServerStats {
            counts,
            log_left_out,
            holds: self.shared.quota.holds(),
            probes: probes.fold(udp::Published::default(), udp::Published::plus),
            guests: guests.collect(),
            web: self.web.as_ref().map(|(_, site)| site.counts()),
            moved_bytes: self.shared.ceiling.bytes(),
            max_rate: self.shared.ceiling.rate(),
            connections: get(&c.connections),
            refused: get(&c.refused),
            flows: get(&c.flows),
            bytes_sent: get(&c.bytes_sent),
            bytes_received: get(&c.bytes_received),
            foreign: get(&c.foreign),
            users: self.used(),
            key_file_faulty: self.shared.ring.is_faulty(),
            wrong_keys: get(&c.wrong_keys),
            tls_handshakes: get(&c.tls_handshakes),
        }
    }

    /// Fault of the server as a whole, if there is one; it continues as far as it can.
    pub fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// News for the operator since the last call: keys that were read again, or could not be.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notes))
    }

    /// Reads the key file again soon, even if it has not changed.
    pub fn reload(&self) {
        self.shared.ring.read_again();
    }

    /// Pin of the server's public key, if it speaks TLS.
    pub fn pin(&self) -> Option<Pin> {
        self.shared.tls.as_ref().map(|tls| tls.pin)
    }

    /// Bytes that each user has moved in the current hour, both directions combined.
    pub fn used(&self) -> Vec<(Arc<str>, u64)> {
        self.shared.quota.used()
    }

    /// Stops every flow and thread, within about a quarter of a second.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.quota.dismiss();
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lowers the number of connections to the limit of open files: a train's connection takes three descriptors, and ports
/// that are open for clients have their own.
fn within_descriptors(budgets: Budgets, ports: usize) -> Budgets {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let own = 64 + 8 * ports + listeners::MOST_DESCRIPTORS;
    let wanted = (own + 3 * budgets.connections) as u64;
    let allowed = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < wanted => {
            let more = wanted.min(hard);
            match setrlimit(Resource::RLIMIT_NOFILE, more, hard) {
                Ok(()) => more,
                Err(_) => soft,
            }
        }
        Ok((soft, _)) => soft,
        Err(_) => return budgets,
    };
    let room = usize::try_from(allowed)
        .unwrap_or(usize::MAX)
        .saturating_sub(own)
        / 3;
    Budgets {
        connections: budgets.connections.min(room.max(8)),
        ..budgets
    }
}

/// Sockets of one port: one of TCP, and two of UDP, between which the kernel divides.
struct Port {
    addr: SocketAddr,
    tcp: TcpListener,
    probes: UdpSocket,
    load: UdpSocket,
}

/// Binds the address; if any port will do, one that is free in both protocols.
fn bind_port(addr: SocketAddr) -> Result<Port, ServeError> {
    let mut tries = if addr.port() == 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::from(bind(addr, Bound::Tcp)?);
        let bound = tcp.local_addr().map_err(|e| listen_error(addr, "TCP", e))?;
        // The filter counts sockets in the order in which they were bound.
        let probes = match bind(bound, Bound::Shared) {
            Err(ServeError::InUse { .. }) if tries > 0 => continue,
            udp => UdpSocket::from(udp?),
        };
        let load = UdpSocket::from(bind(bound, Bound::Shared)?);
        datagrams::divide_port(&load).map_err(|e| listen_error(addr, "UDP", e))?;
        return Ok(Port {
            addr: bound,
            tcp,
            probes,
            load,
        });
    }
}

/// Binds the ports of the site for browsers; if any port will do, one that is free in both protocols.
fn open_site(config: &WebConfig) -> Result<web::Bound, ServeError> {
    let mut tries = if config.listen.port() == 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::from(bind(config.listen, Bound::Tcp)?);
        let listen = tcp
            .local_addr()
            .map_err(|e| listen_error(config.listen, "TCP", e))?;
        let udp = match bind(listen, Bound::Guest) {
            Err(ServeError::InUse { .. }) if tries > 0 => continue,
            udp => UdpSocket::from(udp?),
        };
        return Ok(web::Bound::new(listen, tcp, udp, config)?);
    }
}

/// Use of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Tcp,
    /// One of two UDP sockets of a port.
    Shared,
    /// The only UDP socket of a port.
    Guest,
}

fn bind(addr: SocketAddr, bound: Bound) -> Result<Socket, ServeError> {
    let tcp = bound == Bound::Tcp;
    let kind = if tcp { Type::STREAM } else { Type::DGRAM };
    let protocol = if tcp { "TCP" } else { "UDP" };
    let make = |addr: SocketAddr| -> io::Result<Socket> {
        let p = if tcp {
            socket2::Protocol::TCP
        } else {
            socket2::Protocol::UDP
        };
        let socket = Socket::new(Domain::for_address(addr), kind, Some(p))?;
        if addr.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        if tcp {
            // A restart must not wait for connections of the run before.
            socket.set_reuse_address(true)?;
            // Accepted sockets inherit it; one that changes later would keep the pacing of the one before.
            let _ = choose_congestion(SockRef::from(&socket), None);
            socket.set_nonblocking(true)?;
        } else if bound == Bound::Shared {
            // Nobody else can come in between: the TCP port is ours alone.
            socket.set_reuse_port(true)?;
        }
        socket.bind(&addr.into())?;
        if tcp {
            socket.listen(256)?;
        }
        Ok(socket)
    };
    match make(addr) {
        // A kernel without IPv6: all addresses are then those of IPv4.
        Err(e)
            if e.raw_os_error() == Some(libc::EAFNOSUPPORT)
                && addr.ip() == Ipv6Addr::UNSPECIFIED =>
        {
            make((std::net::Ipv4Addr::UNSPECIFIED, addr.port()).into())
        }
        other => other,
    }
    .map_err(|e| listen_error(addr, protocol, e))
}

fn listen_error(addr: SocketAddr, protocol: &'static str, source: io::Error) -> ServeError {
    match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { addr, protocol },
        io::ErrorKind::PermissionDenied => ServeError::Permission { addr, protocol },
        io::ErrorKind::AddrNotAvailable => ServeError::NoSuchAddress { addr },
        _ => ServeError::Listen {
            addr,
            protocol,
            source,
        },
    }
}

/// Interval of the checks for accounts whose hour is over.
const ROLL: std::time::Duration = std::time::Duration::from_secs(1);

fn accept(listener: &TcpListener, udp: &Arc<UdpSocket>, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut rolled = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        if rolled.elapsed() >= ROLL {
            rolled = Instant::now();
            shared.quota.roll();
        }
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(100u8));
        threads.retain(|t| !t.is_finished());
        let Ok((stream, from)) = listener.accept() else {
            // Mostly nobody there; where descriptors have run out, the poll would return at once.
            if fds[0].any() == Some(true) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            continue;
        };
        shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        if !networks::allows(&shared.allow, from.ip()) {
            shared.refused(from.ip(), Refusal::Forbidden, NOT_ALLOWED);
            connection::turn_away(&stream, Refusal::Forbidden, NOT_ALLOWED, shared);
            continue;
        }
        let stream = Arc::new(stream);
        let Some(permit) = shared.quota.connect(from.ip(), Some(stream.clone())) else {
            shared.refused(from.ip(), Refusal::Busy, FULL);
            connection::turn_away(&stream, Refusal::Busy, FULL, shared);
            continue;
        };
        let (its, udp) = (shared.clone(), udp.clone());
        let thread = std::thread::Builder::new()
            .name("serve-flow".into())
            .stack_size(256 << 10)
            .spawn(move || connection::serve(&stream, permit, &udp, &its));
        threads.extend(thread);
    }
    for t in threads {
        let _ = t.join();
    }
}

#[cfg(test)]
mod tests;
