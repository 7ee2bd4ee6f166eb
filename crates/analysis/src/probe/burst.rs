//! The largest burst without loss, and whether the queue behind it counts packets or bytes.
//!
//! **Method.** Bursts of one size without spacing into an empty queue, twice as long each time until something is lost.
//! Where the first loss lies tells where to look; the burst that passes and the one longer by a datagram that does not are
//! then repeated. Each of four sizes in turn: as many packets of every size are a queue of packets, as many bytes one of
//! bytes. While a burst arrives the line already takes some of it away: as many as fit into the time that the burst
//! took to leave are taken off, so that a slow host does not make the queue longer. A burst of twice the length says
//! whether all after the last place are lost (drop-tail), and two senders of half of it each whether the queue is shared.
//!
//! **Source.** G. Peng, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, chapter 5 (50, 500, 1000
//! and 1452 bytes, 5 s apart; two senders of 25).
//!
//! **Deviations.** The document lengthens the burst by one each time, from 1 to 100. It counts the packet in
//! transmission as a place of the queue, and so does `burst_packets`; `queue_packets` does not.
//!
//! **Units.** Sizes are UDP payload; queues are counted in whole IP packets.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::{self, SCOUT, of_stage, received_rate};
use base::program::{Fate, Program, Sending, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use base::{Bytes, Duration};
use stats::Figure;
use std::collections::BTreeMap;

const PENG: &str = "Peng 2012, chapter 5";
/// The document's sizes.
const SIZES: [u32; 4] = [1452, 1000, 500, 50];
/// What is not settled by then is not settled.
const MOST_TRIALS: usize = 40;
const FIRST: u64 = 8;
/// Datagrams behind a loss that tell whether the queue was full; one of them at most may be lost by the link too.
const BEHIND: usize = 4;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "burst": "What is the largest burst that this line takes without loss, and does its queue count packets or bytes?", ["G. Peng, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// which way to send
        direction: Direction = "up", PENG;
        /// payload of each datagram; 1452, 1000, 500 and 50 bytes in turn
        size: Option<Bytes> ["20 B".."65507 B"], PENG;
        /// longest burst that is tried
        most: u64 as Packets = "1024" ["8".."16384"];
        /// how often the last burst that passes, and the first that does not, are tried
        repeats: usize = "3" ["1".."100"];
        /// silence between bursts, once the queue is empty; the document waits 5 s
        rest: Duration = "500 ms" ["0 s".."60 s"], PENG;
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about a minute and a few hundred datagrams of each size",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// One burst: how many, and what was lost first.
struct Trial<'a> {
    count: u64,
    train: &'a Train,
    first_lost: Option<usize>,
}

fn trials(trains: &[Train], size: u32) -> Vec<Trial<'_>> {
    of_stage(trains, "burst")
        .filter(|t| t.facts.program.largest_payload() == size)
        .map(|train| Trial {
            count: train.facts.program.count(),
            train,
            first_lost: (0..train.fates.len())
                .find(|i| lost(&train.fates[*i]) && !alone(&train.fates[*i + 1..])),
        })
        .collect()
}

fn lost(fate: &Fate) -> bool {
    fate.sent_ns.is_some() && fate.received_ns.is_none()
}

/// True if a loss is the link's own: a full queue has no room for nearly all of the next datagrams of a burst either.
fn alone(next: &[Fate]) -> bool {
    let next = &next[..next.len().min(BEHIND)];
    next.len() > 1 && next.iter().filter(|f| lost(f)).count() * BEHIND <= next.len()
}

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

/// Where the bursts of one size stand: the longest that passes, the shortest above it that does not.
struct Standing {
    passes: u64,
    loses: Option<u64>,
    tried_passing: usize,
    tried_losing: usize,
}

fn standing(trials: &[Trial]) -> Standing {
    let mut by_count: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for t in trials {
        let (all, clean) = by_count.entry(t.count).or_default();
        *all += 1;
        *clean += usize::from(t.first_lost.is_none());
    }
    // What is lost for another reason than a full queue must not decide: the majority does.
    let clean = |(all, clean): (usize, usize)| 2 * clean > all;
    let passes = by_count
        .iter()
        .rev()
        .find(|(_, n)| clean(**n))
        .map_or(0, |(count, _)| *count);
    let loses = by_count
        .range(passes + 1..)
        .find(|(_, n)| !clean(**n))
        .map(|(count, _)| *count);
    let tried = |count: u64| by_count.get(&count).map_or(0, |n| n.0);
    Standing {
        passes,
        loses,
        tried_passing: tried(passes),
        tried_losing: loses.map_or(0, tried),
    }
}

/// The length of the next burst of one size; none when it is settled.
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

fn sizes(params: &Params) -> Vec<u32> {
    match params.size {
        Some(size) => vec![size.get() as u32],
        None => SIZES.to_vec(),
    }
}

