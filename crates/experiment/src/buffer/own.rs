//! Queue of the sending host itself: datagrams as fast as it can hand them to its kernel, until it refuses one.
//!
//! **Method.** The size is the number of datagrams taken before the first refusal, less those that left meanwhile. A
//! full queue takes a datagram whenever one has left, so the datagrams taken later show the rate at which it empties.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi
//! 2012, table 3.1.3, test 6 ("the first packet dropped indicates the local buffer size").
//!
//! **Deviations.** Datagrams that left before the first refusal are subtracted.

use super::super::trains::{arrivals, of_stage};
use base::program::{Sending, Step, Train};
use base::record::Direction;
use stats::Figure;

/// Name of the stage.
pub const OWN: &str = "own";
/// Datagrams of the first burst; each further burst is four times as long, until one datagram is refused.
const FIRST: u64 = 100;
const MOST: u64 = 6400;
/// Number of later datagrams below which the rate is unknown.
const LATER: usize = 20;

/// Next burst; none after a refusal, or if nothing more may be sent.
pub fn next(way: Direction, payload: u32, trains: &[Train], left: Option<f64>) -> Option<Sending> {
    let last = of_stage(trains, OWN).last();
    if last.is_some_and(|t| t.facts.refused > 0) {
        return None;
    }
    let count = last.map_or(FIRST, |t| t.facts.program.count() * 4);
    let bytes = count as f64 * f64::from(payload + 48);
    if count > MOST || left.is_some_and(|left| bytes > left) {
        return None;
    }
    Some(Sending {
        stage: OWN.into(),
        direction: way,
        programs: vec![base::program::Program::of(Step::burst(count, payload))],
        rest: super::REST,
    })
}

/// Queue of the sending host.
pub struct Own {
    /// Size of the queue, bytes.
    pub bytes: Figure,
    /// Wait of a datagram in the full queue, ms.
    pub ms: Figure,
    /// Evidence in one sentence.
    pub evidence: String,
}

/// Rate at which a partly refused flood left the host, bit/s of whole IP packets, over its later half; none if the host
/// refused nothing then.
pub fn flood_rate(flood: &Train) -> Option<f64> {
    let later: Vec<_> = flood.datagrams().filter(|(due, _)| due.step == 1).collect();
    let later = &later[later.len() / 2..];
    if later.iter().all(|(_, f)| f.sent_ns.is_some()) {
        return None;
    }
    let left: Vec<(i64, f64)> = later
        .iter()
        .filter_map(|(due, f)| Some((f.sent_ns?, f64::from(due.payload + flood.facts.headers))))
        .collect();
    let took = (left.last()?.0 - left.first()?.0) as f64;
    let bytes: f64 = left[1..].iter().map(|l| l.1).sum();
    (took > 0.0).then(|| bytes * 8e9 / took)
}

