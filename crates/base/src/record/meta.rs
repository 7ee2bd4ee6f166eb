//! `meta.json`: the kind of recording, and everything needed to run it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the whole format: the tables' columns and this file. Any change of meaning raises it and adds an upgrade
/// from the version before.
pub const FORMAT_VERSION: u32 = 1;

/// Origin of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    #[default]
    Measured,
    Emulated,
    Simulated,
    Captured,
    Imported,
}

/// Facts of a recording: its plan, host, phases and exclusions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// Version of the format; see `FORMAT_VERSION`.
    pub format: u32,
    /// Program that wrote the recording, with version and commit.
    pub writer: String,
    /// Origin of the rows: measured, simulated and so on.
    pub origin: Origin,
    /// Verb that made the recording, such as `test`.
    pub verb: String,
    /// Title for people, such as `home ADSL`.
    pub title: String,
    /// Start of the recording, UNIX ns.
    pub started_ns: i64,
    /// End of the recording, UNIX ns. Null while it runs, and after a crash.
    pub ended_ns: Option<i64>,
    /// True if the run reached its planned end; false after a crash or an interruption.
    pub complete: bool,
    /// Whole plan or scenario: enough to run it again.
    pub plan: serde_json::Value,
    /// Properties of the link known without measuring: the emulated link's definition, or the contracted rates.
    pub known_link: Option<serde_json::Value>,
    /// Facts about the host.
    pub host: Host,
    /// Time ranges that analysis must leave out, with the reason.
    pub exclusions: Vec<Exclusion>,
}

/// Excluded time with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Reason in words.
    pub reason: String,
}

/// Facts of the measuring host that help to judge the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Kernel and its version.
    pub kernel: String,
    /// Number of processors.
    pub cpus: u32,
    /// Clock source, for example `kvm-clock`.
    pub clock_source: String,
    /// Further facts: interface, its queue discipline, offloads, congestion control.
    pub facts: BTreeMap<String, String>,
}
