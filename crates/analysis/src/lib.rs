//! What a recording says: statistics, where the queue is and how large, which kind, and what to do.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod advice;
pub mod answer;
pub mod bottleneck;
pub mod clock;
pub mod contract;
pub mod discipline;
pub mod findings;
pub mod grade;
pub mod instrument;
pub mod loss;
pub mod phases;
pub mod queue;
pub mod rate;
pub mod reliability;
pub mod responsiveness;
pub mod stability;
pub mod stats;
mod test;

pub use stability::{Stability, stable};
pub use test::{AnalysisError, Options, analyse_test};
