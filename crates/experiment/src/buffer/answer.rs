//! The answer from all trains.

use super::is_managed;
use super::text::{delay_plot, rate_plot, row};
use super::{Bounds, Params, RESTING, SHORTEST_FLOOD, SMALL, Seen, look, managed, own};
use crate::answer::{Figure, Figured, Outcome, Quantity, Table};
use crate::trains::{SCOUT, of_stage, received_rate, waits};
use crate::{stats, trains};
use base::program::Train;
use base::units::significant;

/// ShaperProbe: a step of less than a tenth is none.
const STEP: f64 = 1.10;

/// A token bucket: rates before and after the step, bit/s, and its size, bytes.
struct Bucket {
    peak: f64,
    sustained: f64,
    /// Figures of the stretches after the step.
    settled: Vec<f64>,
    bytes: f64,
    /// When the step was, s since the first arrival.
    at: f64,
}

/// The two levels that fit best, where there are two: no stretch before the step is slower than any after it.
fn bucket(seen: &Seen) -> Option<Bucket> {
    let rates = &seen.rates;
    let n = rates.len();
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let spread = |v: &[f64]| {
        let m = mean(v);
        v.iter().map(|x| (x - m).powi(2)).sum::<f64>()
    };
    // The last stretch may be cut short by the end.
    let cut = (2..n - 3).min_by(|a, b| {
        let cost = |i: usize| spread(&rates[..i]) + spread(&rates[i..n - 1]);
        cost(*a).total_cmp(&cost(*b))
    })?;
    // The stretch in which the step lies belongs to neither level.
    let (before, after) = (&rates[..cut - 1], &rates[cut + 1..n - 1]);
    let middle = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5);
    let (peak, sustained) = (middle(before)?, middle(after)?);
    let slowest = before.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = after.iter().copied().fold(0.0, f64::max);
    if peak < STEP * sustained || slowest < 0.97 * fastest {
        return None;
    }
    let above: f64 = rates[..=cut]
        .iter()
        .map(|r| (r - sustained) * seen.stretch / 8.0)
        .sum();
    Some(Bucket {
        peak,
        sustained,
        settled: after.to_vec(),
        // The first datagram of all marked the begin and was not counted.
        bytes: above + seen.packet,
        at: cut as f64 * seen.stretch,
    })
}

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let Some(train) = of_stage(trains, "flood").last() else {
        let scout = of_stage(trains, SCOUT).next();
        let bounds = Bounds::of(params, trains);
        return Outcome::cannot_tell(match scout.and_then(|s| received_rate(s, 0.0)) {
            Some(rough) if bounds.longest(2.0 * rough) < SHORTEST_FLOOD => format!(
                "to flood a line of {} Mbit/s takes more time or traffic than was allowed",
                significant(rough / 1e6, 2)
            ),
            Some(_) => "the run ended before the line was flooded".into(),
            None => "nothing arrived".into(),
        });
    };
    let Some(seen) = look(train) else {
        return Outcome::cannot_tell("hardly anything of the flood arrived");
    };
    if !seen.overloaded {
        return Outcome::cannot_tell("this host could not send more than the line carries");
    }
    // A bucket that an earlier flood emptied has not filled again: the largest that was seen is it.
    let bucket = of_stage(trains, "flood")
        .filter_map(|t| bucket(&look(t)?))
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let tail = &seen.waits[seen.waits.len() * 2 / 3..];
    let late: Vec<f64> = tail.iter().map(|w| w.1).collect();
    let rate = match &bucket {
        Some(b) => stats::mean_figure(&b.settled),
        None => {
            let settled = &seen.rates[seen.rates.len() / 4..seen.rates.len() - 1];
            stats::mean_figure(settled)
        }
    }
    .widened(trains::CLOCK);
    let bps = rate.value().unwrap_or(0.0);
    let resting = waits(train);
    let idle: Vec<f64> = resting.iter().take(RESTING as usize).map(|w| w.1).collect();
    let quiet = stats::quantile_of_sorted(&stats::sorted(&idle), 0.5).unwrap_or(0.0);
    let queue_ms = held_ms(train, &seen, &late, bps, quiet);
    let queue_bytes = match queue_ms.times(&rate).map(|bits| bits / 8e3) {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low,
            high: high + seen.packet,
        },
        unknown => unknown,
    };
    let at_least = if seen.full { "" } else { "at least " };
    let mut outcome = Outcome {
        says: format!(
            "The queue {} holds {at_least}{} ms, {at_least}{} kB, {at_least}{} packets of {} bytes, in front of {} Mbit/s{}.",
            params.direction,
            queue_ms.value().map_or("?".into(), |v| significant(v, 3)),
            queue_bytes
                .value()
                .map_or("?".into(), |v| significant(v / 1e3, 3)),
            queue_bytes
                .value()
                .map_or("?".into(), |v| (v / seen.packet).round().to_string()),
            seen.packet,
            significant(bps / 1e6, 3),
            match &bucket {
                Some(b) => format!(
                    "; the first {} kB pass at {} Mbit/s (a token bucket)",
                    significant(b.bytes * b.peak / (b.peak - b.sustained) / 1e3, 3),
                    significant(b.peak / 1e6, 3)
                ),
                None => String::new(),
            }
        ),
        figures: vec![
            Figured::new(
                "queue_ms",
                "queue when full",
                Quantity::Time,
                queue_ms.clone(),
            ),
            Figured::new(
                "queue_bytes",
                "the same in bytes",
                Quantity::Size,
                queue_bytes.clone(),
            ),
            Figured::new(
                "queue_packets",
                &format!("the same in packets of {} bytes", seen.packet),
                Quantity::Count,
                queue_packets(&queue_bytes, seen.packet),
            ),
            Figured::new(
                "link_bps",
                "rate of the line, whole IP packets",
                Quantity::Rate,
                rate,
            ),
        ],
        plots: vec![delay_plot(train), rate_plot(&seen)],
        ..Outcome::default()
    };
    let loaded = stats::quantile_of_sorted(&stats::sorted(&late), 0.5).unwrap_or(0.0);
    outcome.evidence.push(format!(
        "median delay at rest {} ms, under the flood {} ms above the least: a difference of {} ms, as Netalyzr and BFind take it",
        significant(quiet, 3),
        significant(loaded, 3),
        significant(loaded - quiet, 3)
    ));
    outcome.evidence.push(format!(
        "{} of {} lost; {} datagrams of {} bytes arrived in the flood",
        train.lost(),
        train.sent(),
        seen.waits.len(),
        seen.packet
    ));
    if let Some(b) = &bucket {
        let figure = |key: &str, name: &str, unit, value| {
            Figured::new(key, name, unit, Figure::exactly(value))
        };
        outcome.figures.extend([
            figure("bucket_bytes", "token bucket", Quantity::Size, b.bytes),
            figure("peak_bps", "rate until it is empty", Quantity::Rate, b.peak),
            figure(
                "sustained_bps",
                "rate from then on",
                Quantity::Rate,
                b.sustained,
            ),
        ]);
        outcome.evidence.push(format!(
            "from {} s on {} Mbit/s come out instead of {}: a full queue that takes {} ms at the lower rate takes {} at the higher, the two steps of its delay",
            significant(b.at, 3),
            significant(b.sustained / 1e6, 3),
            significant(b.peak / 1e6, 3),
            queue_ms.value().map_or("?".into(), |v| significant(v, 3)),
            queue_ms.value().map_or("?".into(), |v| significant(v * b.sustained / b.peak, 3)),
        ));
    }
    tell_apart(trains, train, &seen, &mut outcome);
    if let Some(early) = managed::lost_early(train) {
        if is_managed(&early) {
            outcome.says += " It drops before it is full, as a queue that is managed (AQM) does, or a line that loses: it is so long for a flood that never yields, and hardly for others.";
        }
        outcome.figures.push(Figured::new(
            "lost_early",
            "lost of what came to a queue that was not full",
            Quantity::Share,
            early,
        ));
    }
    if !seen.full {
        outcome
            .doubts
            .push("the queue was not seen full: it may hold more".into());
    }
    outcome.tables.push(Table {
        title: "Floods".into(),
        columns: [
            "lasted, s",
            "IP packets sent, Mbit/s",
            "arrived, Mbit/s",
            "lost",
            "full",
        ]
        .map(String::from)
        .into(),
        rows: of_stage(trains, "flood").map(row).collect(),
    });
    outcome
}

