//! `tailback emulate`: any program behind a link.

use crate::links::links_json;
use crate::progress::{Observer, Shared};
use crate::session::Session;
use crate::{Progress, usage};
use base::record::{FORMAT_VERSION, Meta, Origin};
use link::LinkSpec;
use live::clock::Clock;
use live::emulate::{self, HeldSignals, Options, Programs, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

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
    /// Recording of the links' queues, if one is wanted.
    #[serde(default)]
    pub output: Option<PathBuf>,
}

/// End of the programs, and the links' counters. Its JSON is that of `tailback emulate --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Emulation")]
pub struct Answer {
    /// Exit status of the near program; 128 plus the signal's number if a signal ended it.
    pub code: u8,
    /// Recording of the links' queues; null if none was asked for.
    pub recording: Option<PathBuf>,
    /// Reason why the delays of this run should not be trusted; null if there is none.
    pub doubt: Option<String>,
    #[serde(flatten)]
    pub summary: Summary,
}

/// Runs the programs until the near one ends. With `apart`, their standard output goes to standard error.
///
/// # Errors
/// Missing privileges, or a program that cannot be started.
pub fn run(plan: &Plan, apart: bool, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
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
        apart,
    };
    // Threads that start from here on leave the signals to the emulation.
    let held = HeldSignals::hold()?;
    let session = match &plan.output {
        Some(path) => Some(Session::start(Some(path), |clock| meta(plan, clock))?),
        None => None,
    };
    let options = Options {
        seed: plan.seed,
        routed: plan.routed,
        rows: session.as_ref().map(|s| s.recorder.rows.clone()),
        ..Options::new(session.as_ref().map_or_else(Clock::start, |s| s.clock))
    };
    let outcome = emulate::run_command(&plan.links, &programs, options, &held);
    let recording = match session {
        None => None,
        Some(session) => {
            if let Some(doubt) = outcome.as_ref().ok().and_then(|o| o.summary.doubt()) {
                session.doubt("emulator", &doubt.to_string());
            }
            let complete = match &outcome {
                Ok(_) => Ok(()),
                Err(e) => Err(anyhow::anyhow!("{e}")),
            };
            let closed = session.finish(&complete);
            closed.written?;
            Some(closed.path)
        }
    };
    let outcome = outcome?;
    if let Some(status) = outcome.far_failed {
        observer.warn(&format!(
            "the program at the far end ended by itself: {status}"
        ));
    }
    Ok(Answer {
        code: outcome.code.clamp(0, 255) as u8,
        doubt: outcome.summary.doubt(),
        summary: outcome.summary,
        recording,
    })
}

fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<Meta> {
    let names: Vec<&str> = plan.links.iter().map(|l| l.name.as_str()).collect();
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Emulated,
        verb: "emulate".into(),
        title: format!("Emulated {}", names.join(", ")),
        started_ns: clock.unix_ns(),
        plan: serde_json::json!({ "again": plan }),
        known_link: Some(serde_json::json!({ "link": links_json(&plan.links)? })),
        host: live::host::facts(None),
        ..Meta::default()
    })
}
