//! Bufferbloat test: place, size and kind of a link's queues: `tailback test`.
//!
//! **Method.** The link is idle, then filled by a download, by an upload, and by both, while probes on their own flow
//! measure the delay. A phase ends when [`analysis::stable`] says that its figures are settled, or that they will not
//! be. After a phase that loads one direction, [`analysis::next_train`] chooses the trains that settle the open
//! questions.
//!
//! **Answer.** [`analysis::analyse_test`]; `report::terminal` and `report::html` have its text.

mod steps;

pub use steps::{Bufferbloat, base_rtt, rtt_now};

use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};
use serde::{Deserialize, Serialize};

/// Settings of a test; the recording stores them, so that it can be run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Server as the user named it, or `embedded`.
    pub server: String,
    /// Phases to run, in order.
    pub phases: Vec<Phase>,
    /// Shortest and longest idle phase.
    pub idle_min: Duration,
    /// Longest idle phase.
    pub idle_max: Duration,
    /// Shortest loaded phase after its warm-up.
    pub loaded_min: Duration,
    /// Longest loaded phase after its warm-up, or 40 round trips under load if that is more.
    pub loaded_max: Duration,
    /// Upper limit on a loaded phase, warm-up included, for any round trip.
    #[serde(default)]
    pub longest: Option<Duration>,
    /// Upper limit on any phase, for any link.
    pub phase_cap: Duration,
    /// TCP connections in each direction; by default chosen by the link's rate.
    pub flows: Option<u32>,
    /// Congestion control; by default CUBIC, if the kernel allows it.
    pub congestion: Option<String>,
    /// Rate of UDP, as a load instead of TCP.
    pub udp_rate: Option<BitsPerSec>,
    /// Interval between probes; by default chosen by the link's rate.
    pub probe_interval: Option<Duration>,
    /// Interface that all sockets are bound to, and whose counters show cross traffic; by default the one towards the server.
    pub interface: Option<String>,
    /// Longest wait for cross traffic to end before the test starts.
    pub hold_off: Option<Duration>,
    /// True to wait while another client loads the server's uplink; false to fail at once.
    #[serde(default = "default_waits")]
    pub waits: bool,
    /// Upper limit on the data of all loads and trains, both directions combined.
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

/// Phase of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Idle,
    Down,
    Up,
    Both,
}

impl Phase {
    /// All values, in order.
    pub const ALL: [Phase; 4] = [Phase::Idle, Phase::Down, Phase::Up, Phase::Both];

    /// Name in recordings and options.
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
