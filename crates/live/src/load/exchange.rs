//! Request to the server and its answer, over a fresh connection.

use super::LoadError;
use super::kernel::{choose_congestion, lift_send_buffer, random_bytes};
use crate::clock::mono_ns;
use crate::outlet::Outlet;
use crate::pipe::Pipe;
use base::Duration;
use measure::control::seal::ClientEnd;
use measure::control::{
    ControlError, FRONT_LEN, GREETING_LEN, Hello, Refusal, Request, Response, check_magic,
};
use measure::keys::{Credential, Pin};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Deref;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Interval at which a blocked read checks the stop flag.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Credentials of the client, and identity of the server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub key: Option<Credential>,
    /// Public key of the server. With it, control messages travel inside TLS 1.3.
    pub pin: Option<Pin>,
    /// Addresses that the user has named beside the server's. A client sends to no others, whatever a server says.
    pub also: Vec<IpAddr>,
    /// Interface that all sockets are bound to.
    pub outlet: Outlet,
}

impl Access {
    /// True if probes over UDP are signed.
    pub fn signs_probes(&self) -> bool {
        self.key.is_some() || self.pin.is_some()
    }
}

/// Address of the server, and the access to it.
#[derive(Clone, Debug)]
pub struct Peer {
    pub server: SocketAddr,
    pub access: Access,
    /// Longest wait for a connection or an answer.
    pub patience: Duration,
}

/// Monotonic times of a request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub sent: i64,
    pub answered: i64,
}

/// Connection to the server: its socket, which carries the load, and the control messages on it.
pub struct Line {
    stream: TcpStream,
    talk: Mutex<Talk>,
}

struct Talk {
    pipe: Pipe,
    /// State of TLS, from the greeting on.
    end: Option<ClientEnd>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Line").field(&self.stream).finish()
    }
}

