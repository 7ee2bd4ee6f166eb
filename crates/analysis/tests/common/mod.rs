//! A whole test in virtual time: `link`'s own queues between two hosts with a TCP, probes and clocks,
//! recorded as the real one is. The truth is known, so the analysis can be held to it.

mod tcp;

use base::record::{Delay, Direction, Event, Flow, Meta, Recording, Status};
use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::Fates;
use link::{Link, LinkSpec};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tcp::{MSS, Ns, Receiver, Sender};

const S: Ns = 1_000_000_000;
const MS: Ns = 1_000_000;
const PROBE_BYTES: u64 = 92;
const EPOCH: Ns = 1_700_000_000 * S;

#[derive(Clone, Debug)]
pub struct Plan {
    pub link: LinkSpec,
    pub seed: u64,
    pub flows: usize,
    pub probe_every: Ns,
    /// Far clock minus near clock at the start, and its drift.
    pub clock_offset: Ns,
    pub drift_ppm: f64,
    pub same_clock: bool,
    /// Longest time of a loaded phase.
    pub most: Ns,
    pub warm_up: Ns,
    /// The most packets a flow may have under way.
    pub most_packets: f64,
    pub phases: Vec<&'static str>,
}

impl Plan {
    pub fn new(link: &str, seed: u64) -> Plan {
        let link = LinkSpec::named(link).unwrap();
        let slow = link.name == "gprs";
        let every = match link.name.as_str() {
            "adsl" | "gprs" => 250 * MS,
            "shdsl" => 100 * MS,
            _ => 10 * MS,
        };
        Plan {
            link,
            seed,
            flows: 1,
            probe_every: every,
            clock_offset: 0,
            drift_ppm: 0.0,
            same_clock: true,
            most: if slow { 180 * S } else { 60 * S },
            warm_up: if slow { 15 * S } else { 3 * S },
            most_packets: f64::INFINITY,
            phases: vec!["idle", "down", "up", "both"],
        }
    }
    pub fn set(mut self, key: &str, value: &str) -> Plan {
        self.link.set(key, value).unwrap();
        self
    }
}

#[derive(Clone, Debug)]
enum Body {
    Probe {
        seq: i64,
    },
    Answer {
        seq: i64,
    },
    Data {
        flow: usize,
        seq: i64,
    },
    Ack {
        flow: usize,
        next: i64,
        sack: Vec<i64>,
    },
    Fresh {
        number: i64,
        step: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Probe,
    Fresh,
    Sample,
    DelayedAck(usize, i64),
    TimeOut,
    Start(usize),
    Control,
    SendProbeAnswer(i64),
}

struct Transfer {
    direction: Direction,
    sender: Sender,
    receiver: Receiver,
    running: bool,
}

struct Toy {
    plan: Plan,
    up: Link,
    down: Link,
    bodies: BTreeMap<u64, Body>,
    next_id: u64,
    due: BinaryHeap<Reverse<(Ns, u64, Due)>>,
    order: u64,
    transfers: Vec<Transfer>,
    rec: Recording,
    /// Probes on their way: row, far receive time.
    open: BTreeMap<i64, Delay>,
    fresh: BTreeMap<i64, (Ns, Ns)>,
    probe_seq: i64,
    noise: Rng,
    phase: usize,
    phase_from: Ns,
    warm: bool,
    draining: Option<Ns>,
    done: bool,
}

/// Runs the plan; each phase ends when the analysis' own stop rule says so.
pub fn run(plan: Plan) -> Recording {
    let streams = Streams::new(plan.seed);
    let (up, down) = (
        plan.link.up.params().unwrap(),
        plan.link.down.params().unwrap(),
    );
    let mut toy = Toy {
        up: Link::new(&up, &streams, "up"),
        down: Link::new(&down, &streams, "down"),
        bodies: BTreeMap::new(),
        next_id: 0,
        due: BinaryHeap::new(),
        order: 0,
        transfers: Vec::new(),
        rec: Recording {
            meta: Meta {
                title: plan.link.title.clone(),
                verb: "test".into(),
                started_ns: EPOCH,
                complete: true,
                ..Meta::default()
            },
            ..Recording::default()
        },
        open: BTreeMap::new(),
        fresh: BTreeMap::new(),
        probe_seq: 0,
        noise: streams.stream("host noise"),
        phase: 0,
        phase_from: 0,
        warm: false,
        draining: None,
        done: false,
        plan,
    };
    if toy.plan.same_clock {
        toy.event(0, "clock", "same");
    }
    toy.begin(0);
    // Nothing in a real test is in step with anything else.
    for due in [Due::Probe, Due::Sample, Due::TimeOut] {
        let late = (uniform(&mut toy.noise) * 5e7) as Ns;
        toy.at(late, due);
    }
    toy.at(S, Due::Control);
    toy.at(S, Due::Fresh);
    toy.go();
    toy.rec.delay.sort_by_key(|d| d.sent_ns);
    toy.rec
}

impl Toy {
    fn at(&mut self, t: Ns, due: Due) {
        self.order += 1;
        self.due.push(Reverse((t, self.order, due)));
    }

