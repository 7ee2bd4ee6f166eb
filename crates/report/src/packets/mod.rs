//! Plots of one direction of a TCP connection, packet by packet: data sent and acknowledged over time, RTT, bytes in
//! flight, throughput.
//!
//! **Source.** The time–sequence plot is that of tcptrace and xplot (Shepard, *TCP packet trace analysis*, 1991):
//! segments as vertical bars over their bytes, below them the line of acknowledged data, above them the line of the
//! receive window.

mod data;
mod draw;
mod page;
mod seen;

use crate::plot::PlotSpec;
pub use page::{Page, page};
pub use seen::{Acked, Again, Mark, Packets, Plot, Sent};

impl Plot {
    /// # Errors
    /// Fails if the packets contain no data for this plot; the error names it.
    pub fn spec(self, packets: &Packets) -> Result<PlotSpec, String> {
        draw::plot(self, packets)
    }
}
