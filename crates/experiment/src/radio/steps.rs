//! Steps: the next sending, given all trains so far.

use super::{EACH, Known, Params, SHORTEST, STAGE, silence_of, woken};
use crate::trains::{of_stage, seconds};
use base::Duration;
use base::program::{Program, Sending, Shot, Step, Train};

const APART: Duration = Duration::from_millis(250);

const PAYLOAD: u32 = 40;

/// Greatest number of trains.
const MOST: usize = 40;

/// Greatest number of trials of one silence: lost ones are tried again.
const TRIES: usize = 3;

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let longest = params.longest.as_secs_f64();
    let step = params.step.as_secs_f64();
    let tried: Vec<f64> = of_stage(trains, STAGE).filter_map(silence_of).collect();
    let sending = |silence_s: f64| {
        let shots = || {
            vec![Shot {
                payload: PAYLOAD,
                gap: APART,
            }]
        };
        let silence = seconds(silence_s);
        let steps = vec![
            Step::new(EACH, shots()).then_pause(silence),
            Step::new(EACH, shots()),
        ];
        Some(Sending {
            stage: format!("{STAGE} {}", silence.as_nanos() / 1_000_000),
            direction: params.direction,
            programs: vec![Program::new(steps).expect("two short steps")],
            rest: Duration::ZERO,
        })
    };
    if tried.len() >= MOST {
        return None;
    }
    // What came to nothing is tried again.
    if let Some(last) = tried.last() {
        let again = tried.iter().filter(|s| *s == last).count();
        let failed = of_stage(trains, STAGE)
            .last()
            .is_some_and(|t| woken(t).is_none());
        if failed {
            return if again < TRIES { sending(*last) } else { None };
        }
    }
    let mut ladder = SHORTEST;
    while ladder < longest {
        if !tried.contains(&rounded(ladder)) {
            return sending(ladder);
        }
        ladder *= 2.0;
    }
    if !tried.contains(&rounded(longest)) {
        return sending(longest);
    }
    let known = Known::of(trains);
    for jump in known.jumps() {
        if jump.to_s - jump.from_s > step {
            return sending((jump.from_s + jump.to_s) / 2.0);
        }
        for edge in [jump.from_s, jump.to_s] {
            if edge > 0.0 && known.times(edge) < 2 {
                return sending(edge);
            }
        }
    }
    None
}

/// Silence as a train's stage has it, in whole milliseconds.
fn rounded(s: f64) -> f64 {
    (s * 1e3).round() * 1e-3
}
