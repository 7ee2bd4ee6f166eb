//! Two captures of one path, matched packet by packet: packets lost, reordered, duplicated or changed between them.
//!
//! **Method.** Each end's packets are kept as short records by flow ([`Capture`]). Flows are paired by their addresses
//! and ports; if a NAT changed those, by the contents of their packets. Within a direction of a flow, packets are the
//! same if these fields agree: sequence number, acknowledgement, length, timestamp, identification and the first bytes
//! of the payload. Fields that a middlebox rewrites are left out, and the report says so. If a key occurs more than
//! once, order is kept and the delay of the neighbours decides. Segments that a host's offload split or merged are
//! matched by the bytes they hold.
//!
//! The direction of a flow needs no clock: the far clock minus the near one is larger by the RTT for packets from near
//! to far than for those from far to near.
//!
//! **Lost or not captured.** A packet that the downstream end never saw is lost, unless the receiver acknowledged it
//! and no other copy came: then that capture has a gap. A packet that only the downstream end saw was missed by the
//! upstream capture. Nothing is judged that may have been under way when a capture began or ended.
//!
//! **Source.** RFC 4737 section 3 (reordering), RFC 5560 (duplication), RFC 7680 (loss); V. Paxson, "End-to-end
//! Internet packet dynamics", ACM SIGCOMM 1997 (errors of captures).
//!
//! **Limits.** About 60 bytes of memory per packet of both captures. Rewritten sequence numbers are recognised only if
//! both ends saw the SYN. Beyond 2 GB within a flow, ranges of bytes are told apart by distance.

mod bytes;
mod capture;
mod flows;
mod fragments;
mod judge;
mod pairing;

pub use capture::{Capture, Syn};
pub use fragments::Fragments;
pub use pairing::{Changes, Direction, FlowPair, Lost, LostWhy, Pair, Way, match_ends};

/// Result of matching two captures.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    /// Flows that both captures have.
    pub flows: Vec<FlowPair>,
    /// Pairs in the order of the near end's clock.
    pub pairs: Vec<Pair>,
    /// Lost packets.
    pub lost: Vec<Lost>,
    /// Flows that only the near capture has, with a packet that passed while both captured.
    pub near_only_flows: usize,
    /// Flows that only the far capture has, with a packet that passed while both captured.
    pub far_only_flows: usize,
    /// Packets captured twice at one end, and counted once.
    pub near_copies: u64,
    /// Packets that the far capture holds twice.
    pub far_copies: u64,
    /// Packets sent before the other capture started or after it ended.
    pub outside: u64,
    /// Fragmented datagrams, from near to far and back.
    pub fragments: [Fragments; 2],
}
