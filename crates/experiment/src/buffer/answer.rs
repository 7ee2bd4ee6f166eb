//! Answer from all trains.

use super::is_managed;
use super::text::{delay_plot, rate_plot, row};
use super::{AFTER, Bounds, Params, RESTING, SHORTEST_FLOOD, SMALL, Seen, look, managed, own};
use crate::answer::{Figured, Outcome, Quantity, Table};
use crate::trains;
use crate::trains::{SCOUT, of_stage, received_rate, waits};
use base::print::significant;
use base::program::Train;
use stats::Figure;
use std::cmp::Ordering;

/// Factor by which a flood must exceed the peak rate to show it, and the number of stretches that must show it.
const ABOVE_PEAK: f64 = 1.05;

/// Stretches that a rate before or after a bucket's end needs.
const EARLY: usize = 4;
const TOO_SOON: &str = "the flood ended as a token bucket ran empty: allow more time or traffic";
/// A base delay that moves by more than this share of the queue bends its figure.
const DRIFTS: f64 = 0.3;

/// Uncertainty of a bucket's size, as a share: the two rates before and after the step are not exact.
const BUCKET: f64 = 0.005;

/// Share of early losses from which an AQM in front of the link dropped them, rather than the link behind it.
const LOSES_MUCH: f64 = 0.05;

/// Smallest step: ShaperProbe ignores steps below a tenth.
const STEP: f64 = 1.10;

/// Token bucket: rates before and after the step, bit/s, and its size, bytes.
struct Bucket {
    peak: f64,
    sustained: f64,
    /// Rates of the stretches before the step, and after it.
    early: Vec<f64>,
    settled: Vec<f64>,
    bytes: f64,
    /// Time of the step, s since the first arrival.
    at: f64,
    /// Upper limit on the tokens that earlier trains had taken from it, bytes.
    taken: f64,
}

impl Bucket {
    /// True if the rate after the step was seen for long enough to be known.
    fn has_settled(&self) -> bool {
        self.settled.len() >= EARLY
    }

    /// Bytes of the bucket, the rate before it was empty and the rate after. The rates' clocks differ, and a stretch is
    /// known to a packet.
    fn figures(&self, seen: &Seen, sent_bps: f64) -> [Figure; 3] {
        let bytes = match self.has_settled() {
            true => Figure::Is {
                value: self.bytes,
                low: (self.bytes - 2.0 * seen.packet).max(0.0),
                high: self.bytes + 2.0 * seen.packet + self.taken,
            },
            false => Figure::cannot_tell(TOO_SOON),
        };
        let rate = |value: f64, levels: &[f64]| match stats::quantile_figure(levels, 0.5) {
            Figure::Is { low, high, .. } => Figure::Is {
                value,
                low: low.min(value),
                high: high.max(value),
            }
            .widened(trains::CLOCK),
            untold => untold,
        };
        let at_least = significant(self.peak / 1e6, 3);
        let peak = if sent_bps < ABOVE_PEAK * self.peak {
            Figure::cannot_tell(format!(
                "at least {at_least} Mbit/s: the flood itself was no faster"
            ))
        } else if self.early.len() < EARLY {
            Figure::cannot_tell(format!(
                "at least {at_least} Mbit/s: the bucket was empty too soon"
            ))
        } else {
            rate(self.peak, &self.early)
        };
        let sustained = match self.has_settled() {
            true => rate(self.sustained, &self.settled),
            false => Figure::cannot_tell(TOO_SOON),
        };
        [bytes.widened(BUCKET), peak, sustained]
    }
}

/// Tokens that the trains before `number` took, bytes: what arrived of each above the sustained rate. What has flowed in since
/// is unknown, so this is an upper limit.
fn taken_before(trains: &[Train], number: i64, sustained: f64) -> f64 {
    let of = |t: &Train| {
        let all = trains::arrivals(t);
        let headers = f64::from(t.facts.headers);
        let bytes: f64 = all.iter().map(|a| a.1 + headers).sum();
        let span = all.last().zip(all.first()).map_or(0, |(b, a)| b.0 - a.0);
        (bytes - sustained * span as f64 / 8e9).max(0.0)
    };
    trains.iter().filter(|t| t.number < number).map(of).sum()
}

