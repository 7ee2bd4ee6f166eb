//! World of a run: the link, both hosts and the clock; everything that happens between two steps of the experiment.

use super::capture::Capture;
use super::crafted::Crafted;
use super::far::Far;
use super::fresh::Fresh;
use super::host::{Began, Meters};
use super::knock::Exchange;
use super::letters::Letters;
use super::paced::Paced;
use super::probes::Probing;
use super::seen::{Counters, Mark, Wait, Who};
use super::trace::Tracer;
use super::transfer::{APPLICATION, Transfer};
use super::{Cross, Plan, Seen};
use crate::fragments::Assembly;
use crate::segment::Segment;
use base::record::{Direction, Event, HostLoad, Meta, Origin, Recording, Traffic};
use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use experiment::ask::SenderSettings;
use link::qdisc::{Fate, Fates};
use link::{Delivery, Link, SpecError};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// UNIX time at the start of every run.
pub const EPOCH_NS: i64 = 1_700_000_000_000_000_000;
/// Length of the Ethernet header, which an interface counts, bytes.
const LINK_HEADER: u64 = 14;
/// Name of the near host's interface.
pub(super) const INTERFACE: &str = "near";
const SAMPLE: Duration = Duration::from_millis(50);
const COUNT: Duration = Duration::from_millis(100);
const HOST: Duration = Duration::from_secs(1);
/// Minimum interval between two recorded packets of the load.
const NOTED: Duration = Duration::from_millis(1);
/// Sizes of cross traffic and their shares, as in `sim::craft`.
const SIZES: [(u64, f64); 3] = [(40, 0.4), (576, 0.15), (1500, 0.45)];

/// Purpose of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Probe(i64),
    Answer(i64),
    Train,
    TrainBack(i64),
    Data(u32),
    Ack(u32, u64),
    Fresh(i64, u8),
    Cross(u32),
    /// Train and datagram in one word, and the fragment.
    Crafted(u64, u8),
    Paced(u32),
    Letter(u32),
}

#[derive(Clone, Copy)]
pub(super) struct Flying {
    body: Body,
    segment: Segment,
}

/// Events that happen by themselves, in the order of equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Probe,
    ProbeLost(i64),
    Answer(i64),
    Fresh,
    FreshAgain(i64, u8, u8),
    Sample,
    Count,
    Host,
    Cross(u32),
    Open(u32),
    Application(u32),
    Paced(u32),
    /// A letter starts back from beyond the link.
    Letter(u32),
    /// Retransmission timeout of an exchange.
    Exchange(usize),
    /// Round of the tracer: of datagrams, or of ICMP echo.
    Round(bool),
}

/// A source of cross traffic.
struct Source {
    plan: Cross,
    rng: Rng,
    sends: bool,
    until: Time,
}

pub(super) struct World {
    /// Present time.
    pub now: Time,
    /// Link, by direction.
    pub(super) links: [Link; 2],
    /// Second bottleneck between the near host and the link, by direction.
    pub(super) routers: [Option<Link>; 2],
    pub(super) fates: Fates,
    pub(super) flying: Vec<Flying>,
    free: Vec<u32>,
    due: BinaryHeap<Reverse<(Time, u64, Due)>>,
    order: u64,
    /// Transfers of the loads.
    pub transfers: Vec<Transfer>,
    /// Index of the first transfer that still matters.
    first_running: usize,
    /// Rows so far.
    pub rec: Recording,
    /// True waits and counts so far.
    pub seen: Seen,
    /// Plan of the test.
    pub plan: Plan,
    /// Streams of chance.
    pub streams: Streams,
    noise: Rng,
    sources: Vec<Source>,
    cross_bytes: [u64; 2],
    /// Counters of the near interface since the last row: received, sent.
    counted: [u64; 2],
    /// The same since the start.
    counters: [u64; 2],
    /// Bytes of whole IP packets that the interface carried for the experiment, except trains.
    pub own: Bytes,
    noted: [Time; 2],
    /// State of the probes.
    pub probing: Probing,
    /// State of the fresh connections.
    pub fresh: Fresh,
    /// Crafted trains in progress, if there are any.
    pub crafted: Option<Crafted>,
    /// Incomplete datagrams at the receiving host of each direction.
    pub assembly: [Assembly; 2],
    /// Meters of the interface.
    pub meters: Meters,
    /// Loads of datagrams.
    pub paced: Vec<Paced>,
    /// Number of datagram loads started.
    pub paced_begun: u32,
    /// Present phase.
    pub phase: Option<Began>,
    /// Datagrams with contents, sockets and mappings.
    pub letters: Letters,
    /// Chance of the network around the link.
    pub letter_noise: Rng,
    /// Ports and resolvers of the far side.
    pub far: Far,
    /// TCP exchanges so far.
    pub exchanges: Vec<Exchange>,
    /// Tracer of hops, while there is one.
    pub tracer: Option<Tracer>,
    /// Capture, while there is one.
    pub capture: Option<Capture>,
    /// Packets in flight that a queue has marked, for its log.
    marked: BTreeSet<PacketId>,
    /// Time from which the interface is watched for cross traffic, UNIX ns.
    pub watched_from_ns: i64,
    /// Page loads since the browser was started.
    pub visits: Vec<u32>,
    /// Settings of the sender of each direction: up, down.
    pub senders: [SenderSettings; 2],
}

