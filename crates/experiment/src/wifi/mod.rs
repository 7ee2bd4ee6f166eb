//! Wi-Fi of this host: do packets wait in the air, in this host's queue, or beyond the gateway?
//!
//! **Method.** Round trips to the server and to the gateway go on beside samples of the radio's state (rate, retries, signal,
//! use of the channel, backlog) each 100 ms: without load, then under a download and an upload. `judge` has the rules.
//!
//! **Source.** Linux, `include/uapi/linux/nl80211.h`; T. Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low Latency and
//! Airtime Fairness in WiFi", USENIX ATC 2017, for the places where packets wait; IEEE 802.11-2020, section 11.2 (power save).

pub mod judge;
mod note;
mod steps;
mod text;

pub use judge::{Judged, Place, judged};
pub use note::{Phase, Sample, WifiNote};

use super::spec::{How, Spec};
use crate::path::Load;
use base::Duration;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "wifi": "Do packets wait in the air of this host's Wi-Fi, in this host's queue, or beyond?", ["Linux nl80211.h", "Høiland-Jørgensen 2017",] {
        /// time of each phase: without load, and with each load
        time: Duration = "10 s" ["4 s".."600 s"];
        /// directions to fill, one after the other
        load: Load = "both";
        /// TCP flows of each load
        flows: u32 = "4" ["1".."64"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "half a minute, 20 s of it at the link's full rate; a smaller --budget shortens the loads",
    beside_others: true,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |_, recording| text::answer(recording),
};
