//! Two captures of one path, matched packet by packet: what was lost between them, overtaken, doubled or changed.
//!
//! **Method.** Each end's packets are kept as short records by flow ([`Capture`]). Flows are paired by their
//! addresses and ports, and where those were changed on the way by what their packets hold. Within a direction of a
//! flow, packets are the same when sequence number, acknowledgement, length, timestamp, identification and the
//! first bytes of the payload are; fields that something on the way rewrites are left out, and that is told. Where a
//! key comes more than once, order is kept and the delay of the neighbours decides. Segments that a host's offload
//! cut or joined are matched by the bytes they hold.
//!
//! Which way a flow's direction goes needs no clock: the far clock minus the near one is larger by the round trip
//! for packets from near to far than for those from far to near.
//!
//! **Lost or not captured.** What the downstream end never saw is lost, unless the receiver acknowledged it and no
//! other copy came: then that capture has a gap. What only the downstream end saw, the upstream one missed.
//! Nothing is judged outside of the time in which both ends saw packets of the other.
//!
//! **Source.** RFC 4737 section 3 (reordering), RFC 5560 (duplication), RFC 7680 (loss); V. Paxson, "End-to-end
//! Internet packet dynamics", ACM SIGCOMM 1997 (what a capture itself gets wrong).
//!
//! **Limits.** About 60 bytes of memory a packet of both captures. Sequence numbers that were rewritten are
//! recognised only where both ends saw the SYN. Beyond 2 GB within a flow, ranges of bytes are told apart by distance.

mod bytes;
mod capture;
mod flows;
mod fragments;
mod judge;
mod pairing;

pub use capture::{Capture, Syn};
pub use fragments::Fragments;
pub use pairing::{Changes, Direction, FlowPair, Lost, LostWhy, Pair, Way, match_ends};

/// What both captures say together.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    pub flows: Vec<FlowPair>,
    /// In the order of the near end's clock.
    pub pairs: Vec<Pair>,
    pub lost: Vec<Lost>,
    /// Flows that only one of the ends saw.
    pub near_only_flows: usize,
    pub far_only_flows: usize,
    /// Packets captured twice at one end, and counted once.
    pub near_copies: u64,
    pub far_copies: u64,
    /// Packets sent before the other capture began or after it ended.
    pub outside: u64,
    /// Datagrams in pieces, from near to far and back.
    pub fragments: [Fragments; 2],
}
