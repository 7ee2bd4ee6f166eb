//! Packets, queues and TCP in virtual time. Pure: told everything, seeds handed in, so that a run is
//! the same wherever and however often it is made.
//!
//! A [`Scenario`] is what a TOML file says; [`run()`] carries one out, [`batch::run_all`] many. Underneath,
//! a [`network::Network`] moves packets along links ([`link::Link`], the same bytes that the emulator
//! runs) between TCP connections ([`tcp`]) and what sends on them and beside them ([`source`]).
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
pub mod hops;
pub mod journey;
pub mod lblca;
pub mod lblca_ports;
pub mod marking;
mod merge;
pub mod network;
pub mod plan;
pub mod ranges;
pub mod reproduction;
pub mod run;
pub mod scenario;
pub mod segment;
pub mod sequence;
pub mod source;
pub mod summary;
pub mod tcp;
pub mod topology;
pub mod translator;

pub use draft::Draft;
pub use error::ScenarioError;
pub use estimate::Estimate;
pub use flow::Flow;
pub use run::{Outcome, run};
pub use scenario::Scenario;
