//! Virtual host of experiments behind a NAT. Mapping, filtering, lifetime and hairpinning are given, so that the result
//! of an experiment can be compared with them.
//!
//! **Source.** RFC 4787, Network Address Translation (NAT) Behavioral Requirements for Unicast UDP, sections 4 to 6.
//!
//! **Deviations.** The path has a fixed delay and loses datagrams independently; connections lose nothing.

use base::program::{Sending, Train};
use base::record::{Recording, Row};
use base::rng::{Rng, Streams, uniform};
use base::{BitsPerSec, Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, Ask, Back, Knock, Ports, Tried};
use experiment::host::{Counted, Host, Passing, Rates};
use measure::control::listen::{
    Arrival, KNOCK_LEN, Knocked, Place, TOKEN_LEN, Transport, datagram, mark,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const EPOCH_NS: i64 = 1_700_000_000_000_000_000;
const TOKEN: [u8; TOKEN_LEN] = *b"in-order";
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);
const FAR: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2)];
const FIRST_PORT: u16 = 40_000;
const FAR_PORT: u16 = 7_000;

/// Dependence of a NAT's behaviour on the other end (RFC 4787 sections 4.1 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    Not,
    OnAddress,
    OnAddressAndPort,
}

impl Depends {
    /// Part of the other end that it depends on.
    fn part(self, of: SocketAddr) -> Option<(IpAddr, u16)> {
        match self {
            Depends::Not => None,
            Depends::OnAddress => Some((of.ip(), 0)),
            Depends::OnAddressAndPort => Some((of.ip(), of.port())),
        }
    }
}

/// Middlebox or service in front of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Filtered: nothing gets through, and nothing returns.
    Silent,
    /// A middlebox refuses.
    Refused,
    /// The knock gets through, and the answer does not return.
    AnswerLost,
    /// A middlebox answers in the server's name.
    Somebody,
    /// The server uses this port for something else.
    InUse,
}

/// Properties of the path and its NAT.
#[derive(Clone, Debug)]
pub struct Way {
    /// True if there is a NAT.
    pub translates: bool,
    /// Mapping of the translator.
    pub mapping: Depends,
    /// Filtering of the translator.
    pub filtering: Depends,
    /// Number of external addresses, which mappings of new sockets take in turn.
    pub addresses: u8,
    /// Silence after which a mapping is forgotten: for a mapping that was answered once, and for one used for more than
    /// two seconds.
    pub lifetime: (Duration, Duration),
    /// True if hosts inside reach each other by their external addresses.
    pub hairpin: bool,
    /// True if the server has a second address.
    pub second: bool,
    /// Fate of knocks at a port of the server; other ports are open.
    pub ports: BTreeMap<(Transport, u16), Block>,
    /// Delay of the path, one way.
    pub delay: Duration,
    /// Share of datagrams lost in each direction.
    pub loss: f64,
    /// Seed of the run.
    pub seed: u64,
}

impl Default for Way {
    fn default() -> Way {
        Way {
            translates: true,
            mapping: Depends::Not,
            filtering: Depends::OnAddressAndPort,
            addresses: 1,
            lifetime: (Duration::from_secs(30), Duration::from_secs(120)),
            hairpin: false,
            second: true,
            ports: BTreeMap::new(),
            delay: Duration::from_millis(10),
            loss: 0.0,
            seed: 1,
        }
    }
}

/// Mapping of an inner socket.
#[derive(Clone, Debug)]
struct Mapping {
    socket: u32,
    /// Part of the other end that the mapping is for.
    part: Option<(IpAddr, u16)>,
    external: SocketAddr,
    /// Addresses that datagrams were sent to.
    sent_to: Vec<SocketAddr>,
    first: Time,
    latest: Time,
}

/// Virtual host behind the NAT.
pub struct Translator {
    way: Way,
    now: Time,
    rng: Rng,
    /// Recording of the run.
    pub recording: Recording,
    /// Ports that the server has opened.
    ports: Vec<(Transport, Result<SocketAddr, String>)>,
    mappings: Vec<Mapping>,
    arrivals: Vec<Arrival>,
    /// Datagrams in flight to our sockets: arrival time, source, contents.
    inboxes: BTreeMap<u32, VecDeque<(Time, SocketAddr, Vec<u8>)>>,
    ordered: u32,
}

impl Translator {
    /// Creates a translator.
    pub fn new(way: Way) -> Translator {
        Translator {
            rng: Streams::new(way.seed).stream("translator/loss"),
            way,
            now: Time::ZERO,
            recording: Recording::default(),
            ports: Vec::new(),
            mappings: Vec::new(),
            arrivals: Vec::new(),
            inboxes: BTreeMap::new(),
            ordered: 0,
        }
    }

