//! Connection of a client: greeting, request, answer.

use super::Shared;
use super::capture;
use super::datagrams::Carrier;
use super::keys::{WRONG_AFTER_NS, unix_s};
use super::line::Line;
use super::listeners;
use super::quota::{FlowPermit, Permit, Refused, Use, settle};
use super::tls::Tls;
use super::train::{self, Host};
use crate::clock::mono_ns;
use crate::load::ceiling::Gate;
use crate::load::kernel::{
    CongestionControls, TcpInfo, choose_congestion, close_abruptly, congestion_of,
    lift_send_buffer, random_bytes,
};
use crate::load::pump::{End, PEER_DONE, Payload, Pump, wait};
use crate::load::whole::Whole;
use crate::pipe::{Pipe, TLS_FIRST};
use base::record::Direction;
use base::{BitsPerSec, Duration};
use measure::control::datagram::{HEADER_LEN, MAX_LEN};
use measure::control::seal::{Admitted, Asked, RequestReader, ServerEnd, Transcript};
use measure::control::{
    Accepted, ControlError, Detail, Ended, FlowSpec, Greeting, HELLO_LEN, Hello, Refusal, Request,
    Response, Sample, ServerInfo,
};
use nix::poll::PollFlags;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Time within which a request has to come. A modem's queue of seconds delays each of the handshake's packets.
const REQUEST_WITHIN: Duration = Duration::from_secs(20);
/// Time within which a TLS handshake has to end: two round trips through a queue of seconds.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Time within which a report has to be taken, even over GPRS.
const REPORT_WITHIN: Duration = Duration::from_secs(120);
/// Time without progress after which a flow ends.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Time without progress after which a transfer of a given size ends: TCP's timer has doubled to a minute by then.
const FETCH_PATIENCE: Duration = Duration::from_secs(120);
/// Longest time in the queue for the uplink.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Interval at which a client in the queue is told its place.
const TELL_NS: i64 = 1_000_000_000;
/// Time without load after which a turn is lost, while others wait.
const IDLE_TURN_NS: i64 = 60_000_000_000;
const GONE: PollFlags = PEER_DONE
    .union(PollFlags::POLLHUP)
    .union(PollFlags::POLLERR);
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Refuses a connection with the reason, without a thread of its own and without ever waiting.
pub fn turn_away(mut stream: &TcpStream, why: Refusal, text: &str, shared: &Shared) {
    let users = shared.ring.users();
    let greeting = Greeting {
        key_needed: users.is_some(),
        nonce: random_bytes(),
        salt: users.map_or([0; 16], |u| u.salt()),
    };
    let mut bytes = greeting.encode().to_vec();
    bytes.extend(refusal(why, text));
    let _ = stream.set_nonblocking(true);
    // What is left unread would make the close a reset, which could overtake the answer.
    let _ = stream.read(&mut [0; 64]);
    // A fresh connection takes so few bytes at once.
    let _ = stream.write(&bytes);
}

fn refusal(why: Refusal, text: &str) -> Vec<u8> {
    Response::Refused {
        why,
        text: text.to_string(),
    }
    .encode()
}

/// Serves a connection to its end, whatever the client does.
pub fn serve(stream: &Arc<TcpStream>, permit: Permit, udp: &UdpSocket, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    // An error here is the client's silence or its hanging up: there is nobody to tell.
    let _ = talk(stream, &permit, udp, shared);
}

