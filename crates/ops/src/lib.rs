//! Every verb of `tailback` as a library call: `Plan` → `run(&mut dyn Progress)` → `Answer`.
//!
//! A plan is data: it can be stored in a recording's `meta.json` and run again. An answer is figures, with methods that
//! give its text and its JSON. Nothing here parses arguments or prints.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Elsewhere some verbs are missing, and what only they use: the linker drops it.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

pub mod analyse;
pub mod compare;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod emulate;
mod error;
pub mod export;
mod files;
mod host_load;
pub mod import;
pub mod links;
pub mod list;
#[cfg(target_os = "linux")]
pub mod load;
#[cfg(target_os = "linux")]
mod log_in;
#[cfg(not(target_os = "linux"))]
#[path = "no_log_in.rs"]
mod log_in;
#[cfg(target_os = "linux")]
pub mod mark;
pub mod metrics;
pub mod model;
#[cfg(target_os = "linux")]
pub mod monitor;
#[cfg(target_os = "linux")]
pub mod neighbours;
pub mod plan;
pub mod points;
pub mod probe;
mod progress;
#[cfg(target_os = "linux")]
pub mod prove;
mod queue_samples;
mod recorder;
pub mod report;
pub mod scan;
pub mod schemas;
#[cfg(target_os = "linux")]
pub mod serve;
mod session;
pub mod sim;
mod statistics;
pub mod status;
pub mod tell;
pub mod test;
pub mod times;
pub mod trace;
pub mod twin;
mod unsettled;
#[cfg(target_os = "linux")]
pub mod web;
pub mod whatif;

pub use error::{Usage, is_usage, usage};
pub use files::{counted, read_text, threads, write_file};
pub use live::load::Access;
pub use log_in::LogIn;
pub use plan::Plan;
pub use progress::{Event, Observer, Progress, Shared};
pub use session::{End, default_path};
