//! A TCP connection: one side sends, the other acknowledges. Sans-IO like everything here: told the time
//! and what arrived, asked for segments.

mod receiver;
mod reduction;
mod scoreboard;
mod sender;

pub use receiver::Receiver;
pub use sender::{Outgoing, Sender, SenderStats};

use base::{Bytes, Duration};
use congestion::ControllerSpec;
use congestion::rtt;
use std::sync::Arc;

/// What one connection is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub controller: Arc<ControllerSpec>,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// IP and TCP headers of a data segment; an ACK adds its SACK blocks.
    pub header: Bytes,
    /// Data waits for the answer to a SYN; without, it leaves at once, as from ns-2's one-way TCP.
    pub handshake: bool,
    /// In segments; `None` is RFC 6928's.
    pub initial_window: Option<u64>,
    /// An ACK for every second segment (RFC 5681 section 4.2) rather than for each.
    pub delayed_ack: bool,
    /// Longest that an ACK is held back. RFC 5681 section 4.2: below 500 ms; Linux begins with 40 ms.
    pub ack_delay: Duration,
    /// So many segments at the beginning are acknowledged at once. Linux: about 16.
    pub quick_acks: u32,
    /// RFC 2018; without it duplicate ACKs are counted (RFC 5681 section 3.2).
    pub sack: bool,
    /// RFC 3042; on in RFC 5681 section 3.2.
    pub limited_transmit: bool,
    /// Duplicates, or segments reported beyond a hole, that mean a loss: `DupThresh` of RFC 6675 section 2.
    pub dup_thresh: u64,
    /// Losses are found by time (RFC 8985). Without, a segment is lost once one sent `dup_thresh` places later
    /// has arrived, as in Linux before RACK (forward acknowledgement).
    pub rack: bool,
    /// In recovery every second ACK takes a segment from the window, down to this part of ssthresh, and never
    /// more than a segment is added to what is in flight, as in Linux before 3.2; without, RFC 9937.
    pub rate_halving: Option<f64>,
    /// Tail loss probes, RFC 8985 section 7.
    pub tail_loss_probe: bool,
    /// Whether ECN is negotiated.
    pub ecn: bool,
    /// Spread segments over the round trip even where the controller names no rate.
    pub pacing: bool,
    /// Segments that leave together, as an adapter with segmentation offload sends them.
    pub burst: u64,
    /// Most that the receiver lets be outstanding.
    pub receive_window: Bytes,
    /// Begin anew after a silence longer than the time-out (RFC 5681 section 4.1).
    pub idle_restart: bool,
    pub rto: rtt::Params,
    /// What both ends' packets ask for.
    pub dscp: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            controller: Arc::new("cubic".parse().expect("cubic is in the table")),
            mss: Bytes::new(1448),
            header: Bytes::new(52),
            handshake: true,
            initial_window: None,
            delayed_ack: true,
            ack_delay: Duration::from_millis(40),
            quick_acks: 16,
            sack: true,
            limited_transmit: true,
            dup_thresh: 3,
            rack: true,
            rate_halving: None,
            tail_loss_probe: true,
            ecn: false,
            pacing: false,
            burst: 1,
            receive_window: Bytes::new(16 << 20),
            idle_restart: true,
            rto: rtt::Params::linux(),
            dscp: 0,
        }
    }
}