/// Greets the client, and reads its request if it may make one; none if it was refused.
fn meet<'a>(stream: &'a TcpStream, shared: &Shared) -> io::Result<Option<(Line<'a>, Request)>> {
    let until = mono_ns() + REQUEST_WITHIN.as_nanos() as i64;
    let from = stream.peer_addr()?.ip();
    let mut hello = [0; HELLO_LEN];
    let is_tls = first_byte(stream, until, shared)? == TLS_FIRST;
    let mut pipe = match (&shared.tls, is_tls) {
        (Some(tls), true) => {
            await_turn(tls, from, until, shared)?;
            let counters = &shared.counters;
            counters.tls_handshakes.fetch_add(1, Ordering::Relaxed);
            let until = mono_ns() + HANDSHAKE_WITHIN.as_nanos() as i64;
            let mut pipe = Pipe::server(&tls.config)?;
            read_all(stream, &mut pipe, &mut hello, until, shared)?;
            pipe
        }
        (None, true) => return Err(io::ErrorKind::Unsupported.into()),
        (_, false) => {
            let mut pipe = Pipe::plain();
            read_all(stream, &mut pipe, &mut hello, until, shared)?;
            pipe
        }
    };
    let strange = |pipe| Line::new(stream, pipe, ServerEnd::stranger(), None);
    let users = shared.ring.users();
    let greeting = Greeting {
        key_needed: users.is_some(),
        nonce: random_bytes(),
        salt: users.as_ref().map_or([0; 16], |u| u.salt()),
    }
    .encode();
    let bytes = pipe.seal(&greeting)?;
    write_all(stream, &bytes, until, shared)?;
    if shared.tls_only && !is_tls {
        let text = "this server speaks TLS only: give its public key with --pin";
        let line = strange(pipe);
        return refuse(&line, (Refusal::Forbidden, text.into()), shared).map(|()| None);
    }
    let asked = match Hello::decode(&hello) {
        Ok(_) => read_request(stream, &mut pipe, until, shared)?,
        Err(e) => Err(e),
    };
    if users.is_some() && shared.ring.is_suspect(from) {
        pause(WRONG_AFTER_NS, shared)?;
    }
    let transcript = Transcript::new(&hello, &greeting);
    let now_s = unix_s(shared.clock);
    let admitted = asked.and_then(|asked| asked.admit(&transcript, users.as_deref(), now_s));
    let e = match admitted {
        Ok(Admitted { request, user, end }) => {
            return Ok(Some((Line::new(stream, pipe, end, user), request)));
        }
        Err(e) => e,
    };
    let why = match e {
        ControlError::WrongKey => Refusal::WrongKey,
        ControlError::KeyNeeded => Refusal::KeyNeeded,
        _ => Refusal::Malformed,
    };
    if why == Refusal::WrongKey {
        shared.counters.wrong_keys.fetch_add(1, Ordering::Relaxed);
        let answered = shared.ring.answers_wrong_key(from);
        pause(WRONG_AFTER_NS, shared)?;
        if !answered {
            shared.refused(from, why, "");
            close_abruptly(stream);
            return Ok(None);
        }
    }
    refuse(&strange(pipe), (why, e.to_string()), shared).map(|()| None)
}

