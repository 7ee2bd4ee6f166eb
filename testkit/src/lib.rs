//! Helpers that the tests of all rooms share: directories that go away, runs of the program, figures of an answer, skips,
//! emulated links, terminals, and tests that need real time.

#![forbid(unsafe_code)]

pub mod answer;
#[cfg(target_os = "linux")]
pub mod clickhouse;
mod dir;
#[cfg(feature = "line")]
pub mod line;
mod machine;
#[cfg(feature = "networks")]
pub mod networks;
mod program;
#[cfg(target_os = "linux")]
pub mod prometheus;
mod real_time;
pub mod schema;
#[cfg(target_os = "linux")]
mod service;
mod skip;
#[cfg(target_os = "linux")]
mod terminal;

pub use dir::TempDir;
pub use machine::machine_library;
pub use program::Program;
pub use real_time::{Places, alone, beside, real_time, real_time_beside};
#[cfg(target_os = "linux")]
pub use service::Service;
pub use skip::{has_browser_analysis, skip};
#[cfg(target_os = "linux")]
pub use terminal::{in_terminal, in_terminal_as};
