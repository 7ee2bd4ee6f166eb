//! How much the queue in front of this line holds, in time and in bytes; and whether a burst allowance stands before it.
//!
//! **Method.** Small datagrams at rest give the base delay. Then twice what the line carries is sent until the delay grows no
//! more and datagrams are lost: the queue is full. Median delay then, less the base and what is left of the transmission that a
//! datagram meets, is the queue in ms (as Netalyzr and BFind take the difference of loaded and idle round trips; here of one
//! direction alone), and times the rate that comes out its size in bytes. A flood that is not long enough to fill the queue is repeated four times as long. Arrivals
//! in equal stretches of time show a token bucket as a step down of the rate: what came before the step above the rate
//! after it is the bucket's size. The queue then has two delays: the same bytes leave at the higher rate first and
//! at the lower one later.
//!
//! **Source.** A. Akella, S. Seshan, A. Shaikh, "An empirical evaluation of wide-area Internet bottlenecks", IMC 2003 (BFind);
//! C. Kreibich, N. Weaver, B. Nechaev, V. Paxson, "Netalyzr: illuminating the edge network", IMC 2010; P. Kanuparthy,
//! C. Dovrolis, "ShaperProbe: end-to-end detection of ISP traffic shaping using active methods", IMC 2011 (the step).
//!
//! What the sending host's own queue holds is found apart (`own`) and taken off: where that host's interface is the
//! slowest part, its queue is the one that fills.
//!
//! **Limits.** A queue may count bytes or packets: its bytes hold for datagrams of the flood's size, and its packets too. One that
//! counts bytes may have room for less than one datagram more, by which the interval in bytes is wider.
//!
//! **Deviations.** One-way delays in place of round trips. ShaperProbe sends at the capacity, this above it.
//!
//! **Units.** Sizes in bytes of whole IP packets, rates of whole IP packets.

mod managed;
mod own;

