//! Monitor: its plan, its targets, and the state of each for a display. `live` probes them.

mod status;
mod target;

pub use status::{LIMITS, MonitorStatus, SCHEMA, TargetStatus, bucket};
pub use target::{Target, TargetError, TargetKind};

use base::Duration;
use serde::{Deserialize, Serialize};

/// Settings that decide what is recorded; the recording stores them, so that it can be repeated and continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorPlan {
    /// Targets to probe; none to count the traffic of the interfaces alone.
    pub targets: Vec<Target>,
    /// Time after which a probe without answer is lost.
    pub lost_after: Duration,
    /// Time for which an answer is awaited: one that comes after all is written as late.
    pub kept_for: Duration,
    /// Interfaces to watch; by default the one towards the first target.
    pub interfaces: Vec<String>,
    /// Interval of the rows of traffic.
    pub traffic_interval: Duration,
    /// Interval of the rows of the processors' load.
    pub load_interval: Duration,
    /// Interval of the rows of availability.
    pub availability_interval: Duration,
    /// True to use IPv4 only.
    pub only_v4: bool,
    /// True to use IPv6 only.
    pub only_v6: bool,
}

impl Default for MonitorPlan {
    fn default() -> MonitorPlan {
        MonitorPlan {
            targets: Vec::new(),
            lost_after: Duration::from_secs(10),
            kept_for: Duration::from_secs(180),
            interfaces: Vec::new(),
            traffic_interval: Duration::from_millis(100),
            load_interval: Duration::from_secs(1),
            availability_interval: Duration::from_secs(5),
            only_v4: false,
            only_v6: false,
        }
    }
}
