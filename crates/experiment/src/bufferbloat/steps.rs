//! Phases of the test as steps: idle, loads with their warm-up, draining, overload trains.

use super::{Phase, Plan};
use crate::host::{Counted, Fresh, Load, Loaded, Probing};
use crate::steps::{Action, Planned, Seen, Stage, Steps, Told};
use base::program::Sending;
use base::record::{Direction, Recording, Status};
use base::{BitsPerSec, Bytes, Duration, Time};
use measure::cadence;

const TICK: Duration = Duration::from_millis(200);
/// Time for which the link has to be quiet between two phases: its end shows the base delay.
const QUIET: Duration = Duration::from_millis(600);
/// Longest wait for draining.
const DRAIN: Duration = Duration::from_secs(10);
/// Shortest warm-up: slow start and its overshoot take at least this long.
const WARM_UP: Duration = Duration::from_secs(2);
/// Packets of the first, rough measurement of the link, and their size.
const SCOUTS: (u8, Bytes) = (8, Bytes::new(1200));
const SAMPLE: Duration = Duration::from_millis(50);
/// Greatest number of open fresh connections.
const AT_ONCE: usize = 4;

/// Limits of one phase.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Shortest and longest time after the warm-up; the longest grows with the round trip.
    shortest: Duration,
    longest: Duration,
    /// Upper limit on that time, whatever the round trip.
    hard: Option<Duration>,
    /// Upper limit on the bytes of its loads.
    allowance: Bytes,
}

/// A running phase.
#[derive(Clone, Debug)]
struct Running {
    phase: Phase,
    /// Begin of the phase, and of its present part.
    from: Time,
    began: Time,
    /// Upper limit on the bytes of its loads.
    allowance: Bytes,
    /// Largest round trip of its present part.
    rtt: Duration,
    asked: Time,
    answer: (bool, String),
}

/// Trains after a load.
#[derive(Clone, Copy, Debug)]
struct Trains {
    direction: Direction,
    /// Number of trains that were sent before.
    before: usize,
    budget: Bytes,
    begun: bool,
}

/// Successor of draining.
#[derive(Clone, Copy, Debug)]
enum After {
    /// Reports of a phase's loads.
    Load(Phase),
    Trains,
}

#[derive(Clone, Debug)]
enum State {
    Begin,
    Scouted,
    NextPhase,
    Loading(Running),
    WarmUp(Running),
    Settle(Running, Bounds),
    Drain {
        after: After,
        began: Time,
        busy: Time,
    },
    Draining(After),
    Collected(Phase),
    Asking(Trains),
    End,
}

/// A whole test.
pub struct Bufferbloat {
    plan: Plan,
    planned: Planned,
    state: State,
    /// Number of phases that have started.
    begun: usize,
    rate_down: Option<BitsPerSec>,
    rate_up: Option<BitsPerSec>,
    /// Bytes that loads and trains have carried so far, both directions combined.
    spent: Bytes,
    probe_size: Bytes,
}

impl Steps for Bufferbloat {
    fn next(&mut self, seen: &Seen) -> Action {
        loop {
            if let Some(action) = self.planned.take() {
                return action;
            }
            self.state = match std::mem::replace(&mut self.state, State::End) {
                State::Begin => self.begin(seen),
                State::Scouted => self.scouted(seen),
                State::NextPhase => self.next_phase(seen),
                State::Loading(running) => self.loading(running, seen),
                State::WarmUp(running) => self.warm_up(running, seen),
                State::Settle(running, bounds) => self.settle(running, bounds, seen),
                State::Draining(after) => self.draining(after, seen),
                State::Drain { after, began, busy } => self.drain(after, began, busy, seen),
                State::Collected(phase) => self.collected(phase, seen),
                State::Asking(trains) => self.asking(trains, seen),
                State::End => return Action::Done,
            };
        }
    }

