//! `meta.json`: what kind of recording this is, and everything needed to run it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the whole format: the tables' columns and this file. A change of meaning raises it and
/// brings an upgrade from the version before.
pub const FORMAT_VERSION: u32 = 1;

/// How a recording came about.
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// Version of the format; see `FORMAT_VERSION`.
    pub format: u32,
    /// The program that wrote it, with version and commit.
    pub writer: String,
    pub origin: Origin,
    /// The verb that made it, such as `test`.
    pub verb: String,
    /// A name for people, such as `home ADSL`.
    pub title: String,
    /// When it began, UNIX ns.
    pub started_ns: i64,
    /// When it was closed, UNIX ns. Null while it runs, and after a crash.
    pub ended_ns: Option<i64>,
    /// Whether the run went to its planned end; false after a crash or an interruption.
    pub complete: bool,
    /// The whole plan or scenario: enough to run it again.
    pub plan: serde_json::Value,
    /// What is known of the link without measuring: the emulated link's definition, or the contracted rates.
    pub known_link: Option<serde_json::Value>,
    pub host: Host,
    /// Stretches of time that analysis must leave out, with the reason.
    pub exclusions: Vec<Exclusion>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    pub from_ns: i64,
    pub to_ns: i64,
    pub reason: String,
}

/// Facts of the measuring host that a reader may need in order to judge the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub kernel: String,
    /// Number of processors.
    pub cpus: u32,
    /// Where time comes from, for example `kvm-clock`.
    pub clock_source: String,
    /// Everything else that is worth keeping: interface, its queue discipline, offloads, congestion control.
    pub facts: BTreeMap<String, String>,
}
