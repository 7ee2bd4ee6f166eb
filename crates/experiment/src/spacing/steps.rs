//! Steps: the next sending, given all trains so far.

use super::{FACTORS, Params};
use crate::sweep;
use crate::trains::one;
use base::Duration;
use base::program::{Sending, Shot, Step, Train};

/// Pattern I or II at a payload rate.
fn pattern(params: &Params, pairs: bool, rate: f64) -> Step {
    let (a, b) = (params.a.get() as u32, params.b.get() as u32);
    let cycle = f64::from(a + b) * 8.0 / rate;
    let gap = |s: f64| Duration::from_secs_f64(s);
    let gaps = if pairs {
        (Duration::ZERO, gap(cycle))
    } else {
        (gap(cycle / 2.0), gap(cycle / 2.0))
    };
    Step::new(
        params.count,
        vec![
            Shot {
                payload: a,
                gap: gaps.0,
            },
            Shot {
                payload: b,
                gap: gaps.1,
            },
        ],
    )
}

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let larger = params.a.max(params.b).get() as u32;
    let plateau = match sweep::overload(params.direction, larger, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        Ok(_) => return None,
        Err(sending) => return sending,
    };
    for (i, factor) in FACTORS.iter().enumerate() {
        for (name, pairs) in [("I", true), ("II", false)] {
            let stage = format!("{name} {i}");
            if !trains.iter().any(|t| t.facts.stage == stage) {
                let step = pattern(params, pairs, factor * plateau);
                return Some(one(stage, params.direction, params.rest, step));
            }
        }
    }
    None
}