    fn event(&mut self, t: Ns, kind: &str, subject: &str) {
        self.rec.event.push(Event {
            t_ns: EPOCH + t,
            kind: kind.into(),
            subject: subject.into(),
            detail: "".into(),
        });
    }

    fn go(&mut self) {
        let mut fates = Fates::default();
        while !self.done {
            let next = self.due.peek().map(|d| d.0.0).unwrap_or(Ns::MAX);
            let wake = [self.up.next_wakeup(), self.down.next_wakeup()]
                .into_iter()
                .flatten()
                .min()
                .map_or(Ns::MAX, |t| t.as_nanos() as Ns);
            if wake <= next {
                let t = Time::from_nanos(wake as u64);
                while let Some(d) = self.up.poll(t, &mut fates) {
                    self.arrive(
                        Direction::Up,
                        d.packet.id.0,
                        d.at.as_nanos() as Ns,
                        &mut fates,
                    );
                }
                while let Some(d) = self.down.poll(t, &mut fates) {
                    self.arrive(
                        Direction::Down,
                        d.packet.id.0,
                        d.at.as_nanos() as Ns,
                        &mut fates,
                    );
                }
            } else {
                let Reverse((t, _, due)) = self.due.pop().unwrap();
                self.happen(t, due, &mut fates);
            }
            self.bury(&mut fates);
        }
    }

    /// Probes that the queues dropped.
    fn bury(&mut self, fates: &mut Fates) {
        for (packet, fate) in fates.list.drain(..) {
            if !matches!(fate, link::qdisc::Fate::Dropped(_)) {
                continue;
            }
            let status = match self.bodies.remove(&packet.id.0) {
                Some(Body::Probe { seq }) => (seq, Status::LostUp),
                Some(Body::Answer { seq }) => (seq, Status::LostDown),
                _ => continue,
            };
            if let Some(mut row) = self.open.remove(&status.0) {
                row.status = status.1;
                row.remote_rx_ns = None;
                row.remote_tx_ns = None;
                self.rec.delay.push(row);
            }
        }
    }

    fn send(&mut self, t: Ns, way: Direction, flow: u64, len: u64, body: Body, fates: &mut Fates) {
        let id = self.next_id;
        self.next_id += 1;
        self.bodies.insert(id, body);
        let packet = Packet {
            id: PacketId(id),
            flow: FlowId(flow),
            len: Bytes::new(len),
            dscp: 0,
            ecn: Ecn::NotEct,
            enqueued: Time::ZERO,
        };
        let now = Time::from_nanos(t as u64);
        match way {
            Direction::Up => self.up.enqueue(now, packet, fates),
            Direction::Down => self.down.enqueue(now, packet, fates),
        }
    }

    fn far_clock(&self, t: Ns) -> Ns {
        EPOCH + t + self.plan.clock_offset + (t as f64 * self.plan.drift_ppm * 1e-6) as Ns
    }

