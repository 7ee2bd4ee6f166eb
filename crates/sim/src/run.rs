//! Runs a scenario: rows of a recording during the run, figures at the end.

use crate::calendar::Began;
use crate::error::ScenarioError;
use crate::fault;
use crate::gateway::{ControlOutcome, Gateway};
use crate::journey::{Follower, Journeys, summed};
use crate::network::{Blind, Connection, Happening, Network, Observer};
use crate::plan::{self, End, Plan};
use crate::scenario::Scenario;
use crate::segment::Segment;
use crate::source::{Done, HEADERS, SIZES, Seen, Watched};
use crate::summary::{Stats, Summary};
use base::plugged;
use base::record::{self, Direction, Row, Status};
use base::{BitsPerSec, Duration, Ecn, Packet, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Simulated time zero in recordings of scenarios without a date: 1 January 2000, UNIX ns. A fixed date makes the same
/// seed write the same bytes.
const EPOCH_NS: i64 = 946_684_800 * 1_000_000_000;

/// Start of a run, UNIX ns.
pub fn began_ns(scenario: &Scenario) -> i64 {
    scenario.began.as_ref().map_or(EPOCH_NS, Began::unix_ns)
}

/// Receiver of rows.
pub type Rows<'a> = &'a mut dyn FnMut(Row);

/// Figures of one run. Rates, delays and shares count from the end of the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Outcome {
    /// Seed of the run.
    pub seed: u64,
    /// Simulated time, seconds; shorter than asked for if the run was stopped.
    pub simulated_s: f64,
    /// Number of events.
    pub events: u64,
    /// Figures of the links.
    pub links: Vec<LinkOutcome>,
    /// Figures of the flows.
    pub flows: Vec<FlowOutcome>,
    /// Outcome of the gateway's control, if it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlOutcome>,
}

/// Figures of one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkOutcome {
    /// Name of the link.
    pub name: String,
    /// Rate, bit/s.
    pub rate_bps: u64,
    /// Rate of whole IP packets that left the queue.
    pub delivered_bps: f64,
    /// Share of the capacity that was used.
    pub utilisation: f64,
    /// Queueing delay that a packet would have met: sampled backlog over rate. If the rate varies, sojourn times of the
    /// delivered packets instead.
    pub queue_ms: Stats,
    /// Sojourn times of the delivered packets.
    pub sojourn_ms: Stats,
    /// Packets dropped.
    pub drops: u64,
    /// Drops over packets offered.
    pub drop_share: f64,
    /// Packets marked.
    pub marks: u64,
}

/// Totals of all flows of one `[[flow]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FlowOutcome {
    /// Name of the flows.
    pub name: String,
    /// Number of equal flows.
    pub count: u64,
    /// Goodput of all flows together: payload that arrived, of TCP in order.
    pub goodput_bps: f64,
    /// Rate of the IP packets that arrived; absent for TCP.
    pub throughput_bps: Option<f64>,
    /// Jain's fairness index: 1 if all flows got the same.
    pub fairness: Option<f64>,
    /// Mean one-way delay of the packets, averaged over flows.
    pub delay_ms: Option<f64>,
    /// 95 % point of the one-way delay, ms.
    pub delay_p95_ms: Option<f64>,
    /// Delay and jitter of the first flow's packets, retransmissions included, if it is followed.
    pub journeys: Option<Journeys>,
    /// RTT of probes.
    pub rtt_ms: Option<Stats>,
    /// Segments with payload sent, retransmissions included; or datagrams sent.
    pub sent: u64,
    /// Packets dropped over packets sent.
    pub loss: Option<f64>,
    /// Packet delivery ratio: packets not dropped over packets sent.
    pub delivered: Option<f64>,
    /// Delivery ratio over the mean one-way delay in units of 100 ms, as 10·log₁₀: Thombre 2020,
    /// (6.7)–(6.9).
    pub efficacy_db: Option<f64>,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Transfers, pages, echoes, segments or connections completed. `took_ms` is the time of each, from request to
    /// completion.
    pub completed: u64,
    /// Times of transfers, pages or echoes, ms.
    pub took_ms: Option<Stats>,
    /// Completion times of sizes up to 10 kB, 100 kB, 1 MB, and above, if there are any.
    pub took_by_size: Option<BySize>,
    /// Figures of a video.
    pub video: Option<VideoOutcome>,
}

