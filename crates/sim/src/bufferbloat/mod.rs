//! Experiments in virtual time over a [`link::Link`] whose truth is known: probes, loads, fresh connections, trains and
//! counters as [`experiment::Host`] asks for them. The result is a recording of the same shape as a real one, and what the
//! link itself saw.
//!
//! **Source**: `live::sockets`, which does the same over real ones; [`experiment::bufferbloat`] has the steps of the test.
//!
//! **Deviations**: hosts add no delay to TCP segments, only to the stamps of probes; one segment is one packet; the
//! control connections carry no traffic; the first packets back to back are longer by their headers; the first
//! probe leaves an interval after a session begins.
//!
//! **Validated against**: `crates/cli/tests/draws.rs`, the answers on random links of a fixed seed.

mod crafted;
mod fresh;
mod host;
mod paced;
mod probes;
mod seen;
mod transfer;
mod world;

pub use probes::ip_size as probe_size;
pub use seen::{PhaseSeen, Seen, Wait, Who};

use crate::tcp::Settings;
use base::record::{Direction, Recording};
use base::{BitsPerSec, Bytes, Duration};
use experiment::bufferbloat::Bufferbloat;
use experiment::{Bounds, Steps, Stopped, Unwatched};
use link::{LinkSpec, SpecError};
use world::World;

/// What the two hosts of one direction's load can do; all its flows together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Largest receive window of each flow.
    pub receive_window: Option<Bytes>,
    /// Payload rate at which the sending application writes.
    pub application: Option<BitsPerSec>,
    /// Payload rate at which the receiving application reads.
    pub reader: Option<BitsPerSec>,
}

/// Both hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hosts {
    /// How far the far clock is ahead at the start, and how fast it gains.
    pub ahead_ns: i64,
    pub drift_ppm: f64,
    /// Mean lateness of a stamp; exponentially distributed.
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

/// Cross traffic in one direction: packets at random times, in stretches with silence between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cross {
    pub direction: Direction,
    /// Rate of whole IP packets while it sends.
    pub rate: BitsPerSec,
    /// Mean length of a stretch and of the silence after it; always on where the silence is zero.
    pub on: Duration,
    pub off: Duration,
    /// True if it comes from or goes to the measuring host itself, whose interface counts it.
    pub here: bool,
}

/// A line, its hosts, and the test that is made over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub link: LinkSpec,
    pub seed: u64,
    pub hosts: Hosts,
    pub cross: Vec<Cross>,
    pub tcp: Settings,
    pub test: experiment::bufferbloat::Plan,
}

impl Plan {
    /// The real test, with the times of its plan.
    pub fn new(link: LinkSpec, seed: u64) -> Plan {
        Plan {
            link,
            seed,
            hosts: Hosts::default(),
            cross: Vec::new(),
            tcp: Settings {
                // The real load's receivers have autotuned windows; a link's queue is the limit, not they.
                receive_window: Bytes::new(64 << 20),
                ..Settings::default()
            },
            test: experiment::bufferbloat::Plan::default(),
        }
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub recording: Recording,
    pub seen: Seen,
}

/// Reason for which nothing was run, or not to the end.
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
/// The link cannot be as described.
pub fn run(plan: &Plan) -> Result<Outcome, RunError> {
    let mut test = Bufferbloat::new(plan.test.clone());
    carry_out(plan, &mut test, &plan.test.bounds(), "test")
}

/// Runs any experiment over the plan's line.
///
/// # Errors
/// The link cannot be as described; the experiment asks for what this host cannot do, or ends early.
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
