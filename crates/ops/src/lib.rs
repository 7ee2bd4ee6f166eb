//! Every verb of `tailback` as a library call: `Plan` → `run(&mut dyn Progress)` → `Answer`.
//!
//! A plan is data: it can be stored in a recording's `meta.json` and run again. An answer is figures, with methods that
//! give its text and its JSON. Nothing here parses arguments or prints.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod analyse;
pub mod compare;
pub mod control;
pub mod emulate;
mod error;
pub mod export;
mod files;
mod host_load;
pub mod import;
pub mod links;
pub mod list;
pub mod load;
mod log_in;
pub mod mark;
pub mod metrics;
pub mod model;
pub mod monitor;
pub mod neighbours;
pub mod plan;
pub mod points;
pub mod probe;
mod progress;
pub mod prove;
mod queue_samples;
mod recorder;
pub mod report;
pub mod scan;
pub mod schemas;
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
pub mod web;
pub mod whatif;

pub use error::{Usage, is_usage, usage};
pub use files::{counted, read_text, threads, write_file};
pub use live::load::Access;
pub use log_in::LogIn;
pub use plan::Plan;
pub use progress::{Event, Observer, Progress, Shared};
pub use session::{End, default_path};
