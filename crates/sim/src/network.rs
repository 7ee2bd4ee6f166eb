//! The network at work: links, routes, and what sits at their ends. One agenda says who acts next; each
//! link has one place in it however many packets are under way on it, each connection one for its timers.
//!
//! A packet walks a route: a row of links with an end behind them, all routes in one array. The packet
//! knows its place in it, so a hop is: take it from one link, look up the next, put it there.
//!
//! What a plain link does is known ahead, and nothing waits that need not, because a thing that is done many
//! times in a row costs less than the same thing done now and then:
//!
//! - Where a plain link feeds another that nothing else feeds, the packet is put there at once.
//! - Where plain links meet at another, packets gather ([`Merge`]) and are put there in the order in which they
//!   get there, all those of a span as long as that link's own delay together: nobody sees them before.
//! - A host that alone gets what a plain link delivers, and alone sends into the next one, handles all that is on
//!   its way to it at once, each packet at its own time.
//!
//! None of that goes beyond the instant until which the network is told to run, and an observer that wants to see
//! packets sees them one by one. At equal times links, connections and sources act in the order in which they
//! were added: an order that depends on the network alone, not on how events came about.

mod applications;

pub use applications::Host;

use crate::agenda::Agenda;
use crate::merge::{Arrival, Merge};
use crate::segment::{Arena, Flying, Segment, flag};
use crate::source::{Ask, Bulk, Done, Opening, Source, Span, Told};
use crate::summary::Summary;
use crate::tcp::{Receiver, Sender, Settings};
use base::rng::Streams;
use base::{BitsPerSec, Duration, Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::{Fate, Fates, Reason};
use link::{Express, Link, LinkParams, LinkStats};
use std::collections::{BTreeSet, VecDeque};

/// What an observer may want to see; nothing costs anything where it does not look.
pub trait Observer {
    /// It looks at nothing, so that nothing need happen in order.
    const BLIND: bool = false;
    /// A packet leaves its host, arrives at its destination, or is dropped.
    fn packet(&mut self, _now: Time, _what: Happening, _packet: &Packet, _segment: &Segment) {}
    /// An answer to a probe has come back.
    fn answer(&mut self, _now: Time, _flow: usize, _probe: &Segment, _ecn: Ecn) {}
    /// Something that the user of an application waited for is complete.
    fn done(&mut self, _now: Time, _application: usize, _what: &Done) {}
    /// An application has opened a connection while the network is at work, or anew.
    fn opened(&mut self, _application: usize, _connection: &Connection) {}
    /// A packet enters a link, before its queue; told in time of a link that is [tapped](Network::tap).
    fn entered(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// A packet comes out of a link; told of one that is tapped.
    fn left(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// A line has doubled a packet: the second goes on under a name of its own.
    fn copied(&mut self, _packet: PacketId, _copy: PacketId) {}
}

/// Both see everything.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const BLIND: bool = A::BLIND && B::BLIND;
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        self.0.packet(now, what, packet, segment);
        self.1.packet(now, what, packet, segment);
    }
    fn answer(&mut self, now: Time, flow: usize, probe: &Segment, ecn: Ecn) {
        self.0.answer(now, flow, probe, ecn);
        self.1.answer(now, flow, probe, ecn);
    }
    fn done(&mut self, now: Time, application: usize, what: &Done) {
        self.0.done(now, application, what);
        self.1.done(now, application, what);
    }
    fn opened(&mut self, application: usize, connection: &Connection) {
        self.0.opened(application, connection);
        self.1.opened(application, connection);
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
impl Observer for Blind {
    const BLIND: bool = true;
}

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
    /// All that comes out goes to links that know what is on its way to them, so it is handed on as soon as it is
    /// known when it will come out.
    silent: bool,
    /// An observer wants to see what enters it and what comes out, each in time.
    tapped: bool,
    fed_by: Feeder,
    /// Which of `merges` gathers what is on its way to it.
    merge: Option<u32>,
    /// It delivers to that end alone, which may handle all that is on its way at once.
    ahead: bool,
    /// What is wanted to be known of it.
    watch: Option<Box<Watch>>,
}

/// What is kept of a link that is watched.
#[derive(Default)]
struct Watch {
    /// Of the packets that came out.
    sojourn: Summary,
    sampler: Option<Sampler>,
}

/// Looks at a plain link's backlog at regular times, which nothing else need stop for.
struct Sampler {
    next: Time,
    every: Duration,
    /// Earlier ones do not count.
    from: Time,
    backlog: Summary,
    rate: BitsPerSec,
    /// Those that are known before their time.
    early: VecDeque<(Time, Duration)>,
}

impl LinkSlot {
    /// Counts and delays of a plain link come to be as of now.
    fn release(&mut self, now: Time) {
        let Line::Express(express) = &mut self.line else {
            return;
        };
        match &mut self.watch {
            Some(watch) => express.release(now, |waited| watch.sojourn.add_span(waited)),
            None => express.release(now, |_| {}),
        }
    }

    /// Takes the samples that are due before `at`; those after `until` do not count yet.
    fn sample_before(&mut self, at: Time, until: Time) {
        let Line::Express(express) = &mut self.line else {
            return;
        };
        let watch = self.watch.as_mut();
        let Some(sampler) = watch.and_then(|watch| watch.sampler.as_mut()) else {
            return;
        };
        while sampler.next < at {
            let backlog = express.backlog(sampler.next);
            let delay = backlog.serialization_delay_ceil(sampler.rate);
            if sampler.next > until {
                sampler.early.push_back((sampler.next, delay));
            } else if sampler.next >= sampler.from {
                sampler.backlog.add_span(delay);
            }
            sampler.next += sampler.every;
        }
    }

    /// Those that were known early count once their time has come.
    fn count_samples(&mut self, now: Time) {
        let watch = self.watch.as_mut();
        if let Some(sampler) = watch.and_then(|watch| watch.sampler.as_mut()) {
            let due = sampler.early.partition_point(|(at, _)| *at <= now);
            for (at, delay) in sampler.early.drain(..due) {
                if at >= sampler.from {
                    sampler.backlog.add_span(delay);
                }
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
    /// What stands at the end of a route, and sends.
    End(u32),
    Several,
}

pub struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    /// Whose it is, and which of its connections.
    application: u32,
    channel: u32,
    opening: Opening,
    /// Where the messages end that have been written and have not arrived, the first of them beside it.
    messages: VecDeque<u64>,
    message_at: u64,
    idle: bool,
    /// Connections that were in its place before.
    before: applications::Before,
    opened: u64,
    /// It is all that its application has, so that its sender acts for that.
    alone: bool,
    /// When that wants to write next.
    write_due: Option<Time>,
    forward: Way,
    back: Way,
    place: u32,
    /// Packets of its sender dropped on their way.
    pub lost: u64,
    /// One-way delay of its data.
    pub delay: Summary,
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
    /// Packets that get to a link where ways meet.
    pub const MERGE: u32 = 8;
    pub const APPLICATION: u32 = 9;
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
    merges: Vec<Gathering>,
    /// Until when the network is told to run.
    until: Time,
    /// All routes, one behind the other: numbers of links, then what stands at the end.
    routes: Vec<u32>,
    /// Routes or links have been added since it was found out which links are silent.
    changed: bool,
    arena: Arena,
    fates: Fates,
    /// When a packet that is handed on ahead of time finds no room, at which link, and its number.
    refusals: BTreeSet<(Time, LinkIndex, u32)>,
    pub connections: Vec<Connection>,
    hosts: Vec<Host>,
    asks: Vec<Ask>,
    pub datagrams: Vec<Datagrams>,
    /// What stands at the end of the route of each flow.
    owners: Vec<u32>,
    /// Links whose delays are kept.
    watched: Vec<LinkIndex>,
    events: u64,
}

/// What is on its way to a link where plain ones meet.
struct Gathering {
    merge: Merge,
    link: LinkIndex,
    /// Its place in the agenda.
    place: u32,
    /// The link's own delay: what gets there within a span as long has not come out at its end.
    span: Duration,
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
            merges: Vec::new(),
            until: Time::ZERO,
            routes: Vec::new(),
            changed: false,
            arena: Arena::default(),
            fates: Fates::default(),
            refusals: BTreeSet::new(),
            connections: Vec::new(),
            hosts: Vec::new(),
            asks: Vec::new(),
            datagrams: Vec::new(),
            owners: Vec::new(),
            watched: Vec::new(),
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
            merge: None,
            ahead: false,
            watch: None,
        });
        self.actors.push(tag(kind::LINK, number));
        number
    }

    /// From now on the sojourn times of that link are kept.
    pub fn watch(&mut self, link: LinkIndex) {
        self.links[link].watch = Some(Box::default());
        self.watched.push(link);
    }

    /// Whether what comes out of a link is known ahead: first in, first out, at a fixed rate.
    pub fn is_plain(&self, link: LinkIndex) -> bool {
        matches!(self.links[link].line, Line::Express(_))
    }

    /// A watched plain link's backlog is looked at now and then, as the delay at `rate` that a packet would have
    /// met, without stopping for it; samples before `from` do not count.
    pub fn sample(&mut self, link: LinkIndex, every: Duration, from: Time, rate: BitsPerSec) {
        let next = self.now;
        let slot = &mut self.links[link];
        assert!(matches!(slot.line, Line::Express(_)), "not a plain link");
        let watch = slot.watch.as_mut().expect("a link that is watched");
        watch.sampler = Some(Sampler {
            next,
            every,
            from,
            backlog: Summary::default(),
            rate,
            early: VecDeque::new(),
        });
    }

    /// From now on observers are told in time what enters that link and what comes out of it.
    pub fn tap(&mut self, link: LinkIndex) {
        assert!(self.events == 0, "taps are set before the first packet");
        self.links[link].tapped = true;
        self.changed = true;
    }

    /// From one end over links to another.
    fn way(&mut self, from: u32, links: &[LinkIndex], end: u32, dscp: u8) -> Way {
        assert!(!links.is_empty(), "a route needs a link");
        let position = u32::try_from(self.routes.len()).expect("fewer than 2^32 hops");
        assert!(
            self.events == 0,
            "routes are laid before the first packet is sent"
        );
        self.changed = true;
        let mut feeder = Feeder::End(from);
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
        Way {
            position,
            flow: self.new_flow(end),
            dscp,
        }
    }

    fn new_flow(&mut self, end: u32) -> u32 {
        self.owners.push(end);
        u32::try_from(self.owners.len() - 1).expect("fewer than 2^32 flows")
    }

    /// A transfer of `bytes` over `there` from `start` on, whose ACKs come `back`; `u64::MAX` never ends. The
    /// number of its connection.
    pub fn connect(
        &mut self,
        settings: &Settings,
        there: &[LinkIndex],
        back: &[LinkIndex],
        start: Time,
        bytes: u64,
        streams: &Streams,
    ) -> usize {
        let bulk = Box::new(Bulk::new(bytes, Span::from(start)));
        let number = self.add_application(settings, there, back, bulk, streams);
        self.hosts[number].channels()[0]
    }

    /// Datagrams over `there`; where the source asks for it, each comes `back`.
    pub fn add_source(&mut self, source: Source, there: &[LinkIndex], back: &[LinkIndex]) -> usize {
        let number = self.datagrams.len();
        let place = self.agenda.add();
        self.actors.push(tag(kind::SOURCE, number));
        self.agenda.set(place, source.next_wakeup());
        let dscp = source.dscp();
        let (from, to) = (tag(kind::SOURCE, number), tag(kind::SINK, number));
        let way = self.way(from, there, to, dscp);
        let back = source
            .echoes()
            .then(|| self.way(to, back, tag(kind::ANSWER, number), dscp));
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
    /// Events handled so far: packets that arrived or came to where ways meet, timers that ran out.
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
        self.links[link].watch.as_ref().map(|w| &w.sojourn)
    }
    /// Samples of a link's backlog, where they were asked for.
    pub fn backlog(&self, link: LinkIndex) -> Option<&Summary> {
        let watch = self.links[link].watch.as_ref()?;
        watch.sampler.as_ref().map(|s| &s.backlog)
    }

    /// Forgets the delays so far: what comes from now on is what counts.
    pub fn begin_measurement(&mut self) {
        for link in &mut self.links {
            link.release(self.now);
            if let Some(watch) = &mut link.watch {
                watch.sojourn.clear();
            }
        }
        for c in &mut self.connections {
            c.delay.clear();
        }
        self.begin_measuring_applications();
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
            self.look_ahead();
        }
        self.until = until;
        while let Some((now, place)) = self.agenda.first_until(until) {
            self.now = now;
            let actor = self.actors[place as usize];
            let number = (actor & kind::MASK) as usize;
            match actor >> kind::BITS {
                kind::LINK => self.serve_link(number, observer),
                kind::MERGE => self.serve_merge(number, observer),
                kind::CONNECTION => self.serve_connection(number, observer),
                kind::SOURCE => self.serve_source(number, observer),
                kind::REFUSALS => self.serve_refusals(observer),
                kind::APPLICATION => self.serve_application(number, observer),
                other => unreachable!("nothing of kind {other} acts"),
            }
        }
        self.now = self.now.max(until);
        for link in &self.watched {
            let slot = &mut self.links[*link];
            // Samples first: what is released counts no more as having waited.
            let after = self.now.as_nanos().saturating_add(1);
            slot.sample_before(Time::from_nanos(after), self.now);
            slot.count_samples(self.now);
            slot.release(self.now);
        }
    }

    /// Finds out what is known ahead of which link.
    fn look_ahead(&mut self) {
        self.changed = false;
        let is_link = |stop: u32| stop >> kind::BITS == kind::LINK;
        // Links that know what is on its way to them: nothing enters them but from links that take time.
        let takes_time = |slot: &LinkSlot| matches!(&slot.line, Line::Express(e) if e.takes_time());
        let mut knows: Vec<bool> = (self.links.iter())
            .map(|slot| takes_time(slot) && !slot.tapped)
            .collect();
        let mut from = None;
        for stop in &self.routes {
            if !is_link(*stop) {
                from = None;
                continue;
            }
            let to = *stop as usize;
            knows[to] &= match (from, self.links[to].fed_by) {
                (None, _) => false,
                (Some(_), Feeder::Link(_)) => true,
                (Some(from), _) => takes_time(&self.links[from]),
            };
            from = Some(to);
        }
        for (number, slot) in self.links.iter_mut().enumerate() {
            let express = matches!(slot.line, Line::Express(_)) && !slot.tapped;
            (slot.silent, slot.ahead, slot.merge) = (express, express, None);
            if let (Line::Express(express), Feeder::Several, true) =
                (&slot.line, slot.fed_by, knows[number])
            {
                slot.merge = Some(self.merges.len() as u32);
                self.actors.push(tag(kind::MERGE, self.merges.len()));
                self.merges.push(Gathering {
                    merge: Merge::default(),
                    link: number,
                    place: self.agenda.add(),
                    span: express.delay(),
                });
            }
        }
        let mut ends: Vec<Option<u32>> = vec![None; self.links.len()];
        for hop in self.routes.windows(2).filter(|hop| is_link(hop[0])) {
            let (from, to) = (hop[0] as usize, hop[1]);
            let slot = &mut self.links[from];
            if is_link(to) {
                slot.silent &= knows[to as usize];
                slot.ahead = false;
            } else {
                slot.silent = false;
                slot.ahead &= *ends[from].get_or_insert(to) == to;
            }
        }
        for (link, end) in ends.into_iter().enumerate() {
            self.links[link].ahead &= end.is_some_and(|end| self.sends_alone(end));
        }
    }

    /// Whether an end sends into a plain link that nothing else feeds, or not at all. Where an application has
    /// more than one connection its ends are never alone: it is told of all of them in order.
    fn sends_alone(&self, end: u32) -> bool {
        let number = (end & kind::MASK) as usize;
        let way = match end >> kind::BITS {
            kind::SENDER => Some(self.connections[number].forward),
            kind::RECEIVER => Some(self.connections[number].back),
            kind::SINK => self.datagrams[number].back,
            _ => None,
        };
        way.is_none_or(|way| {
            let slot = &self.links[self.routes[way.position as usize] as usize];
            matches!(slot.line, Line::Express(_)) && slot.fed_by == Feeder::End(end) && !slot.tapped
        })
    }

    /// A packet comes out of a link, or may do so.
    #[inline]
    fn serve_link<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        let slot = &mut self.links[number];
        let Line::Express(express) = &mut slot.line else {
            self.serve_any(number, observer);
            return;
        };
        if slot.ahead {
            self.serve_end(number, observer);
            return;
        }
        let exit = express.take();
        self.agenda.set(slot.place, express.next_exit());
        if let Some(exit) = exit {
            let flying = self.arena.get(exit.item);
            let packet = flying.packet(exit.item, self.now);
            observer.left(self.now, number, &packet, &flying.segment);
            self.go_on(exit.item, observer);
        }
    }

    /// What a link delivers to its only end, each packet at its own time.
    fn serve_end<O: Observer>(&mut self, link: LinkIndex, observer: &mut O) {
        let limit = if O::BLIND { self.until } else { self.now };
        let place = self.links[link].place;
        let mut end = None;
        loop {
            let next = self.express(link).next_exit();
            let Some(at) = next.filter(|at| *at <= limit) else {
                self.agenda.set(place, next);
                break;
            };
            if let Some(end) = end
                && let Some((due, of)) = self.due(end)
                && (due, of) < (at, place)
            {
                self.serve_end_timer(end, due, observer);
                continue;
            }
            let Some(exit) = self.express(link).take() else {
                break;
            };
            self.events += 1;
            let stop = *end.get_or_insert_with(|| {
                let position = self.arena.get(exit.item).position as usize;
                self.routes[position + 1]
            });
            self.arrive(exit.item, stop, at, observer);
        }
        if let Some(end) = end {
            self.expect(end);
        }
    }

    /// A link that knows ahead.
    #[inline]
    fn express(&mut self, link: LinkIndex) -> &mut Express<u32> {
        match &mut self.links[link].line {
            Line::Express(express) => express,
            Line::Any(_) => unreachable!("only a plain link knows ahead"),
        }
    }

    /// Packets get to a link where ways meet.
    fn serve_merge<O: Observer>(&mut self, number: usize, observer: &mut O) {
        self.merges[number].merge.sort();
        let link = self.merges[number].link;
        while let Some(arrival) = self.merges[number].merge.take(self.now) {
            self.events += 1;
            let Arrival { number, at, .. } = arrival;
            self.enter(number, at, arrival.position, arrival.len, link, observer);
        }
        self.merges[number].merge.done();
        let next = self.merges[number].merge.first();
        let at = next.map(|first| self.gathered(number, first, O::BLIND));
        self.agenda.set(self.merges[number].place, at);
    }

    /// When what gathers, the first of it at `first`, is put into its link.
    #[inline]
    fn gathered(&self, number: usize, first: Time, blind: bool) -> Time {
        if blind && first < self.until {
            (first + self.merges[number].span).min(self.until)
        } else {
            first
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
            if let (Some(d), Some(watch)) = (&delivery, &mut slot.watch) {
                watch.sojourn.add_span(d.sojourn);
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
                self.lose(self.now, packet.id.0 as u32, why, observer);
            }
        }
        self.fates.list = list;
    }

    fn lose<O: Observer>(&mut self, now: Time, number: u32, why: Reason, observer: &mut O) {
        let flying = self.arena.get(number);
        let owner = self.owners[flying.flow as usize];
        let index = (owner & kind::MASK) as usize;
        match owner >> kind::BITS {
            kind::SINK => self.datagrams[index].lost += 1,
            kind::RECEIVER => self.connections[index].lost += 1,
            _ => {}
        }
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Dropped(why), &packet, &flying.segment);
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
            self.lose(at, number, Reason::Overlimit, observer);
        }
        let next = self.refusals.first().map(|r| r.0);
        self.agenda.set(REFUSALS, next);
    }

    /// A packet enters a link, and the next ones as far as its future is known.
    #[inline]
    fn enter<O: Observer>(
        &mut self,
        number: u32,
        mut at: Time,
        mut position: u32,
        len: u32,
        mut link: LinkIndex,
        observer: &mut O,
    ) {
        loop {
            if !O::BLIND {
                let flying = self.arena.get(number);
                observer.entered(at, link, &flying.packet(number, at), &flying.segment);
            }
            let slot = &mut self.links[link];
            if slot.watch.is_some() {
                slot.sample_before(at, self.until);
            }
            let Line::Express(express) = &mut slot.line else {
                self.arena.get_mut(number).position = position;
                self.enter_any(link, number, observer);
                return;
            };
            if express.is_full() {
                slot.release(self.now);
            }
            let Line::Express(express) = &mut slot.line else {
                return;
            };
            let Some(exit) = express.enqueue(at, len, number) else {
                if at > self.now {
                    self.refusals.insert((at, link, number));
                    let first = self.refusals.first().map(|r| r.0);
                    self.agenda.set(REFUSALS, first);
                } else {
                    express.refuse(len);
                    self.lose(at, number, Reason::Overlimit, observer);
                }
                return;
            };
            if !slot.silent {
                self.arena.get_mut(number).position = position;
                if express.is_single() {
                    self.agenda.set(slot.place, Some(exit));
                }
                return;
            }
            express.hand_on();
            let from = slot.place;
            (at, position) = (exit, position + 1);
            link = self.routes[position as usize] as usize;
            if let Some(merge) = self.links[link].merge {
                self.gather(
                    merge as usize,
                    Arrival {
                        at,
                        from,
                        number,
                        position,
                        len,
                    },
                    O::BLIND,
                );
                return;
            }
        }
    }

    /// A packet is on its way to where ways meet.
    #[inline]
    fn gather(&mut self, number: usize, arrival: Arrival, blind: bool) {
        let gathering = &mut self.merges[number];
        if gathering.merge.push(arrival) {
            let place = gathering.place;
            let at = self.gathered(number, arrival.at, blind);
            if at < self.agenda.get(place) {
                self.agenda.set(place, Some(at));
            }
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
        self.events += 1;
        let flying = self.arena.get_mut(number);
        let (from, position, len) = (flying.position, flying.position + 1, flying.len);
        let next = self.routes[position as usize];
        if next >> kind::BITS != kind::LINK {
            self.arrive(number, next, self.now, observer);
            self.expect(next);
            return;
        }
        let link = next as usize;
        match self.links[link].merge {
            Some(merge) => {
                let from = self.links[self.routes[from as usize] as usize].place;
                let at = self.now;
                let arrival = Arrival {
                    at,
                    from,
                    number,
                    position,
                    len,
                };
                self.gather(merge as usize, arrival, O::BLIND);
            }
            None => self.enter(number, self.now, position, len, link, observer),
        }
    }

    /// A packet has arrived at the end of its route.
    #[inline]
    fn arrive<O: Observer>(&mut self, number: u32, end: u32, now: Time, observer: &mut O) {
        // Nothing is inserted before the last use of what it says.
        self.arena.free(number);
        let flying = self.arena.get(number);
        let segment = &flying.segment;
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Received, &packet, segment);
        let number = (end & kind::MASK) as usize;
        match end >> kind::BITS {
            kind::RECEIVER => {
                let connection = &mut self.connections[number];
                if flying.flow != connection.forward.flow {
                    // Of a connection that stood here before.
                    return;
                }
                if segment.len > 0 {
                    let delay = now.saturating_since(segment.sent);
                    connection.delay.add_span(delay);
                }
                let ack = (connection.receiver).handle_segment(now, segment, flying.ecn);
                let arrived = connection.receiver.received() >= connection.message_at;
                self.after_receiver(number, ack, now, observer);
                if arrived {
                    self.message_arrived(number, now, observer);
                }
            }
            kind::SENDER => {
                let connection = &mut self.connections[number];
                if flying.flow != connection.back.flow {
                    return;
                }
                connection.sender.handle_segment(now, segment);
                if connection.sender.is_idle() && !connection.idle {
                    self.all_acknowledged(number, now, observer);
                }
                self.after_sender(number, now, observer);
            }
            kind::SINK => {
                let flow = &mut self.datagrams[number];
                let delay = now.saturating_since(segment.sent);
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
                    self.launch(back, answer, len, ecn, now, observer);
                }
            }
            kind::ANSWER => {
                let flow = &mut self.datagrams[number];
                flow.answered += 1;
                flow.rtt.add_span(now.saturating_since(segment.sent));
                observer.answer(now, number, segment, flying.ecn);
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
        now: Time,
        observer: &mut O,
    ) {
        // An answer keeps when its probe left.
        let sent = match segment.is(flag::ECHO) {
            true => segment.sent,
            false => now,
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
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Sent, &packet, &flying.segment);
        let link = self.routes[way.position as usize] as usize;
        self.enter(number, now, way.position, len, link, observer);
    }

    /// When an end wants to act by itself, and the place in the agenda that it does so at.
    #[inline]
    fn due(&self, end: u32) -> Option<(Time, u32)> {
        let number = (end & kind::MASK) as usize;
        let connection = match end >> kind::BITS {
            kind::SENDER | kind::RECEIVER => &self.connections[number],
            _ => return None,
        };
        let due = match end >> kind::BITS {
            kind::SENDER => earlier(connection.sender.next_wakeup(), connection.write_due),
            _ => connection.receiver.next_wakeup(),
        };
        due.map(|due| (due, connection.place))
    }

    /// An end wants to be asked when it is due, or before. A timer is not moved when it is put off: it fires
    /// early, and is then set to the right time.
    #[inline]
    fn expect(&mut self, end: u32) {
        if let Some((at, place)) = self.due(end)
            && at < self.agenda.get(place)
        {
            self.agenda.set(place, Some(at));
        }
    }

    #[inline]
    fn after_sender<O: Observer>(&mut self, number: usize, now: Time, observer: &mut O) {
        loop {
            let connection = &mut self.connections[number];
            let Some(outgoing) = connection.sender.poll_transmit(now) else {
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
            self.launch(way, segment, len, ecn, now, observer);
        }
    }

    #[inline]
    fn after_receiver<O: Observer>(
        &mut self,
        number: usize,
        ack: Option<Segment>,
        now: Time,
        observer: &mut O,
    ) {
        if let Some(ack) = ack {
            let connection = &self.connections[number];
            let (way, header) = (connection.back, connection.sender.settings().header);
            // RFC 2018 section 3: two bytes and eight a block, padded to four.
            let sack = match ack.sacks {
                0 => 0,
                n => 4 + 8 * u32::from(n),
            };
            let len = header.get() as u32 + sack;
            self.launch(way, ack, len, Ecn::NotEct, now, observer);
        }
    }

    /// A timer of a connection may have run out.
    fn serve_connection<O: Observer>(&mut self, number: usize, observer: &mut O) {
        let now = self.now;
        self.agenda.set(self.connections[number].place, None);
        for end in [kind::RECEIVER, kind::SENDER].map(|kind| tag(kind, number)) {
            if self.due(end).is_some_and(|(at, _)| at <= now) {
                self.serve_end_timer(end, now, observer);
            }
            self.expect(end);
        }
    }

    /// Something of an end is due.
    fn serve_end_timer<O: Observer>(&mut self, end: u32, now: Time, observer: &mut O) {
        self.events += 1;
        let number = (end & kind::MASK) as usize;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let connection = &mut self.connections[number];
        if end >> kind::BITS == kind::RECEIVER {
            let ack = connection.receiver.handle_timeout(now);
            self.after_receiver(number, ack, now, observer);
            return;
        }
        if due(connection.write_due) {
            connection.write_due = None;
            let application = connection.application as usize;
            self.tell(application, Told::Due, now, observer);
        }
        let sender = &mut self.connections[number].sender;
        if due(sender.next_wakeup()) {
            sender.handle_timeout(now);
        }
        self.after_sender(number, now, observer);
    }

    fn serve_source<O: Observer>(&mut self, number: usize, observer: &mut O) {
        self.events += 1;
        let now = self.now;
        while let Some(len) = self.datagrams[number].source.poll(now) {
            let flow = &mut self.datagrams[number];
            let segment = Segment {
                seq: flow.sent,
                ..Segment::default()
            };
            flow.sent += 1;
            let (way, ecn) = (flow.way, flow.source.ecn());
            self.launch(way, segment, len.get() as u32, ecn, now, observer);
        }
        let flow = &self.datagrams[number];
        self.agenda.set(flow.place, flow.source.next_wakeup());
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
