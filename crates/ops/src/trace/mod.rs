//! `tailback trace`: the figures of packet captures.

mod annotate;
mod answer;
mod applications;
#[cfg(target_os = "linux")]
mod background_capture;
#[cfg(target_os = "linux")]
mod both_ends;
mod each;
mod ends;
mod expert;
mod flows;
mod input;
mod keep;
#[cfg(target_os = "linux")]
mod live;
#[cfg(not(target_os = "linux"))]
#[path = "no_live.rs"]
mod live;
mod packet_rows;
mod packets;
mod plan;
mod plots;
mod queues;
mod recorded;
mod rows;
mod single;
mod text;
mod traffic;
mod view;

#[cfg(target_os = "linux")]
pub use background_capture::{BackgroundCapture, Passed};
#[cfg(target_os = "linux")]
pub(crate) use both_ends::BothEnds;
pub use each::Answer as EachAnswer;
pub use ends::Answer as EndsAnswer;
pub use flows::Answer as FlowsAnswer;
pub use packets::Packets;
pub use plan::{Live, Plan, TrafficPlan};
pub(crate) use plots::{Span, page, svg};
pub use recorded::Loaded;
pub(crate) use recorded::{load, made};
pub(crate) use traffic::of as traffic_of;
pub use traffic::{Answer as TrafficAnswer, prefix};

use crate::progress::{Observer, Shared};
use crate::{Progress, usage};
use schemars::{Schema, schema_for};
use std::io::Write;

/// Figures of captures.
pub struct Answer {
    pub found: Found,
    /// Failure after the figures were complete, such as a recording that could not be written.
    pub failed: Option<anyhow::Error>,
}

/// Figures by the kind of question.
pub enum Found {
    Packets(Box<Packets>),
    Traffic(Box<TrafficAnswer>),
    Ends(Box<EndsAnswer>),
    Flows(Box<FlowsAnswer>),
    Each(Box<EachAnswer>),
}

/// Schemas of what `tailback trace --json` prints: of captures, of captures at both ends, with --traffic, with --flows, and with --each.
pub(crate) fn schemas() -> [(&'static str, Schema); 5] {
    [
        (
            "trace",
            schema_for!(answer::Report<Vec<answer::ConnectionReport>>),
        ),
        ("trace-ends", ends::schema()),
        ("trace-traffic", schema_for!(traffic::Whole)),
        ("trace-flows", schema_for!(flows::Whole)),
        ("trace-each", schema_for!(each::Whole)),
    ]
}

/// Reads the captures.
///
/// # Errors
/// Files that are no captures, an interface that may not be read, outputs that exist already.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    if plan.files.is_empty() && plan.live.is_none() {
        return Err(usage("give a capture, or an interface to watch"));
    }
    let whole = |found| Answer {
        found,
        failed: None,
    };
    if plan.each {
        let found = each::run(plan, observer)?;
        return Ok(whole(Found::Each(Box::new(found))));
    }
    if let Some(traffic) = &plan.traffic {
        let (found, failed) = traffic::run(plan, traffic, observer)?;
        let found = Found::Traffic(Box::new(found));
        return Ok(Answer { found, failed });
    }
    if plan.flows {
        let (found, failed) = flows::run(plan, observer)?;
        let found = Found::Flows(Box::new(found));
        return Ok(Answer { found, failed });
    }
    if !plan.far.is_empty() {
        return Ok(whole(Found::Ends(Box::new(ends::run(plan, observer)?))));
    }
    let outcome = match &plan.live {
        Some(live) => packets::interface(plan, live, observer)?,
        None => packets::files(plan, observer)?,
    };
    Ok(Answer {
        found: Found::Packets(Box::new(outcome.packets)),
        failed: outcome.failed,
    })
}

impl Answer {
    /// Text of the answer for a terminal.
    pub fn text(&self, width: usize) -> String {
        match &self.found {
            Found::Packets(p) => p.text(width),
            Found::Traffic(t) => t.text(width),
            Found::Ends(e) => e.text(width),
            Found::Flows(f) => f.text(width),
            Found::Each(e) => e.text(width),
        }
    }

    /// Writes all figures as JSON, and ends the line.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let written = match &self.found {
            Found::Packets(p) => p.json(out),
            Found::Traffic(t) => t.json(out),
            Found::Ends(e) => e.json(out),
            Found::Flows(f) => f.json(out),
            Found::Each(e) => e.json(out),
        };
        written.map_err(std::io::Error::from)?;
        Ok(writeln!(out)?)
    }

    /// True if two captures were given that share no packet.
    pub fn is_empty(&self) -> bool {
        matches!(&self.found, Found::Ends(e) if e.is_empty())
    }
}
