//! The phases, step by step as `live::test` runs them.

use super::probes::ip_size;
use super::seen::Counters;
use super::transfer::Transfer;
use super::world::World;
use super::{Decide, Outcome, Phase, Plan};
use base::record::{Direction, Status};
use base::{BitsPerSec, Bytes, Duration, Time};
use link::SpecError;
use measure::cadence;
use std::collections::VecDeque;

const TICK: Duration = Duration::from_millis(200);
/// Time for which the link has to be quiet between two phases.
const QUIET: Duration = Duration::from_millis(600);

/// Bytes of a load at the latest ticks, for a rate over about a second.
#[derive(Default)]
struct Meter(VecDeque<(Time, u64)>);

impl Meter {
    fn rate(&mut self, now: Time, bytes: u64) -> Option<BitsPerSec> {
        while self.0.len() > 1 && now.saturating_since(self.0[1].0) >= Duration::from_secs(1) {
            self.0.pop_front();
        }
        let rate = self.0.front().filter(|(t, _)| now > *t).map(|(t, before)| {
            let seconds = now.saturating_since(*t).as_secs_f64();
            BitsPerSec::new((bytes.saturating_sub(*before) as f64 * 8.0 / seconds) as u64)
        });
        self.0.push_back((now, bytes));
        rate
    }
}

struct Run<'a> {
    world: World,
    decide: &'a mut dyn Decide,
    rate_down: Option<BitsPerSec>,
    rate_up: Option<BitsPerSec>,
    meters: [Meter; 2],
    latest: [Option<BitsPerSec>; 2],
    /// Bytes that loads and trains have carried so far.
    spent: Bytes,
}

/// Runs a whole test.
///
/// # Errors
/// The link cannot be as described.
pub fn run(plan: &Plan, decide: &mut dyn Decide) -> Result<Outcome, SpecError> {
    let mut run = Run {
        world: World::new(plan)?,
        decide,
        rate_down: None,
        rate_up: None,
        meters: Default::default(),
        latest: [None; 2],
        spent: Bytes::ZERO,
    };
    let size = ip_size().get();
    let detail = serde_json::json!({ "ip_bytes": size }).to_string();
    run.world.event("probe", "udp", &detail);
    run.phases();
    let mut world = run.world;
    // The last probes get their time, as the real prober gives it.
    world.advance(world.now + Duration::from_millis(200));
    world.stop_probes();
    world.rec.meta.complete = true;
    world.rec.meta.ended_ns = Some(world.unix_ns());
    Ok(Outcome {
        recording: world.rec,
        seen: world.seen,
    })
}