impl World {
    /// Creates the world of a plan.
    pub fn new(plan: &Plan) -> Result<World, SpecError> {
        let streams = Streams::new(plan.seed);
        let link = |d: &link::DirectionSpec, name: &str| -> Result<Link, SpecError> {
            Ok(Link::new(&d.params()?, &streams, name))
        };
        let mut world = World {
            now: Time::ZERO,
            links: [link(&plan.link.up, "up")?, link(&plan.link.down, "down")?],
            routers: match &plan.router {
                None => [None, None],
                Some(router) => [
                    Some(link(&router.up, "router/up")?),
                    Some(link(&router.down, "router/down")?),
                ],
            },
            fates: Fates::default(),
            flying: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            transfers: Vec::new(),
            first_running: 0,
            rec: Recording {
                meta: Meta {
                    origin: Origin::Simulated,
                    verb: "test".into(),
                    title: plan.link.title.clone(),
                    started_ns: EPOCH_NS,
                    ..Meta::default()
                },
                ..Recording::default()
            },
            seen: Seen::default(),
            noise: streams.stream("bufferbloat/stamps"),
            sources: (plan.cross.iter().enumerate())
                .map(|(i, cross)| Source {
                    plan: *cross,
                    rng: streams.stream(&format!("bufferbloat/cross/{i}")),
                    sends: false,
                    until: Time::ZERO,
                })
                .collect(),
            cross_bytes: [0; 2],
            counted: [0; 2],
            counters: [0; 2],
            own: Bytes::ZERO,
            noted: [Time::ZERO; 2],
            probing: Probing::default(),
            fresh: Fresh::default(),
            crafted: None,
            assembly: [Assembly::default(), Assembly::default()],
            meters: Meters::default(),
            paced: Vec::new(),
            paced_begun: 0,
            phase: None,
            letters: Letters::default(),
            letter_noise: streams.stream("bufferbloat/letters"),
            far: Far::default(),
            exchanges: Vec::new(),
            tracer: None,
            capture: None,
            marked: BTreeSet::new(),
            visits: Vec::new(),
            watched_from_ns: EPOCH_NS,
            senders: [SenderSettings::default(); 2],
            streams,
            plan: plan.clone(),
        };
        world.at(world.now + COUNT, Due::Count);
        world.at(world.now + HOST, Due::Host);
        // Real tests are not synchronised with anything else.
        let late = Duration::from_secs_f64(uniform(&mut world.noise) * 0.05);
        world.at(world.now + late, Due::Sample);
        for i in 0..world.sources.len() {
            world.at(world.now, Due::Cross(i as u32));
        }
        Ok(world)
    }

    /// Present time as UNIX ns.
    pub fn unix_ns(&self) -> i64 {
        EPOCH_NS + self.now.as_nanos() as i64
    }

