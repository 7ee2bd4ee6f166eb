//! Types shared by all crates: time, units, random streams, packets, and the definition of a recording. Nothing here
//! reads a clock, a file or the environment.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod framing;
/// HdrHistograms of other tools.
pub mod histogram;
pub mod noted;
pub mod packet;
pub mod plugged;
pub mod print;
pub mod program;
pub mod record;
pub mod rng;
pub mod sketch;
pub mod spec;
pub mod text;
pub mod time;
pub mod units;
pub mod words;

pub use packet::{Ecn, FlowId, Packet, PacketId};
pub use time::{Duration, SignedDuration, Time};
pub use units::{BitsPerSec, Bytes, ParseUnitError};
