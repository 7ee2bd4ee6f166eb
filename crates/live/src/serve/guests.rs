//! Ports for the clients of other tools: irtt, STAMP and TWAMP-Light, and iperf3. Each is off unless the operator names it, and all keep
//! to the server's networks, rate limit and hourly bytes.

use super::journal::{Entry, Happened};
use super::sync::lock;
use super::{ServeError, Shared};
use super::{iperf3, networks};
use crate::clock::{mono_ns, wall_minus_mono_ns, wall_ns};
use crate::load::ceiling::HEADERS;
use crate::probe::host;
use crate::sys::clock::greatest_error_ns;
use crate::timestamp::{self, Batch, DATAGRAM};
use base::{Duration, Time};
use measure::guest::{Asked, Counts, Instant, Responder, irtt, stamp};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Protocol of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// irtt, version 1.
    Irtt,
    /// STAMP, and TWAMP-Light on the same port.
    Stamp,
    /// iperf3 over TCP.
    Iperf3,
}

impl Protocol {
    /// Name in the log and in the counters.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Irtt => "irtt",
            Protocol::Stamp => "stamp",
            Protocol::Iperf3 => "iperf3",
        }
    }

    /// Protocol below it.
    pub fn transport(self) -> &'static str {
        match self {
            Protocol::Irtt | Protocol::Stamp => "UDP",
            Protocol::Iperf3 => "TCP",
        }
    }

    /// All addresses, and the port that its clients expect.
    pub fn usual(self) -> SocketAddr {
        let port = match self {
            Protocol::Irtt => 2112,
            Protocol::Stamp => 862,
            Protocol::Iperf3 => 5201,
        };
        (Ipv6Addr::UNSPECIFIED, port).into()
    }
}

/// Port for the clients of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    pub protocol: Protocol,
    pub listen: SocketAddr,
}

/// Counters of one port, brought up to date ten times a second.
pub(super) type Published = Arc<Mutex<Counts>>;

/// Interval at which the thread looks at `stop` when nothing comes.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of the looks at the state of the clock.
const CLOCK: Duration = Duration::from_secs(1);
const BATCH: usize = 32;
/// Lag behind the rate limit above which datagrams are dropped.
const MOST_BEHIND_NS: i64 = 500_000_000;
/// Greatest age of a datagram that its receive time is believed for.
const MOST_AGE_NS: i64 = 1_000_000_000;

/// Open port of a guest.
pub(super) enum Port {
    Datagrams(UdpSocket),
    Streams(TcpListener),
}

/// Responder with what only its protocol needs.
enum Answering {
    Irtt(Box<irtt::Server>),
    Stamp(Box<stamp::Reflector>),
}

impl Answering {
    fn new(protocol: Protocol, port: u16, shared: &Arc<Shared>) -> io::Result<Answering> {
        Ok(match protocol {
            Protocol::Iperf3 => return Err(io::ErrorKind::Unsupported.into()),
            Protocol::Irtt => {
                let its = shared.clone();
                let accounts = Box::new(move |from| its.quota.account(from, None));
                let budget = irtt::Budget::default();
                Answering::Irtt(Box::new(irtt::Server::new(
                    budget,
                    host::random()?,
                    accounts,
                )))
            }
            Protocol::Stamp => {
                // An address that the operator names may be forged, too, but only within that network.
                let budget = match shared.allow.is_empty() {
                    true => stamp::Budget::STRANGERS,
                    false => stamp::Budget::NAMED,
                };
                Answering::Stamp(Box::new(stamp::Reflector::new(port, budget)))
            }
        })
    }

    fn responder(&mut self) -> &mut dyn Responder {
        match self {
            Answering::Irtt(server) => server.as_mut(),
            Answering::Stamp(reflector) => reflector.as_mut(),
        }
    }

    fn look_at_clock(&mut self) {
        if let Answering::Stamp(reflector) = self {
            let error_ns = greatest_error_ns();
            reflector.set_clock(error_ns.map(|error_ns| stamp::Synchronised { error_ns }));
        }
    }
}

/// Answers at this port until the server stops: blocks the calling thread.
pub(super) fn run(
    guest: Guest,
    port: Port,
    shared: &Arc<Shared>,
    published: &Published,
) -> io::Result<()> {
    match port {
        Port::Datagrams(socket) => answer(guest, &socket, shared, published),
        Port::Streams(listener) => iperf3::run(listener, shared, published),
    }
}

