//! QUIC beside TCP to our own server: is QUIC blocked, policed, throttled after seconds, or slower?
//!
//! **Method.** Blocks of one TCP connection and of one QUIC connection fill the same direction in turn, in random order
//! within each pair, so that a change of the link over time meets both alike. `judge` compares the blocks of a pair.
//! If no QUIC handshake succeeds, single datagrams to another port of the same server show whether other UDP passes.
//!
//! **Source.** RFC 9000, QUIC: A UDP-Based Multiplexed and Secure Transport; RFC 9002, QUIC Loss Detection and Congestion
//! Control; H. Ware et al., "Beyond Jain's Fairness Index", HotNets 2019, for the comparison of two senders by their shares.

mod judge;
mod note;
mod steps;
mod text;

pub use judge::{Judged, Verdict, judged};

use super::spec::{How, Spec};
use base::Duration;
use base::record::Direction;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "quic": "Is QUIC (UDP) blocked, policed, throttled or slower than TCP to the same server?", ["RFC 9000", "RFC 9002",] {
        /// direction of the data
        direction: Direction = "down";
        /// pairs of one TCP and one QUIC connection
        pairs: usize = "4" ["2".."20"];
        /// length of each connection; a throttle is found if it starts two seconds before the end
        time: Duration = "9 s" ["4 s".."60 s"];
        /// UDP port of QUIC at the server; 0 for any
        port: u32 = "443" ["0".."65535"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "80 s, and what the link carries in that time; a smaller --budget shortens the connections",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};

/// Width of the bins of a connection's bytes.
const BIN: Duration = Duration::from_millis(100);
