//! The running network: links, routes, and the hosts at their ends. One agenda orders the events. Each link has one
//! place in it, however many packets it carries; each connection has one for its timers.
//!
//! A packet follows a route: a row of links, then an end. All routes are in one array, and the packet holds its
//! position in it. A hop takes the packet from one link, looks up the next, and puts it there.
//!
//! The output of a plain link is known ahead, and work is done in batches where possible, because a batch costs less
//! per packet than single steps:
//!
//! - A plain link that alone feeds another plain link passes packets on at once.
//! - Packets from several plain links to another gather in a `Merge` and enter it in the order of their arrival. A
//!   batch spans that link's own delay, because nobody sees the packets earlier.
//! - A host handles all packets in flight to it at once, each at its own time, if it alone receives from a plain link
//!   and alone sends into the next one.
//!
//! No batch goes beyond the time until which the network is told to run, and an observer that wants packets gets them
//! one by one. At equal times links, connections and sources act in the order in which they were added. That order
//! depends on the network alone, not on the sequence of events.

mod applications;
mod ends;
mod links;

pub use applications::Host;

use crate::agenda::Agenda;
use crate::merge::{Arrival, Merge};
use crate::segment::{Arena, Flying, Segment, flag};
use crate::source::{Ask, Bulk, Done, Opening, SMALLEST, Sending, Span, Told};
use crate::summary::Summary;
use crate::tcp::{Receiver, Sender, Settings};
use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::{Fate, Fates, Reason, Verdict};
use link::{Express, Link, LinkParams, LinkStats};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Callbacks for an observer; those left empty cost nothing.
pub trait Observer {
    /// True if it observes nothing, so that events need not happen in order.
    const BLIND: bool = false;
    /// A packet leaves its host, arrives at its destination, or is dropped.
    fn packet(&mut self, _now: Time, _what: Happening, _packet: &Packet, _segment: &Segment) {}
    /// The answer to a probe has returned.
    fn answer(&mut self, _now: Time, _flow: usize, _probe: &Segment, _ecn: Ecn) {}
    /// A user's request to an application is complete.
    fn done(&mut self, _now: Time, _application: usize, _what: &Done) {}
    /// An application has opened a connection during the run, or reopened one.
    fn opened(&mut self, _application: usize, _connection: &Connection) {}
    /// A packet enters a link, before its queue; called in time order for a [tapped](Network::tap) link.
    fn entered(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// Judges a packet before it enters a link's queue; asked in time order for a [tapped](Network::tap) link whose
    /// output is not known ahead.
    fn admit(
        &mut self,
        _now: Time,
        _link: LinkIndex,
        _packet: &Packet,
        _segment: &Segment,
    ) -> Verdict {
        Verdict::Forward
    }
    /// Judges a packet that has left a link; asked for a [tapped](Network::tap) link whose output is not known ahead.
    fn exit(
        &mut self,
        _now: Time,
        _link: LinkIndex,
        _packet: &Packet,
        _segment: &Segment,
    ) -> Verdict {
        Verdict::Forward
    }
    /// A packet leaves a link; called for tapped links.
    fn left(&mut self, _now: Time, _link: LinkIndex, _packet: &Packet, _segment: &Segment) {}
    /// A link has duplicated a packet; the second copy gets an id of its own.
    fn copied(&mut self, _packet: PacketId, _copy: PacketId) {}
}

/// Both observe everything.
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
    fn admit(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) -> Verdict {
        match self.0.admit(now, link, packet, segment) {
            Verdict::Forward => self.1.admit(now, link, packet, segment),
            verdict => verdict,
        }
    }
    fn exit(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) -> Verdict {
        match self.0.exit(now, link, packet, segment) {
            Verdict::Forward => self.1.exit(now, link, packet, segment),
            verdict => verdict,
        }
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

/// Observer of nothing.
pub struct Blind;
impl Observer for Blind {
    const BLIND: bool = true;
}

/// Event of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    Sent,
    Received,
    Dropped(Reason),
}

/// Index of a link in the network.
pub type LinkIndex = usize;

struct LinkSlot {
    line: Line,
    /// Place in the agenda.
    place: u32,
    /// True if all its output goes to links that know their arrivals ahead: packets are handed on as soon as their
    /// departure time is known.
    silent: bool,
    /// True if an observer wants every packet that enters or leaves it, each in time.
    tapped: bool,
    fed_by: Feeder,
    /// Next link, if all its output goes to a single one.
    next: Option<u32>,
    /// Index in `merges` of the packets in flight to it.
    merge: Option<u32>,
    /// True if it delivers to one end alone, which may handle all packets in flight to it at once.
    ahead: bool,
    /// Statistics that were asked for.
    watch: Option<Box<Watch>>,
}

/// Statistics of a watched link.
#[derive(Default)]
struct Watch {
    /// Sojourn times of the packets that left.
    sojourn: Summary,
    sampler: Option<Sampler>,
}

/// Samples a plain link's backlog at regular times, without stopping anything else.
struct Sampler {
    next: Time,
    every: Duration,
    /// Start of the measurement; earlier samples do not count.
    from: Time,
    backlog: Summary,
    rate: BitsPerSec,
    /// Samples known before their time.
    early: VecDeque<(Time, Duration)>,
}

impl LinkSlot {
    /// Advances the counters and delays of a plain link to the present.
    fn release(&mut self, now: Time) {
        let Line::Express(express) = &mut self.line else {
            return;
        };
        match &mut self.watch {
            Some(watch) => express.release(now, |waited| watch.sojourn.add_span(waited)),
            None => express.release(now, |_| {}),
        }
    }

