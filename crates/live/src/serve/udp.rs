//! Reflector's thread: it receives probes with the kernel's receive time, lets [`Reflector`] decide, and sends its
//! answers. The kernel's transmit time of one goes into the next.

use super::keys::{Ring, unix_s};
use super::lock;
use super::networks::{self, Network};
use crate::clock::{Clock, mono_ns};
use crate::load::ceiling::{Ceiling, HEADERS};
use crate::probe::host;
use crate::timestamp::{self, Batch};
use base::Duration;
use measure::clock::WallClock;
use measure::keys::Users;
use measure::reflector::{Arrival, Budget, Reflector, Stats};
use measure::wire::MAX_LEN;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Interval at which the thread checks `stop` and its trains when nothing comes.
const LOOK: Duration = Duration::from_millis(100);
const BATCH: usize = 32;
/// Lag behind the server's rate limit above which probes are dropped: load that can wait waits first.
const MOST_BEHIND_NS: i64 = 500_000_000;

/// Creates a reflector with a fresh secret that knows the boot of its kernel.
///
/// # Errors
/// The kernel has no random numbers.
pub fn reflector(budget: Budget, users: Option<Arc<Users>>, clock: Clock) -> io::Result<Reflector> {
    Ok(Reflector::new(
        budget,
        users,
        host::random()?,
        &host::boot_id(),
        clock.from_mono_ns(0),
    ))
}

/// Counts of a reflector's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeSummary {
    pub reflector: Stats,
    /// Processor time of the thread.
    pub cpu: Duration,
    /// Datagrams that were dropped because of the server's rate limit.
    pub shed: u64,
    /// Probes whose receive time the kernel did not give.
    pub without_rx_stamp: u64,
}

/// Serves clients of these networks, or all if there is none, until `stop` is set: blocks the calling thread.
///
/// # Errors
/// The socket cannot be set up or fails.
pub fn run(
    socket: &UdpSocket,
    reflector: Reflector,
    clock: Clock,
    allow: &[Network],
    ring: Option<&Ring>,
    stop: &AtomicBool,
) -> io::Result<ServeSummary> {
    let within = Within {
        allow,
        ceiling: &Ceiling::default(),
        published: &Mutex::default(),
        ring,
    };
    run_within(socket, reflector, clock, &within, stop)
}

/// Server around its reflectors.
pub(super) struct Within<'a> {
    pub allow: &'a [Network],
    pub ceiling: &'a Ceiling,
    /// Keys of the users, if there are any.
    pub ring: Option<&'a Ring>,
    /// Counters of this reflector, brought up to date ten times a second.
    pub published: &'a Mutex<Published>,
}

/// Counters of a reflector and the number of its sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Published {
    pub stats: Stats,
    pub sessions: usize,
    /// Datagrams that were dropped because of the server's rate limit.
    pub shed: u64,
}

impl Published {
    /// Sum of two reflectors.
    pub fn plus(self, other: Published) -> Published {
        let (a, b) = (self.stats, other.stats);
        Published {
            stats: Stats {
                answered: a.answered + b.answered,
                opened: a.opened + b.opened,
                refused: a.refused + b.refused,
                ignored: a.ignored + b.ignored,
                throttled: a.throttled + b.throttled,
                replayed: a.replayed + b.replayed,
                wrong_keys: a.wrong_keys + b.wrong_keys,
                without_tx_stamp: a.without_tx_stamp + b.without_tx_stamp,
            },
            sessions: self.sessions + other.sessions,
            shed: self.shed + other.shed,
        }
    }
}

