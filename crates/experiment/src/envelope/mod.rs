//! Envelope: the sizes, spacings, bursts and rates that are safe for an application on a link.
//!
//! **Method.** `sweep`, `burst`, `sizes` and `spacing` run one after the other; each sees its own trains, and trains
//! that two of them need are sent once. Their answers make one page of advice.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, chapter 6.

mod answer;
mod steps;

use super::registry::ProbeSpec;
use super::spec::{How, Spec};
use base::record::Direction;
use base::spec::{Params as _, params};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "envelope": "Which datagram size, spacing, burst and rate are safe on this link?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// direction of the measurements
        direction: Direction = "up";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about six minutes at the link's full rate",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), recording),
};

/// Kinds that it consists of, in order.
fn parts(params: &Params) -> Vec<ProbeSpec> {
    let direction = params.direction;
    ["sweep", "burst", "sizes", "spacing"]
        .iter()
        .map(|kind| {
            format!("{kind}:direction={direction}")
                .parse()
                .expect("kinds and their parameters are in the table")
        })
        .collect()
}
