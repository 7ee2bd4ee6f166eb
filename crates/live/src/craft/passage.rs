//! End of a train on a connected socket: it sends a program, or stamps arrivals.

use crate::clock::{Clock, mono_ns};
use crate::outlet::Outlet;
use crate::probe::host;
use crate::timestamp::{self, Batch};
use base::Duration;
use base::program::{LARGEST_PAYLOAD, Marking, Program, SMALLEST_PAYLOAD};
use base::rng::Streams;
use measure::clock::WallClock;
use measure::control::Stamp;
use measure::control::datagram::{HEADER_LEN, HELLO_LEN, Header, Message};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, sendmsg, setsockopt, sockopt};
use rand::Rng as _;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Lateness above which the rest of a program is shifted: datagrams that catch up would be another program.
const MOST_BEHIND_NS: i64 = 500_000;
/// Time that waking takes; the rest of a wait is spent awake.
pub const WAKE_NS: i64 = 60_000;
/// Interval at which the caller is asked if it wants to go on.
const ASK_NS: i64 = 20_000_000;
/// Silence after the last datagram was sent, after which missing ones are lost.
pub const QUIET_NS: i64 = 1_000_000_000;
const BATCH: usize = 64;
/// Buffer of a socket: bursts of thousands of datagrams, while the thread that takes them is not running.
const SOCKET_BYTES: usize = 8 << 20;

/// Opens a UDP socket for one train, at `local` and connected to `far`.
pub fn socket(local: SocketAddr, far: SocketAddr, outlet: &Outlet) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if local.port() != 0 {
        socket.set_reuse_port(true)?;
    }
    outlet.bind(&socket)?;
    socket.bind(&local.into())?;
    socket.connect(&far.into())?;
    // More than the system's limit needs CAP_NET_ADMIN; what is lost for want of room is counted.
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BYTES).is_err() {
        SockRef::from(&socket).set_recv_buffer_size(SOCKET_BYTES)?;
    }
    if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BYTES).is_err() {
        SockRef::from(&socket).set_send_buffer_size(SOCKET_BYTES)?;
    }
    let fd = socket.as_raw_fd();
    timestamp::enable(fd, false)?;
    timestamp::enable_headers(fd, local.is_ipv6(), false)?;
    timestamp::enable_overflow_count(fd)?;
    timestamp::set_receive_timeout(fd, Duration::from_nanos(ASK_NS as u64))?;
    Ok(socket.into())
}

/// Manner in which a thread waits for its instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Waits with a real-time priority, and awake before each instant: at the client, on the user's own host.
    First,
    /// Waits awake before each instant.
    Awake,
    /// Sleeps until each instant, like other processes: a client's train costs the server no more than it must.
    Asleep,
}

impl Waits {
    fn begin(self) {
        match self {
            Waits::First => {
                host::wake_exactly(host::PROBES);
            }
            Waits::Awake | Waits::Asleep => host::sleep_exactly(),
        }
    }
}

/// Datagrams of a program that were sent.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Stamps in the order of sending.
    pub stamps: Vec<Stamp>,
    pub refused: u64,
    /// True if the program was stopped before its end.
    pub cut: bool,
}

/// Sends a program from the monotonic time `start`; `go_on` is asked at intervals.
///
/// # Errors
/// Errors of the socket.
pub fn send(
    socket: &UdpSocket,
    token: u64,
    program: &Program,
    clock: Clock,
    (start, waits): (i64, Waits),
    go_on: &mut dyn FnMut(&Left) -> bool,
) -> io::Result<Left> {
    waits.begin();
    let wake_ns = if waits == Waits::Asleep { 0 } else { WAKE_NS };
    let fd = socket.as_raw_fd();
    let v6 = socket.local_addr()?.is_ipv6();
    // Without it the kernel says of what its own queue drops that it was sent (ip(7), IP_RECVERR).
    timestamp::enable_errors(fd, v6)?;
    if v6 {
        // For addresses of IPv4 written as ones of IPv6.
        timestamp::enable_errors(fd, false)?;
    }
    // Twice the largest, so that no two datagrams hold the same: nothing on the way can compress them.
    let mut filling = vec![0; 2 * LARGEST_PAYLOAD as usize];
    Streams::new(token).stream("craft").fill_bytes(&mut filling);
    let mut marked: Option<Marking> = None;
    let mut shift = 0;
    let mut asked = mono_ns();
    let mut before = i64::MIN;
    let mut left = Left::default();
    for due in program.datagrams() {
        let planned = due.at.as_nanos() as i64;
        if marked != Some(due.marking) {
            timestamp::set_tos(fd, v6, due.marking.tos())?;
            timestamp::set_whole(fd, v6, due.marking.whole)?;
            marked = Some(due.marking);
        }
        loop {
            let now = mono_ns();
            let wait = start + planned + shift - now;
            // What belongs together leaves together, however long it takes.
            if wait < -MOST_BEHIND_NS && planned > before {
                shift -= wait;
            }
            if now - asked >= ASK_NS {
                asked = now;
                if !go_on(&left) {
                    left.cut = true;
                    return Ok(left);
                }
            }
            if wait <= 0 {
                break;
            }
            if wait > wake_ns {
                host::sleep_until(now + (wait - wake_ns).min(ASK_NS));
            } else {
                std::hint::spin_loop();
            }
        }
        before = planned;
        let header = Header {
            token,
            seq: due.seq,
        }
        .encode();
        let from = (due.seq as usize * 97) % LARGEST_PAYLOAD as usize;
        let rest = due.payload.max(SMALLEST_PAYLOAD) as usize - HEADER_LEN;
        let parts = [
            IoSlice::new(&header),
            IoSlice::new(&filling[from..from + rest]),
        ];
        let mut tries = 0;
        loop {
            let at = mono_ns();
            match sendmsg::<()>(fd, &parts, &[], MsgFlags::MSG_DONTWAIT, None) {
                Ok(_) => {
                    left.stamps.push(Stamp {
                        seq: due.seq,
                        at_ns: clock.from_mono_ns(at),
                        ecn: due.marking.ecn.bits(),
                    });
                }
                // The answer to an earlier datagram, or nothing of importance: once more.
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH) if tries < 3 => {
                    tries += 1;
                    continue;
                }
                // This host's own queue is full, or its interface takes nothing as large.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EMSGSIZE) => left.refused += 1,
                Err(e) => return Err(e.into()),
            }
            break;
        }
    }
    // A pause at the end belongs to the program; whoever waits for it need not hold this thread.
    Ok(left)
}