impl Run<'_> {
    fn phases(&mut self) {
        self.world.start_probes();
        if let Some((up, down)) = self.world.train(8, 1200) {
            (self.rate_up, self.rate_down) = (Some(up), Some(down));
        }
        let phases = self.world.plan.phases.clone();
        for (i, &phase) in phases.iter().enumerate() {
            let allowance = self.allowance(&phases[i..]);
            let before = self.world.counters();
            let from = self.world.now;
            let warm = match phase {
                Phase::Idle => self.idle(),
                loaded => self.loaded(loaded, allowance),
            };
            self.saw(phase, &before, from, warm);
            if phase != Phase::Idle {
                self.spent += self.carried();
                self.world.stop_flows();
                self.drain();
                self.world.collect();
            }
            if let [direction] = phase.loads() {
                self.trains(*direction);
            }
        }
    }

    /// Part of the remaining budget for the first of the phases `left`, by the number of directions that each loads.
    fn allowance(&self, left: &[Phase]) -> Bytes {
        let directions: usize = left.iter().map(|p| p.loads().len()).sum();
        let own = left.first().map_or(0, |p| p.loads().len());
        let rest = self.world.plan.budget.saturating_sub(self.spent).get();
        Bytes::new(rest / directions.max(1) as u64 * own as u64)
    }

    /// Payload that the running loads have carried so far.
    fn carried(&self) -> Bytes {
        Bytes::new(self.world.running().iter().map(Transfer::bytes_moved).sum())
    }

    fn saw(&mut self, phase: Phase, before: &Counters, from: Time, warm: Time) {
        let after = self.world.counters();
        let mut seen = Counters::phase(before, &after);
        seen.name = phase.name();
        seen.from_ns = from.as_nanos();
        seen.warm_ns = warm.as_nanos();
        seen.to_ns = self.world.now.as_nanos();
        for t in self.world.running() {
            let most = &mut seen.held_back[t.direction as usize];
            *most = most.max(t.held_back());
        }
        self.world.seen.phases.push(seen);
    }

    fn tick(&mut self) {
        let next = self.world.now + TICK;
        self.world.advance(next);
        let now = self.world.now;
        for direction in [Direction::Up, Direction::Down] {
            let flows = self.world.running().iter();
            let of = flows.filter(|t| t.direction == direction);
            let bytes: u64 = of.map(Transfer::bytes_moved).sum();
            let d = direction as usize;
            self.latest[d] = self.meters[d].rate(now, bytes);
        }
    }

    fn idle(&mut self) -> Time {
        let slowest = self.rate_down.into_iter().chain(self.rate_up).min();
        self.world.probing.interval = cadence::idle_interval(slowest, ip_size());
        self.world.event("phase", "idle", "");
        self.world.event("warmup_end", "idle", "");
        let warm = self.world.now;
        let (least, most) = (self.world.plan.idle_min, self.world.plan.idle_max);
        let answer = self.settle(Phase::Idle, least, most, Bytes::new(u64::MAX));
        self.end_phase(Phase::Idle, &answer);
        warm
    }

    fn loaded(&mut self, phase: Phase, allowance: Bytes) -> Time {
        let directions = phase.loads();
        self.pace(directions);
        self.world.event("phase", phase.name(), "");
        self.meters = Default::default();
        for &direction in directions {
            let known = match direction {
                Direction::Down => self.rate_down,
                Direction::Up => self.rate_up,
            };
            let flows = self.world.plan.flows.unwrap_or(flows_for(known));
            for _ in 0..flows {
                self.world.start_flow(direction, flows);
            }
        }
        if phase == Phase::Both || !self.world.plan.phases.contains(&Phase::Both) {
            let slowest = self.slowest(directions);
            self.world
                .start_fresh(cadence::fresh_connection_interval(slowest));
        }
        let warm = self.warm_up(phase, allowance / 3);
        for &direction in directions {
            let rate = self.latest[direction as usize].filter(|r| r.get() > 0);
            match direction {
                Direction::Down => self.rate_down = rate.or(self.rate_down),
                Direction::Up => self.rate_up = rate.or(self.rate_up),
            }
        }
        self.pace(directions);
        let (least, most) = (self.world.plan.loaded_min, self.world.plan.loaded_max);
        let answer = self.settle(phase, least, most, allowance);
        self.end_phase(phase, &answer);
        self.world.stop_fresh();
        warm
    }

    fn slowest(&self, directions: &[Direction]) -> Option<BitsPerSec> {
        let rate = |d: &Direction| match d {
            Direction::Down => self.rate_down,
            Direction::Up => self.rate_up,
        };
        directions.iter().filter_map(rate).min()
    }

    fn pace(&mut self, directions: &[Direction]) {
        let slowest = self.rate_down.into_iter().chain(self.rate_up).min();
        self.world.probing.interval = cadence::loaded_interval(self.slowest(directions), ip_size())
            .max(cadence::idle_interval(slowest, ip_size()));
    }

    fn warm_up(&mut self, phase: Phase, allowance: Bytes) -> Time {
        let began = self.world.now;
        let mut rtt = Duration::ZERO;
        loop {
            self.tick();
            let elapsed = self.world.now.saturating_since(began);
            rtt = rtt.max(self.rtt_now().unwrap_or_default());
            let needed = Duration::from_secs(2)
                .max(rtt * 4)
                .min(self.world.plan.phase_cap / 3);
            if elapsed >= needed || self.carried() >= allowance {
                break;
            }
        }
        self.world.event("warmup_end", phase.name(), "");
        self.world.now
    }

    fn settle(
        &mut self,
        phase: Phase,
        least: Duration,
        most: Duration,
        allowance: Bytes,
    ) -> (bool, String) {
        let began = self.world.now;
        let mut asked = began;
        let mut answer = (false, String::new());
        let mut rtt = Duration::ZERO;
        let cap = self.world.plan.phase_cap;
        loop {
            self.tick();
            rtt = rtt.max(self.rtt_now().unwrap_or_default());
            let longest = most.max(rtt * 40).min(cap);
            let shortest = least.max(rtt * 8).min(longest);
            if self.carried() >= allowance {
                return (
                    false,
                    "ended when its part of the data budget was spent".into(),
                );
            }
            let now = self.world.now;
            let elapsed = now.saturating_since(began);
            if now.saturating_since(asked) >= Duration::from_secs(1) {
                asked = now;
                let unix_ns = self.world.unix_ns();
                answer = self.decide.stable(&self.world.rec, phase.name(), unix_ns);
            }
            if answer.0 && elapsed >= shortest || elapsed >= longest {
                return answer;
            }
        }
    }

    fn end_phase(&mut self, phase: Phase, answer: &(bool, String)) {
        let detail = serde_json::json!({ "stable": answer.0, "why": answer.1 }).to_string();
        self.world.event("phase_end", phase.name(), &detail);
    }

    fn drain(&mut self) {
        self.world.event("phase", "drain", "");
        let began = self.world.now;
        let mut busy = began;
        loop {
            self.tick();
            let now = self.world.now;
            let least = Duration::from_millis(5);
            let quiet = matches!(
                (self.rtt_now(), self.base_rtt()),
                (Some(r), Some(b)) if r <= b + (b / 4).max(least)
            );
            if !quiet {
                busy = now;
            }
            let long = now.saturating_since(began) >= Duration::from_secs(10);
            if long || now.saturating_since(busy) >= QUIET {
                break;
            }
        }
        self.world.event("phase_end", "drain", "");
    }

    /// What the analysis asks to be sent beside the phases.
    fn trains(&mut self, direction: Direction) {
        // Every row of the load has to be read before the question is asked.
        self.world.advance(self.world.now + TICK);
        let plan = &self.world.plan;
        let left = plan.budget.saturating_sub(self.spent);
        let budget = plan.train_budget.min(left);
        let mut begun = false;
        while let Some(sending) = self.decide.next_train(&self.world.rec, direction, budget) {
            if !begun {
                self.world.event("phase", "trains", direction.word());
                begun = true;
            }
            let sizes = sending.programs.iter().map(|p| self.world.program_bytes(p));
            self.spent += Bytes::new(sizes.map(Bytes::get).sum());
            self.world.craft(&sending);
        }
        if begun {
            self.world.event("phase_end", "trains", "");
            self.drain();
        }
    }

    /// Round trip of the latest answered probe, or how long the next one has been waiting, whichever is more.
    fn rtt_now(&self) -> Option<Duration> {
        let latest = (self.world.rec.delay.iter().rev().take(50))
            .find(|d| d.status == Status::Ok && &*d.target == "udp")?;
        let waiting = self.world.unix_ns() - latest.sent_ns - 1_500_000_000;
        Some(Duration::from_nanos(
            latest.rtt_ns?.max(waiting).max(0) as u64
        ))
    }

    fn base_rtt(&self) -> Option<Duration> {
        let answered =
            (self.world.rec.delay.iter()).filter(|d| d.status == Status::Ok && &*d.target == "udp");
        answered
            .filter_map(|d| d.rtt_ns)
            .min()
            .map(|ns| Duration::from_nanos(ns.max(0) as u64))
    }
}