/// Time that the queue holds when it is full, by the waits of the flood's last third. `quiet`: median wait at rest, ms.
fn held_ms(train: &Train, seen: &Seen, late: &[f64], bps: f64, quiet: f64) -> Figure {
    let time = |bytes: f64| bytes * 8e3 / bps.max(1.0);
    let own = time(seen.packet);
    // A full queue takes a datagram after the next transmission has begun: of that there is left what no further arrival
    // has used up. The datagram's own transmission stands for its place in the queue.
    let left = own * (1.0 - 0.5 * (bps / sent_bps(train, seen.packet)).min(1.0));
    // The base delay has the transmission of a small datagram in it, and the waits what delays scatter at rest.
    let small = time(f64::from(SMALL + train.facts.headers));
    let clocks = trains::CLOCK * 1e3 * seen.waits.last().map_or(0.0, |w| w.0);
    match stats::quantile_figure(late, 0.5) {
        Figure::Is { value, low, high } => Figure::Is {
            value: (value - left + small - quiet).max(0.0),
            low: (low - own - quiet - clocks).max(0.0),
            high: high - left + small + clocks,
        },
        unknown => unknown,
    }
}

/// Rate of whole IP packets at which the flood left, bit/s.
fn sent_bps(train: &Train, packet: f64) -> f64 {
    let flood = train.datagrams().filter(|(due, _)| due.step == 1);
    let sent: Vec<i64> = flood.filter_map(|(_, f)| f.sent_ns).collect();
    let span = sent.last().zip(sent.first()).map_or(0, |(b, a)| b - a);
    (sent.len().saturating_sub(1)) as f64 * packet * 8e9 / span.max(1) as f64
}

