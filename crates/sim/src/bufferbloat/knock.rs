//! TCP exchanges in virtual time: a connection, one message, one answer; and knocks at many ports at once.

use super::letters::{Shape, Then};
use super::network::{Block, NEAR, NEAR_V6};
use super::world::{Due, World};
use base::noted::middlebox::Syn;
use base::record::Direction;
use base::{Duration, Time};
use experiment::ask::{Back, Connected, Enough, Kind, Knock, Marking, Opening, Tried, Trouble};
use measure::control::listen::Transport;
use std::net::{IpAddr, SocketAddr};

/// Payload of a SYN above IP and eight bytes: 40 bytes of TCP header and options.
const SYN: usize = 32;
/// The same of a segment with timestamps, without its data.
const SEGMENT: usize = 24;
/// RFC 6298 section 2: the first retransmission timeout, which doubles.
const FIRST_RTO: Duration = Duration::from_secs(1);
const LEAST_RTO: Duration = Duration::from_millis(200);
/// Numbers of the sockets of knocks by datagram.
const FIRST_SOCKET: u32 = 1 << 30;

/// Packet of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Syn,
    SynAck,
    Reset,
    Request,
    Response,
}

/// A connection, its message and its answer.
pub(super) struct Exchange {
    /// Request of the experiment.
    pub knock: Knock,
    /// True for a connection without a message.
    only_connects: bool,
    began: Time,
    /// Packet that waits for an answer, when it left last, and its timeout.
    waits_for: Step,
    since: Time,
    rto: Duration,
    tries: u32,
    connected_at: Option<Time>,
    /// The far end's answer, once it has the message.
    pub answer: Option<Vec<u8>>,
    over: Option<Time>,
    tried: Tried,
}

impl World {
    /// Makes a connection and closes it.
    pub fn connect(&mut self, to: SocketAddr, patience: Duration) -> Connected {
        let (began, began_ns) = (self.now, self.unix_ns());
        let knock = Knock {
            transport: Transport::Tcp,
            at: to,
            says: Vec::new(),
            enough: Enough::Bytes(0),
            tries: 1,
            patience,
            watched: false,
        };
        let i = self.begin_exchange(knock, true);
        self.until_over(i..i + 1);
        let exchange = &self.exchanges[i];
        let ended = exchange.over.unwrap_or(self.now);
        Connected {
            began_ns,
            took: ended.saturating_since(began),
            made: match exchange.tried.connected {
                true => Ok(()),
                false => Err(exchange.tried.trouble.clone().unwrap_or_else(silence)),
            },
        }
    }

    /// Knocks at all of these at once.
    pub fn knock(&mut self, knocks: &[Knock]) -> Vec<Tried> {
        let first = self.exchanges.len();
        let mut order = Vec::new();
        for knock in knocks.iter().filter(|k| k.transport == Transport::Tcp) {
            order.push(self.begin_exchange(knock.clone(), false));
        }
        let mut tcp = order.into_iter();
        let udp = self.knock_by_datagram(knocks);
        self.until_over(first..self.exchanges.len());
        let mut udp = udp.into_iter();
        let silent = || Tried {
            connected: false,
            back: Back::Nothing,
            trouble: Some(silence()),
            first: None,
        };
        knocks
            .iter()
            .map(|knock| match knock.transport {
                Transport::Tcp => match tcp.next() {
                    Some(i) => self.exchanges[i].tried.clone(),
                    None => silent(),
                },
                Transport::Udp => udp.next().unwrap_or_else(silent),
            })
            .collect()
    }

