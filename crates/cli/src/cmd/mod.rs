//! The verbs.

#[cfg(target_os = "linux")]
pub mod agent;
pub mod analyse;
pub mod compare;
pub mod completions;
mod config;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
mod control_config;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod export;
#[cfg(target_os = "linux")]
pub mod fleet;
#[cfg(target_os = "linux")]
pub mod hub;
pub mod import;
pub mod list;
#[cfg(target_os = "linux")]
pub mod load;
#[cfg(target_os = "linux")]
pub mod mark;
mod measuring;
pub mod model;
#[cfg(target_os = "linux")]
pub mod monitor;
#[cfg(target_os = "linux")]
mod monitor_config;
#[cfg(target_os = "linux")]
pub mod neighbours;
#[cfg(target_os = "linux")]
mod operator;
pub mod probe;
#[cfg(target_os = "linux")]
pub mod prove;
pub mod report;
pub mod run;
#[cfg(target_os = "linux")]
pub mod serve;
#[cfg(target_os = "linux")]
mod serve_keys;
#[cfg(target_os = "linux")]
pub mod share;
pub mod sim;
pub mod status;
#[cfg(target_os = "linux")]
pub mod task;
pub mod test;
pub mod trace;
pub mod twin;
pub mod whatif;

use std::io::Write;

pub use measuring::{AccessArgs, LogInArgs, Printing, ThroughArgs, finish};
#[cfg(target_os = "linux")]
pub use ops::counted;
pub use ops::usage;

pub use crate::say::print;
pub use crate::terminal::{stdout_style, table_width};

/// End of a verb, for scripts.
#[derive(Clone, Copy)]
pub enum Outcome {
    Done,
    /// A finding is above the threshold that the user stated.
    Above,
    CouldNotMeasure,
    /// Exit status of the program that ran behind the link.
    Child(u8),
}

impl Outcome {
    /// The one that a script must know of, of two.
    pub(super) fn worse(self, other: Outcome) -> Outcome {
        match (&self, &other) {
            (Outcome::CouldNotMeasure, _) | (_, Outcome::Done) => self,
            (Outcome::Above, Outcome::Above) => self,
            _ => other,
        }
    }
}

/// Hands standard output to `write`, for JSON that may be large.
pub fn print_with(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let out = crate::say::Json::new(crate::say::data());
    let mut out = std::io::BufWriter::with_capacity(1 << 16, out);
    write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
