//! NQB in each direction: does DSCP 45 get a shallow queue of its own, and is that queue protected against a flow that cheats?
//!
//! **Method.** A CUBIC flow fills the queue. Single datagrams with DSCP 45 beside it show whether they wait in that queue,
//! and unmarked ones whether each flow has a queue of its own anyway. Then the CUBIC flow marks its own datagrams with
//! DSCP 45, although it builds a queue. `judge` has the rules of the verdict.
//!
//! **Source.** RFC 9956, A Non-Queue-Building Per-Hop Behavior (NQB PHB) for Differentiated Services.

mod judge;
mod note;
mod steps;
mod text;

pub use judge::{Judged, Protection, Verdict, judged};

use super::spec::{How, Spec};
use crate::flows::Directions;
use base::Duration;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "nqb": "Does DSCP 45 (NQB) get a shallow queue, and is it protected against a flow that cheats?", ["RFC 9956",] {
        /// length of each of the two phases
        time: Duration = "8 s" ["3 s".."60 s"];
        /// directions to try, one after the other
        direction: Directions = "both";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "forty seconds, and what each direction carries in 16 seconds; a smaller --budget shortens the phases",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};

/// TOS bytes: without DSCP, and of NQB.
const PLAIN: u8 = 0;
const NQB: u8 = 45 << 2;
