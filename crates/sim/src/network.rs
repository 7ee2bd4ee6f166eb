//! The network at work: links, routes, and what sits at their ends. One agenda says who acts next; each
//! link has one place in it however many packets are under way on it, each connection one for its timers.
//!
//! A packet walks a route: a row of links with an end behind them, all routes in one array. The packet
//! knows its place in it, so a hop is: take it from one link, look up the next, put it there. Where a
//! plain link feeds another that nothing else feeds, the packet is put there at once, because nothing can
//! happen on the way that is not known already; an event is left where ways meet and at hosts.
//!
//! At equal times links, connections and sources act in the order in which they were added: an order that
//! depends on the network alone, not on how events came about.

use crate::agenda::Agenda;
use crate::segment::{Arena, Flying, Segment, flag};
use crate::source::Source;
use crate::summary::Summary;
use crate::tcp::{Receiver, Sender, Settings};
use base::rng::Streams;
use base::{Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::{Fate, Fates, Reason};
use link::{Express, Link, LinkParams, LinkStats};
use std::collections::BTreeSet;

/// What an observer may want to see; nothing costs anything where it does not look.
pub trait Observer {
    /// A packet leaves its host, arrives at its destination, or is dropped.
    fn packet(&mut self, _now: Time, _what: Happening, _packet: &Packet, _segment: &Segment) {}
    /// An answer to a probe has come back.
    fn answer(&mut self, _now: Time, _flow: usize, _probe: &Segment, _ecn: Ecn) {}
    /// A transfer is complete.
    fn done(&mut self, _now: Time, _connection: usize, _started: Time) {}
    /// A packet enters a link, before its queue; told in time of a link that is [tapped](Network::tap).
    fn entered(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// A packet comes out of a link; told of one that is tapped.
    fn left(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// A line has doubled a packet: the second goes on under a name of its own.
    fn copied(&mut self, _packet: PacketId, _copy: PacketId) {}
}

/// Both see everything.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        self.0.packet(now, what, packet, segment);
        self.1.packet(now, what, packet, segment);
    }
    fn answer(&mut self, now: Time, flow: usize, probe: &Segment, ecn: Ecn) {
        self.0.answer(now, flow, probe, ecn);
        self.1.answer(now, flow, probe, ecn);
    }
    fn done(&mut self, now: Time, connection: usize, started: Time) {
        self.0.done(now, connection, started);
        self.1.done(now, connection, started);
    }
    fn entered(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        self.0.entered(now, link, packet, segment);
        self.1.entered(now, link, packet, segment);
    }
    fn left(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        self.0.left(now, link, packet, segment);
        self.1.left(now, link, packet, segment);
    }
    fn copied(&mut self, packet: PacketId, copy: PacketId) {
        self.0.copied(packet, copy);
        self.1.copied(packet, copy);
    }
}

/// Sees nothing.
pub struct Blind;
impl Observer for Blind {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    Sent,
    Received,
    Dropped(Reason),
}

/// Numbers of the things that a network is made of.
pub type LinkIndex = usize;

struct LinkSlot {
    line: Line,
    /// Its place in the agenda.
    place: u32,
    /// What comes out goes to a link that nothing else feeds, so it is handed on as soon as it is known
    /// when it will come out.
    silent: bool,
    /// An observer wants to see what enters it and what comes out, each in time.
    tapped: bool,
    fed_by: Feeder,
    /// Sojourn times of the packets that came out, where they are wanted.
    sojourn: Option<Box<Summary>>,
}

impl LinkSlot {
    /// Of a link that hands packets on ahead of time: those that have come out by now.
    #[inline]
    fn release(&mut self, now: Time) {
        let Line::Express(express) = &mut self.line else {
            return;
        };
        while self.silent && express.next_exit().is_some_and(|at| at <= now) {
            if let (Some(exit), Some(sojourn)) = (express.pop(), &mut self.sojourn) {
                sojourn.add_span(exit.sojourn);
            }
        }
    }
}

enum Line {
    Express(Express<u32>),
    Any(Box<Link>),
}

/// Where the packets of a link come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Nothing,
    Link(LinkIndex),
    /// A host, or more than one.
    Several,
}

