//! Channel of a page: its probes, and its place in the queue for the uplink. WebTransport and WebSockets carry the same
//! messages.

use super::client::{Client, LOOK};
use super::sessions::Session;
use crate::clock::mono_ns;
use crate::load::ceiling::HEADERS;
use crate::serve::quota::{Hold, Place};
use crate::serve::shared::Shared;
use crate::serve::sync::lock;
use crate::serve::udp::Published;
use base::Duration;
use measure::reflector::{Arrival, Reflector};
use measure::web::{FromPage, Sampled, ToPage};
use measure::wire::MAX_LEN;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Lag behind the rate limit above which probes are dropped.
const MOST_BEHIND_NS: i64 = 500_000_000;

type Send = Box<dyn Fn(&[u8])>;

/// Reflector of the probes of one thread's channels.
pub(super) struct Mirror {
    reflector: RefCell<Reflector>,
    channels: RefCell<BTreeMap<SocketAddr, (u64, Send)>>,
    next: Cell<u64>,
    shed: Cell<u64>,
    published: Arc<Mutex<Published>>,
    shared: Arc<Shared>,
}

/// Channel that takes part, until this is dropped.
pub(super) struct Joined {
    mirror: Rc<Mirror>,
    at: SocketAddr,
    number: u64,
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut channels = self.mirror.channels.borrow_mut();
        // A later channel may have come from the same address.
        if channels
            .get(&self.at)
            .is_some_and(|(n, _)| *n == self.number)
        {
            channels.remove(&self.at);
        }
    }
}

impl Mirror {
    pub(super) fn new(
        reflector: Reflector,
        published: Arc<Mutex<Published>>,
        shared: Arc<Shared>,
    ) -> Rc<Mirror> {
        Rc::new(Mirror {
            reflector: RefCell::new(reflector),
            channels: RefCell::default(),
            next: Cell::new(0),
            shed: Cell::new(0),
            published,
            shared,
        })
    }

    /// Lets a channel take part: what is for its address goes to `send`, which must not wait.
    pub(super) fn join(self: &Rc<Mirror>, at: SocketAddr, send: Send) -> Joined {
        let number = self.next.get() + 1;
        self.next.set(number);
        self.channels.borrow_mut().insert(at, (number, send));
        Joined {
            mirror: self.clone(),
            at,
            number,
        }
    }

    /// Answers a probe of this address.
    fn reflect(&self, from: SocketAddr, bytes: &[u8]) {
        let (mono, shared) = (mono_ns(), &self.shared);
        if shared.ceiling.wait_ns(mono) > MOST_BEHIND_NS {
            self.shed.set(self.shed.get() + 1);
            return;
        }
        shared.ceiling.book(mono, bytes.len() as u64 + HEADERS);
        let arrival = Arrival {
            from,
            local: None,
            rx_ns: shared.clock.from_mono_ns(mono),
            kernel: false,
            tos: None,
        };
        let now = shared.clock.now();
        self.reflector
            .borrow_mut()
            .handle_datagram(now, arrival, bytes);
        self.send();
    }

    fn send(&self) {
        let mut out = [0; MAX_LEN];
        let mut reflector = self.reflector.borrow_mut();
        while let Some(o) = reflector.poll_transmit(self.shared.clock.unix_ns(), &mut out) {
            if let Some((_, send)) = self.channels.borrow().get(&o.to) {
                send(&ToPage::Probe(&out[..o.len]).encode());
                let mono = mono_ns();
                reflector.handle_tx_stamp(o.id, self.shared.clock.from_mono_ns(mono));
                self.shared.ceiling.book(mono, o.len as u64 + HEADERS);
            }
        }
    }

    /// Handles timers, and brings the counters up to date.
    fn tick(&self) {
        self.reflector
            .borrow_mut()
            .handle_timeout(self.shared.clock.now());
        self.send();
        let reflector = self.reflector.borrow();
        *lock(&self.published) = Published {
            stats: reflector.stats(),
            sessions: reflector.sessions(),
            shed: self.shed.get(),
        };
    }

    /// Ticks until the server stops.
    pub(super) async fn keep(self: Rc<Mirror>) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.tick();
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Client's place in the queue for the uplink.
enum Turn<'a> {
    None,
    Waiting(Place<'a>),
    Held(Hold<'a>),
}

/// One channel.
pub(super) struct Channel<'a> {
    client: &'a Client,
    session: Session<'a>,
    mirror: Rc<Mirror>,
    turn: Turn<'a>,
    /// Bytes of its messages, both directions combined.
    pub moved: u64,
}

impl<'a> Channel<'a> {
    pub(super) fn new(client: &'a Client, session: Session<'a>, mirror: Rc<Mirror>) -> Channel<'a> {
        Channel {
            client,
            session,
            mirror,
            turn: Turn::None,
            moved: 0,
        }
    }

    /// Handles a message of the page. Returns the answer; those to probes go their own way.
    pub(super) fn heard(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.moved += bytes.len() as u64;
        let answer = match FromPage::decode(bytes)? {
            FromPage::Probe(probe) => {
                self.moved += bytes.len() as u64;
                self.mirror.reflect(self.client.from, probe);
                return None;
            }
            FromPage::Turn { lasts } => self.ask(lasts),
            FromPage::Over => {
                self.turn = Turn::None;
                return None;
            }
        };
        let answer = answer.encode();
        self.moved += answer.len() as u64;
        Some(answer)
    }

    fn ask(&mut self, lasts: Duration) -> ToPage<'static> {
        let client = self.client;
        if let Turn::None = self.turn {
            match client.shared.quota.wait(&client.permit, lasts) {
                Ok(place) => self.turn = Turn::Waiting(place),
                Err((why, text)) => {
                    client.refused(why, &text);
                    return ToPage::Refused;
                }
            }
        }
        self.turn = match std::mem::replace(&mut self.turn, Turn::None) {
            Turn::Waiting(place) => {
                let standing = place.ask();
                if standing.place > 0 {
                    self.turn = Turn::Waiting(place);
                    return ToPage::Turn {
                        place: u16::try_from(standing.place).unwrap_or(u16::MAX),
                        after: Duration::from_nanos(standing.after_ns.max(0).unsigned_abs()),
                    };
                }
                Turn::Held(place.hold())
            }
            Turn::Held(hold) if hold.is_over() => return ToPage::Refused,
            other => other,
        };
        ToPage::Turn {
            place: 0,
            after: Duration::ZERO,
        }
    }

    /// Messages about the uploads of the session, now.
    pub(super) fn samples(&mut self) -> Vec<Vec<u8>> {
        let at_ns = self.client.shared.clock.unix_ns();
        let uploads = self.session.uploads();
        let messages: Vec<Vec<u8>> = (uploads.iter())
            .map(|u| {
                // In this order, so that the end comes with all bytes.
                let ended = u.ended.load(Ordering::Acquire);
                ToPage::Sampled(Sampled {
                    flow: u.flow,
                    at_ns,
                    bytes: u.bytes.load(Ordering::Relaxed),
                    ended,
                })
                .encode()
            })
            .collect();
        let bytes: u64 = messages.iter().map(|m| m.len() as u64).sum();
        self.moved += bytes;
        // Probes have an account of their own.
        if bytes > 0 && !self.client.pays(bytes) {
            return Vec::new();
        }
        messages
    }
}
