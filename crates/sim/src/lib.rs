//! Simulation of packets, queues and TCP in virtual time. The crate is pure: time and seeds are handed in, so the same
//! seed always gives the same run.
//!
//! A [`Scenario`] holds the contents of a TOML file; [`run()`] runs one, [`batch::run_all`] many. Underneath, a
//! [`network::Network`] moves packets along links ([`link::Link`], the code that the emulator also runs). At its ends
//! are TCP connections ([`tcp`]) and traffic sources ([`source`]).
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod absurd;
pub mod agenda;
pub mod batch;
pub mod bufferbloat;
pub mod calendar;
pub mod capture;
pub mod craft;
pub mod document;
mod draft;
mod error;
mod estimate;
pub mod fault;
pub mod flow;
mod fragments;
pub mod gateway;
pub mod hops;
pub mod journey;
pub mod lblca;
pub mod lblca_ports;
pub mod marking;
mod merge;
pub mod network;
pub mod plan;
pub mod ranges;
pub mod run;
pub mod scenario;
pub mod segment;
pub mod sequence;
pub mod source;
pub mod summary;
pub mod tcp;
pub mod topology;

pub use draft::Draft;
pub use error::ScenarioError;
pub use estimate::Estimate;
pub use flow::Flow;
pub use run::{Outcome, run};
pub use scenario::Scenario;