    /// Datagrams to each port, sent again until something comes back.
    fn knock_by_datagram(&mut self, knocks: &[Knock]) -> Vec<Tried> {
        let udp: Vec<&Knock> = knocks
            .iter()
            .filter(|k| k.transport == Transport::Udp)
            .collect();
        let mut backs = vec![None; udp.len()];
        for (knock, number) in udp.iter().zip(FIRST_SOCKET..) {
            self.open_socket(Opening::towards(number, knock.at));
        }
        let most = udp.iter().map(|k| k.tries).max().unwrap_or(0);
        for turn in 0..most {
            let mut until = self.now;
            for ((knock, number), back) in udp.iter().zip(FIRST_SOCKET..).zip(&mut backs) {
                if back.is_some() || turn >= knock.tries {
                    continue;
                }
                if self.block(knock.transport, knock.at.port()) == Some(Block::Refused) {
                    *back = Some(Back::Refusal);
                    continue;
                }
                self.send_datagram(number, knock.at, &knock.says, Marking::default());
                until = until.max(self.now + knock.patience / u64::from(knock.tries));
            }
            while self.now < until && backs.iter().any(Option::is_none) {
                self.step(until);
                for (number, back) in (FIRST_SOCKET..).zip(&mut backs) {
                    if back.is_none() {
                        *back = self.heard(number).map(|heard| Back::Bytes(heard.bytes));
                    }
                }
            }
        }
        let tried = |back: Option<Back>| Tried {
            connected: false,
            trouble: match &back {
                None => Some(silence()),
                Some(Back::Refusal) => Some(refusal()),
                Some(_) => None,
            },
            back: back.unwrap_or(Back::Nothing),
            first: None,
        };
        backs.into_iter().map(tried).collect()
    }

    /// Fate of messages to a port of the server.
    pub fn block(&self, transport: Transport, port: u16) -> Option<Block> {
        self.plan.network.ports.get(&(transport, port)).copied()
    }

    fn begin_exchange(&mut self, knock: Knock, only_connects: bool) -> usize {
        let i = self.exchanges.len();
        let first = knock.watched.then(|| syn(64));
        self.exchanges.push(Exchange {
            knock,
            only_connects,
            began: self.now,
            waits_for: Step::SynAck,
            since: self.now,
            rto: FIRST_RTO,
            tries: 1,
            connected_at: None,
            answer: None,
            over: None,
            tried: Tried {
                connected: false,
                back: Back::Nothing,
                trouble: None,
                first,
            },
        });
        self.send_step(i, Step::Syn);
        self.at(self.now + FIRST_RTO, Due::Exchange(i));
        i
    }

    /// Sends a packet of an exchange.
    pub fn send_step(&mut self, i: usize, step: Step) {
        let exchange = &self.exchanges[i];
        let data = match step {
            Step::Request => exchange.knock.says.len(),
            Step::Response => exchange.answer.as_ref().map_or(0, Vec::len),
            Step::Syn | Step::SynAck | Step::Reset => 0,
        };
        let headers = match step {
            Step::Syn | Step::SynAck => SYN,
            Step::Reset => SYN - 20,
            Step::Request | Step::Response => SEGMENT,
        };
        let direction = match step {
            Step::Syn | Step::Request => Direction::Up,
            Step::SynAck | Step::Reset | Step::Response => Direction::Down,
        };
        // Segments are no longer than the path takes: few here are longer than one.
        let shape = Shape::plain(exchange.knock.at.ip(), headers + data);
        self.post(direction, shape, Then::Tcp(i, step));
    }

    /// Runs until these exchanges are over, or out of patience.
    fn until_over(&mut self, all: std::ops::Range<usize>) {
        loop {
            let mut latest = None;
            for i in all.clone() {
                let exchange = &mut self.exchanges[i];
                if exchange.over.is_some() {
                    continue;
                }
                let from = exchange.connected_at.unwrap_or(exchange.began);
                let until = from + exchange.knock.patience;
                if self.now >= until {
                    exchange.over = Some(self.now);
                    exchange.tried.trouble = Some(silence());
                    continue;
                }
                latest = latest.max(Some(until));
            }
            match latest {
                Some(until) => self.step(until),
                None => return,
            }
        }
    }

