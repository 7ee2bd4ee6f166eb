//! Analysis of recordings: statistics, place, size and kind of the queue, and advice.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod advice;
pub mod answer;
pub mod baseline;
pub mod before_after;
pub mod bottleneck;
pub mod browser;
pub mod changes;
pub mod clock;
pub mod compare;
pub mod contract;
pub mod counted;
pub mod discipline;
pub mod findings;
pub mod grade;
pub mod held_back;
pub mod hidden_queue;
pub mod holes;
pub mod host_load;
pub mod incidents;
pub mod inside;
pub mod instrument;
pub mod loss;
pub mod modem;
pub mod moments;
pub mod monitor_state;
pub mod over_days;
pub mod overload;
pub mod passive;
pub mod patterns;
pub mod phases;
pub mod points;
pub mod queue;
pub mod radio;
pub mod rate;
pub mod reliability;
pub mod responsiveness;
pub mod robustness;
pub mod saturation;
pub mod series;
pub mod services;
pub mod stability;
pub mod statistics;
pub mod survey;
mod test;
pub mod thresholds;
pub mod together;
pub mod traffic;
pub mod trains;
pub mod two_ends;
pub mod uplinks;
pub mod which_queue;

pub use stability::{Stability, stable};
pub use test::{AnalysisError, Options, analyse_test, next_train};
