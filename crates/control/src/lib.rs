//! Estimators of a modem's hidden queue and capacity, and the laws that keep the queue short. The simulator, the analysis
//! and the gateway run the same code.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod agent;
pub mod baseline;
pub mod capacity;
pub mod download;
mod margin;
mod oneway;
pub mod passed;
pub mod queue;
mod sawtooth;
pub mod shape;
pub mod trust;
pub mod upload;
