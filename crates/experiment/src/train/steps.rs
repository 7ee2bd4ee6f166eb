//! Steps: the next sending, given all trains so far.

use super::{Params, program};
use crate::trains::{SCOUT, scout};
use base::program::{Sending, Train};
use base::record::Direction;

fn stage(direction: Direction, number: u64) -> String {
    format!("{} {number}", direction.word())
}

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let sent = |name: &str| trains.iter().any(|t| t.facts.stage == name);
    for &direction in params.direction.directions() {
        for number in 1..=params.repeats {
            let stage = stage(direction, number);
            if sent(&stage) {
                continue;
            }
            if !sent(SCOUT) {
                // Shows that the way is open before much is sent.
                return Some(scout(direction, program(params).largest_payload()));
            }
            return Some(Sending {
                stage,
                direction,
                programs: vec![program(params)],
                rest: params.rest,
            });
        }
    }
    None
}
