//! The phases of `tailback test`: idle, download, upload, both. This room runs them and hands every
//! row to the recorder; whether the figures are good enough to go on is asked of a [`Watch`].

use crate::clock::Clock;
use crate::craft::{self, CraftError};
use crate::errand::Tally;
use crate::host::CpuSampler;
use crate::load::{
    Access, ForeignPlan, ForeignProbe, Load, LoadError, LoadPlan, Peer, Stopped, Turn,
};
use crate::probe::{ProbeError, ProbePlan, Prober};
use crate::traffic::{TrafficError, TrafficMonitor};
use base::program::{Sending, Train};
use base::record::{Direction, Event, Row};
use base::{BitsPerSec, Bytes, Duration};
use measure::cadence;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// Everything that decides how a test runs; kept in the recording, so that it can be run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestPlan {
    /// The far end as the user named it, or `embedded`.
    pub server: String,
    pub phases: Vec<Phase>,
    /// An idle phase lasts at least and at most this long.
    pub idle_min: Duration,
    pub idle_max: Duration,
    /// A loaded phase lasts at least this long after its warm-up.
    pub loaded_min: Duration,
    /// A loaded phase lasts at most this long after its warm-up, or 40 round trips under load where that is more.
    pub loaded_max: Duration,
    /// Upper limit on a loaded phase, warm-up included, whatever the round trip.
    #[serde(default)]
    pub longest: Option<Duration>,
    /// No phase outlasts this, however slow the line.
    pub phase_cap: Duration,
    /// TCP connections in each direction; by the line's rate where not given.
    pub flows: Option<u32>,
    /// CUBIC where the kernel lets us, if not given.
    pub congestion: Option<String>,
    /// UDP at this rate instead of TCP.
    pub udp_rate: Option<BitsPerSec>,
    /// Time between probes; by the line's rate where not given.
    pub probe_interval: Option<Duration>,
    /// Interface whose counters show other traffic; the one that leads to the server where not given.
    pub interface: Option<String>,
    /// Wait this long for others to leave the line before the test begins.
    pub hold_off: Option<Duration>,
    /// True to wait while another client loads the server's uplink; false to fail at once.
    #[serde(default = "default_waits")]
    pub waits: bool,
    /// Upper limit on the data of all loads and trains, both directions together.
    #[serde(default = "default_budget")]
    pub budget: Bytes,
    /// Upper limit on the overload trains of one direction.
    #[serde(default = "default_train_budget")]
    pub train_budget: Bytes,
}

fn default_waits() -> bool {
    true
}

fn default_budget() -> Bytes {
    Bytes::new(400_000_000)
}

fn default_train_budget() -> Bytes {
    Bytes::new(60_000_000)
}

impl Default for TestPlan {
    fn default() -> TestPlan {
        TestPlan {
            server: "embedded".into(),
            phases: vec![Phase::Idle, Phase::Down, Phase::Up, Phase::Both],
            idle_min: Duration::from_secs(5),
            idle_max: Duration::from_secs(10),
            loaded_min: Duration::from_secs(8),
            loaded_max: Duration::from_secs(15),
            longest: None,
            phase_cap: Duration::from_secs(90),
            flows: None,
            congestion: None,
            udp_rate: None,
            probe_interval: None,
            interface: None,
            hold_off: None,
            waits: default_waits(),
            budget: default_budget(),
            train_budget: default_train_budget(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Idle,
    Down,
    Up,
    Both,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Down => "down",
            Phase::Up => "up",
            Phase::Both => "both",
        }
    }

    fn loads(self) -> &'static [Direction] {
        match self {
            Phase::Idle => &[],
            Phase::Down => &[Direction::Down],
            Phase::Up => &[Direction::Up],
            Phase::Both => &[Direction::Down, Direction::Up],
        }
    }
}