/// Queue from the last burst; none if there was no burst. `known` is the rate at which the host sends, if the flood
/// showed it.
pub fn own(trains: &[Train], known: Option<f64>) -> Option<Own> {
    let train = of_stage(trains, OWN).last()?;
    let count = train.fates.len();
    let packet = f64::from(train.facts.program.largest_payload() + train.facts.headers);
    let first = train.fates.iter().position(|f| f.sent_ns.is_none());
    let Some(taken) = first else {
        let why = format!(
            "this host took {count} datagrams of {packet} bytes at once and refused none: it hands them on as fast as they come, or holds more"
        );
        return Some(Own {
            bytes: Figure::cannot_tell(why.clone()),
            ms: Figure::cannot_tell(why.clone()),
            evidence: why,
        });
    };
    let nothing = |why: &str| {
        Some(Own {
            bytes: Figure::cannot_tell(why),
            ms: Figure::cannot_tell(why),
            evidence: why.into(),
        })
    };
    if taken == 0 {
        return nothing("this host refused the first datagram already: they are too large for it");
    }
    let at = |i: usize| train.fates.get(i).and_then(|f| f.sent_ns);
    let (Some(began), Some(full)) = (at(0), at(taken - 1)) else {
        return nothing("the datagrams have no times");
    };
    let later: Vec<i64> = train.fates[taken..]
        .iter()
        .filter_map(|f| f.sent_ns)
        .collect();
    let came = arrivals(train);
    let seen = (later.len() >= LATER).then(|| {
        let took = (later[later.len() - 1] - full).max(1) as f64;
        later.len() as f64 * packet * 8e9 / took
    });
    let own_rate = known.or(seen);
    // At least as fast as it arrives; in the milliseconds of a burst that is not much.
    let arrives = || {
        let span = (came.last()?.0 - came.first()?.0) as f64;
        (span > 0.0).then(|| (came.len() - 1) as f64 * packet * 8e9 / span)
    };
    let Some(rate) = own_rate.or_else(arrives) else {
        return nothing("hardly anything arrived");
    };
    let left = (rate * (full - began) as f64 * 1e-9 / 8.0).min((taken - 1) as f64 * packet);
    let value = taken as f64 * packet - left;
    // The one that was refused may have found room for all but its last byte; what left is known by half of itself.
    let bytes = Figure::Is {
        value,
        low: value - left / 2.0,
        high: value + packet + left / 2.0,
    };
    Some(Own {
        ms: match own_rate {
            Some(rate) => bytes.map(|b| b * 8e3 / rate),
            None => Figure::cannot_tell("at which rate it empties was not seen"),
        },
        bytes,
        evidence: format!(
            "this host took {taken} of {count} datagrams of {packet} bytes before it refused one, in {:.1} ms; by then {:.1} kB had left",
            (full - began) as f64 * 1e-6,
            left / 1e3
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::program::{Facts, Fate, Program};

    /// Burst of a host that takes a datagram each 2 µs while there is room, holds `room` bytes and sends at `rate`.
    fn burst(count: u64, room: f64, rate: f64) -> Train {
        let mut train = Train::new(
            0,
            Facts {
                stage: OWN.into(),
                direction: Direction::Up,
                program: Program::of(Step::burst(count, 1024)),
                headers: 28,
                refused: 0,
                overflowed: 0,
                fragments_sent: None,
                fragments_received: None,
            },
        );
        let packet = 1052.0;
        let (mut held, mut came) = (0.0, 0.0f64);
        for i in 0..count {
            let now = i as f64 * 2e-6;
            held = f64::max(held - 2e-6 * rate / 8.0, 0.0);
            if held + packet > room {
                train.facts.refused += 1;
                continue;
            }
            held += packet;
            came = came.max(now) + packet * 8.0 / rate;
            train.fates[i as usize] = Fate {
                sent_ns: Some((now * 1e9) as i64),
                received_ns: Some((came * 1e9) as i64 + 5_000_000),
                ecn: None,
            };
        }
        train
    }

    #[test]
    fn what_a_host_holds_is_found_whether_it_empties_slowly_or_soon() {
        for rate in [1e6, 8e6, 100e6, 900e6] {
            for room in [50e3, 300e3] {
                let own = own(&[burst(1600, room, rate)], (rate < 50e6).then_some(rate))
                    .expect("a burst");
                let bytes = own.bytes.value().expect("it refused some");
                assert!((bytes - room).abs() < 0.1 * room, "{rate} {room}: {bytes}");
                let ms = own.ms.value().expect("and so in time");
                let truth = room * 8e3 / rate;
                assert!(
                    (ms - truth).abs() < 0.1 * truth + 0.02,
                    "{rate} {room}: {ms}"
                );
            }
        }
    }

    #[test]
    fn a_host_that_refuses_nothing_has_no_figure() {
        let own = own(&[burst(100, 1e9, 1e9)], None).expect("a burst");
        assert_eq!(own.bytes.value(), None);
        assert!(own.evidence.contains("refused none"), "{}", own.evidence);
    }

    #[test]
    fn bursts_grow_until_one_is_refused_and_no_further_than_allowed() {
        let more = |trains: &[Train], left| next(Direction::Up, 1024, trains, left);
        let count = |s: Option<Sending>| s.map(|s| s.programs[0].count());
        assert_eq!(count(more(&[], None)), Some(100));
        let held = burst(100, 1e9, 1e9);
        assert_eq!(count(more(std::slice::from_ref(&held), None)), Some(400));
        assert_eq!(count(more(&[held], Some(100e3))), None);
        assert_eq!(count(more(&[burst(400, 50e3, 1e6)], None)), None);
        assert_eq!(count(more(&[burst(6400, 1e9, 1e9)], None)), None);
    }
}
