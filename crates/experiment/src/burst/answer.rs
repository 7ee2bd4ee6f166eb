//! Answer from all trains.

use super::text::{plot, table, tail};
use super::{Found, MOST_TRIALS, Params, alone, lost, places, sizes, standing, trials};
use crate::answer::{Figured, Outcome};
use crate::trains::{SCOUT, of_stage, received_rate};
use base::print::significant;
use base::program::Train;
use stats::Figure;

/// Losses that no full queue explains, in all bursts.
fn lost_alone(trains: &[Train]) -> usize {
    let of = |t: &Train| {
        let f = &t.fates;
        (0..f.len())
            .filter(|i| lost(&f[*i]) && alone(&f[*i + 1..]))
            .count()
    };
    of_stage(trains, "burst").map(of).sum()
}

fn found(trains: &[Train], size: u32, headers: u32) -> Option<Found> {
    let trials = trials(trains, size);
    if trials.is_empty() {
        return None;
    }
    let s = standing(&trials);
    let packet = f64::from(size + headers);
    // What came out of the longest burst was spaced by the line.
    let longest = trials
        .iter()
        .max_by_key(|t| t.train.sent() - t.train.lost())?;
    let rate = received_rate(longest.train, 0.0).map_or(0.0, |r| r * packet / f64::from(size));
    let mut all: Vec<f64> = trials
        .iter()
        .filter(|t| Some(t.count) >= s.loses.map(|n| n.min(s.passes + 1)))
        .filter_map(|t| places(t, rate))
        .collect();
    all.sort_by(f64::total_cmp);
    let middle = stats::quantile_of_sorted(&all, 0.5);
    Some(Found {
        size,
        packet,
        passes: s.passes,
        loses: s.loses,
        places: middle.map(|m| (m, all[0].min(m), all[all.len() - 1].max(m))),
        trials: trials.len(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Packets,
    Bytes,
    CannotTell,
}

/// True places of every size, equal in packets or in bytes up to one packet of the largest size. A size of which no
/// longer burst was tried has at least as many places as passed.
pub(super) fn counted(all: &[Found]) -> Counted {
    let known: Vec<(f64, f64)> = all
        .iter()
        .filter_map(|f| Some((f.places?.0, f.packet)))
        .collect();
    if known.len() < 2 {
        return Counted::CannotTell;
    }
    let open = || all.iter().filter(|f| f.places.is_none());
    let spread = |values: Vec<f64>| {
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (least, most)
    };
    let (fewest, most) = spread(known.iter().map(|(n, _)| *n).collect());
    // The packet in transmission is no part of the queue.
    let (least_bytes, most_bytes) = spread(known.iter().map(|(n, p)| (n - 1.0) * p).collect());
    let largest = known.iter().map(|k| k.1).fold(0.0, f64::max);
    let (more, more_bytes) = (
        2.0_f64.max(0.05 * most),
        (1.5 * largest).max(0.05 * most_bytes),
    );
    let packets = most - fewest <= more && open().all(|f| f.passes as f64 <= most + more);
    let bytes = most_bytes - least_bytes <= more_bytes
        && open().all(|f| f.passes as f64 * f.packet <= most_bytes + more_bytes);
    match (packets, bytes) {
        (true, false) => Counted::Packets,
        (false, true) => Counted::Bytes,
        _ => Counted::CannotTell,
    }
}

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let sizes = sizes(params);
    let all: Vec<Found> = sizes
        .iter()
        .filter_map(|size| found(trains, *size, headers))
        .collect();
    let Some(first) = all.first() else {
        let lost = of_stage(trains, SCOUT).any(|t| t.lost() == t.sent());
        return Outcome::cannot_tell(if lost {
            "not one datagram of the first train arrived"
        } else {
            "the run ended before a burst was sent"
        });
    };
    let Some((places, low, high)) = first.places else {
        return nothing_lost(first);
    };
    let kind = counted(&all);
    let two = two_senders(trains, first);
    let tail = of_stage(trains, "tail").next().map(|t| tail(t, places));
    let what = what(kind, first, places, all.len());
    let mut outcome = Outcome {
        says: format!(
            "A burst of {} datagrams of {} bytes passes {} without loss into an empty queue, and one more is lost; {what}.",
            first.passes, first.size, params.direction,
        ),
        figures: figures(first, (places, low, high), kind),
        tables: vec![table(&all)],
        plots: vec![plot(trains, &sizes)],
        evidence: tail.into_iter().chain(two.evidence).collect(),
        ..Outcome::default()
    };
    let alone = lost_alone(trains);
    if alone > 0 {
        outcome.evidence.push(format!(
            "{alone} datagrams were lost although those behind them arrived: by the link, not by a full queue"
        ));
    }
    if let Some(each) = two.each {
        outcome.figures.push(Figured::count(
            "two_senders_packets",
            "each of two senders at once",
            Figure::exactly(each as f64),
        ));
        outcome.advice.push(format!(
            "Where two senders share this link, neither should send more than {each} datagrams at once."
        ));
    }
    if let Some(long) = all.iter().find(|f| f.trials >= MOST_TRIALS) {
        outcome.doubts.push(format!(
            "with {} bytes no length both passed and lost reliably: something else than a full queue loses datagrams",
            long.size
        ));
    }
    outcome
}

/// Outcome if no burst lost a datagram.
fn nothing_lost(first: &Found) -> Outcome {
    let mut outcome = Outcome::cannot_tell(format!(
        "bursts of up to {} datagrams passed without loss, and longer ones were not tried",
        first.passes
    ));
    outcome.figures.push(Figured::count(
        "burst_packets",
        "largest burst without loss",
        Figure::Is {
            value: first.passes as f64,
            low: first.passes as f64,
            high: f64::INFINITY.min(1e9),
        },
    ));
    outcome
}

/// Clause on the unit in which the queue counts.
fn what(kind: Counted, first: &Found, places: f64, sizes: usize) -> String {
    match kind {
        Counted::Packets => "its queue counts packets".to_owned(),
        Counted::Bytes => format!(
            "its queue counts bytes ({} kB)",
            significant((places - 1.0) * first.packet / 1e3, 3)
        ),
        Counted::CannotTell if sizes < 2 => {
            "one size alone does not tell what its queue counts".into()
        }
        Counted::CannotTell => "its queue counts neither packets nor bytes alone".into(),
    }
}

/// Largest burst, room, size of the queue, and what it counts.
fn figures(first: &Found, (places, low, high): (f64, f64, f64), kind: Counted) -> Vec<Figured> {
    let place = |v: f64| Figure::Is {
        value: v,
        low: v.min(low),
        high: v.max(high),
    };
    let queue = Figure::Is {
        value: places - 1.0,
        low: low - 1.0,
        high: high - 1.0,
    };
    vec![
        Figured::count(
            "burst_packets",
            "largest burst without loss",
            Figure::exactly(first.passes as f64),
        ),
        Figured::count(
            "places_packets",
            "room for at once, the one in transmission included",
            place(places),
        ),
        Figured::count(
            "queue_packets",
            "queue, in packets of the largest size",
            queue.clone(),
        ),
        Figured::size(
            "queue_bytes",
            "queue, in bytes of such packets",
            queue.map(|n| n * first.packet),
        ),
        Figured::count(
            "counts_packets",
            "1 where the queue counts packets, 0 where bytes",
            match kind {
                Counted::Packets => Figure::exactly(1.0),
                Counted::Bytes => Figure::exactly(0.0),
                Counted::CannotTell => {
                    Figure::cannot_tell("the sizes agree in neither, or only one was tried")
                }
            },
        ),
    ]
}

struct Two {
    each: Option<u64>,
    evidence: Vec<String>,
}

fn two_senders(trains: &[Train], first: &Found) -> Two {
    let lost = |stage: &str| {
        let both: Vec<&Train> = of_stage(trains, stage).collect();
        (both.len() == 2).then(|| {
            let each = both[0].facts.program.count();
            (each, both.iter().map(|t| t.lost()).sum::<u64>())
        })
    };
    let (half, more) = (lost("two"), lost("two-more"));
    let told = |(each, lost): (u64, u64)| {
        format!(
            "two senders of {each} datagrams of {} bytes each, at once: {lost} lost",
            first.size
        )
    };
    Two {
        each: half.filter(|h| h.1 == 0).map(|h| h.0),
        evidence: half.into_iter().chain(more).map(told).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SIZES;
    use super::*;

    fn one(size: u32, places: f64) -> Found {
        Found {
            size,
            packet: f64::from(size + 28),
            passes: places as u64,
            loses: Some(places as u64 + 1),
            places: Some((places, places, places)),
            trials: 5,
        }
    }

    #[test]
    fn packets_are_told_from_bytes_and_neither_is_not_guessed() {
        let packets: Vec<Found> = SIZES.iter().map(|s| one(*s, 51.0)).collect();
        assert!(counted(&packets) == Counted::Packets);
        let bytes = |limit: f64| -> Vec<Found> {
            let n = |s: u32| (limit / f64::from(s + 28)).floor() + 1.0;
            SIZES.iter().map(|s| one(*s, n(*s))).collect()
        };
        for limit in [15e3, 60e3, 1e6] {
            assert!(counted(&bytes(limit)) == Counted::Bytes, "{limit}");
        }
        // Ten packets, or two thousand bytes, whichever is less: something else.
        let both: Vec<Found> = [(1452, 2.0), (1000, 2.0), (500, 4.0), (50, 10.0)]
            .map(|(s, n)| one(s, n))
            .into();
        assert!(counted(&both) == Counted::CannotTell || counted(&both) == Counted::Bytes);
        assert!(counted(&both[..1]) == Counted::CannotTell);
    }
}
