//! Datagrams with contents, and the NAT that they pass.

use super::network::{FAR, NEAR, NEAR_V6, Policer, Reached};
use super::world::{Body, Due, World};
use crate::fragments::cut;
use base::record::Direction;
use base::rng::uniform;
use base::{Duration, Ecn, Time};
use experiment::ask::{Extension, Heard, Marking, Opening};
use measure::quote::{Quote, UDP};
use measure::segment::TCP;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const FIRST_FLOW: u64 = 6_000_000;
const FIRST_PORT: u16 = 40_000;
/// Length of an extension header of IPv6 with padding only.
const EXTENSION: u32 = 8;

/// Purpose of a letter, which takes effect when all of it has arrived.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// A datagram reaches the far side.
    Far(Datagram),
    /// A datagram reaches the near side's external address.
    Near(Datagram),
    /// An ICMP error reaches the sender of this direction.
    Quote(Direction, Quote),
    /// Step of a TCP exchange.
    Tcp(usize, super::knock::Step),
    /// Probe of a hop, or its answer.
    Hop(u64),
}

/// Datagram with contents.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Contents.
    pub bytes: Vec<u8>,
    /// TOS or traffic-class byte.
    pub tos: u8,
    /// True if the contents are a TCP segment with its header.
    pub tcp: bool,
}

impl Datagram {
    /// Flow as a queue tells flows apart: by both ports.
    fn flow(&self) -> u64 {
        FIRST_FLOW + (u64::from(self.from.port()) << 16 | u64::from(self.to.port()))
    }
}

/// Message on its way.
pub(super) struct Letter {
    then: Then,
    /// Packets of it that have not arrived.
    missing: u16,
}

/// Shape of a letter's packets.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Address of the far end, whose version of IP counts.
    pub to: IpAddr,
    /// Bytes above IP and UDP; of TCP, above IP and eight bytes.
    pub payload: u32,
    /// True if fragments are forbidden.
    pub whole: bool,
    /// Extension header of IPv6.
    pub header: Option<Extension>,
}

impl Shape {
    /// Datagram without limits and further headers.
    pub fn plain(to: IpAddr, payload: usize) -> Shape {
        Shape {
            to,
            payload: payload as u32,
            whole: false,
            header: None,
        }
    }
}

/// Mapping of an inner socket.
#[derive(Clone, Debug)]
struct Mapping {
    local: SocketAddr,
    socket: u32,
    /// Part of the other end that the mapping is for.
    part: Option<(IpAddr, u16)>,
    external: SocketAddr,
    /// Addresses that datagrams were sent to.
    sent_to: Vec<SocketAddr>,
    first: Time,
    latest: Time,
}

/// Datagrams that have come to a socket, with their times.
type Inbox = VecDeque<(Time, Heard)>;

/// Letters in flight, sockets of the near host, and the NAT's mappings.
#[derive(Default)]
pub(super) struct Letters {
    flying: BTreeMap<u32, Letter>,
    next: u32,
    /// Letters that wait beyond the link before they take effect.
    waiting: BTreeMap<u32, Then>,
    /// Open sockets by their numbers.
    pub sockets: BTreeMap<u32, Opening>,
    opened: u16,
    locals: BTreeMap<u32, SocketAddr>,
    mappings: Vec<Mapping>,
    inboxes: BTreeMap<u32, Inbox>,
    /// Path MTU that routers have told, by version 4 and 6.
    pub told: [Option<u32>; 2],
    /// ICMP errors that senders have not read yet: up, down.
    quotes: [Vec<Quote>; 2],
    /// Time of each router's latest ICMP error about a datagram of an own socket.
    quoted: BTreeMap<usize, Time>,
    /// Time of each flow's first datagram at the policer.
    first_seen: BTreeMap<u64, Time>,
    /// Bytes that the policer has passed, less those that its rate has allowed, and when.
    policed: (f64, Time),
}

