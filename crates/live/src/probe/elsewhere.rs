//! Datagram socket on systems other than Linux: a thread of its own waits for answers, and reads the clock when one has
//! come. Departures are the times after each call.

use crate::clock::Clock;
use crate::outlet::Outlet;
use base::{Duration, Time};
use measure::session::Arrival;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

/// Longest datagram that is taken whole.
const LONGEST: usize = 1536;
/// Answers that may wait to be read.
const WAITING: usize = 4096;
/// Interval at which the thread looks if it is to end.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);
/// Place in the byte of the type of service where nothing was said.
const NO_TOS: u8 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Udp,
}

/// Buffers that another system needs.
pub struct Batch;

impl Batch {
    pub fn new(_: usize) -> Batch {
        Batch
    }
}

/// Scale of stamps: the monotonic clock's own, which has no steps.
pub struct Wall;

impl Wall {
    pub fn new(_: Clock) -> Wall {
        Wall
    }

    pub fn take_step(&mut self) -> Option<i64> {
        None
    }
}

/// Message from the socket.
pub enum Found<'a> {
    /// Departure of a datagram: never told here.
    Left(u64, Time),
    /// Arrival of a datagram.
    Came { arrival: Arrival, bytes: &'a [u8] },
    /// Error of the network; [`told`] says which.
    Trouble(i32),
    /// Error of a router: never told here.
    Hop {},
}

/// Datagram and the time at which the thread had it, or an error.
type Came = (Time, Result<Vec<u8>, i32>);

pub struct Wire {
    socket: Arc<UdpSocket>,
    came: Receiver<Came>,
    stop: Arc<AtomicBool>,
    /// Number of datagrams sent since the last look.
    pub sends: u32,
    pub system_calls: u64,
}

impl Wire {
    /// # Errors
    /// There is no socket, or no route.
    pub fn open(_: Kind, remote: SocketAddr, clock: Clock, outlet: &Outlet) -> io::Result<Wire> {
        let socket = Arc::new(outlet.socket_to(remote)?);
        socket.set_read_timeout(Some(TICK))?;
        let (give, came) = sync_channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::Builder::new().name("answers".into()).spawn({
            let (socket, stop) = (socket.clone(), stop.clone());
            move || wait_for_answers(&socket, clock, &give, &stop)
        })?;
        Ok(Wire {
            socket,
            came,
            stop,
            sends: 0,
            system_calls: 0,
        })
    }

    /// # Errors
    /// A mark was asked for: that needs Linux.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        match tos {
            NO_TOS => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits for the next datagram, at most this long.
    ///
    /// # Errors
    /// Nothing came (`WouldBlock`), or an error of the network.
    pub fn receive_within(&self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize> {
        match self.came.recv_timeout(wait.to_std()) {
            Ok((_, Ok(bytes))) => {
                let n = bytes.len().min(buffer.len());
                buffer[..n].copy_from_slice(&bytes[..n]);
                Ok(n)
            }
            Ok((_, Err(errno))) => Err(match errno {
                libc::ECONNREFUSED => io::ErrorKind::ConnectionRefused.into(),
                other => io::Error::from_raw_os_error(other),
            }),
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::WouldBlock.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// # Errors
    /// The datagram was not sent.
    pub fn send(&mut self, bytes: &[u8], _: Option<u64>) -> io::Result<()> {
        self.sends += 1;
        self.system_calls += 1;
        match self.socket.send(bytes) {
            // News of an earlier datagram.
            Err(e) if is_refusal(&e) => self.socket.send(bytes).map(drop),
            sent => sent.map(drop),
        }
    }

    /// Hands over all that came since the last look.
    pub fn look(
        &mut self,
        _: &mut Batch,
        clock: Clock,
        _: &mut Wall,
        each: &mut dyn FnMut(Time, Found<'_>),
    ) {
        self.sends = 0;
        for (at, what) in self.came.try_iter() {
            let found = match &what {
                Ok(bytes) => Found::Came {
                    arrival: Arrival {
                        at,
                        kernel: true,
                        steady: true,
                        tos: None,
                    },
                    bytes,
                },
                Err(errno) => Found::Trouble(*errno),
            };
            each(clock.now(), found);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn wait_for_answers(socket: &UdpSocket, clock: Clock, give: &SyncSender<Came>, stop: &AtomicBool) {
    let mut buffer = [0u8; LONGEST];
    while !stop.load(Ordering::Relaxed) {
        let got = socket.recv(&mut buffer);
        let at = clock.now();
        let came = match got {
            Ok(n) => Ok(buffer[..n].to_vec()),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => continue,
                _ if is_refusal(&e) => Err(libc::ECONNREFUSED),
                _ => Err(e.raw_os_error().unwrap_or(libc::EIO)),
            },
        };
        // An error that comes again and again must not fill a processor.
        if came.is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // Where nobody reads, the network would have dropped it.
        let _ = give.try_send((at, came));
    }
}

/// True for the news that nobody listens at the far port. Windows calls it a reset.
fn is_refusal(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}

/// Meaning of an error of the network.
pub fn told(errno: i32) -> String {
    match errno {
        libc::ECONNREFUSED => "nothing listens on its port (ICMP port unreachable)".into(),
        other => io::Error::from_raw_os_error(other).to_string(),
    }
}