fn sending(params: &Params, stage: String, programs: Vec<Program>) -> Sending {
    Sending {
        stage,
        direction: params.direction,
        programs,
        rest: params.rest,
    }
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
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

/// How many places there were when the first was lost: those before it, less those that had left by then.
fn places(trial: &Trial, rate_bps: f64) -> Option<f64> {
    let lost = trial.first_lost?;
    let fates = &trial.train.fates;
    let took = (fates[lost].sent_ns? - fates.first()?.sent_ns?) as f64 * 1e-9;
    let size = f64::from(trial.train.facts.program.largest_payload() + trial.train.facts.headers);
    Some(lost as f64 - (took * rate_bps / (size * 8.0)).floor())
}

/// What was found for one size.
struct Found {
    size: u32,
    packet: f64,
    passes: u64,
    loses: Option<u64>,
    /// Places including the one in transmission, what left meanwhile taken off.
    places: Option<(f64, f64, f64)>,
    trials: usize,
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
enum Counted {
    Packets,
    Bytes,
    CannotTell,
}

/// The places of every size are equal in packets or in bytes, up to one packet of the largest size. A size of which no
/// longer burst was tried has as many places at least as passed.
fn counted(all: &[Found]) -> Counted {
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

fn answer(params: &Params, trains: &[Train]) -> Outcome {
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
        let mut outcome = Outcome::cannot_tell(format!(
            "bursts of up to {} datagrams passed without loss, and longer ones were not tried",
            first.passes
        ));
        outcome.figures.push(Figured::new(
            "burst_packets",
            "largest burst without loss",
            Quantity::Count,
            Figure::Is {
                value: first.passes as f64,
                low: first.passes as f64,
                high: f64::INFINITY.min(1e9),
            },
        ));
        return outcome;
    };
    let kind = counted(&all);
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
    let two = two_senders(trains, first);
    let tail = of_stage(trains, "tail").next().map(|t| tail(t, places));
    let what = match kind {
        Counted::Packets => "its queue counts packets".to_owned(),
        Counted::Bytes => format!(
            "its queue counts bytes ({} kB)",
            significant((places - 1.0) * first.packet / 1e3, 3)
        ),
        Counted::CannotTell if all.len() < 2 => {
            "one size alone does not tell what its queue counts".into()
        }
        Counted::CannotTell => "its queue counts neither packets nor bytes alone".into(),
    };
    let mut outcome = Outcome {
        says: format!(
            "A burst of {} datagrams of {} bytes passes {} without loss into an empty queue, and one more is lost; {what}.",
            first.passes, first.size, params.direction,
        ),
        figures: vec![
            Figured::new(
                "burst_packets",
                "largest burst without loss",
                Quantity::Count,
                Figure::exactly(first.passes as f64),
            ),
            Figured::new(
                "places_packets",
                "room for at once, the one in transmission included",
                Quantity::Count,
                place(places),
            ),
            Figured::new(
                "queue_packets",
                "queue, in packets of the largest size",
                Quantity::Count,
                queue.clone(),
            ),
            Figured::new(
                "queue_bytes",
                "queue, in bytes of such packets",
                Quantity::Size,
                queue.map(|n| n * first.packet),
            ),
            Figured::new(
                "counts_packets",
                "1 where the queue counts packets, 0 where bytes",
                Quantity::Count,
                match kind {
                    Counted::Packets => Figure::exactly(1.0),
                    Counted::Bytes => Figure::exactly(0.0),
                    Counted::CannotTell => {
                        Figure::cannot_tell("the sizes agree in neither, or only one was tried")
                    }
                },
            ),
        ],
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
        outcome.figures.push(Figured::new(
            "two_senders_packets",
            "each of two senders at once",
            Quantity::Count,
            Figure::exactly(each as f64),
        ));
        outcome.advice.push(format!(
            "Where two senders share this line, neither should send more than {each} datagrams at once."
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

/// Whether the queue drops what comes last, told by a burst of twice its length.
fn tail(train: &Train, places: f64) -> String {
    let arrived: Vec<usize> = train
        .fates
        .iter()
        .enumerate()
        .filter(|(_, f)| f.received_ns.is_some())
        .map(|(i, _)| i)
        .collect();
    let before = arrived.iter().filter(|i| (**i as f64) < places).count();
    let after = arrived.len() - before;
    let first = (places as usize).min(train.fates.len());
    let kind = if before == first && after * 10 <= train.fates.len() - first {
        "drop-tail"
    } else {
        "not drop-tail"
    };
    format!(
        "of a burst of {}, {before} of the first {first} arrived and {after} of the rest: {kind}",
        train.fates.len(),
    )
}

fn table(all: &[Found]) -> Table {
    Table {
        title: "Sizes".into(),
        columns: [
            "payload, bytes",
            "passes",
            "loses",
            "places",
            "places in kB",
            "bursts sent",
        ]
        .map(String::from)
        .into(),
        rows: all
            .iter()
            .map(|f| {
                let places = f.places.map(|p| p.0);
                vec![
                    f.size.to_string(),
                    f.passes.to_string(),
                    f.loses.map_or("-".into(), |n| n.to_string()),
                    places.map_or("-".into(), |p| format!("{p}")),
                    places.map_or("-".into(), |p| significant(p * f.packet / 1e3, 3)),
                    f.trials.to_string(),
                ]
            })
            .collect(),
    }
}

fn plot(trains: &[Train], sizes: &[u32]) -> Plot {
    Plot {
        title: "Loss against length of the burst".into(),
        x: "datagrams in the burst".into(),
        y: "lost".into(),
        series: sizes
            .iter()
            .map(|size| {
                let mut points: Vec<(f64, Option<f64>)> = trials(trains, *size)
                    .iter()
                    .map(|t| (t.count as f64, Some(t.train.lost() as f64)))
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series {
                    name: format!("{size} bytes"),
                    draw: Draw::Knots,
                    points,
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
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
