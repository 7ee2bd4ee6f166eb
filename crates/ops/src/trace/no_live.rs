//! `tailback trace --live` on systems other than Linux, where no interface can be captured.

use super::Live;
use super::keep::Keep;
use crate::progress::Observer;
use crate::usage;
use measure::capture::Record;
use measure::capture::frame::Frame;
use measure::track::{Settings, Traffic};

/// Open interface: there is none.
pub enum Open {}

/// Result of a capture.
pub struct Seen {
    pub traffic: Traffic,
    pub complete: bool,
    pub copied: anyhow::Result<()>,
}

/// Receiver of a live capture.
pub(super) trait Receiver {
    /// Takes a packet.
    fn packet(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>);
    /// Ends a second and returns the state to show.
    fn second(&mut self, since_ns: i64, dropped: u64) -> String;
}

/// Refuses to open the interface.
///
/// # Errors
/// Always.
pub fn open(plan: &Live) -> anyhow::Result<Open> {
    Err(usage(format!(
        "cannot capture on {}: that needs Linux. Capture with another program, and give its file",
        plan.interface
    )))
}

pub fn run(
    _: &Live,
    _: Settings,
    open: Open,
    _: Option<&mut Keep>,
    _: &mut Vec<String>,
    _: &dyn Observer,
) -> Seen {
    match open {}
}

pub(super) fn capture(
    _: &Live,
    open: Open,
    _: &mut dyn Receiver,
    _: &mut Vec<String>,
    _: &dyn Observer,
) -> (bool, anyhow::Result<()>) {
    match open {}
}
