//! Steps: the next sending, given all trains so far.

use super::{MOST_TRIALS, Params, Trial, sizes, standing, trials};
use crate::trains;
use crate::trains::{SCOUT, of_stage};
use base::program::{Program, Sending, Step, Train};

const FIRST: u64 = 8;

/// Length of the next burst of one size; none when it is settled.
fn next_count(params: &Params, trials: &[Trial]) -> Option<u64> {
    let (most, repeats) = (params.most, params.repeats);
    let s = standing(trials);
    if trials.len() >= MOST_TRIALS {
        return None;
    }
    let Some(loses) = s.loses else {
        if s.passes >= most {
            return None;
        }
        return Some(if s.passes == 0 {
            FIRST
        } else {
            (s.passes * 2).min(most)
        });
    };
    if loses > s.passes + 1 {
        // The first that was lost of a longer burst says how many had room.
        let told = trials
            .iter()
            .filter(|t| t.count == loses)
            .filter_map(|t| t.first_lost)
            .max()
            .unwrap_or(0) as u64;
        let told = told.clamp(s.passes, loses);
        let tried = |n: u64| trials.iter().any(|t| t.count == n);
        let guess = if told > s.passes && !tried(told) {
            told
        } else if told + 1 < loses && told >= s.passes && !tried(told + 1) {
            told + 1
        } else {
            s.passes.midpoint(loses)
        };
        return Some(guess.clamp(s.passes + 1, loses - 1));
    }
    if s.passes > 0 && s.tried_passing < repeats {
        return Some(s.passes);
    }
    (s.tried_losing < repeats).then_some(loses)
}

fn sending(params: &Params, stage: String, programs: Vec<Program>) -> Sending {
    Sending {
        stage,
        direction: params.direction,
        programs,
        rest: params.rest,
    }
}

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let sizes = sizes(params);
    let way = params.direction;
    let scouts = of_stage(trains, SCOUT).next();
    let Some(scout) = scouts else {
        return Some(trains::scout(way, sizes[0]));
    };
    if scout.lost() == scout.sent() {
        return None;
    }
    for size in &sizes {
        if let Some(count) = next_count(params, &trials(trains, *size)) {
            let program = Program::of(Step::burst(count, *size));
            return Some(sending(
                params,
                format!("burst {size} {count}"),
                vec![program],
            ));
        }
    }
    let size = sizes[0];
    let s = standing(&trials(trains, size));
    s.loses?;
    if of_stage(trains, "tail").next().is_none() && s.passes > 0 {
        let program = Program::of(Step::burst(2 * s.passes, size));
        return Some(sending(params, "tail".into(), vec![program]));
    }
    // Half each: as many as one alone, and one more each.
    for (stage, each) in [("two", s.passes / 2), ("two-more", s.passes / 2 + 1)] {
        if of_stage(trains, stage).next().is_none() && each > 0 {
            let program = Program::of(Step::burst(each, size));
            return Some(sending(
                params,
                stage.into(),
                vec![program.clone(), program],
            ));
        }
    }
    None
}