    fn happen(&mut self, t: Ns, due: Due, fates: &mut Fates) {
        match due {
            Due::Probe => {
                let seq = self.probe_seq;
                self.probe_seq += 1;
                let row = Delay {
                    host_ns: Some(40_000),
                    late_send_ns: Some(20_000),
                    ..Delay::unanswered(EPOCH + t, seq, "udp".into())
                };
                self.open.insert(seq, row);
                self.send(
                    t,
                    Direction::Up,
                    1_000_001,
                    PROBE_BYTES,
                    Body::Probe { seq },
                    fates,
                );
                self.at(t + self.plan.probe_every, Due::Probe);
            }
            Due::SendProbeAnswer(seq) => {
                self.send(
                    t,
                    Direction::Down,
                    1_000_001,
                    PROBE_BYTES,
                    Body::Answer { seq },
                    fates,
                );
            }
            Due::Fresh => {
                let number = self.next_id as i64;
                self.fresh.insert(number, (t, 0));
                self.send(
                    t,
                    Direction::Up,
                    2_000_000 + number as u64,
                    60,
                    Body::Fresh { number, step: 0 },
                    fates,
                );
                self.at(t + S, Due::Fresh);
            }
            Due::Sample => {
                self.sample(t);
                self.at(t + 100 * MS, Due::Sample);
            }
            Due::TimeOut => {
                for i in 0..self.transfers.len() {
                    self.transfers[i].sender.time_out(t);
                    self.pump(i, t, fates);
                }
                self.at(t + 50 * MS, Due::TimeOut);
            }
            Due::DelayedAck(i, next) => {
                let r = &self.transfers[i].receiver;
                if r.unacked > 0 && r.next == next {
                    self.acknowledge(i, t, fates);
                }
            }
            Due::Start(i) => {
                self.transfers[i].running = true;
                self.pump(i, t, fates);
            }
            Due::Control => {
                self.control(t);
                self.at(t + S, Due::Control);
            }
        }
    }

    fn sample(&mut self, t: Ns) {
        for (i, x) in self.transfers.iter().enumerate() {
            if !x.running {
                continue;
            }
            let row = Flow {
                bytes_acked: Some(x.sender.acked * MSS),
                cwnd_bytes: Some(x.sender.cwnd as i64 * MSS),
                ssthresh_bytes: x.sender.ssthresh.map(|s| s as i64 * MSS),
                srtt_ns: x.sender.srtt.map(|s| s as i64),
                rttvar_ns: Some(x.sender.rttvar as i64),
                min_rtt_ns: Some(x.sender.min_rtt),
                retransmits: Some(x.sender.retransmits),
                mss_bytes: Some(MSS),
                ..Flow::about(EPOCH + t, i as i64, x.direction)
            };
            if x.direction == Direction::Down {
                // The receiver's own count, beside what the far sender reports.
                self.rec.flow.push(Flow {
                    bytes_acked: None,
                    bytes_received: Some(x.receiver.next * MSS),
                    cwnd_bytes: None,
                    ssthresh_bytes: None,
                    srtt_ns: None,
                    rttvar_ns: None,
                    min_rtt_ns: None,
                    retransmits: None,
                    mss_bytes: None,
                    ..row.clone()
                });
            }
            self.rec.flow.push(row);
        }
    }

    fn begin(&mut self, t: Ns) {
        let name = self.plan.phases[self.phase];
        self.phase_from = t;
        self.warm = false;
        self.event(t, "phase", name);
        for direction in [Direction::Down, Direction::Up] {
            if name == "both" || name == direction.word() {
                for _ in 0..self.plan.flows {
                    self.transfers.push(Transfer {
                        direction,
                        sender: Sender::new(self.plan.most_packets),
                        receiver: Receiver::default(),
                        running: false,
                    });
                    let late = (uniform(&mut self.noise) * 2e8) as Ns;
                    self.at(t + late, Due::Start(self.transfers.len() - 1));
                }
            }
        }
    }

