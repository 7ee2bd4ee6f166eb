//! The whole test in virtual time, as `sim::bufferbloat` runs it; each phase ends when the analysis' own stop rule says so.

use base::program::{Sending, Train};
use base::record::{Direction, Event, Recording};
use base::{Bytes, Duration};
use link::LinkSpec;
use sim::bufferbloat::{self, Decide, Phase};

#[derive(Clone, Debug)]
pub struct Plan {
    pub link: LinkSpec,
    pub seed: u64,
    pub flows: usize,
    /// Far clock minus near clock at the start, ns, and its drift.
    pub clock_offset: i64,
    pub drift_ppm: f64,
    pub same_clock: bool,
    /// Longest time of a loaded phase, ns.
    pub most: i64,
    /// Packets that a flow may have in flight.
    pub most_packets: f64,
    pub phases: Vec<&'static str>,
}

impl Plan {
    pub fn new(link: &str, seed: u64) -> Plan {
        Plan {
            link: LinkSpec::named(link).unwrap(),
            seed,
            flows: 1,
            clock_offset: 0,
            drift_ppm: 0.0,
            same_clock: true,
            most: if link == "gprs" { 180 } else { 60 } * 1_000_000_000,
            most_packets: f64::INFINITY,
            phases: vec!["idle", "down", "up", "both"],
        }
    }

    pub fn set(mut self, key: &str, value: &str) -> Plan {
        self.link.set(key, value).unwrap();
        self
    }
}

/// The analysis decides when a phase may stop and which trains to send, as in the real test.
struct Analysis;

impl Decide for Analysis {
    fn stable(&mut self, so_far: &Recording, phase: &str, now_ns: i64) -> (bool, String) {
        let s = analysis::stable(so_far, phase, now_ns);
        (s.stable, s.why)
    }

    fn next_train(
        &mut self,
        so_far: &Recording,
        direction: Direction,
        budget: Bytes,
    ) -> Option<Sending> {
        let trains: Vec<Train> = Train::all_of(so_far)
            .into_iter()
            .filter(|t| t.facts.direction == direction)
            .collect();
        analysis::next_train(so_far, direction, &trains, budget)
    }
}

pub fn run(plan: Plan) -> Recording {
    let mut whole = bufferbloat::Plan::new(plan.link, plan.seed);
    whole.flows = Some(plan.flows as u32);
    whole.hosts.ahead_ns = plan.clock_offset;
    whole.hosts.drift_ppm = plan.drift_ppm;
    whole.loaded_max = Duration::from_nanos(plan.most as u64);
    whole.phase_cap = whole.phase_cap.max(whole.loaded_max);
    if plan.most_packets.is_finite() {
        let window = plan.most_packets as u64 * whole.tcp.mss.get();
        let most = Some(Bytes::new(window));
        whole
            .hosts
            .limits
            .iter_mut()
            .for_each(|l| l.receive_window = most);
    }
    let named = [Phase::Idle, Phase::Down, Phase::Up, Phase::Both];
    whole.phases = named
        .into_iter()
        .filter(|p| plan.phases.contains(&p.name()))
        .collect();
    let mut rec = bufferbloat::run(&whole, &mut Analysis).unwrap().recording;
    if plan.same_clock {
        let same = Event {
            t_ns: rec.meta.started_ns,
            kind: "clock".into(),
            subject: "same".into(),
            detail: "".into(),
        };
        rec.event.insert(0, same);
    }
    rec.delay.sort_by_key(|d| d.sent_ns);
    rec
}
