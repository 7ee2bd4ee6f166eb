//! The network at work: links, routes, and what sits at their ends. One event queue; one pending event
//! for each link however many packets are under way on it, one for each timer.
//!
//! A packet walks a route: a row of links with an end behind them, all routes in one array. The packet
//! carries its place in it, so a hop is: take it from one link, look up the next, put it there.

use crate::heap::{EventQueue, Key};
use crate::segment::{Arena, Segment, flag, header_of, packet_id, position_of};
use crate::source::Source;
use crate::summary::Summary;
use crate::tcp::{Receiver, Sender, Settings};
use base::rng::Streams;
use base::{Bytes, Ecn, FlowId, Packet, Time};
use link::qdisc::{Fate, Fates, Reason};
use link::{Delivery, Link, LinkParams, LinkStats};

/// What an observer may want to see; nothing costs anything where it does not look.
pub trait Observer {
    /// A packet leaves its host, arrives at its destination, or is dropped.
    fn packet(&mut self, _now: Time, _what: Happening, _packet: &Packet, _segment: &Segment) {}
    /// An answer to a probe has come back.
    fn answer(&mut self, _now: Time, _flow: usize, _probe: &Segment, _ecn: Ecn) {}
    /// A transfer is complete.
    fn done(&mut self, _now: Time, _connection: usize, _started: Time) {}
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
    link: Link,
    pending: Key,
    /// Sojourn times of the packets that came out, where they are wanted.
    sojourn: Option<Box<Summary>>,
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
    sender_timer: Key,
    receiver_timer: Key,
    /// One-way delay of its data.
    pub delay: Summary,
    /// How long its transfers took.
    pub transfers: Summary,
    pub forward_ecn: Ecn,
}

impl Connection {
    /// Of the packets that carry its data.
    pub fn flow(&self) -> FlowId {
        self.forward.flow
    }
}

pub struct Datagrams {
    source: Source,
    way: Way,
    back: Option<Way>,
    timer: Key,
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
        (self.way.flow, self.back.map(|b| b.flow))
    }
}

/// Where packets of one direction begin, and whose they are.
#[derive(Clone, Copy, Debug)]
struct Way {
    position: u32,
    flow: FlowId,
}

/// What an event is for, or what stands at the end of a route: a kind and a number.
mod kind {
    pub const LINK: u32 = 0;
    pub const SENDER: u32 = 1;
    pub const RECEIVER: u32 = 2;
    pub const SOURCE: u32 = 3;
    pub const SINK: u32 = 4;
    pub const ANSWER: u32 = 5;
    pub const WRITE: u32 = 6;
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
    queue: EventQueue,
    links: Vec<LinkSlot>,
    /// All routes, one behind the other: numbers of links, then what stands at the end.
    routes: Vec<u32>,
    arena: Arena,
    fates: Fates,
    pub connections: Vec<Connection>,
    pub datagrams: Vec<Datagrams>,
    /// What stands at the end of the route of each flow.
    owners: Vec<u32>,
    events: u64,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            now: Time::ZERO,
            queue: EventQueue::default(),
            links: Vec::new(),
            routes: Vec::new(),
            arena: Arena::default(),
            fates: Fates::default(),
            connections: Vec::new(),
            datagrams: Vec::new(),
            owners: Vec::new(),
            events: 0,
        }
    }
}

impl Network {
    pub fn add_link(&mut self, params: &LinkParams, streams: &Streams, name: &str) -> LinkIndex {
        self.add_ready_link(Link::new(params, streams, name))
    }

    /// A link that the caller has made, such as one with a discipline of its own.
    pub fn add_ready_link(&mut self, link: Link) -> LinkIndex {
        self.links.push(LinkSlot {
            link,
            pending: Key::NEVER,
            sojourn: None,
        });
        self.links.len() - 1
    }

