//! Experiments: each kind asks one question about a link and answers it with a number, its interval and the evidence.
//!
//! A kind is one folder here: its name and parameters (an [`Entry`](base::words::Entry)), its steps as a state machine
//! ([`Steps`]), and the answer from a recording. One loop, [`run()`], carries every kind out over a [`Host`]: over
//! sockets, or in virtual time. A recording gives the same answer years later.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod alert;
pub mod answer;
pub mod ask;
pub mod buffer;
pub mod bufferbloat;
pub mod burst;
pub mod capacity;
pub mod check;
pub mod collapse;
pub mod course;
pub mod dns;
pub mod ecn;
pub mod envelope;
pub mod flows;
pub mod host;
pub mod ipv6;
pub mod l4s;
pub mod middlebox;
pub mod monitor;
pub mod nat;
pub mod nqb;
pub mod page;
pub mod path;
pub mod ports;
pub mod quic;
pub mod radio;
mod registry;
pub mod routes;
pub mod rtt;
pub mod run;
pub mod shaping;
pub mod sizes;
pub mod spacing;
pub mod spec;
pub mod steps;
pub mod sweep;
mod talk;
pub mod tcp;
pub mod throughput;
pub mod train;
pub mod trains;
pub mod wifi;

pub use alert::{Alert, Severity};
pub use answer::{
    Draw, Figured, Outcome, PROBE_ANSWER_VERSION, Plot, ProbeAnswer, Quantity, Series, Table,
};
pub use host::{Failure, Host, Stopped};
pub use registry::{PROBES, ProbeSpec};
pub use run::{Bounds, Others, Progress, Unwatched, Watch, run};
pub use spec::{Built, How, Setting, Spec};
pub use steps::{Action, OfTrains, Seen, Stage, Steps, Told};

use analysis::{loss, passive, phases, rate};
use base::program::Train;
use base::record::Recording;

/// Reason why a recording has no answer of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("the recording is of `tailback {verb}`, and not of a probe")]
    NotAProbe { verb: String },
    #[error("the recording's plan names no probe that this version knows: {why}")]
    UnknownProbe { why: String },
}

/// Kind and parameters that a recording was made with.
///
/// # Errors
/// The recording is of something else, or of a kind that this version does not know.
pub fn spec_of(recording: &Recording) -> Result<ProbeSpec, ProbeError> {
    if recording.meta.verb != "probe" {
        return Err(ProbeError::NotAProbe {
            verb: recording.meta.verb.clone(),
        });
    }
    let text = recording.meta.plan.get("probe").and_then(|p| p.as_str());
    text.unwrap_or("")
        .parse()
        .map_err(|e: base::words::WordsError| ProbeError::UnknownProbe { why: e.to_string() })
}

/// Answer from a probe's recording.
///
/// # Errors
/// The recording is of something else, or of a kind that this version does not know.
pub fn analyse(recording: &Recording) -> Result<ProbeAnswer, ProbeError> {
    let spec = spec_of(recording)?;
    let outcome = (spec.kind().answer)(spec.words(), recording);
    let trains = Train::all_of(recording);
    Ok(ProbeAnswer::of(
        recording,
        (spec.to_string(), spec.kind().entry.summary),
        outcome,
        &trains,
    ))
}
