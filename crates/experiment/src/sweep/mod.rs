//! Highest rate of datagrams without loss.
//!
//! **Method.** Datagrams of one size, evenly spaced, at rates in steps; each is held for a while, with silence before
//! the next so that queues drain. A rate passes if nothing is lost and the delay does not grow: a buffer hides an
//! overload as long as it has room, and a rate that only the buffer carried does not last. `mode=full` goes up in steps
//! like the source. `mode=fast` first overloads the link for a moment: datagrams that wait in a queue come out at the
//! link's own rate, which narrows the search; the steps next to it are then tried.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, section 2.3.2
//! (steps of 25 kbit/s, 10 s each, 5 s apart).
//!
//! **Deviations.** The source counts losses only. Fast links are stepped by a hundredth of their rate.
//!
//! **Units.** Rates are of payload, bit/s, as in the source.
//!
//! **Validated against.** Emulated and virtual links of known rate: docs/book/probe/accuracy.md.

mod answer;
mod steps;
mod text;

use super::spec::{How, Spec};
use super::trains;
use super::trains::{
    CLOCK, SCOUT, of_stage, one, overloads, received_rate, received_rate_figure, seconds, sent_rate,
};
use base::program::{Sending, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, choices, params};
use base::{BitsPerSec, Bytes, Duration};
use stats::Figure;

const PENG: &str = "Gao 2012, section 2.3.2";

choices! {
    /// Way to search.
    pub enum Mode { Fast = "fast", Full = "full" }
}

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "sweep": "What is the highest rate of datagrams that this link carries without loss?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// direction of the datagrams
        direction: Direction = "up", PENG;
        /// payload of each datagram
        size: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// fast: search near the rate that an overload shows; full: try every step
        mode: Mode = "fast", PENG;
        /// step from one rate to the next; by default 25 kbit/s, or a hundredth of the rate if that is more
        step: Option<BitsPerSec> ["1 kbit/s".."1 Gbit/s"], PENG;
        /// time for which each rate is sent; by default 10 s in full mode, and in fast mode as long as a quarter of a
        /// step needs to show
        hold: Option<Duration> ["500 ms".."120 s"], PENG;
        /// silence before each rate; by default 5 s in full mode, 2 s in fast mode
        rest: Option<Duration> ["0 s".."60 s"], PENG;
        /// first rate in full mode; by default four fifths of the rate that the overload shows
        from: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"];
        /// last rate in full mode; by default the third in a row that does not pass
        to: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about 30 s at the link's full rate (full mode: 15 s a step)",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Length of an overload: its second half has to be long enough to measure.
const FLOOD: Duration = Duration::from_secs(3);

const FLOODS: usize = 6;

/// Result of the trains so far that narrows the search.
struct Found {
    /// Payload rate of the link under overload.
    plateau: f64,
    step: f64,
}

/// Next overload of the link, repeated until it is one; or the payload rate that it shows.
///
/// # Errors
/// The next sending, or nothing if nothing arrives.
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

/// Payload rate of arrivals of the last overload, with its interval.
pub fn overloaded_rate(trains: &[Train]) -> Figure {
    of_stage(trains, "overload").last().map_or(
        Figure::cannot_tell("the link was not overloaded"),
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

/// Rate that was held.
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