/// What the orchestrator must know of the rows so far, and what it tells of its progress.
pub trait Watch {
    /// Whether the figures of the running phase are settled, and in words why or why not.
    fn stable(&mut self, phase: Phase, now_ns: i64) -> (bool, String);
    /// Round trip of the latest answered probe, or how long the next one has been waiting already, whichever
    /// is more: where a queue of seconds builds up, answers tell of it seconds late.
    fn rtt_now(&mut self) -> Option<Duration>;
    /// Smallest round trip so far.
    fn base_rtt(&mut self) -> Option<Duration>;
    /// The next overload train after the phase that loads `direction` alone, given those sent since; `None` where nothing is
    /// open, or where it would send more than `budget`.
    fn next_train(
        &mut self,
        direction: Direction,
        trains: &[Train],
        budget: Bytes,
    ) -> Option<Sending>;
    /// Amount of data that the test is about to carry, once the link's rate is roughly known.
    fn estimate(&mut self, estimate: Estimate);
    fn progress(&mut self, progress: Progress);
    /// True if the user asked to stop.
    fn interrupted(&mut self) -> bool;
}

/// Data that a test is about to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of all loads, both directions together; `None` where the link's rate is not known yet.
    pub about: Option<Bytes>,
    /// Upper limit on it.
    pub budget: Bytes,
}

#[derive(Clone, Debug)]
pub struct Progress {
    pub phase: &'static str,
    pub elapsed: Duration,
    /// The longest that the phase can last from now, as far as is known.
    pub at_most: Duration,
    pub rate_down: Option<BitsPerSec>,
    pub rate_up: Option<BitsPerSec>,
    pub note: String,
}

/// Why a test ended early. What was measured so far is in the recording.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    #[error(transparent)]
    Craft(#[from] CraftError),
    #[error(
        "others kept using the line for {waited:.3}: {down:.3} down, {up:.3} up. Wait for them to finish, or leave out --hold-off: the report shows their share"
    )]
    LineBusy {
        waited: Duration,
        down: BitsPerSec,
        up: BitsPerSec,
    },
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

const TICK: Duration = Duration::from_millis(200);
struct Run<'a> {
    plan: &'a TestPlan,
    peer: Peer,
    clock: Clock,
    rows: Sender<Row>,
    watch: &'a mut (dyn Watch + Send),
    traffic: &'a TrafficMonitor,
    prober: Prober,
    probe_size: Bytes,
    trains: i64,
    /// Bytes that loads and trains have carried so far, both directions together.
    spent: Bytes,
    rate_down: Option<BitsPerSec>,
    rate_up: Option<BitsPerSec>,
    next_flow: i64,
}

/// Runs all phases from the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(
    plan: &TestPlan,
    server: SocketAddr,
    access: Access,
    clock: Clock,
    rows: Sender<Row>,
    watch: &mut (dyn Watch + Send),
) -> Result<(), TestError> {
    let peer = Peer {
        server,
        access: access.clone(),
        patience: Duration::from_secs(10),
    };
    let traffic = TrafficMonitor::start(
        plan.interface.as_deref(),
        server,
        Duration::from_millis(100),
        clock,
        rows.clone(),
    )?;
    let cpu = CpuSampler::start(Duration::from_secs(1), clock, rows.clone())
        .map_err(TestError::Thread)?;
    if let Some(longest) = plan.hold_off {
        hold_off(&traffic, longest, watch)?;
    }
    let first = plan.probe_interval.unwrap_or(cadence::UNKNOWN);
    let probe = ProbePlan {
        interval: first,
        shortest_interval: first.min(cadence::FASTEST),
        access: access.clone(),
        ..ProbePlan::new(server)
    };
    let probe_size = probe.ip_size();
    let prober = Prober::start(probe, clock, rows.clone())?;
    // After the prober: who is not there, or filtered, is told by its answers to datagrams.
    let _turn = match plan.phases.iter().any(|p| !p.loads().is_empty()) {
        true => Some(take_turn(plan, &peer, watch)?),
        false => None,
    };
    let mut run = Run {
        plan,
        peer,
        clock,
        rows,
        watch,
        traffic: &traffic,
        prober,
        probe_size,
        trains: 0,
        spent: Bytes::ZERO,
        rate_down: None,
        rate_up: None,
        next_flow: 0,
    };
    run.event(
        "probe",
        "udp",
        serde_json::json!({ "ip_bytes": probe_size.get() }).to_string(),
    );
    let result = run.phases();
    run.prober.stop();
    traffic.stop();
    cpu.stop();
    result
}