/// Flows for a link of that rate, as the real test has them.
fn flows_for(rate: Option<BitsPerSec>) -> u32 {
    match rate {
        Some(r) if r < BitsPerSec::from_mbps(10) => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Recording;
    use link::LinkSpec;

    struct Ten;
    impl Decide for Ten {
        fn stable(&mut self, _: &Recording, _: &str, _: i64) -> (bool, String) {
            (true, "enough".into())
        }
    }

    #[test]
    fn an_adsl_link_is_filled_and_its_queue_seen_full() {
        let plan = Plan::new(LinkSpec::named("adsl").unwrap(), 1);
        let outcome = run(&plan, &mut Ten).unwrap();
        let up = outcome.seen.phase("up").unwrap();
        let seconds = (up.to_ns - up.from_ns) as f64 / 1e9;
        let rate = up.delivered_bytes[0] as f64 * 8.0 / seconds;
        assert!((rate / 700e3 - 1.0).abs() < 0.05, "{rate}");
        let most = outcome
            .seen
            .waits(Direction::Up, super::super::Who::Load, up.warm_ns..up.to_ns)
            .map(|w| w.sojourn_ns)
            .max()
            .unwrap();
        // 430 ms of queue, to a packet of 17 ms.
        assert!((400e6..447e6).contains(&(most as f64)), "{most}");
        assert_eq!(run(&plan, &mut Ten).unwrap().recording, outcome.recording);
    }
}
