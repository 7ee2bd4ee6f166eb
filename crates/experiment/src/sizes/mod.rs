//! Sizes of datagrams: the one with the best goodput, and those from which datagrams are fragmented.
//!
//! **Method.** The largest datagram that passes whole is found with fragmentation forbidden (path MTU). Then sizes are
//! sent one after the other at one payload rate, half as much again as the link carries. Whole arrivals are counted
//! over the second half of each, when the queue is full. Both hosts count fragments on their interfaces, if permitted:
//! that shows to the byte from which size on a datagram takes one fragment more. Both sides of each such edge are among
//! the sizes. At one size just above the first edge the rate is varied, and the throughput set beside B²/b, which it
//! would have if each fragment were lost independently with the probability (b − B)/b.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, chapter 3 (sizes from 50
//! bytes in steps of 10, 3 Mbit/s over a line of 1.97; 1470 bytes for B²/b). RFC 8899, Packetization Layer Path MTU
//! Discovery for Datagram Transports, for probing with whole packets.
//!
//! A queue that fills while fragmented datagrams are counted hides the effect of a full one on them. It is therefore
//! filled first, with datagrams that need no fragmentation.
//!
//! **Deviations.** A coarse grid and the edges in place of every tenth size; `step` sends them all. Gaps vary by a
//! third: strict periods of sender and link lock into each other.
//!
//! **Units.** Sizes are UDP payload, rates of payload.

mod answer;
mod steps;
mod text;

use super::spec::{How, Spec};
use super::trains::of_stage;
use base::program::{Due, Fate, Fragments, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::{BitsPerSec, Bytes, Duration};

const PENG: &str = "Gao 2012, section 3.4";

/// Payload that every link takes whole, for the measurement of the link's rate.
const PLAIN: u32 = 1200;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "sizes": "Which datagram size gives the best goodput, and from what size are datagrams fragmented?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",
            "RFC 8899, Packetization Layer Path MTU Discovery for Datagram Transports",] {
        /// direction of the datagrams
        direction: Direction = "up", PENG;
        /// send every size from 50 bytes on in such steps (the source: 10 bytes) instead of searching
        step: Option<Bytes> ["1 B".."500 B"], PENG;
        /// largest payload
        to: Bytes = "3000 B" ["100 B".."60000 B"], PENG;
        /// payload rate of every size; by default half as much again as the link carries
        rate: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"], PENG;
        /// time for which each size is sent
        hold: Duration = "2 s" ["200 ms".."60 s"], PENG;
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "four to five minutes, half of it waiting; 20 MB over 2 Mbit/s",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// True if a train of unfragmented probes shows that this size passes whole.
fn passes_whole(train: &Train) -> bool {
    train.fates.iter().any(|f| f.received_ns.is_some())
}

/// Largest payload that passes whole, or the next one to try.
fn whole(trains: &[Train], to: u32) -> Result<u32, u32> {
    let tried: Vec<(u32, bool)> = of_stage(trains, "mtu")
        .map(|t| (t.facts.program.largest_payload(), passes_whole(t)))
        .collect();
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let best = tried.iter().filter(|t| t.1).map(|t| t.0).max();
    let worst = tried.iter().filter(|t| !t.1).map(|t| t.0).min();
    let usual = 1500 - headers;
    match (best, worst) {
        (None, None) => Err(usual),
        (Some(b), None) if b >= to.max(usual + 1) => Ok(b),
        (Some(b), None) => Err(if b == usual {
            usual + 1
        } else {
            to.max(usual + 1)
        }),
        (Some(b), Some(w)) if w <= b + 1 => Ok(b),
        (Some(b), Some(w)) => Err(b.midpoint(w)),
        (None, Some(w)) if w <= 21 => Ok(0),
        (None, Some(w)) => Err(20.max(w / 2)),
    }
}

/// Result of one size: payload rate at which whole datagrams arrived in the second half of the sending time, bit/s.
#[derive(Clone, Copy)]
struct Held {
    size: u32,
    bps: f64,
}

/// Datagrams at the rate in question, behind those that filled the queue.
fn counted(train: &Train) -> impl Iterator<Item = (Due, Fate)> + '_ {
    let last = train.facts.program.steps().len() - 1;
    train.datagrams().filter(move |(due, _)| due.step == last)
}

