//! Kind of queue, from the behaviour of delay and loss under load.
//!
//! **Method.** Three questions are asked.
//! 1. Do probes on their own flow wait as long as the load's own packets in the same seconds? If the load waits several
//!    packets' time longer, flows are kept apart: fair queueing. If it waits much longer, but not by
//!    enough packets, a ceiling does not tell a plain queue from short ones of each flow.
//! 2. How full was the queue when the load met congestion? Always at one sharp ceiling, the highest level ever seen:
//!    drop-tail.
//! 3. Did the load meet congestion far below the highest level, and did the delay fall after it? Then it is an AQM.
//!
//! The first seconds, with slow start's overshoot, count here: an AQM lets the burst in and then works it off, a
//! drop-tail queue stays at its ceiling. A link that loses packets by itself looks like an AQM. That is excluded by
//! probes that were not lost without load, by losses that prefer high delays, or by the even peaks of one flow. TCP also
//! takes packets for lost that three later ones overtook: the flood of datagrams shows how many those are. A
//! ceiling so low that an AQM may hold it counts only if it is sharp.
//!
//! **Source.** Borlaug 2014, sections 6.1.3 to 6.1.5 (losses on the delay curve, sawtooth);
//! RFC 8289 (CoDel), RFC 8290 (FQ-CoDel); cake-autorate issue 393 (sparse flows that see nothing).
//!
//! **Limits.** If one packet takes longer than an AQM's target, delay cannot fall below the smallest windows of the
//! flows: levels are compared in packets there. If the link's rate varies, as on radio, levels of delay do not show the
//! discipline. A load that never met congestion does not show the behaviour of the full queue.
//!
//! If no load was sampled, only probes count: see `curve`.

mod curve;

use crate::answer::{Discipline, DisciplineGuess};
use crate::bottleneck::{Bottleneck, Scene, bottleneck};
use crate::overload::Overload;
use crate::phases::{self, Phase};
use crate::{baseline, clock, rate};
use base::record::{Direction, Recording};
use stats::Figure;

/// Level above which no AQM lets a queue stand repeatedly, unless a packet takes many milliseconds.
const LONG_MS: f64 = 60.0;
/// Share of the seconds in which each flow must deliver for the load to count as steady.
const BUSY: f64 = 0.9;
/// Spread of a regular sawtooth's peaks, 10 to 90 %, as a share of the median.
const REGULAR: f64 = 0.45;
/// Standard deviations by which losses must prefer high delays, if the link may lose as much by itself.
const PREFERENCE: f64 = 4.0;

/// Overtaken packets for each loss that TCP saw, from which the losses may all be overtaken packets.
const OVERTAKEN: f64 = 0.5;

/// Packets up to which a ceiling is that of a plain queue.
const TINY: f64 = 7.0;

/// Answer of one series of waits to questions 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Ceiling,
    Controlled,
    Unclear,
}

/// Judges the queue of a recording of any origin: by the first phase that loads one direction; without phases, by the
/// time in which flows were sampled; without flows, by the longest time in which the probes' delay stood up.
pub fn judge(rec: &Recording) -> DisciplineGuess {
    match loaded(rec) {
        Some((b, _)) => discipline(&b),
        None => curve::judge(rec),
    }
}

/// The bottleneck of the first phase that loads one direction, else that of the time in which transfers were sampled, with
/// the base round trip; `None` where a recording has neither.
pub(crate) fn loaded(rec: &Recording) -> Option<(Bottleneck, Figure)> {
    let list = phases::phases(rec, None);
    let by_phase = [Direction::Up, Direction::Down].into_iter().find_map(|d| {
        let phase = list.iter().find(|p| p.name == d.word())?;
        Some((d, phase.clone()))
    });
    let (direction, phase) = by_phase.or_else(|| stretch(rec))?;
    let base_rtt = phases::base_rtt(rec, &list, phase.from_ns);
    let fitted = clock::fit(rec);
    let scene = Scene {
        rec,
        clock: fitted.as_ref().ok(),
        base_rtt_ms: base_rtt.value(),
        baseline: &baseline::baseline(rec, &list, fitted.as_ref().ok()),
        probe_ip_bytes: crate::Options::default().probe_ip_bytes,
    };
    Some((bottleneck(&scene, &phase, direction), base_rtt))
}

