//! L4S in each direction: are ECT(1) datagrams marked, from which queue on, and do they wait in a queue of their own?
//!
//! **Method.** A flow of our own Prague controller has ECT(1) datagrams, and learns the codepoint of every one at its
//! arrival. It runs alone, so that its queue shows from which wait on datagrams are marked. Then a CUBIC flow without ECN
//! runs alone, so that its queue shows the classic one. Then both run together with a few unmarked datagrams, which belong
//! to no queue that the others fill if the link tells flows apart. `judge` has the rules of the verdict.
//!
//! **Source.** RFC 9330, Low Latency, Low Loss, and Scalable Throughput (L4S) Internet Service: Architecture; RFC 9331, The
//! Explicit Congestion Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S); RFC 9332,
//! Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and Scalable Throughput (L4S).

mod judge;
mod note;
mod steps;
mod text;

pub use judge::{Judged, Queues, Verdict, judged};

use super::spec::{How, Spec};
use crate::flows::Directions;
use base::Duration;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "l4s": "Does the link mark L4S datagrams in time, and do they wait in a queue of their own?", ["RFC 9330", "RFC 9331", "RFC 9332",] {
        /// length of each of the three phases
        time: Duration = "8 s" ["3 s".."60 s"];
        /// directions to try, one after the other
        direction: Directions = "both";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "a minute, and what each direction carries in 24 seconds; a smaller --budget shortens the phases; half a minute more to find the hop that changes a codepoint",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};

/// ECN codepoints in the TOS byte.
const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;
