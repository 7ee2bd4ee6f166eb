//! The line filled by one method after the other, either way: what `tailback probe throughput` carries out.
//!
//! Probes of a session and the interface's counters go on from the beginning to the end. Between two steps the line is
//! looked at: where others came to use it meanwhile, the run ends.

use crate::craft::CraftError;
use crate::errand::{Errand, ErrandError, REPORTS_WITHIN, Stage, TICK};
use crate::load::paced::{headers, payload_for};
use crate::load::{Load, LoadOutcome};
use crate::probe::{Prober, TrainEstimate};
use crate::traffic::TrafficMonitor;
use base::noted::throughput::{Method, Step, ThroughputNote};
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};

/// Datagrams are sent so much faster than what several connections carried, or a few packets back to back showed.
const OVERLOAD: f64 = 1.3;
/// Such packets, and how often: others in between make one look slower.
const TRAIN: (u8, Bytes, usize) = (8, Bytes::new(1200), 3);
/// Whole packets of TCP for a byte of payload, at most usual sizes.
const HEADERS: f64 = 1500.0 / 1448.0;

/// What to fill, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of whole IP packets, both directions together; what is left is shared by the steps that are left.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    pub directions: Vec<Direction>,
    /// Of the first method.
    pub flows: u32,
    pub warm_up: Duration,
    pub hold: Duration,
    pub idle: Duration,
}

/// Makes all steps. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), ErrandError> {
    errand.take_turn(crate::errand::TURN)?;
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let prober = errand.session()?;
    let mut run = Run {
        plan,
        errand,
        traffic: &traffic,
        number: 1,
    };
    let result = run.all(&prober);
    prober.stop();
    traffic.stop();
    result
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    traffic: &'a TrafficMonitor,
    number: usize,
}

impl Run<'_, '_> {
    fn all(&mut self, prober: &Prober) -> Result<(), ErrandError> {
        let began_ns = self.errand.clock.unix_ns();
        self.pause("at rest", self.plan.idle)?;
        let ended_ns = self.errand.clock.unix_ns();
        self.errand
            .note(&ThroughputNote::Idle { began_ns, ended_ns }, "");
        let shown = self.shown(prober)?;
        const METHODS: [Method; 3] = [Method::Several, Method::One, Method::Datagrams];
        let mut left = (self.plan.directions.len() * METHODS.len()) as u64;
        for direction in self.plan.directions.clone() {
            let mut carried = shown.map(|e| match direction {
                Direction::Up => e.up,
                Direction::Down => e.down,
            });
            for method in METHODS {
                let budget = self.plan.budget.get();
                let spent = self.errand.tally.bytes().get();
                let share = Bytes::new(budget.saturating_sub(spent) / left);
                left -= 1;
                self.number += 1;
                let rate = match method {
                    Method::Datagrams => match carried {
                        Some(rate) => Some(rate),
                        // Nobody knows how fast to send.
                        None => continue,
                    },
                    _ => None,
                };
                let seen = self.step(method, direction, rate, share)?;
                carried = carried.max(seen);
                // What is done is not spoilt by whoever comes then.
                if left > 0 {
                    self.errand.look_for_others(self.traffic, self.number)?;
                }
            }
        }
        Ok(())
    }

    /// The fastest of a few trains of packets: TCP alone would not fill a line that loses packets.
    fn shown(&mut self, prober: &Prober) -> Result<Option<TrainEstimate>, ErrandError> {
        let mut most: Option<TrainEstimate> = None;
        let (count, size, times) = TRAIN;
        for _ in 0..times {
            self.pause("a few packets back to back", TICK)?;
            if let Some(seen) = prober.train(count, size)? {
                let before = most.unwrap_or(seen);
                most = Some(TrainEstimate {
                    up: before.up.max(seen.up),
                    down: before.down.max(seen.down),
                });
            }
        }
        Ok(most)
    }

    fn pause(&mut self, name: &str, whole: Duration) -> Result<(), CraftError> {
        let began = self.errand.clock.now();
        loop {
            let elapsed = self.errand.clock.now() - began;
            if elapsed >= whole {
                return Ok(());
            }
            self.errand.go_on(Stage {
                name,
                number: self.number,
                elapsed,
                whole,
                note: String::new(),
            })?;
            std::thread::sleep(whole.saturating_sub(elapsed).min(TICK).to_std());
        }
    }

