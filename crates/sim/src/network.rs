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
//! - Where plain links meet at another, packets gather (`Merge`) and are put there in the order in which they
//!   get there, all those of a span as long as that link's own delay together: nobody sees them before.
//! - A host that alone gets what a plain link delivers, and alone sends into the next one, handles all that is on
//!   its way to it at once, each packet at its own time.
//!
//! None of that goes beyond the instant until which the network is told to run, and an observer that wants to see
//! packets sees them one by one. At equal times links, connections and sources act in the order in which they
//! were added: an order that depends on the network alone, not on how events came about.

mod applications;
mod ends;
mod links;

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
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

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
    /// Where all that comes out of it goes to, if that is one place.
    next: Option<u32>,
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

    /// What has come out by now makes room for what comes.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.release(now);
        if let Line::Express(express) = &mut self.line {
            express.make_room();
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
    /// When a packet that is handed on ahead of time finds no room, at which link, and its number; the least first.
    refusals: BinaryHeap<Reverse<(Time, LinkIndex, u32)>>,
    pub connections: Vec<Connection>,
    hosts: Vec<Host>,
    /// Of the application that was added last.
    settings: Arc<Settings>,
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
            refusals: BinaryHeap::new(),
            connections: Vec::new(),
            hosts: Vec::new(),
            settings: Arc::default(),
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
            next: None,
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

    /// From now on a link that is not plain sends at that rate; it must be as of now.
    pub fn set_rate(&mut self, link: LinkIndex, rate: BitsPerSec) {
        match &mut self.links[link].line {
            Line::Any(link) => link.set_rate(rate),
            Line::Express(_) => unreachable!("what comes out of a plain link is known ahead"),
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
}
