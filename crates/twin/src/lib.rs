//! The twin of a link: a model fitted to a recording of `tailback test`, checked on a load that it was not fitted to, and
//! asked for the effect of a cure.
//!
//! The twin is a link file. What made the recording is simulated over it, and both are read by the same code.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod answer;
mod candidates;
mod counted;
mod distance;
mod fit;
mod likeness;
mod load;
mod observe;
pub mod prove;
mod senders;
mod service;
mod settle;
mod start;
mod validate;
pub mod whatif;

pub use answer::{Compared, Doubt, Fitted, Named, Replayed, Tie, Trust, Twin, Waits};
pub use distance::w1;
pub use fit::{Means, check, check_with, fit, usable};
pub use service::Table as ServiceCurve;

use base::record::Direction;
use sim::bufferbloat::RunError;

/// Reason why a recording has no twin.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    #[error(
        "the recording \"{title}\" was made by `tailback {verb}`: a twin needs a recording of `tailback test`"
    )]
    NotATest { title: String, verb: String },
    #[error("the recording has no idle phase: record `tailback test` with all its phases")]
    NoIdle,
    #[error(
        "{answered} probes were answered while the link was idle, and ten are needed: record `tailback test` again, with a server that answers"
    )]
    FewProbes { answered: usize },
    #[error(
        "no phase loads the {direction}link alone: record `tailback test` with its phases idle, down, up and both"
    )]
    NoLoad { direction: Direction },
    #[error(
        "the {direction}link was loaded for {seconds:.1} s after the warm-up, and 3 s are needed: record a longer test, with a larger --budget or --longest"
    )]
    TooShort { direction: Direction, seconds: f64 },
    #[error(
        "hardly any probe tells its wait in the {direction}link under load: record `tailback test` with a server that answers by UDP"
    )]
    NoWaits { direction: Direction },
    #[error(
        "the load did not show the rate of the {direction}link ({why}): record a test whose load fills it, for example with --flows 8"
    )]
    NotFilled { direction: Direction, why: String },
    #[error(
        "a policer drops what exceeds the rate of the {direction}link, and no queue forms: a twin needs a link with a queue"
    )]
    Policer { direction: Direction },
    #[error("interrupted")]
    Stopped,
    #[error(transparent)]
    Cure(#[from] whatif::CureError),
    #[error(transparent)]
    Run(#[from] RunError),
}