/// Levels and rate of the time in which the probes' delay stood up.
pub(crate) fn curve_levels(rec: &Recording) -> Option<curve::Levels> {
    curve::levels(rec)
}

/// The time in which flows of one direction were sampled, as if it had been a phase.
fn stretch(rec: &Recording) -> Option<(Direction, Phase)> {
    [Direction::Up, Direction::Down]
        .into_iter()
        .find_map(|direction| {
            let rows = phases::flows(rec, direction, i64::MIN..i64::MAX);
            let moved = |f: &&&base::record::Flow| f.delivered_bytes.or(f.bytes_acked) > Some(0);
            let from_ns = rows.iter().find(moved)?.t_ns;
            let to_ns = rows.last()?.t_ns;
            let whole = to_ns.saturating_sub(from_ns);
            (whole >= 10_000_000_000).then(|| {
                let phase = Phase {
                    name: direction.word().into(),
                    from_ns,
                    warm_ns: from_ns + (whole / 10).min(3_000_000_000),
                    to_ns,
                    ended: true,
                };
                (direction, phase)
            })
        })
}

fn sure(is: Discipline, evidence: Vec<String>) -> DisciplineGuess {
    DisciplineGuess {
        is,
        evidence,
        would_settle: None,
    }
}

fn cannot(evidence: Vec<String>, settle: &str) -> DisciplineGuess {
    DisciplineGuess {
        is: Discipline::CannotTell,
        evidence,
        would_settle: Some(settle.into()),
    }
}

/// Judges the queue of one bottleneck.
pub fn discipline(b: &Bottleneck) -> DisciplineGuess {
    if b.goodput.value().is_none() {
        return cannot(
            vec![format!("no load was carried in direction {}", b.direction)],
            "a test whose load in this direction runs for at least 10 s",
        );
    }
    if b.waits.len() < 10 {
        return cannot(
            vec![format!("{} probes were answered under load", b.waits.len())],
            "probes that are answered: look for a filter of UDP, or a longer test",
        );
    }
    of_load(b)
}

/// Judges a queue whose load and probes were seen.
fn of_load(b: &Bottleneck) -> DisciplineGuess {
    let mut evidence = Vec::new();
    let polices = |o: &&Overload| o.polices && o.confirmed && !b.drowns(o.reached_ms);
    if let Some(o) = b.overload.as_ref().filter(polices) {
        evidence.push(format!(
            "{:.0} % of a flood above the link's rate were dropped, and none of it waited longer than {:.1} ms",
            100.0 * o.lost,
            o.reached_ms
        ));
        return sure(Discipline::Policer, evidence);
    }
    let apart = kept_apart(b, &mut evidence);
    // What is read off levels of delay needs a rate that stays: a buffer full at 4 Mbit/s waits twice as
    // long as the same at 8.
    if let Some(moves) = b.rate_moves.filter(|m| *m > rate::STEADY) {
        evidence.push(format!(
            "the rate of the full link itself moves by {:.0} % (standard deviation), and the wait with it",
            100.0 * moves
        ));
        return match apart {
            Some(true) => sure(Discipline::FairQueueing, evidence),
            _ => cannot(evidence, "a test while the link keeps its rate"),
        };
    }
    if let Some(held) = b
        .held_back
        .as_ref()
        .filter(|_| !b.stood && apart != Some(true))
    {
        evidence.push(held.says());
        return cannot(
            evidence,
            "a load that only the link limits: larger socket buffers, or more flows",
        );
    }
    let most = b.top(&b.waits).unwrap_or(0.0);
    let flooded = b.overload.as_ref().is_some_and(|o| o.plateau_ms.is_some());
    if apart.is_none() && !flooded && most < (2 * b.flows + 2) as f64 * b.packet_ms {
        return cannot(
            evidence,
            "a faster link, more probes, or a load whose sender reports its round trips: probes hardly wait, in a short queue or in one of their own",
        );
    }
    // Where flows are kept apart, only the load's own packets see the queue that matters.
    let behaviour = behaviour(b, apart == Some(true), &mut evidence);
    if apart.is_none() && behaviour == Behaviour::Ceiling && leans_apart(b) {
        return cannot(
            evidence,
            "a train of datagrams above the link's rate beside small ones: either a plain queue is short, or each flow's own is",
        );
    }
    let is = match (apart, behaviour) {
        (Some(true), Behaviour::Controlled) => Discipline::FairQueueingAqm,
        (Some(true), _) => Discipline::FairQueueing,
        (_, Behaviour::Ceiling) => Discipline::DropTail,
        (Some(false), Behaviour::Controlled) => Discipline::Aqm,
        (None, Behaviour::Controlled) => {
            return cannot(
                evidence,
                "a train of datagrams above the link's rate beside small ones: an AQM keeps the queue short, alone or behind fair queueing",
            );
        }
        (_, Behaviour::Unclear) => Discipline::CannotTell,
    };
    if is == Discipline::CannotTell {
        let settle = if b.epochs.is_none() {
            "a test against `tailback serve`, which tells the losses of its downloads"
        } else if b.epochs.as_ref().is_some_and(|e| e.len() < 2) {
            "a load that fills the queue: more flows, a longer test, or a larger socket buffer"
        } else {
            "a longer test with a steady load, and a burst of UDP datagrams to find the ceiling"
        };
        return cannot(evidence, settle);
    }
    sure(is, evidence)
}

