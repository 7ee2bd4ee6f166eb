//! Probes on fresh TCP connections: the time to set up a connection, and that of a one-byte request on it, while the
//! link is loaded. This is the foreign part of the responsiveness score (draft-ietf-ippm-responsiveness), without TLS
//! unless the server is pinned. The setup time never includes TLS.
//!
//! One thread keeps all probes. A slot that comes due while too many are in flight is written as not sent, so that
//! nothing piles up on a link that is stuck.

use super::Peer;
use super::kernel::{choose_congestion, close_abruptly, random_bytes};
use crate::clock::{Clock, mono_ns, timespec};
use crate::pipe::Pipe;
use crate::tally::Tally;
use base::Duration;
use base::record::{Delay, Event, Row, Status, Text};
use measure::control::seal::ClientEnd;
use measure::control::{FRONT_LEN, GREETING_LEN, HELLO_LEN, Hello, Request, Response, check_magic};
use nix::poll::{PollFd, PollFlags, ppoll};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

#[derive(Clone, Debug)]
pub struct ForeignPlan {
    /// Server to connect to; its patience decides when a probe is lost.
    pub peer: Peer,
    /// Interval between two connections.
    pub interval: Duration,
    /// Greatest number of probes in flight.
    pub at_once: usize,
    /// Counter of the connections' traffic.
    pub tally: Tally,
}

