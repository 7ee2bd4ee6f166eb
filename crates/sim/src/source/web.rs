//! Web browsing: a user requests a page, waits until all its objects have arrived, reads it, and requests the next.
//!
//! **Source**: P. Barford, M. Crovella, "Generating Representative Web Workloads for Network and Server
//! Performance Evaluation", SIGMETRICS 1998: log-normal sizes with a Pareto tail, Pareto numbers of objects
//! and times of reading; RFC 9112, "HTTP/1.1" (2022), section 9.3, persistent connections; RFC 9113, "HTTP/2"
//! (2022), section 5, streams.
//!
//! **Deviations**: no DNS and no encryption; servers answer at once; each page comes from one server, over connections
//! of its own.

use super::{ANSWER, Application, Ask, Channel, Done, Law, Opening, REQUEST, Span, Told};
use base::rng::{Rng, Streams};
use base::{Duration, Time};
use std::collections::VecDeque;

/// Parameters of the pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Law of the think time, s.
    pub think_s: Law,
    /// Number of objects of a page, itself included.
    pub objects: Law,
    /// Law of the objects' sizes.
    pub sizes: Law,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Number of parallel connections, each of which requests one object at a time. `None`: one connection that
    /// requests all objects at once.
    pub connections: Option<u64>,
}

/// Upper limit on the objects of a page.
const MOST_OBJECTS: f64 = 10_000.0;

/// Source of a reader of web pages.
pub struct Web {
    pages: Pages,
    think: Rng,
    counts: Rng,
    sizes: Rng,
    stop: Time,
    due: Option<Time>,
    began: Time,
    /// Sizes of the objects not requested yet.
    wanted: Vec<u64>,
    /// Requested objects that have not arrived, by connection.
    asked: Vec<VecDeque<u64>>,
    /// Number of them that the server has started to send, by connection.
    answered: Vec<usize>,
    bytes: u64,
}

fn request(connection: usize) -> Channel {
    2 * connection
}
fn answer(connection: usize) -> Channel {
    2 * connection + 1
}

impl Web {
    /// Creates the source. `name` identifies its owner and names its random streams.
    pub fn new(pages: Pages, span: Span, streams: &Streams, name: &str) -> Web {
        let connections = pages.connections.unwrap_or(1) as usize;
        Web {
            pages,
            think: streams.stream(&format!("{name}/thoughts")),
            counts: streams.stream(&format!("{name}/objects")),
            sizes: streams.stream(&format!("{name}/sizes")),
            stop: span.stop,
            due: Some(span.start).filter(|t| *t < span.stop),
            began: span.start,
            wanted: Vec::new(),
            asked: vec![VecDeque::new(); connections],
            answered: vec![0; connections],
            bytes: 0,
        }
    }

    fn begin_page(&mut self, now: Time, asks: &mut Vec<Ask>) {
        self.due = None;
        self.began = now;
        self.bytes = 0;
        let objects = self.pages.objects.draw(&mut self.counts).round();
        for _ in 0..objects.clamp(1.0, MOST_OBJECTS) as u64 {
            let size = self.pages.sizes.draw(&mut self.sizes).round().max(1.0) as u64;
            self.wanted.push(size);
        }
        // The page itself is drawn first and requested first: it names the other objects.
        self.wanted.reverse();
        self.open(0, asks);
        self.ask(0, asks);
    }

    fn open(&mut self, connection: usize, asks: &mut Vec<Ask>) {
        asks.push(Ask::Open(request(connection), REQUEST));
        asks.push(Ask::Open(answer(connection), ANSWER));
    }

    fn ask(&mut self, connection: usize, asks: &mut Vec<Ask>) {
        if let Some(size) = self.wanted.pop() {
            self.asked[connection].push_back(size);
            asks.push(Ask::Write(request(connection), self.pages.request_bytes));
        }
    }

    /// Handles an object that has arrived and requests the next.
    fn go_on(&mut self, connection: usize, asks: &mut Vec<Ask>) {
        let first = self.bytes == 0;
        self.answered[connection] -= 1;
        let size = self.asked[connection].pop_front().unwrap_or(0);
        self.bytes += size;
        match self.pages.connections {
            None => {
                while !self.wanted.is_empty() {
                    self.ask(connection, asks);
                }
            }
            Some(connections) => {
                self.ask(connection, asks);
                for other in 1..connections as usize {
                    if first && !self.wanted.is_empty() {
                        self.open(other, asks);
                        self.ask(other, asks);
                    }
                }
            }
        }
    }
}

impl Application for Web {
    fn openings(&self) -> Vec<Opening> {
        let pairs = self.asked.len();
        [REQUEST, ANSWER].repeat(pairs)
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => self.begin_page(now, asks),
            Told::Arrived(channel) if channel % 2 == 0 => {
                let connection = channel / 2;
                let next = self.asked[connection].get(self.answered[connection]);
                asks.extend(next.map(|size| Ask::Write(answer(connection), *size)));
                self.answered[connection] += 1;
            }
            Told::Arrived(channel) => {
                self.go_on(channel / 2, asks);
                if self.wanted.is_empty() && self.asked.iter().all(VecDeque::is_empty) {
                    let think = Duration::from_secs_f64(self.pages.think_s.draw(&mut self.think));
                    self.due = Some(now + think).filter(|t| *t < self.stop);
                    return Some(Done {
                        what: "page",
                        began: self.began,
                        bytes: self.bytes,
                    });
                }
            }
            Told::Acknowledged(_) => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.due.is_none() && self.wanted.is_empty() && self.asked.iter().all(VecDeque::is_empty)
    }
}
