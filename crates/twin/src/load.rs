//! Load of a twin: the phase of a test, repeated in virtual time with the same probes, flows and lengths.

use crate::observe::Facts;
use crate::senders::controller_named;
use analysis::phases::{self, Phase};
use base::record::{Direction, Recording};
use base::{Bytes, Duration};
use congestion::ControllerSpec;
use experiment::Bounds;
use experiment::host::{Fresh, Load as Filling, Probing};
use experiment::steps::{Action, Planned};
use link::LinkSpec;
use sim::bufferbloat::{self, Hosts, RunError};
use sim::tcp::Settings;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most packets of a run: longer phases of fast links are shortened.
const MOST_PACKETS: f64 = 250_000.0;
/// Shortest steady part of a shortened phase.
const SHORTEST: Duration = Duration::from_secs(3);
/// Most open fresh connections, as in the test.
const AT_ONCE: usize = 4;
/// Probes at rest before the load: their least wait is the twin's base.
const RESTING: u64 = 30;

/// Phase to repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Name of the phase.
    pub name: String,
    /// Flows of each direction: up, down.
    pub flows: [u32; 2],
    /// Length of the warm-up.
    pub warm: Duration,
    /// Length of the steady part.
    pub steady: Duration,
    /// Time in which the queues drain after it.
    pub drain: Duration,
    /// Interval between probes.
    pub interval: Duration,
    /// Interval between fresh connections, if there were any.
    pub fresh: Option<Duration>,
    /// Congestion controller of the flows.
    pub controller: Arc<ControllerSpec>,
    /// Segments that leave a sender together.
    pub burst: u64,
}

impl Load {
    /// Load of a phase of a recording; `fastest` is the rate of its faster loaded direction, bit/s.
    pub fn of(facts: &Facts, phase: &Phase, fastest: f64) -> Load {
        let rec = facts.rec;
        let steady = span(phase.warm_ns, phase.to_ns);
        let warm = span(phase.from_ns, phase.warm_ns);
        let most_s = (MOST_PACKETS * 12e3 / fastest.max(1.0) - warm.as_secs_f64()).max(0.0);
        let short = Duration::from_secs_f64(most_s.min(1e4)).max(SHORTEST);
        let probes = phases::own_probes(rec, phase.steady());
        let longest = probes.iter().filter_map(|d| d.rtt_ns).max().unwrap_or(0);
        let drain = Duration::from_nanos(longest.clamp(0, 30_000_000_000) as u64 * 3 / 2);
        Load {
            name: phase.name.clone(),
            flows: [Direction::Up, Direction::Down].map(|d| flows(rec, phase, d)),
            warm,
            steady: steady.min(short),
            drain: drain + Duration::from_millis(500),
            interval: every(&mut probes.iter().map(|d| d.sent_ns))
                .unwrap_or(Duration::from_millis(100)),
            fresh: every(
                &mut phases::probes(rec, "tcp-connect", phase.whole())
                    .iter()
                    .map(|d| d.sent_ns),
            ),
            controller: controller(rec),
            burst: 1,
        }
    }

    /// The part of the recorded phase that the load repeats: what was shortened is not compared.
    pub fn part_of(&self, phase: &Phase) -> Phase {
        let steady_ns = self.steady.as_nanos() as i64;
        Phase {
            to_ns: phase.to_ns.min(phase.warm_ns.saturating_add(steady_ns)),
            ..phase.clone()
        }
    }

    /// Time at which the load starts, from the start of the run.
    pub fn starts(&self) -> Duration {
        (self.interval * RESTING).max(Duration::from_secs(1))
    }

    /// Script of the run up to the end of the steady part, and what follows it.
    pub fn parts(&self) -> (Planned, Planned) {
        let mut plan = Planned::default();
        plan.then(Action::Probe(Probing {
            interval: self.interval,
            shortest: self.interval,
        }));
        let size = bufferbloat::probe_size().get();
        let told = serde_json::json!({ "ip_bytes": size }).to_string();
        plan.event("probe", "udp", told);
        plan.event("phase", "idle", "");
        plan.event("warmup_end", "idle", "");
        plan.then(Action::Wait(self.starts()));
        plan.event("phase_end", "idle", "");
        plan.event("phase", self.name.clone(), "");
        for direction in [Direction::Up, Direction::Down] {
            let flows = self.flows[direction as usize];
            if flows > 0 {
                plan.then(Action::Load(self.filling(direction, flows)));
            }
        }
        if let Some(interval) = self.fresh {
            plan.then(Action::Fresh(Some(Fresh {
                interval,
                at_once: AT_ONCE,
            })));
        }
        plan.then(Action::Wait(self.warm));
        plan.event("warmup_end", self.name.clone(), "");
        plan.then(Action::Wait(self.steady));
        plan.event("phase_end", self.name.clone(), "");
        let mut after = Planned::default();
        after.then(Action::Fresh(None));
        after.then(Action::StopLoad(None));
        after.event("phase", "drain", "");
        after.then(Action::Wait(self.drain));
        after.then(Action::Collect);
        (plan, after)
    }

    /// Script of the run: rest, warm-up, steady part, drain.
    pub fn script(&self) -> Planned {
        let (mut plan, mut after) = self.parts();
        for action in after.drain() {
            plan.then(action);
        }
        plan
    }

    fn filling(&self, direction: Direction, flows: u32) -> Filling {
        Filling {
            number: direction as u32,
            direction,
            flows,
            congestion: None,
            duration: Duration::from_secs(3600),
            sample: Duration::from_millis(50),
            datagrams: None,
        }
    }
}

/// Repeats a load over a link.
///
/// # Errors
/// The link's description is invalid.
pub fn run(link: &LinkSpec, load: &Load, seed: u64) -> Result<Recording, RunError> {
    let plan = bufferbloat::Plan {
        hosts: Hosts::default(),
        tcp: Settings {
            controller: load.controller.clone(),
            burst: load.burst,
            ..bufferbloat::Plan::new(link.clone(), seed).tcp
        },
        ..bufferbloat::Plan::new(link.clone(), seed)
    };
    let bounds = Bounds::of(Bytes::new(u64::MAX));
    let outcome = bufferbloat::carry_out(&plan, &mut load.script(), &bounds, "test")?;
    Ok(outcome.recording)
}

fn span(from_ns: i64, to_ns: i64) -> Duration {
    Duration::from_nanos(to_ns.saturating_sub(from_ns).max(0) as u64)
}

/// Flows of a direction in a phase.
fn flows(rec: &Recording, phase: &Phase, direction: Direction) -> u32 {
    if !phase.loads(direction) {
        return 0;
    }
    let rows = phases::flows(rec, direction, phase.whole());
    let all: BTreeSet<i64> = rows.iter().map(|f| f.flow).collect();
    all.len() as u32
}

/// Median interval between times; none if there are fewer than three.
fn every(times: &mut dyn Iterator<Item = i64>) -> Option<Duration> {
    let mut times: Vec<i64> = times.collect();
    times.sort_unstable();
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|w| w[1].saturating_sub(w[0]) as f64)
        .collect();
    let usual = stats::median(&gaps).filter(|_| gaps.len() >= 2)?;
    Some(Duration::from_nanos(usual.clamp(1e5, 1e10) as u64))
}

/// Controller of the recording's flows; CUBIC unless the plan names another that is known here.
fn controller(rec: &Recording) -> Arc<ControllerSpec> {
    let named = rec.meta.plan.get("congestion").and_then(|c| c.as_str());
    let known = named.and_then(|name| controller_named(name).ok());
    Arc::new(known.unwrap_or_else(|| "cubic".parse().expect("cubic is in the table")))
}