impl World {
    /// Opens a socket; gives its own address.
    pub fn open_socket(&mut self, opening: Opening) -> SocketAddr {
        let to = opening.to.map_or(IpAddr::V4(FAR[0]), |to| to.ip());
        let letters = &mut self.letters;
        letters.opened = letters.opened.wrapping_add(1) % 20_000;
        let ip: IpAddr = match to {
            IpAddr::V4(_) => NEAR.into(),
            IpAddr::V6(_) => NEAR_V6.into(),
        };
        let local = SocketAddr::new(ip, FIRST_PORT + letters.opened);
        letters.sockets.insert(opening.number, opening);
        letters.locals.insert(opening.number, local);
        letters.inboxes.insert(opening.number, VecDeque::new());
        local
    }

    /// Forgets all sockets.
    pub fn close_sockets(&mut self) {
        self.letters.sockets.clear();
        self.letters.locals.clear();
        self.letters.inboxes.clear();
    }

    fn lost(&mut self) -> bool {
        let loss = self.plan.network.loss;
        loss > 0.0 && uniform(&mut self.letter_noise) < loss
    }

    fn lives(&self, m: &Mapping, at: Time) -> bool {
        let nat = &self.plan.network.nat;
        let (once, talked) = nat.lifetime;
        let talks = m.latest.saturating_since(m.first) > Duration::from_secs(2);
        let lifetime = if talks { talked } else { once };
        !nat.translates || at.saturating_since(m.latest) < lifetime
    }

    /// External address of a datagram from this socket, which creates or refreshes its mapping.
    fn outward(&mut self, socket: u32, local: SocketAddr, to: SocketAddr) -> SocketAddr {
        let nat = self.plan.network.nat;
        let (now, part) = (self.now, nat.mapping.part(to));
        let its = |m: &Mapping| m.local == local && m.part == part;
        let found = (0..self.letters.mappings.len()).find(|i| {
            let m = &self.letters.mappings[*i];
            its(m) && self.lives(m, now)
        });
        if let Some(i) = found {
            let m = &mut self.letters.mappings[i];
            m.latest = now;
            if !m.sent_to.contains(&to) {
                m.sent_to.push(to);
            }
            return m.external;
        }
        let number = self.letters.mappings.len();
        let external = match nat.translates && to.is_ipv4() {
            false => local,
            true => {
                let last = 10 + (number % usize::from(nat.addresses.max(1))) as u8;
                let port = 50_000 + (number % 15_000) as u16;
                (Ipv4Addr::new(198, 51, 100, last), port).into()
            }
        };
        self.letters.mappings.push(Mapping {
            local,
            socket,
            part,
            external,
            sent_to: vec![to],
            first: now,
            latest: now,
        });
        external
    }

    /// External address of the near host's connections.
    pub fn external(&self, local: SocketAddr) -> SocketAddr {
        match self.plan.network.nat.translates && local.is_ipv4() {
            true => (Ipv4Addr::new(198, 51, 100, 10), 49_999).into(),
            false => local,
        }
    }

    /// Delivers a datagram from outside to the socket behind that address, if a mapping exists and its filter allows
    /// it.
    fn inward(&mut self, datagram: Datagram) {
        let (from, external) = (datagram.from, datagram.to);
        let (now, filter) = (self.now, self.plan.network.nat.filtering);
        let found = (0..self.letters.mappings.len())
            .rev()
            .find(|i| self.letters.mappings[*i].external == external);
        let Some(i) = found.filter(|i| self.lives(&self.letters.mappings[*i], now)) else {
            return;
        };
        let m = &mut self.letters.mappings[i];
        let known = |to: &SocketAddr| filter.part(*to) == filter.part(from);
        if !m.sent_to.iter().any(known) {
            return;
        }
        m.latest = m.latest.max(now);
        let (socket, local) = (m.socket, m.local);
        // A socket of the same number may have taken its place.
        if self.letters.locals.get(&socket) != Some(&local) {
            return;
        }
        let only = self.letters.sockets.get(&socket).and_then(|s| s.to);
        if only.is_none_or(|only| only == from)
            && let Some(inbox) = self.letters.inboxes.get_mut(&socket)
        {
            let heard = Heard {
                from,
                bytes: datagram.bytes,
                tos: Some(datagram.tos),
                waited: Duration::ZERO,
            };
            inbox.push_back((now, heard));
        }
    }