fn throughput(train: &Train) -> Option<Held> {
    let sent: Vec<i64> = counted(train).filter_map(|(_, f)| f.sent_ns).collect();
    let time = sent.last()? - sent.first()?;
    let mut all: Vec<i64> = counted(train).filter_map(|(_, f)| f.received_ns).collect();
    all.sort_unstable();
    let size = train.facts.program.largest_payload();
    let first = all.first().copied().unwrap_or(0);
    let late = |at: &&i64| (first + time / 2..=first + time).contains(*at);
    let arrived = all.iter().filter(late).count() as f64;
    (time > 0).then_some(Held {
        size,
        bps: arrived * f64::from(size) * 16e9 / time as f64,
    })
}

fn arrived(train: &Train) -> u64 {
    counted(train)
        .filter(|(_, f)| f.received_ns.is_some())
        .count() as u64
}

/// Results of the sizes, ascending.
fn held(trains: &[Train]) -> Vec<Held> {
    let mut all: Vec<Held> = of_stage(trains, "size").filter_map(throughput).collect();
    all.sort_by_key(|h| h.size);
    all
}

/// Most fragments of a datagram: none but the last is shorter than eight bytes (RFC 791 section 3.2).
const MOST_PIECES: f64 = 8192.0;

/// Number of fragments of a train's datagrams, as a host counted them: the receiver if it may, since routers on the
/// path may fragment too. A count that no datagram can have is none: the far end counts for itself.
fn pieces_seen(train: &Train) -> Option<u32> {
    let seen = |f: Fragments| match (f.whole, f.first) {
        (0, 0) => None,
        (_, 0) => Some(1),
        (_, first) => {
            let pieces = 1.0 + (f.second + f.further) as f64 / first as f64;
            (pieces <= MOST_PIECES).then(|| pieces.round() as u32)
        }
    };
    let received = train.facts.fragments_received.and_then(seen);
    received.or_else(|| train.facts.fragments_sent.and_then(seen))
}

/// Size at which one fragment more is needed.
#[derive(Clone, Copy, PartialEq)]
struct Edge {
    /// Largest payload of the smaller number of fragments.
    below: u32,
    /// True if fragments were counted on either side of it; otherwise the edge follows from the rules.
    seen: bool,
}

/// Edges of one and of two fragments; or the next payload to send three of.
fn edges(trains: &[Train], longest: u32, to: u32) -> Result<Vec<Edge>, u32> {
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let cuts: Vec<(u32, Option<u32>)> = of_stage(trains, "cut")
        .map(|t| (t.facts.program.largest_payload(), pieces_seen(t)))
        .collect();
    let mut edges = Vec::new();
    for count in 1..=2 {
        let rule = last_of(count, longest, headers);
        if rule >= to {
            break;
        }
        let (mut low, mut high) = (longest.min(rule), to);
        let mut seen = true;
        for (payload, pieces) in &cuts {
            match pieces {
                Some(n) if *n <= count => low = low.max(*payload),
                Some(_) => high = high.min(*payload),
                None => seen = false,
            }
        }
        if !seen {
            edges.push(Edge { below: rule, seen });
            continue;
        }
        if low + 1 < high {
            // Where the rules put it, and beside that; by halves where it is not there.
            let tried = |p: u32| cuts.iter().any(|c| c.0 == p);
            let first = [rule, rule + 1]
                .into_iter()
                .find(|p| !tried(*p) && *p > low && *p < high);
            return Err(first.unwrap_or(low.midpoint(high)));
        }
        let known = cuts.iter().any(|c| c.0 == high);
        if !known {
            return Err(high);
        }
        edges.push(Edge { below: low, seen });
    }
    Ok(edges)
}