/// What a TCP sender has to send, and when.
#[derive(Clone, Debug)]
pub enum Application {
    /// So many bytes at once; `u64::MAX` never ends.
    Bulk { bytes: u64 },
    /// Transfers of random size, each a random time after the one before was acknowledged.
    Transfers(Box<Transfers>),
}

#[derive(Clone, Debug)]
pub struct Transfers {
    pub bytes: crate::source::Law,
    pub think_s: crate::source::Law,
    pub sizes: base::rng::Rng,
    pub thoughts: base::rng::Rng,
}

pub struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    application: Application,
    /// The transfer under way began then.
    started: Time,
    idle: bool,
    forward: Way,
    back: Way,
    place: u32,
    /// When the application writes next.
    write_due: Option<Time>,
    /// Packets of its sender dropped on their way.
    pub lost: u64,
    /// One-way delay of its data.
    pub delay: Summary,
    /// How long its transfers took.
    pub transfers: Summary,
    pub forward_ecn: Ecn,
}

impl Connection {
    /// Of the packets that carry its data.
    pub fn flow(&self) -> FlowId {
        self.forward.id()
    }
    /// Of the packets that acknowledge them.
    pub fn back_flow(&self) -> FlowId {
        self.back.id()
    }
    /// Payload after which its application has nothing more to say; `None` where that is not known.
    pub fn ends_after(&self) -> Option<u64> {
        match self.application {
            Application::Bulk { bytes } if bytes < u64::MAX => Some(bytes),
            _ => None,
        }
    }
}

pub struct Datagrams {
    source: Source,
    way: Way,
    back: Option<Way>,
    place: u32,
    pub sent: u64,
    pub received: u64,
    /// Dropped on the way there.
    pub lost: u64,
    pub received_bytes: u64,
    pub answered: u64,
    /// One-way delay there.
    pub delay: Summary,
    /// There and back.
    pub rtt: Summary,
}

impl Datagrams {
    /// The flows that its packets and their answers belong to.
    pub fn flows(&self) -> (FlowId, Option<FlowId>) {
        (self.way.id(), self.back.map(Way::id))
    }
}

/// Where packets of one direction begin, and whose they are.
#[derive(Clone, Copy, Debug)]
struct Way {
    position: u32,
    flow: u32,
    dscp: u8,
}

impl Way {
    fn id(self) -> FlowId {
        FlowId(u64::from(self.flow))
    }
}

/// Who acts, or what stands at the end of a route: a kind and a number.
mod kind {
    pub const LINK: u32 = 0;
    pub const SENDER: u32 = 1;
    pub const RECEIVER: u32 = 2;
    pub const SOURCE: u32 = 3;
    pub const SINK: u32 = 4;
    pub const ANSWER: u32 = 5;
    pub const CONNECTION: u32 = 6;
    /// Packets that find no room, later.
    pub const REFUSALS: u32 = 7;
    /// Bits of the number below the kind.
    pub const BITS: u32 = 25;
    pub const MASK: u32 = (1 << BITS) - 1;
}

#[inline]
fn tag(kind: u32, number: usize) -> u32 {
    assert!(
        number <= kind::MASK as usize,
        "more than {} flows or links",
        kind::MASK
    );
    kind << kind::BITS | number as u32
}

pub struct Network {
    now: Time,
    agenda: Agenda,
    /// Who stands at each place of the agenda.
    actors: Vec<u32>,
    links: Vec<LinkSlot>,
    /// All routes, one behind the other: numbers of links, then what stands at the end.
    routes: Vec<u32>,
    /// Routes or links have been added since it was found out which links are silent.
    changed: bool,
    arena: Arena,
    fates: Fates,
    /// When a packet that is handed on ahead of time finds no room, at which link, and its number.
    refusals: BTreeSet<(Time, LinkIndex, u32)>,
    pub connections: Vec<Connection>,
    pub datagrams: Vec<Datagrams>,
    /// What stands at the end of the route of each flow.
    owners: Vec<u32>,
    events: u64,
}

