//! Alerts: findings with their severity, the list at the top of an answer that found a fault.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks",
//! UTFSM, table 4 (Netalyzr's list of alerts).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Severity, gravest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A common use does not work, or not as its user thinks.
    Serious,
    /// A use works badly, or will fail in cases that do occur.
    Warning,
    /// A fact worth knowing.
    Note,
}

impl Severity {
    /// Word for it in texts and files.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Serious => "serious",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Finding with its severity and its consequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// Severity of the finding.
    pub severity: Severity,
    /// Finding in one sentence.
    pub what: String,
    /// Consequence for the user.
    pub means: String,
}

impl Alert {
    /// Creates an alert.
    pub fn new(severity: Severity, what: impl Into<String>, means: impl Into<String>) -> Alert {
        Alert {
            severity,
            what: what.into(),
            means: means.into(),
        }
    }
}

/// Alerts, gravest first, otherwise in the order in which they were found.
pub fn sorted(mut alerts: Vec<Alert>) -> Vec<Alert> {
    alerts.sort_by_key(|a| a.severity);
    alerts
}