/// Largest payload in this number of fragments. All fragments but the last hold a multiple of 8 bytes by the rules of
/// the two protocols; Linux keeps the last one to that too in IPv6, and not in IPv4.
fn last_of(count: u32, longest: u32, headers: u32) -> u32 {
    if count == 1 {
        return longest;
    }
    let v6 = headers > 28;
    // IPv6 has an extension header of 8 bytes in each.
    let room = if v6 { longest } else { longest + 8 };
    let each = room / 8 * 8;
    (count - 1) * each + if v6 { each } else { room } - 8
}

/// Fragments of a datagram over a path of this MTU, by the rules of the two protocols.
fn pieces(payload: u32, longest: u32, headers: u32) -> u32 {
    if payload <= longest || longest == 0 {
        return 1;
    }
    // IPv6 has 8 bytes more in each; all but the last hold a multiple of 8 bytes.
    let each = if headers > 28 {
        longest + 8 - 8
    } else {
        longest + 8
    } / 8
        * 8;
    (payload + 8).div_ceil(each.max(8))
}

/// Bytes of IP packets that carry a datagram.
fn on_the_line(payload: u32, longest: u32, headers: u32) -> u32 {
    let more = pieces(payload, longest, headers);
    let ip = headers - 8;
    let extension = if headers > 28 && more > 1 { 8 } else { 0 };
    payload + 8 + more * (ip + extension)
}

/// Fragments of all trains at the size just above the first edge that met a full queue.
fn fragments(trains: &[Train]) -> (Option<Fragments>, Option<Fragments>) {
    let full = of_stage(trains, "rate").filter(|t| t.facts.program.steps().len() > 1);
    let some = full.clone().next().is_some();
    let sum = |of: fn(&Train) -> Option<Fragments>| {
        let mut all = full.clone().map(of);
        let sum = all.try_fold(Fragments::default(), |sum, f| {
            let f = f?;
            Some(Fragments {
                whole: sum.whole + f.whole,
                first: sum.first + f.first,
                second: sum.second + f.second,
                further: sum.further + f.further,
            })
        });
        sum.filter(|_| some)
    };
    (
        sum(|t| t.facts.fragments_sent),
        sum(|t| t.facts.fragments_received),
    )
}

/// Rate asked for, B²/b, and what arrived; Mbit/s.
fn rates(trains: &[Train], line: f64, longest: u32, headers: u32) -> Vec<(f64, f64, f64)> {
    let mut all: Vec<(f64, f64, f64)> = of_stage(trains, "rate")
        .filter_map(|t| {
            let size = t.facts.program.largest_payload();
            let most = line * f64::from(size) / f64::from(on_the_line(size, longest, headers));
            let b: f64 = t.facts.stage.split(' ').nth(2)?.parse().ok()?;
            let theory = if b > most { most * most / b } else { b };
            Some((b / 1e6, theory / 1e6, throughput(t)?.bps / 1e6))
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Goodput of a size if only headers cost anything.
fn only_headers(size: u32, line: f64, longest: u32, headers: u32) -> f64 {
    line * f64::from(size) / f64::from(on_the_line(size, longest, headers)) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_counted_as_the_two_protocols_cut() {
        // IPv6, 1500 bytes: 1452 whole, 1448 bytes of UDP in each fragment.
        let v6: Vec<u32> = [1452, 1453, 2888, 2889].map(|p| pieces(p, 1452, 48)).into();
        assert_eq!(v6, [1, 2, 2, 3]);
        // IPv4: 1480 bytes in each.
        let v4: Vec<u32> = [1472, 1473, 2952, 2953].map(|p| pieces(p, 1472, 28)).into();
        assert_eq!(v4, [1, 2, 2, 3]);
        assert_eq!([last_of(2, 1452, 48), last_of(2, 1472, 28)], [2888, 2952]);
        // Gao 2012, section 3.3: 1470 bytes are 1496 + 78.
        assert_eq!(on_the_line(1470, 1452, 48), 1574);
    }
}
