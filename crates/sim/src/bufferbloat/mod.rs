//! `tailback test` in virtual time: the phases, probes, loads and counters of the real test over a [`link::Link`] whose
//! truth is known. The result is a recording of the same shape as a real one, and what the link itself saw.
//!
//! **Source**: `live::test`, phase by phase; `measure::cadence` for the probes' intervals.
//!
//! **Deviations**: hosts add no delay to TCP segments, only to the stamps of probes; one segment is one packet; the
//! control connections carry no traffic.
//!
//! **Validated against**: `crates/cli/tests/draws.rs`, the answers on random links of a fixed seed.

mod conductor;
mod crafted;
mod fresh;
mod probes;
mod seen;
mod transfer;
mod world;

pub use conductor::run;
pub use probes::ip_size as probe_size;
pub use seen::{PhaseSeen, Seen, Wait, Who};

use crate::tcp::Settings;
use base::program::Sending;
use base::record::{Direction, Recording};
use base::{BitsPerSec, Bytes, Duration};
use link::LinkSpec;

/// One phase of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    pub(crate) fn loads(self) -> &'static [Direction] {
        match self {
            Phase::Idle => &[],
            Phase::Down => &[Direction::Down],
            Phase::Up => &[Direction::Up],
            Phase::Both => &[Direction::Down, Direction::Up],
        }
    }
}

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

/// All of a test in virtual time.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub link: LinkSpec,
    pub seed: u64,
    pub hosts: Hosts,
    pub cross: Vec<Cross>,
    pub phases: Vec<Phase>,
    /// Flows of each direction; by the link's rate where not given.
    pub flows: Option<u32>,
    pub tcp: Settings,
    pub idle_min: Duration,
    pub idle_max: Duration,
    pub loaded_min: Duration,
    pub loaded_max: Duration,
    pub phase_cap: Duration,
    /// Upper limit on the data of all loads and trains, both directions together, and on the trains of one direction.
    pub budget: Bytes,
    pub train_budget: Bytes,
}

impl Plan {
    /// The times of the real test's plan.
    pub fn new(link: LinkSpec, seed: u64) -> Plan {
        Plan {
            link,
            seed,
            hosts: Hosts::default(),
            cross: Vec::new(),
            phases: vec![Phase::Idle, Phase::Down, Phase::Up, Phase::Both],
            flows: None,
            tcp: Settings {
                // The real load's receivers have autotuned windows; a link's queue is the limit, not they.
                receive_window: Bytes::new(64 << 20),
                ..Settings::default()
            },
            idle_min: Duration::from_secs(5),
            idle_max: Duration::from_secs(10),
            loaded_min: Duration::from_secs(8),
            loaded_max: Duration::from_secs(15),
            phase_cap: Duration::from_secs(90),
            budget: Bytes::new(400_000_000),
            train_budget: Bytes::new(60_000_000),
        }
    }
}

/// Decisions that are not the simulation's: when a phase may stop, and what else to send.
pub trait Decide {
    /// True once the figures of the running phase are settled, and why or why not.
    fn stable(&mut self, so_far: &Recording, phase: &str, now_ns: i64) -> (bool, String);
    /// A train of at most `budget` to send before the next phase; asked after each phase that loads one direction, until it
    /// gives none.
    fn next_train(
        &mut self,
        _so_far: &Recording,
        _direction: Direction,
        _budget: Bytes,
    ) -> Option<Sending> {
        None
    }
}

/// A finished test.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub recording: Recording,
    pub seen: Seen,
}
