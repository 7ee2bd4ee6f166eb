//! Server's end of a crafted train: it sends the train, or stamps its arrivals.
//!
//! It has a socket of its own on the server's port, connected to the address that the client showed, so that neither
//! other clients nor probes pass through it.

use super::connection::{accept, finish, refuse};
use super::datagrams::SHOWN_WITHIN_NS;
use super::line::{Heard, Line};
use super::quota::{Permit, Use};
use super::{Shared, lock};
use crate::clock::mono_ns;
use crate::craft::fragments::Watcher;
use crate::craft::passage::{self, QUIET_NS, Waits};
use crate::load::ceiling::HEADERS;
use crate::load::paced::headers;
use crate::load::pump::{End, PEER_DONE, wait};
use crate::outlet::Outlet;
use crate::sys::option::unacknowledged;
use base::Duration;
use base::program::Program;
use base::record::Direction;
use measure::control::{FlowSpec, Refusal, Response, Stamps, read_finished};
use nix::poll::PollFlags;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Time within which the stamps have to be taken, even over GPRS.
const STAMPS_WITHIN_NS: i64 = 300_000_000_000;
/// Time within which the answer that starts a train has to arrive; otherwise the link is in a worse state than a train
/// can tell.
const SETTLED_WITHIN_NS: i64 = 5_000_000_000;
/// Time for acknowledgements to leave the link before a train starts.
const LEAD_NS: i64 = 20_000_000;
/// Time that a train may take longer than its program: the queue that it filled drains.
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
    let _share = match shared.quota.train(permit) {
        Ok(share) => share,
        Err(e) => return refuse(stream, e, shared),
    };
    let before = headers(stream.peer_addr()?) as u32;
    let _promise = match shared.promises.train(program, before) {
        Ok(promise) => promise,
        Err(e) => return refuse(stream, e, shared),
    };
    let mut flow = match shared.quota.flow(permit, spec, direction, Use::Train) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let longest = shared.quota.budgets().duration;
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
    let open = shared.datagrams.open(stream)?;
    let (began, _) = accept(stream, &flow, "", open.token, shared)?;
    let Some(far) = shown(host, began, &|| open.address()) else {
        return finish(stream, &flow, &End::Stalled, shared);
    };
    // The client knows this address, whatever the way back.
    let mut here = stream.local_addr()?;
    here.set_port(udp.local_addr()?.port());
    let socket = passage::socket(here, far, &Outlet::default())?;
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
    let bytes = mean * stamps.stamps.len() as u64;
    counter.fetch_add(bytes, Ordering::Relaxed);
}

/// Waits for the datagram that shows the path back; none if it does not come in time.
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