    /// True if the policer drops a datagram.
    fn policed(&mut self, direction: Direction, datagram: &Datagram) -> bool {
        let policer = self.plan.network.policer;
        let its = |p: &Policer| p.direction == direction && p.which.has(datagram.tos);
        let Some(policer) = policer.filter(its) else {
            return false;
        };
        let began = *self
            .letters
            .first_seen
            .entry(datagram.flow())
            .or_insert(self.now);
        if self.now.saturating_since(began) < policer.after {
            return false;
        }
        let (level, at) = self.letters.policed;
        let gone = self.now.saturating_since(at).as_secs_f64() * policer.rate.get() as f64 / 8.0;
        let level = (level - gone).max(0.0);
        let full = level + datagram.bytes.len() as f64;
        let drops = full > policer.burst.get() as f64;
        self.letters.policed = (if drops { level } else { full }, self.now);
        drops
    }

    /// Sends a datagram from a socket.
    pub fn send_datagram(&mut self, socket: u32, to: SocketAddr, bytes: &[u8], marking: Marking) {
        let Some(opening) = self.letters.sockets.get(&socket).copied() else {
            return;
        };
        let to = opening.to.unwrap_or(to);
        let Some(local) = self.letters.locals.get(&socket).copied() else {
            return;
        };
        let from = self.outward(socket, local, to);
        let known = FAR.map(IpAddr::from).contains(&to.ip())
            || to.is_ipv6()
            || self.plan.network.resolver(to).is_some();
        let datagram = Datagram {
            from,
            to,
            bytes: bytes.to_vec(),
            tos: marking.tos,
            tcp: opening.segments,
        };
        if !known {
            // An external address: another socket here, for all that this world knows.
            if self.plan.network.nat.hairpin {
                self.inward(datagram);
            }
            return;
        }
        if self.policed(Direction::Up, &datagram) {
            return;
        }
        let shape = Shape {
            whole: opening.whole == Some(true),
            header: opening.header,
            ..Shape::plain(to.ip(), bytes.len())
        };
        if let Some(datagram) = self.routed(Direction::Up, datagram, marking.hops) {
            self.post(Direction::Up, shape, Then::Far(datagram));
        }
    }

    /// The datagram as its other end receives it; null if a router drops it or its hop limit runs out.
    fn routed(
        &mut self,
        direction: Direction,
        mut datagram: Datagram,
        hops: Option<u8>,
    ) -> Option<Datagram> {
        let network = &self.plan.network;
        match network.reached(direction, &mut datagram, hops) {
            Reached::End => Some(datagram),
            Reached::Router(index) => {
                self.exceeded(direction, &datagram, index);
                None
            }
            Reached::Nowhere => None,
        }
    }

    /// Has a router send an ICMP error about a datagram, unless it is silent or limits its errors.
    fn exceeded(&mut self, direction: Direction, datagram: &Datagram, index: usize) {
        let (router, now) = (self.plan.network.routers[index], self.now);
        let latest = self.letters.quoted.get(&index);
        let free = latest.is_none_or(|at| now.saturating_since(*at) >= router.at_most_every);
        if router.silent || !free || self.lost() || self.lost() {
            return;
        }
        self.letters.quoted.insert(index, now);
        let mut rest = Vec::new();
        if !datagram.tcp {
            rest.extend(datagram.from.port().to_be_bytes());
            rest.extend(datagram.to.port().to_be_bytes());
            rest.extend((datagram.bytes.len() as u16 + 8).to_be_bytes());
            rest.extend([0, 0]);
        }
        rest.extend(&datagram.bytes);
        rest.truncate(router.quotes);
        let quote = Quote {
            from: router.address,
            exceeded: true,
            to: datagram.to.ip(),
            tos: datagram.tos,
            protocol: if datagram.tcp { TCP } else { UDP },
            rest,
        };
        let rtt = self.plan.link.propagation_rtt();
        let crosses = router.beyond == (direction == Direction::Up);
        let link = if crosses { rtt } else { Duration::ZERO };
        self.later(router.delay * 2 + link, Then::Quote(direction, quote));
    }

    /// ICMP errors that have reached the sender of this direction.
    pub fn take_quotes(&mut self, direction: Direction) -> Vec<Quote> {
        std::mem::take(&mut self.letters.quotes[direction as usize])
    }