impl Default for Network {
    fn default() -> Network {
        let mut agenda = Agenda::default();
        agenda.add();
        Network {
            now: Time::ZERO,
            agenda,
            actors: vec![tag(kind::REFUSALS, 0)],
            links: Vec::new(),
            routes: Vec::new(),
            changed: false,
            arena: Arena::default(),
            fates: Fates::default(),
            refusals: BTreeSet::new(),
            connections: Vec::new(),
            datagrams: Vec::new(),
            owners: Vec::new(),
            events: 0,
        }
    }
}

/// The place of the packets that find no room, later.
const REFUSALS: u32 = 0;

impl Network {
    pub fn add_link(&mut self, params: &LinkParams, streams: &Streams, name: &str) -> LinkIndex {
        match Express::of(params) {
            Some(express) => self.add_line(Line::Express(express)),
            None => self.add_ready_link(Link::new(params, streams, name)),
        }
    }

    /// A link that the caller has made, such as one with a discipline of its own.
    pub fn add_ready_link(&mut self, link: Link) -> LinkIndex {
        self.add_line(Line::Any(Box::new(link)))
    }

    fn add_line(&mut self, line: Line) -> LinkIndex {
        let number = self.links.len();
        self.links.push(LinkSlot {
            line,
            place: self.agenda.add(),
            silent: false,
            tapped: false,
            fed_by: Feeder::Nothing,
            sojourn: None,
        });
        self.actors.push(tag(kind::LINK, number));
        number
    }

    /// From now on the sojourn times of that link are kept.
    pub fn watch(&mut self, link: LinkIndex) {
        self.links[link].sojourn = Some(Box::default());
    }

    /// From now on observers are told in time what enters that link and what comes out of it.
    pub fn tap(&mut self, link: LinkIndex) {
        self.links[link].tapped = true;
        self.changed = true;
    }

    fn way(&mut self, links: &[LinkIndex], end: u32, dscp: u8) -> Way {
        assert!(!links.is_empty(), "a route needs a link");
        let position = u32::try_from(self.routes.len()).expect("fewer than 2^32 hops");
        assert!(
            self.events == 0,
            "routes are laid before the first packet is sent"
        );
        self.changed = true;
        let mut feeder = Feeder::Several;
        for link in links {
            let fed_by = &mut self.links[*link].fed_by;
            *fed_by = match *fed_by {
                Feeder::Nothing => feeder,
                same if same == feeder => same,
                _ => Feeder::Several,
            };
            feeder = Feeder::Link(*link);
            self.routes.push(tag(kind::LINK, *link));
        }
        self.routes.push(end);
        let flow = u32::try_from(self.owners.len()).expect("fewer than 2^32 flows");
        self.owners.push(end);
        Way {
            position,
            flow,
            dscp,
        }
    }

    /// A connection whose data goes over `there` and whose ACKs come `back`.
    pub fn connect(
        &mut self,
        settings: &Settings,
        there: &[LinkIndex],
        back: &[LinkIndex],
        start: Time,
        application: Application,
        streams: &Streams,
    ) -> usize {
        let number = self.connections.len();
        let name = format!("connection/{number}");
        let sender = Sender::new(settings.clone(), streams, &name);
        let connection = Connection {
            forward_ecn: sender.ecn(),
            sender,
            receiver: Receiver::new(settings),
            application,
            started: start,
            idle: true,
            forward: self.way(there, tag(kind::RECEIVER, number), settings.dscp),
            back: self.way(back, tag(kind::SENDER, number), settings.dscp),
            place: self.agenda.add(),
            write_due: Some(start),
            lost: 0,
            delay: Summary::default(),
            transfers: Summary::default(),
        };
        self.agenda.set(connection.place, Some(start));
        self.actors.push(tag(kind::CONNECTION, number));
        self.connections.push(connection);
        number
    }

