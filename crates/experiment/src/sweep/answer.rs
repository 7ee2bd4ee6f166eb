//! Answer from all trains.

use super::text::{plot, table, told};
use super::{Found, Held, Params, found, held, overload, overloaded_rate};
use crate::answer::{Figured, Outcome};
use crate::trains::{SCOUT, of_stage, overloads};
use base::print::significant;
use base::program::Train;
use stats::Figure;

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let plateau = match overload(params.direction, params.size.get() as u32, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        _ if of_stage(trains, SCOUT).any(|t| t.lost() == t.sent()) => {
            return Outcome::cannot_tell("not one datagram of the first train arrived");
        }
        _ => return Outcome::cannot_tell("the run ended before the link's rate was seen"),
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
    let lossless = match (best, other) {
        (None, _) => Figure::cannot_tell("no rate that was tried passed without loss"),
        (_, Some(other)) => Figure::cannot_tell(other),
        (Some(best), None) => lossless(&held, best, first_bad, &plateau_figure, plateau),
    };
    let size = params.size.get() as f64;
    let headers = trains.first().map_or(28.0, |t| f64::from(t.facts.headers));
    let whole = |f: &Figure| f.map(|r| r * (size + headers) / size);
    let mut outcome = Outcome {
        says: says(params, &held, &lossless, best, plateau),
        figures: vec![
            Figured::rate("lossless_bps", "highest rate without loss", lossless),
            Figured::rate(
                "plateau_bps",
                "what comes out under overload",
                plateau_figure.clone(),
            ),
            Figured::rate(
                "link_bps",
                "the same in whole IP packets",
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

/// Highest rate without loss, from `best`, the highest that passed, to the lowest that failed.
fn lossless(
    held: &[Held],
    best: f64,
    failed: Option<f64>,
    overloaded: &Figure,
    plateau: f64,
) -> Figure {
    // A rate above the arrivals under overload cannot last; only a short hold lets it pass.
    let least = match overloaded {
        Figure::Is { low, .. } => best.min(*low),
        Figure::CannotTell { .. } => best,
    };
    // The true rate lies between the last step that passes and the first that fails; arrivals under overload may, too.
    let value = match failed {
        Some(failed) if (best..failed).contains(&plateau) => plateau,
        _ => best.min(plateau),
    };
    let first = held.iter().find(|h| Some(h.rate) == failed);
    Figure::Is {
        value,
        low: least,
        high: first
            .map_or(best, |h| ceiling(h, overloaded, plateau))
            .max(value),
    }
}

/// Headline: the rate without loss, and arrivals under overload.
fn says(
    params: &Params,
    held: &[Held],
    lossless: &Figure,
    best: Option<f64>,
    plateau: f64,
) -> String {
    let size = params.size.get() as f64;
    let rates: Vec<f64> = held.iter().map(|h| h.rate).collect();
    match lossless {
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
            "No rate passed without loss, the lowest that was tried being {} Mbit/s: this link loses datagrams whatever the rate. Under overload {} Mbit/s come out.",
            significant(rates.iter().copied().fold(f64::INFINITY, f64::min) / 1e6, 3),
            significant(plateau / 1e6, 4),
        ),
    }
}

/// Upper limit of the lossless rate, from the lowest rate that failed, and no less than arrivals under overload: a rate below
/// those failed by drift or by chance. Losses without a growing delay may be the link's own: then the link carries the rate
/// of arrivals under overload plus that loss.
fn ceiling(failed: &Held, overloaded: &Figure, plateau: f64) -> f64 {
    let arrivals = match overloaded {
        Figure::Is { high, .. } => high.max(plateau),
        Figure::CannotTell { .. } => plateau,
    };
    if overloads(failed.train, plateau) {
        return failed.rate.max(arrivals);
    }
    let lost = failed.train.lost() as f64 / (failed.train.sent() as f64).max(1.0);
    failed.rate.max(arrivals / (1.0 - lost).max(0.5))
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