    fn ended_early(&mut self, why: &str) -> Box<dyn Steps> {
        // What was to be told or ended still is.
        let kept = |a: &Action| {
            matches!(
                a,
                Action::Event(..) | Action::StopLoad(_) | Action::Fresh(None)
            )
        };
        for action in self.planned.drain().into_iter().filter(kept) {
            self.planned.then(action);
        }
        match std::mem::replace(&mut self.state, State::End) {
            State::WarmUp(running) | State::Settle(running, _) => {
                let phase = running.phase;
                self.end_phase(phase, false, &format!("ended early: {why}"));
                if !phase.loads().is_empty() {
                    self.planned.then(Action::Fresh(None));
                    self.planned.then(Action::StopLoad(None));
                    self.collect();
                }
            }
            State::Draining(After::Load(_))
            | State::Drain {
                after: After::Load(_),
                ..
            } => self.collect(),
            State::Asking(Trains { begun: true, .. }) => {
                self.planned.event("phase_end", "trains", "")
            }
            _ => {}
        }
        Box::new(std::mem::take(&mut self.planned))
    }

    fn shown(&self, sending: &Sending, stage: Stage) -> Stage {
        Stage {
            name: "trains".into(),
            note: format!("{}: {}", sending.direction, stage.note),
            ..stage
        }
    }
}

impl Bufferbloat {
    /// Creates the steps of a test.
    pub fn new(plan: Plan) -> Bufferbloat {
        Bufferbloat {
            plan,
            planned: Planned::default(),
            state: State::Begin,
            begun: 0,
            rate_down: None,
            rate_up: None,
            spent: Bytes::ZERO,
            probe_size: Bytes::ZERO,
        }
    }

    fn begin(&mut self, seen: &Seen) -> State {
        self.probe_size = seen.probe_size;
        self.planned.then(Action::Count(Counted::Interface));
        self.planned.then(Action::Count(Counted::Processor));
        let first = self.plan.probe_interval.unwrap_or(cadence::UNKNOWN);
        self.probe(first);
        // After the probes: who is not there, or filtered, is told by their answers.
        let loads: usize = self.plan.phases.iter().map(|p| p.loads().len()).sum();
        if loads > 0 {
            let cap = self.plan.phase_cap;
            let lasts = self.plan.idle_max + (cap + cap) * loads as u64;
            self.planned.then(Action::Turn(lasts));
        }
        let detail = serde_json::json!({ "ip_bytes": seen.probe_size.get() });
        self.planned
            .event("probe", &*seen.probe_target, detail.to_string());
        // A rough rate first, so that the probes do not become the load. Packets that got no answer
        // leave the careful cadence in place.
        let (count, size) = SCOUTS;
        self.planned.then(Action::Scout(count, size));
        State::Scouted
    }

    fn scouted(&mut self, seen: &Seen) -> State {
        self.rate_down = seen.scouted.map(|s| s.down);
        self.rate_up = seen.scouted.map(|s| s.up);
        self.planned.then(Action::Tell(Told::Estimate {
            about: self.expected(),
            budget: self.plan.budget,
        }));
        State::NextPhase
    }

    /// Bytes that the loaded phases carry at the rates known so far, within the budget.
    fn expected(&self) -> Option<Bytes> {
        let seconds = (WARM_UP + self.plan.loaded_min).as_secs_f64();
        let mut bytes = 0.0;
        for d in self.plan.phases.iter().flat_map(|p| p.loads()) {
            bytes += self.rate(*d)?.get() as f64 / 8.0 * seconds;
        }
        Some(Bytes::new(bytes as u64).min(self.plan.budget))
    }

    /// Part of the remaining budget for the first of the phases `left`, by the number of directions that each loads.
    fn allowance(&self, left: &[Phase]) -> Bytes {
        let directions: usize = left.iter().map(|p| p.loads().len()).sum();
        let own = left.first().map_or(0, |p| p.loads().len());
        let rest = self.plan.budget.saturating_sub(self.spent).get();
        Bytes::new(rest / directions.max(1) as u64 * own as u64)
    }

    fn rate(&self, direction: Direction) -> Option<BitsPerSec> {
        match direction {
            Direction::Down => self.rate_down,
            Direction::Up => self.rate_up,
        }
    }

    fn slowest(&self, directions: &[Direction]) -> Option<BitsPerSec> {
        directions.iter().filter_map(|d| self.rate(*d)).min()
    }

    fn probe(&mut self, interval: Duration) {
        let first = self.plan.probe_interval.unwrap_or(cadence::UNKNOWN);
        self.planned.then(Action::Probe(Probing {
            interval,
            shortest: first.min(cadence::FASTEST),
        }));
    }