    fn local(socket: u32) -> SocketAddr {
        (NEAR, FIRST_PORT + (socket % 20_000) as u16).into()
    }

    fn lost(&mut self) -> bool {
        uniform(&mut self.rng) < self.way.loss
    }

    fn lives(&self, m: &Mapping, at: Time) -> bool {
        let (once, talked) = self.way.lifetime;
        let talks = m.latest.saturating_since(m.first) > Duration::from_secs(2);
        let lifetime = if talks { talked } else { once };
        !self.way.translates || at.saturating_since(m.latest) < lifetime
    }

    /// External address of a datagram from this socket, which creates or refreshes its mapping.
    fn outward(&mut self, socket: u32, to: SocketAddr) -> SocketAddr {
        let (now, part) = (self.now, self.way.mapping.part(to));
        let its = |m: &Mapping| m.socket == socket && m.part == part;
        let found = (0..self.mappings.len())
            .find(|i| its(&self.mappings[*i]) && self.lives(&self.mappings[*i], now));
        if let Some(i) = found {
            let m = &mut self.mappings[i];
            m.latest = now;
            m.sent_to.push(to);
            return m.external;
        }
        let number = self.mappings.len();
        let external = match self.way.translates {
            false => Translator::local(socket),
            true => {
                let last = 10 + (number % usize::from(self.way.addresses.max(1))) as u8;
                (Ipv4Addr::new(198, 51, 100, last), 50_000 + number as u16).into()
            }
        };
        self.mappings.push(Mapping {
            socket,
            part,
            external,
            sent_to: vec![to],
            first: now,
            latest: now,
        });
        external
    }

    /// Delivers a datagram from outside to the socket behind that address, if a mapping exists and its filter allows
    /// it.
    fn inward(&mut self, at: Time, from: SocketAddr, external: SocketAddr, bytes: Vec<u8>) {
        let filter = self.way.filtering;
        let found = (0..self.mappings.len())
            .rev()
            .find(|i| self.mappings[*i].external == external);
        let Some(i) = found.filter(|i| self.lives(&self.mappings[*i], at)) else {
            return;
        };
        let m = &mut self.mappings[i];
        let known = |to: &SocketAddr| filter.part(*to) == filter.part(from);
        if m.sent_to.iter().any(known) {
            m.latest = m.latest.max(at);
            let inbox = self.inboxes.entry(m.socket).or_default();
            inbox.push_back((at, from, bytes));
        }
    }

    fn send(&mut self, socket: u32, to: SocketAddr, bytes: &[u8]) {
        let from = self.outward(socket, to);
        if self.lost() {
            return;
        }
        let arrives = self.now + self.way.delay;
        let Some(listener) = self.listener(Transport::Udp, to) else {
            if self.way.hairpin {
                self.inward(self.now, from, to, bytes.to_vec());
            }
            return;
        };
        let ours = bytes.starts_with(&TOKEN);
        self.arrivals.push(Arrival {
            listener: listener as u32,
            from: Some(from),
            len: bytes.len() as u32,
            bytes: bytes.to_vec(),
            syn: Vec::new(),
            answered: ours,
        });
        if ours && bytes.len() >= KNOCK_LEN && !self.lost() {
            let answer = Knocked {
                from,
                cookie: [7; measure::control::listen::COOKIE_LEN],
            };
            let answer = answer.encode(&TOKEN).to_vec();
            self.inward(arrives + self.way.delay, to, from, answer);
        }
    }

    /// Number of the server's port at this address.
    fn listener(&self, transport: Transport, at: SocketAddr) -> Option<usize> {
        let its = |(t, p): &(Transport, Result<SocketAddr, String>)| {
            *t == transport && p.as_ref() == Ok(&at)
        };
        self.ports.iter().position(its)
    }

    /// Handles a knock at a port, all its tries together.
    fn knock(&mut self, knock: &Knock) -> Tried {
        let block = self
            .way
            .ports
            .get(&(knock.transport, knock.at.port()))
            .copied();
        let tcp = knock.transport == Transport::Tcp;
        let comes = !matches!(
            block,
            Some(Block::Silent | Block::Refused | Block::Somebody)
        );
        if comes {
            let listener = self.listener(knock.transport, knock.at);
            self.arrivals.push(Arrival {
                listener: listener.unwrap_or_default() as u32,
                from: Some((Ipv4Addr::new(198, 51, 100, 10), 49_999).into()),
                len: knock.says.len() as u32,
                bytes: knock.says.clone(),
                syn: Vec::new(),
                answered: true,
            });
        }
        Tried {
            connected: tcp && !matches!(block, Some(Block::Silent | Block::Refused)),
            back: match block {
                None | Some(Block::InUse) => Back::Bytes(mark(&TOKEN).to_vec()),
                Some(Block::Refused) => Back::Refusal,
                Some(Block::Somebody) => Back::Bytes(b"220 welcome".to_vec()),
                Some(Block::Silent | Block::AnswerLost) => Back::Nothing,
            },
        }
    }