    /// Gives the rate of whole packets that it carried when slow start was over; none where it did not come so far.
    fn step(
        &mut self,
        method: Method,
        direction: Direction,
        carried: Option<BitsPerSec>,
        share: Bytes,
    ) -> Result<Option<BitsPerSec>, CraftError> {
        let plan = self.plan;
        let longest = (plan.warm_up + plan.hold) * 2;
        let flows = match method {
            Method::Several => plan.flows,
            _ => 1,
        };
        let rate = carried.map(|bps| BitsPerSec::new((bps.get() as f64 * OVERLOAD) as u64));
        let name = format!(
            "{} {}",
            direction.word(),
            match method {
                Method::Several => "several connections",
                Method::One => "one connection",
                Method::Datagrams => "datagrams",
            }
        );
        let before = self.errand.tally.bytes();
        let began = self.errand.clock.now();
        let began_ns = self.errand.clock.unix_ns();
        let load = match rate {
            Some(rate) => self.errand.datagrams(direction, rate, longest)?,
            None => self.errand.load(direction, flows, longest)?,
        };
        let mut warm = None;
        let went = loop {
            let elapsed = self.errand.clock.now() - began;
            let whole = plan.warm_up + plan.hold;
            let state = load.progress();
            if warm.is_none() && elapsed >= plan.warm_up {
                warm = Some((elapsed, state.bytes));
            }
            if elapsed >= whole {
                break Ok(None);
            }
            if state.alive == 0 {
                break Ok(Some("it ended by itself".to_string()));
            }
            // Datagrams are counted when both ends have told of them.
            let sent = match rate {
                Some(rate) => rate.bytes_in_floor(elapsed),
                None => self.errand.spent_since(before),
            };
            if sent >= share {
                let why = format!("it had its share of the budget, {share:.3}");
                break Ok(Some(why));
            }
            let note = state.rate.map_or_else(String::new, |r| format!("{r:.3}"));
            let told = self.errand.go_on(Stage {
                name: &name,
                number: self.number,
                elapsed,
                whole,
                note,
            });
            if let Err(e) = told {
                break Err(e);
            }
            std::thread::sleep(TICK.to_std());
        };
        let (took, moved) = (self.errand.clock.now() - began, load.progress().bytes);
        let ended_ns = self.errand.clock.unix_ns();
        let outcome = self.end(load, direction, rate);
        let cut = went?;
        let (from, already) = warm.filter(|w| w.0 < took).unwrap_or_default();
        let planned_ns = began_ns + plan.warm_up.as_nanos() as i64;
        let warm_ns = match cut {
            None => planned_ns,
            // Half of what there is.
            Some(_) => planned_ns.min(began_ns + (ended_ns - began_ns) / 2),
        };
        let counts = outcome.flows.iter().find_map(|f| f.datagrams);
        let header = headers(self.errand.peer.server);
        let payload = rate.map(|rate| u64::from(payload_for(rate)));
        self.errand.note(
            &ThroughputNote::Step(Step {
                method,
                direction,
                flows,
                began_ns,
                warm_ns,
                ended_ns,
                payload_bytes: payload,
                packet_bytes: payload.map(|p| p + header),
                sent: counts.and_then(|c| c.sent),
                received: counts.and_then(|c| c.received),
                cut,
            }),
            "",
        );
        let bps = (moved - already) as f64 * 8.0 * HEADERS / (took - from).as_secs_f64();
        Ok((bps >= 1.0).then(|| BitsPerSec::new(bps as u64)))
    }

    /// Its datagrams count for what they are, whole packets.
    fn end(&self, load: Load, direction: Direction, rate: Option<BitsPerSec>) -> LoadOutcome {
        let outcome = load.stop().collect(REPORTS_WITHIN);
        if let Some(rate) = rate {
            let each = u64::from(payload_for(rate)) + headers(self.errand.peer.server);
            for d in outcome.flows.iter().filter_map(|f| f.datagrams) {
                // What passed this end: sent by it, or received.
                let passed = match direction {
                    Direction::Up => d.sent,
                    Direction::Down => d.received,
                };
                let packets = passed.unwrap_or(0);
                self.errand.tally.add(packets, Bytes::new(packets * each));
            }
        }
        outcome
    }
}