    /// Sets the probes' cadence for a phase that loads `directions`.
    fn pace(&mut self, directions: &[Direction]) {
        let interval = self.plan.probe_interval.unwrap_or_else(|| {
            let slowest = self.rate_down.into_iter().chain(self.rate_up).min();
            let idle = cadence::idle_interval(slowest, self.probe_size);
            match directions {
                [] => idle,
                _ => cadence::loaded_interval(self.slowest(directions), self.probe_size).max(idle),
            }
        });
        self.probe(interval);
    }

    fn next_phase(&mut self, seen: &Seen) -> State {
        let Some(&phase) = self.plan.phases.get(self.begun) else {
            return State::End;
        };
        let allowance = self.allowance(&self.plan.phases[self.begun..]);
        self.begun += 1;
        let running = Running {
            phase,
            from: seen.now,
            began: seen.now,
            allowance,
            rtt: Duration::ZERO,
            asked: seen.now,
            answer: (false, String::new()),
        };
        self.pace(phase.loads());
        self.planned.event("phase", phase.name(), "");
        if phase == Phase::Idle {
            self.planned.event("warmup_end", phase.name(), "");
            self.planned.then(Action::Wait(TICK));
            let bounds = Bounds {
                shortest: self.plan.idle_min,
                longest: self.plan.idle_max,
                hard: None,
                allowance: Bytes::new(u64::MAX),
            };
            return State::Settle(running, bounds);
        }
        for &direction in phase.loads() {
            self.load(direction);
        }
        if self.wants_fresh(phase) {
            let slowest = self.slowest(phase.loads());
            self.planned.then(Action::Fresh(Some(Fresh {
                interval: cadence::fresh_connection_interval(slowest),
                at_once: AT_ONCE,
            })));
        }
        State::Loading(running)
    }

    fn load(&mut self, direction: Direction) {
        let flows = self.plan.flows;
        let flows = flows.unwrap_or_else(|| flows_for(self.rate(direction)));
        self.planned.then(Action::Load(Load {
            number: direction as u32,
            direction,
            flows,
            congestion: self.plan.congestion.clone(),
            duration: self.plan.phase_cap + self.plan.phase_cap,
            sample: SAMPLE,
            datagrams: self.plan.udp_rate,
        }));
    }

    /// True if the phase has fresh connections. They serve the responsiveness score, which is about a link loaded in
    /// both directions. In a queue counted in packets their small packets take the places of full ones, so they stay
    /// out of the phases that measure the queue's size: on 2 Mbit/s with 51 packets they hid an eighth of it.
    fn wants_fresh(&self, phase: Phase) -> bool {
        phase == Phase::Both || !self.plan.phases.contains(&Phase::Both)
    }

    fn loading(&mut self, running: Running, seen: &Seen) -> State {
        self.planned.then(Action::Wait(TICK));
        State::WarmUp(Running {
            began: seen.now,
            ..running
        })
    }

    /// Leaves the start of the transfers out: slow start, its overshoot, and the recovery from it.
    fn warm_up(&mut self, mut running: Running, seen: &Seen) -> State {
        let elapsed = seen.now.saturating_since(running.began);
        running.rtt = running.rtt.max(rtt(seen));
        let plan = &self.plan;
        let needed = WARM_UP
            .max(running.rtt * 4)
            .min(plan.phase_cap / 3)
            .min(plan.longest.map_or(Duration::MAX, |l| l / 3));
        let at_most = needed.saturating_sub(elapsed) + plan.loaded_max;
        self.tell(running.phase, elapsed, at_most, seen, "warming up");
        if elapsed < needed && carried(seen.loads) < running.allowance / 3 {
            self.planned.then(Action::Wait(TICK));
            return State::WarmUp(running);
        }
        self.planned.event("warmup_end", running.phase.name(), "");
        for load in seen.loads {
            // A slow line may have delivered nothing in the last second; that is no rate.
            let rate = load.rate.filter(|r| r.get() > 0);
            match load.direction {
                Direction::Down => self.rate_down = rate.or(self.rate_down),
                Direction::Up => self.rate_up = rate.or(self.rate_up),
            }
        }
        self.pace(running.phase.loads());
        self.planned.then(Action::Wait(TICK));
        let warm = seen.now.saturating_since(running.from);
        let bounds = Bounds {
            shortest: self.plan.loaded_min,
            longest: self.plan.loaded_max,
            hard: self.plan.longest.map(|l| l.saturating_sub(warm)),
            allowance: running.allowance,
        };
        let settling = Running {
            began: seen.now,
            asked: seen.now,
            rtt: Duration::ZERO,
            ..running
        };
        State::Settle(settling, bounds)
    }