/// Times of transfers by size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BySize {
    /// Times of transfers up to 10 kB.
    pub to_10_kb_ms: Option<Stats>,
    /// Times of transfers from 10 to 100 kB.
    pub to_100_kb_ms: Option<Stats>,
    /// Times of transfers from 100 kB to 1 MB.
    pub to_1_mb_ms: Option<Stats>,
    /// Times of larger transfers.
    pub above_ms: Option<Stats>,
}

impl BySize {
    fn of(seen: &Seen) -> BySize {
        let class = |i: usize| {
            let times: &Summary = &seen.by_size[i];
            (times.count() > 0).then(|| Stats::of_ns(times))
        };
        BySize {
            to_10_kb_ms: class(0),
            to_100_kb_ms: class(1),
            to_1_mb_ms: class(2),
            above_ms: class(SIZES.len()),
        }
    }
}

/// Video figures of a group: means over its viewers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VideoOutcome {
    /// Start-up delay from request to first picture, of viewers that got one, seconds.
    pub start_s: Option<f64>,
    /// Mean bitrate of the segments that arrived.
    pub bitrate_bps: Option<f64>,
    /// Stalls per viewer.
    pub stalls: f64,
    /// Stalled time over stalled and playing time.
    pub stalled_share: Option<f64>,
    /// Changes of the bitrate.
    pub switches: f64,
}

impl VideoOutcome {
    fn of(viewers: &[Watched]) -> Option<VideoOutcome> {
        if viewers.is_empty() {
            return None;
        }
        let n = viewers.len() as f64;
        let sum = |f: fn(&Watched) -> f64| viewers.iter().map(f).sum::<f64>();
        let stalled = sum(|v| v.stalled.as_secs_f64());
        let watched = stalled + sum(|v| v.played.as_secs_f64());
        let fetched = sum(|v| v.fetched.as_secs_f64());
        let starts: Vec<f64> = viewers
            .iter()
            .filter_map(|v| v.start.map(Duration::as_secs_f64))
            .collect();
        Some(VideoOutcome {
            start_s: mean(&starts),
            bitrate_bps: (fetched > 0.0).then(|| sum(|v| v.bits as f64) / fetched),
            stalls: sum(|v| v.stalls as f64) / n,
            stalled_share: (watched > 0.0).then(|| stalled / watched),
            switches: sum(|v| v.switches as f64) / n,
        })
    }
}

/// Counters at the end of the warm-up.
#[derive(Clone, Default)]
struct Mark {
    delivered: Vec<u64>,
    wire: Vec<u64>,
    offered: Vec<u64>,
    drops: Vec<u64>,
    marks: Vec<u64>,
    received: Vec<u64>,
    /// Bytes of datagrams that arrived, headers included.
    packets: Vec<u64>,
    sent: Vec<u64>,
    lost: Vec<u64>,
    again: Vec<u64>,
}