/// The two levels that fit best, if there are two: no stretch before the step is slower than any after it.
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
        early: before.to_vec(),
        settled: after.to_vec(),
        // The first datagram of all marked the begin and was not counted.
        bytes: above + seen.packet,
        at: cut as f64 * seen.stretch,
        taken: 0.0,
    })
}

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let Some(train) = of_stage(trains, "flood").last() else {
        return not_flooded(params, trains);
    };
    let Some(seen) = look(train) else {
        return Outcome::cannot_tell("hardly anything of the flood arrived");
    };
    if !seen.overloaded {
        return Outcome::cannot_tell("this host could not send more than the link carries");
    }
    let bucket = largest_bucket(trains);
    let tail = &seen.waits[seen.waits.len() * 2 / 3..];
    let late: Vec<f64> = tail.iter().map(|w| w.1).collect();
    let rate = settled_rate(&seen, bucket.as_ref()).widened(trains::CLOCK);
    let early = managed::lost_early(train);
    let rate = with_lost(rate, early.as_ref());
    let bps = rate.value().unwrap_or(0.0);
    let base = Base::of(trains, train, &seen);
    let queue_ms = match &bucket {
        Some(b) if !b.has_settled() => Figure::cannot_tell(TOO_SOON),
        _ => held_ms(train, &seen, &late, bps, &base),
    };
    let queue_bytes = queue_ms.bytes_at(&rate);
    let mut outcome = Outcome {
        says: says(
            params,
            &seen,
            (&queue_ms, &queue_bytes),
            bps,
            bucket.as_ref(),
        ),
        figures: figures(&seen, &queue_ms, &queue_bytes, rate),
        plots: vec![delay_plot(train), rate_plot(&seen)],
        ..Outcome::default()
    };
    let loaded = stats::quantile_of_sorted(&stats::sorted(&late), 0.5).unwrap_or(0.0);
    outcome.evidence.push(format!(
        "median delay at rest {} ms, under the flood {} ms above the least: a difference of {} ms, as Netalyzr and BFind take it",
        significant(base.at_rest, 3),
        significant(loaded, 3),
        significant(loaded - base.at_rest, 3)
    ));
    outcome.evidence.push(format!(
        "{} of {} lost; {} datagrams of {} bytes arrived in the flood",
        train.lost(),
        train.sent(),
        seen.waits.len(),
        seen.packet
    ));
    if let Some(b) = &bucket {
        add_bucket(b, &seen, train, &queue_ms, &mut outcome);
    }
    tell_apart(trains, train, &seen, &mut outcome);
    if let Some(early) = early {
        if is_managed(&early) {
            outcome.says += " It drops before it is full, as a queue that is managed (AQM) does, or a link that loses: it is so long for a flood that never yields, and hardly for others.";
        }
        outcome.figures.push(Figured::share(
            "lost_early",
            "lost of what came to a queue that was not full",
            early,
        ));
    }
    if !seen.full {
        outcome
            .doubts
            .push("the queue was not seen full: it may hold more".into());
    }
    outcome.tables.push(floods(trains));
    outcome
}

/// Outcome of a run without a flood, with the reason.
fn not_flooded(params: &Params, trains: &[Train]) -> Outcome {
    let scout = of_stage(trains, SCOUT).next();
    let bounds = Bounds::of(params, trains);
    Outcome::cannot_tell(match scout.and_then(|s| received_rate(s, 0.0)) {
        Some(rough) if bounds.longest(2.0 * rough) < SHORTEST_FLOOD => format!(
            "to flood a link of {} Mbit/s takes more time or traffic than was allowed",
            significant(rough / 1e6, 2)
        ),
        Some(_) => "the run ended before the link was flooded".into(),
        None => "nothing arrived".into(),
    })
}

/// Largest token bucket of all floods: one that an earlier flood emptied has not filled again. One after which a rate has
/// settled is preferred.
fn largest_bucket(trains: &[Train]) -> Option<Bucket> {
    of_stage(trains, "flood")
        .filter_map(|t| {
            let found = bucket(&look(t)?)?;
            let taken = taken_before(trains, t.number, found.sustained);
            Some(Bucket { taken, ..found })
        })
        .max_by(|a, b| {
            (a.has_settled(), a.bytes)
                .partial_cmp(&(b.has_settled(), b.bytes))
                .unwrap_or(Ordering::Equal)
        })
}

/// True if the flood ended as a token bucket ran empty: a longer one shows the rate from then on.
pub(super) fn ends_too_soon(seen: &Seen) -> bool {
    bucket(seen).is_some_and(|b| !b.has_settled())
}

/// Rate after the bucket is empty; without a bucket, of the last three quarters of the flood.
fn settled_rate(seen: &Seen, bucket: Option<&Bucket>) -> Figure {
    match bucket {
        Some(b) if !b.has_settled() => Figure::cannot_tell(TOO_SOON),
        Some(b) => stats::mean_figure(&b.settled),
        None => {
            let settled = &seen.rates[seen.rates.len() / 4..seen.rates.len() - 1];
            stats::mean_figure(settled)
        }
    }
}