/// Waits until the server's uplink is free of other clients' load, and keeps it.
fn take_turn(
    plan: &TestPlan,
    peer: &Peer,
    watch: &mut (dyn Watch + Send),
) -> Result<Turn, TestError> {
    let loads: usize = plan.phases.iter().map(|p| p.loads().len()).sum();
    let lasts = plan.idle_max + (plan.phase_cap + plan.phase_cap) * loads as u64;
    let mut waited = Duration::ZERO;
    let mut interrupted = false;
    let turn = peer.turn(lasts, &mut |standing| {
        watch.progress(Progress {
            phase: "queue",
            elapsed: waited,
            at_most: standing.after,
            rate_down: None,
            rate_up: None,
            note: standing.to_string(),
        });
        waited += Duration::from_secs(1);
        interrupted = watch.interrupted();
        plan.waits && !interrupted
    });
    match turn {
        Err(_) if interrupted => Err(TestError::Interrupted),
        other => Ok(other?),
    }
}

fn hold_off(
    traffic: &TrafficMonitor,
    longest: Duration,
    watch: &mut (dyn Watch + Send),
) -> Result<(), TestError> {
    const WINDOW: Duration = Duration::from_secs(2);
    let mut waited = Duration::ZERO;
    loop {
        std::thread::sleep(TICK.to_std());
        waited += TICK;
        if watch.interrupted() {
            return Err(TestError::Interrupted);
        }
        let Some(rates) = traffic.idle_rate(WINDOW) else {
            continue;
        };
        if !rates.others_use_the_link() {
            return Ok(());
        }
        if waited >= longest {
            return Err(TestError::LineBusy {
                waited,
                down: rates.down,
                up: rates.up,
            });
        }
        watch.progress(Progress {
            phase: "hold off",
            elapsed: waited,
            at_most: longest.saturating_sub(waited),
            rate_down: Some(rates.down),
            rate_up: Some(rates.up),
            note: "others use the line".into(),
        });
    }
}