    /// Reading of the far clock at `t`.
    pub fn far_ns(&self, t: Time) -> i64 {
        let drift = t.as_nanos() as f64 * self.plan.hosts.drift_ppm * 1e-6;
        EPOCH_NS + t.as_nanos() as i64 + self.plan.hosts.ahead_ns + drift as i64
    }

    /// Random delay of a timestamp.
    pub fn lateness(&mut self) -> Duration {
        let mean = self.plan.hosts.stamp_late.as_nanos() as f64;
        let u = 1.0 - uniform(&mut self.noise);
        Duration::from_nanos((-u.ln() * mean) as u64)
    }

    /// Schedules an event.
    pub fn at(&mut self, t: Time, due: Due) {
        self.order += 1;
        self.due.push(Reverse((t, self.order, due)));
    }

    fn event(&mut self, kind: &str, subject: &str, detail: &str) {
        self.rec.event.push(Event {
            t_ns: self.unix_ns(),
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        });
    }

    /// Present counters.
    pub fn counters(&mut self) -> Counters {
        Counters {
            stats: [self.links[0].stats(), self.links[1].stats()],
            cross: self.cross_bytes,
        }
    }

    /// Next time of the links, of an event and of a timer of TCP.
    fn wakeups(&self) -> (Time, Time, Time) {
        let link = |l: &Link| l.next_wakeup().unwrap_or(Time::MAX);
        let all = self.links.iter().chain(self.routers.iter().flatten());
        let wake = all.map(link).min().unwrap_or(Time::MAX);
        let due = self.due.peek().map_or(Time::MAX, |d| d.0.0);
        let timer = self.transfers[self.first_running..]
            .iter()
            .filter(|t| t.running)
            .map(Transfer::next_wakeup)
            .min()
            .unwrap_or(Time::MAX);
        (wake, due, timer)
    }

    /// Time of the next event of any kind.
    pub fn next_event(&self) -> Time {
        let (wake, due, timer) = self.wakeups();
        wake.min(due).min(timer)
    }

    /// Advances the world up to and including `until`.
    pub fn advance(&mut self, until: Time) {
        loop {
            let (wake, due, timer) = self.wakeups();
            let next = wake.min(due).min(timer);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if wake == next {
                self.poll_links();
            } else if due == next {
                if let Some(Reverse((_, _, due))) = self.due.pop() {
                    self.happen(due);
                }
            } else {
                self.serve_timers();
            }
            self.bury();
        }
        self.now = self.now.max(until);
    }