/// Table of all floods.
fn floods(trains: &[Train]) -> Table {
    Table {
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
    }
}

/// Headline: size of the queue in time, bytes and packets.
fn says(
    params: &Params,
    seen: &Seen,
    (queue_ms, queue_bytes): (&Figure, &Figure),
    bps: f64,
    bucket: Option<&Bucket>,
) -> String {
    let at_least = if seen.full { "" } else { "at least " };
    match queue_ms {
        Figure::CannotTell { cannot_tell } => format!(
            "Cannot tell how much the queue {} holds: {cannot_tell}.",
            params.direction
        ),
        Figure::Is { .. } => format!(
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
            match bucket {
                Some(b) => format!(
                    "; the first {} kB pass at {} Mbit/s (a token bucket)",
                    significant(b.bytes * b.peak / (b.peak - b.sustained) / 1e3, 3),
                    significant(b.peak / 1e6, 3)
                ),
                None => String::new(),
            }
        ),
    }
}

/// Size of the queue in time, bytes and packets, and the rate.
fn figures(seen: &Seen, queue_ms: &Figure, queue_bytes: &Figure, rate: Figure) -> Vec<Figured> {
    vec![
        Figured::time("queue_ms", "queue when full", queue_ms.clone()),
        Figured::size("queue_bytes", "the same in bytes", queue_bytes.clone()),
        Figured::count(
            "queue_packets",
            &format!("the same in packets of {} bytes", seen.packet),
            queue_packets(queue_bytes, seen.packet),
        ),
        Figured::rate("link_bps", "rate of the link, whole IP packets", rate),
    ]
}

/// Adds the figures of a token bucket, and how they explain the delay.
fn add_bucket(b: &Bucket, seen: &Seen, train: &Train, queue_ms: &Figure, outcome: &mut Outcome) {
    let [bytes, peak, sustained] = b.figures(seen, sent_bps(train, seen.packet));
    let figure = Figured::new;
    outcome.figures.extend([
        figure("bucket_bytes", "token bucket", Quantity::Size, bytes),
        figure("peak_bps", "rate until it is empty", Quantity::Rate, peak),
        figure(
            "sustained_bps",
            "rate from then on",
            Quantity::Rate,
            sustained,
        ),
    ]);
    if !b.has_settled() {
        return;
    }
    outcome.evidence.push(format!(
        "from {} s on {} Mbit/s come out instead of {}: a full queue that takes {} ms at the lower rate takes {} at the higher, the two steps of its delay",
        significant(b.at, 3),
        significant(b.sustained / 1e6, 3),
        significant(b.peak / 1e6, 3),
        queue_ms.value().map_or("?".into(), |v| significant(v, 3)),
        queue_ms.value().map_or("?".into(), |v| significant(v * b.sustained / b.peak, 3)),
    ));
}

/// Rate of arrivals, up to the rate of which a link behind the queue may have lost a part.
fn with_lost(rate: Figure, lost_early: Option<&Figure>) -> Figure {
    match (rate, lost_early) {
        (Figure::Is { value, low, high }, Some(Figure::Is { high: lost, .. }))
            if *lost < LOSES_MUCH =>
        {
            Figure::Is {
                value,
                low,
                high: high / (1.0 - lost),
            }
        }
        (rate, _) => rate,
    }
}

/// Base delay around the flood, ms above the least delay of its train.
struct Base {
    /// Median before the flood.
    at_rest: f64,
    /// Median at the flood's last third, interpolated between the medians before and after it.
    at_tail: f64,
    /// Smaller of the two medians, and larger of the two 95 % quantiles.
    least: f64,
    most: f64,
    /// Difference of the two medians.
    moved: f64,
    /// Distance by which the base may leave the line between the two medians meanwhile: it moves while the link rests.
    strays: f64,
}

/// Slope of delays at rest, ms/s, less that which their scatter from one datagram to the next makes; 0 if there are few.
fn slope(at_rest: &[(f64, f64)]) -> f64 {
    let (first, second) = at_rest.split_at(at_rest.len() / 2);
    let median = |v: Vec<f64>| stats::quantile_of_sorted(&stats::sorted(&v), 0.5);
    let of = |part: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| median(part.iter().map(f).collect());
    let jumps = at_rest.windows(2).map(|w| (w[1].1 - w[0].1).abs());
    let (Some(t0), Some(t1), Some(w0), Some(w1), Some(jump)) = (
        of(first, |w| w.0),
        of(second, |w| w.0),
        of(first, |w| w.1),
        of(second, |w| w.1),
        median(jumps.collect()),
    ) else {
        return 0.0;
    };
    // Medians of so many independent delays differ by this much in 19 cases of 20.
    let chance = 3.5 * jump / (at_rest.len() as f64).sqrt();
    let moved = ((w1 - w0).abs() - chance).max(0.0) * (w1 - w0).signum();
    if t1 > t0 { moved / (t1 - t0) } else { 0.0 }
}