/// Runs a scenario once.
///
/// `rows` receives the recording; without it only the samples that the figures need are taken. `step` gets the progress
/// of the run and returns true to continue; the part simulated until then is kept.
///
/// # Errors
/// The scenario cannot be run.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    rows: Option<Rows>,
    step: &mut dyn FnMut(Time) -> bool,
) -> Result<Outcome, ScenarioError> {
    // An earlier run on this thread may have left one.
    plugged::take_failure();
    let Some(plan) = plan::build_while(scenario, seed, &mut || step(Time::ZERO))? else {
        return Ok(Outcome {
            seed,
            simulated_s: 0.0,
            events: 0,
            links: Vec::new(),
            flows: Vec::new(),
            control: None,
        });
    };
    let mut runner = Runner::new(scenario, plan);
    let mut recorded = rows.map(|rows| {
        let began_ns = runner.began_ns;
        move |row| {
            if let Some(row) = fault::recorded(&scenario.faults, began_ns, row) {
                rows(row);
            }
        }
    });
    let mut rows: Option<Rows> = recorded.as_mut().map(|r| r as Rows);
    // The first observer writes the recording, the second follows packets, the third acts on them.
    let mut observers: Observers = (
        Watcher::new(scenario, &runner.plan),
        (
            Follower::new(scenario, &runner.plan),
            std::mem::take(&mut runner.plan.gateway),
        ),
    );
    let mut due = Due::new(scenario, rows.is_some());
    if let Some(rows) = &mut rows {
        facts(scenario, rows);
    } else if runner.network_samples() {
        due.queue = Time::MAX;
    }
    loop {
        let next = due.next(&runner, &observers.1.1);
        runner.advance(next, &mut observers, &mut rows);
        runner.act(next, &mut due, &mut observers, &mut rows);
        if next >= due.end {
            break;
        }
        if next >= due.slice {
            due.slice_after(runner.plan.network.events());
            if !step(next) {
                break;
            }
            failed()?;
        }
    }
    failed()?;
    Ok(runner.outcome(seed, &observers.1.0, &observers.1.1))
}

/// Error of added code that was reported during the run.
fn failed() -> Result<(), ScenarioError> {
    plugged::take_failure().map_or(Ok(()), |failure| Err(failure.into()))
}

/// Writer of the recording, follower of packets, and gateway.
type Observers = (Watcher, (Follower, Gateway));

/// Events between two checks for a stop: less than a tenth of a second.
const SLICE_EVENTS: u64 = 100_000;

/// Times of the next actions.
struct Due {
    queue: Time,
    flow: Time,
    traffic: Time,
    /// Next check for a stop, the time between checks, and the longest such time.
    slice: Time,
    every_slice: Duration,
    longest_slice: Duration,
    /// Events at the latest check.
    events: u64,
    warm: Time,
    warmed: bool,
    end: Time,
}

impl Due {
    fn new(scenario: &Scenario, recording: bool) -> Due {
        // Rare enough to cost little.
        let longest =
            (scenario.duration / 200).clamp(Duration::from_millis(200), Duration::from_secs(10));
        let slice = longest / 64;
        Due {
            queue: Time::ZERO,
            flow: if recording { Time::ZERO } else { Time::MAX },
            traffic: match scenario.sample.traffic {
                Some(every) if recording => Time::ZERO + every,
                _ => Time::MAX,
            },
            slice: Time::ZERO + slice,
            every_slice: slice,
            longest_slice: longest,
            events: 0,
            warm: Time::ZERO + scenario.warmup,
            warmed: false,
            end: Time::ZERO + scenario.duration,
        }
    }

    /// Sets the time to the next check by the events since the latest one, so that a run with very many stops soon, too.
    fn slice_after(&mut self, events: u64) {
        let passed = events - std::mem::replace(&mut self.events, events);
        self.every_slice = match passed {
            many if many > SLICE_EVENTS => self.every_slice / 2,
            few if few < SLICE_EVENTS / 4 => self.every_slice * 2,
            _ => self.every_slice,
        };
        let least = Duration::from_millis(1).min(self.longest_slice);
        self.every_slice = self.every_slice.clamp(least, self.longest_slice);
        self.slice += self.every_slice;
    }

    fn next(&self, runner: &Runner, gateway: &Gateway) -> Time {
        let ports = runner.plan.ports.as_ref().map_or(Time::MAX, |p| p.due);
        let warm = if self.warmed { Time::MAX } else { self.warm };
        (self.end.min(self.queue).min(self.slice).min(self.traffic))
            .min(self.flow)
            .min(ports)
            .min(gateway.due())
            .min(runner.plan.next_turn())
            .min(warm)
    }
}

struct Runner<'a> {
    scenario: &'a Scenario,
    plan: Plan,
    mark: Mark,
    warm: Time,
    /// Backlog as delay, for each watched link.
    backlog: Vec<Summary>,
    names: Vec<record::Text>,
    began_ns: i64,
    /// Bytes handed to the first watched link, and received from it, at the last traffic sample.
    passed: [u64; 2],
    /// Connections for which no more rows are written.
    ended: Vec<bool>,
}