impl Run<'_> {
    fn phases(&mut self) -> Result<(), TestError> {
        // A rough rate first, so that the probes do not become the load. A train that got no answer
        // leaves the careful cadence in place.
        if let Some(train) = self.prober.train(8, Bytes::new(1200))? {
            self.rate_down = Some(train.down);
            self.rate_up = Some(train.up);
        }
        let estimate = Estimate {
            about: self.expected(),
            budget: self.plan.budget,
        };
        self.watch.estimate(estimate);
        for (i, &phase) in self.plan.phases.iter().enumerate() {
            match phase {
                Phase::Idle => self.idle()?,
                loaded => self.loaded(loaded, self.allowance(&self.plan.phases[i..]))?,
            }
        }
        Ok(())
    }

    /// Bytes that the loaded phases carry at the rates known so far, within the budget.
    fn expected(&self) -> Option<Bytes> {
        let seconds = Duration::from_secs(2) + self.plan.loaded_min;
        let mut bytes = 0.0;
        for d in self.plan.phases.iter().flat_map(|p| p.loads()) {
            bytes += self.rate(*d)?.get() as f64 / 8.0 * seconds.as_secs_f64();
        }
        Some(Bytes::new(bytes as u64).min(self.plan.budget))
    }

    /// Part of the remaining budget for the first of the phases `left`, by the number of directions that each loads.
    fn allowance(&self, left: &[Phase]) -> Bytes {
        let directions: usize = left.iter().map(|p| p.loads().len()).sum();
        let own = left.first().map_or(0, |p| p.loads().len());
        let rest = self.plan.budget.get().saturating_sub(self.spent.get());
        Bytes::new(rest / directions.max(1) as u64 * own as u64)
    }

    fn event(&self, kind: &str, subject: &str, detail: String) {
        let event = Event {
            t_ns: self.clock.unix_ns(),
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        };
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(event.into());
    }

    fn tick(&mut self) -> Result<(), TestError> {
        std::thread::sleep(TICK.to_std());
        if self.watch.interrupted() {
            return Err(TestError::Interrupted);
        }
        self.prober.health()?;
        Ok(())
    }

    fn idle(&mut self) -> Result<(), TestError> {
        let slowest = self.rate_down.into_iter().chain(self.rate_up).min();
        self.prober.set_interval(
            self.plan
                .probe_interval
                .unwrap_or_else(|| cadence::idle_interval(slowest, self.probe_size)),
        );
        self.event("phase", "idle", String::new());
        self.event("warmup_end", "idle", String::new());
        let bounds = Bounds {
            shortest: self.plan.idle_min,
            longest: self.plan.idle_max,
            hard: None,
            allowance: Bytes::new(u64::MAX),
        };
        let result = self.settle(Phase::Idle, &bounds, &[]);
        self.end_phase(Phase::Idle, &result);
        result.map(|_| ())
    }

    fn loaded(&mut self, phase: Phase, allowance: Bytes) -> Result<(), TestError> {
        let began = self.clock.now();
        let directions = phase.loads();
        self.pace(directions);
        self.event("phase", phase.name(), String::new());
        let loads = self.start_loads(directions)?;
        let foreign = ForeignPlan {
            peer: self.peer(),
            interval: self.foreign_interval(directions),
            at_once: 4,
            tally: Tally::default(),
        };
        let foreign = self
            .wants_foreign(phase)
            .then(|| ForeignProbe::start(foreign, self.clock, self.rows.clone()))
            .transpose()
            .map_err(TestError::Thread)?;
        let result = self.warm_up(phase, &loads, allowance / 3).and_then(|()| {
            for load in &loads {
                // A slow line may have delivered nothing in the last second; that is no rate.
                let rate = load.progress().rate.filter(|r| r.get() > 0);
                match load.direction() {
                    Direction::Down => self.rate_down = rate.or(self.rate_down),
                    Direction::Up => self.rate_up = rate.or(self.rate_up),
                }
            }
            self.pace(directions);
            let warm = self.clock.now() - began;
            let hard = self.plan.longest.map(|l| l.saturating_sub(warm));
            let bounds = Bounds {
                shortest: self.plan.loaded_min,
                longest: self.plan.loaded_max,
                hard,
                allowance,
            };
            self.settle(phase, &bounds, &loads)
        });
        self.spent += carried(&loads);
        self.end_phase(phase, &result);
        if let Some(foreign) = foreign {
            foreign.stop();
        }
        let stopped: Vec<Stopped> = loads.into_iter().map(Load::stop).collect();
        let drained = result.and_then(|_| self.drain());
        for load in stopped {
            self.collect(load, phase);
        }
        drained?;
        match directions {
            [direction] => self.settle_open_questions(*direction),
            _ => Ok(()),
        }
    }

    /// Sends the trains that settle what the load of `direction` left open.
    fn settle_open_questions(&mut self, direction: Direction) -> Result<(), TestError> {
        // Every row of the load has to be read before the question is asked.
        std::thread::sleep(TICK.to_std());
        let left = self.plan.budget.get().saturating_sub(self.spent.get());
        let plan = craft::Plan {
            peer: self.peer(),
            first_train: self.trains,
            budget: self.plan.train_budget.min(Bytes::new(left)),
            interface: self.plan.interface.clone(),
            hold_off: None,
            waits: false,
            beside_others: true,
        };
        if self.watch.next_train(direction, &[], plan.budget).is_none() {
            return Ok(());
        }
        self.event("phase", "trains", direction.word().into());
        let budget = plan.budget;
        let mut asked = Asked {
            watch: &mut *self.watch,
            direction,
        };
        let watch = std::cell::RefCell::new(&mut asked);
        let mut next = |trains: &[Train]| {
            watch
                .borrow_mut()
                .watch
                .next_train(direction, trains, budget)
        };
        let mut shown = Shown(&watch);
        let result = craft::run_beside(
            &plan,
            self.traffic,
            &mut next,
            self.clock,
            &self.rows,
            &mut shown,
        );
        self.event("phase_end", "trains", String::new());
        match result {
            Ok(trains) => {
                self.trains += trains.len() as i64;
                let sizes = trains
                    .iter()
                    .map(|t| t.facts.program.bytes(t.facts.headers).get());
                self.spent += Bytes::new(sizes.sum());
            }
            Err(CraftError::Interrupted) => return Err(TestError::Interrupted),
            // The test goes on without trains: what they would have settled stays open.
            Err(e) => {
                self.trains += MOST_TRAINS;
                self.event("fault", "trains", e.to_string());
            }
        }
        self.drain()
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn start_loads(&mut self, directions: &[Direction]) -> Result<Vec<Load>, TestError> {
        let mut loads = Vec::new();
        for &direction in directions {
            let plan = LoadPlan {
                peer: self.peer(),
                direction,
                flows: self
                    .plan
                    .flows
                    .unwrap_or_else(|| flows_for(self.rate(direction))),
                first_flow: self.next_flow,
                congestion: self.plan.congestion.clone(),
                duration: self.plan.phase_cap + self.plan.phase_cap,
                sample: Duration::from_millis(50),
                udp_rate: self.plan.udp_rate,
                tally: Tally::default(),
            };
            self.next_flow += i64::from(plan.flows);
            loads.push(Load::start(plan, self.clock, self.rows.clone())?);
        }
        Ok(loads)
    }

    /// Fetches what the far end saw of a load, and tells what went wrong with it.
    fn collect(&self, load: Stopped, phase: Phase) {
        let outcome = load.collect(Duration::from_secs(10));
        let failed = outcome.flows.iter().filter_map(|f| f.error.as_ref());
        for error in failed.chain(&outcome.report_error) {
            self.event("fault", phase.name(), error.to_string());
        }
    }

    /// Leaves the start of the transfers out: slow start, its overshoot, and the recovery from it.
    fn warm_up(&mut self, phase: Phase, loads: &[Load], allowance: Bytes) -> Result<(), TestError> {
        let began = self.clock.now();
        let mut rtt = Duration::ZERO;
        loop {
            self.tick()?;
            let elapsed = self.clock.now() - began;
            rtt = rtt.max(self.watch.rtt_now().unwrap_or_default());
            let needed = Duration::from_secs(2)
                .max(rtt * 4)
                .min(self.plan.phase_cap / 3)
                .min(self.plan.longest.map_or(Duration::MAX, |l| l / 3));
            self.tell(
                phase.name(),
                elapsed,
                needed.saturating_sub(elapsed) + self.plan.loaded_max,
                loads,
                "warming up",
            );
            if elapsed >= needed || carried(loads) >= allowance {
                break;
            }
        }
        self.event("warmup_end", phase.name(), String::new());
        Ok(())
    }

    /// Goes on until the figures are stable or the time is up; says which.
    fn settle(
        &mut self,
        phase: Phase,
        bounds: &Bounds,
        loads: &[Load],
    ) -> Result<(bool, String), TestError> {
        let began = self.clock.now();
        let mut asked = began;
        let mut answer = (false, String::new());
        let mut rtt = Duration::ZERO;
        loop {
            self.tick()?;
            // A line with seconds of buffer gets the time that it needs, once they show.
            rtt = rtt.max(self.watch.rtt_now().unwrap_or_default());
            let longest = bounds.longest.max(rtt * 40).min(self.plan.phase_cap);
            let longest = bounds.hard.map_or(longest, |hard| longest.min(hard));
            let shortest = bounds.shortest.max(rtt * 8).min(longest);
            if carried(loads) >= bounds.allowance {
                let why = format!(
                    "ended when its part of the data budget ({:.3}) was spent: a larger --budget makes its intervals narrower",
                    bounds.allowance
                );
                return Ok((false, why));
            }
            if let Some(load) = loads.iter().find(|l| l.progress().alive == 0) {
                // Its flows say why when they are collected; without any the phase means nothing.
                let why = format!("the {} load ended before it was told to", load.direction());
                return Ok((false, why));
            }
            let now = self.clock.now();
            let elapsed = now - began;
            if now - asked >= Duration::from_secs(1) {
                asked = now;
                answer = self.watch.stable(phase, self.clock.unix_ns());
            }
            self.tell(
                phase.name(),
                elapsed,
                longest.saturating_sub(elapsed),
                loads,
                &answer.1,
            );
            if answer.0 && elapsed >= shortest || elapsed >= longest {
                return Ok(answer);
            }
        }
    }

    fn end_phase(&mut self, phase: Phase, result: &Result<(bool, String), TestError>) {
        let (stable, why) = match result {
            Ok((stable, why)) => (*stable, why.clone()),
            Err(e) => (false, format!("ended early: {e}")),
        };
        self.event(
            "phase_end",
            phase.name(),
            serde_json::json!({ "stable": stable, "why": why }).to_string(),
        );
    }

    /// Waits until what the load left in the queue has gone, so that the next phase starts clean.
    fn drain(&mut self) -> Result<(), TestError> {
        self.event("phase", "drain", String::new());
        let began = self.clock.now();
        let mut busy = began;
        loop {
            self.tick()?;
            let now = self.clock.now();
            let (rtt, base) = (self.watch.rtt_now(), self.watch.base_rtt());
            let quiet = matches!((rtt, base), (Some(r), Some(b)) if r <= b + (b / 4).max(Duration::from_millis(5)));
            if !quiet {
                busy = now;
            }
            if now - busy >= QUIET || now - began >= Duration::from_secs(10) {
                break;
            }
        }
        self.event("phase_end", "drain", String::new());
        Ok(())
    }

    fn rate(&self, direction: Direction) -> Option<BitsPerSec> {
        match direction {
            Direction::Down => self.rate_down,
            Direction::Up => self.rate_up,
        }
    }

    /// Sets the probes' cadence for a phase that loads `directions`.
    fn pace(&mut self, directions: &[Direction]) {
        let interval = self.plan.probe_interval.unwrap_or_else(|| {
            let loaded = directions.iter().filter_map(|d| self.rate(*d)).min();
            let slowest = self.rate_down.into_iter().chain(self.rate_up).min();
            cadence::loaded_interval(loaded, self.probe_size)
                .max(cadence::idle_interval(slowest, self.probe_size))
        });
        self.prober.set_interval(interval);
    }

    /// Fresh connections are for the responsiveness score, which is about a line loaded both ways. In a queue
    /// counted in packets their small packets take the places of full ones, so they stay out of the phases
    /// that tell the queue's size: on 2 Mbit/s with 51 packets they hid an eighth of it.
    fn wants_foreign(&self, phase: Phase) -> bool {
        phase == Phase::Both || !self.plan.phases.contains(&Phase::Both)
    }

    fn foreign_interval(&self, directions: &[Direction]) -> Duration {
        cadence::fresh_connection_interval(directions.iter().filter_map(|d| self.rate(*d)).min())
    }

    fn tell(
        &mut self,
        phase: &'static str,
        elapsed: Duration,
        at_most: Duration,
        loads: &[Load],
        note: &str,
    ) {
        let rate = |wanted| {
            loads
                .iter()
                .find(|l| l.direction() == wanted)
                .and_then(|l| l.progress().rate)
        };
        let (rate_down, rate_up) = (rate(Direction::Down), rate(Direction::Up));
        self.watch.progress(Progress {
            phase,
            elapsed,
            at_most,
            rate_down,
            rate_up,
            note: note.to_string(),
        });
    }
}