/// Running probes. Dropping it stops them.
pub struct ForeignProbe {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ForeignProbe {
    /// # Errors
    /// Failure to start the thread.
    pub fn start(plan: ForeignPlan, clock: Clock, rows: Sender<Row>) -> io::Result<ForeignProbe> {
        let stop = Arc::new(AtomicBool::new(false));
        let prober = Prober {
            plan,
            clock,
            rows,
            stop: stop.clone(),
            connect: "tcp-connect".into(),
            request: "tcp-request".into(),
            complained: false,
        };
        let thread = std::thread::Builder::new()
            .name("foreign".into())
            .stack_size(256 << 10)
            .spawn(move || prober.run())?;
        Ok(ForeignProbe {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops within about 50 ms. Probes in flight are not written: their result is unknown.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

impl Drop for ForeignProbe {
    fn drop(&mut self) {
        self.end();
    }
}

enum Stage {
    Connecting,
    Greeting {
        hello: [u8; HELLO_LEN],
        have: usize,
        bytes: [u8; GREETING_LEN],
    },
    Answer {
        sent: i64,
        end: Box<ClientEnd>,
    },
}

struct Under {
    stream: TcpStream,
    pipe: Pipe,
    seq: i64,
    began: i64,
    late: i64,
    stage: Stage,
}

/// Result of one step of a probe.
enum Step {
    Wait,
    Done,
    Failed(String),
}

struct Prober {
    plan: ForeignPlan,
    clock: Clock,
    rows: Sender<Row>,
    stop: Arc<AtomicBool>,
    connect: Text,
    request: Text,
    complained: bool,
}

const TICK_NS: i64 = 50_000_000;

impl Prober {
    fn run(mut self) {
        let interval = self.plan.interval.as_nanos().max(1_000_000) as i64;
        let first = mono_ns();
        let mut seq = 0;
        let mut under: Vec<Under> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let now = mono_ns();
            while first + seq * interval <= now {
                let due = first + seq * interval;
                // A slot of the past is not caught up with: two probes at once would disturb each other.
                if now - due >= interval || under.len() >= self.plan.at_once {
                    self.write(
                        &self.connect,
                        seq,
                        due,
                        None,
                        Some(now - due),
                        Status::NotSent,
                    );
                } else {
                    match self.launch(seq, due) {
                        Ok(u) => under.push(u),
                        Err(e) => {
                            self.write(
                                &self.connect,
                                seq,
                                now,
                                None,
                                Some(now - due),
                                Status::Lost,
                            );
                            self.complain(&e.to_string());
                        }
                    }
                }
                seq += 1;
            }
            let wake = (first + seq * interval - now).clamp(0, TICK_NS);
            let mut fds: Vec<PollFd> = under
                .iter()
                .map(|u| {
                    let events = match u.stage {
                        Stage::Connecting => PollFlags::POLLOUT,
                        _ => PollFlags::POLLIN,
                    };
                    PollFd::new(u.stream.as_fd(), events)
                })
                .collect();
            let _ = ppoll(&mut fds, Some(timespec(wake)), None);
            let seen: Vec<bool> = fds.iter().map(|f| f.any().unwrap_or(false)).collect();
            drop(fds);
            let now = mono_ns();
            let mut seen = seen.into_iter();
            let mut kept = Vec::with_capacity(under.len());
            for mut u in under {
                let step = if seen.next().unwrap_or(false) {
                    self.step(&mut u)
                } else {
                    Step::Wait
                };
                match step {
                    Step::Wait if now - u.began < self.plan.peer.patience.as_nanos() as i64 => {
                        kept.push(u)
                    }
                    Step::Wait => self.lost(u),
                    Step::Done => self.close(&u),
                    Step::Failed(why) => {
                        self.complain(&why);
                        self.lost(u);
                    }
                }
            }
            under = kept;
        }
        for u in &under {
            self.close(u);
        }
    }

    fn launch(&self, seq: i64, due: i64) -> io::Result<Under> {
        let server = self.plan.peer.server;
        let socket = Socket::new(
            Domain::for_address(server),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        self.plan.peer.access.outlet.bind(&socket)?;
        // By its default, any kernel can.
        let _ = choose_congestion(SockRef::from(&socket), None);
        socket.set_tcp_nodelay(true)?;
        let began = mono_ns();
        match socket.connect(&server.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
            _ => {}
        }
        Ok(Under {
            stream: socket.into(),
            pipe: self
                .plan
                .peer
                .access
                .pin
                .map_or(Ok(Pipe::plain()), Pipe::client)?,
            seq,
            began,
            late: began - due,
            stage: Stage::Connecting,
        })
    }

    fn step(&mut self, u: &mut Under) -> Step {
        let now = mono_ns();
        match &mut u.stage {
            Stage::Connecting => {
                if let Ok(Some(e)) = u.stream.take_error() {
                    return Step::Failed(format!(
                        "cannot connect to {}: {e}",
                        self.plan.peer.server
                    ));
                }
                self.write(
                    &self.connect,
                    u.seq,
                    u.began,
                    Some(now - u.began),
                    Some(u.late),
                    Status::Ok,
                );
                let hello = Hello {
                    nonce: random_bytes(),
                }
                .encode();
                // An empty send buffer takes it whole.
                let said = u.pipe.seal(&hello).and_then(|b| u.stream.write_all(&b));
                if let Err(e) = said {
                    return Step::Failed(e.to_string());
                }
                u.stage = Stage::Greeting {
                    hello,
                    have: 0,
                    bytes: [0; GREETING_LEN],
                };
                Step::Wait
            }
            Stage::Greeting { hello, have, bytes } => {
                match u.pipe.read(&mut u.stream, &mut bytes[*have..]) {
                    Ok(0) => return Step::Failed("the server hung up before its greeting".into()),
                    Ok(n) => *have += n,
                    Err(e) => return waits(&e),
                }
                if *have >= FRONT_LEN
                    && let Err(e) = check_magic(bytes)
                {
                    return Step::Failed(e.to_string());
                }
                if *have < GREETING_LEN {
                    return Step::Wait;
                }
                let mut end = match ClientEnd::new(hello, bytes, self.plan.peer.access.key.as_ref())
                {
                    Ok(end) => Box::new(end),
                    Err(e) => return Step::Failed(e.to_string()),
                };
                let request = u.pipe.seal(&end.request(&Request::Ping));
                let sent = mono_ns();
                if let Err(e) = request.and_then(|b| u.stream.write_all(&b)) {
                    return Step::Failed(e.to_string());
                }
                u.stage = Stage::Answer { sent, end };
                Step::Wait
            }
            Stage::Answer { sent, end } => {
                let mut buf = [0; 256];
                let wants = end.wants().min(buf.len());
                let n = match u.pipe.read(&mut u.stream, &mut buf[..wants]) {
                    Ok(0) => return Step::Failed("the server hung up before its answer".into()),
                    Ok(n) => n,
                    Err(e) => return waits(&e),
                };
                match end.push(&buf[..n]) {
                    Ok(None) => Step::Wait,
                    Ok(Some(Response::Pong)) => {
                        let sent = *sent;
                        self.write(
                            &self.request,
                            u.seq,
                            sent,
                            Some(now - sent),
                            None,
                            Status::Ok,
                        );
                        Step::Done
                    }
                    Ok(Some(Response::Refused { text, .. })) => Step::Failed(text),
                    Ok(Some(_)) => Step::Failed("another answer than to a ping".into()),
                    Err(e) => Step::Failed(e.to_string()),
                }
            }
        }
    }

    fn lost(&self, u: Under) {
        match u.stage {
            Stage::Connecting => self.write(
                &self.connect,
                u.seq,
                u.began,
                None,
                Some(u.late),
                Status::Lost,
            ),
            Stage::Greeting { .. } => {
                self.write(&self.request, u.seq, u.began, None, None, Status::Lost)
            }
            Stage::Answer { sent, .. } => {
                self.write(&self.request, u.seq, sent, None, None, Status::Lost)
            }
        }
        self.close(&u);
    }

    fn close(&self, u: &Under) {
        self.plan.tally.connection(&u.stream);
        close_abruptly(&u.stream);
    }

    /// Reports an error once: a link that is down would repeat it with every probe.
    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            let _ = self.rows.send(Row::Event(Event {
                t_ns: self.clock.unix_ns(),
                kind: "fault".into(),
                subject: self.connect.clone(),
                detail: why.into(),
            }));
        }
    }

    fn write(
        &self,
        target: &Text,
        seq: i64,
        mono: i64,
        rtt: Option<i64>,
        late: Option<i64>,
        status: Status,
    ) {
        let _ = self.rows.send(Row::Delay(Delay {
            rtt_ns: rtt,
            late_send_ns: late,
            status,
            ..Delay::unanswered(self.clock.from_mono_ns(mono), seq, target.clone())
        }));
    }
}

fn waits(e: &io::Error) -> Step {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Step::Wait,
        _ => Step::Failed(e.to_string()),
    }
}
