//! The server's end of a crafted train: sends it, or stamps what arrives of it.
//!
//! It has a socket of its own on the server's port, connected to where the client showed it the way from, so that
//! neither other clients nor probes pass through it.

use super::Shared;
use super::book::{Permit, Use};
use super::connection::{accept, finish, refuse};
use super::datagrams::SHOWN_WITHIN_NS;
use super::line::{Heard, Line};
use crate::clock::mono_ns;
use crate::craft::fragments::Watcher;
use crate::craft::passage::{self, QUIET_NS, Waits};
use crate::load::paced::headers;
use crate::load::pump::{End, PEER_DONE, wait};
use base::Duration;
use base::program::Program;
use base::record::Direction;
use measure::control::{FlowSpec, Refusal, Response, Stamps, read_finished};
use nix::poll::PollFlags;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The stamps have to be taken by then, even over GPRS.
const STAMPS_WITHIN_NS: i64 = 300_000_000_000;
/// The answer that begins a train has arrived by then, or the line is in a worse state than a train can tell.
const SETTLED_WITHIN_NS: i64 = 5_000_000_000;
/// Acknowledgements and the like leave the line before a train begins.
const LEAD_NS: i64 = 20_000_000;
/// How much longer than its program a train may take: the queue that it filled drains.
const DRAIN: Duration = Duration::from_secs(60);

pub struct Host<'a> {
    pub stream: &'a Line<'a>,
    pub udp: &'a UdpSocket,
    pub shared: &'a Shared,
}

pub fn serve(
    host: &Host,
    permit: &Permit,
    spec: &FlowSpec,
    direction: Direction,
    program: &Program,
) -> io::Result<()> {
    let Host {
        stream,
        udp,
        shared,
    } = *host;
    let _share = match shared.book.train(permit) {
        Ok(share) => share,
        Err(e) => return refuse(stream, e, shared),
    };
    let mut flow = match shared.book.flow(permit, spec, direction, Use::Light) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let longest = shared.book.budgets().duration;
    if program.time() > longest {
        let text = format!(
            "the program lasts {}, and this server takes at most {longest} at once",
            program.time()
        );
        return refuse(stream, (Refusal::Malformed, text), shared);
    }
    let peer = stream.peer_addr()?;
    if !flow.spend(program.bytes(headers(peer) as u32).get()) {
        let text = format!(
            "the program has {}, more than this client may still move in this hour",
            program.bytes(headers(peer) as u32)
        );
        return refuse(stream, (Refusal::Spent, text), shared);
    }
    let open = shared.datagrams.open(peer.ip());
    let (began, _) = accept(stream, &flow, "", open.token, shared)?;
    let Some(far) = shown(host, began, &|| open.address()) else {
        return finish(stream, &flow, &End::Stalled, shared);
    };
    let socket = passage::socket(udp.local_addr()?, far)?;
    let watcher = Watcher::start(&socket, program, direction == Direction::Down);
    stream.say(&Response::Ready, began + SHOWN_WITHIN_NS, shared)?;
    let until = mono_ns() + (program.time() + DRAIN).as_nanos() as i64;
    let (passed, end) = match direction {
        Direction::Up => receive(host, &socket, open.token, program, until)?,
        Direction::Down => send(host, &socket, open.token, program)?,
    };
    let Some(mut stamps) = passed else {
        return finish(stream, &flow, &end, shared);
    };
    stamps.fragments = watcher.map(Watcher::stop);
    count(host, direction, &stamps, program);
    let until = mono_ns() + STAMPS_WITHIN_NS;
    stream.say(&Response::Stamps(stamps), until, shared)?;
    flow.with_report(|r| r.ended = measure::control::Ended::TimeUp);
    Ok(())
}

fn count(host: &Host, direction: Direction, stamps: &Stamps, program: &Program) {
    let counters = &host.shared.counters;
    let counter = match direction {
        Direction::Up => &counters.bytes_received,
        Direction::Down => &counters.bytes_sent,
    };
    let mean = program.bytes(0).get() / program.count();
    counter.fetch_add(mean * stamps.stamps.len() as u64, Ordering::Relaxed);
}

