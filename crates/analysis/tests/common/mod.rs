//! The whole test in virtual time, as `sim::bufferbloat` runs it; each phase ends when the analysis' own stop rule says so.

use base::record::{Event, Recording};
use base::{Bytes, Duration};
use link::LinkSpec;
use sim::bufferbloat;

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

pub fn run(plan: Plan) -> Recording {
    let mut whole = bufferbloat::Plan::new(plan.link, plan.seed);
    let test = &mut whole.test;
    test.flows = Some(plan.flows as u32);
    test.loaded_max = Duration::from_nanos(plan.most as u64);
    test.phase_cap = test.phase_cap.max(test.loaded_max);
    test.phases
        .retain(|phase| plan.phases.contains(&phase.name()));
    whole.hosts.ahead_ns = plan.clock_offset;
    whole.hosts.drift_ppm = plan.drift_ppm;
    if plan.most_packets.is_finite() {
        let window = plan.most_packets as u64 * whole.tcp.mss.get();
        let most = Some(Bytes::new(window));
        whole
            .hosts
            .limits
            .iter_mut()
            .for_each(|l| l.receive_window = most);
    }
    let mut rec = bufferbloat::run(&whole).unwrap().recording;
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