    /// An exchange's packet has arrived.
    pub fn stepped(&mut self, i: usize, step: Step) {
        if self.exchanges[i].over.is_some() {
            return;
        }
        match step {
            Step::Syn => self.syn_at_far(i),
            Step::Request => {
                if self.request_at_far(i) {
                    self.send_step(i, Step::Response);
                }
            }
            Step::Reset => self.over(i, Back::Refusal, Some(refusal())),
            Step::SynAck if self.exchanges[i].waits_for == Step::SynAck => self.connected(i),
            Step::Response if self.exchanges[i].waits_for == Step::Response => {
                let exchange = &self.exchanges[i];
                let bytes = exchange.answer.clone().unwrap_or_default();
                let enough = exchange.knock.enough.is_there(&bytes);
                let closed = (!enough).then(|| Trouble::new(Kind::Closed, "it was closed"));
                let back = match bytes.is_empty() {
                    true => Back::Nothing,
                    false => Back::Bytes(bytes),
                };
                self.over(i, back, closed);
            }
            Step::SynAck | Step::Response => {}
        }
    }

    fn connected(&mut self, i: usize) {
        let now = self.now;
        let exchange = &mut self.exchanges[i];
        exchange.tried.connected = true;
        exchange.connected_at = Some(now);
        if exchange.only_connects {
            exchange.over = Some(now);
            return;
        }
        let rtt = now.saturating_since(exchange.since);
        exchange.rto = (rtt * 3).max(LEAST_RTO);
        (exchange.waits_for, exchange.since) = (Step::Response, now);
        exchange.tries = 1;
        let again = now + exchange.rto;
        self.send_step(i, Step::Request);
        self.at(again, Due::Exchange(i));
    }

    fn over(&mut self, i: usize, back: Back, trouble: Option<Trouble>) {
        let now = self.now;
        let exchange = &mut self.exchanges[i];
        exchange.over = Some(now);
        exchange.tried.back = back;
        exchange.tried.trouble = trouble;
    }

    /// A retransmission timeout.
    pub fn exchange_due(&mut self, i: usize) {
        let now = self.now;
        let exchange = &mut self.exchanges[i];
        let due = exchange.since + exchange.rto;
        if exchange.over.is_some() || now < due || exchange.tries > 6 {
            return;
        }
        exchange.tries += 1;
        exchange.since = now;
        exchange.rto = exchange.rto * 2;
        let again = now + exchange.rto;
        let step = match exchange.waits_for {
            Step::SynAck => Step::Syn,
            _ => Step::Request,
        };
        self.send_step(i, step);
        self.at(again, Due::Exchange(i));
    }

    fn syn_at_far(&mut self, i: usize) {
        let at = self.exchanges[i].knock.at;
        let opens = match self.plan.network.resolver(at).copied() {
            Some(resolver) if resolver.silent => return,
            Some(resolver) => {
                let step = match resolver.tcp {
                    true => Step::SynAck,
                    false => Step::Reset,
                };
                // There and back again beyond the link.
                self.later(resolver.farther * 2, Then::Tcp(i, step));
                return;
            }
            None => match self.block(Transport::Tcp, at.port()) {
                Some(Block::Silent) => return,
                Some(Block::Refused) => false,
                Some(Block::Somebody) => true,
                _ => self.listener(Transport::Tcp, at).is_some(),
            },
        };
        self.send_step(i, if opens { Step::SynAck } else { Step::Reset });
    }

    /// Address of the near host, as the far end sees its connections.
    pub fn near_seen(&self, to: SocketAddr) -> SocketAddr {
        let ip: IpAddr = match to {
            SocketAddr::V4(_) => NEAR.into(),
            SocketAddr::V6(_) => NEAR_V6.into(),
        };
        self.external(SocketAddr::new(ip, 39_999))
    }
}

fn silence() -> Trouble {
    Trouble::new(Kind::Silence, "nothing came in time")
}

fn refusal() -> Trouble {
    Trouble::new(Kind::Refused, "Connection refused")
}

/// First packet of a connection with the options of a usual host.
pub(super) fn syn(ttl: u8) -> Syn {
    Syn {
        seq: 1,
        ttl,
        ecn: false,
        options: ["mss 1460", "sack", "timestamps", "window scale 7"]
            .map(String::from)
            .to_vec(),
    }
}