    /// From now on the sojourn times of that link are kept.
    pub fn watch(&mut self, link: LinkIndex) {
        self.links[link].sojourn = Some(Box::default());
    }

    fn way(&mut self, links: &[LinkIndex], end: u32) -> Way {
        assert!(!links.is_empty(), "a route needs a link");
        let position = u32::try_from(self.routes.len()).expect("fewer than 2^32 hops");
        self.routes
            .extend(links.iter().map(|l| tag(kind::LINK, *l)));
        self.routes.push(end);
        let flow = FlowId(self.owners.len() as u64);
        self.owners.push(end);
        Way { position, flow }
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
            forward: self.way(there, tag(kind::RECEIVER, number)),
            back: self.way(back, tag(kind::SENDER, number)),
            sender_timer: Key::NEVER,
            receiver_timer: Key::NEVER,
            delay: Summary::default(),
            transfers: Summary::default(),
        };
        self.connections.push(connection);
        self.queue.schedule(start, tag(kind::WRITE, number));
        number
    }

    /// Datagrams over `there`; where the source asks for it, each comes `back`.
    pub fn add_source(&mut self, source: Source, there: &[LinkIndex], back: &[LinkIndex]) -> usize {
        let number = self.datagrams.len();
        let timer = source.next_wakeup().map_or(Key::NEVER, |at| {
            self.queue.schedule(at, tag(kind::SOURCE, number))
        });
        let way = self.way(there, tag(kind::SINK, number));
        let back = source
            .echoes()
            .then(|| self.way(back, tag(kind::ANSWER, number)));
        self.datagrams.push(Datagrams {
            source,
            way,
            back,
            timer,
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
    /// Of a link, as of its latest arrival or departure.
    pub fn link_stats(&self, link: LinkIndex) -> LinkStats {
        self.links[link].link.stats()
    }
    pub fn link(&self, link: LinkIndex) -> &Link {
        &self.links[link].link
    }
    /// Sojourn times of a watched link.
    pub fn sojourn(&self, link: LinkIndex) -> Option<&Summary> {
        self.links[link].sojourn.as_deref()
    }

    /// Forgets the delays so far: what comes from now on is what counts.
    pub fn begin_measurement(&mut self) {
        for link in &mut self.links {
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
        self.serve_link(link, observer);
    }

    /// Handles every event up to and including `until`.
    pub fn run_until<O: Observer>(&mut self, until: Time, observer: &mut O) {
        while let Some(key) = self.queue.pop_until(until) {
            self.now = key.time();
            self.events += 1;
            let source = key.source();
            let number = (source & kind::MASK) as usize;
            match source >> kind::BITS {
                kind::LINK => {
                    if self.links[number].pending == key {
                        self.links[number].pending = Key::NEVER;
                        self.serve_link(number, observer);
                    }
                }
                kind::SENDER => self.sender_timer(number, key, observer),
                kind::RECEIVER => self.receiver_timer(number, key, observer),
                kind::SOURCE => self.source_timer(number, key, observer),
                kind::WRITE => self.write(number, observer),
                other => unreachable!("event of kind {other}"),
            }
        }
        self.now = self.now.max(until);
    }

    /// Takes what has come out of a link, and schedules when to ask again.
    #[inline]
    fn serve_link<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        loop {
            let slot = &mut self.links[number];
            let delivery = slot.link.poll(self.now, &mut self.fates);
            if let (Some(d), Some(sojourn)) = (&delivery, &mut slot.sojourn) {
                sojourn.add_span(d.sojourn);
            }
            if !self.fates.list.is_empty() {
                self.bury(observer);
            }
            if let Some(delivery) = delivery {
                self.forward(delivery, observer);
            }
            let slot = &mut self.links[number];
            match slot.link.next_wakeup() {
                Some(at) if at <= self.now => {}
                Some(at) => {
                    if at < slot.pending.time() {
                        slot.pending = self.queue.schedule(at, tag(kind::LINK, number));
                    }
                    return;
                }
                None => return,
            }
        }
    }

    /// Frees what has been dropped.
    fn bury<O: Observer>(&mut self, observer: &mut O) {
        for (packet, fate) in self.fates.list.drain(..) {
            if let Fate::Dropped(why) = fate {
                let owner = self.owners[packet.flow.0 as usize];
                if owner >> kind::BITS == kind::SINK {
                    self.datagrams[(owner & kind::MASK) as usize].lost += 1;
                }
                let segment = self.arena.remove(header_of(packet.id));
                observer.packet(self.now, Happening::Dropped(why), &packet, &segment);
            }
        }
    }

    #[inline]
    fn forward<O: Observer>(&mut self, delivery: Delivery, observer: &mut O) {
        let mut packet = delivery.packet;
        let header = header_of(packet.id);
        let position = position_of(packet.id) + 1;
        let next = self.routes[position as usize];
        if delivery.again {
            // Its second copy needs a header of its own.
            let copy = self.arena.insert(*self.arena.get(header));
            packet.id = packet_id(copy, position);
        } else {
            packet.id = packet_id(header, position);
        }
        if next >> kind::BITS == kind::LINK {
            self.enqueue(next as usize, packet, observer);
            return;
        }
        let segment = self.arena.remove(header_of(packet.id));
        observer.packet(self.now, Happening::Received, &packet, &segment);
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
                    .handle_segment(self.now, &segment, packet.ecn);
                self.after_receiver(number, ack, observer);
            }
            kind::SENDER => {
                let connection = &mut self.connections[number];
                connection.sender.handle_segment(self.now, &segment);
                if connection.sender.is_idle() && !connection.idle {
                    self.transferred(number, observer);
                }
                self.after_sender(number, observer);
            }
            kind::SINK => {
                let flow = &mut self.datagrams[number];
                flow.received += 1;
                flow.received_bytes += packet.len.get();
                flow.delay.add_span(self.now.saturating_since(segment.sent));
                if let Some(back) = flow.back {
                    let answer = Segment {
                        flags: flag::ECHO,
                        delay: self.now.saturating_since(segment.sent),
                        ..segment
                    };
                    self.launch(back, answer, packet.len, packet.ecn, observer);
                }
            }
            kind::ANSWER => {
                let flow = &mut self.datagrams[number];
                flow.answered += 1;
                flow.rtt.add_span(self.now.saturating_since(segment.sent));
                observer.answer(self.now, number, &segment, packet.ecn);
            }
            other => unreachable!("a route ends at kind {other}"),
        }
    }

    fn enqueue<O: Observer>(&mut self, number: LinkIndex, packet: Packet, observer: &mut O) {
        let slot = &mut self.links[number];
        slot.link.enqueue(self.now, packet, &mut self.fates);
        if let Some(at) = slot.link.next_wakeup()
            && at < slot.pending.time()
        {
            slot.pending = self.queue.schedule(at, tag(kind::LINK, number));
        }
        if !self.fates.list.is_empty() {
            self.bury(observer);
        }
    }

    /// A packet leaves its host.
    #[inline]
    fn launch<O: Observer>(
        &mut self,
        way: Way,
        segment: Segment,
        len: Bytes,
        ecn: Ecn,
        observer: &mut O,
    ) {
        let header = self.arena.insert(segment);
        let packet = Packet {
            id: packet_id(header, way.position),
            flow: way.flow,
            len,
            ecn,
            dscp: 0,
            enqueued: self.now,
        };
        observer.packet(self.now, Happening::Sent, &packet, &segment);
        let first = self.routes[way.position as usize];
        self.enqueue(first as usize, packet, observer);
    }

    #[inline]
    fn after_sender<O: Observer>(&mut self, number: usize, observer: &mut O) {
        loop {
            let connection = &mut self.connections[number];
            let Some(segment) = connection.sender.poll_transmit(self.now) else {
                break;
            };
            let segment = Segment {
                sent: self.now,
                ..segment
            };
            let len = connection.sender.settings().header + Bytes::new(u64::from(segment.len));
            // RFC 3168 section 6.1.1: a SYN is not ECN-capable.
            let ecn = if segment.is(flag::SYN) {
                Ecn::NotEct
            } else {
                connection.forward_ecn
            };
            let way = connection.forward;
            self.launch(way, segment, len, ecn, observer);
        }
        let connection = &mut self.connections[number];
        if let Some(at) = connection.sender.next_wakeup()
            && at < connection.sender_timer.time()
        {
            connection.sender_timer = self.queue.schedule(at, tag(kind::SENDER, number));
        }
    }

    #[inline]
    fn after_receiver<O: Observer>(
        &mut self,
        number: usize,
        ack: Option<Segment>,
        observer: &mut O,
    ) {
        let connection = &mut self.connections[number];
        if let Some(at) = connection.receiver.next_wakeup()
            && at < connection.receiver_timer.time()
        {
            connection.receiver_timer = self.queue.schedule(at, tag(kind::RECEIVER, number));
        }
        if let Some(ack) = ack {
            let ack = Segment {
                sent: self.now,
                ..ack
            };
            // RFC 2018 section 3: two bytes and eight a block, padded to four.
            let sack = match ack.sacks {
                0 => 0,
                n => 4 + 8 * u64::from(n),
            };
            let len = connection.sender.settings().header + Bytes::new(sack);
            let way = connection.back;
            self.launch(way, ack, len, Ecn::NotEct, observer);
        }
    }

    /// A timer is not moved when it is put off: it fires early, and is then set to the right time.
    fn sender_timer<O: Observer>(&mut self, number: usize, key: Key, observer: &mut O) {
        let connection = &mut self.connections[number];
        if connection.sender_timer != key {
            return;
        }
        connection.sender_timer = Key::NEVER;
        if connection
            .sender
            .next_wakeup()
            .is_some_and(|at| at <= self.now)
        {
            connection.sender.handle_timeout(self.now);
        }
        self.after_sender(number, observer);
    }

    fn receiver_timer<O: Observer>(&mut self, number: usize, key: Key, observer: &mut O) {
        let connection = &mut self.connections[number];
        if connection.receiver_timer != key {
            return;
        }
        connection.receiver_timer = Key::NEVER;
        let ack = connection.receiver.handle_timeout(self.now);
        self.after_receiver(number, ack, observer);
    }

    fn source_timer<O: Observer>(&mut self, number: usize, key: Key, observer: &mut O) {
        let flow = &mut self.datagrams[number];
        if flow.timer != key {
            return;
        }
        flow.timer = Key::NEVER;
        while let Some(len) = self.datagrams[number].source.poll(self.now) {
            let flow = &mut self.datagrams[number];
            let segment = Segment {
                seq: flow.sent,
                sent: self.now,
                ..Segment::default()
            };
            flow.sent += 1;
            let way = flow.way;
            self.launch(way, segment, len, Ecn::NotEct, observer);
        }
        let flow = &mut self.datagrams[number];
        if let Some(at) = flow.source.next_wakeup() {
            flow.timer = self.queue.schedule(at, tag(kind::SOURCE, number));
        }
    }

    /// The application hands over what it has.
    fn write<O: Observer>(&mut self, number: usize, observer: &mut O) {
        let connection = &mut self.connections[number];
        let bytes = match &mut connection.application {
            Application::Bulk { bytes } => *bytes,
            Application::Transfers(t) => t.bytes.draw(&mut t.sizes).round().max(1.0) as u64,
        };
        connection.started = self.now;
        connection.idle = false;
        connection.sender.write(bytes);
        self.after_sender(number, observer);
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
            self.queue
                .schedule(self.now + think, tag(kind::WRITE, number));
        }
        observer.done(self.now, number, started);
    }
}