/// A queue holds whole packets: one that has room for less than one more is full.
fn queue_packets(bytes: &Figure, packet: f64) -> Figure {
    match bytes {
        Figure::Is { value, low, high } => Figure::Is {
            value: (value / packet).round(),
            low: (low / packet).floor(),
            high: (high / packet).floor().max((value / packet).round()),
        },
        unknown => unknown.clone(),
    }
}

/// What of the queue is the sending host's own, and what the line's.
fn tell_apart(trains: &[Train], flood: &Train, seen: &Seen, outcome: &mut Outcome) {
    let own = own::own(trains, own::flood_rate(flood));
    let refused = flood.facts.refused;
    if refused > 0 {
        outcome.evidence.push(format!(
            "in the flood the sending host refused {refused} of {} datagrams itself: its own queue was full",
            flood.fates.len()
        ));
    }
    let whole = outcome.figures.iter().find(|f| f.key == "queue_ms");
    let whole = whole.map(|f| f.figure.clone());
    let line = match (&own, refused > 0, seen.lost_on_line) {
        (_, false, _) => whole,
        (_, true, false) => Some(Figure::cannot_tell(
            "the sending host's own interface is slower than the line, whose queue so never filled",
        )),
        (Some(own), true, true) => whole
            .zip(own.ms.value())
            .map(|(w, own)| w.map(|v| (v - own).max(0.0))),
        (None, true, true) => None,
    };
    match own {
        Some(own) => {
            let figure = |key: &str, name: &str, unit, f| Figured::new(key, name, unit, f);
            let unknown =
                || Figure::cannot_tell("how much the sending host itself holds is not known");
            outcome.figures.extend([
                figure(
                    "own_bytes",
                    "the sending host's own queue",
                    Quantity::Size,
                    own.bytes,
                ),
                figure("own_ms", "the same in time", Quantity::Time, own.ms),
                figure(
                    "line_ms",
                    "the queue of the line alone",
                    Quantity::Time,
                    line.unwrap_or_else(unknown),
                ),
            ]);
            outcome.evidence.push(own.evidence);
        }
        None if refused > 0 => outcome.doubts.push(
            "part of the queue is in the sending host: buffer:own=true tells the two apart".into(),
        ),
        None => {}
    }
    if refused > 0 && !seen.lost_on_line {
        outcome.says +=
            " It is the sending host's own queue: its interface is slower than the line.";
    }
}
