//! Ports that our server opens for us for a while: asked for, looked at, told to send. The server's end is
//! `serve::listeners`.

use crate::clock::mono_ns;
use crate::load::LoadError;
use crate::load::exchange::{Line, Peer};
use crate::load::kernel::random_bytes;
use crate::tally::Tally;
use base::Duration;
use measure::control::listen::{
    Arrival, Knocked, Listening, Opened, Order, Place, TOKEN_LEN, Wanted, datagram,
};
use measure::control::{FlowSpec, Request, Response, SessionId};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// An answer may take this long, even over GPRS.
const ANSWER_WITHIN_NS: i64 = 60_000_000_000;

/// Open until it is dropped.
pub struct Listeners {
    peer: Peer,
    stream: Line,
    pub wanted: Vec<Wanted>,
    pub listening: Listening,
    /// Number of the next datagram that the server is told to send.
    next: AtomicU32,
    tally: Tally,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tally.connection(&self.stream);
    }
}

impl Listeners {
    /// Asks the server to open these for so long at most. What the control connection costs is counted in `tally`.
    ///
    /// # Errors
    /// It cannot be reached, refuses, or is of a release that knows no such request.
    pub fn open(
        peer: &Peer,
        wanted: Vec<Wanted>,
        duration: Duration,
        tally: Tally,
    ) -> Result<Listeners, LoadError> {
        let stream = peer.connect(None)?;
        let request = Request::Listen {
            spec: FlowSpec {
                session: SessionId(random_bytes()),
                flow: 0,
                duration,
                sample: Duration::from_secs(1),
            },
            wanted: wanted.clone(),
        };
        match peer.ask(&stream, &request, &AtomicBool::new(false))?.0 {
            Response::Listening(listening) if listening.opened.len() == wanted.len() => {
                Ok(Listeners {
                    peer: peer.clone(),
                    stream,
                    wanted,
                    listening,
                    next: AtomicU32::new(0),
                    tally,
                })
            }
            _ => Err(unexpected(peer)),
        }
    }

    /// # Errors
    /// The kernel does not say.
    pub fn local(&self) -> std::io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    pub fn token(&self) -> &[u8; TOKEN_LEN] {
        &self.listening.token
    }

    /// Where to send to, to reach the `i`th: at the server's address as it is seen from here where it was to be at that
    /// one, otherwise where the server says that it is.
    ///
    /// # Errors
    /// Why it is not open.
    pub fn at(&self, i: usize) -> Result<SocketAddr, &str> {
        let v4 = self.peer.server.ip().to_canonical().is_ipv4();
        let here = match self.wanted[i].place {
            Place::Here => true,
            Place::Elsewhere => false,
            Place::V4 => v4,
            Place::V6 => !v4,
        };
        match &self.listening.opened[i] {
            Opened::Not(why) => Err(why),
            Opened::At(at) if here => {
                let mut server = self.peer.server;
                server.set_port(at.port());
                Ok(server)
            }
            Opened::At(at) => Ok(*at),
        }
    }

    /// What has arrived so far.
    ///
    /// # Errors
    /// The server does not say.
    pub fn report(&self) -> Result<Vec<Arrival>, LoadError> {
        match self.order(&Order::Report)? {
            Response::Arrivals(all) => Ok(all),
            _ => Err(unexpected(&self.peer)),
        }
    }

    /// The server's answer to a knock of ours (UDP), if these bytes are one.
    pub fn knocked(&self, bytes: &[u8]) -> Option<Knocked> {
        Knocked::decode(bytes, self.token())
    }

    /// Has the server send a datagram of this length from its `i`th port, to where it answered a knock; gives what the
    /// datagram holds.
    ///
    /// # Errors
    /// It does not.
    pub fn send(&self, i: usize, to: &Knocked, len: usize) -> Result<Vec<u8>, LoadError> {
        self.tally.datagram(to.from, len);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = Order::Send {
            listener: i as u32,
            to: to.from,
            cookie: to.cookie,
            number,
            len: len as u32,
        };
        self.order(&order)?;
        Ok(datagram(self.token(), number, len))
    }

    fn order(&self, order: &Order) -> Result<Response, LoadError> {
        self.stream
            .say(&order.encode())
            .map_err(|source| LoadError::Talk {
                server: self.peer.server,
                what: "an order",
                source,
            })?;
        let until = mono_ns() + ANSWER_WITHIN_NS;
        self.peer.hear(&self.stream, until, &AtomicBool::new(false))
    }
}

fn unexpected(peer: &Peer) -> LoadError {
    LoadError::Protocol {
        server: peer.server,
        error: measure::control::ControlError::Malformed {
            what: "another answer than the one to the request",
        },
    }
}
