//! What the kind `check` notes: one note for each step, which is a kind of its own with its parameters.

use super::Noted;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckNote {
    /// The kind and what it was told, such as `buffer:direction=up`.
    pub probe: String,
    /// Its rows are those of this time, UNIX ns.
    pub began_ns: i64,
    pub ended_ns: i64,
    /// Why it was not done, or not to its end; null where it was.
    pub problem: Option<String>,
    /// What it put on the line, whole IP packets, both directions together.
    pub bytes: u64,
}

impl Noted for CheckNote {
    const KIND: &'static str = "check";
}