fn answer(
    guest: Guest,
    socket: &UdpSocket,
    shared: &Arc<Shared>,
    published: &Published,
) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    let local = socket.local_addr()?;
    timestamp::enable(fd, false)?;
    timestamp::enable_headers(fd, local.is_ipv6(), true)?;
    timestamp::enable_ttl(fd, local.is_ipv6())?;
    timestamp::set_receive_timeout(fd, LOOK)?;
    host::wake_exactly(host::PROBES);
    let mut answering = Answering::new(guest.protocol, local.port(), shared)?;
    let mut batch = Batch::new(BATCH);
    let (mut next_look, mut next_clock) = (Time::ZERO, Time::ZERO);
    while !shared.stop.load(Ordering::Relaxed) {
        let now = shared.clock.now();
        if now >= next_clock {
            next_clock = now + CLOCK;
            answering.look_at_clock();
        }
        match batch.receive(fd, libc::MSG_WAITFORONE) {
            Ok(_) => reply(fd, &batch, answering.responder(), shared),
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(e),
        }
        let now = shared.clock.now();
        if now >= next_look {
            next_look = now + LOOK;
            let responder = answering.responder();
            while let Some(ended) = responder.poll_ended(now) {
                shared.journal.write(Entry {
                    what: guest.protocol.name(),
                    bytes: ended.bytes,
                    duration: ended.duration,
                    why: if ended.by_client {
                        "by_client"
                    } else {
                        "silent"
                    },
                    ..Entry::about(Happened::Session, ended.from.ip().to_canonical())
                });
            }
            *lock(published) = responder.counts();
        }
    }
    Ok(())
}

/// True if nothing came, or an ICMP error about an answer: its client has gone, others have not.
fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, WouldBlock};
    matches!(
        e.kind(),
        WouldBlock | Interrupted | ConnectionRefused | HostUnreachable
    )
}

/// Answers the datagrams of a batch.
fn reply(fd: i32, batch: &Batch, responder: &mut dyn Responder, shared: &Shared) {
    let mut out = [0; DATAGRAM];
    let now = shared.clock.now();
    let wall_minus_mono = wall_minus_mono_ns();
    for (received, bytes) in batch.messages() {
        let from = received.from;
        let from = from.filter(|f| networks::allows(&shared.allow, f.ip()));
        let mono = mono_ns();
        let is_behind = shared.ceiling.wait_ns(mono) > MOST_BEHIND_NS;
        let Some(from) = from.filter(|_| !is_behind) else {
            continue;
        };
        shared.ceiling.book(mono, bytes.len() as u64 + HEADERS);
        let kernel = received.wall_ns.map(|ns| ns.wrapping_sub(wall_minus_mono));
        let kernel = kernel.filter(|ns| (0..MOST_AGE_NS).contains(&mono.wrapping_sub(*ns)));
        let came = kernel.unwrap_or(mono);
        let asked = Asked {
            from,
            at: Instant {
                wall_ns: came + wall_minus_mono,
                mono_ns: came,
            },
            ttl: received.ttl,
            tos: received.tos.unwrap_or(0),
            bytes,
        };
        let sent = Instant {
            wall_ns: wall_ns(),
            mono_ns: mono_ns(),
        };
        if let Some(answer) = responder.answer(now, &asked, sent, &mut out) {
            let (bytes, tos) = (&out[..answer.len], answer.tos);
            // To the client this is a loss, as any other.
            if timestamp::send_to(fd, bytes, from, received.local, tos).is_ok() {
                shared.ceiling.book(mono, answer.len as u64 + HEADERS);
            }
        }
    }
}

/// Binds the port of each guest, before the rights of root are given up.
pub(super) fn bind(guests: &[Guest]) -> Result<Vec<(Guest, Port)>, ServeError> {
    let bound = |guest: &Guest| {
        let (port, listen) = match guest.protocol {
            Protocol::Iperf3 => {
                let listener = TcpListener::from(super::bind(guest.listen, super::Bound::Tcp)?);
                let listen = listener.local_addr();
                (Port::Streams(listener), listen)
            }
            Protocol::Irtt | Protocol::Stamp => {
                let socket = UdpSocket::from(super::bind(guest.listen, super::Bound::Guest)?);
                let listen = socket.local_addr();
                (Port::Datagrams(socket), listen)
            }
        };
        let listen =
            listen.map_err(|e| super::listen_error(guest.listen, guest.protocol.transport(), e))?;
        Ok((Guest { listen, ..*guest }, port))
    };
    guests.iter().map(bound).collect()
}