impl<'a> Runner<'a> {
    fn new(scenario: &'a Scenario, plan: Plan) -> Runner<'a> {
        let mut runner = Runner {
            scenario,
            mark: Mark::default(),
            warm: Time::ZERO,
            backlog: vec![Summary::default(); plan.watched.len()],
            names: plan.watched.iter().map(|w| w.1.as_str().into()).collect(),
            began_ns: began_ns(scenario),
            passed: [0; 2],
            ended: Vec::new(),
            plan,
        };
        runner.mark = runner.counts();
        runner
    }

    /// Runs the network until `next`.
    fn advance(&mut self, next: Time, observers: &mut Observers, rows: &mut Option<Rows>) {
        let network = &mut self.plan.network;
        if let Some(rows) = rows {
            network.run_until(next, observers);
            observers.0.rows.drain(..).for_each(&mut **rows);
        } else if observers.1.0.is_empty() && observers.1.1.is_empty() {
            network.run_until(next, &mut Blind);
        } else {
            network.run_until(next, &mut observers.1);
        }
    }

    /// Does what is due at `now`.
    fn act(
        &mut self,
        now: Time,
        due: &mut Due,
        observers: &mut Observers,
        rows: &mut Option<Rows>,
    ) {
        let recording = rows.is_some();
        let refresh = |runner: &mut Runner, observers: &mut Observers| match recording {
            true => runner.refresh(observers),
            false => runner.refresh(&mut observers.1),
        };
        if !due.warmed && now >= due.warm {
            due.warmed = true;
            refresh(self, observers);
            self.begin_measurement();
        }
        self.plan.turn(now);
        if self.plan.ports.as_ref().is_some_and(|p| now >= p.due) {
            refresh(self, observers);
            let Plan { ports, network, .. } = &mut self.plan;
            ports.iter_mut().for_each(|p| p.step(network));
        }
        if now >= observers.1.1.due() {
            refresh(self, observers);
            observers.1.1.update(now, &self.plan.network, due.warmed);
        }
        if now >= due.queue {
            refresh(self, observers);
            self.sample_queues(due.warmed, rows);
            due.queue += self.scenario.sample.queue;
        }
        let Some(rows) = rows else { return };
        if now >= due.flow {
            self.sample_flows(rows);
            due.flow += self.scenario.sample.flow;
        }
        if let Some(every) = self.scenario.sample.traffic
            && now >= due.traffic
        {
            self.sample_traffic(every, observers, rows);
            due.traffic += every;
        }
    }

    fn counts(&self) -> Mark {
        let network = &self.plan.network;
        let mut mark = Mark::default();
        for (link, _, _) in &self.plan.watched {
            let s = network.link_stats(*link);
            mark.delivered.push(s.delivered.bytes.bits());
            mark.offered.push(s.offered.packets);
            mark.wire.push(s.delivered_wire.bits());
            mark.drops.push(s.dropped_by_queue());
            mark.marks.push(s.marked.packets);
        }
        for flow in &self.plan.flows {
            let (received, packets, sent, lost, again) = match flow.end {
                End::Tcp(i) => {
                    let own = network.host(i).channels().iter();
                    let forward = own
                        .map(|c| &network.connections[*c])
                        .filter(|c| !c.is_back());
                    forward.fold((0, 0, 0, 0, 0), |sum, c| {
                        let s = c.stats();
                        (
                            sum.0 + c.received(),
                            0,
                            sum.2 + s.segments,
                            sum.3 + c.lost,
                            sum.4 + s.retransmits,
                        )
                    })
                }
                End::Datagrams(i) => {
                    let d = &network.datagrams[i];
                    let payload = d.received_bytes - d.received * HEADERS;
                    (payload, d.received_bytes, d.sent, d.lost, 0)
                }
            };
            mark.received.push(received);
            mark.packets.push(packets);
            mark.sent.push(sent);
            mark.lost.push(lost);
            mark.again.push(again);
        }
        mark
    }

    /// Advances the watched links to the present time and tells the observer of the losses.
    fn refresh<O: Observer>(&mut self, observer: &mut O) {
        for (link, _, _) in &self.plan.watched {
            self.plan.network.refresh(*link, observer);
        }
    }

    /// Lets the network sample the watched links' backlog by itself, if it can for all of them.
    fn network_samples(&mut self) -> bool {
        let from = Time::ZERO + self.scenario.warmup;
        let (network, every) = (&mut self.plan.network, self.scenario.sample.queue);
        let able = |(link, _, _): &(usize, String, BitsPerSec)| network.is_plain(*link);
        if !self.plan.watched.iter().all(able) {
            return false;
        }
        for (link, _, rate) in &self.plan.watched {
            network.sample(*link, every, from, *rate);
        }
        true
    }

    fn begin_measurement(&mut self) {
        self.plan.network.begin_measurement();
        self.mark = self.counts();
        self.warm = self.plan.network.now();
    }

    /// Samples the counters of the host's interface in front of the link.
    fn sample_traffic<O: Observer>(&mut self, every: Duration, observer: &mut O, rows: &mut Rows) {
        let Some((link, ..)) = self.plan.watched.first() else {
            return;
        };
        let network = &mut self.plan.network;
        for link in [Some(*link), self.plan.back].into_iter().flatten() {
            network.refresh(link, observer);
        }
        let sent = network.link_stats(*link).offered.bytes.get();
        let back = self.plan.back.map(|back| network.link_stats(back));
        let received = back.map_or(0, |s| s.delivered.bytes.get());
        let [sent_before, received_before] = std::mem::replace(&mut self.passed, [sent, received]);
        rows(
            record::Traffic {
                t_ns: self.began_ns + network.now().as_nanos() as i64,
                interval_ns: every.as_nanos() as i64,
                interface: self.names[0].clone(),
                rx_bytes: back.map(|_| (received - received_before) as i64),
                tx_bytes: Some((sent - sent_before) as i64),
            }
            .into(),
        );
    }

    fn sample_queues(&mut self, warmed: bool, rows: &mut Option<Rows>) {
        let t_ns = self.began_ns + self.plan.network.now().as_nanos() as i64;
        for (i, (link, _, rate)) in self.plan.watched.iter().enumerate() {
            let stats = self.plan.network.link_stats(*link);
            if warmed {
                let plain = || stats.backlog.bytes.serialization_delay_ceil(*rate);
                self.backlog[i].add_span(stats.drain.unwrap_or_else(plain));
            }
            if let Some(rows) = rows {
                rows(stats.row(t_ns, self.names[i].clone()).into());
            }
        }
    }

    fn sample_flows(&mut self, rows: &mut Rows) {
        let t_ns = self.began_ns + self.plan.network.now().as_nanos() as i64;
        for (number, flow) in self.plan.flows.iter().enumerate() {
            let End::Tcp(i) = flow.end else { continue };
            let network = &self.plan.network;
            let backwards = self.scenario.flows[flow.group].backwards;
            let mut first = true;
            for &at in network.host(i).channels() {
                let c = &network.connections[at];
                // The connection with the flow's own data has the flow's number; further ones are numbered behind all
                // flows.
                let number = match !c.is_back() && std::mem::take(&mut first) {
                    true => number,
                    false => self.plan.flows.len() + at,
                };
                if self.ended.len() <= at {
                    self.ended.resize(at + 1, false);
                }
                // Nothing is known before it starts or after it ends.
                if c.sender.is_closed() || self.ended[at] {
                    continue;
                }
                self.ended[at] = network.host(i).is_over() && c.sender.is_idle();
                let direction = match backwards == c.is_back() {
                    true => Direction::Up,
                    false => Direction::Down,
                };
                rows(flow_row(t_ns, number as i64, direction, c).into());
            }
        }
    }

    fn outcome(mut self, seed: u64, follower: &Follower, gateway: &Gateway) -> Outcome {
        for (link, _, _) in &self.plan.watched {
            self.plan.network.refresh(*link, &mut Blind);
        }
        let now = self.counts();
        let network = &self.plan.network;
        let names = self.scenario.labels();
        let flows = names
            .iter()
            .enumerate()
            .map(|(group, name)| self.flow_outcome(group, name, &now, follower));
        Outcome {
            seed,
            simulated_s: network.now().as_secs_f64(),
            events: network.events(),
            flows: flows.collect(),
            links: self.link_outcomes(&now),
            control: gateway.outcome(),
        }
    }

    /// Mean per second of the measured span.
    fn per_s(&self, sum: f64) -> f64 {
        let now = self.plan.network.now();
        let span_s = now.saturating_since(self.warm).as_secs_f64();
        if span_s > 0.0 { sum / span_s } else { 0.0 }
    }

    fn link_outcomes(&self, now: &Mark) -> Vec<LinkOutcome> {
        let (network, mark) = (&self.plan.network, &self.mark);
        let links = self
            .plan
            .watched
            .iter()
            .enumerate()
            .map(|(i, (link, name, rate))| {
                let sojourn_ms = network.sojourn(*link).map(Stats::of_ns).unwrap_or_default();
                let delivered_bps = self.per_s((now.delivered[i] - mark.delivered[i]) as f64);
                let wire_bps = self.per_s((now.wire[i] - mark.wire[i]) as f64);
                let drops = now.drops[i] - mark.drops[i];
                LinkOutcome {
                    name: name.clone(),
                    rate_bps: rate.get(),
                    delivered_bps,
                    utilisation: wire_bps / BitsPerSec::get(*rate) as f64,
                    queue_ms: match self.plan.varying.contains(link) {
                        true => sojourn_ms,
                        false => Stats::of_ns(network.backlog(*link).unwrap_or(&self.backlog[i])),
                    },
                    sojourn_ms,
                    drops,
                    drop_share: drops as f64 / (now.offered[i] - mark.offered[i]).max(1) as f64,
                    marks: now.marks[i] - mark.marks[i],
                }
            });
        links.collect()
    }

    /// Sums over the instances of one flow of the scenario.
    fn flow_outcome(
        &self,
        group: usize,
        name: &str,
        now: &Mark,
        follower: &Follower,
    ) -> FlowOutcome {
        let flow = &self.scenario.flows[group];
        let mark = &self.mark;
        let mut sums = Sums::default();
        for (i, instance) in self.plan.flows.iter().enumerate() {
            if instance.group == group {
                let got = (now.received[i] - mark.received[i]) as f64;
                sums.add(got);
                sums.packets += now.packets[i] - mark.packets[i];
                sums.sent += now.sent[i] - mark.sent[i];
                sums.lost += now.lost[i] - mark.lost[i];
                sums.again += now.again[i].saturating_sub(mark.again[i]);
                sums.note(&self.plan.network, instance.end);
            }
        }
        let loss = (sums.sent > 0).then(|| sums.lost as f64 / sums.sent as f64);
        let delay_ms = mean(&sums.delays);
        FlowOutcome {
            name: name.to_owned(),
            count: flow.count,
            goodput_bps: self.per_s(sums.bytes * 8.0),
            throughput_bps: (!flow.is_tcp()).then(|| self.per_s(sums.packets as f64 * 8.0)),
            fairness: (sums.n > 1.0 && sums.squares > 0.0)
                .then(|| sums.bytes * sums.bytes / (sums.n * sums.squares)),
            delay_ms,
            delay_p95_ms: mean(&sums.p95s),
            journeys: follower.of(group).and_then(|j| summed(&j, self.warm)),
            rtt_ms: (flow.kind() == PROBE).then(|| Stats::of_ns(&sums.rtt)),
            sent: sums.sent,
            loss,
            delivered: loss.map(|l| 1.0 - l),
            efficacy_db: loss
                .zip(delay_ms)
                .map(|(l, d)| 10.0 * ((1.0 - l) / (d / 100.0)).log10())
                .filter(|e| e.is_finite()),
            retransmits: sums.again,
            timeouts: sums.timeouts,
            completed: sums.seen.took.count(),
            took_ms: (sums.seen.took.count() > 0).then(|| Stats::of_ns(&sums.seen.took)),
            took_by_size: (flow.kind() == "sessions").then(|| BySize::of(&sums.seen)),
            video: VideoOutcome::of(&sums.videos),
        }
    }
}

fn flow_row(t_ns: i64, flow: i64, direction: Direction, c: &Connection) -> record::Flow {
    let state = c.sender.controller();
    let (rtt, stats) = (c.sender.rtt(), c.stats());
    let ns = |d: Option<Duration>| d.map(|d| d.as_nanos() as i64);
    record::Flow {
        t_ns,
        flow,
        direction,
        bytes_acked: Some(c.acknowledged() as i64),
        delivered_bytes: Some(c.delivered() as i64),
        bytes_received: Some(c.received() as i64),
        cwnd_bytes: Some(state.cwnd.get() as i64),
        ssthresh_bytes: state.ssthresh.map(|s| s.get() as i64),
        srtt_ns: ns(rtt.srtt()),
        rttvar_ns: ns(rtt.rttvar()),
        min_rtt_ns: ns(rtt.min_rtt()),
        retransmits: Some(stats.retransmits as i64),
        delivery_rate_bps: None,
        mss_bytes: Some(c.sender.settings().mss.get() as i64),
    }
}

/// Sums over the flows of a group.
#[derive(Default)]
struct Sums {
    n: f64,
    bytes: f64,
    squares: f64,
    packets: u64,
    sent: u64,
    lost: u64,
    again: u64,
    timeouts: u64,
    seen: Seen,
    videos: Vec<Watched>,
    delays: Vec<f64>,
    p95s: Vec<f64>,
    rtt: Summary,
}

impl Sums {
    fn add(&mut self, bytes: f64) {
        self.n += 1.0;
        self.bytes += bytes;
        self.squares += bytes * bytes;
    }