pub(super) use managed::is_managed;

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::{self, SCOUT, of_stage, one, received_rate, seconds, waits};
use base::Bytes;
use base::program::{Due, MOST_DATAGRAMS, Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use base::{BitsPerSec, Duration};
use stats::Figure;

/// Full packets on every link of 1500 bytes, IPv4 and IPv6: a queue that counts packets is told by those that fill links.
const PAYLOAD: u32 = 1452;
/// Payload of a small datagram.
const SMALL: u32 = 50;
/// Small datagrams before a flood, which say how long an empty queue takes.
const RESTING: u64 = 20;
const FIRST_FLOOD: Duration = Duration::from_secs(4);
const LONGEST_FLOOD: Duration = Duration::from_secs(100);
const FLOODS: usize = 5;
/// Name and length in s of the stage after the last flood.
const AFTER: &str = "rest";
const AFTER_S: f64 = 1.0;
/// Silence before each flood.
const REST: Duration = Duration::from_secs(2);
/// Where the time is bounded, the first flood is one that may be enough: so many bytes at twice the rate of the line.
const CHEAP: f64 = 2e6;
/// A flood shorter than this tells nothing.
const SHORTEST_FLOOD: f64 = 0.2;
/// A flood must exceed the peak rate by this factor to show it, and so many stretches must show it.
const ABOVE_PEAK: f64 = 1.05;
const EARLY: usize = 4;
/// Share of its size that a bucket is not known by: the two rates before and after the step are not exact.
const BUCKET: f64 = 0.005;
/// From this share of early losses on a law dropped them, in front of the link rather than behind it.
const LOSES_MUCH: f64 = 0.05;
/// ShaperProbe: a step of less than a tenth is none.
const STEP: f64 = 1.10;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "buffer": "How much does the queue in front of this line hold, in time and bytes, and is there a burst allowance?", ["C. Kreibich et al., Netalyzr: illuminating the edge network, IMC 2010",
            "A. Akella, S. Seshan, A. Shaikh, An empirical evaluation of wide-area Internet bottlenecks, IMC 2003",
            "P. Kanuparthy, C. Dovrolis, ShaperProbe, IMC 2011",] {
        /// which way to send
        direction: Direction = "up";
        /// payload of each datagram of the flood; a queue that counts packets holds less of smaller ones
        size: Bytes = "1452 B" ["100 B".."65507 B"], "whole in 1500 bytes, IPv4 and IPv6; Netalyzr takes 1024 B";
        /// how long to flood; 4 s, and longer until the queue is full
        hold: Option<Duration> ["1 s".."100 s"];
        /// small datagrams before and after the flood for so long; 30 s with hold=30s is the usual picture of a flood
        before: Duration = "1 s" ["1 s".."60 s"];
        /// first find how much the sending host itself holds: datagrams as fast as it can, until it refuses one
        own: bool = "false", "document 002, table 3.1.3";
        /// floods end within so long, draining included; what that does not fill is told as "at least"
        within: Option<Duration> ["8 s".."1000 s"];
        /// send at most so much in all
        most: Option<Bytes> ["10 kB".."100 GB"];
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about a quarter of a minute on a line with a second of queue, twice what the line carries in that time",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// A small datagram every so often, a flood, and small ones again while the queue drains.
fn flood(params: &Params, rate: f64, time: Duration) -> Program {
    let payload = params.size.get() as u32;
    let before = params.before;
    let small = Shot {
        payload: SMALL,
        gap: Duration::from_nanos(before.as_nanos() / RESTING),
    };
    let steps = vec![
        Step::new(RESTING, vec![small]),
        Step::steady(payload, BitsPerSec::new(rate as u64), time),
    ];
    Program::within(steps)
}

/// Rate of the latest flood, and how long it was.
fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let way = params.direction;
    let Some(scout) = of_stage(trains, SCOUT).next() else {
        return Some(trains::scout(way, PAYLOAD));
    };
    let rough = received_rate(scout, 0.0)?;
    if params.own && of_stage(trains, "flood").next().is_none() {
        let left = params.most.map(|m| {
            let sent = trains
                .iter()
                .map(|t| t.facts.program.bytes(t.facts.headers).get());
            m.get() as f64 - sent.sum::<u64>() as f64
        });
        let payload = params.size.get() as u32;
        if let Some(burst) = own::next(way, payload, trains, left) {
            return Some(burst);
        }
    }
    let floods: Vec<&Train> = of_stage(trains, "flood").collect();
    let bounds = Bounds::of(params, trains);
    let (rate, time) = match floods.last() {
        None => {
            let rate = 2.0 * rough;
            let first = match bounds.within {
                Some(_) => FIRST_FLOOD.max(seconds(CHEAP * 8.0 / rate)),
                None => FIRST_FLOOD,
            };
            let wanted = params.hold.unwrap_or(first).as_secs_f64();
            let time = wanted.min(bounds.longest(rate));
            if time < SHORTEST_FLOOD {
                return None;
            }
            (rate, seconds(time))
        }
        Some(last) => {
            if floods.len() >= FLOODS {
                return rest_after(trains, way, &bounds);
            }
            let lasted = last.facts.program.steps().get(1)?;
            let gap = lasted.shots.first()?.gap.as_secs_f64();
            let sent = f64::from(lasted.shots.first()?.payload) * 8.0 / gap;
            let time = gap * lasted.times as f64;
            let longer = (4.0 * time).min(bounds.longest(sent)).max(0.001);
            let longer = seconds(longer);
            let more = params.hold.is_none() && longer.as_secs_f64() > 1.01 * time;
            let Some(seen) = look(last) else {
                // A line of a few datagrams a second.
                return more.then(|| sending(params, sent, longer));
            };
            if !seen.overloaded {
                // The first look was at a rate that the line takes with ease.
                let time = time.min(bounds.longest(2.0 * sent));
                if time < SHORTEST_FLOOD {
                    return None;
                }
                (2.0 * sent, seconds(time))
            } else if !seen.full && more {
                (sent, longer)
            } else {
                return rest_after(trains, way, &bounds);
            }
        }
    };
    Some(sending(params, rate, time))
}

/// Small datagrams once the queue is empty again: they tell how far the base delay moved during the flood.
fn rest_after(trains: &[Train], way: Direction, bounds: &Bounds) -> Option<Sending> {
    let affordable = bounds.within.is_none_or(|left| left > AFTER_S)
        && bounds.most.is_none_or(|left| left > RESTING as f64 * 100.0);
    let sent = of_stage(trains, AFTER).next().is_some();
    let small = Shot {
        payload: SMALL,
        gap: seconds(AFTER_S / RESTING as f64),
    };
    (affordable && !sent).then(|| one(AFTER, way, REST, Step::new(RESTING, vec![small])))
}

fn sending(params: &Params, rate: f64, time: Duration) -> Sending {
    // A rate far above what a first look saw may be more than a program takes.
    let payload = params.size.get() as f64;
    let most = 0.9 * MOST_DATAGRAMS as f64 * payload * 8.0 / time.as_secs_f64();
    Sending {
        stage: "flood".into(),
        direction: params.direction,
        programs: vec![flood(params, rate.min(most), time)],
        rest: REST,
    }
}

/// What is left of the time and the bytes that were given.
struct Bounds {
    within: Option<f64>,
    most: Option<f64>,
    before: f64,
    packet: f64,
    payload: f64,
}

impl Bounds {
    fn of(params: &Params, trains: &[Train]) -> Bounds {
        let took = |t: &Train| {
            let waited = waits(t).iter().map(|w| w.1 * 1e-3).fold(0.0, f64::max);
            // Agreeing on a train and getting its stamps takes some round trips.
            t.facts.program.time().as_secs_f64() + waited + 0.5
        };
        let rests = of_stage(trains, "flood").count() as f64 * REST.as_secs_f64();
        let time: f64 = trains.iter().map(took).sum();
        let bytes: u64 = trains
            .iter()
            .map(|t| t.facts.program.bytes(t.facts.headers).get())
            .sum();
        let payload = params.size.get() as f64;
        Bounds {
            within: params
                .within
                .map(|w| w.as_secs_f64() - time - rests - REST.as_secs_f64()),
            most: params.most.map(|m| m.get() as f64 - bytes as f64),
            before: params.before.as_secs_f64(),
            // IPv6 has the longer headers.
            packet: payload + 48.0,
            payload,
        }
    }

    /// How long a flood of this rate of payload may last, s. What it leaves in the queue takes as long again to drain.
    fn longest(&self, rate: f64) -> f64 {
        let time = self.within.map(|left| (left - self.before - 1.0) / 2.0);
        let small = RESTING as f64 * 100.0;
        let bytes = self
            .most
            .map(|left| (left - small) * 8.0 / (rate * self.packet / self.payload));
        [time, bytes]
            .into_iter()
            .flatten()
            .fold(LONGEST_FLOOD.as_secs_f64(), f64::min)
            .max(0.0)
    }
}

/// What one flood shows.
struct Seen {
    /// Time since the train began, s, and wait, ms, of every datagram of the flood that arrived.
    waits: Vec<(f64, f64)>,
    /// IP bytes a second in equal stretches of arrival time, and the length of one, s.
    rates: Vec<f64>,
    stretch: f64,
    /// More came in than came out.
    overloaded: bool,
    /// Datagrams were lost, and the delay had ceased to grow.
    full: bool,
    /// And not only refused by the sending host.
    lost_on_line: bool,
    packet: f64,
}

fn look(train: &Train) -> Option<Seen> {
    let flood: Vec<_> = train.datagrams().filter(|(due, _)| due.step == 1).collect();
    let packet =
        f64::from(train.facts.program.steps().get(1)?.shots.first()?.payload + train.facts.headers);
    let began = train.began_ns()?;
    let arrived: Vec<i64> = {
        let mut all: Vec<i64> = flood.iter().filter_map(|(_, f)| f.received_ns).collect();
        all.sort_unstable();
        all
    };
    let sent: Vec<i64> = flood.iter().filter_map(|(_, f)| f.sent_ns).collect();
    if arrived.len() < 60 || sent.len() < 2 {
        return None;
    }
    // A base that small datagrams gave is less than that of a large one by the time it takes on the line.
    let least = train.delays().map(|d| d.1).min()?;
    let waits: Vec<(f64, f64)> = flood
        .iter()
        .filter_map(|(_, f)| {
            let (sent, received) = (f.sent_ns?, f.received_ns?);
            Some((
                (sent - began) as f64 * 1e-9,
                (received - sent - least) as f64 * 1e-6,
            ))
        })
        .collect();
    // While the flood lasts, so that what drains afterwards counts too, but at its own pace.
    let span = (arrived[arrived.len() - 1] - arrived[0]) as f64 * 1e-9;
    let stretches = (arrived.len() / 12).clamp(8, 120);
    let stretch = span / stretches as f64;
    let rates = rates(&arrived, packet, stretch, stretches);
    let took = (sent[sent.len() - 1] - sent[0]) as f64;
    let overloaded = span * 1e9 > 1.1 * took || arrived.len() < flood.len() * 93 / 100;
    let third = waits.len() / 3;
    let median = |w: &[(f64, f64)]| {
        stats::quantile_of_sorted(
            &stats::sorted(&w.iter().map(|w| w.1).collect::<Vec<_>>()),
            0.5,
        )
    };
    let (middle, last) = (
        median(&waits[third..2 * third])?,
        median(&waits[2 * third..])?,
    );
    let lost_late = flood[flood.len() / 2..]
        .iter()
        // Lost by the line, or refused by a host whose own queue was full.
        .any(|(_, f)| f.received_ns.is_none());
    let lost_on_line = flood
        .iter()
        .any(|(_, f)| f.sent_ns.is_some() && f.received_ns.is_none());
    Some(Seen {
        lost_on_line,
        waits,
        rates,
        stretch,
        overloaded,
        full: lost_late && last < 1.08 * middle + 1.0,
        packet,
    })
}

/// Rates in equal stretches from the first arrival on, bit/s. What lies between two arrivals counts to both of the stretches
/// that it lies in: a stretch of a dozen packets would else be off by one of them.
fn rates(arrived: &[i64], packet: f64, stretch: f64, stretches: usize) -> Vec<f64> {
    let mut rates = vec![0.0; stretches];
    let at = |t: i64| (t - arrived[0]) as f64 * 1e-9 / stretch;
    for two in arrived.windows(2) {
        let (from, to) = (at(two[0]), at(two[1]));
        let last = (to as usize).min(stretches - 1);
        let first = (from as usize).min(last);
        for (i, rate) in rates.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = from.max(i as f64);
            let end = if i == last { to } else { i as f64 + 1.0 };
            let share = if to > from {
                (end - begin) / (to - from)
            } else {
                1.0
            };
            *rate += share * packet * 8.0 / stretch;
        }
    }
    rates
}