/// Limits of one phase.
struct Bounds {
    /// Shortest and longest time after the warm-up; the longest grows with the round trip.
    shortest: Duration,
    longest: Duration,
    /// Upper limit on that time, whatever the round trip.
    hard: Option<Duration>,
    /// Upper limit on the bytes of its loads.
    allowance: Bytes,
}

/// Payload that loads have carried so far.
fn carried(loads: &[Load]) -> Bytes {
    Bytes::new(loads.iter().map(|l| l.progress().bytes).sum())
}

/// Time for which the link has to be quiet between two phases: its end shows the base delay.
const QUIET: Duration = Duration::from_millis(600);
/// Numbers kept free for the trains of a run that failed.
const MOST_TRAINS: i64 = 100;

/// The test's watch while trains are sent.
struct Asked<'a> {
    watch: &'a mut (dyn Watch + Send),
    direction: Direction,
}

/// Progress of trains, shown as progress of the test.
struct Shown<'a, 'b>(&'a std::cell::RefCell<&'a mut Asked<'b>>);

impl craft::Watch for Shown<'_, '_> {
    fn progress(&mut self, p: &craft::Progress) {
        let mut asked = self.0.borrow_mut();
        let note = format!("{}: {}", asked.direction, p.note);
        asked.watch.progress(Progress {
            phase: "trains",
            elapsed: p.elapsed,
            at_most: p.whole.saturating_sub(p.elapsed),
            rate_down: None,
            rate_up: None,
            note,
        });
    }

    fn interrupted(&mut self) -> bool {
        self.0.borrow_mut().watch.interrupted()
    }
}

/// Enough flows to fill the line and to see whether they are kept apart, few enough that each has a
/// window to speak of: at 700 kbit/s a flow's smallest window of two packets is already 34 ms of queue.
fn flows_for(rate: Option<BitsPerSec>) -> u32 {
    match rate {
        Some(r) if r < BitsPerSec::from_mbps(10) => 2,
        _ => 4,
    }
}