/// Evidence of a flood beside small datagrams, where it decides.
fn flood_apart(o: &Overload, evidence: &mut Vec<String>) -> Option<bool> {
    let (load, small) = o.side_by_side_ms?;
    let apart = o.apart?;
    evidence.push(format!(
        "while a flood of datagrams waited {load:.1} ms, small datagrams of another flow waited {small:.1} ms: {}",
        if apart { "flows are kept apart" } else { "one queue for all" }
    ));
    Some(apart)
}

/// Mean waits of probes and load, ms, in the quarter of the time in which the load itself waited longest: there the two
/// differ if they ever do.
fn longest(b: &Bottleneck) -> Option<(f64, f64)> {
    let mut pairs = b.side_by_side();
    pairs.sort_by(|x, y| y.1.total_cmp(&x.1));
    pairs.truncate((pairs.len() / 4).max(1));
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    (!pairs.is_empty()).then(|| (mean(|p| p.0), mean(|p| p.1)))
}

/// Share of the load's wait below which probes do not seem to be in its queue.
const UNLIKE: f64 = 0.4;

/// True if probes waited so much less than the load that a queue of their own is as likely as one for all.
fn leans_apart(b: &Bottleneck) -> bool {
    longest(b).is_some_and(|(probe, load)| probe < UNLIKE * load && load - probe > b.packet_ms)
}

/// True if probes and load wait in different queues; `None` if the data do not tell.
fn kept_apart(b: &Bottleneck, evidence: &mut Vec<String>) -> Option<bool> {
    if let Some(apart) = b.overload.as_ref().and_then(|o| flood_apart(o, evidence)) {
        return Some(apart);
    }
    let Some((probe, load)) = longest(b) else {
        evidence.push(
            "the load's sender reported no round-trip times, so fair queueing cannot be seen"
                .into(),
        );
        return None;
    };
    // Delayed acknowledgements alone make up to a packet's time a flow, and the hosts some.
    let margin = (1.0 + b.flows.clamp(1, 4) as f64) * b.packet_ms + 3.0;
    let said = format!(
        "while the load waited longest, its own packets waited {load:.1} ms, probes on a flow of their own {probe:.1} ms (one full packet takes {:.1} ms)",
        b.packet_ms
    );
    let steady = |series| stats::sorted(&b.steady(series));
    let quantile = |series, q| stats::quantile_of_sorted(&steady(series), q).unwrap_or(0.0);
    // In a queue of their own probes never meet the load's wait.
    let usual = quantile(&b.in_flow, 0.5);
    let never = quantile(&b.waits, 0.95) < 0.6 * usual;
    // They wait for a packet or two of others, and on a full line for part of one. A load at rest shows its hosts' delays and not the queue's.
    let filled = quantile(&b.waits, 0.5) >= 0.25 * b.packet_ms;
    let turn = filled && quantile(&b.waits, 0.95) <= 2.5 * b.packet_ms + 1.0;
    if load - probe > margin && probe < UNLIKE * load && never && turn && b.busy >= BUSY {
        evidence.push(format!("{said}: flows are kept apart"));
        return Some(true);
    }
    // Unlike, but not by enough.
    if load < margin || probe < 0.7 * load {
        evidence.push(format!("{said}: too little to tell one queue from many"));
        return None;
    }
    evidence.push(format!("{said}: one queue for all"));
    Some(false)
}

