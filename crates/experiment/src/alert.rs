//! What a person should know, with its severity: the list at the top of an answer that found something wrong.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks",
//! UTFSM, table 4 (Netalyzr's list of alerts).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gravest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that people use does not work, or not as they think.
    Serious,
    /// Something works badly, or will fail in cases that do occur.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Serious => "serious",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    pub severity: Severity,
    /// What was found.
    pub what: String,
    /// What it means to a person.
    pub means: String,
}

impl Alert {
    pub fn new(severity: Severity, what: impl Into<String>, means: impl Into<String>) -> Alert {
        Alert {
            severity,
            what: what.into(),
            means: means.into(),
        }
    }
}

/// Gravest first, otherwise in the order in which they were found.
pub fn sorted(mut alerts: Vec<Alert>) -> Vec<Alert> {
    alerts.sort_by_key(|a| a.severity);
    alerts
}