    /// Continues until the figures are stable or the time is up.
    fn settle(&mut self, mut running: Running, bounds: Bounds, seen: &Seen) -> State {
        // A line with seconds of buffer gets the time that it needs, once they show.
        running.rtt = running.rtt.max(rtt(seen));
        let longest = bounds
            .longest
            .max(running.rtt * 40)
            .min(self.plan.phase_cap);
        let longest = bounds.hard.map_or(longest, |hard| longest.min(hard));
        let shortest = bounds.shortest.max(running.rtt * 8).min(longest);
        if carried(seen.loads) >= bounds.allowance {
            let why = format!(
                "ended when its part of the data budget ({:.3}) was spent: a larger --budget makes its intervals narrower",
                bounds.allowance
            );
            return self.settled(running.phase, (false, why), seen);
        }
        if let Some(load) = seen.loads.iter().find(|l| l.alive == 0) {
            // Its flows say why when they are collected; without any the phase means nothing.
            let why = format!("the {} load ended before it was told to", load.direction);
            return self.settled(running.phase, (false, why), seen);
        }
        let elapsed = seen.now.saturating_since(running.began);
        if seen.now.saturating_since(running.asked) >= Duration::from_secs(1) {
            running.asked = seen.now;
            running.answer = seen.of_rows(|rows| {
                let s = analysis::stable(rows, running.phase.name(), seen.unix_ns);
                (s.stable, s.why)
            });
        }
        let left = longest.saturating_sub(elapsed);
        self.tell(running.phase, elapsed, left, seen, &running.answer.1);
        if running.answer.0 && elapsed >= shortest || elapsed >= longest {
            return self.settled(running.phase, running.answer, seen);
        }
        self.planned.then(Action::Wait(TICK));
        State::Settle(running, bounds)
    }

    fn settled(&mut self, phase: Phase, (stable, why): (bool, String), seen: &Seen) -> State {
        self.spent += carried(seen.loads);
        self.end_phase(phase, stable, &why);
        if phase == Phase::Idle {
            return State::NextPhase;
        }
        if self.wants_fresh(phase) {
            self.planned.then(Action::Fresh(None));
        }
        self.planned.then(Action::StopLoad(None));
        self.planned.event("phase", "drain", "");
        State::Draining(After::Load(phase))
    }

    fn end_phase(&mut self, phase: Phase, stable: bool, why: &str) {
        let detail = serde_json::json!({ "stable": stable, "why": why });
        self.planned
            .event("phase_end", phase.name(), detail.to_string());
    }

    fn collect(&mut self) {
        self.planned.then(Action::Collect);
    }

    fn draining(&mut self, after: After, seen: &Seen) -> State {
        self.planned.then(Action::Wait(TICK));
        State::Drain {
            after,
            began: seen.now,
            busy: seen.now,
        }
    }

    /// Waits until the backlog of the load has drained, so that the next phase starts clean.
    fn drain(&mut self, after: After, began: Time, mut busy: Time, seen: &Seen) -> State {
        let now = seen.now;
        let (rtt, base) = seen.of_rows(|rows| (rtt_now(rows, seen.unix_ns), base_rtt(rows)));
        let quiet = matches!((rtt, base), (Some(r), Some(b)) if r <= b + (b / 4).max(Duration::from_millis(5)));
        if !quiet {
            busy = now;
        }
        if now.saturating_since(busy) < QUIET && now.saturating_since(began) < DRAIN {
            self.planned.then(Action::Wait(TICK));
            return State::Drain { after, began, busy };
        }
        self.planned.event("phase_end", "drain", "");
        match after {
            After::Load(phase) => {
                self.collect();
                State::Collected(phase)
            }
            After::Trains => State::NextPhase,
        }
    }