    /// Next datagram at a socket.
    pub fn heard(&mut self, socket: u32) -> Option<Heard> {
        let (at, heard) = self.letters.inboxes.get_mut(&socket)?.pop_front()?;
        Some(Heard {
            waited: self.now.saturating_since(at),
            ..heard
        })
    }

    /// Sends a datagram from the far side, perhaps with a hop limit.
    pub fn send_down(&mut self, datagram: Datagram, hops: Option<u8>) {
        if self.policed(Direction::Down, &datagram) {
            return;
        }
        if let Some(datagram) = self.routed(Direction::Down, datagram, hops) {
            let shape = Shape::plain(datagram.from.ip(), datagram.bytes.len());
            self.post(Direction::Down, shape, Then::Near(datagram));
        }
    }

    /// Puts a letter's packets into the queue of a direction.
    pub fn post(&mut self, direction: Direction, shape: Shape, then: Then) {
        let v6 = shape.to.is_ipv6();
        let Some(version) = self.plan.network.version(shape.to).copied() else {
            return;
        };
        let extension = shape.header.map_or(0, |_| EXTENSION);
        let link = match direction {
            Direction::Up => self.plan.link.up.mtu,
            Direction::Down => self.plan.link.down.mtu,
        };
        let mtu = version.mtu.min(link).get();
        let Some(parts) = cut(shape.payload + extension, v6, mtu, shape.whole) else {
            if version.tells_mtu {
                self.letters.told[usize::from(v6)] = Some(mtu as u32);
            }
            return;
        };
        let passes = match shape.header {
            None => true,
            Some(Extension::HopByHop) => version.extensions[0],
            Some(Extension::Destination) => version.extensions[1],
        };
        let id = self.letters.next;
        self.letters.next = id.wrapping_add(1);
        let (flow, marks) = match &then {
            Then::Far(d) | Then::Near(d) => (d.flow(), (Ecn::from_bits(d.tos & 3), d.tos >> 2)),
            Then::Quote(..) | Then::Tcp(..) | Then::Hop(_) => (FIRST_FLOW, (Ecn::NotEct, 0)),
        };
        let letter = Letter {
            then,
            missing: parts.len() as u16,
        };
        let dropped =
            version.blocked || !passes || (parts.len() > 1 && !version.fragments) || self.lost();
        if !dropped {
            self.letters.flying.insert(id, letter);
        }
        for len in parts {
            self.send_marked(direction, flow, len, Body::Letter(id), marks);
        }
    }

    /// Handles the arrival of a letter's packet.
    pub fn letter_arrived(&mut self, id: u32, ecn: Ecn) {
        let Some(letter) = self.letters.flying.get_mut(&id) else {
            return;
        };
        if ecn == Ecn::Ce
            && let Then::Far(datagram) | Then::Near(datagram) = &mut letter.then
        {
            datagram.tos |= Ecn::Ce.bits();
        }
        letter.missing = letter.missing.saturating_sub(1);
        if letter.missing > 0 {
            return;
        }
        if let Some(letter) = self.letters.flying.remove(&id) {
            self.takes_effect(letter.then);
        }
    }

    fn takes_effect(&mut self, then: Then) {
        match then {
            Then::Far(datagram) => self.far_heard(&datagram),
            Then::Near(datagram) => self.inward(datagram),
            Then::Quote(direction, quote) => self.letters.quotes[direction as usize].push(quote),
            Then::Tcp(exchange, step) => self.stepped(exchange, step),
            Then::Hop(number) => self.hop_arrived(number),
        }
    }

    /// Has a letter take effect, or start back, after a time beyond the link.
    pub fn later(&mut self, after: Duration, then: Then) {
        let id = self.letters.next;
        self.letters.next = id.wrapping_add(1);
        self.letters.waiting.insert(id, then);
        self.at(self.now + after, Due::Letter(id));
    }

    /// Handles a letter that has waited beyond the link.
    pub fn letter_due(&mut self, id: u32) {
        match self.letters.waiting.remove(&id) {
            Some(Then::Near(datagram)) => self.send_down(datagram, None),
            // A far end's packet starts back.
            Some(Then::Tcp(exchange, step)) => self.send_step(exchange, step),
            Some(then) => self.takes_effect(then),
            None => {}
        }
    }
}
