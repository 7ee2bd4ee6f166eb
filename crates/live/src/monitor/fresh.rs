//! Targets that are probed on a fresh TCP connection each time.

use super::tls::{Session, Tls};
use crate::clock::Clock;
use crate::load::kernel::close_abruptly;
use crate::outlet::Outlet;
use crate::probe::wire::told;
use base::{Duration, Time};
use measure::asker::{Answer, Asker};
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

pub struct Fresh {
    pub asker: Asker,
    pub remote: SocketAddr,
    pub outlet: Outlet,
    /// Request to send once connected; without it, the connection itself is the answer.
    request: Option<String>,
    /// TLS around the request, if any.
    tls: Option<Tls>,
    under_way: Vec<Connection>,
}

struct Connection {
    seq: u64,
    began: Time,
    stream: TcpStream,
    state: State,
}

enum State {
    Connecting,
    /// The request is in flight.
    Asked,
    /// The handshake, or the request inside it, is in flight.
    Sheltered(Session),
}

/// Greatest number of connections; slots beyond it are given up, so that nothing piles up on a link that is stuck.
const AT_ONCE: usize = 32;
/// Time after which a connection is given up: later answers have no use.
const PATIENCE: Duration = Duration::from_secs(30);

impl Fresh {
    pub fn new(
        asker: Asker,
        (remote, outlet): (SocketAddr, Outlet),
        request: Option<String>,
        tls: Option<Tls>,
    ) -> Fresh {
        Fresh {
            asker,
            remote,
            outlet,
            request,
            tls,
            under_way: Vec::new(),
        }
    }

    pub fn poll_fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let events = |c: &Connection| match &c.state {
            State::Connecting => PollFlags::POLLOUT,
            State::Sheltered(session) if session.wants_write() => PollFlags::POLLOUT,
            State::Asked | State::Sheltered(_) => PollFlags::POLLIN,
        };
        let all = self.under_way.iter();
        all.map(|c| (c.stream.as_fd(), events(c))).collect()
    }

    pub fn launch_due(&mut self, clock: Clock) {
        loop {
            let now = clock.now();
            if self.under_way.len() >= AT_ONCE && now >= self.asker.slots().due() {
                self.asker.miss(now);
                continue;
            }
            let Some(seq) = self.asker.poll_transmit(now) else {
                return;
            };
            let before = clock.now();
            match self.connect() {
                Ok(stream) => {
                    self.asker.handle_sent(seq, before, clock.now());
                    self.under_way.push(Connection {
                        seq,
                        began: before,
                        stream,
                        state: State::Connecting,
                    });
                }
                Err(e) => {
                    let why = e.raw_os_error().map_or(e.to_string(), told_of_tcp);
                    self.asker.handle_send_failed(before, seq, &why);
                }
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let domain = Domain::for_address(self.remote);
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        self.outlet.bind(&socket)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&self.remote.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(socket.into()),
        }
    }

    /// Advances the connections that moved.
    pub fn advance(&mut self, clock: Clock) {
        let now = clock.now();
        for mut c in std::mem::take(&mut self.under_way) {
            match self.step(&mut c) {
                Step::Wait if now.saturating_since(c.began) < PATIENCE => self.under_way.push(c),
                Step::Wait => close_abruptly(&c.stream),
                Step::Answered => {
                    let at = clock.now();
                    let answer = Answer {
                        at,
                        steady: true,
                        tos: None,
                        far: None,
                    };
                    self.asker.handle_answer(at, c.seq, answer);
                    close_abruptly(&c.stream);
                }
                Step::Refused(why) => {
                    self.asker.handle_refused(now, c.seq, &why);
                    close_abruptly(&c.stream);
                }
            }
        }
        self.asker.handle_timeout(now);
    }

    fn step(&self, c: &mut Connection) -> Step {
        let refused =
            |e: io::Error| Step::Refused(e.raw_os_error().map_or(e.to_string(), told_of_tcp));
        if matches!(c.state, State::Connecting) {
            match c.stream.take_error() {
                Ok(Some(e)) | Err(e) => return refused(e),
                Ok(None) => {}
            }
            // Without a peer it is still being connected.
            if c.stream.peer_addr().is_err() {
                return Step::Wait;
            }
            let Some(request) = &self.request else {
                return Step::Answered;
            };
            let asked = match &self.tls {
                Some(tls) => tls.begin(request).map(State::Sheltered),
                // An empty send buffer takes a request whole.
                None => c
                    .stream
                    .write_all(request.as_bytes())
                    .map(|()| State::Asked),
            };
            match asked {
                Ok(state) => c.state = state,
                Err(e) => return refused(e),
            }
        }
        let came = match &mut c.state {
            State::Sheltered(session) => session.read(&mut c.stream),
            State::Connecting | State::Asked => c.stream.read(&mut [0]),
        };
        match came {
            Ok(0) => Step::Refused("the server hung up without an answer".into()),
            Ok(_) => Step::Answered,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Step::Wait
            }
            Err(e) => refused(e),
        }
    }
}

enum Step {
    Wait,
    Answered,
    Refused(String),
}

fn told_of_tcp(errno: i32) -> String {
    match errno {
        libc::ECONNREFUSED => "nothing listens on its port (connection refused)".into(),
        other => told(other),
    }
}
