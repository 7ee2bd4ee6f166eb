//! The program under test beside the servers of the test networks.

use live::emulate::Emulation;
use serde_json::Value;
use std::process::Output;
use testkit::Program;
pub use testkit::networks::*;

pub const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

/// Runs `tailback probe KIND` at the near end against the far one; gives its answer and what it wrote.
pub fn probe(line: &Emulation, kind: &str) -> (Value, Output) {
    testkit::networks::probe(&Program::new(TAILBACK), line, kind)
}
