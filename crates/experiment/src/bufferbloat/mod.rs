//! Where packets wait on a line, how long, and why: `tailback test`.
//!
//! **Method.** The line at rest, then filled by a download, by an upload, by both, while probes on their own flow measure the
//! delay. A phase ends when [`analysis::stable`] says that its figures are settled, or that they will not be. After a phase that
//! loads one direction [`analysis::next_train`] says which trains settle what the load left open.
//!
//! **Answer.** [`analysis::analyse_test`]; `report::terminal` and `report::html` have its text.

mod steps;

pub use steps::{Bufferbloat, base_rtt, rtt_now};

use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};
use serde::{Deserialize, Serialize};

/// Everything that decides how a test runs; kept in the recording, so that it can be run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The far end as the user named it, or `embedded`.
    pub server: String,
    pub phases: Vec<Phase>,
    /// An idle phase lasts at least and at most this long.
    pub idle_min: Duration,
    pub idle_max: Duration,
    /// A loaded phase lasts at least this long after its warm-up.
    pub loaded_min: Duration,
    /// A loaded phase lasts at most this long after its warm-up, or 40 round trips under load where that is more.
    pub loaded_max: Duration,
    /// Upper limit on a loaded phase, warm-up included, whatever the round trip.
    #[serde(default)]
    pub longest: Option<Duration>,
    /// No phase outlasts this, however slow the line.
    pub phase_cap: Duration,
    /// TCP connections in each direction; by the line's rate where not given.
    pub flows: Option<u32>,
    /// CUBIC where the kernel lets us, if not given.
    pub congestion: Option<String>,
    /// UDP at this rate instead of TCP.
    pub udp_rate: Option<BitsPerSec>,
    /// Time between probes; by the line's rate where not given.
    pub probe_interval: Option<Duration>,
    /// Interface whose counters show other traffic; the one that leads to the server where not given.
    pub interface: Option<String>,
    /// Wait this long for others to leave the line before the test begins.
    pub hold_off: Option<Duration>,
    /// True to wait while another client loads the server's uplink; false to fail at once.
    #[serde(default = "default_waits")]
    pub waits: bool,
    /// Upper limit on the data of all loads and trains, both directions together.
    #[serde(default = "default_budget")]
    pub budget: Bytes,
    /// Upper limit on the overload trains of one direction.
    #[serde(default = "default_train_budget")]
    pub train_budget: Bytes,
}

fn default_waits() -> bool {
    true
}

fn default_budget() -> Bytes {
    Bytes::new(400_000_000)
}

fn default_train_budget() -> Bytes {
    Bytes::new(60_000_000)
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            server: "embedded".into(),
            phases: vec![Phase::Idle, Phase::Down, Phase::Up, Phase::Both],
            idle_min: Duration::from_secs(5),
            idle_max: Duration::from_secs(10),
            loaded_min: Duration::from_secs(8),
            loaded_max: Duration::from_secs(15),
            longest: None,
            phase_cap: Duration::from_secs(90),
            flows: None,
            congestion: None,
            udp_rate: None,
            probe_interval: None,
            interface: None,
            hold_off: None,
            waits: default_waits(),
            budget: default_budget(),
            train_budget: default_train_budget(),
        }
    }
}

impl Plan {
    /// Limits of the loop that carries the test out. Its loads keep to the budget by themselves.
    pub fn bounds(&self) -> crate::Bounds {
        crate::Bounds {
            first_train: 0,
            budget: self.budget,
            others: match self.hold_off {
                Some(longest) => crate::Others::KeepAtFirst(longest),
                None => crate::Others::Welcome,
            },
            waits: self.waits,
        }
    }
}

/// One phase of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Idle,
    Down,
    Up,
    Both,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Idle, Phase::Down, Phase::Up, Phase::Both];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Down => "down",
            Phase::Up => "up",
            Phase::Both => "both",
        }
    }

    /// Directions that it loads.
    pub fn loads(self) -> &'static [Direction] {
        match self {
            Phase::Idle => &[],
            Phase::Down => &[Direction::Down],
            Phase::Up => &[Direction::Up],
            Phase::Both => &[Direction::Down, Direction::Up],
        }
    }
}
