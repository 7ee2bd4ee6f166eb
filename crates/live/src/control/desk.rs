//! Desk of a run: an abstract UNIX socket of the network namespace. It shows who controls the interface, and answers
//! `status` and `stop`. The kernel frees its name when the process ends, however it ends.

use super::ControlError;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Longest wait for the other side: it answers at once, or is not ours.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait of the run itself for a question.
const QUESTION: Duration = Duration::from_millis(20);
/// Longest question and answer.
const LONGEST: u64 = 64 << 10;

/// Question to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Status,
    Stop,
}

impl Asked {
    fn word(self) -> &'static str {
        match self {
            Asked::Status => "status",
            Asked::Stop => "stop",
        }
    }
}

fn address(interface: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("tailback-control-{interface}"))
}

pub(super) struct Desk(UnixListener);

impl Desk {
    /// Takes the interface.
    ///
    /// # Errors
    /// Another run has it.
    pub(super) fn open(interface: &str) -> Result<Desk, ControlError> {
        let listen = || {
            let listener = UnixListener::bind_addr(&address(interface)?)?;
            listener.set_nonblocking(true)?;
            Ok(Desk(listener))
        };
        listen().map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ControlError::Owned {
                interface: interface.to_owned(),
            },
            _ => ControlError::Local {
                what: "open the socket of the run",
                source,
            },
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Answers the questions that have come; returns true if one asks to stop. A stranger's question is ignored.
    pub(super) fn answer(&self, status: &dyn Fn() -> String) -> bool {
        let mut stop = false;
        while let Ok((stream, _)) = self.0.accept() {
            stop |= serve(stream, status).unwrap_or(false);
        }
        stop
    }
}

fn serve(stream: UnixStream, status: &dyn Fn() -> String) -> io::Result<bool> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    use nix::unistd::geteuid;
    let peer = getsockopt(&stream, PeerCredentials)?.uid();
    if peer != 0 && peer != geteuid().as_raw() {
        return Ok(false);
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(QUESTION))?;
    stream.set_write_timeout(Some(QUESTION))?;
    let mut line = String::new();
    BufReader::new((&stream).take(16)).read_line(&mut line)?;
    let stop = line.trim() == Asked::Stop.word();
    if stop || line.trim() == Asked::Status.word() {
        (&stream).write_all(status().as_bytes())?;
    }
    Ok(stop)
}

/// True if a run holds the interface.
pub(super) fn is_held(interface: &str) -> bool {
    address(interface).is_ok_and(|a| UnixStream::connect_addr(&a).is_ok())
}

/// Asks the run on this interface, and returns its status as JSON. After `Stop`, returns once the run has ended.
///
/// # Errors
/// There is no run, or it does not answer.
pub fn ask(interface: &str, asked: Asked) -> Result<String, ControlError> {
    let local = |source| ControlError::Local {
        what: "ask the run",
        source,
    };
    let address = address(interface).map_err(local)?;
    let stream = UnixStream::connect_addr(&address).map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused => ControlError::NotRunning {
            interface: interface.to_owned(),
        },
        _ => local(source),
    })?;
    let talk = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        (&stream).write_all(format!("{}\n", asked.word()).as_bytes())?;
        let mut answer = String::new();
        (&stream).take(LONGEST).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = talk().map_err(local)?;
    if asked == Asked::Stop {
        let end = std::time::Instant::now() + PATIENCE;
        while is_held(interface) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(answer)
}
