//! Helpers that the tests of all rooms share: directories that go away, runs of the program, figures of an answer, skips,
//! emulated links, terminals, and tests that need real time.

#![forbid(unsafe_code)]

pub mod answer;
pub mod clickhouse;
mod dir;
#[cfg(feature = "line")]
pub mod line;
mod machine;
#[cfg(feature = "networks")]
pub mod networks;
mod program;
pub mod prometheus;
mod real_time;
pub mod schema;
mod service;
mod skip;
mod terminal;

pub use dir::TempDir;
pub use machine::machine_library;
pub use program::Program;
pub use real_time::{Places, alone, beside, real_time, real_time_beside};
pub use service::Service;
pub use skip::skip;
pub use terminal::{in_terminal, in_terminal_as};