/// Arrivals of a train.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// First arrivals of the datagrams, in order.
    pub stamps: Vec<Stamp>,
    pub bytes: u64,
    pub overflowed: u64,
    /// Monotonic time of the latest arrival.
    pub latest: i64,
    seen: Vec<bool>,
}

/// Receives until `go_on` says no; it is asked after every batch and at intervals.
///
/// # Errors
/// Errors of the socket.
pub fn receive(
    socket: &UdpSocket,
    token: u64,
    program: &Program,
    clock: Clock,
    waits: Waits,
    go_on: &mut dyn FnMut(&Arrived) -> bool,
) -> io::Result<Arrived> {
    waits.begin();
    let fd = socket.as_raw_fd();
    let mut batch = Batch::new(BATCH);
    let mut wall = WallClock::default();
    wall.observe(timestamp::compare_clocks(clock));
    let mut arrived = Arrived {
        seen: vec![false; program.count() as usize],
        ..Arrived::default()
    };
    while go_on(&arrived) {
        match batch.receive(fd, libc::MSG_WAITFORONE | libc::MSG_TRUNC) {
            Ok(_) => take(&batch, token, clock, &mut wall, &mut arrived),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::HostUnreachable
                ) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(arrived)
}

fn take(batch: &Batch, token: u64, clock: Clock, wall: &mut WallClock, arrived: &mut Arrived) {
    let steady = wall.observe(timestamp::compare_clocks(clock)).is_none();
    let now = mono_ns();
    for (received, bytes) in batch.messages() {
        if let Some(n) = received.overflowed {
            arrived.overflowed = arrived.overflowed.max(u64::from(n));
        }
        let Some(header) = Header::decode(bytes).filter(|h| h.token == token) else {
            continue;
        };
        let Some(seen) = arrived.seen.get_mut(header.seq as usize) else {
            continue;
        };
        // A second copy is the line's doing, and no arrival.
        if std::mem::replace(seen, true) {
            continue;
        }
        let kernel = received.wall_ns.filter(|_| steady);
        let at = kernel
            .and_then(|ns| wall.to_mono(ns))
            .map_or(now, |t| clock.mono_of(t));
        arrived.bytes += received.len as u64;
        arrived.latest = at;
        arrived.stamps.push(Stamp {
            seq: header.seq,
            at_ns: clock.from_mono_ns(at),
            ecn: received.tos.unwrap_or(0) & 3,
        });
    }
}

/// Sends a datagram that shows the far end the path to this socket.
pub fn hello(socket: &UdpSocket, token: u64) {
    // Lost or refused, the next one will tell.
    let _ = socket.send(&Message::Hello.encode(token));
}

/// Returns the cookies that the far end sent to this socket, which proves that it receives.
pub fn prove(socket: &UdpSocket, token: u64) {
    let mut buf = [0; HELLO_LEN];
    while let Ok(n) = recv(socket.as_raw_fd(), &mut buf, MsgFlags::MSG_DONTWAIT) {
        if let Some((t, Message::Challenge { cookie })) = Message::decode(&buf[..n])
            && t == token
        {
            let received = 0;
            let _ = socket.send(&Message::Proof { cookie, received }.encode(token));
        }
    }
}
