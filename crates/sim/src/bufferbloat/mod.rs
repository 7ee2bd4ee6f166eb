//! Experiments in virtual time over a [`link::Link`] whose truth is known: probes, loads, fresh connections, trains and
//! counters as [`experiment::Host`] requests them. The result is a recording of the same shape as a real one, and the
//! link's own view.
//!
//! **Source**: `live::sockets`, which does the same over real sockets; [`experiment::bufferbloat`] has the steps of the
//! test.
//!
//! **Deviations**: hosts delay the timestamps of probes, but not TCP segments. One segment is one packet. The control
//! connections carry no traffic. The first packets sent back to back are longer by their headers. The first probe
//! leaves one interval after a session starts.
//!
//! **Validated against**: `crates/cli/tests/draws.rs`, the results on random links of a fixed seed.

mod ask;
mod browse;
mod capture;
mod crafted;
mod far;
mod fresh;
mod host;
mod knock;
mod letters;
pub mod network;
mod paced;
mod probes;
mod quic;
mod seen;
mod series;
mod trace;
mod transfer;
mod whole;
mod world;

pub use network::Network;
pub use probes::ip_size as probe_size;
pub use seen::{PhaseSeen, Seen, Wait, Who};

use crate::tcp::Settings;
use base::record::{Direction, Recording};
use base::{BitsPerSec, Bytes, Duration};
use experiment::bufferbloat::Bufferbloat;
use experiment::host::Host;
use experiment::{Bounds, Steps, Stopped, Unwatched, Watch};
use link::{LinkSpec, SpecError};
use world::World;

/// UNIX time at the start of every run, ns.
pub use world::EPOCH_NS;

/// Limits of the two hosts for one direction's load, all its flows together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Largest receive window of each flow.
    pub receive_window: Option<Bytes>,
    /// Payload rate at which the sending application writes.
    pub application: Option<BitsPerSec>,
    /// Payload rate at which the receiving application reads.
    pub reader: Option<BitsPerSec>,
}

/// Parameters of both hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hosts {
    /// Lead of the far clock at the start, ns; `drift_ppm` is its drift.
    pub ahead_ns: i64,
    /// Drift of the far clock, parts in a million.
    pub drift_ppm: f64,
    /// Mean delay of a timestamp; exponentially distributed.
    pub stamp_late: Duration,
    /// Limits of the loads by direction: up, down.
    pub limits: [Limits; 2],
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts {
            ahead_ns: 0,
            drift_ppm: 0.0,
            stamp_late: Duration::from_micros(15),
            limits: [Limits::default(); 2],
        }
    }
}

/// Cross traffic in one direction: packets at random times, in bursts with silence between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cross {
    /// Direction of the cross traffic.
    pub direction: Direction,
    /// Rate of whole IP packets during a burst.
    pub rate: BitsPerSec,
    /// Mean length of a burst and of the silence after it; always on if the silence is zero.
    pub on: Duration,
    /// Pause between two bursts.
    pub off: Duration,
    /// True if it comes from or goes to the measuring host itself, whose interface counts it.
    pub here: bool,
}

/// A link, its hosts, and the test that is run over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Link between the ends.
    pub link: LinkSpec,
    /// Router between the near host and the link: its uplink feeds the link's, and the link's downlink feeds its own.
    /// The true waits of [`Seen`] are those of the last queue.
    pub router: Option<LinkSpec>,
    /// Seed of the run.
    pub seed: u64,
    /// Hosts at both ends.
    pub hosts: Hosts,
    /// Cross traffic beside the test.
    pub cross: Vec<Cross>,
    /// Surroundings of the link.
    pub network: Network,
    /// Settings of TCP.
    pub tcp: Settings,
    /// Plan of the test.
    pub test: experiment::bufferbloat::Plan,
    /// True to keep the queues' log of marks.
    pub logs_marks: bool,
}

impl Plan {
    /// Plan of the real test, with its usual times.
    pub fn new(link: LinkSpec, seed: u64) -> Plan {
        Plan {
            link,
            router: None,
            seed,
            hosts: Hosts::default(),
            cross: Vec::new(),
            network: Network::default(),
            tcp: Settings {
                // The real load's receivers have autotuned windows, so the link's queue is the limit.
                receive_window: Bytes::new(64 << 20),
                ..Settings::default()
            },
            test: experiment::bufferbloat::Plan::default(),
            logs_marks: false,
        }
    }
}

/// Result of a finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Recording of the test.
    pub recording: Recording,
    /// True waits and counts.
    pub seen: Seen,
}

/// Reason why a run did not start or did not finish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Link(#[from] SpecError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Runs a whole test.
///
/// # Errors
/// The link specification is invalid.
pub fn run(plan: &Plan) -> Result<Outcome, RunError> {
    let mut test = Bufferbloat::new(plan.test.clone());
    carry_out(plan, &mut test, &plan.test.bounds(), "test")
}

/// Runs any experiment over the plan's link.
///
/// # Errors
/// The link specification is invalid; the experiment requests a step that this host does not support, or ends early.
pub fn carry_out(
    plan: &Plan,
    steps: &mut dyn Steps,
    bounds: &Bounds,
    verb: &str,
) -> Result<Outcome, RunError> {
    let mut world = World::new(plan)?;
    world.rec.meta.verb = verb.into();
    experiment::run(steps, bounds, &mut world, &mut Unwatched)?;
    Ok(world.finish())
}

/// Runs any probe over the plan's link while somebody watches. Gives what was recorded also of a probe that ends early.
///
/// # Errors
/// The link specification is invalid.
pub fn observe(
    plan: &Plan,
    steps: &mut dyn Steps,
    bounds: &Bounds,
    watch: &mut dyn Watch,
) -> Result<(Outcome, Result<(), Stopped>), SpecError> {
    with_host(plan, |host| {
        experiment::run(steps, bounds, host, watch).map(drop)
    })
}

/// Lends the plan's host in virtual time to a caller that runs an experiment on it, or on a host around it.
///
/// # Errors
/// The link specification is invalid.
pub fn with_host<T>(
    plan: &Plan,
    run: impl FnOnce(&mut dyn Host<Error = Stopped>) -> T,
) -> Result<(Outcome, T), SpecError> {
    let mut world = World::new(plan)?;
    world.rec.meta.verb = "probe".into();
    let went = run(&mut world);
    Ok((world.finish(), went))
}
