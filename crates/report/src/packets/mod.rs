//! The packets of one direction of a TCP connection, drawn: what was sent and acknowledged over time, round trips, bytes
//! in flight, throughput.
//!
//! **Source.** The time–sequence plot is that of tcptrace and xplot (Shepard, *TCP packet trace analysis*, 1991): segments
//! as upright bars over the bytes that they carry, below them the line of what is acknowledged, above them the line of
//! what the receiver has room for.

mod data;
mod draw;
mod page;
mod seen;

pub use page::{Page, page};
pub use seen::{Acked, Again, Mark, Packets, Plot, Sent};

impl Plot {
    /// # Errors
    /// What there is none of in these packets.
    pub fn svg(self, packets: &Packets) -> Result<String, String> {
        draw::plot(self, packets).map(|m| m.into_string())
    }
}
