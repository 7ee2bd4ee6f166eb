//! Steps: the next sending, given all trains so far.

use super::{Edge, PLAIN, Params, arrived, counted, edges, held, pieces, whole};
use crate::sweep;
use crate::trains::{of_stage, one, seconds, waits};
use base::program::{Marking, Program, Sending, Shot, Step, Train};
use base::{BitsPerSec, Duration};

/// Ratio of the sent rate to the link's: 3 Mbit/s over 1.97 in the source.
const OVERLOAD: f64 = 1.523;

/// Bytes above the first edge: those of the 1470 bytes of the source.
const ABOVE_EDGE: u32 = 18;

/// Least number of datagrams, so that a third less is no chance; within a time limit.
const ENOUGH: f64 = 700.0;

const LONGEST_S: f64 = 12.0;

/// Number of datagrams of a size that is fragmented.
const CUT: f64 = 240.0;

/// Fragments that a receiving host has room for until their datagrams are whole: 4 MB (Linux, ip6frag_high_thresh and
/// ipfrag_high_thresh), of which a packet of 1500 bytes takes up to 4352. Once that is full, no fragmented datagram
/// arrives any more.
const ROOM: u64 = 900;

/// Time for which the host keeps them: RFC 8200 section 4.5; Linux has 30 s for IPv4 (ipfrag_time).
const KEPT_V6_S: u64 = 60;

const KEPT_V4_S: u64 = 30;

const FACTORS: [f64; 8] = [0.9, 0.97, 1.05, 1.15, 1.25, 1.35, 1.45, 1.55];

/// Sizes without a step.
const GRID: [u32; 16] = [
    50, 100, 200, 350, 500, 700, 900, 1100, 1300, 1400, 1500, 1700, 2100, 2500, 2850, 2950,
];

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let way = params.direction;
    let plateau = match sweep::overload(way, PLAIN, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        Ok(_) => return None,
        Err(sending) => return sending,
    };
    let to = params.to.get() as u32;
    let rest = Duration::from_millis(500);
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let longest = match whole(trains, to) {
        Ok(longest) => longest,
        Err(payload) => {
            // Three, so that one lost by chance does not count.
            let step = Step::burst(3, payload).marked(Marking {
                whole: true,
                ..Marking::NONE
            });
            return Some(one("mtu", way, Duration::ZERO, step));
        }
    };
    let target = params.rate.map_or(OVERLOAD * plateau, |r| r.get() as f64);
    let hold = |stage: &str, payload: u32, rate: f64| {
        let lasts = |count: f64| seconds((f64::from(payload) * 8.0 * count / rate).min(LONGEST_S));
        let time = if payload > longest {
            lasts(CUT)
        } else {
            params.hold.max(lasts(ENOUGH))
        };
        let step = restless(payload, rate, time);
        let lacking = step.count() * u64::from(pieces(payload, longest, headers) - 1);
        let fill = (lacking > 0 && rate > plateau).then(|| filling(trains, longest, plateau));
        let steps = fill.into_iter().chain([step]).collect();
        Some(Sending {
            stage: format!("{stage} {payload} {}", rate as u64),
            direction: way,
            programs: vec![Program::within(steps)],
            rest: rest.max(until_room(trains, lacking, longest)),
        })
    };
    let edges = match edges(trains, longest, to) {
        Ok(edges) => edges,
        Err(payload) => {
            return Some(one(
                format!("cut {payload}"),
                way,
                Duration::ZERO,
                Step::burst(3, payload),
            ));
        }
    };
    let held = held(trains);
    let sizes = grid(params, to, &edges);
    if let Some(size) = sizes.iter().find(|s| !held.iter().any(|h| h.size == **s)) {
        return hold("size", *size, target);
    }
    let size = first_cut(&edges, to)?;
    let tried = of_stage(trains, "rate").count();
    let factor = FACTORS.get(tried)?;
    hold("rate", size, factor * plateau)
}

/// Fragments of a train that the receiving host keeps because their datagrams lack another one.
fn kept(train: &Train, longest: u32) -> u64 {
    let each = pieces(
        train.facts.program.largest_payload(),
        longest,
        train.facts.headers,
    );
    match train.facts.fragments_received {
        _ if each < 2 => 0,
        Some(f) => {
            (f.first + f.second + f.further).saturating_sub(u64::from(each) * arrived(train))
        }
        None => (counted(train).count() as u64 - arrived(train)) * u64::from(each - 1),
    }
}

/// Wait until the receiving host has room for `more` further fragments.
fn until_room(trains: &[Train], more: u64, longest: u32) -> Duration {
    let last = |t: &Train| t.fates.iter().rev().find_map(|f| f.sent_ns);
    let Some(now) = trains.last().and_then(last) else {
        return Duration::ZERO;
    };
    let v6 = trains.iter().any(|t| t.facts.headers > 28);
    let stay = Duration::from_secs(if v6 { KEPT_V6_S } else { KEPT_V4_S });
    let mut room = ROOM.saturating_sub(more);
    for train in trains.iter().rev().filter(|_| more > 0) {
        match room.checked_sub(kept(train, longest)) {
            Some(left) => room = left,
            // All of this one have to be forgotten, and with it what came before.
            None => {
                let ago = now - last(train).unwrap_or(now);
                return stay.saturating_sub(Duration::from_nanos(ago.max(0) as u64));
            }
        }
    }
    Duration::ZERO
}

/// The sizes to hold, and both sides of each edge.
fn grid(params: &Params, to: u32, edges: &[Edge]) -> Vec<u32> {
    let mut sizes: Vec<u32> = match params.step {
        Some(step) => (50..=to).step_by(step.get() as usize).collect(),
        None => GRID.into_iter().filter(|s| *s <= to).collect(),
    };
    sizes.extend(edges.iter().flat_map(|e| [e.below, e.below + 1]));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Datagrams with gaps that vary by a third, longer and shorter in turn. Strict periods of sender and link lock into
/// each other, and then the phase decides which sizes do well. Real senders are not that exact.
fn restless(payload: u32, rate: f64, time: Duration) -> Step {
    /// Shares of a gap; their sum is their number.
    const TURNS: [f64; 11] = [
        1.0, 0.71, 1.23, 0.84, 1.32, 0.67, 1.11, 0.9, 1.29, 0.76, 1.17,
    ];
    let gap = f64::from(payload) * 8.0 / rate;
    let mean = TURNS.iter().sum::<f64>() / TURNS.len() as f64;
    let shots = TURNS.map(|turn| Shot {
        payload,
        gap: Duration::from_secs_f64(gap * turn / mean),
    });
    let rounds = time.as_secs_f64() / (gap * TURNS.len() as f64);
    Step::new((rounds as u64).max(1), shots.into())
}

/// Unfragmented datagrams that fill the queue found by the overload, at twice the link's rate.
fn filling(trains: &[Train], longest: u32, plateau: f64) -> Step {
    let overloads = of_stage(trains, "overload");
    let deepest = overloads.flat_map(waits).map(|w| w.1).fold(0.0, f64::max);
    let time = (1.2 * deepest / 1e3).clamp(0.1, LONGEST_S);
    let rate = BitsPerSec::new((2.0 * plateau) as u64);
    Step::steady(longest.min(PLAIN), rate, seconds(time))
}

/// Size just above the first edge, as the 1470 bytes of the source.
fn first_cut(edges: &[Edge], to: u32) -> Option<u32> {
    let edge = edges.first()?.below;
    (edge + ABOVE_EDGE <= to).then_some(edge + ABOVE_EDGE)
}
