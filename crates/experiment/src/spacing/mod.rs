//! Effect of spacing: datagrams in pairs, or evenly spaced.
//!
//! **Method.** Datagrams A and B alternate, at rates above and below the link's. Pattern I sends B right behind A and
//! then waits; pattern II waits as long before each. In a queue that is nearly always full, a pair's first datagram
//! takes the place that has become free, and its second finds none.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, sections 4.2 to 4.4 (10 000
//! of each, from 3.2 Mbit/s down to 1.8 over a line of 1.97).
//!
//! **Deviations.** 500 of each unless told otherwise. The rates are in the document's proportion to the line's.
//!
//! **Units.** Rates are of payload.

mod answer;
mod steps;
mod text;

use super::spec::{How, Spec};
use base::program::Train;
use base::record::Direction;
use base::spec::{Params as _, params};
use base::{Bytes, Duration};

const PENG: &str = "Gao 2012, section 4.3";

/// Rates over the link's in the source: 3.2 to 1.8 Mbit/s over 1.97.
const FACTORS: [f64; 8] = [1.624, 1.523, 1.421, 1.320, 1.218, 1.117, 1.015, 0.914];

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "spacing": "Does it matter on this link whether datagrams are sent in pairs or evenly spaced?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// direction of the datagrams
        direction: Direction = "up", PENG;
        /// payload of the first of each pair
        a: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// payload of the second of each pair
        b: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// datagrams of each size at each rate; the source sends 10000
        count: u64 as Packets = "500" ["20".."100000"], PENG;
        /// silence between trains, once the queue is empty
        rest: Duration = "1 s" ["0 s".."60 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about two minutes at 2 Mbit/s, 24 MB with datagrams of 1452 bytes",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Counts of one train: datagrams of each sort, sent and arrived.
struct Counts {
    targeted: f64,
    achieved: f64,
    a: (u64, u64),
    b: (u64, u64),
    /// Counts in the second half, when the queue has filled.
    late_a: (u64, u64),
    late_b: (u64, u64),
}
