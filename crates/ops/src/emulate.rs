//! `tailback emulate`: any program behind a link.

use crate::progress::{Observer, Shared};
use crate::{Progress, usage};
use link::LinkSpec;
use live::clock::Clock;
use live::emulate::{self, Options, Programs, Summary};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// Links, and the programs at both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Links in a row, near end first.
    pub links: Vec<LinkSpec>,
    /// Program at the near end, and its arguments.
    pub command: Vec<OsString>,
    /// Shell command at the far end.
    pub far: Option<String>,
    /// True to put a router between one link and the next.
    pub routed: bool,
    /// Seed of losses and jitter.
    pub seed: u64,
}

/// End of the programs, and the links' counters.
pub struct Answer {
    /// Exit status of the near program.
    pub code: u8,
    pub summary: Summary,
}

/// Runs the programs until the near one ends.
///
/// # Errors
/// Missing privileges, or a program that cannot be started.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    if plan.links.is_empty() {
        return Err(usage("no link given"));
    }
    emulate::prepare()?;
    let far = plan.far.as_deref();
    let programs = Programs {
        near: plan.command.clone(),
        far: far.map(|command| ["sh", "-c", command].map(OsString::from).to_vec()),
    };
    let options = Options {
        seed: plan.seed,
        routed: plan.routed,
        ..Options::new(Clock::start())
    };
    let outcome = emulate::run_command(&plan.links, &programs, options)?;
    if let Some(status) = outcome.far_failed {
        observer.warn(&format!(
            "the program at the far end ended by itself: {status}"
        ));
    }
    Ok(Answer {
        code: outcome.code.clamp(0, 255) as u8,
        summary: outcome.summary,
    })
}