impl Deref for Line {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

#[cfg(target_os = "linux")]
impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Line {
    /// Wraps a connection that exists.
    ///
    /// # Errors
    /// Errors of the TLS library.
    pub fn new(stream: TcpStream, pin: Option<Pin>) -> io::Result<Line> {
        let pipe = pin.map_or(Ok(Pipe::plain()), Pipe::client)?;
        Ok(Line {
            stream,
            talk: Mutex::new(Talk { pipe, end: None }),
        })
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message after the request.
    ///
    /// # Errors
    /// The connection does not take it, or there has been no request.
    pub fn say(&self, body: &[u8]) -> io::Result<()> {
        let mut talk = self.talk();
        let end = talk.end.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let bytes = end.frame(body);
        let bytes = talk.pipe.seal(&bytes)?;
        { &self.stream }.write_all(&bytes)
    }

    /// Fills `buf` before the monotonic time `until`, checking `stop` while it waits.
    fn read_all(
        &self,
        pipe: &mut Pipe,
        buf: &mut [u8],
        until: i64,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        read_all_by(buf, until, stop, |buf| {
            self.stream.set_read_timeout(Some(TICK))?;
            pipe.read(&mut { &self.stream }, buf)
        })
    }
}

impl Peer {
    /// Gives an address that the far end has named, if the user has named it too, as the server's or beside that.
    ///
    /// # Errors
    /// The reason why nothing is sent there, with what to do.
    pub fn admit(&self, to: SocketAddr) -> Result<SocketAddr, String> {
        let ip = to.ip().to_canonical();
        let server = self.server.ip().to_canonical();
        let named = |a: &IpAddr| a.to_canonical() == ip;
        if ip == server || self.access.also.iter().any(named) {
            return Ok(to);
        }
        Err(format!(
            "only the server says to send to {ip}, and a server that lies could name anybody; \
             if that address is the server's or your own, allow it with --also {ip}"
        ))
    }

    /// # Errors
    /// Nobody there, or the congestion control is not to be had.
    pub fn connect(&self, congestion: Option<&str>) -> Result<Line, LoadError> {
        let unreachable = |source| LoadError::Unreachable {
            server: self.server,
            waited: self.patience,
            source,
        };
        let socket = Socket::new(
            Domain::for_address(self.server),
            Type::STREAM,
            Some(Protocol::TCP),
        )
        .and_then(|socket| self.access.outlet.bind(&socket).map(|()| socket))
        .map_err(unreachable)?;
        // Before the connection exists: switching later would leave the pacing of the one before.
        choose_congestion(SockRef::from(&socket), congestion)?;
        lift_send_buffer(&socket);
        socket
            .connect_timeout(&self.server.into(), self.patience.to_std())
            .map_err(unreachable)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).map_err(unreachable)?;
        Line::new(stream, self.access.pin).map_err(unreachable)
    }

    /// Key that signs probes over UDP: the user's own, or, from a server with a pin, a ticket that comes inside TLS.
    ///
    /// # Errors
    /// Errors of [`Peer::ask`].
    pub fn probe_key(&self) -> Result<Option<Credential>, LoadError> {
        let Access { key, pin, .. } = &self.access;
        if key.is_some() || pin.is_none() {
            return Ok(key.clone());
        }
        let line = self.connect(None)?;
        match self.ask(&line, &Request::Ticket, &AtomicBool::new(false))? {
            (Response::Ticket(ticket), _) => Ok(Some(Credential::of_ticket(ticket))),
            _ => {
                let what = "another answer than a key for probes";
                Err(self.control(ControlError::Malformed { what }))
            }
        }
    }

    /// Sends the greeting and the request, and waits for the answer. It does not read beyond the answer.
    ///
    /// # Errors
    /// A refusal, with the server's reason; no answer; a far end that is no Tailback, or lacks the key of the
    /// pin.
    pub fn ask(
        &self,
        line: &Line,
        request: &Request,
        stop: &AtomicBool,
    ) -> Result<(Response, Turn), LoadError> {
        let until = mono_ns() + self.patience.as_nanos() as i64;
        let mut guard = line.talk();
        let talk = &mut *guard;
        let hello = Hello {
            nonce: random_bytes(),
        }
        .encode();
        let failed = |talk: &Talk, what, source| self.talk_failed(&talk.pipe, what, source);
        let first = talk.pipe.seal(&hello);
        // Where the server has hung up, its reason may still be there to be read.
        let greeted = first.and_then(|bytes| { &line.stream }.write_all(&bytes));
        let mut greeting = [0; GREETING_LEN];
        let (front, rest) = greeting.split_at_mut(FRONT_LEN);
        for part in [front, rest] {
            if let Err(e) = line.read_all(&mut talk.pipe, part, until, stop) {
                let e = greeted.err().unwrap_or(e);
                return Err(failed(talk, "its greeting", e));
            }
            if part.len() == FRONT_LEN {
                check_magic(part).map_err(|e| self.control(e))?;
            }
        }
        let mut end = ClientEnd::new(&hello, &greeting, self.access.key.as_ref())
            .map_err(|e| self.control(e))?;
        let bytes = talk.pipe.seal(&end.request(request));
        talk.end = Some(end);
        let sent = mono_ns();
        let written = bytes.and_then(|bytes| { &line.stream }.write_all(&bytes));
        match self.hear_in(line, talk, until, stop) {
            Ok(response) => Ok((
                response,
                Turn {
                    sent,
                    answered: mono_ns(),
                },
            )),
            Err(e @ LoadError::Talk { .. }) => {
                written.map_err(|e| failed(talk, "it did not take the request", e))?;
                Err(e)
            }
            Err(e) => Err(e),
        }
    }

    /// Waits for the next answer on a connection until the monotonic time `until`. It does not read beyond the answer.
    ///
    /// # Errors
    /// A refusal, with the server's reason; no answer; a far end that is no Tailback.
    pub fn hear(&self, line: &Line, until: i64, stop: &AtomicBool) -> Result<Response, LoadError> {
        self.hear_in(line, &mut line.talk(), until, stop)
    }

    fn hear_in(
        &self,
        line: &Line,
        Talk { pipe, end }: &mut Talk,
        until: i64,
        stop: &AtomicBool,
    ) -> Result<Response, LoadError> {
        let mut buf = [0; 4096];
        loop {
            let Some(end) = end.as_mut() else {
                let e = io::ErrorKind::NotConnected.into();
                return Err(self.talk_failed(pipe, "its answer", e));
            };
            let wants = end.wants().min(buf.len());
            line.read_all(pipe, &mut buf[..wants], until, stop)
                .map_err(|e| self.talk_failed(pipe, "its answer", e))?;
            match end.push(&buf[..wants]).map_err(|e| self.control(e))? {
                Some(Response::Refused { why, text }) => return Err(self.refused(why, text)),
                Some(response) => return Ok(response),
                None => {}
            }
        }
    }

    /// Last message of the server before it closed the connection in the middle of a flow, if there is one.
    pub fn last_words(&self, line: &Line) -> Option<LoadError> {
        let until = mono_ns() + 200_000_000;
        match self.hear(line, until, &AtomicBool::new(false)) {
            Err(e @ (LoadError::Refused { .. } | LoadError::WrongKey { .. })) => Some(e),
            _ => None,
        }
    }

    fn talk_failed(&self, pipe: &Pipe, what: &'static str, source: io::Error) -> LoadError {
        let server = self.server;
        match (self.access.pin, pipe.wrong_pin()) {
            (Some(expected), Some(seen)) => LoadError::WrongPin {
                server,
                expected,
                seen,
            },
            (Some(_), None) if pipe.is_handshaking() => LoadError::Tls { server, source },
            _ => LoadError::Talk {
                server,
                what,
                source,
            },
        }
    }

    fn control(&self, error: ControlError) -> LoadError {
        let server = self.server;
        match error {
            ControlError::KeyNeeded => LoadError::KeyNeeded { server },
            ControlError::NoKeyThere => LoadError::NoKeyThere { server },
            error => LoadError::Protocol { server, error },
        }
    }

    fn refused(&self, why: Refusal, text: String) -> LoadError {
        match why {
            Refusal::WrongKey => LoadError::WrongKey {
                server: self.server,
            },
            Refusal::KeyNeeded => LoadError::KeyNeeded {
                server: self.server,
            },
            _ => LoadError::Refused {
                server: self.server,
                why,
                text,
            },
        }
    }
}

/// Fills `buf` by `read` before the monotonic time `until`, checking `stop` while it waits.
fn read_all_by(
    buf: &mut [u8],
    until: i64,
    stop: &AtomicBool,
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut have = 0;
    while have < buf.len() {
        match read(&mut buf[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) =>
            {
                if stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            Err(e) => return Err(e),
        }
        // Also when bytes trickle in, one at a time.
        if have < buf.len() && mono_ns() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}