    /// What the conductor of a real test does each second.
    fn control(&mut self, t: Ns) {
        if let Some(until) = self.draining {
            if t >= until {
                self.draining = None;
                self.phase += 1;
                if self.phase == self.plan.phases.len() {
                    self.done = true;
                } else {
                    self.begin(t);
                }
            }
            return;
        }
        let name = self.plan.phases[self.phase];
        if !self.warm && name != "idle" && t - self.phase_from >= self.plan.warm_up {
            self.warm = true;
            self.event(t, "warmup_end", name);
        }
        let most = if name == "idle" {
            15 * S
        } else {
            self.plan.most
        };
        if t - self.phase_from >= most || analysis::stable(&self.rec, name, EPOCH + t).stable {
            self.event(t, "phase_end", name);
            self.event(t, "phase", "drain");
            self.transfers.iter_mut().for_each(|x| x.running = false);
            self.draining = Some(
                t + if self.plan.most > 100 * S {
                    8 * S
                } else {
                    2 * S
                },
            );
        }
    }

    fn pump(&mut self, i: usize, t: Ns, fates: &mut Fates) {
        while self.transfers[i].running
            && let Some(seq) = self.transfers[i].sender.transmit(t)
        {
            let way = self.transfers[i].direction;
            self.send(t, way, i as u64, 1500, Body::Data { flow: i, seq }, fates);
        }
    }

    fn acknowledge(&mut self, i: usize, t: Ns, fates: &mut Fates) {
        let x = &mut self.transfers[i];
        let (sack, next) = (x.receiver.sack(), x.receiver.next);
        let way = match x.direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        self.send(
            t,
            way,
            i as u64,
            52,
            Body::Ack {
                flow: i,
                next,
                sack,
            },
            fates,
        );
    }

    /// Interrupts and timers of a host: tens of microseconds.
    fn host_noise(&mut self) -> Ns {
        (-uniform(&mut self.noise).max(1e-9).ln() * 15_000.0) as Ns
    }

    fn arrive(&mut self, way: Direction, id: u64, t: Ns, fates: &mut Fates) {
        let Some(body) = self.bodies.remove(&id) else {
            return;
        };
        match body {
            Body::Probe { seq } => {
                let at = t + self.host_noise();
                let (rx, tx) = (self.far_clock(at), self.far_clock(at + 30_000));
                if let Some(row) = self.open.get_mut(&seq) {
                    (row.remote_rx_ns, row.remote_tx_ns) = (Some(rx), Some(tx));
                }
                self.at(at + 30_000, Due::SendProbeAnswer(seq));
            }
            Body::Answer { seq } => {
                let at = t + self.host_noise();
                if let Some(mut row) = self.open.remove(&seq) {
                    row.rtt_ns = Some(EPOCH + at - row.sent_ns - 30_000);
                    row.status = Status::Ok;
                    self.rec.delay.push(row);
                }
            }
            Body::Data { flow, seq } => {
                if self.transfers[flow].receiver.take(seq) {
                    self.acknowledge(flow, t, fates);
                } else {
                    let next = self.transfers[flow].receiver.next;
                    self.at(t + 40 * MS, Due::DelayedAck(flow, next));
                }
            }
            Body::Ack { flow, next, sack } => {
                self.transfers[flow].sender.ack(t, next, &sack);
                self.pump(flow, t, fates);
            }
            Body::Fresh { number, step } => self.fresh_arrives(way, number, step, t, fates),
        }
    }

    fn fresh_arrives(&mut self, way: Direction, number: i64, step: u8, t: Ns, fates: &mut Fates) {
        let flow = 2_000_000 + number as u64;
        match way {
            Direction::Up => self.send(
                t,
                Direction::Down,
                flow,
                60,
                Body::Fresh { number, step },
                fates,
            ),
            Direction::Down => {
                let Some((from, _)) = self.fresh.remove(&number) else {
                    return;
                };
                let target = if step == 0 {
                    "tcp-connect"
                } else {
                    "tcp-request"
                };
                self.rec.delay.push(Delay {
                    rtt_ns: Some(t - from),
                    status: Status::Ok,
                    ..Delay::unanswered(EPOCH + from, number, target.into())
                });
                if step == 0 {
                    self.fresh.insert(number, (t, 0));
                    self.send(
                        t,
                        Direction::Up,
                        flow,
                        53,
                        Body::Fresh { number, step: 1 },
                        fates,
                    );
                }
            }
        }
    }
}
