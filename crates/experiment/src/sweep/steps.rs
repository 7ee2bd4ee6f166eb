//! Steps: the next sending, given all trains so far.

use super::{Found, Held, Mode, Params, found, held, hold, overload};
use base::program::{Sending, Train};

/// Greatest number of rates tried in fast mode.
const MOST_HOLDS: usize = 16;

const MOST_STEPS: usize = 400;

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let plateau = match overload(params.direction, params.size.get() as u32, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        Ok(_) => return None,
        Err(sending) => return sending,
    };
    let found = found(params, plateau);
    let held = held(trains, plateau);
    let rate = if params.mode == Mode::Full {
        next_step(params, &found, &held)?
    } else {
        next_guess(&found, &held)?
    };
    Some(hold(params, &found, rate))
}

fn next_step(params: &Params, found: &Found, held: &[Held]) -> Option<f64> {
    let Some(last) = held.last() else {
        return Some(params.from.map_or_else(
            || (0.8 * found.plateau / found.step).floor().max(1.0) * found.step,
            |r| r.get() as f64,
        ));
    };
    let next = last.rate + found.step;
    let end = match params.to {
        Some(to) => next > to.get() as f64 + 0.5,
        None => held.iter().rev().take_while(|h| !h.passes).count() >= 3,
    };
    (!end && held.len() < MOST_STEPS).then_some(next)
}

/// Next rate: the steps on both sides of the plateau, and on from there until one passes below one that does not.
fn next_guess(found: &Found, held: &[Held]) -> Option<f64> {
    let step_of = |rate: f64| (rate / found.step).round() as i64;
    let best = held
        .iter()
        .filter(|h| h.passes)
        .map(|h| step_of(h.rate))
        .max();
    let worst = held
        .iter()
        .filter(|h| !h.passes && best.is_none_or(|b| step_of(h.rate) > b))
        .map(|h| step_of(h.rate))
        .min();
    let next = match (best, worst) {
        (None, None) => (found.plateau / found.step).floor() as i64,
        (Some(b), Some(w)) if w <= b + 1 => return None,
        (Some(b), _) => b + 1,
        // A line that loses at random passes no rate: ever larger strides downwards tell.
        (None, Some(w)) => w - (1 << held.len().min(8).saturating_sub(1)),
    };
    (next >= 1 && held.len() < MOST_HOLDS).then_some(next as f64 * found.step)
}
