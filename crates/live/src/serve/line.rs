//! Server's end of a control connection: its socket, which carries the load, and the messages on it.

use super::Shared;
use super::connection::write_all;
use crate::pipe::Pipe;
use measure::control::Response;
use measure::control::seal::ServerEnd;
use measure::keys::Identity;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

pub struct Line<'a> {
    stream: &'a TcpStream,
    talk: RefCell<(Pipe, ServerEnd)>,
    /// User of the connection; null if everybody is served.
    pub user: Option<Identity>,
}

impl Deref for Line<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.stream
    }
}

impl AsFd for Line<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Reader that never waits.
struct WithoutWaiting<'a>(&'a TcpStream);

impl Read for WithoutWaiting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        recv(self.0.as_raw_fd(), buf, MsgFlags::MSG_DONTWAIT).map_err(Errno::into)
    }
}

impl Write for WithoutWaiting<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Result of looking for a frame.
pub enum Heard {
    Frame(Vec<u8>),
    Nothing,
    PeerClosed,
}

impl<'a> Line<'a> {
    pub fn new(
        stream: &'a TcpStream,
        pipe: Pipe,
        end: ServerEnd,
        user: Option<Identity>,
    ) -> Line<'a> {
        Line {
            stream,
            talk: RefCell::new((pipe, end)),
            user,
        }
    }

    /// True if messages travel inside TLS.
    pub fn is_secret(&self) -> bool {
        self.talk.borrow().0.is_tls()
    }

    /// Sends a message by the monotonic time `until`. Returns its length.
    pub fn say(&self, response: &Response, until: i64, shared: &Shared) -> io::Result<u64> {
        self.say_encoded(response.encode(), until, shared)
    }

    pub fn say_encoded(&self, response: Vec<u8>, until: i64, shared: &Shared) -> io::Result<u64> {
        let bytes = {
            let (pipe, end) = &mut *self.talk.borrow_mut();
            let message = end.encoded(response);
            pipe.seal(&message)?
        };
        write_all(self.stream, &bytes, until, shared)?;
        Ok(bytes.len() as u64)
    }

    /// Next frame of the client, if it has come.
    ///
    /// # Errors
    /// The connection has failed, or the bytes are no frame, or are not signed by the client.
    pub fn heard(&self) -> io::Result<Heard> {
        let (pipe, end) = &mut *self.talk.borrow_mut();
        let mut buf = [0; 256];
        loop {
            let wants = end.wants().min(buf.len());
            match pipe.read(&mut WithoutWaiting(self.stream), &mut buf[..wants]) {
                Ok(0) => return Ok(Heard::PeerClosed),
                Ok(n) => {
                    let frame = end.push(&buf[..n]).map_err(io::Error::other)?;
                    if let Some(frame) = frame {
                        return Ok(Heard::Frame(frame));
                    }
                }
                Err(e) => {
                    return match e.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                            Ok(Heard::Nothing)
                        }
                        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                            Ok(Heard::PeerClosed)
                        }
                        _ => Err(e),
                    };
                }
            }
        }
    }
}
