//! The highest rate of datagrams without loss.
//!
//! **Method.** Datagrams of one size, evenly spaced, at rates in steps; each is held for a while, with silence before the
//! next so that queues drain. A rate passes when nothing is lost and the delay does not grow: a buffer hides an
//! overload for as long as it has room, and a rate that only the buffer carried is none that lasts. `mode=full` goes up
//! in steps as the document does. `mode=fast` first overloads the line for a moment: datagrams that wait in
//! a queue come out at the line's own rate, which tells where to look; the steps next to it are then tried.
//!
//! **Source.** G. Peng, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, section 2.3.2
//! (steps of 25 kbit/s, 10 s each, 5 s apart).
//!
//! **Deviations.** The document counts losses only. Fast lines are stepped by a hundredth of their rate.
//!
//! **Units.** Rates are of payload, bit/s, as the document's are.
//!
//! **Validated against.** Emulated and virtual lines of known rate: docs/book/probe/accuracy.md.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::{
    self, CLOCK, SCOUT, growth, loss, of_stage, one, overloads, received_rate,
    received_rate_figure, seconds, sent_rate,
};
use base::Bytes;
use base::program::{Sending, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, choices, params};
use base::units::significant;
use base::{BitsPerSec, Duration};
use stats::Figure;

const PENG: &str = "Peng 2012, section 2.3.2";

choices! {
    /// Way to search.
    pub enum Mode { Fast = "fast", Full = "full" }
}

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "sweep": "What is the highest rate of datagrams that this line carries without loss?", ["G. Peng, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// which way to send
        direction: Direction = "up", PENG;
        /// payload of each datagram
        size: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// search near the rate that an overload shows, or every step
        mode: Mode = "fast", PENG;
        /// from one rate to the next; 25 kbit/s, or a hundredth of the rate where that is more
        step: Option<BitsPerSec> ["1 kbit/s".."1 Gbit/s"], PENG;
        /// how long each rate is sent; 10 s in full mode, and in fast mode as long as a quarter of a step needs to show
        hold: Option<Duration> ["500 ms".."120 s"], PENG;
        /// silence before each; 5 s in full mode, 2 s in fast mode
        rest: Option<Duration> ["0 s".."60 s"], PENG;
        /// first rate in full mode; four fifths of what the overload shows
        from: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"];
        /// last rate in full mode; the third in a row that does not pass
        to: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"];
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about half a minute (full mode: 15 s a step), as much as the line carries in that time",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// An overload lasts until its second half is long enough to measure.
const FLOOD: Duration = Duration::from_secs(3);
const FLOODS: usize = 6;
/// Rates tried in fast mode at most.
const MOST_HOLDS: usize = 16;
const MOST_STEPS: usize = 400;

/// What the trains so far say of where to look.
struct Found {
    /// Payload rate of the line under overload.
    plateau: f64,
    step: f64,
}

/// How an overload of the line is begun and repeated until it is one; or the payload rate that it shows.
///
/// # Errors
/// What to send next, or nothing where nothing arrives.
pub fn overload(way: Direction, payload: u32, trains: &[Train]) -> Result<f64, Option<Sending>> {
    let Some(scout) = of_stage(trains, SCOUT).next() else {
        return Err(Some(trains::scout(way, payload)));
    };
    let Some(rough) = received_rate(scout, 0.0) else {
        return Err(None);
    };
    let floods: Vec<&Train> = of_stage(trains, "overload").collect();
    let last = floods.last();
    if let Some(train) = last {
        let received = received_rate(train, 0.5).unwrap_or(0.0);
        let sent = sent_rate(train).unwrap_or(rough);
        // Less came out than went in: that is the line's own rate.
        if received < 0.93 * sent || floods.len() >= FLOODS {
            return Ok(received);
        }
    }
    let rate = last
        .and_then(|t| sent_rate(t))
        .map_or(1.4 * rough, |sent| 2.0 * sent);
    let step = Step::steady(payload, BitsPerSec::new(rate as u64), FLOOD);
    Err(Some(one("overload", way, Duration::from_secs(1), step)))
}

/// Rate of payload that the last overload came out at, with its interval.
pub fn overloaded_rate(trains: &[Train]) -> Figure {
    of_stage(trains, "overload").last().map_or(
        Figure::cannot_tell("the line was not overloaded"),
        |train| received_rate_figure(train, 0.5).widened(CLOCK),
    )
}

fn found(params: &Params, plateau: f64) -> Found {
    let step = params
        .step
        .map_or((plateau / 100.0).max(25_000.0), |r| r.get() as f64);
    Found {
        plateau,
        // A slow line has fewer than four such steps in all.
        step: if params.step.is_none() {
            step.min(plateau / 20.0)
        } else {
            step
        },
    }
}

fn hold(params: &Params, found: &Found, rate: f64) -> Sending {
    let payload = params.size.get() as u32;
    let full = params.mode == Mode::Full;
    let time = params.hold.unwrap_or_else(|| {
        if full {
            return Duration::from_secs(10);
        }
        // A quarter of a step too much is three datagrams in the queue by then.
        let needed = 3.0 * f64::from(payload) * 8.0 / (found.step / 4.0);
        seconds(needed.clamp(2.0, 20.0))
    });
    let rest = params
        .rest
        .unwrap_or(Duration::from_secs(if full { 5 } else { 2 }));
    let name = format!("hold {}", rate.round());
    let step = Step::steady(payload, BitsPerSec::new(rate.round() as u64), time);
    one(name, params.direction, rest, step)
}

/// One rate that was held.
struct Held<'a> {
    rate: f64,
    train: &'a Train,
    passes: bool,
}