fn behaviour(b: &Bottleneck, apart: bool, evidence: &mut Vec<String>) -> Behaviour {
    let series = if apart { &b.in_flow } else { &b.waits };
    let sorted = |v: Vec<f64>| stats::sorted(&v);
    let all = sorted(series.iter().map(|s| s.1).collect());
    // Of many samples, up to three higher ones may be stalls of a host.
    let stalls = (all.len() / 300).min(3);
    let Some(top) = all.iter().rev().nth(stalls).copied() else {
        return Behaviour::Unclear;
    };
    let steady = sorted(b.steady(series));
    let p95 = stats::quantile_of_sorted(&steady, 0.95).unwrap_or(top);
    let levels = sorted(b.levels(apart));
    let level = |q| stats::quantile_of_sorted(&levels, q);
    let (Some(median), Some(low), Some(high)) = (level(0.5), level(0.1), level(0.9)) else {
        evidence.push(match b.epochs {
            Some(_) => format!(
                "the load met no congestion: the queue was never seen full (most {top:.1} ms)"
            ),
            None => format!(
                "the load's sender did not tell its losses, so that nothing shows when the queue was full (most {top:.1} ms)"
            ),
        });
        return Behaviour::Unclear;
    };
    if let Some(settled) = beside_the_flood(b, &levels, apart, evidence) {
        return settled;
    }
    let n = levels.len();
    let near =
        |level: f64| level >= 0.85 * top || top - level <= 1.5 * b.packet_ms && level >= 0.5 * top;
    let at_ceiling = levels.iter().filter(|l| near(**l)).count();
    let said = format!(
        "the load met congestion {n} times, {at_ceiling} of them at the ceiling of {top:.1} ms (median level {median:.1} ms; 95 % of the steady waits below {p95:.1} ms)"
    );
    // Few losses may lie at one level by chance: a flood has to fill the queue no further.
    let further = b
        .overload
        .as_ref()
        .map(|o| o.reached_ms > 1.2 * top + 2.0 * b.packet_ms);
    let few = n < 5 && further.is_none();
    if n >= 2 && at_ceiling * 10 >= n * 8 && p95 >= 0.7 * top && (few || further == Some(true)) {
        evidence.push(format!("{said}: too few losses to be sure of a ceiling"));
        return Behaviour::Unclear;
    }
    if n >= 2 && at_ceiling * 10 >= n * 8 && p95 >= 0.7 * top {
        // The sawtooth of one flow in a short queue turns at one level whatever turns it.
        let long = |ms: f64, packets: f64| top >= ms.max(packets * b.packet_ms);
        let sharp = n >= 5 && near(low) && high - low <= 2.0 * b.packet_ms;
        if !long(LONG_MS, 8.0) && !(sharp && (b.flows >= 2 || long(15.0, 12.0))) {
            evidence.push(format!(
                "{said}: so low, an AQM may hold a regular sawtooth as well as a short buffer"
            ));
            return Behaviour::Unclear;
        }
        evidence.push(format!("{said}: losses only when the queue is full"));
        return Behaviour::Ceiling;
    }
    // Behind fair queueing the flows' own slow starts, one after the other, make no plain ceiling.
    let low_enough = if apart { 0.75 } else { 0.6 };
    // An AQM leaves a queue of a packet alone, and only a load that stays meets it.
    let met = low > b.packet_ms && top - p95 > b.base_doubt_ms && b.busy >= BUSY;
    if n >= 5 && at_ceiling * 4 < n && p95 < low_enough * top && met {
        match by_the_line(b, &levels, apart) {
            Some(why) => evidence.push(format!("{said}: {why}")),
            None => {
                evidence.push(format!("{said}: packets are dropped long before the queue is full, and the delay is brought down"));
                return Behaviour::Controlled;
            }
        }
        return Behaviour::Unclear;
    }
    evidence.push(said);
    Behaviour::Unclear
}