    /// Reports failures of the loads, and continues with the open questions.
    fn collected(&mut self, phase: Phase, seen: &Seen) -> State {
        for fault in seen.ended.iter().flat_map(|e| &e.faults) {
            self.planned.event("fault", phase.name(), fault.clone());
        }
        let &[direction] = phase.loads() else {
            return State::NextPhase;
        };
        // Every row of the load has to be read before the question is asked.
        self.planned.then(Action::Wait(TICK));
        let left = self.plan.budget.saturating_sub(self.spent);
        State::Asking(Trains {
            direction,
            before: seen.trains.len(),
            budget: self.plan.train_budget.min(left),
            begun: false,
        })
    }

    /// Sends the trains that settle the open questions.
    fn asking(&mut self, trains: Trains, seen: &Seen) -> State {
        let sent = seen.trains.get(trains.before..).unwrap_or_default();
        let failed = seen.failed.filter(|_| trains.begun);
        let next = match failed {
            Some(_) => None,
            None => seen
                .of_rows(|rows| analysis::next_train(rows, trains.direction, sent, trains.budget)),
        };
        if let Some(sending) = next {
            if !trains.begun {
                self.planned
                    .event("phase", "trains", trains.direction.word());
            }
            self.planned.then(Action::TrySend(sending));
            return State::Asking(Trains {
                begun: true,
                ..trains
            });
        }
        if !trains.begun {
            return State::NextPhase;
        }
        let sizes = sent
            .iter()
            .map(|t| t.facts.program.bytes(t.facts.headers).get());
        self.spent += Bytes::new(sizes.sum());
        self.planned.event("phase_end", "trains", "");
        if let Some(why) = failed {
            // The test goes on without trains: what they would have settled stays open.
            self.planned.event("fault", "trains", why);
        }
        self.planned.event("phase", "drain", "");
        State::Draining(After::Trains)
    }

    fn tell(
        &mut self,
        phase: Phase,
        elapsed: Duration,
        at_most: Duration,
        seen: &Seen,
        note: &str,
    ) {
        let rate = |wanted| {
            let its = seen.loads.iter().find(|l| l.direction == wanted);
            its.and_then(|l| l.rate)
        };
        self.planned.then(Action::Show(Stage {
            name: phase.name().into(),
            number: self.begun,
            elapsed,
            whole: elapsed + at_most,
            rate_up: rate(Direction::Up),
            rate_down: rate(Direction::Down),
            note: note.into(),
            ..Stage::default()
        }));
    }
}

/// Payload that loads have carried so far.
fn carried(loads: &[Loaded]) -> Bytes {
    Bytes::new(loads.iter().map(|l| l.bytes.get()).sum())
}

fn rtt(seen: &Seen) -> Duration {
    let rtt = seen.of_rows(|rows| rtt_now(rows, seen.unix_ns));
    rtt.unwrap_or_default()
}

/// Round trip of the latest answered probe, or the wait of the next one so far, the larger of both: while a queue of
/// seconds builds up, answers show it seconds late.
pub fn rtt_now(rows: &Recording, unix_ns: i64) -> Option<Duration> {
    let target = analysis::phases::own_target(rows);
    let latest = (rows.delay.iter().rev().take(50))
        .find(|d| d.status == Status::Ok && *d.target == *target)?;
    // On a slow line the next one is due half a second later, and rows come up to a second late.
    let waiting = unix_ns - latest.sent_ns - 1_500_000_000;
    let longer = latest.rtt_ns?.max(waiting).max(0);
    Some(Duration::from_nanos(longer as u64))
}

/// Smallest round trip so far.
pub fn base_rtt(rows: &Recording) -> Option<Duration> {
    let target = analysis::phases::own_target(rows);
    let answered = (rows.delay.iter()).filter(|d| d.status == Status::Ok && *d.target == *target);
    let least = answered.filter_map(|d| d.rtt_ns).min();
    least.map(|ns| Duration::from_nanos(ns.max(0) as u64))
}

/// Number of flows that fill a link of this rate and show whether they are kept apart. It is small enough for each to
/// have a useful window: at 700 kbit/s a flow's smallest window of two packets is already 34 ms of queue.
fn flows_for(rate: Option<BitsPerSec>) -> u32 {
    match rate {
        Some(r) if r < BitsPerSec::from_mbps(10) => 2,
        _ => 4,
    }
}