fn held<'a>(trains: &'a [Train], plateau: f64) -> Vec<Held<'a>> {
    of_stage(trains, "hold")
        .filter_map(|train| {
            let rate = train.facts.stage.split(' ').nth(1)?.parse().ok()?;
            let passes = train.lost() == 0 && !overloads(train, plateau);
            Some(Held {
                rate,
                train,
                passes,
            })
        })
        .collect()
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
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

/// Tries the steps on both sides of the plateau, and on from there until one passes below one that does not.
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

fn answer(params: &Params, trains: &[Train]) -> Outcome {
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

/// Upper limit of the lossless rate, from the lowest rate that failed. Losses without a growing delay may be the link's own:
/// then the link carries what came out under overload and that loss.
fn ceiling(failed: &Held, plateau: f64) -> f64 {
    if overloads(failed.train, plateau) {
        return failed.rate;
    }
    let lost = failed.train.lost() as f64 / (failed.train.sent() as f64).max(1.0);
    failed.rate.max(plateau / (1.0 - lost).max(0.5))
}

/// Reason why the rate `bad` failed, if it is not the queue: what comes out under overload is clearly more.
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

/// Less is the hosts' own.
fn hundredths(ms: f64) -> String {
    significant((ms * 100.0).round() / 100.0 + 0.0, 3)
}

fn told(h: &Held) -> String {
    let grew = growth(h.train).map_or(String::new(), |(by, _)| {
        format!(", the delay changed by {} ms", hundredths(by))
    });
    format!(
        "{} kbit/s for {} s: {} of {} lost{grew}: {}",
        significant(h.rate / 1e3, 5),
        significant(h.train.facts.program.time().as_secs_f64(), 3),
        h.train.lost(),
        h.train.sent(),
        if h.passes { "passes" } else { "does not" },
    )
}

fn table(held: &[Held]) -> Table {
    let mut rows: Vec<&Held> = held.iter().collect();
    rows.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let percent = |f: &Figure| f.value().map_or("?".into(), |v| significant(v * 100.0, 3));
    let kbit = |r: f64| significant(r / 1e3, 5);
    Table {
        title: "Rates that were held".into(),
        columns: [
            "targeted, kbit/s",
            "achieved, kbit/s",
            "lost, %",
            "delay grew, ms",
            "passes",
        ]
        .map(String::from)
        .into(),
        rows: rows
            .iter()
            .map(|h| {
                vec![
                    kbit(h.rate),
                    received_rate(h.train, 0.0).map_or("?".into(), kbit),
                    percent(&loss(h.train)),
                    growth(h.train).map_or("?".into(), |g| hundredths(g.0)),
                    if h.passes { "yes" } else { "no" }.into(),
                ]
            })
            .collect(),
    }
}

fn plot(held: &[Held], found: &Found) -> Plot {
    let mut points: Vec<(f64, Option<f64>)> = held
        .iter()
        .map(|h| (h.rate / 1e6, received_rate(h.train, 0.0).map(|r| r / 1e6)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = [points.first(), points.last()].map(|p| p.map_or(0.0, |p| p.0));
    Plot {
        title: "Achieved against targeted rate".into(),
        x: "targeted, Mbit/s of payload".into(),
        y: "achieved, Mbit/s".into(),
        series: vec![
            Series {
                name: "achieved".into(),
                draw: Draw::Knots,
                points,
            },
            Series {
                name: "under overload".into(),
                draw: Draw::Thin,
                points: ends.map(|x| (x, Some(found.plateau / 1e6))).into(),
            },
        ],
    }
}