/// Compares the levels at which TCP met congestion with the level that a flood reached in the same queue. At one
/// ceiling the queue is drop-tail; far below it an AQM drops earlier.
fn beside_the_flood(
    b: &Bottleneck,
    levels: &[f64],
    apart: bool,
    evidence: &mut Vec<String>,
) -> Option<Behaviour> {
    let o = b.overload.as_ref().filter(|o| o.reached_ms > 0.0)?;
    let median = stats::quantile_of_sorted(levels, 0.5)?;
    let (reached, flat) = match o.plateau_ms.as_ref().and_then(Figure::value) {
        Some(level) => (level, true),
        None => (o.reached_ms, false),
    };
    let said = format!(
        "the load met congestion {} times at {median:.1} ms (median), a flood of datagrams {} {reached:.1} ms",
        levels.len(),
        if flat {
            "was cut off at"
        } else {
            "waited up to"
        }
    );
    // Probes are sparse: they see the ceiling at some of the losses, and less at others.
    let upper = stats::quantile_of_sorted(levels, 0.75)?;
    let near = upper >= 0.7 * reached || reached - upper <= 1.5 * b.packet_ms;
    let half = median >= 0.5 * reached || reached - median <= 2.0 * b.packet_ms;
    // No law has a limit of so few packets.
    let tiny = reached <= TINY * b.packet_ms;
    if flat && levels.len() >= 2 && (near && half || tiny) {
        evidence.push(format!("{said}: losses only when the queue is full"));
        return Some(Behaviour::Ceiling);
    }
    let far = median < 0.5 * reached && reached - median > 6.0 * b.packet_ms + b.base_doubt_ms;
    if far && levels.len() >= 3 && b.busy >= BUSY {
        // An AQM leaves a queue of a packet alone.
        if median < b.packet_ms {
            evidence.push(format!(
                "{said}: losses without a queue, as a policer or the link itself makes them"
            ));
            return Some(Behaviour::Unclear);
        }
        return Some(match by_the_line(b, levels, apart) {
            Some(why) => {
                evidence.push(format!("{said}: {why}"));
                Behaviour::Unclear
            }
            None => {
                evidence.push(format!(
                    "{said}: packets are dropped long before the queue is full"
                ));
                Behaviour::Controlled
            }
        });
    }
    None
}

/// Reason why the link itself may have lost the packets, low on the delay curve and at random: as far as is known it
/// loses as many probes, and losses do not prefer high delays.
fn by_the_line(b: &Bottleneck, levels: &[f64], apart: bool) -> Option<String> {
    let packets = (b.phase.to_ns - b.phase.warm_ns) as f64 / 1e6 / b.packet_ms.max(1e-6);
    let share = levels.len() as f64 / packets.max(1.0);
    let overtaken = b.overload.as_ref().map_or(0.0, |o| o.overtaken);
    if overtaken > 0.0 && overtaken >= OVERTAKEN * share {
        return Some(format!(
            "{:.2} % of a flood were overtaken on the path, and TCP takes packets that come late for lost ones",
            100.0 * overtaken
        ));
    }
    // How likely so few probes were lost without load, had the line lost them all.
    let (sent, lost) = b.unloaded;
    let chance = stats::binomial_cdf(lost, sent, share);
    if chance < 0.02 {
        return None;
    }
    // Chance makes the peaks of one flow's sawtooth as uneven as the gaps between losses.
    let at = |q| stats::quantile_of_sorted(levels, q).unwrap_or(0.0);
    if lost == 0 && b.flows == 1 && levels.len() >= 8 && at(0.9) - at(0.1) <= REGULAR * at(0.5) {
        return None;
    }
    // Levels at 400 moments that have nothing to do with congestion; Wilcoxon's rank sum against them.
    let step = (b.phase.to_ns - b.phase.warm_ns) / 400;
    let moments = (1..=400).map(|i| b.phase.warm_ns + i * step);
    let any = stats::sorted(&b.levels_at(moments, apart));
    if any.is_empty() {
        return Some("there is nothing to compare them with".into());
    }
    let rank = |l: &f64| {
        let (below, upto) = (
            any.partition_point(|x| x < l),
            any.partition_point(|x| x <= l),
        );
        (below + upto) as f64 / 2.0 / any.len() as f64
    };
    let n = levels.len() as f64;
    let mean = levels.iter().map(rank).sum::<f64>() / n;
    let z = (mean - 0.5) * (12.0 * n).sqrt();
    (lost > 0 || z < PREFERENCE).then(|| {
        format!(
            "a link that loses {:.2} % by itself would look the same (without load it lost {lost} of {sent} probes), and losses come at any delay",
            100.0 * share
        )
    })
}
