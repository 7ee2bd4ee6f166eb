//! Questions of a course to its host, each with the one answer that fits it.
//!
//! A host that answers another question has a fault; the course then goes on as if nothing had come.

use crate::ask::{
    Answer, Ask, Connected, Heard, Kind, Knock, Marking, Opening, Ports, QuicLoad, QuicRan, Tried,
    Trouble,
};
use crate::course::Course;
use crate::steps::Action;
use base::Duration;
use base::record::{Delay, Direction, Status};
use measure::control::listen::{Arrival, Knocked, Wanted};
use measure::quote::Quote;
use measure::segment::Form;
use std::net::SocketAddr;

/// Trouble with a host that answers another question.
fn fault() -> Trouble {
    Trouble::new(Kind::Other, "the host answers another question")
}

impl Course {
    /// Has the far end open these ports for this long at most.
    pub async fn listen(&self, wanted: Vec<Wanted>, open: Duration) -> Option<Ports> {
        match self.ask(Ask::Listen(wanted, open)).await {
            Some(Answer::Ports(ports)) => Some(ports),
            _ => None,
        }
    }

    /// Everything that has come to the far end's ports.
    pub async fn arrivals(&self) -> Vec<Arrival> {
        match self.ask(Ask::Arrivals).await {
            Some(Answer::Arrivals(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Has the far end send a datagram to the source of a knock; gives its contents.
    pub async fn order(&self, port: usize, to: Knocked, len: usize) -> Option<Vec<u8>> {
        self.order_marked(port, to, len, Marking::default()).await
    }

    /// The same with this TOS byte and hop limit.
    pub async fn order_marked(
        &self,
        port: usize,
        to: Knocked,
        len: usize,
        marking: Marking,
    ) -> Option<Vec<u8>> {
        let order = Ask::Order {
            port,
            to,
            len,
            marking,
        };
        match self.ask(order).await {
            Some(Answer::Ordered(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Has the far end send a TCP segment to the source of a SYN.
    pub async fn order_segment(
        &self,
        (port, to): (usize, SocketAddr),
        (form, number): (Form, u32),
        marking: Marking,
    ) -> Result<(), Trouble> {
        let order = Ask::OrderSegment {
            port,
            to,
            form,
            number,
            marking,
        };
        match self.ask(order).await {
            Some(Answer::Sent(sent)) => sent,
            _ => Err(fault()),
        }
    }

    /// Quotes of datagrams of this direction since the last call, or why its sender hears none. The first call begins to
    /// listen.
    pub async fn quotes(&self, direction: Direction) -> Result<Vec<Quote>, String> {
        match self.ask(Ask::Quotes(direction)).await {
            Some(Answer::Quotes(quotes)) => quotes,
            _ => Err(fault().text),
        }
    }

    /// Knocks at all of these at once; gives the outcomes in their order.
    pub async fn knock(&self, knocks: Vec<Knock>) -> Vec<Tried> {
        match self.ask(Ask::Knock(knocks)).await {
            Some(Answer::Knocked(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Fills a direction with one QUIC connection.
    pub async fn quic(&self, load: QuicLoad) -> QuicRan {
        match self.ask(Ask::Quic(load)).await {
            Some(Answer::Quic(ran)) => ran,
            _ => QuicRan {
                trouble: Some(fault()),
                ..QuicRan::default()
            },
        }
    }

    /// Random bytes; zeros where the host has none.
    pub async fn random(&self, count: usize) -> Vec<u8> {
        match self.ask(Ask::Random(count)).await {
            Some(Answer::Random(bytes)) => bytes,
            _ => vec![0; count],
        }
    }

    /// Opens a UDP socket; gives its own address.
    pub async fn open(&self, opening: Opening) -> Result<SocketAddr, Trouble> {
        match self.ask(Ask::Open(opening)).await {
            Some(Answer::Opened(opened)) => opened,
            _ => Err(fault()),
        }
    }

    /// Makes a TCP connection and closes it.
    pub async fn connect(&self, to: SocketAddr, patience: Duration) -> Connected {
        let began_ns = self.unix_ns();
        match self.ask(Ask::Connect { to, patience }).await {
            Some(Answer::Connected(connected)) => connected,
            _ => Connected {
                began_ns,
                took: Duration::ZERO,
                made: Err(fault()),
            },
        }
    }

    /// Sends a datagram from a socket.
    pub async fn send(&self, socket: u32, to: SocketAddr, bytes: Vec<u8>) -> Result<(), Trouble> {
        self.send_marked(socket, to, bytes, Marking::default())
            .await
    }

    /// The same with this TOS byte and hop limit.
    pub async fn send_marked(
        &self,
        socket: u32,
        to: SocketAddr,
        bytes: Vec<u8>,
        marking: Marking,
    ) -> Result<(), Trouble> {
        let send = Ask::Send {
            socket,
            to,
            bytes,
            marking,
        };
        match self.ask(send).await {
            Some(Answer::Sent(sent)) => sent,
            _ => Err(fault()),
        }
    }

    /// Waits for the next datagram, as [`Course::hear`] does.
    pub async fn heard(
        &self,
        socket: u32,
        (within, ordered): (Duration, bool),
    ) -> Result<Heard, Trouble> {
        let ask = Ask::Hear {
            socket,
            within,
            ordered,
        };
        match self.ask(ask).await {
            Some(Answer::Heard(heard)) => heard,
            _ => Err(fault()),
        }
    }

    /// Waits for a datagram that `is_it` recognises. The far end was told to send one that is `ordered`.
    pub async fn hear<T>(
        &self,
        socket: u32,
        (within, ordered): (Duration, bool),
        is_it: impl Fn(&[u8], SocketAddr) -> Option<T>,
    ) -> Result<T, Trouble> {
        let until = self.now() + within;
        loop {
            let left = until.saturating_since(self.now());
            let heard = self.heard(socket, (left, ordered)).await?;
            if let Some(found) = is_it(&heard.bytes, heard.from) {
                return Ok(found);
            }
        }
    }

    /// Writes the row of something that took this long; null if it did not come to its end.
    pub async fn delay(&self, target: &str, seq: i64, sent_ns: i64, took: Option<Duration>) {
        let row = Delay {
            rtt_ns: took.map(|t| t.as_nanos() as i64),
            status: match took {
                Some(_) => Status::Ok,
                None => Status::Lost,
            },
            ..Delay::unanswered(sent_ns, seq, target.into())
        };
        self.act(Action::Row(row.into())).await;
    }
}