/// Waits until the messages over TCP have arrived: they would take a place in the queue that the train is to find
/// empty.
fn settle(host: &Host) {
    let until = mono_ns() + SETTLED_WITHIN_NS;
    while unacknowledged(host.stream) > 0 && mono_ns() < until && !gone(host) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Time that a program is waited for awake, ns: a little before each of its instants.
fn awake_ns(program: &Program) -> i64 {
    let (mut sum, mut before) = (0, Duration::ZERO);
    for due in program.datagrams() {
        let gap = due.at.saturating_sub(before).as_nanos() as i64;
        before = due.at;
        sum += gap.min(passage::WAKE_NS);
    }
    sum
}

/// Processor time for waiting awake: share in the long run, and burst.
const AWAKE_SHARE: f64 = 0.1;
const AWAKE_AT_ONCE_NS: f64 = 1e9;

/// Budget of the time in which trains are waited for awake, so that strangers cannot keep a core busy.
pub struct Awake(Mutex<(f64, i64)>);

impl Default for Awake {
    fn default() -> Awake {
        Awake(Mutex::new((AWAKE_AT_ONCE_NS, 0)))
    }
}

impl Awake {
    /// Takes `ns` from the budget, if they are there.
    fn take(&self, now: i64, ns: i64) -> bool {
        let mut budget = lock(&self.0);
        let (level, at) = *budget;
        let more = now.saturating_sub(at).max(0) as f64 * AWAKE_SHARE;
        let level = (level + more).min(AWAKE_AT_ONCE_NS);
        let enough = level >= ns as f64;
        *budget = (if enough { level - ns as f64 } else { level }, now);
        enough
    }
}

/// True if a program never pauses for long. Only then may the kernel probe the client's life meanwhile: a keep-alive in
/// a pause would wake a radio whose sleep is measured.
fn is_steady(program: &Program) -> bool {
    const PAUSE: Duration = Duration::from_secs(1);
    let mut before = Duration::ZERO;
    program.datagrams().all(|due| {
        let gap = due.at.saturating_sub(before);
        before = due.at;
        gap < PAUSE
    })
}

/// Sets keep-alive, so that a train does not continue to a host that has vanished.
fn watch_over(stream: &TcpStream) {
    let second = std::time::Duration::from_secs(1);
    let keepalive = TcpKeepalive::new()
        .with_time(second)
        .with_interval(second)
        .with_retries(5);
    // A kernel that does not ask lets the train go to its end, which is bounded.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Books a train against the server's rate limit while it passes. The train keeps its instants; flows that can wait
/// pay.
struct Booked<'a> {
    shared: &'a Shared,
    datagram: u64,
    count: u64,
}

impl Booked<'_> {
    fn new<'a>(shared: &'a Shared, program: &Program) -> Booked<'a> {
        let datagram = program.bytes(0).get() / program.count().max(1) + HEADERS;
        Booked {
            shared,
            datagram,
            count: 0,
        }
    }

    /// Books the datagrams up to this number.
    fn up_to(&mut self, count: u64) {
        let more = count.saturating_sub(self.count);
        self.count = self.count.max(count);
        self.shared.ceiling.book(mono_ns(), more * self.datagram);
    }
}

type Passed = (Option<Stamps>, End);

fn send(host: &Host, socket: &UdpSocket, token: u64, program: &Program) -> io::Result<Passed> {
    let shared = host.shared;
    settle(host);
    if is_steady(program) {
        watch_over(host.stream);
    }
    let waits = match shared.awake.take(mono_ns(), awake_ns(program)) {
        true => Waits::Awake,
        false => Waits::Asleep,
    };
    let start = mono_ns() + LEAD_NS;
    let mut booked = Booked::new(shared, program);
    let left = passage::send(
        socket,
        token,
        program,
        shared.clock,
        (start, waits),
        &mut |left| {
            booked.up_to(left.stamps.len() as u64);
            !shared.stop.load(Ordering::Relaxed) && !gone(host)
        },
    )?;
    booked.up_to(left.stamps.len() as u64);
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
    let mut booked = Booked::new(shared, program);
    let mut end = End::TimeUp;
    let arrived = passage::receive(
        socket,
        token,
        program,
        shared.clock,
        Waits::Asleep,
        &mut |arrived| {
            let now = mono_ns();
            booked.up_to(arrived.stamps.len() as u64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_are_waited_for_awake_within_a_tenth_of_a_core() {
        let steady: Program = "20000 x 100@60us".parse().expect("a program");
        let usual: Program = "100 x 1200@1ms".parse().expect("a program");
        assert!(awake_ns(&usual) < 7_000_000);
        let (awake, mut spent) = (Awake::default(), 0);
        for second in 0..60 {
            for _ in 0..10 {
                for (program, all) in [(&steady, true), (&usual, false)] {
                    let ns = awake_ns(program);
                    if awake.take(second * 1_000_000_000, ns) {
                        spent += ns;
                    } else {
                        assert!(all || spent > 1_000_000_000);
                    }
                }
            }
        }
        assert!(spent < 7_000_000_000, "{spent} ns of a minute");
    }
}