    /// Frees the places of packets that have left by now.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.release(now);
        if let Line::Express(express) = &mut self.line {
            express.make_room();
        }
    }

    /// Takes the samples due before `at`; those after `until` do not count yet.
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

    /// Counts samples known early, once their time has come.
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

/// Origin of a link's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Nothing,
    Link(LinkIndex),
    /// Sender at the end of a route.
    End(u32),
    Several,
}

/// TCP connection: its two ends and their hosts.
pub struct Connection {
    /// Sending end.
    pub sender: Sender,
    /// Receiving end.
    pub receiver: Receiver,
    /// Application of the connection, and its number among that application's connections.
    application: u32,
    channel: u32,
    opening: Opening,
    /// Ends of the messages that are written but have not arrived; `message_at` is the first of them.
    messages: VecDeque<u64>,
    message_at: u64,
    idle: bool,
    /// Earlier connections in the same place.
    before: applications::Before,
    opened: u64,
    /// True if it is the application's only connection, so that its sender also acts for the application.
    alone: bool,
    /// Time at which the application wants to write next.
    write_due: Option<Time>,
    forward: Way,
    back: Way,
    place: u32,
    /// Segments with payload that were dropped in the network.
    pub lost: u64,
    /// Delay of its data, one way.
    pub delay: Summary,
    /// ECN codepoint of data packets.
    pub forward_ecn: Ecn,
}

impl Connection {
    /// Flow of the packets that carry its data.
    pub fn flow(&self) -> FlowId {
        self.forward.id()
    }
    /// Flow of its acknowledgements.
    pub fn back_flow(&self) -> FlowId {
        self.back.id()
    }
}

/// Flow of datagrams with its counts.
pub struct Datagrams {
    source: Sending,
    way: Way,
    back: Option<Way>,
    /// Other ways, which it may turn to.
    others: Vec<(Way, Option<Way>)>,
    place: u32,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Packets dropped in the forward direction.
    pub lost: u64,
    /// Bytes of the IP packets received.
    pub received_bytes: u64,
    /// Datagrams answered.
    pub answered: u64,
    /// Delay in the forward direction, one way.
    pub delay: Summary,
    /// RTT.
    pub rtt: Summary,
}

impl Datagrams {
    /// Flows of its packets and of the answers.
    pub fn flows(&self) -> (FlowId, Option<FlowId>) {
        (self.way.id(), self.back.map(Way::id))
    }
}

/// Start of one direction's route, and the flow of its packets.
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

