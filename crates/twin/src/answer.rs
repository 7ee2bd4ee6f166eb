//! Figures of a twin, as `--json` prints them.

use analysis::answer::Discipline;
use base::record::Direction;
use link::LinkSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Version of this shape in `--json`.
pub const TWIN_VERSION: u32 = 1;

/// Twin of a link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Twin {
    /// Version of the shape, [`TWIN_VERSION`].
    pub version: u32,
    /// Title of the recording.
    pub title: String,
    /// Link file of the twin.
    #[schemars(with = "serde_json::Value")]
    pub link: LinkSpec,
    /// Congestion controller of the recorded load.
    pub controller: String,
    /// Segments that leave a sender together.
    pub burst: u64,
    /// Base round trip of the recording, ms.
    pub base_rtt_ms: Figure,
    /// Figures of the uplink; none if a given link was checked instead of fitted.
    pub up: Option<Fitted>,
    /// Figures of the downlink.
    pub down: Option<Fitted>,
    /// Comparisons of link and twin, phase by phase.
    pub compared: Vec<Compared>,
    /// Verdict on the twin.
    pub trust: Trust,
    /// Evidence of the verdict, one line each.
    pub because: Vec<String>,
    /// Simulated runs that this took.
    pub runs: u64,
}

/// Verdict on a twin.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The twin reproduces a load that it was not fitted to.
    Agrees,
    /// The recording holds no such load, or only part of it is reproduced.
    Doubtful,
    /// The twin is not this link.
    Rejected,
}

/// Fit of one direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fitted {
    /// Rate in whole IP packets; the mean where it varies.
    pub rate_bps: Figure,
    /// Share of the time in which the rate was seen, if it varies; none for a fixed rate.
    pub rate_seen: Option<f64>,
    /// Buffer, or the reason why it does not show.
    pub buffer_bytes: Figure,
    /// Name of the discipline, or the reason why it cannot be told.
    pub discipline: Named,
    /// Kind of the discipline.
    pub kind: Discipline,
    /// Disciplines that explain the recording as well, the best first.
    pub ties: Vec<Tie>,
    /// Evidence on the kind of queue, from the load and the overload trains.
    pub evidence: Vec<String>,
}

/// Name, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Named {
    /// Name.
    Is(String),
    /// Reason why there is none.
    CannotTell { cannot_tell: String },
}

/// Discipline that explains the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tie {
    /// Name for people.
    pub name: String,
    /// Queue as a link file has it.
    pub queue: String,
    /// Log-likelihood below that of the best.
    pub behind: f64,
}

/// Link and twin in one phase and direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Phase of the test.
    pub phase: String,
    /// True if the twin was not fitted to this phase.
    pub held_out: bool,
    /// Direction of the waits.
    pub direction: Direction,
    /// Median, 95 % and 99 % points of the waits of the link, ms.
    pub link_ms: [f64; 3],
    /// The same of the twin: means over seeds.
    pub twin_ms: [f64; 3],
    /// Range of the twin's 95 % point over seeds, ms.
    pub twin_p95_range_ms: [f64; 2],
    /// Relative error of the 95 % point.
    pub p95_error: f64,
    /// Mean distance of the two distributions, ms.
    pub w1_ms: f64,
    /// The same between two runs of the twin: the noise floor, ms.
    pub floor_ms: f64,
    /// `w1_ms` / `floor_ms`.
    pub score: f64,
    /// Relative error of the rate; none if this direction was not loaded.
    pub rate_error: Option<f64>,
    /// Verdict on this phase and direction.
    pub trust: Trust,
}

impl Twin {
    /// Relative error of its delays on the held-out load: the mean of both directions, 2 % at the least.
    pub fn error(&self) -> f64 {
        let held_out = self.compared.iter().filter(|c| c.held_out);
        let errors: Vec<f64> = held_out.map(|c| c.p95_error.abs()).collect();
        stats::moments(&errors).map_or(0.1, |m| m.mean.clamp(0.02, 1.0))
    }

    /// Links that explain the recording alike, the best first: at most this many.
    pub fn alike(&self, most: usize) -> Vec<LinkSpec> {
        let mut all = vec![self.link.clone()];
        let pair = [("up", &self.up), ("down", &self.down)];
        for (direction, fitted) in pair {
            for tie in fitted.iter().flat_map(|f| &f.ties) {
                let mut link = self.link.clone();
                // A queue that this program wrote is one that it reads.
                let set = link.set(&format!("{direction}.queue"), &tie.queue);
                if set.is_ok() && !all.contains(&link) && all.len() < most {
                    all.push(link);
                }
            }
        }
        all
    }
}
