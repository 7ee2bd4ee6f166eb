//! Notes of the experiment `check`: one for each step, which is itself an experiment with parameters.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Note about one step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckNote {
    /// Experiment with its parameters, such as `buffer:direction=up`.
    pub probe: String,
    /// Start of the step, UNIX ns; rows between start and end belong to it.
    pub began_ns: i64,
    /// End of the step, UNIX ns.
    pub ended_ns: i64,
    /// Reason why the step did not run or did not finish; null if it finished.
    pub problem: Option<String>,
    /// Bytes sent over the link: whole IP packets, both directions combined.
    pub bytes: u64,
}

impl Noted for CheckNote {
    const KIND: &'static str = "check";
}