/// Kinds of actor or of route end: a tag holds a kind and a number.
mod kind {
    /// Link.
    pub const LINK: u32 = 0;
    /// Sending end of a connection.
    pub const SENDER: u32 = 1;
    /// Receiving end of a connection.
    pub const RECEIVER: u32 = 2;
    /// Source of datagrams.
    pub const SOURCE: u32 = 3;
    /// Receiver of datagrams.
    pub const SINK: u32 = 4;
    /// Receiver of the answers to datagrams.
    pub const ANSWER: u32 = 5;
    /// Connection.
    pub const CONNECTION: u32 = 6;
    /// Packets handed on ahead of time that will be refused by a full queue.
    pub const REFUSALS: u32 = 7;
    /// Packets that reach a link fed by several others.
    pub const MERGE: u32 = 8;
    /// Application.
    pub const APPLICATION: u32 = 9;
    /// Bits of the number below the kind.
    pub const BITS: u32 = 25;
    /// Mask of the number below the kind.
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

/// Network of links, hosts, connections and sources.
pub struct Network {
    now: Time,
    agenda: Agenda,
    /// Actor at each place of the agenda.
    actors: Vec<u32>,
    links: Vec<LinkSlot>,
    merges: Vec<Gathering>,
    /// Time until which the network is told to run.
    until: Time,
    /// All routes, one after the other: numbers of links, then the end.
    routes: Vec<u32>,
    /// True if routes or links were added since the last look-ahead.
    changed: bool,
    arena: Arena,
    fates: Fates,
    /// Future refusals of packets handed on ahead of time: time, link, and packet number; the earliest first.
    refusals: BinaryHeap<Reverse<(Time, LinkIndex, u32)>>,
    /// Connections in order.
    pub connections: Vec<Connection>,
    hosts: Vec<Host>,
    /// Settings of the application added last.
    settings: Arc<Settings>,
    asks: Vec<Ask>,
    /// Flows of datagrams in order.
    pub datagrams: Vec<Datagrams>,
    /// Route end of each flow.
    owners: Vec<u32>,
    /// Links whose delays are recorded.
    watched: Vec<LinkIndex>,
    events: u64,
}

/// Packets in flight to a link that several plain links feed.
struct Gathering {
    merge: Merge,
    link: LinkIndex,
    /// Place in the agenda.
    place: u32,
    /// Delay of the link itself: packets that arrive within this time have not left it yet.
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

/// Place of the refusals in the agenda.
const REFUSALS: u32 = 0;

impl Network {
    /// Adds a link, whose random effects are drawn from streams of its name.
    pub fn add_link(&mut self, params: &LinkParams, streams: &Streams, name: &str) -> LinkIndex {
        match Express::of(params) {
            Some(express) => self.add_line(Line::Express(express)),
            None => self.add_ready_link(Link::new(params, streams, name)),
        }
    }

    /// Adds a link built by the caller, such as one with a custom discipline.
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

    /// Starts recording the sojourn times of that link.
    pub fn watch(&mut self, link: LinkIndex) {
        self.links[link].watch = Some(Box::default());
        self.watched.push(link);
    }

    /// True if a link's output is known ahead: first in, first out, at a fixed rate.
    pub fn is_plain(&self, link: LinkIndex) -> bool {
        matches!(self.links[link].line, Line::Express(_))
    }

    /// Samples a watched plain link's backlog at intervals, as the delay at `rate` that a packet would have met.
    /// Sampling does not stop the run; samples before `from` do not count.
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

    /// Makes observers see, in time order, every packet that enters or leaves that link.
    pub fn tap(&mut self, link: LinkIndex) {
        assert!(self.events == 0, "taps are set before the first packet");
        self.links[link].tapped = true;
        self.changed = true;
    }

    /// Builds a route from one end over links to another.
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

    /// Delay of a packet over a route whose links are idle.
    fn idle_delay(&self, way: Way, len: Bytes) -> Duration {
        let hops = self.routes[way.position as usize..].iter();
        let links = hops.take_while(|hop| **hop >> kind::BITS == kind::LINK);
        let each = links.map(|hop| match &self.links[(hop & kind::MASK) as usize].line {
            Line::Express(express) => express.idle_delay(len.get() as u32),
            Line::Any(link) => link.idle_delay(len),
        });
        each.fold(Duration::ZERO, |sum, delay| sum + delay)
    }

