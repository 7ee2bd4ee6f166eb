//! Ports that our server opens for us for a while: the requests to open, report and send. The server's end is
//! `serve::listeners`.

use crate::clock::mono_ns;
use crate::load::LoadError;
use crate::load::exchange::{Line, Peer};
use crate::load::kernel::random_bytes;
use crate::tally::Tally;
use base::Duration;
use experiment::ask::Marking;
use measure::control::listen::{
    Arrival, Knocked, Listening, Opened, Order, Place, Quoted, TOKEN_LEN, Wanted, datagram,
};
use measure::control::{FlowSpec, Request, Response, SessionId};
use measure::segment::{Form, MOST_HEADER};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Longest wait for an answer, even over GPRS.
const ANSWER_WITHIN_NS: i64 = 60_000_000_000;

/// Ports that stay open until this is dropped.
pub struct Listeners {
    peer: Peer,
    stream: Line,
    pub wanted: Vec<Wanted>,
    pub listening: Listening,
    /// Number of the next datagram that the server is asked to send.
    next: AtomicU32,
    tally: Tally,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tally.connection(&self.stream);
    }
}

impl Listeners {
    /// Asks the server to open these for at most `open`. The control connection's traffic is counted in `tally`.
    ///
    /// # Errors
    /// The server is unreachable, refuses, or is of a release that knows no such request.
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

    /// Gives an address if the user has named it: see [`Peer::admit`].
    ///
    /// # Errors
    /// The reason why nothing may be sent there.
    pub fn admit(&self, to: SocketAddr) -> Result<SocketAddr, String> {
        self.peer.admit(to)
    }

    /// # Errors
    /// The kernel does not say.
    pub fn local(&self) -> std::io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    pub fn token(&self) -> &[u8; TOKEN_LEN] {
        &self.listening.token
    }

    /// Address of the `i`th port: the server's address as it is seen from here if the port was to be at that one,
    /// otherwise the address that the server names.
    ///
    /// # Errors
    /// Reason why the port is not open.
    pub fn at(&self, i: usize) -> Result<SocketAddr, String> {
        let v4 = self.peer.server.ip().to_canonical().is_ipv4();
        let here = match self.wanted[i].place {
            Place::Here => true,
            Place::Elsewhere => false,
            Place::V4 => v4,
            Place::V6 => !v4,
        };
        match &self.listening.opened[i] {
            Opened::Not(why) => Err(why.clone()),
            Opened::At(at) if here => {
                let mut server = self.peer.server;
                server.set_port(at.port());
                Ok(server)
            }
            Opened::At(at) => {
                let at = self.peer.admit(*at)?;
                let named_v4 = at.ip().to_canonical().is_ipv4();
                let fits = match self.wanted[i].place {
                    Place::V4 => named_v4,
                    Place::V6 => !named_v4,
                    Place::Here | Place::Elsewhere => named_v4 == v4,
                };
                match fits {
                    true => Ok(at),
                    false => Err(format!(
                        "the server names {}, which is of another version of IP",
                        at.ip()
                    )),
                }
            }
        }
    }

    /// Arrivals so far.
    ///
    /// # Errors
    /// The server does not report.
    pub fn report(&self) -> Result<Vec<Arrival>, LoadError> {
        match self.order(&Order::Report)? {
            Response::Arrivals(all) => Ok(all),
            _ => Err(unexpected(&self.peer)),
        }
    }

    /// Answer of the server to a UDP knock of ours, if these bytes are one.
    pub fn knocked(&self, bytes: &[u8]) -> Option<Knocked> {
        Knocked::decode(bytes, self.token())
    }

    /// Asks the server to send a datagram of this length from its `i`th port, to the address whose knock it answered.
    /// Returns the content of the datagram.
    ///
    /// # Errors
    /// The server does not send it.
    pub fn send(
        &self,
        i: usize,
        to: &Knocked,
        len: usize,
        marking: Marking,
    ) -> Result<Vec<u8>, LoadError> {
        self.tally.datagram(to.from, len);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = Order::Send {
            listener: i as u32,
            to: to.from,
            cookie: to.cookie,
            number,
            len: len as u32,
            tos: marking.tos,
            hops: marking.hops.unwrap_or(0),
        };
        self.order(&order)?;
        Ok(datagram(self.token(), number, len))
    }

    /// Asks the server to send a TCP segment from its `i`th port to the source of a SYN.
    ///
    /// # Errors
    /// The server does not send it.
    pub fn segment(
        &self,
        (i, to): (usize, SocketAddr),
        (form, number): (Form, u32),
        marking: Marking,
    ) -> Result<(), LoadError> {
        let order = Order::Segment {
            listener: i as u32,
            to,
            form,
            number,
            tos: marking.tos,
            hops: marking.hops.unwrap_or(0),
        };
        self.tally.datagram(to, MOST_HEADER);
        self.order(&order).map(drop)
    }

    /// Quotes of what the server has sent since the last call; the first call begins to listen.
    ///
    /// # Errors
    /// The server does not report.
    pub fn quotes(&self) -> Result<Quoted, LoadError> {
        match self.order(&Order::Quotes)? {
            Response::Quotes(quoted) => Ok(quoted),
            _ => Err(unexpected(&self.peer)),
        }
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