impl Base {
    fn of(trains: &[Train], flood: &Train, seen: &Seen) -> Base {
        let at = |v: &[f64], p: f64| stats::quantile_of_sorted(&stats::sorted(v), p);
        let median = |v: &[f64]| at(v, 0.5);
        let waits = waits(flood);
        let resting = &waits[..waits.len().min(RESTING as usize)];
        let before: Vec<f64> = resting.iter().map(|w| w.1).collect();
        let at_rest = median(&before).unwrap_or(0.0);
        // Jitter that keeps the order delays dense datagrams more than sparse ones, up to all of it.
        let most = at(&before, 0.95).unwrap_or(0.0);
        let still = Base {
            at_rest,
            at_tail: at_rest,
            least: at_rest,
            most,
            moved: 0.0,
            strays: 0.0,
        };
        let (Some(least), Some(began), Some(rest)) = (
            flood.delays().map(|d| d.1).min(),
            flood.began_ns(),
            of_stage(trains, AFTER).last(),
        ) else {
            return still;
        };
        // A far end may say any number.
        let after: Vec<f64> = rest
            .delays()
            .map(|d| d.1.saturating_sub(least) as f64 * 1e-6)
            .collect();
        let slopes = [slope(resting), slope(&trains::waits(rest))];
        let (Some(later), Some(begin)) = (median(&after), rest.began_ns()) else {
            return still;
        };
        if after.len() < RESTING as usize / 4 {
            return still;
        }
        let from = waits.first().map_or(0.0, |w| w.0);
        let until = begin.saturating_sub(began) as f64 * 1e-9;
        let tail = &seen.waits[seen.waits.len() * 2 / 3..];
        let middle = tail.get(tail.len() / 2).map_or(from, |w| w.0);
        let share = ((middle - from) / (until - from)).clamp(0.0, 1.0);
        Base {
            at_rest,
            at_tail: at_rest + (later - at_rest) * share,
            least: at_rest.min(later),
            most: most.max(at(&after, 0.95).unwrap_or(later)),
            moved: (later - at_rest).abs(),
            // A parabola whose end has this slope leaves its chord by so much.
            strays: slopes
                .into_iter()
                .filter(|slope| *slope != 0.0)
                .map(|slope| (slope * (until - from) - (later - at_rest)).abs() / 4.0)
                .fold(0.0, f64::max),
        }
    }
}

/// Time that the queue holds when it is full, by the waits of the flood's last third.
fn held_ms(train: &Train, seen: &Seen, late: &[f64], bps: f64, base: &Base) -> Figure {
    let time = |bytes: f64| bytes * 8e3 / bps.max(1.0);
    let own = time(seen.packet);
    // A full queue takes a datagram after the next transmission has begun: of that there is left what no further arrival
    // has used up. The datagram's own transmission stands for its place in the queue.
    let left = own * (1.0 - 0.5 * (bps / sent_bps(train, seen.packet)).min(1.0));
    // The base delay has the transmission of a small datagram in it, and the waits what delays scatter at rest.
    let small = time(f64::from(SMALL + train.facts.headers));
    let clocks = trains::CLOCK * 1e3 * seen.waits.last().map_or(0.0, |w| w.0);
    match stats::quantile_figure(late, 0.5) {
        Figure::Is { value, .. }
            if base.moved.max(base.strays)
                > DRIFTS * (value - left + small - base.at_tail).max(0.0) =>
        {
            Figure::cannot_tell(format!(
                "the base delay moved by {} ms during the flood",
                significant(base.moved.max(base.strays), 2)
            ))
        }
        Figure::Is { value, low, high } => Figure::Is {
            value: (value - left + small - base.at_tail).max(0.0),
            low: (low - own - base.most - base.strays - clocks).max(0.0),
            // A queue that counts bytes may have room for less than one datagram more.
            high: high - left + small + own - base.least + base.strays + clocks,
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

/// Packets in a full queue: one that has room for less than one more is full.
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

/// Parts of the queue that belong to the sending host and to the link.
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
            "the sending host's own interface is slower than the link, whose queue so never filled",
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
                    "the queue of the link alone",
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
            " It is the sending host's own queue: its interface is slower than the link.";
    }
}