    fn hear(&mut self, socket: u32, within: Duration) -> Option<(SocketAddr, Vec<u8>)> {
        let until = self.now + within;
        let inbox = self.inboxes.entry(socket).or_default();
        let next = inbox.iter().map(|d| d.0).min().filter(|at| *at <= until);
        let Some(next) = next else {
            self.now = until;
            return None;
        };
        let at = inbox.iter().position(|d| d.0 == next)?;
        let (_, from, bytes) = inbox.remove(at)?;
        self.now = self.now.max(next);
        Some((from, bytes))
    }
}

impl Host for Translator {
    type Error = Stopped;

    fn now(&self) -> Time {
        self.now
    }

    fn unix_ns(&self) -> i64 {
        EPOCH_NS + self.now.as_nanos() as i64
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        self.now += time;
        Ok(())
    }

    fn row(&mut self, row: Row) {
        self.recording.push(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        read(&self.recording);
    }

    fn headers(&self) -> u32 {
        28
    }

    fn train(
        &mut self,
        _: &Sending,
        _: i64,
        _: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Stopped> {
        Err(Stopped::Cannot {
            what: "send trains",
        })
    }

    fn count(&mut self, _: Counted) -> Result<(), Stopped> {
        Ok(())
    }

    /// Reports no cross traffic.
    fn rates(&self, _: Duration) -> Option<Rates> {
        let none = BitsPerSec::new(0);
        Some(Rates {
            down: none,
            up: none,
        })
    }

    fn interface(&self) -> String {
        "near".into()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, Stopped> {
        let round_trip = self.way.delay * 2;
        Ok(match ask {
            Ask::Listen(wanted, _) => {
                self.now += round_trip;
                let second = self.way.second;
                let open = |(i, w): (usize, &measure::control::listen::Wanted)| {
                    let port = match w.port {
                        0 => FAR_PORT + i as u16,
                        port => port,
                    };
                    let block = self.way.ports.get(&(w.transport, w.port));
                    match w.place {
                        _ if block == Some(&Block::InUse) => Err("in use".to_owned()),
                        Place::Elsewhere if !second => Err("there is one address only".to_owned()),
                        Place::Elsewhere => Ok((FAR[1], port).into()),
                        _ => Ok((FAR[0], port).into()),
                    }
                };
                let open = wanted.iter().enumerate().map(open);
                self.ports = wanted.iter().map(|w| w.transport).zip(open).collect();
                let local: SocketAddr = (NEAR, 39_999).into();
                Answer::Ports(Ports {
                    token: TOKEN,
                    from: match self.way.translates {
                        true => (Ipv4Addr::new(198, 51, 100, 10), 49_999).into(),
                        false => local,
                    },
                    local,
                    at: self.ports.iter().map(|p| p.1.clone()).collect(),
                })
            }
            Ask::Knock(knocks) => {
                let backs = knocks.iter().map(|k| self.knock(k)).collect();
                let longest = knocks.iter().map(|k| k.patience).max();
                self.now += round_trip.max(longest.unwrap_or_default());
                Answer::Knocked(backs)
            }
            Ask::Arrivals => {
                self.now += round_trip;
                Answer::Arrivals(self.arrivals.clone())
            }
            Ask::Order { port, to, len } => {
                let sent = self.now + self.way.delay;
                let bytes = datagram(&TOKEN, self.ordered, *len);
                self.ordered += 1;
                let from = self.ports.get(*port).cloned();
                if let Some((_, Ok(from))) = from
                    && !self.lost()
                {
                    self.inward(sent + self.way.delay, from, to.from, bytes.clone());
                }
                self.now += round_trip;
                Answer::Ordered(bytes)
            }
            Ask::Socket(number) => Answer::Local(Translator::local(*number)),
            Ask::Send { socket, to, bytes } => {
                self.send(*socket, *to, bytes);
                Answer::Sent
            }
            Ask::Hear { socket, within, .. } => Answer::Heard(self.hear(*socket, *within)),
        })
    }
}
