//! One request to the far end and its answer, over a fresh connection.

use super::LoadError;
use super::kernel::{choose_congestion, lift_send_buffer};
use crate::clock::mono_ns;
use base::Duration;
use measure::control::{
    ControlError, GREETING_LEN, Greeting, Refusal, Request, Response, ResponseReader,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a blocked read looks at the stop flag.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Where the far end is, and how to be let in.
#[derive(Clone, Debug)]
pub struct Peer {
    pub server: SocketAddr,
    pub key: Option<Vec<u8>>,
    /// How long a connection, or an answer, may take.
    pub patience: Duration,
}

/// When a request left and its answer came, monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub sent: i64,
    pub answered: i64,
}

impl Peer {
    /// # Errors
    /// Nobody there, or the congestion control is not to be had.
    pub fn connect(&self, congestion: Option<&str>) -> Result<TcpStream, LoadError> {
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
        .map_err(unreachable)?;
        // Before the connection exists: switching later would leave the pacing of the one before.
        choose_congestion(SockRef::from(&socket), congestion)?;
        lift_send_buffer(&socket);
        socket
            .connect_timeout(&self.server.into(), self.patience.to_std())
            .map_err(unreachable)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).map_err(unreachable)?;
        Ok(stream)
    }

    /// Greets, asks, and waits for the answer, of which it reads not one byte too many.
    ///
    /// # Errors
    /// A refusal, with the server's reason; silence; a far end that is no Tailback.
    pub fn ask(
        &self,
        stream: &TcpStream,
        request: &Request,
        stop: &AtomicBool,
    ) -> Result<(Response, Turn), LoadError> {
        let until = mono_ns() + self.patience.as_nanos() as i64;
        let failed = |what| {
            move |source| LoadError::Talk {
                server: self.server,
                what,
                source,
            }
        };
        let mut greeting = [0; GREETING_LEN];
        read_all(stream, &mut greeting, until, stop).map_err(failed("its greeting"))?;
        let greeting = Greeting::decode(&greeting).map_err(|e| self.control(e))?;
        if greeting.key_needed && self.key.is_none() {
            return Err(LoadError::KeyNeeded {
                server: self.server,
            });
        }
        let bytes = request.encode(&greeting.nonce, self.key.as_deref());
        let sent = mono_ns();
        // Where the server has hung up, its reason may still be there to be read.
        let written = { stream }.write_all(&bytes);
        match self.hear(stream, until, stop) {
            Ok(response) => Ok((
                response,
                Turn {
                    sent,
                    answered: mono_ns(),
                },
            )),
            Err(e @ LoadError::Talk { .. }) => {
                written.map_err(failed("it did not take the request"))?;
                Err(e)
            }
            Err(e) => Err(e),
        }
    }

    /// The next answer on a connection, by the monotonic time `until`, of which it reads not one byte too many.
    ///
    /// # Errors
    /// A refusal, with the server's reason; silence; a far end that is no Tailback.
    pub fn hear(
        &self,
        stream: &TcpStream,
        until: i64,
        stop: &AtomicBool,
    ) -> Result<Response, LoadError> {
        let mut reader = ResponseReader::default();
        let mut buf = [0; 4096];
        loop {
            let wants = reader.wants().min(buf.len());
            read_all(stream, &mut buf[..wants], until, stop).map_err(|source| LoadError::Talk {
                server: self.server,
                what: "its answer",
                source,
            })?;
            match reader.push(&buf[..wants]).map_err(|e| self.control(e))? {
                Some(Response::Refused { why, text }) => return Err(self.refused(why, text)),
                Some(response) => return Ok(response),
                None => {}
            }
        }
    }

    /// What the server said before it hung up in the middle of a flow, if it said anything.
    pub fn last_words(&self, stream: &TcpStream) -> Option<LoadError> {
        let until = mono_ns() + 200_000_000;
        let mut reader = ResponseReader::default();
        let mut buf = [0; 4096];
        loop {
            let wants = reader.wants().min(buf.len());
            read_all(stream, &mut buf[..wants], until, &AtomicBool::new(false)).ok()?;
            match reader.push(&buf[..wants]).ok()? {
                None => {}
                Some(Response::Refused { why, text }) => return Some(self.refused(why, text)),
                Some(_) => return None,
            }
        }
    }

    fn control(&self, error: ControlError) -> LoadError {
        LoadError::Protocol {
            server: self.server,
            error,
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

/// Fills `buf` before the monotonic time `until`, looking at `stop` while it waits.
pub fn read_all(
    mut stream: &TcpStream,
    buf: &mut [u8],
    until: i64,
    stop: &AtomicBool,
) -> io::Result<()> {
    stream.set_read_timeout(Some(TICK))?;
    let mut have = 0;
    while have < buf.len() {
        match stream.read(&mut buf[have..]) {
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