    /// Keeps the contents of a packet in flight.
    pub(super) fn fly(&mut self, flying: Flying) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.flying[id as usize] = flying;
                id
            }
            None => {
                self.flying.push(flying);
                self.flying.len() as u32 - 1
            }
        }
    }

    fn serve_timers(&mut self) {
        for i in self.first_running..self.transfers.len() {
            let now = self.now;
            let t = &mut self.transfers[i];
            if !t.running || t.next_wakeup() > now {
                continue;
            }
            if let Some(ack) = t.receiver.handle_timeout(now) {
                self.acknowledge(i, ack);
            }
            let t = &mut self.transfers[i];
            if t.sender.next_wakeup().is_some_and(|at| at <= now) {
                t.sender.handle_timeout(now);
                self.pump(i);
            }
        }
    }

    /// Puts a packet into the queue of a direction.
    pub fn send(&mut self, direction: Direction, flow: u64, len: u64, body: Body) {
        self.send_marked(direction, flow, len, body, (Ecn::NotEct, 0));
    }

    /// The same with an ECN field and a DSCP.
    pub fn send_marked(
        &mut self,
        direction: Direction,
        flow: u64,
        len: u64,
        body: Body,
        marks: (Ecn, u8),
    ) {
        self.send_segment(direction, flow, len, (body, Segment::default()), marks);
    }

    fn send_segment(
        &mut self,
        direction: Direction,
        flow: u64,
        len: u64,
        (body, segment): (Body, Segment),
        (ecn, dscp): (Ecn, u8),
    ) {
        let id = self.fly(Flying { body, segment });
        if direction == Direction::Up && self.is_here(body) {
            self.counted[1] += len + LINK_HEADER;
            self.account(body, len);
        }
        let packet = Packet {
            id: PacketId(u64::from(id)),
            flow: FlowId(flow),
            len: Bytes::new(len),
            dscp,
            ecn,
            enqueued: self.now,
        };
        let first = match (&mut self.routers[direction as usize], direction) {
            (Some(router), Direction::Up) => router,
            _ => &mut self.links[direction as usize],
        };
        first.enqueue(self.now, packet, &mut self.fates);
    }

    /// True if the measuring host's interface carries it.
    fn is_here(&self, body: Body) -> bool {
        match body {
            Body::Cross(i) => self.sources[i as usize].plan.here,
            _ => true,
        }
    }

    /// Counts a packet of the experiment itself, except trains.
    fn account(&mut self, body: Body, len: u64) {
        if !matches!(body, Body::Cross(_) | Body::Crafted(..) | Body::Paced(_)) {
            self.own += Bytes::new(len);
        }
    }

    fn bury(&mut self) {
        if self.fates.list.is_empty() {
            return;
        }
        let fates = std::mem::take(&mut self.fates.list);
        for (packet, fate) in &fates {
            if let (Fate::Marked(_), true) = (fate, self.plan.logs_marks) {
                self.marked.insert(packet.id);
            }
            if matches!(fate, Fate::Dropped(_)) {
                self.marked.remove(&packet.id);
                let id = packet.id.0 as u32;
                let body = self.flying[id as usize].body;
                self.free.push(id);
                self.probe_dropped(body);
            }
        }
        self.fates.list = fates;
        self.fates.list.clear();
    }

    pub(super) fn arrive(&mut self, direction: Direction, d: Delivery) {
        let id = d.packet.id.0 as u32;
        let flying = self.flying[id as usize];
        if !d.again {
            self.free.push(id);
        }
        if direction == Direction::Down && self.is_here(flying.body) {
            self.counted[0] += d.packet.len.get() + LINK_HEADER;
            self.account(flying.body, d.packet.len.get());
        }
        self.note(direction, &d, flying.body);
        if self.marked.remove(&d.packet.id) {
            self.seen.marks.push(Mark {
                t_ns: d.packet.enqueued.as_nanos(),
                flow: d.packet.flow,
                sojourn_ns: d.sojourn.as_nanos(),
            });
        }
        match flying.body {
            Body::Probe(_) | Body::Answer(_) | Body::Train | Body::TrainBack(_) => {
                self.probe_arrived(flying.body, d.packet.len.get());
            }
            Body::Data(flow) => {
                let t = &mut self.transfers[flow as usize];
                if t.running
                    && let Some(ack) =
                        t.receiver
                            .handle_segment(self.now, &flying.segment, d.packet.ecn)
                {
                    self.acknowledge(flow as usize, ack);
                }
            }
            Body::Ack(flow, window) => {
                if direction == Direction::Down {
                    self.capture_ack(flow as usize, flying.segment.ack);
                }
                let t = &mut self.transfers[flow as usize];
                if t.running {
                    t.sender.set_window(Bytes::new(window));
                    t.sender.handle_segment(self.now, &flying.segment);
                    self.pump(flow as usize);
                }
            }
            Body::Fresh(number, step) => self.fresh_arrived(number, step),
            Body::Cross(_) => {}
            Body::Crafted(word, part) => {
                self.crafted_arrived(direction, (word, part), d.packet.ecn);
            }
            Body::Paced(i) => self.paced_arrived(i),
            Body::Letter(id) => self.letter_arrived(id, d.packet.ecn),
        }
    }

    fn note(&mut self, direction: Direction, d: &Delivery, body: Body) {
        let who = match body {
            Body::Probe(_) | Body::Answer(_) => Who::Probe,
            Body::Data(_) if self.now >= self.noted[direction as usize] => {
                self.noted[direction as usize] = self.now + NOTED;
                Who::Load
            }
            _ => return,
        };
        self.seen.waits.push(Wait {
            t_ns: d.packet.enqueued.as_nanos(),
            direction,
            who,
            sojourn_ns: d.sojourn.as_nanos(),
            passage_ns: d.at.saturating_since(d.packet.enqueued).as_nanos(),
        });
    }

    fn pump(&mut self, i: usize) {
        let number = self.transfers[i].number as u64;
        while let Some(out) = self.transfers[i].sender.poll_transmit(self.now) {
            let t = &self.transfers[i];
            let segment = Segment {
                seq: out.seq,
                len: out.len,
                flags: out.flags,
                sent: self.now,
                ..Segment::default()
            };
            let (len, direction) = (t.segment_len(out.len), t.direction);
            if direction == Direction::Up {
                self.capture_data(i, out.seq, out.len);
            }
            let t = &self.transfers[i];
            let ecn = if out.len == 0 {
                Ecn::NotEct
            } else {
                t.sender.ecn()
            };
            let body = Body::Data(i as u32);
            self.send_segment(direction, number, len, (body, segment), (ecn, 0));
        }
        self.transfers[i].account(self.now);
    }

    fn acknowledge(&mut self, i: usize, ack: Segment) {
        let t = &mut self.transfers[i];
        let (len, window) = (t.ack_len(&ack), t.tell_window());
        let direction = match t.direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        let number = t.number as u64;
        let segment = Segment {
            sent: self.now,
            ..ack
        };
        let body = Body::Ack(i as u32, window);
        self.send_segment(direction, number, len, (body, segment), (Ecn::NotEct, 0));
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Probe => self.probe_due(),
            Due::ProbeLost(seq) => self.probe_lost(seq),
            Due::Answer(seq) => self.answer_due(seq),
            Due::Fresh => self.fresh_due(),
            Due::FreshAgain(number, stage, tries) => self.fresh_again(number, stage, tries),
            Due::Sample => self.sample(),
            Due::Count => self.count(),
            Due::Host => {
                let cpu = 0.05 + 0.1 * uniform(&mut self.noise);
                let load = HostLoad::busy(self.unix_ns(), Some(cpu));
                self.rec.host.push(load);
                self.at(self.now + HOST, Due::Host);
            }
            Due::Cross(i) => self.cross(i as usize),
            Due::Open(i) => self.open(i as usize),
            Due::Application(i) => self.act(i as usize),
            Due::Paced(i) => self.paced_due(i),
            Due::Letter(id) => self.letter_due(id),
            Due::Exchange(i) => self.exchange_due(i),
            Due::Round(echo) => self.round_due(echo),
        }
    }

    /// Starts one of `flows` flows of a load after the exchange that a real flow starts with.
    pub fn start_flow(&mut self, load: u32, direction: Direction, flows: u32) {
        let limits = self.plan.hosts.limits[direction as usize];
        let share = |rate: Option<base::BitsPerSec>| rate.map(|r| r / u64::from(flows));
        let limits = super::Limits {
            application: share(limits.application),
            reader: share(limits.reader),
            ..limits
        };
        let number = self.transfers.len() as i64;
        let t = Transfer::new(
            number,
            (load, direction),
            &self.plan.tcp,
            limits,
            self.now,
            &self.streams,
        );
        self.transfers.push(t);
        let exchange = self.plan.link.propagation_rtt() * 2
            + Duration::from_secs_f64(uniform(&mut self.noise) * 0.02);
        self.at(self.now + exchange, Due::Open(number as u32));
        let detail = serde_json::json!({ "direction": direction, "congestion": "cubic" });
        self.event("flow", &format!("flow {number}"), &detail.to_string());
    }

    /// Opens a flow without the exchange before it.
    pub fn open_now(&mut self, i: usize) {
        self.open(i);
    }

    fn open(&mut self, i: usize) {
        let t = &mut self.transfers[i];
        if !t.running {
            return;
        }
        t.open(self.now);
        if t.has_slow_application() {
            self.at(self.now + APPLICATION, Due::Application(i as u32));
        }
        self.pump(i);
    }

    fn act(&mut self, i: usize) {
        if !self.transfers[i].running {
            return;
        }
        if self.transfers[i].act(self.now) {
            let received = self.transfers[i].receiver.received();
            let update = Segment {
                ack: received,
                flags: crate::segment::flag::ACK,
                ..Segment::default()
            };
            self.acknowledge(i, update);
        }
        self.pump(i);
        self.at(self.now + APPLICATION, Due::Application(i as u32));
    }

    /// Ends the flows of a load with a reset; `None`: all flows.
    pub fn stop_flows(&mut self, load: Option<u32>) {
        let now = self.now;
        let its = |t: &&mut Transfer| t.running && load.is_none_or(|load| t.load == load);
        for t in self.transfers[self.first_running..].iter_mut().filter(its) {
            t.account(now);
            t.running = false;
        }
    }

    /// Writes the far end's samples of the flows that were stopped.
    pub fn collect_flows(&mut self) {
        let t_ns = self.unix_ns();
        let all = &mut self.transfers[self.first_running..];
        for t in all.iter_mut().filter(|t| !t.running && !t.collected) {
            self.rec.flow.append(&mut t.far);
            self.rec.event.extend(t.held_back_event(t_ns));
            t.collected = true;
        }
        let still = all.iter().position(|t| !t.collected);
        self.first_running += still.unwrap_or(all.len());
    }

    /// Flows that have not been collected.
    pub fn running(&self) -> &[Transfer] {
        &self.transfers[self.first_running..]
    }

    fn sample(&mut self) {
        let t_ns = self.unix_ns();
        // The exchange that placed the far clock was asymmetric, and the clock drifts from then on.
        let link = &self.plan.link;
        let skew = (link.up.delay.as_nanos() as i64 - link.down.delay.as_nanos() as i64) / 2;
        let drift = self.plan.hosts.drift_ppm * 1e-6;
        for t in &mut self.transfers[self.first_running..] {
            if !t.running || !t.opened || t.only.is_some() {
                continue;
            }
            let gained = self.now.saturating_since(t.started).as_nanos() as f64 * drift;
            let far_ns = t_ns - skew + gained as i64;
            match t.direction {
                Direction::Up => {
                    self.rec.flow.push(t.sender_row(t_ns));
                    t.far.push(t.receiver_row(far_ns));
                }
                Direction::Down => {
                    self.rec.flow.push(t.receiver_row(t_ns));
                    t.far.push(t.sender_row(far_ns));
                }
            }
        }
        self.sample_paced(t_ns);
        self.at(self.now + SAMPLE, Due::Sample);
    }

    fn count(&mut self) {
        let [rx, tx] = std::mem::take(&mut self.counted);
        self.counters[0] += rx;
        self.counters[1] += tx;
        self.rec.traffic.push(Traffic {
            t_ns: self.unix_ns(),
            interval_ns: COUNT.as_nanos() as i64,
            interface: INTERFACE.into(),
            rx_bytes: Some(rx as i64),
            tx_bytes: Some(tx as i64),
        });
        self.at(self.now + COUNT, Due::Count);
    }

    /// Counters of the interface now: bytes received, and bytes sent.
    pub fn interface_counters(&self) -> [u64; 2] {
        [0, 1].map(|i| self.counters[i] + self.counted[i])
    }

    fn cross(&mut self, i: usize) {
        let now = self.now;
        let source = &mut self.sources[i];
        let plan = source.plan;
        let mut draw = |mean: f64| {
            let gap = -(1.0 - uniform(&mut source.rng)).ln() * mean;
            Duration::from_secs_f64(gap.max(1e-9))
        };
        if !plan.off.is_zero() && now >= source.until {
            source.sends = !source.sends;
            let mean = if source.sends { plan.on } else { plan.off };
            source.until = now + draw(mean.as_secs_f64());
            if !source.sends {
                let until = source.until;
                self.at(until, Due::Cross(i as u32));
                return;
            }
        }
        let mean: f64 = SIZES.iter().map(|(size, share)| *size as f64 * share).sum();
        let next = now + draw(mean * 8.0 / plan.rate.get() as f64);
        let mut at = uniform(&mut source.rng);
        let drawn = SIZES.iter().find(|(_, share)| {
            at -= share;
            at < 0.0
        });
        let size = drawn.map_or(1500, |s| s.0);
        let flow = 3_000_000 + (uniform(&mut source.rng) * 8.0) as u64;
        self.cross_bytes[plan.direction as usize] += size;
        self.send(plan.direction, flow, size, Body::Cross(i as u32));
        self.at(next, Due::Cross(i as u32));
    }
}