    fn note(&mut self, network: &Network, end: End) {
        match end {
            End::Tcp(i) => {
                let host = network.host(i);
                self.seen.merge(&host.seen);
                self.videos.extend(network.video(i));
                let mut delay = Summary::default();
                for c in host.channels().iter().map(|c| &network.connections[*c]) {
                    self.timeouts += c.stats().timeouts;
                    if !c.is_back() {
                        delay.merge(&c.delay);
                    }
                }
                self.note_delay(&delay);
            }
            End::Datagrams(i) => {
                let d = &network.datagrams[i];
                self.rtt.merge(&d.rtt);
                self.note_delay(&d.delay);
            }
        }
    }

    fn note_delay(&mut self, delay: &Summary) {
        self.delays.extend(delay.mean().map(|ns| ns / 1e6));
        self.p95s.extend(delay.quantile(0.95).map(|ns| ns / 1e6));
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Source kind whose packets each have a row.
const PROBE: &str = "probe";

/// Facts that the analysis needs: the phases, and the size of the probes.
fn facts(scenario: &Scenario, rows: &mut Rows) {
    let mut events: Vec<(Duration, &str, &str, String)> = Vec::new();
    for flow in scenario.flows.iter().filter(|f| f.kind() == PROBE) {
        let size = crate::source::registry::probe_size(&flow.source).get();
        let name = if flow.name.is_empty() {
            "udp"
        } else {
            &flow.name
        };
        let detail = serde_json::json!({ "ip_bytes": size }).to_string();
        events.push((Duration::ZERO, "probe", name, detail));
    }
    for phase in &scenario.phases {
        let name = &phase.name;
        events.push((phase.from, "phase", name, String::new()));
        if let Some(warmup) = phase.warmup {
            events.push((phase.from + warmup, "warmup_end", name, String::new()));
        }
        events.push((phase.to, "phase_end", name, String::new()));
    }
    events.sort_by_key(|e| e.0);
    for (at, kind, subject, detail) in events {
        rows(
            record::Event {
                t_ns: began_ns(scenario) + at.as_nanos() as i64,
                kind: kind.into(),
                subject: subject.into(),
                detail: detail.into(),
            }
            .into(),
        );
    }
}

/// Time after which an answer is late: the monitor of Borlaug 2014, section 4.5.2, waits 10 s.
const LATE: Duration = Duration::from_secs(10);

/// Upper limit on the probe numbers of one flow.
const NUMBERS: i64 = 1_000_000_000;

/// Writes the fate of each probe.
struct Watcher {
    began_ns: i64,
    rows: Vec<Row>,
    /// Sources by the flow of the packets: number of the source, and true for the reverse direction.
    probes: BTreeMap<u64, (usize, bool)>,
    targets: Vec<record::Text>,
    dscps: Vec<i64>,
    /// Number of each flow's first probe; the numbers of several flows to one target are consecutive.
    firsts: Vec<i64>,
    /// Labels of the applications.
    labels: BTreeMap<usize, record::Text>,
}

impl Watcher {
    fn new(scenario: &Scenario, plan: &Plan) -> Watcher {
        let mut watcher = Watcher {
            began_ns: began_ns(scenario),
            rows: Vec::new(),
            probes: BTreeMap::new(),
            targets: vec!["udp".into(); plan.network.datagrams.len()],
            dscps: vec![0; plan.network.datagrams.len()],
            firsts: vec![0; plan.network.datagrams.len()],
            labels: BTreeMap::new(),
        };
        for instance in &plan.flows {
            let flow = &scenario.flows[instance.group];
            if let End::Tcp(i) = instance.end {
                watcher.labels.insert(i, flow.label().into());
            }
            if let (End::Datagrams(i), PROBE) = (instance.end, flow.kind()) {
                let (there, back) = plan.network.datagrams[i].flows();
                watcher.probes.insert(there.0, (i, false));
                watcher.probes.extend(back.map(|back| (back.0, (i, true))));
                watcher.dscps[i] = i64::from(flow.dscp.get());
                if !flow.name.is_empty() {
                    watcher.targets[i] = flow.name.as_str().into();
                }
                let target = &watcher.targets[i];
                let others = watcher
                    .probes
                    .values()
                    .filter(|(j, back)| !back && *j != i && watcher.targets[*j] == *target);
                watcher.firsts[i] = others.count() as i64 * NUMBERS;
            }
        }
        watcher
    }

    fn row(&self, flow: usize, probe: &Segment, status: Status) -> record::Delay {
        record::Delay {
            sent_ns: self.began_ns + probe.sent.as_nanos() as i64,
            seq: self.firsts[flow] + probe.seq as i64,
            target: self.targets[flow].clone(),
            rtt_ns: None,
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: None,
            late_send_ns: Some(0),
            status,
            ecn: None,
            dscp: None,
        }
    }
}

impl Observer for Watcher {
    fn packet(&mut self, _now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        if let Happening::Dropped(_) = what
            && let Some(&(flow, back)) = self.probes.get(&packet.flow.0)
        {
            let status = if back {
                Status::LostDown
            } else {
                Status::LostUp
            };
            let row = self.row(flow, segment, status);
            self.rows.push(row.into());
        }
    }

    fn done(&mut self, now: Time, application: usize, done: &Done) {
        let took_ms = now.saturating_since(done.began).as_millis_f64();
        let detail = serde_json::json!({ "took_ms": took_ms, "bytes": done.bytes });
        let event = record::Event {
            t_ns: self.began_ns + now.as_nanos() as i64,
            kind: done.what.into(),
            subject: self.labels[&application].clone(),
            detail: detail.to_string().into(),
        };
        self.rows.push(event.into());
    }

    fn answer(&mut self, now: Time, flow: usize, probe: &Segment, ecn: Ecn) {
        let rtt = now.saturating_since(probe.sent);
        let there = probe.delay.as_nanos() as i64;
        let status = if rtt > LATE { Status::Late } else { Status::Ok };
        let mut row = self.row(flow, probe, status);
        row.rtt_ns = Some(rtt.as_nanos() as i64);
        row.owd_up_ns = Some(there);
        row.owd_down_ns = Some(rtt.as_nanos() as i64 - there);
        row.remote_rx_ns = Some(row.sent_ns + there);
        row.remote_tx_ns = row.remote_rx_ns;
        row.host_ns = Some(0);
        row.ecn = Some(i64::from(ecn.bits()));
        row.dscp = Some(self.dscps[flow]);
        self.rows.push(row.into());
    }
}
