//! Answer from all trains.

use super::text::{plot, table, told};
use super::{Found, Held, Params, found, held, overload, overloaded_rate};
use crate::answer::{Figured, Outcome, Quantity};
use crate::trains::{SCOUT, of_stage, overloads};
use base::program::Train;
use base::units::significant;
use stats::Figure;

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let plateau = match overload(params.direction, params.size.get() as u32, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        _ if of_stage(trains, SCOUT).any(|t| t.lost() == t.sent()) => {
            return Outcome::cannot_tell("not one datagram of the first train arrived");
        }
        _ => return Outcome::cannot_tell("the run ended before the line's rate was seen"),
    };
    let found = found(params, plateau);
    let held = held(trains, plateau);
    let plateau_figure = overloaded_rate(trains);
    let best = held
        .iter()
        .filter(|h| h.passes)
        .map(|h| h.rate)
        .fold(None, max);
    let first_bad = held
        .iter()
        .filter(|h| !h.passes && best.is_none_or(|b| h.rate > b))
        .map(|h| h.rate)
        .fold(None, |a: Option<f64>, r| Some(a.map_or(r, |a| a.min(r))));
    let other = first_bad.and_then(|bad| not_the_queue(&held, bad, &found));
    let lossless = match (best, first_bad) {
        (None, _) => Figure::cannot_tell("no rate that was tried passed without loss"),
        _ if other.is_some() => Figure::cannot_tell(other.unwrap_or_default()),
        (Some(b), bad) => {
            // Above what comes out under overload nothing lasts, whatever a short hold says.
            let least = match plateau_figure {
                Figure::Is { low, .. } => b.min(low),
                Figure::CannotTell { .. } => b,
            };
            // Between a step that passes and the next, which does not, lies what comes out under overload.
            let value = match bad {
                Some(bad) if (b..bad).contains(&plateau) => plateau,
                _ => b.min(plateau),
            };
            Figure::Is {
                value,
                low: least,
                high: bad
                    .and_then(|bad| held.iter().find(|h| h.rate == bad))
                    .map_or(b, |h| ceiling(h, plateau))
                    .max(value),
            }
        }
    };
    let size = params.size.get() as f64;
    let headers = trains.first().map_or(28.0, |t| f64::from(t.facts.headers));
    let whole = |f: &Figure| f.map(|r| r * (size + headers) / size);
    let rates: Vec<f64> = held.iter().map(|h| h.rate).collect();
    let says = match &lossless {
        Figure::Is { value, .. } => format!(
            "{} Mbit/s of datagrams with {size} bytes pass {} without loss; {} Mbit/s is what comes out when more is sent.",
            significant(value / 1e6, 4),
            params.direction,
            significant(plateau / 1e6, 4),
        ),
        Figure::CannotTell { cannot_tell } if best.is_some() => format!(
            "Cannot tell which rate passes without loss: {cannot_tell}. Under overload {} Mbit/s come out.",
            significant(plateau / 1e6, 4),
        ),
        Figure::CannotTell { .. } => format!(
            "No rate passed without loss, the lowest that was tried being {} Mbit/s: this line loses datagrams whatever the rate. Under overload {} Mbit/s come out.",
            significant(rates.iter().copied().fold(f64::INFINITY, f64::min) / 1e6, 3),
            significant(plateau / 1e6, 4),
        ),
    };
    let mut outcome = Outcome {
        says,
        figures: vec![
            Figured::new(
                "lossless_bps",
                "highest rate without loss",
                Quantity::Rate,
                lossless,
            ),
            Figured::new(
                "plateau_bps",
                "what comes out under overload",
                Quantity::Rate,
                plateau_figure.clone(),
            ),
            Figured::new(
                "link_bps",
                "the same in whole IP packets",
                Quantity::Rate,
                whole(&plateau_figure),
            ),
        ],
        evidence: held.iter().map(|h| told(h)).collect(),
        tables: vec![table(&held)],
        plots: vec![plot(&held, &found)],
        ..Outcome::default()
    };
    if held.iter().any(|h| h.passes) && first_bad.is_none() {
        outcome
            .doubts
            .push("every rate that was tried passed: the highest may be higher".into());
    }
    outcome
}

/// Upper limit of the lossless rate, from the lowest rate that failed. Losses without a growing delay may be the link's
/// own: then the link carries the rate of arrivals under overload plus that loss.
fn ceiling(failed: &Held, plateau: f64) -> f64 {
    if overloads(failed.train, plateau) {
        return failed.rate;
    }
    let lost = failed.train.lost() as f64 / (failed.train.sent() as f64).max(1.0);
    failed.rate.max(plateau / (1.0 - lost).max(0.5))
}

/// Reason why the rate `bad` failed, if it is not the queue: arrivals under overload are clearly faster.
fn not_the_queue(held: &[Held], bad: f64, found: &Found) -> Option<String> {
    let h = held.iter().find(|h| h.rate == bad)?;
    let rate = significant(bad / 1e6, 3);
    if bad >= found.plateau - 2.0 * found.step {
        return None;
    }
    Some(if overloads(h.train, found.plateau) {
        format!("the delay grew at {rate} Mbit/s already, so the base delay drifts")
    } else {
        format!(
            "{} of {} datagrams were lost at {rate} Mbit/s while the delay did not grow, so the link loses them at any rate",
            h.train.lost(),
            h.train.sent(),
        )
    })
}

fn max(a: Option<f64>, r: f64) -> Option<f64> {
    Some(a.map_or(r, |a| a.max(r)))
}