    fn new_flow(&mut self, end: u32) -> u32 {
        self.owners.push(end);
        u32::try_from(self.owners.len() - 1).expect("fewer than 2^32 flows")
    }

    /// Adds a transfer of `bytes` over `there` from `start` on; its ACKs take `back`, and `u64::MAX` never ends.
    /// Returns the number of its connection.
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

    /// Lays another way there and back for a source of datagrams, before the first packet. It begins with the same links.
    pub fn lay_datagrams(&mut self, number: usize, there: &[LinkIndex], back: &[LinkIndex]) {
        let (from, to) = (tag(kind::SOURCE, number), tag(kind::SINK, number));
        let (dscp, echoes) = (
            self.datagrams[number].way.dscp,
            self.datagrams[number].back.is_some(),
        );
        let way = self.way(from, there, to, dscp);
        let back = echoes.then(|| self.way(to, back, tag(kind::ANSWER, number), dscp));
        self.datagrams[number].others.push((way, back));
    }

    /// Lets a source's datagrams that leave from now on take the way that was laid as number `other`.
    pub fn turn_datagrams(&mut self, number: usize, other: usize) {
        let flow = &mut self.datagrams[number];
        let (way, back) = flow.others[other];
        flow.way.position = way.position;
        if let (Some(mine), Some(other)) = (&mut flow.back, back) {
            mine.position = other.position;
        }
    }

    /// Adds a source of datagrams over `there`; its answers, if any, take `back`.
    pub fn add_source(
        &mut self,
        source: impl Into<Sending>,
        there: &[LinkIndex],
        back: &[LinkIndex],
    ) -> usize {
        let source = source.into();
        let number = self.datagrams.len();
        let place = self.agenda.add();
        self.actors.push(tag(kind::SOURCE, number));
        self.agenda.set(place, source.next_wakeup());
        let dscp = source.dscp();
        let (from, to) = (tag(kind::SOURCE, number), tag(kind::SINK, number));
        let way = self.way(from, there, to, dscp);
        let back = source
            .is_answered()
            .then(|| self.way(to, back, tag(kind::ANSWER, number), dscp));
        let size = source.constant_size().unwrap_or(SMALLEST);
        let idle = self.idle_delay(way, size);
        let idle_rtt = idle + back.map_or(Duration::ZERO, |back| self.idle_delay(back, size));
        self.datagrams.push(Datagrams {
            source,
            way,
            back,
            others: Vec::new(),
            place,
            sent: 0,
            received: 0,
            lost: 0,
            received_bytes: 0,
            answered: 0,
            delay: Summary::around(idle),
            rtt: Summary::around(idle_rtt),
        });
        number
    }

    /// Present time.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Events handled so far: packets that arrived or reached a merge, and expired timers.
    pub fn events(&self) -> u64 {
        self.events
    }
    /// Number of packets in flight.
    pub fn under_way(&self) -> usize {
        self.arena.len()
    }
    /// Counters of a link, as of now.
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
    /// Backlog samples of a link, if they were asked for.
    pub fn backlog(&self, link: LinkIndex) -> Option<&Summary> {
        let watch = self.links[link].watch.as_ref()?;
        watch.sampler.as_ref().map(|s| &s.backlog)
    }

    /// Clears the recorded delays: the measurement starts now.
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

    /// Sets the rate of a link that is not plain; the link must be refreshed to the present time.
    pub fn set_rate(&mut self, link: LinkIndex, rate: BitsPerSec) {
        match &mut self.links[link].line {
            Line::Any(link) => link.set_rate(rate),
            Line::Express(_) => unreachable!("what comes out of a plain link is known ahead"),
        }
    }

    /// Advances a link to the present, so that its figures are current.
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
            // Samples come first: a packet released later no longer counts as waiting.
            let after = self.now.as_nanos().saturating_add(1);
            slot.sample_before(Time::from_nanos(after), self.now);
            slot.count_samples(self.now);
            slot.release(self.now);
        }
    }
}