/// A token bucket: rates before and after the step, bit/s, and its size, bytes.
struct Bucket {
    peak: f64,
    sustained: f64,
    /// Rates of the stretches before the step, and after it.
    early: Vec<f64>,
    settled: Vec<f64>,
    bytes: f64,
    /// When the step was, s since the first arrival.
    at: f64,
    /// Upper limit on the tokens that earlier trains had taken from it, bytes.
    taken: f64,
}

impl Bucket {
    /// Its bytes, the rate before it was empty and the rate after: the rates' clocks differ, and a stretch is known to a packet.
    fn figures(&self, seen: &Seen, sent_bps: f64) -> [Figure; 3] {
        let bytes = Figure::Is {
            value: self.bytes,
            low: (self.bytes - 2.0 * seen.packet).max(0.0),
            high: self.bytes + 2.0 * seen.packet + self.taken,
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
        [
            bytes.widened(BUCKET),
            peak,
            rate(self.sustained, &self.settled),
        ]
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
        early: before.to_vec(),
        settled: after.to_vec(),
        // The first datagram of all marked the begin and was not counted.
        bytes: above + seen.packet,
        at: cut as f64 * seen.stretch,
        taken: 0.0,
    })
}

fn answer(params: &Params, trains: &[Train]) -> Outcome {
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
        .filter_map(|t| {
            let found = bucket(&look(t)?)?;
            let taken = taken_before(trains, t.number, found.sustained);
            Some(Bucket { taken, ..found })
        })
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
    let early = managed::lost_early(train);
    let rate = with_lost(rate, early.as_ref());
    let bps = rate.value().unwrap_or(0.0);
    let base = Base::of(trains, train, &seen);
    let queue_ms = held_ms(train, &seen, &late, bps, &base);
    let queue_bytes = queue_ms.bytes_at(&rate);
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
        let [bytes, peak, sustained] = b.figures(&seen, sent_bps(train, seen.packet));
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
    if let Some(early) = early {
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

/// The rate that came out, up to the one that a link behind the queue may have lost a part of.
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
    /// At the flood's last third, between the medians before and after it.
    at_tail: f64,
    /// Smaller of the two medians, and larger of the two 95 % quantiles.
    least: f64,
    most: f64,
}

impl Base {
    fn of(trains: &[Train], flood: &Train, seen: &Seen) -> Base {
        let at = |v: &[f64], p: f64| stats::quantile_of_sorted(&stats::sorted(v), p);
        let median = |v: &[f64]| at(v, 0.5);
        let waits = waits(flood);
        let before: Vec<f64> = waits.iter().take(RESTING as usize).map(|w| w.1).collect();
        let at_rest = median(&before).unwrap_or(0.0);
        // Jitter that keeps the order delays dense datagrams more than sparse ones, up to all of it.
        let most = at(&before, 0.95).unwrap_or(0.0);
        let still = Base {
            at_rest,
            at_tail: at_rest,
            least: at_rest,
            most,
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
        Figure::Is { value, low, high } => Figure::Is {
            value: (value - left + small - base.at_tail).max(0.0),
            low: (low - own - base.most - clocks).max(0.0),
            // A queue that counts bytes may have room for less than one datagram more.
            high: high - left + small + own - base.least + clocks,
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

/// A flood without the small datagrams before it; what arrived of it without the time in which the queue filled.
fn row(train: &Train) -> Vec<String> {
    let flood = || train.datagrams().filter(|(due, _)| due.step == 1);
    let bits = |due: &Due| f64::from(due.payload + train.facts.headers) * 8.0;
    let per_second = |mut at: Vec<(i64, f64)>| {
        at.sort_unstable_by_key(|a| a.0);
        let ((first, _), (last, _)) = (at.first()?, at.last()?);
        let seconds = (last - first) as f64 * 1e-9;
        (seconds > 0.0).then(|| (seconds, at[1..].iter().map(|a| a.1).sum::<f64>() / seconds))
    };
    let sent = per_second(
        flood()
            .filter_map(|(d, f)| Some((f.sent_ns?, bits(&d))))
            .collect(),
    );
    let came: Vec<(i64, f64)> = flood()
        .filter_map(|(d, f)| Some((f.received_ns?, bits(&d))))
        .collect();
    let came = per_second(came[came.len() * 3 / 10..].to_vec());
    let mbps = |rate: Option<(f64, f64)>| rate.map_or("?".into(), |r| significant(r.1 / 1e6, 3));
    vec![
        sent.map_or("?".into(), |s| significant(s.0, 3)),
        mbps(sent),
        mbps(came),
        train.lost().to_string(),
        look(train)
            .map_or("?", |s| if s.full { "yes" } else { "no" })
            .into(),
    ]
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

fn delay_plot(train: &Train) -> Plot {
    let all = waits(train);
    // A picture has a thousand columns.
    let each = all.len().div_ceil(1500).max(1);
    Plot {
        title: "Delay".into(),
        x: "s".into(),
        y: "ms above the least".into(),
        series: vec![Series {
            name: String::new(),
            draw: Draw::Dots,
            points: all.iter().step_by(each).map(|w| (w.0, Some(w.1))).collect(),
        }],
    }
}

fn rate_plot(seen: &Seen) -> Plot {
    Plot {
        title: "What comes out".into(),
        x: "s since the first arrival of the flood".into(),
        y: "Mbit/s of IP packets".into(),
        series: vec![Series {
            name: String::new(),
            draw: Draw::Line,
            points: seen
                .rates
                .iter()
                .enumerate()
                .map(|(i, r)| ((i as f64 + 0.5) * seen.stretch, Some(r / 1e6)))
                .collect(),
        }],
    }
}
