//! ECN codepoints and DSCPs that survive the path, and the hop that changes or drops the others.
//!
//! **Method.** The server opens two UDP ports for a while. Datagrams of every marking go to it in turn with unmarked ones,
//! and it sends the same back; both ends read the TOS or traffic-class byte at arrival. For a marking that does not arrive
//! as it left, the sender repeats it with growing hop limits. The ICMP errors of routers quote the header as it reached
//! them, so the marking is changed or dropped between two known hops. `judge` has the rules of the verdict.
//! The same follows over TCP with hand-made segments (`tcp`).
//!
//! **Source.** RFC 3168, The Addition of Explicit Congestion Notification (ECN) to IP; RFC 9331, The Explicit Congestion
//! Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S), section 5; RFC 792, Internet
//! Control Message Protocol; RFC 9768, More Accurate Explicit Congestion Notification (AccECN) Feedback in TCP; G. Detal et al., "Revealing Middlebox Interference with Tracebox", IMC 2013.

mod judge;
mod note;
mod steps;
mod tcp;
mod text;
mod wire;

pub use judge::{Fate, Finding, Place, findings};
pub use note::Part;
pub(crate) use steps::codepoints;
pub(crate) use text::{hop, place};

use super::spec::{How, Spec};
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "ecn": "Which ECN codepoints and DSCPs survive the path, over UDP and TCP, and which hop changes or drops the others?", ["RFC 3168", "RFC 9331", "RFC 9768",
            "Detal et al. 2013, Revealing Middlebox Interference with Tracebox",] {
        /// farthest hop that is asked
        hops: u8 = "24" ["1".."30"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "fifteen seconds and 150 kB on a path that keeps all marks, up to two minutes in each direction and part of TCP on one that drops many",
    // Others' packets that a queue drops are sent again, and a mark of congestion is told from a change.
    beside_others: true,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};

/// Marking of datagrams.
struct Marked {
    /// TOS or traffic-class byte.
    tos: u8,
    /// Name in texts.
    name: &'static str,
}

/// Number of ECN codepoints, that of unmarked datagrams among them.
const CODEPOINTS: usize = 4;

/// Markings that are tried; the first is of unmarked datagrams, and the first `CODEPOINTS` are those of ECN.
const MARKINGS: [Marked; 11] = [
    Marked {
        tos: 0,
        name: "unmarked",
    },
    Marked {
        tos: 2,
        name: "ECT(0)",
    },
    Marked {
        tos: 1,
        name: "ECT(1)",
    },
    Marked { tos: 3, name: "CE" },
    Marked {
        tos: 1 << 2,
        name: "LE (DSCP 1)",
    },
    Marked {
        tos: 8 << 2,
        name: "CS1 (DSCP 8)",
    },
    Marked {
        tos: 18 << 2,
        name: "AF21 (DSCP 18)",
    },
    Marked {
        tos: 34 << 2,
        name: "AF41 (DSCP 34)",
    },
    Marked {
        tos: 45 << 2,
        name: "NQB (DSCP 45)",
    },
    Marked {
        tos: 46 << 2,
        name: "EF (DSCP 46)",
    },
    Marked {
        tos: 48 << 2,
        name: "CS6 (DSCP 48)",
    },
];
