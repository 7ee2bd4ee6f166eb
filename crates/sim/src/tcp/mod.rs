//! TCP connection: a sender and a receiver. Sans-IO: it is told the time and the arrivals, and asked for segments.

mod growth;
mod receiver;
mod reduction;
mod scoreboard;
mod sender;

pub use receiver::Receiver;
pub use sender::{Outgoing, Sender, SenderStats};

use base::{BitsPerSec, Bytes, Duration};
use congestion::ControllerSpec;
use congestion::rtt;
use std::sync::Arc;

/// Settings of one connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Congestion controller with its parameters.
    pub controller: Arc<ControllerSpec>,
    /// Payload of a full segment, bytes.
    pub mss: Bytes,
    /// IP and TCP headers of a data segment; an ACK adds its SACK blocks.
    pub header: Bytes,
    /// True if data waits for the SYN/ACK; otherwise it leaves at once, as in ns-2's one-way TCP.
    pub handshake: bool,
    /// Initial window in segments; `None` is RFC 6928's.
    pub initial_window: Option<u64>,
    /// True for delayed ACKs (RFC 5681 section 4.2), false for one per segment.
    pub delayed_ack: bool,
    /// Number of segments that a delayed ACK waits for, `ack_delay` at most. RFC 5681 section 4.2: two. Receivers that join
    /// segments or stretch ACKs wait for more.
    pub ack_every: u32,
    /// Maximum delay of an ACK. RFC 5681 section 4.2: below 500 ms; Linux starts with 40 ms.
    pub ack_delay: Duration,
    /// Number of segments at the start that are acknowledged at once. Linux: about 16.
    pub quick_acks: u32,
    /// True if the receive window grows as in Linux, which acknowledges every segment meanwhile.
    pub window_growth: bool,
    /// Selective acknowledgements, RFC 2018; without them duplicate ACKs are counted (RFC 5681 section 3.2).
    pub sack: bool,
    /// Limited transmit, RFC 3042; on in RFC 5681 section 3.2.
    pub limited_transmit: bool,
    /// Number of duplicates, or of segments reported beyond a hole, that means a loss: `DupThresh` of RFC 6675 section
    /// 2.
    pub dup_thresh: u64,
    /// True for loss detection by time (RFC 8985). Otherwise a segment is lost once one sent `dup_thresh` places later
    /// has arrived, as in Linux before RACK (forward acknowledgement).
    pub rack: bool,
    /// Rate halving, as in Linux before 3.2: in recovery every second ACK takes a segment from the window, down to this
    /// fraction of ssthresh. At most one segment is added to the bytes in flight. `None`: RFC 9937.
    pub rate_halving: Option<f64>,
    /// Tail loss probes, RFC 8985 section 7.
    pub tail_loss_probe: bool,
    /// True if ECN is negotiated; controllers that stand on marks have it in any case.
    pub ecn: bool,
    /// Paces segments over the RTT even if the controller names no rate.
    pub pacing: bool,
    /// Upper limit on the rate, kept by pacing.
    pub max_pace: Option<BitsPerSec>,
    /// True if paced segments leave in quanta of a millisecond, as in Linux; one by one otherwise.
    pub pacing_quantum: bool,
    /// Number of segments that leave together, as an adapter with segmentation offload sends them.
    pub burst: u64,
    /// Receive window: most bytes that the receiver allows in flight.
    pub receive_window: Bytes,
    /// Restarts from the initial window after an idle time longer than the retransmission timeout (RFC 5681 section
    /// 4.1).
    pub idle_restart: bool,
    /// Parameters of the retransmission time-out.
    pub rto: rtt::Params,
    /// DSCP of both ends' packets.
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
            ack_every: 2,
            ack_delay: Duration::from_millis(40),
            quick_acks: 16,
            window_growth: true,
            sack: true,
            limited_transmit: true,
            dup_thresh: 3,
            rack: true,
            rate_halving: None,
            tail_loss_probe: true,
            ecn: false,
            pacing: false,
            max_pace: None,
            pacing_quantum: true,
            burst: 1,
            receive_window: Bytes::new(16 << 20),
            idle_restart: true,
            rto: rtt::Params::linux(),
            dscp: 0,
        }
    }
}