/// [`run`] with the limits of a server.
pub(super) fn run_within(
    socket: &UdpSocket,
    mut reflector: Reflector,
    clock: Clock,
    within: &Within,
    stop: &AtomicBool,
) -> io::Result<ServeSummary> {
    let Within {
        allow,
        ceiling,
        ring,
        ..
    } = *within;
    let mut publish_due = 0;
    let fd = socket.as_raw_fd();
    timestamp::enable(fd, true)?;
    timestamp::enable_headers(fd, socket.local_addr()?.is_ipv6(), true)?;
    timestamp::set_receive_timeout(fd, LOOK)?;
    socket.set_nonblocking(false)?;
    host::wake_exactly(host::PROBES);
    let cpu_before = host::thread_cpu_ns();
    let mut summary = ServeSummary::default();
    let (mut batch, mut stamps) = (Batch::new(BATCH), Batch::new(BATCH));
    let mut wall = WallClock::default();
    wall.observe(timestamp::compare_clocks(clock));
    let mut out = [0u8; MAX_LEN];
    let mut ahead = 0;
    let mut users = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        if let Some(ring) = ring {
            let now = (ring.generation(), unix_s(clock));
            if now.0 != users.0 {
                reflector.set_users(ring.users());
            }
            if now != users {
                reflector.end_invalid(now.1);
                users = now;
            }
        }
        match batch.receive(fd, libc::MSG_WAITFORONE) {
            Ok(_) => {
                let steady = wall.observe(timestamp::compare_clocks(clock)).is_none();
                if !steady {
                    reflector.handle_clock_step();
                }
                let now = clock.now();
                let mono = mono_ns();
                for (received, bytes) in batch.messages() {
                    let from = received.from;
                    let Some(from) = from.filter(|f| networks::allows(allow, f.ip())) else {
                        continue;
                    };
                    if ceiling.wait_ns(mono) > MOST_BEHIND_NS {
                        summary.shed += 1;
                        continue;
                    }
                    ceiling.book(mono, bytes.len() as u64 + HEADERS);
                    let kernel = received
                        .wall_ns
                        .filter(|_| steady)
                        .and_then(|ns| wall.to_mono(ns));
                    summary.without_rx_stamp += u64::from(kernel.is_none());
                    let rx_ns = clock.from_mono_ns(clock.mono_of(kernel.unwrap_or(now)));
                    let arrival = Arrival {
                        from,
                        local: received.local,
                        rx_ns,
                        kernel: kernel.is_some(),
                        tos: received.tos,
                    };
                    reflector.handle_datagram(now, arrival, bytes);
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            // An ICMP error about an answer: its client has gone, others have not.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable
                ) => {}
            Err(e) => return Err(e),
        }
        reflector.handle_timeout(clock.now());
        let mono = mono_ns();
        if mono >= publish_due {
            publish_due = mono + LOOK.as_nanos() as i64;
            *lock(within.published) = Published {
                stats: reflector.stats(),
                sessions: reflector.sessions(),
                shed: summary.shed,
            };
        }
        let sent = transmit(fd, &mut reflector, clock, &mut out, &mut ahead)?;
        if sent > 0 {
            ceiling.book(mono, sent);
            read_stamps(fd, &mut stamps, &mut reflector, clock, &wall, ahead);
        }
    }
    summary.reflector = reflector.stats();
    summary.cpu = Duration::from_nanos(host::thread_cpu_ns() - cpu_before);
    Ok(summary)
}

/// Sends the reflector's messages. Returns their bytes, headers included. The kernel counts datagrams from 0 since
/// timestamps were enabled, the reflector since it began: its count is `ahead` of the kernel's.
fn transmit(
    fd: RawFd,
    reflector: &mut Reflector,
    clock: Clock,
    out: &mut [u8; MAX_LEN],
    ahead: &mut u32,
) -> io::Result<u64> {
    let mut sent = 0;
    while let Some(o) = reflector.poll_transmit(clock.unix_ns(), out) {
        sent += o.len as u64 + HEADERS;
        if timestamp::send_to(fd, &out[..o.len], o.to, o.local, o.tos).is_err() {
            // Whether the kernel counted this one is its secret: start its count again. To the client
            // this is a loss, as with any other answer that did not get through.
            timestamp::enable(fd, true)?;
            *ahead = o.id.wrapping_add(1);
        }
    }
    Ok(sent)
}

fn read_stamps(
    fd: RawFd,
    stamps: &mut Batch,
    reflector: &mut Reflector,
    clock: Clock,
    wall: &WallClock,
    ahead: u32,
) {
    while let Ok(n) = stamps.receive(fd, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
        for (received, _) in stamps.messages() {
            if let (Some(id), Some(at)) = (
                received.tx_id,
                received.wall_ns.and_then(|ns| wall.to_mono(ns)),
            ) {
                reflector.handle_tx_stamp(
                    id.wrapping_add(ahead),
                    clock.from_mono_ns(clock.mono_of(at)),
                );
            }
        }
        if n < BATCH {
            return;
        }
    }
}
