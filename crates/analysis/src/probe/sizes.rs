//! Which size of datagram gets most through, and where datagrams begin to be cut.
//!
//! **Method.** The largest datagram that passes in one piece is found with fragmentation forbidden (path MTU). Then sizes
//! are sent one after the other at one payload rate, half as much again as the line carries, and what arrives whole is
//! counted over the second half of each, when the queue is full. Both hosts count fragments on their interfaces, where
//! they are allowed to: that tells to the byte from which size on a datagram is cut into one piece more, and both
//! sides of each such edge are among the sizes. At one size just above the first edge the rate is varied, and the
//! throughput set beside B²/b, which it would have if each fragment were lost independently with the
//! probability (b − B)/b.
//!
//! **Source.** G. Peng, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, chapter 3 (sizes from 50
//! bytes in steps of 10, 3 Mbit/s over a line of 1.97; 1470 bytes for B²/b). RFC 8899, Packetization Layer Path MTU
//! Discovery for Datagram Transports, for probing with whole packets.
//!
//! A queue that fills while cut datagrams are counted hides what a full one does to them. It is therefore filled first, with
//! datagrams that need no cutting.
//!
//! **Deviations.** A coarse grid and the edges in place of every tenth size; `step` sends them all. Gaps vary by a third:
//! strict periods of sender and line lock into each other.
//!
//! **Units.** Sizes are UDP payload, rates of payload.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::sweep;
use super::trains::{of_stage, one, seconds, waits};
use base::Bytes;
use base::program::{Due, Fate, Fragments, Marking, Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use base::{BitsPerSec, Duration};
use stats::Figure;

const PENG: &str = "Peng 2012, section 3.4";
/// What the line carries is looked at with datagrams that every link takes whole.
const PLAIN: u32 = 1200;
/// The document's 3 Mbit/s over 1.97.
const OVERLOAD: f64 = 1.523;
/// The document's 1470 bytes are 18 above its first edge.
const ABOVE_EDGE: u32 = 18;
/// So many datagrams are sent at least, so that a third less is no chance; but not for longer than this.
const ENOUGH: f64 = 700.0;
const LONGEST_S: f64 = 12.0;
/// So many of a size that is cut.
const CUT: f64 = 240.0;
/// Fragments that a receiving host has room for until their datagrams are whole: 4 MB (Linux, ip6frag_high_thresh and
/// ipfrag_high_thresh), of which a packet of 1500 bytes takes up to 4352. Once that is full, nothing that is cut
/// arrives any more.
const ROOM: u64 = 900;
/// So long the host keeps them: RFC 8200 section 4.5; Linux has 30 s for IPv4 (ipfrag_time).
const KEPT_V6_S: u64 = 60;
const KEPT_V4_S: u64 = 30;
const FACTORS: [f64; 8] = [0.9, 0.97, 1.05, 1.15, 1.25, 1.35, 1.45, 1.55];
/// The grid in the absence of a step.
const GRID: [u32; 16] = [
    50, 100, 200, 350, 500, 700, 900, 1100, 1300, 1400, 1500, 1700, 2100, 2500, 2850, 2950,
];

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "sizes": "Which size of datagram gets most through this line, and from which size on are they cut?", ["G. Peng, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",
            "RFC 8899, Packetization Layer Path MTU Discovery for Datagram Transports",] {
        /// which way to send
        direction: Direction = "up", PENG;
        /// send every size from 50 bytes on in such steps (the document: 10 bytes) instead of searching
        step: Option<Bytes> ["1 B".."500 B"], PENG;
        /// largest payload
        to: Bytes = "3000 B" ["100 B".."60000 B"], PENG;
        /// payload rate of every size; half as much again as the line carries
        rate: Option<BitsPerSec> ["1 kbit/s".."10 Gbit/s"], PENG;
        /// how long each size is sent
        hold: Duration = "2 s" ["200 ms".."60 s"], PENG;
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "four to five minutes, half of it waiting; 20 MB over 2 Mbit/s",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// What a train of whole probes said: whether so much passes in one piece.
fn passes_whole(train: &Train) -> bool {
    train.fates.iter().any(|f| f.received_ns.is_some())
}

/// The largest payload that passes in one piece, or the next one to try.
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

/// One size that was held: payload rate at which whole datagrams arrived in the second half of the time in which the
/// train left, bit/s.
#[derive(Clone, Copy)]
struct Held {
    size: u32,
    bps: f64,
}

/// What was sent at the rate in question, behind what filled the queue.
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

/// Sizes that were held, ascending, with what they brought.
fn held(trains: &[Train]) -> Vec<Held> {
    let mut all: Vec<Held> = of_stage(trains, "size").filter_map(throughput).collect();
    all.sort_by_key(|h| h.size);
    all
}

/// Into how many pieces the datagrams of a train were cut, as a host saw them pass: the receiver where it may look,
/// since routers on the way may cut too.
fn pieces_seen(train: &Train) -> Option<u32> {
    let seen = |f: Fragments| match (f.whole, f.first) {
        (0, 0) => None,
        (_, 0) => Some(1),
        (_, first) => Some(1 + ((f.second + f.further) as f64 / first as f64).round() as u32),
    };
    let received = train.facts.fragments_received.and_then(seen);
    received.or_else(|| train.facts.fragments_sent.and_then(seen))
}

/// Where one piece more is needed.
#[derive(Clone, Copy, PartialEq)]
struct Edge {
    /// The last payload of so many pieces.
    below: u32,
    /// Whether fragments were seen on either side of it; what the rules say where they could not be.
    seen: bool,
}

/// The edges of one and of two pieces; or the next payload to send three of.
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

/// The last payload of so many pieces. All but the last hold a multiple of 8 bytes by the rules of the two protocols;
/// Linux keeps the last one to that too in IPv6, and not in IPv4.
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

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
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

/// How long to wait until the receiving host has room for so many more fragments.
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

/// Evenly spaced but for a third of the gap, more or less in turn: strict periods of sender and line lock into each
/// other, and then chance of phase decides which sizes do well. Real senders are not that exact.
fn restless(payload: u32, rate: f64, time: Duration) -> Step {
    /// Shares of a gap; they sum up to as many as there are.
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

/// As many datagrams in one piece as fill the queue that the overload has shown, at twice the line's rate.
fn filling(trains: &[Train], longest: u32, plateau: f64) -> Step {
    let overloads = of_stage(trains, "overload");
    let deepest = overloads.flat_map(waits).map(|w| w.1).fold(0.0, f64::max);
    let time = (1.2 * deepest / 1e3).clamp(0.1, LONGEST_S);
    let rate = BitsPerSec::new((2.0 * plateau) as u64);
    Step::steady(longest.min(PLAIN), rate, seconds(time))
}

/// A size just above the first edge: as the document's 1470 bytes.
fn first_cut(edges: &[Edge], to: u32) -> Option<u32> {
    let edge = edges.first()?.below;
    (edge + ABOVE_EDGE <= to).then_some(edge + ABOVE_EDGE)
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

fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let way = params.direction;
    let Ok(plateau) = sweep::overload(way, PLAIN, trains) else {
        return Outcome::cannot_tell("the run ended before the line's rate was seen");
    };
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let to = params.to.get() as u32;
    let held = held(trains);
    let (Ok(longest), Some(best)) = (
        whole(trains, to),
        held.iter().copied().max_by(|a, b| a.bps.total_cmp(&b.bps)),
    ) else {
        return Outcome::cannot_tell("the run ended before the sizes were sent");
    };
    let line = plateau * f64::from(PLAIN + headers) / f64::from(PLAIN);
    let Ok(edges) = edges(trains, longest, to) else {
        return Outcome::cannot_tell("the run ended before it was seen where datagrams are cut");
    };
    let edge = |i: usize| match edges.get(i) {
        Some(e) => Figure::exactly(f64::from(e.below)),
        None => Figure::cannot_tell(format!("no further edge up to {to} bytes")),
    };
    let brings = |size: u32| held.iter().find(|h| h.size == size).map(|h| h.bps);
    let falls: Vec<(u32, f64, f64)> = edges
        .iter()
        .filter_map(|e| Some((e.below, brings(e.below)?, brings(e.below + 1)?)))
        .collect();
    // Where several do as well as each other, the largest needs the fewest.
    let as_well = held
        .iter()
        .filter(|h| h.bps > 0.99 * best.bps && (h.size <= longest || best.size > longest));
    let best_size = as_well.map(|h| h.size).max().unwrap_or(best.size);
    let worst_of = |share: f64| {
        held.iter()
            .filter(|h| h.size <= best_size && h.bps >= share * best.bps)
            .map(|h| h.size)
            .min()
    };
    let from = worst_of(0.9).unwrap_or(best_size);
    let rates = rates(trains, line, longest, headers);
    let (sent, received) = fragments(trains);
    let mut outcome = Outcome {
        says: format!(
            "Datagrams of {best_size} bytes get most through, {} Mbit/s; {} bytes pass in one piece{}.",
            significant(best.bps / 1e6, 3),
            longest,
            match falls.first() {
                Some((below, before, after)) => format!(
                    ", and from {} on what arrives of an overload falls from {} to {} Mbit/s",
                    below + 1,
                    significant(before / 1e6, 3),
                    significant(after / 1e6, 3)
                ),
                None => String::new(),
            }
        ),
        figures: vec![
            Figured::new(
                "best_payload_bytes",
                "best payload, bytes",
                Quantity::Count,
                Figure::exactly(f64::from(best_size)),
            ),
            Figured::new(
                "first_edge_bytes",
                "last payload of one piece, bytes",
                Quantity::Count,
                edge(0),
            ),
            Figured::new(
                "second_edge_bytes",
                "last payload of two pieces, bytes",
                Quantity::Count,
                edge(1),
            ),
            Figured::new(
                "whole_payload_bytes",
                "largest payload that passes in one piece, bytes",
                Quantity::Count,
                Figure::exactly(f64::from(longest)),
            ),
            Figured::new(
                "path_mtu_bytes",
                "path MTU, bytes",
                Quantity::Count,
                Figure::exactly(f64::from(longest + headers)),
            ),
        ],
        advice: vec![format!(
            "Send between {from} and {best_size} bytes: less wastes the line on headers, more is cut into fragments, of which every one must arrive."
        )],
        tables: vec![sizes_table(&held, line, longest, headers)],
        plots: vec![sizes_plot(&held, line, longest, headers)],
        ..Outcome::default()
    };
    for (below, before, after) in &falls {
        outcome.evidence.push(format!(
            "{below} bytes bring {} Mbit/s, {} bytes {}",
            significant(before / 1e6, 3),
            below + 1,
            significant(after / 1e6, 3)
        ));
    }
    if edges.iter().any(|e| !e.seen) {
        outcome.doubts.push(
            "where datagrams are cut was not seen but reckoned from the path MTU: watching an interface needs CAP_NET_RAW".into(),
        );
    }
    if !rates.is_empty() {
        outcome.tables.push(rates_table(&rates));
        outcome.plots.push(rates_plot(&rates));
    }
    if let Some(lacking) = unassembled(trains) {
        outcome.doubts.push(format!(
            "the receiving host did not put {lacking} datagrams together of which all pieces seem to have arrived: it had no room for more incomplete ones (net.ipv6.ip6frag_high_thresh, net.ipv4.ipfrag_high_thresh); what larger sizes bring is told too low"
        ));
    }
    match (sent, received) {
        (Some(sent), Some(received)) => {
            outcome.evidence.push(format!(
                "of {} first and {} second fragments sent into a full queue, {} and {} arrived",
                sent.first, sent.second, received.first, received.second
            ));
            let share = |got: u64, of: u64| stats::wilson(got.min(of) as f64, of as f64);
            outcome.figures.push(Figured::new(
                "first_fragments_arrived",
                "first fragments that arrived",
                Quantity::Share,
                share(received.first, sent.first),
            ));
            outcome.figures.push(Figured::new(
                "second_fragments_arrived",
                "second fragments that arrived",
                Quantity::Share,
                share(received.second, sent.second),
            ));
        }
        _ => outcome.evidence.push(
            "fragments could not be counted: watching an interface needs CAP_NET_RAW at both ends"
                .into(),
        ),
    }
    outcome
}

/// Datagrams of two pieces that did not come out although as many second pieces arrived; none where those are few.
fn unassembled(trains: &[Train]) -> Option<u64> {
    let lacking = |t: &Train| {
        let f = t.facts.fragments_received?;
        // Of second pieces hardly any arrives whose first one was lost before it.
        (f.first > 0 && f.further == 0).then(|| f.first.min(f.second).saturating_sub(arrived(t)))
    };
    let all = of_stage(trains, "size").chain(of_stage(trains, "rate"));
    let (lacking, sent) = all.fold((0, 0), |(n, of), t| match lacking(t) {
        Some(l) => (n + l, of + counted(t).count() as u64),
        None => (n, of),
    });
    (lacking * 10 > sent).then_some(lacking)
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

fn rates_table(rates: &[(f64, f64, f64)]) -> Table {
    let show = |v: f64| significant(v, 3);
    Table {
        title: "In two fragments: B²/b and what arrived".into(),
        columns: ["sent, Mbit/s", "B²/b", "measured"]
            .map(String::from)
            .into(),
        rows: rates
            .iter()
            .map(|(b, theory, got)| vec![show(*b), show(*theory), show(*got)])
            .collect(),
    }
}

fn rates_plot(rates: &[(f64, f64, f64)]) -> Plot {
    Plot {
        title: "Two fragments: B²/b and what arrived".into(),
        x: "sent, Mbit/s of payload".into(),
        y: "arrived, Mbit/s".into(),
        series: vec![
            Series {
                name: "measured".into(),
                draw: Draw::Knots,
                points: rates.iter().map(|r| (r.0, Some(r.2))).collect(),
            },
            Series {
                name: "B²/b".into(),
                draw: Draw::Knots,
                points: rates.iter().map(|r| (r.0, Some(r.1))).collect(),
            },
        ],
    }
}

/// What a size would bring if only headers cost anything.
fn only_headers(size: u32, line: f64, longest: u32, headers: u32) -> f64 {
    line * f64::from(size) / f64::from(on_the_line(size, longest, headers)) / 1e6
}

fn sizes_table(held: &[Held], line: f64, longest: u32, headers: u32) -> Table {
    Table {
        title: "Sizes".into(),
        columns: [
            "payload, bytes",
            "fragments",
            "arrived, Mbit/s",
            "if only headers cost",
        ]
        .map(String::from)
        .into(),
        rows: held
            .iter()
            .map(|h| {
                vec![
                    h.size.to_string(),
                    pieces(h.size, longest, headers).to_string(),
                    significant(h.bps / 1e6, 3),
                    significant(only_headers(h.size, line, longest, headers), 3),
                ]
            })
            .collect(),
    }
}

fn sizes_plot(held: &[Held], line: f64, longest: u32, headers: u32) -> Plot {
    Plot {
        title: "Throughput against size".into(),
        x: "payload, bytes".into(),
        y: "arrived, Mbit/s".into(),
        series: vec![
            Series {
                name: "measured".into(),
                draw: Draw::Knots,
                points: held
                    .iter()
                    .map(|h| (f64::from(h.size), Some(h.bps / 1e6)))
                    .collect(),
            },
            Series {
                name: "if only headers cost".into(),
                draw: Draw::Thin,
                points: held
                    .iter()
                    .map(|h| {
                        (
                            f64::from(h.size),
                            Some(only_headers(h.size, line, longest, headers)),
                        )
                    })
                    .collect(),
            },
        ],
    }
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
        // 004 section 3.3: 1470 bytes are 1496 + 78.
        assert_eq!(on_the_line(1470, 1452, 48), 1574);
    }
}
