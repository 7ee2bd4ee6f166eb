//! A file sent without a limit, in parts with pauses, and below the link's rate: time of the file, and wait of others meanwhile.
//!
//! **Method.** An upload without a limit shows the rate of the link. Then the same file goes up in three manners, in turn: without
//! a limit (*continuous*), in parts with a pause after each (*intermittent*), and paced segment by segment at a share of the
//! rate (*shaped*). Datagrams beside it show how much longer others wait than on the idle link. Each repetition has all three,
//! and begins with another one.
//!
//! **Source.** D. O. Borlaug, section 3.5.2 and figure 23, after S. Sundaresan and others, Broadband Internet Performance: A View From
//! the Gateway, SIGCOMM 2011, section 6.3.
//!
//! **Deviations.** The source shapes at the router; here the sender does. Others of the link are not shaped.

mod answer;
mod note;
mod steps;
mod text;

pub use answer::{Judged, Verdict, judged};
pub use note::Manner;

use super::spec::{How, Spec};
use base::Duration;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "shaping": "What does it cost to send below the link's rate, and does it keep the queue short?", ["Sundaresan and others, Broadband Internet Performance, SIGCOMM 2011, section 6.3",] {
        /// time that the file takes at the link's full rate
        time: Duration = "8 s" ["2 s".."5 min"];
        /// share of the full rate at which the file is shaped, per cent
        share: u64 = "90" ["10".."100"];
        /// parts of the file if it is sent with pauses
        parts: u64 = "5" ["2".."50"];
        /// pause after each part
        pause: Duration = "500 ms" ["10 ms".."30 s"];
        /// repetitions of all three
        repeats: u64 = "3" ["2".."50"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "a minute and a half, and what the uplink carries in 80 seconds; a smaller --budget shortens the file",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};