/// Waits for the datagram that shows the way back; none where it does not come in time.
fn shown(host: &Host, began: i64, address: &dyn Fn() -> Option<SocketAddr>) -> Option<SocketAddr> {
    while mono_ns() - began < SHOWN_WITHIN_NS && !host.shared.stop.load(Ordering::Relaxed) {
        if let Some(far) = address() {
            return Some(far);
        }
        if gone(host) {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    None
}

fn gone(host: &Host) -> bool {
    wait(host.stream, PEER_DONE, 0).intersects(PEER_DONE | PollFlags::POLLHUP | PollFlags::POLLERR)
}

/// Waits until what was said over TCP has arrived: it would take a place in the queue that the train is to find empty.
fn settle(host: &Host) {
    let until = mono_ns() + SETTLED_WITHIN_NS;
    while unsent(host.stream) > 0 && mono_ns() < until && !gone(host) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Bytes that the far end has not acknowledged.
fn unsent(stream: &TcpStream) -> i32 {
    let mut bytes = 0i32;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ by another name, writes an int to the address given.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    bytes
}

/// The right to wait awake, of which the server has one.
struct Exact<'a>(&'a AtomicBool);

impl Exact<'_> {
    fn take(one: &AtomicBool) -> Option<Exact<'_>> {
        (!one.swap(true, Ordering::Relaxed)).then_some(Exact(one))
    }
}

impl Drop for Exact<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// True if a program never pauses for long. Only then may the kernel ask meanwhile whether the client lives: a question
/// in a pause would wake a radio whose sleep is measured.
fn is_steady(program: &Program) -> bool {
    const PAUSE: Duration = Duration::from_secs(1);
    let mut before = Duration::ZERO;
    program.datagrams().all(|due| {
        let gap = due.at.saturating_sub(before);
        before = due.at;
        gap < PAUSE
    })
}

/// Has the kernel ask whether the client lives, so that a train does not go on to a host that has vanished.
fn watch_over(stream: &TcpStream) {
    let second = std::time::Duration::from_secs(1);
    let keepalive = TcpKeepalive::new()
        .with_time(second)
        .with_interval(second)
        .with_retries(5);
    // A kernel that does not ask lets the train go to its end, which is bounded.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

type Passed = (Option<Stamps>, End);

fn send(host: &Host, socket: &UdpSocket, token: u64, program: &Program) -> io::Result<Passed> {
    let shared = host.shared;
    settle(host);
    if is_steady(program) {
        watch_over(host.stream);
    }
    let exact = Exact::take(&shared.exact);
    let waits = match exact {
        Some(_) => Waits::Awake,
        None => Waits::Asleep,
    };
    let start = mono_ns() + LEAD_NS;
    let left = passage::send(
        socket,
        token,
        program,
        shared.clock,
        (start, waits),
        &mut |_| !shared.stop.load(Ordering::Relaxed) && !gone(host),
    )?;
    drop(exact);
    if left.cut {
        return Ok((None, End::PeerClosed));
    }
    let stamps = Stamps {
        stamps: left.stamps,
        refused: left.refused,
        ..Stamps::default()
    };
    Ok((Some(stamps), End::TimeUp))
}

fn receive(
    host: &Host,
    socket: &UdpSocket,
    token: u64,
    program: &Program,
    until: i64,
) -> io::Result<Passed> {
    let shared = host.shared;
    let mut finished: Option<(u64, i64)> = None;
    let mut end = End::TimeUp;
    let arrived = passage::receive(
        socket,
        token,
        program,
        shared.clock,
        Waits::Asleep,
        &mut |arrived| {
            let now = mono_ns();
            if shared.stop.load(Ordering::Relaxed) {
                end = End::Stopped;
                return false;
            }
            if finished.is_none() {
                match host.stream.heard() {
                    Ok(Heard::Nothing) => {}
                    Ok(Heard::Frame(said)) => match read_finished(&said) {
                        Ok(sent) => finished = Some((sent, now)),
                        Err(e) => {
                            end = End::Failed(io::Error::other(e));
                            return false;
                        }
                    },
                    Ok(Heard::PeerClosed) => {
                        end = End::PeerClosed;
                        return false;
                    }
                    Err(e) => {
                        end = End::Failed(e);
                        return false;
                    }
                }
            }
            match finished {
                Some((sent, _)) if arrived.stamps.len() as u64 >= sent => false,
                Some((_, at)) => now - at.max(arrived.latest) < QUIET_NS,
                None => now < until,
            }
        },
    )?;
    let stamps = finished.map(|_| Stamps {
        stamps: arrived.stamps,
        overflowed: arrived.overflowed,
        ..Stamps::default()
    });
    Ok((stamps, end))
}
