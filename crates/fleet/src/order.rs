//! Orders of an operator, and their answers.

use serde::{Deserialize, Serialize};

/// Order of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// State of all points.
    Status,
    /// Changes of the fleet.
    Log,
    /// Publishes a plan.
    Plan { text: String },
    /// Asks points for a run out of turn.
    RunNow {
        points: Vec<String>,
        measurement: String,
    },
    /// Sets labels of a point.
    Label { point: String, labels: Vec<String> },
    /// Compares points over these days (UTC), from the first one to the last; all days if they are empty.
    Report {
        subject: Subject,
        from: String,
        to: String,
    },
    /// Halts the newest release, or lets it go on.
    Release { halt: bool },
    /// Makes a one-time code: for the point of this name, or for a shared recording.
    Invite { name: Option<String> },
    /// Ends the access of a point.
    Revoke { name: String },
    /// Ends the access of a point and deletes its recordings.
    Forget { name: String },
}

/// Subject of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// All points, perhaps in groups by a label.
    Points { by: Option<String> },
    /// One point over its days.
    Point { name: String },
}

/// Looks of the answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Columns of a table.
    pub table: usize,
    /// Columns of a report.
    pub columns: usize,
    pub colour: bool,
    pub unicode: bool,
}

/// Answer to an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// JSON of the answer; empty if the order has none.
    pub json: String,
    pub text: String,
    /// Page of a report.
    pub page: Option<String>,
    /// Sentences about recordings that a report leaves out.
    pub left_out: Vec<String>,
}

impl Told {
    pub(crate) fn new(json: &impl Serialize, text: String) -> anyhow::Result<Told> {
        Ok(Told {
            json: serde_json::to_string_pretty(json)?,
            text,
            ..Told::default()
        })
    }

    pub(crate) fn only(text: String) -> Told {
        Told {
            text,
            ..Told::default()
        }
    }
}
