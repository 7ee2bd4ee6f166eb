//! Bulk data without requests: one transfer, or one after another on the same connection.
//!
//! At its end a bulk transfer offers no more data: bytes in flight are delivered and repaired, unsent bytes are
//! withdrawn, as when `iperf` closes its sockets.

use super::{Application, Ask, Done, Law, Opening, Span, THERE, Told};
use base::Time;
use base::rng::{Rng, Streams};

/// First message of an iperf3 stream: its cookie.
const COOKIE: u64 = 37;

/// A single transfer; a size of `u64::MAX` never ends.
#[derive(Clone, Debug)]
pub struct Bulk {
    bytes: u64,
    span: Span,
    state: State,
    /// Time of the data, if a cookie comes before it.
    data_from: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Connected; the cookie is sent.
    Known,
    Writing,
    Over,
}

impl Bulk {
    /// Creates a transfer of this many bytes.
    pub fn new(bytes: u64, span: Span) -> Bulk {
        Bulk {
            bytes,
            span,
            state: State::Waiting,
            data_from: None,
        }
    }

    /// Creates a stream as iperf3 sends it: it connects, sends a cookie, and sends its data from `data_from` on, when all
    /// streams are connected.
    pub fn iperf3(data_from: Time, span: Span) -> Bulk {
        Bulk {
            data_from: Some(data_from.max(span.start)),
            ..Bulk::new(u64::MAX, span)
        }
    }
}

impl Application for Bulk {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE]
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn told(&mut self, _now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match (what, self.state) {
            (Told::Due, State::Waiting) if self.data_from.is_some() => {
                self.state = State::Known;
                asks.push(Ask::Write(0, COOKIE));
            }
            (Told::Due, State::Waiting | State::Known) => {
                self.state = State::Writing;
                if self.bytes < u64::MAX {
                    asks.push(Ask::Close(0));
                }
                asks.push(Ask::Write(0, self.bytes));
            }
            (Told::Due, State::Writing) => {
                self.state = State::Over;
                asks.push(Ask::Stop(0));
            }
            (Told::Acknowledged(_), State::Writing) => {
                self.state = State::Over;
                return Some(Done {
                    what: "transfer",
                    began: self.span.start,
                    bytes: self.bytes,
                });
            }
            _ => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        match self.state {
            State::Waiting => Some(self.span.start),
            State::Known => self.data_from,
            State::Writing => Some(self.span.stop).filter(|t| *t < Time::MAX),
            State::Over => None,
        }
    }

    fn is_over(&self) -> bool {
        self.state == State::Over
    }
}

/// Transfers of random size, each a random time after the previous one was acknowledged.
#[derive(Clone, Debug)]
pub struct Transfers {
    bytes: Law,
    think_s: Law,
    sizes: Rng,
    thoughts: Rng,
    stop: Time,
    due: Option<Time>,
    began: Time,
    under_way: u64,
}

impl Transfers {
    /// Creates transfers with these laws of size and pause.
    pub fn new(bytes: Law, think_s: Law, span: Span, streams: &Streams, name: &str) -> Transfers {
        Transfers {
            bytes,
            think_s,
            sizes: streams.stream(&format!("{name}/sizes")),
            thoughts: streams.stream(&format!("{name}/thoughts")),
            stop: span.stop,
            due: Some(span.start).filter(|t| *t < span.stop),
            began: span.start,
            under_way: 0,
        }
    }
}

impl Application for Transfers {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE]
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => {
                self.due = None;
                self.began = now;
                self.under_way = self.bytes.draw(&mut self.sizes).round().max(1.0) as u64;
                asks.push(Ask::Write(0, self.under_way));
                None
            }
            Told::Acknowledged(_) => {
                let think = self.think_s.draw(&mut self.thoughts);
                let due = now + base::Duration::from_secs_f64(think);
                self.due = Some(due).filter(|t| *t < self.stop);
                Some(Done {
                    what: "transfer",
                    began: self.began,
                    bytes: std::mem::take(&mut self.under_way),
                })
            }
            Told::Arrived(_) => None,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.due.is_none() && self.under_way == 0
    }
}
