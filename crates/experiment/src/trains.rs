//! Sendings that several kinds start with. `analysis::trains` has the figures of single trains.

pub use analysis::trains::{
    CLOCK, arrivals, growth, loss, of_stage, overloads, received_rate, received_rate_figure,
    sent_rate, waits,
};

use base::Duration;
use base::program::{Program, Sending, Step};
use base::record::Direction;
use base::spec::choices;

/// Datagrams of the first, careful measurement of a link.
const SCOUTS: u64 = 12;
/// Name of that stage.
pub const SCOUT: &str = "scout";

choices! {
    /// Directions, one after the other.
    pub enum Ways { Both = "both", Up = "up", Down = "down" }
}

choices! {
    /// Directions, up by default.
    pub enum Ends { Up = "up", Down = "down", Both = "both" }
}

impl Ways {
    /// Directions, one after the other.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Ways::Both => &[Direction::Up, Direction::Down],
            Ways::Up => &[Direction::Up],
            Ways::Down => &[Direction::Down],
        }
    }
}

impl Ends {
    /// Directions, one after the other.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Ends::Up => Ways::Up.directions(),
            Ends::Down => Ways::Down.directions(),
            Ends::Both => Ways::Both.directions(),
        }
    }
}

/// Sending of one program.
pub fn one(stage: impl Into<String>, direction: Direction, rest: Duration, step: Step) -> Sending {
    Sending {
        stage: stage.into(),
        direction,
        programs: vec![Program::of(step)],
        rest,
    }
}

/// Sending of a dozen datagrams back to back: enough for a rough rate, and too few to hurt even a link of 10 kbit/s.
pub fn scout(direction: Direction, payload: u32) -> Sending {
    one(
        SCOUT,
        direction,
        Duration::ZERO,
        Step::burst(SCOUTS, payload),
    )
}

/// A duration in whole milliseconds, at least one and no longer than a program.
pub fn seconds(s: f64) -> Duration {
    // What a far end says can make any number.
    Duration::from_millis((s * 1e3).round().max(1.0) as u64).min(base::program::LONGEST)
}
