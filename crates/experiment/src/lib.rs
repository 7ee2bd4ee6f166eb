//! Experiments: each kind asks one question about a link and answers it with a number, its interval and the evidence.
//!
//! A kind is one folder here: its name and parameters (an [`Entry`](base::words::Entry)), its steps as a state machine
//! ([`Steps`]), and the answer from a recording. One loop, [`run()`], carries every kind out over a [`Host`]: over
//! sockets, or in virtual time. A recording gives the same answer years later.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]
// A browser uses no more than one kind needs.
#![cfg_attr(not(feature = "kinds"), allow(dead_code))]

pub mod alert;
pub mod answer;
pub mod ask;
#[cfg(feature = "kinds")]
pub mod buffer;
pub mod bufferbloat;
#[cfg(feature = "kinds")]
pub mod burst;
#[cfg(feature = "kinds")]
pub mod capacity;
#[cfg(feature = "kinds")]
pub mod check;
#[cfg(feature = "kinds")]
pub mod collapse;
pub mod course;
#[cfg(feature = "kinds")]
pub mod dns;
#[cfg(feature = "kinds")]
pub mod ecn;
#[cfg(feature = "kinds")]
pub mod envelope;
#[cfg(feature = "kinds")]
pub mod flows;
pub mod host;
#[cfg(feature = "kinds")]
pub mod ipv6;
#[cfg(feature = "kinds")]
pub mod l4s;
#[cfg(feature = "kinds")]
pub mod middlebox;
#[cfg(feature = "kinds")]
pub mod monitor;
#[cfg(feature = "kinds")]
pub mod nat;
#[cfg(feature = "kinds")]
pub mod nqb;
#[cfg(feature = "kinds")]
pub mod page;
#[cfg(feature = "kinds")]
pub mod path;
#[cfg(feature = "kinds")]
pub mod ports;
#[cfg(feature = "kinds")]
pub mod quic;
#[cfg(feature = "kinds")]
pub mod radio;
#[cfg(feature = "kinds")]
mod registry;
#[cfg(feature = "kinds")]
pub mod routes;
#[cfg(feature = "kinds")]
pub mod rtt;
pub mod run;
#[cfg(feature = "kinds")]
pub mod shaping;
#[cfg(feature = "kinds")]
pub mod sizes;
#[cfg(feature = "kinds")]
pub mod spacing;
pub mod spec;
pub mod steps;
#[cfg(feature = "kinds")]
pub mod sweep;
mod talk;
#[cfg(feature = "kinds")]
pub mod tcp;
#[cfg(feature = "kinds")]
pub mod throughput;
#[cfg(feature = "kinds")]
pub mod train;
pub mod trains;
#[cfg(feature = "kinds")]
pub mod wifi;

pub use alert::{Alert, Severity};
pub use answer::{
    Draw, Figured, Outcome, PROBE_ANSWER_VERSION, Plot, ProbeAnswer, Quantity, Series, Table,
};
pub use host::{Failure, Host, Stopped};
#[cfg(feature = "kinds")]
pub use registry::{PROBES, ProbeError, ProbeSpec, analyse, spec_of};
pub use run::{Bounds, Others, Progress, Unwatched, Watch, run};
pub use spec::{Built, How, Setting, Spec};
pub use steps::{Action, OfTrains, Seen, Stage, Steps, Told};

#[cfg(feature = "kinds")]
use analysis::{loss, passive, phases, rate};
