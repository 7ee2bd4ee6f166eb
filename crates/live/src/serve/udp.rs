//! The reflector's thread: receives probes with the kernel's receive time, lets [`Reflector`] decide, and
//! sends its answers with the kernel's transmit time for the answer after.

use super::keys::{Ring, unix_s};
use super::networks::{self, Network};
use crate::clock::Clock;
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the thread looks at `stop` and at its trains when nothing comes.
const LOOK: Duration = Duration::from_millis(100);
const BATCH: usize = 32;

/// A reflector with a fresh secret that knows which kernel it runs on.
///
/// # Errors
/// When the kernel has no random numbers.
pub fn reflector(budget: Budget, users: Option<Arc<Users>>, clock: Clock) -> io::Result<Reflector> {
    Ok(Reflector::new(
        budget,
        users,
        host::random()?,
        &host::boot_id(),
        clock.from_mono_ns(0),
    ))
}

/// What a reflector's thread did.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeSummary {
    pub reflector: Stats,
    /// Processor time of the thread.
    pub cpu: Duration,
    /// Probes whose receive time the kernel did not give.
    pub without_rx_stamp: u64,
}

/// Serves clients of these networks, or all where there is none, until `stop` is set: blocks the calling thread.
///
/// # Errors
/// When the socket cannot be set up or fails.
pub fn run(
    socket: &UdpSocket,
    mut reflector: Reflector,
    clock: Clock,
    allow: &[Network],
    ring: Option<&Ring>,
    stop: &AtomicBool,
) -> io::Result<ServeSummary> {
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
                for (received, bytes) in batch.messages() {
                    let from = received.from;
                    let Some(from) = from.filter(|f| networks::allows(allow, f.ip())) else {
                        continue;
                    };
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
        if transmit(fd, &mut reflector, clock, &mut out, &mut ahead)? {
            read_stamps(fd, &mut stamps, &mut reflector, clock, &wall, ahead);
        }
    }
    summary.reflector = reflector.stats();
    summary.cpu = Duration::from_nanos(host::thread_cpu_ns() - cpu_before);
    Ok(summary)
}

/// Sends what the reflector has to say; whether that was anything. The kernel counts datagrams from 0
/// since timestamps were asked for, the reflector since it began: its count is `ahead` of the kernel's.
fn transmit(
    fd: RawFd,
    reflector: &mut Reflector,
    clock: Clock,
    out: &mut [u8; MAX_LEN],
    ahead: &mut u32,
) -> io::Result<bool> {
    let mut any = false;
    while let Some(o) = reflector.poll_transmit(clock.unix_ns(), out) {
        any = true;
        if timestamp::send_to(fd, &out[..o.len], o.to, o.local, o.tos).is_err() {
            // Whether the kernel counted this one is its secret: start its count again. To the client
            // this is a loss, as with any other answer that did not get through.
            timestamp::enable(fd, true)?;
            *ahead = o.id.wrapping_add(1);
        }
    }
    Ok(any)
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