/// Peeks at the first byte, which stays to be read.
fn first_byte(stream: &TcpStream, until: i64, shared: &Shared) -> io::Result<u8> {
    let mut first = [0];
    loop {
        sleep_until(stream, until, shared)?;
        match stream.peek(&mut first) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(first[0]),
            Err(e) if is_tick(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Waits until this address may make a TLS handshake.
fn await_turn(tls: &Tls, from: IpAddr, until: i64, shared: &Shared) -> io::Result<()> {
    while !tls.handshakes().begin(from) {
        expired(until, shared)?;
        std::thread::sleep(TICK / 2);
    }
    Ok(())
}

/// Waits, unless the server stops meanwhile.
fn pause(ns: i64, shared: &Shared) -> io::Result<()> {
    let until = mono_ns() + ns;
    while mono_ns() < until {
        expired(i64::MAX, shared)?;
        std::thread::sleep(TICK / 4);
    }
    Ok(())
}

fn talk(
    stream: &Arc<TcpStream>,
    permit: &Permit,
    udp: &UdpSocket,
    shared: &Shared,
) -> io::Result<()> {
    let Some((line, request)) = meet(stream, shared)? else {
        return Ok(());
    };
    let user = line.user.clone();
    let _served = user.as_ref().map(|u| shared.ring.serve(u, stream));
    permit.is_of(user.map(|u| u.name));
    answer(&line, request, permit, udp, shared)
}

fn answer(
    stream: &Line,
    request: Request,
    permit: &Permit,
    udp: &UdpSocket,
    shared: &Shared,
) -> io::Result<()> {
    if !matches!(request, Request::Ping | Request::Info | Request::Ticket)
        && let Err(e) = shared.quota.serve(permit)
    {
        return refuse(stream, e, shared);
    }
    let answer = match request {
        Request::Ping => Response::Pong,
        Request::Ticket => match &shared.tls {
            Some(tls) if stream.is_secret() => Response::Ticket(tls.tickets.ticket(random_bytes())),
            _ => {
                let text = "keys for probes are told inside TLS only: give the server's public key with --pin";
                return refuse(stream, (Refusal::Forbidden, text.into()), shared);
            }
        },
        Request::Info => Response::Info(ServerInfo {
            release: env!("CARGO_PKG_VERSION").to_string(),
            congestion: CongestionControls::read().available,
            max_flows: shared.quota.budgets().flows_per_client,
            max_duration: shared.quota.budgets().duration,
        }),
        Request::Report { session } => match shared.quota.session(&session) {
            Some(flows) => {
                let _sending = match shared.quota.reporting(permit) {
                    Ok(share) => share,
                    Err(e) => return refuse(stream, e, shared),
                };
                let until = mono_ns() + REPORT_WITHIN.as_nanos() as i64;
                let report = settle(&flows, Duration::from_millis(500));
                return stream.say_encoded(report, until, shared).map(drop);
            }
            None => {
                let text = "no such session: its report is kept for ten minutes".to_string();
                return refuse(stream, (Refusal::UnknownSession, text), shared);
            }
        },
        Request::Upload { spec } => return upload(stream, permit, &spec, shared),
        Request::Download { spec, congestion } => {
            return download(stream, permit, &spec, &congestion, shared);
        }
        Request::Fetch {
            spec,
            congestion,
            bytes,
        } => return fetch(stream, permit, &spec, &congestion, bytes, shared),
        Request::Datagrams {
            spec,
            direction,
            rate,
            payload_bytes,
        } => {
            let carrier = Carrier {
                stream,
                socket: udp,
                shared,
                rate,
                payload_bytes,
            };
            return datagrams(&carrier, permit, &spec, direction);
        }
        Request::Turn { duration } => return turn(stream, permit, duration, shared),
        Request::Listen { spec, wanted } => {
            return listeners::serve(stream, permit, &spec, &wanted, shared);
        }
        Request::Capture { spec } => return capture::serve(stream, permit, &spec, shared),
        Request::Train {
            spec,
            direction,
            program,
        } => {
            let host = Host {
                stream,
                udp,
                shared,
            };
            return train::serve(&host, permit, &spec, direction, &program);
        }
    };
    let until = mono_ns() + REPORT_WITHIN.as_nanos() as i64;
    stream.say(&answer, until, shared).map(drop)
}

pub(super) fn refuse(
    stream: &Line,
    (why, text): (Refusal, String),
    shared: &Shared,
) -> io::Result<()> {
    if let Ok(from) = stream.peer_addr() {
        shared.refused(from.ip(), why, &text);
    }
    let until = mono_ns() + REQUEST_WITHIN.as_nanos() as i64;
    stream.say(&Response::Refused { why, text }, until, shared)?;
    // Closing with something unread would reset the connection and could lose the answer on its way.
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut rest = [0; 512];
    let until = mono_ns() + 1_000_000_000;
    stream.set_read_timeout(Some(TICK))?;
    while mono_ns() < until && !shared.stop.load(Ordering::Relaxed) {
        match { &**stream }.read(&mut rest) {
            Ok(0) => break,
            Err(e) if !is_tick(&e) => break,
            _ => {}
        }
    }
    Ok(())
}

fn is_tick(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn expired(until: i64, shared: &Shared) -> io::Result<()> {
    if shared.stop.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    if mono_ns() >= until {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(())
}

/// Lets the next read wait until then. It ends sooner if the connection gives way or the server stops: both shut it down,
/// so that hundreds of silent connections wake nobody.
fn sleep_until(stream: &TcpStream, until: i64, shared: &Shared) -> io::Result<()> {
    expired(until, shared)?;
    let left = (until - mono_ns()).max(1_000_000).unsigned_abs();
    stream.set_read_timeout(Some(std::time::Duration::from_nanos(left)))
}

/// Fills `buf` by the monotonic time `until`.
fn read_all(
    mut stream: &TcpStream,
    pipe: &mut Pipe,
    buf: &mut [u8],
    until: i64,
    shared: &Shared,
) -> io::Result<()> {
    let mut have = 0;
    while have < buf.len() {
        sleep_until(stream, until, shared)?;
        match pipe.read(&mut stream, &mut buf[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e) if is_tick(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn read_request(
    stream: &TcpStream,
    pipe: &mut Pipe,
    until: i64,
    shared: &Shared,
) -> io::Result<Result<Asked, ControlError>> {
    let mut reader = RequestReader::default();
    let mut buf = [0; 512];
    loop {
        let wants = reader.wants().min(buf.len());
        read_all(stream, pipe, &mut buf[..wants], until, shared)?;
        match reader.push(&buf[..wants]) {
            Ok(None) => {}
            Ok(Some(asked)) => return Ok(Ok(asked)),
            Err(e) => return Ok(Err(e)),
        }
    }
}

pub(super) fn write_all(
    stream: &TcpStream,
    mut bytes: &[u8],
    until: i64,
    shared: &Shared,
) -> io::Result<()> {
    stream.set_write_timeout(Some(TICK))?;
    while !bytes.is_empty() {
        match { stream }.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if is_tick(&e) => {}
            Err(e) => return Err(e),
        }
        if !bytes.is_empty() {
            expired(until, shared)?;
        }
    }
    Ok(())
}

/// Tells the client that its flow starts, and the report when. Returns the length of the message.
pub(super) fn accept(
    stream: &Line,
    flow: &FlowPermit,
    congestion: &str,
    udp_token: u64,
    shared: &Shared,
) -> io::Result<(i64, u64)> {
    shared.counters.flows.fetch_add(1, Ordering::Relaxed);
    let began = mono_ns();
    let server_ns = shared.clock.from_mono_ns(began);
    flow.with_report(|r| {
        r.start_ns = server_ns;
        r.congestion = congestion.to_string();
    });
    let answer = Response::Accepted(Accepted {
        server_ns,
        duration: flow.duration,
        sample: flow.sample,
        congestion: congestion.to_string(),
        udp_port: stream.local_addr()?.port(),
        udp_token,
    });
    let until = began + REQUEST_WITHIN.as_nanos() as i64;
    let len = stream.say(&answer, until, shared)?;
    Ok((began, len))
}

fn pump<'a>(
    stream: &'a TcpStream,
    flow: &FlowPermit,
    began: i64,
    (gate, shared): (&'a Gate<'a>, &'a Shared),
) -> Pump<'a> {
    Pump {
        socket: stream,
        until: began + flow.duration.as_nanos() as i64,
        sample: flow.sample,
        patience: PATIENCE,
        gate: Some(gate),
        stop: &shared.stop,
    }
}

fn since(began: i64, now: i64) -> Duration {
    Duration::from_nanos((now - began).max(0) as u64)
}

fn upload(stream: &Line, permit: &Permit, spec: &FlowSpec, shared: &Shared) -> io::Result<()> {
    let mut flow = match shared.quota.flow(permit, spec, Direction::Up, Use::Upload) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let (began, _) = accept(stream, &flow, "", 0, shared)?;
    let mut counted = 0;
    let gate = Gate::new(&shared.ceiling);
    let end = pump(stream, &flow, began, (&gate, shared)).receive(&mut |now, bytes| {
        flow.with_report(|r| {
            r.limits.busy = since(began, now);
            r.limits.server_ceiling = gate.waited();
        });
        flow.sampled(Sample {
            at: since(began, now),
            bytes,
            detail: Detail::Receiver,
        });
        shared
            .counters
            .bytes_received
            .fetch_add(bytes - counted, Ordering::Relaxed);
        counted = bytes;
        if flow.spend(bytes) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    finish(stream, &flow, &end, shared)
}

/// Prepares a flow to the client with the named controller; an unknown one is answered with a refusal.
fn sending<'a>(
    stream: &TcpStream,
    permit: &'a Permit,
    spec: &FlowSpec,
    (congestion, usage): (&str, Use),
    shared: &Shared,
) -> Result<FlowPermit<'a>, Refused> {
    // Without a name the socket keeps what it inherited from the listener.
    if !congestion.is_empty()
        && let Err(e) = choose_congestion(SockRef::from(stream), Some(congestion))
    {
        return Err((Refusal::UnknownCongestion, format!("at the server: {e}")));
    }
    let flow = shared.quota.flow(permit, spec, Direction::Down, usage)?;
    lift_send_buffer(stream);
    Ok(flow)
}

fn download(
    stream: &Line,
    permit: &Permit,
    spec: &FlowSpec,
    congestion: &str,
    shared: &Shared,
) -> io::Result<()> {
    let mut flow = match sending(stream, permit, spec, (congestion, Use::Download), shared) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let payload = shared.payload.get_or_init(Payload::new);
    let before = TcpInfo::read(stream)?.bytes_acked().unwrap_or(0);
    let (began, answer) = accept(stream, &flow, &congestion_of(stream), 0, shared)?;
    let mut counted = 0;
    let gate = Gate::new(&shared.ceiling);
    let end = pump(stream, &flow, began, (&gate, shared)).send(payload, &mut |now, _, info| {
        let bytes = info
            .bytes_acked()
            .unwrap_or(0)
            .saturating_sub(before + answer);
        acknowledged(
            &mut flow,
            since(began, now),
            bytes,
            &mut counted,
            (info, &gate),
            shared,
        )
    });
    finish(stream, &flow, &end, shared)
}

/// Books the bytes that a flow to the client has moved; `counted` of them are booked already.
fn acknowledged(
    flow: &mut FlowPermit,
    at: Duration,
    bytes: u64,
    counted: &mut u64,
    (info, gate): (&TcpInfo, &Gate),
    shared: &Shared,
) -> ControlFlow<()> {
    flow.with_report(|r| {
        r.limits = info.limits();
        r.limits.server_ceiling = gate.waited();
    });
    flow.sampled(Sample {
        at,
        bytes,
        detail: Detail::Sender(info.sender()),
    });
    let more = bytes.saturating_sub(*counted);
    shared
        .counters
        .bytes_sent
        .fetch_add(more, Ordering::Relaxed);
    *counted = bytes;
    match flow.spend(bytes) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

fn fetch(
    stream: &Line,
    permit: &Permit,
    spec: &FlowSpec,
    congestion: &str,
    bytes: u64,
    shared: &Shared,
) -> io::Result<()> {
    let mut flow = match sending(stream, permit, spec, (congestion, Use::Fetch), shared) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let payload = shared.payload.get_or_init(Payload::new);
    let before = TcpInfo::read(stream)?.bytes_acked().unwrap_or(0);
    let (began, answer) = accept(stream, &flow, &congestion_of(stream), 0, shared)?;
    let gate = Gate::new(&shared.ceiling);
    let whole = Whole {
        socket: stream,
        bytes,
        until: began + flow.duration.as_nanos() as i64,
        sample: flow.sample,
        patience: flow.duration.min(FETCH_PATIENCE),
        gate: Some(&gate),
        pace: None,
        stop: &shared.stop,
    };
    let mut counted = 0;
    let went = whole.send(payload, before + answer, &mut |now, acked, info| {
        acknowledged(
            &mut flow,
            since(began, now),
            acked,
            &mut counted,
            (info, &gate),
            shared,
        )
    });
    match went.result {
        Ok(()) => {
            flow.with_report(|r| r.ended = Ended::Whole);
            Ok(())
        }
        Err(end) => finish(stream, &flow, &end, shared),
    }
}

fn datagrams(
    carrier: &Carrier,
    permit: &Permit,
    spec: &FlowSpec,
    direction: Direction,
) -> io::Result<()> {
    let Carrier { stream, shared, .. } = *carrier;
    let size = usize::from(carrier.payload_bytes);
    if carrier.rate == BitsPerSec::ZERO || !(HEADER_LEN..=MAX_LEN).contains(&size) {
        let text = format!(
            "datagrams need a rate above zero and a payload of {HEADER_LEN} to {MAX_LEN} bytes, not {} and {size}",
            carrier.rate
        );
        return refuse(stream, (Refusal::Malformed, text), shared);
    }
    let _promise = match shared.promises.rate(carrier.rate, "UDP load") {
        Ok(promise) => promise,
        Err(e) => return refuse(stream, e, shared),
    };
    let mut flow = match shared.quota.flow(permit, spec, direction, Use::Datagrams) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let end = carrier.carry(&mut flow, direction, |flow, token| {
        accept(stream, flow, "", token, shared).map(|(began, _)| began)
    })?;
    let counter = match direction {
        Direction::Up => &shared.counters.bytes_received,
        Direction::Down => &shared.counters.bytes_sent,
    };
    flow.with_report(|r| {
        counter.fetch_add(r.samples.last().map_or(0, |s| s.bytes), Ordering::Relaxed);
    });
    finish(stream, &flow, &end, shared)
}

/// Lets a client wait for the uplink, tells it its place, and keeps the uplink for it until it closes.
fn turn(stream: &Line, permit: &Permit, lasts: Duration, shared: &Shared) -> io::Result<()> {
    let place = match shared.quota.wait(permit, lasts) {
        Ok(place) => place,
        Err(e) => return refuse(stream, e, shared),
    };
    let gone = || wait(stream, PEER_DONE, TICK.as_nanos() as i64).intersects(GONE);
    let until = mono_ns() + LONGEST_WAIT.as_nanos() as i64;
    let mut told = None;
    loop {
        let standing = place.ask();
        let now = mono_ns();
        let changed = |(at, before): (i64, usize)| now - at > TELL_NS || before != standing.place;
        if told.is_none_or(changed) {
            told = Some((now, standing.place));
            let answer = Response::Turn {
                place: u32::try_from(standing.place).unwrap_or(u32::MAX),
                after: Duration::from_nanos(standing.after_ns.max(0).unsigned_abs()),
            };
            let by = now + REQUEST_WITHIN.as_nanos() as i64;
            stream.say(&answer, by, shared)?;
        }
        if standing.place == 0 {
            break;
        }
        if gone() || shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if now > until {
            let text = "the uplink was not free within an hour".to_string();
            return refuse(stream, (Refusal::Loaded, text), shared);
        }
    }
    let held = place.hold();
    // A client that vanishes frees the uplink.
    keep_alive(stream, std::time::Duration::from_secs(15));
    let (began, mut loaded) = (mono_ns(), mono_ns());
    while !gone() && !held.is_over() && !shared.stop.load(Ordering::Relaxed) {
        let now = mono_ns();
        if !held.is_idle() {
            loaded = now;
        }
        if now - loaded > IDLE_TURN_NS || now - began > LONGEST_WAIT.as_nanos() as i64 {
            break;
        }
    }
    Ok(())
}

/// Sets TCP keep-alive: the first probe after this time, then three times as often.
pub(super) fn keep_alive(stream: &TcpStream, after: std::time::Duration) {
    let keepalive = TcpKeepalive::new()
        .with_time(after)
        .with_interval(after / 3)
        .with_retries(4);
    // A kernel that does not ask lets the flow go to its end, which is bounded.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

pub(super) fn finish(
    stream: &Line,
    flow: &FlowPermit,
    end: &End,
    shared: &Shared,
) -> io::Result<()> {
    let ended = match end {
        End::TimeUp => Ended::TimeUp,
        End::PeerClosed => Ended::ByClient,
        End::Enough => Ended::Budget,
        End::Stopped | End::Stalled | End::Failed(_) => Ended::Failed,
    };
    flow.with_report(|r| r.ended = ended);
    if let (End::Enough, Direction::Up) = (end, direction_of(flow)) {
        return refuse(stream, (Refusal::Spent, flow.enough().to_string()), shared);
    }
    if !matches!(end, End::PeerClosed) {
        close_abruptly(stream);
    }
    Ok(())
}

fn direction_of(flow: &FlowPermit) -> Direction {
    let mut direction = Direction::Up;
    flow.with_report(|r| direction = r.direction);
    direction
}