    /// Datagrams over `there`; where the source asks for it, each comes `back`.
    pub fn add_source(&mut self, source: Source, there: &[LinkIndex], back: &[LinkIndex]) -> usize {
        let number = self.datagrams.len();
        let place = self.agenda.add();
        self.actors.push(tag(kind::SOURCE, number));
        self.agenda.set(place, source.next_wakeup());
        let dscp = source.dscp();
        let way = self.way(there, tag(kind::SINK, number), dscp);
        let back = source
            .echoes()
            .then(|| self.way(back, tag(kind::ANSWER, number), dscp));
        self.datagrams.push(Datagrams {
            source,
            way,
            back,
            place,
            sent: 0,
            received: 0,
            lost: 0,
            received_bytes: 0,
            answered: 0,
            delay: Summary::default(),
            rtt: Summary::default(),
        });
        number
    }

    pub fn now(&self) -> Time {
        self.now
    }
    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }
    /// Packets under way.
    pub fn under_way(&self) -> usize {
        self.arena.len()
    }
    /// Of a link, as of now.
    pub fn link_stats(&self, link: LinkIndex) -> LinkStats {
        match &self.links[link].line {
            Line::Express(express) => express.stats(self.now),
            Line::Any(link) => link.stats(),
        }
    }
    /// Sojourn times of a watched link.
    pub fn sojourn(&self, link: LinkIndex) -> Option<&Summary> {
        self.links[link].sojourn.as_deref()
    }

    /// Forgets the delays so far: what comes from now on is what counts.
    pub fn begin_measurement(&mut self) {
        for link in &mut self.links {
            link.release(self.now);
            if let Some(sojourn) = &mut link.sojourn {
                sojourn.clear();
            }
        }
        for c in &mut self.connections {
            c.delay.clear();
            c.transfers.clear();
        }
        for d in &mut self.datagrams {
            d.delay.clear();
            d.rtt.clear();
        }
    }

    /// Brings a link up to now, so that its figures are of now.
    pub fn refresh<O: Observer>(&mut self, link: LinkIndex, observer: &mut O) {
        let slot = &mut self.links[link];
        slot.release(self.now);
        match &mut slot.line {
            Line::Express(express) => express.advance(self.now),
            Line::Any(_) => self.serve_any(link, observer),
        }
    }

    /// Handles every event up to and including `until`.
    pub fn run_until<O: Observer>(&mut self, until: Time, observer: &mut O) {
        if self.changed {
            self.find_silent_links();
        }
        while let Some((now, place)) = self.agenda.first_until(until) {
            self.now = now;
            self.events += 1;
            let actor = self.actors[place as usize];
            let number = (actor & kind::MASK) as usize;
            match actor >> kind::BITS {
                kind::LINK => self.serve_link(number, observer),
                kind::CONNECTION => self.serve_connection(number, observer),
                kind::SOURCE => self.serve_source(number, observer),
                kind::REFUSALS => self.serve_refusals(observer),
                other => unreachable!("nothing of kind {other} acts"),
            }
        }
        self.now = self.now.max(until);
    }

    /// A link is silent if all that leaves it goes on to links that nothing else feeds: what happens there
    /// depends on nothing but what leaves it, and is known as soon as that is.
    fn find_silent_links(&mut self) {
        self.changed = false;
        for slot in &mut self.links {
            slot.silent = matches!(slot.line, Line::Express(_)) && !slot.tapped;
        }
        for hop in self.routes.windows(2) {
            let (from, to) = (hop[0], hop[1]);
            if from >> kind::BITS != kind::LINK {
                continue;
            }
            let goes_on = to >> kind::BITS == kind::LINK && {
                let slot = &self.links[to as usize];
                let plain = matches!(&slot.line, Line::Express(e) if e.takes_time());
                plain && !slot.tapped && slot.fed_by == Feeder::Link(from as usize)
            };
            self.links[from as usize].silent &= goes_on;
        }
    }

    /// A packet comes out of a link, or may do so.
    #[inline]
    fn serve_link<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        let slot = &mut self.links[number];
        let Line::Express(express) = &mut slot.line else {
            self.serve_any(number, observer);
            return;
        };
        let exit = express.pop();
        self.agenda.set(slot.place, express.next_exit());
        if let Some(exit) = exit {
            if let Some(sojourn) = &mut slot.sojourn {
                sojourn.add_span(exit.sojourn);
            }
            let flying = self.arena.get(exit.item);
            let packet = flying.packet(exit.item, self.now);
            observer.left(self.now, number, &packet, &flying.segment);
            self.go_on(exit.item, observer);
        }
    }

    /// Takes what has come out of a link, and notes when to ask again.
    fn serve_any<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        loop {
            let slot = &mut self.links[number];
            let Line::Any(link) = &mut slot.line else {
                return;
            };
            let delivery = link.poll(self.now, &mut self.fates);
            if let (Some(d), Some(sojourn)) = (&delivery, &mut slot.sojourn) {
                sojourn.add_span(d.sojourn);
            }
            let again = link.next_wakeup();
            self.agenda.set(slot.place, again);
            self.bury(observer);
            if let Some(delivery) = delivery {
                let mut packet_number = delivery.packet.id.0 as u32;
                let flying = self.arena.get_mut(packet_number);
                flying.ecn = delivery.packet.ecn;
                let packet = flying.packet(packet_number, self.now);
                observer.left(self.now, number, &packet, &flying.segment);
                if delivery.again {
                    // Its second copy needs a place of its own.
                    let copy = *flying;
                    packet_number = self.arena.insert(copy);
                    let name = PacketId(u64::from(packet_number));
                    observer.copied(packet.id, name);
                }
                self.go_on(packet_number, observer);
            }
            if again.is_none_or(|at| at > self.now) {
                return;
            }
        }
    }

    /// Frees what a discipline or a line has dropped.
    #[inline]
    fn bury<O: Observer>(&mut self, observer: &mut O) {
        if self.fates.list.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.fates.list);
        for (packet, fate) in list.drain(..) {
            if let Fate::Dropped(why) = fate {
                self.lose(packet.id.0 as u32, why, observer);
            }
        }
        self.fates.list = list;
    }

    fn lose<O: Observer>(&mut self, number: u32, why: Reason, observer: &mut O) {
        let flying = self.arena.get(number);
        let owner = self.owners[flying.flow as usize];
        let index = (owner & kind::MASK) as usize;
        match owner >> kind::BITS {
            kind::SINK => self.datagrams[index].lost += 1,
            kind::RECEIVER => self.connections[index].lost += 1,
            _ => {}
        }
        let packet = flying.packet(number, self.now);
        observer.packet(self.now, Happening::Dropped(why), &packet, &flying.segment);
        self.arena.free(number);
    }

    /// The time has come at which packets that were handed on ahead of it find no room.
    fn serve_refusals<O: Observer>(&mut self, observer: &mut O) {
        while let Some(&(at, link, number)) = self.refusals.first() {
            if at > self.now {
                break;
            }
            self.refusals.pop_first();
            if let Line::Express(express) = &mut self.links[link].line {
                express.refuse(self.arena.get(number).len);
            }
            self.lose(number, Reason::Overlimit, observer);
        }
        let next = self.refusals.first().map(|r| r.0);
        self.agenda.set(REFUSALS, next);
    }

    /// A packet enters the link that it stands at, and the next ones as far as its future is known.
    #[inline]
    fn enter<O: Observer>(&mut self, number: u32, observer: &mut O) {
        let flying = self.arena.get_mut(number);
        let (mut at, mut position, len) = (self.now, flying.position, flying.len);
        loop {
            let link = self.routes[position as usize] as usize;
            observer.entered(at, link, &flying.packet(number, at), &flying.segment);
            let slot = &mut self.links[link];
            if slot.silent {
                slot.release(self.now);
            }
            let Line::Express(express) = &mut slot.line else {
                flying.position = position;
                self.enter_any(link, number, observer);
                return;
            };
            let Some(exit) = express.enqueue(at, len, number) else {
                flying.position = position;
                if at > self.now {
                    self.refusals.insert((at, link, number));
                    let first = self.refusals.first().map(|r| r.0);
                    self.agenda.set(REFUSALS, first);
                } else {
                    express.refuse(len);
                    self.lose(number, Reason::Overlimit, observer);
                }
                return;
            };
            if slot.silent {
                (at, position) = (exit, position + 1);
                continue;
            }
            flying.position = position;
            if express.is_single() {
                self.agenda.set(slot.place, Some(exit));
            }
            return;
        }
    }

    fn enter_any<O: Observer>(&mut self, link: LinkIndex, number: u32, observer: &mut O) {
        let slot = &mut self.links[link];
        if let Line::Any(link) = &mut slot.line {
            let packet = self.arena.get(number).packet(number, self.now);
            link.enqueue(self.now, packet, &mut self.fates);
            let again = link.next_wakeup();
            if again != Some(self.agenda.get(slot.place)) {
                self.agenda.set(slot.place, again);
            }
        }
        self.bury(observer);
    }

    /// A packet has come out of a link: it enters the next or has arrived.
    #[inline]
    fn go_on<O: Observer>(&mut self, number: u32, observer: &mut O) {
        let flying = self.arena.get_mut(number);
        flying.position += 1;
        let next = self.routes[flying.position as usize];
        if next >> kind::BITS == kind::LINK {
            self.enter(number, observer);
            return;
        }
        // Nothing is inserted before the last use of what it says.
        self.arena.free(number);
        let flying = self.arena.get(number);
        let segment = &flying.segment;
        observer.packet(
            self.now,
            Happening::Received,
            &flying.packet(number, self.now),
            segment,
        );
        let number = (next & kind::MASK) as usize;
        match next >> kind::BITS {
            kind::RECEIVER => {
                let connection = &mut self.connections[number];
                if segment.len > 0 {
                    connection
                        .delay
                        .add_span(self.now.saturating_since(segment.sent));
                }
                let ack = connection
                    .receiver
                    .handle_segment(self.now, segment, flying.ecn);
                self.after_receiver(number, ack, observer);
            }
            kind::SENDER => {
                let connection = &mut self.connections[number];
                connection.sender.handle_segment(self.now, segment);
                if connection.sender.is_idle() && !connection.idle {
                    self.transferred(number, observer);
                }
                self.after_sender(number, observer);
            }
            kind::SINK => {
                let flow = &mut self.datagrams[number];
                let delay = self.now.saturating_since(segment.sent);
                flow.received += 1;
                flow.received_bytes += u64::from(flying.len);
                flow.delay.add_span(delay);
                if let Some(back) = flow.back {
                    let answer = Segment {
                        flags: flag::ECHO,
                        delay,
                        ..*segment
                    };
                    let (len, ecn) = (flying.len, flying.ecn);
                    self.launch(back, answer, len, ecn, observer);
                }
            }
            kind::ANSWER => {
                let flow = &mut self.datagrams[number];
                flow.answered += 1;
                flow.rtt.add_span(self.now.saturating_since(segment.sent));
                observer.answer(self.now, number, segment, flying.ecn);
            }
            other => unreachable!("a route ends at kind {other}"),
        }
    }

    /// A packet leaves its host.
    #[inline]
    fn launch<O: Observer>(
        &mut self,
        way: Way,
        segment: Segment,
        len: u32,
        ecn: Ecn,
        observer: &mut O,
    ) {
        // An answer keeps when its probe left.
        let sent = match segment.is(flag::ECHO) {
            true => segment.sent,
            false => self.now,
        };
        let flying = Flying {
            position: way.position,
            len,
            flow: way.flow,
            ecn,
            dscp: way.dscp,
            segment: Segment { sent, ..segment },
        };
        let number = self.arena.insert(flying);
        observer.packet(
            self.now,
            Happening::Sent,
            &flying.packet(number, self.now),
            &flying.segment,
        );
        self.enter(number, observer);
    }

    /// A connection wants to be asked then, or before. A timer is not moved when it is put off: it fires
    /// early, and is then set to the right time.
    #[inline]
    fn expect(&mut self, place: u32, at: Option<Time>) {
        if let Some(at) = at
            && at < self.agenda.get(place)
        {
            self.agenda.set(place, Some(at));
        }
    }

    #[inline]
    fn after_sender<O: Observer>(&mut self, number: usize, observer: &mut O) {
        loop {
            let connection = &mut self.connections[number];
            let Some(outgoing) = connection.sender.poll_transmit(self.now) else {
                break;
            };
            let header = connection.sender.settings().header.get() as u32;
            // RFC 3168 section 6.1.1: a SYN is not ECN-capable.
            let ecn = if outgoing.flags & flag::SYN != 0 {
                Ecn::NotEct
            } else {
                connection.forward_ecn
            };
            let (way, len) = (connection.forward, header + outgoing.len);
            let segment = Segment {
                seq: outgoing.seq,
                len: outgoing.len,
                flags: outgoing.flags,
                ..Segment::default()
            };
            self.launch(way, segment, len, ecn, observer);
        }
        let connection = &self.connections[number];
        self.expect(connection.place, connection.sender.next_wakeup());
    }

    #[inline]
    fn after_receiver<O: Observer>(
        &mut self,
        number: usize,
        ack: Option<Segment>,
        observer: &mut O,
    ) {
        let connection = &self.connections[number];
        let (way, header) = (connection.back, connection.sender.settings().header);
        self.expect(connection.place, connection.receiver.next_wakeup());
        if let Some(ack) = ack {
            // RFC 2018 section 3: two bytes and eight a block, padded to four.
            let sack = match ack.sacks {
                0 => 0,
                n => 4 + 8 * u32::from(n),
            };
            self.launch(way, ack, header.get() as u32 + sack, Ecn::NotEct, observer);
        }
    }

    /// A timer of a connection may have run out, or its application wants to write.
    fn serve_connection<O: Observer>(&mut self, number: usize, observer: &mut O) {
        let now = self.now;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let connection = &mut self.connections[number];
        let place = connection.place;
        self.agenda.set(place, None);
        if due(connection.write_due) {
            connection.write_due = None;
            self.write(number);
        }
        let connection = &mut self.connections[number];
        let ack = connection.receiver.handle_timeout(now);
        self.after_receiver(number, ack, observer);
        let connection = &mut self.connections[number];
        if due(connection.sender.next_wakeup()) {
            connection.sender.handle_timeout(now);
        }
        self.after_sender(number, observer);
        self.expect(place, self.connections[number].write_due);
    }

    fn serve_source<O: Observer>(&mut self, number: usize, observer: &mut O) {
        while let Some(len) = self.datagrams[number].source.poll(self.now) {
            let flow = &mut self.datagrams[number];
            let segment = Segment {
                seq: flow.sent,
                ..Segment::default()
            };
            flow.sent += 1;
            let (way, ecn) = (flow.way, flow.source.ecn());
            self.launch(way, segment, len.get() as u32, ecn, observer);
        }
        let flow = &self.datagrams[number];
        self.agenda.set(flow.place, flow.source.next_wakeup());
    }

    /// The application hands over what it has.
    fn write(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        let bytes = match &mut connection.application {
            Application::Bulk { bytes } => *bytes,
            Application::Transfers(t) => t.bytes.draw(&mut t.sizes).round().max(1.0) as u64,
        };
        connection.started = self.now;
        connection.idle = false;
        connection.sender.write(bytes);
    }

    /// All that was written has been acknowledged.
    fn transferred<O: Observer>(&mut self, number: usize, observer: &mut O) {
        let connection = &mut self.connections[number];
        connection.idle = true;
        let started = connection.started;
        connection
            .transfers
            .add_span(self.now.saturating_since(started));
        if let Application::Transfers(t) = &mut connection.application {
            let think = base::Duration::from_secs_f64(t.think_s.draw(&mut t.thoughts));
            connection.write_due = Some(self.now + think);
            let (place, due) = (connection.place, connection.write_due);
            self.expect(place, due);
        }
        observer.done(self.now, number, started);
    }
}
