//! Largest burst without loss, and the unit of the queue behind it: packets or bytes.
//!
//! **Method.** Bursts of one size without spacing go into an empty queue, twice as long each time until a datagram is
//! lost. The position of the first loss narrows the search; the burst that passes and the one longer by a datagram that
//! does not are then repeated. Four sizes follow each other: equal numbers of packets show a queue of packets, equal
//! bytes a queue of bytes. The link already drains the queue while a burst arrives: datagrams that fit into the time
//! that the burst took to leave are subtracted, so that a slow host does not make the queue longer. A burst of twice
//! the length shows if all datagrams after the last place are lost (drop-tail), and two senders of half of it each if
//! the queue is shared.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, chapter 5 (50, 500, 1000
//! and 1452 bytes, 5 s apart; two senders of 25).
//!
//! **Deviations.** The document lengthens the burst by one each time, from 1 to 100. It counts the packet in
//! transmission as a place of the queue, and so does `burst_packets`; `queue_packets` does not.
//!
//! **Units.** Sizes are UDP payload; queues are counted in whole IP packets.

mod answer;
mod steps;
mod text;

use super::spec::{How, Spec};
use super::trains::of_stage;
use base::program::{Fate, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::{Bytes, Duration};
use std::collections::BTreeMap;

const PENG: &str = "Gao 2012, chapter 5";

/// Sizes of the source.
const SIZES: [u32; 4] = [1452, 1000, 500, 50];

/// Number of trials after which an open question stays open.
const MOST_TRIALS: usize = 40;

/// Datagrams behind a loss that show whether the queue was full; the link may have lost one of them at most.
const BEHIND: usize = 4;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "burst": "What is the largest burst that this link takes without loss, and does its queue count packets or bytes?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// direction of the bursts
        direction: Direction = "up", PENG;
        /// payload of each datagram; by default 1452, 1000, 500 and 50 bytes in turn
        size: Option<Bytes> ["20 B".."65507 B"], PENG;
        /// longest burst
        most: u64 as Packets = "1024" ["8".."16384"];
        /// repetitions of the last burst that passes, and of the first that does not
        repeats: usize = "3" ["1".."100"];
        /// silence between bursts, once the queue is empty; the source waits 5 s
        rest: Duration = "500 ms" ["0 s".."60 s"], PENG;
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about a minute and a few hundred datagrams of each size",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Burst with its length and its first loss.
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

/// State of the search for one size: the longest burst that passes, the shortest above it that does not.
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

fn sizes(params: &Params) -> Vec<u32> {
    match params.size {
        Some(size) => vec![size.get() as u32],
        None => SIZES.to_vec(),
    }
}

/// Number of places when the first datagram was lost: those before it, less those that had left by then.
fn places(trial: &Trial, rate_bps: f64) -> Option<f64> {
    let lost = trial.first_lost?;
    let fates = &trial.train.fates;
    let took = (fates[lost].sent_ns? - fates.first()?.sent_ns?) as f64 * 1e-9;
    let size = f64::from(trial.train.facts.program.largest_payload() + trial.train.facts.headers);
    Some(lost as f64 - (took * rate_bps / (size * 8.0)).floor())
}

/// Result for one size.
struct Found {
    size: u32,
    packet: f64,
    passes: u64,
    loses: Option<u64>,
    /// Places including the packet in transmission, less the datagrams that left meanwhile.
    places: Option<(f64, f64, f64)>,
    trials: usize,
}
