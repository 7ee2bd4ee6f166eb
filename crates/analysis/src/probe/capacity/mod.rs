//! What a line carries, and how much of it is free.
//!
//! **Method.** Six of them one after the other, for they fail in different ways: pairs back to back and sizes in turn for
//! what the line carries, trains back to back for what comes out of it, streams that load the line themselves, chirps, and
//! pairs that look at what comes between them for what is free. Floods and trickles of large and of small packets show the
//! line under load and at rest. Pairs have the word on the one figure, or trains where these are not slower, streams on the
//! other; the others stand beside them.
//!
//! **Source.** Each method's is in its file; the choice of them is that of document 002, sections 2.1 and 2.3.1.
//!
//! **Units.** Rates are of whole IP packets, bit/s.
//!
//! **Validated against.** Lines of known rate under known traffic of others: docs/book/probe/accuracy.md.

mod chirp;
mod pairs;
mod size;
mod streams;

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::{CLOCK, SCOUT, loss, of_stage, one, received_rate, scout, seconds, waits};
use base::program::{Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use base::{BitsPerSec, Duration};
use stats::Figure;
use streams::Line;

/// Whole on every link of 1500 bytes, IPv4 and IPv6.
const PAYLOAD: u32 = 1452;
const SMALL: u32 = 50;
/// Sizes in turn: the differences between the smallest and the largest say most.
const SIZES: [u32; 8] = [50, 250, 450, 650, 850, 1050, 1250, 1452];
/// Packets that a train has, and trains.
const TRAIN: u64 = 60;
const TRAINS: usize = 8;
/// A stream lasts as long as the line needs for so many packets, within these bounds.
const STREAM: f64 = 1000.0;
const SHORTEST_S: f64 = 0.3;
const LONGEST_S: f64 = 7.0;
/// Streams that measure, and by which share of the capacity they are faster than what seems free.
const MEASURES: usize = 8;
const ABOVE: f64 = 0.06;
/// Streams begin with so many at once, so that the queue is not empty: half of what the scout showed to pass.
const AHEAD: u64 = 6;
/// A train that is slower than pairs by less than this share met no cross traffic.
const AGREE: f64 = 0.005;
/// From this share of the capacity on all of it is free.
const ALL_FREE: f64 = 0.995;
/// A method that sends little takes so long.
const PATIENCE_S: f64 = 20.0;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "capacity": "How much does this line carry, and how much of it is free beside what others send?", ["Jain, Dovrolis, Pathload: A Measurement Tool for End-to-End Available Bandwidth, PAM 2002",
            "Kapoor et al., CapProbe: A Simple and Accurate Capacity Estimation Technique, SIGCOMM 2004",
            "Ribeiro et al., pathChirp: Efficient Available Bandwidth Estimation for Network Paths, PAM 2003",
            "Strauss, Katabi, Kaashoek, A Measurement Study of Available Bandwidth Estimation Tools, IMC 2003",] {
        /// which way to send
        direction: Direction = "up";
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "three minutes at 2 Mbit/s, one from 20 Mbit/s on; some 25 MB",
    beside_others: true,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// Bits of a large packet.
fn packet_bits(trains: &[Train]) -> f64 {
    f64::from(PAYLOAD + trains.first().map_or(28, |t| t.facts.headers)) * 8.0
}

/// Capacity of the link. Sizes alone give no more than a lower bound, for all links of the path add up in them.
fn carries(trains: &[Train]) -> Figure {
    let bits = packet_bits(trains);
    let train = pairs::dispersion(trains, bits);
    let found = match (pairs::capacity(trains, bits), size::capacity(trains)) {
        (found @ Figure::Is { .. }, _) => at_least_trains(found, &train),
        (untold, Figure::CannotTell { .. }) => untold,
        (Figure::CannotTell { cannot_tell }, sizes @ Figure::Is { .. }) => match (&sizes, &train) {
            (Figure::Is { low, .. }, Figure::Is { value, .. }) if *value >= (1.0 - AGREE) * low => {
                at_least_trains(sizes, &train)
            }
            _ => Figure::cannot_tell(cannot_tell),
        },
    };
    found.widened(CLOCK)
}

/// Capacity that later stages are planned with, bit/s: a lower bound if nothing better is known.
fn working(trains: &[Train]) -> Option<f64> {
    carries(trains)
        .value()
        .or_else(|| size::capacity(trains).value())
}

/// The sizes' figure beside the capacity: it reaches up to the capacity, for it adds up all links of the path.
fn sizes_beside(sizes: Figure, carries: &Figure) -> Figure {
    match (sizes.widened(CLOCK), carries) {
        (Figure::Is { value, low, high }, Figure::Is { high: most, .. }) => Figure::Is {
            value,
            low,
            high: high.max(*most),
        },
        (Figure::Is { low, .. }, Figure::CannotTell { .. }) => Figure::cannot_tell(format!(
            "at least {} Mbit/s: all links of the path add up in it",
            significant(low / 1e6, 3)
        )),
        (untold, _) => untold,
    }
}

/// A free rate that reaches up to the whole capacity is known no better than the capacity is.
fn free_of(free: Figure, carries: &Figure) -> Figure {
    match (free.widened(CLOCK), carries) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: all,
                low: least,
                high: most,
            },
        ) if high > ALL_FREE * all => Figure::Is {
            value,
            low: if value > ALL_FREE * all {
                low.min(*least)
            } else {
                low
            },
            high: high.max(*most),
        },
        (free, _) => free,
    }
}

/// Nothing makes a long train leave a link faster than the link carries, and on an idle link nothing makes it slower. So a train
/// that is not slower than `found` allows has the word: stamps that are late by a part of a packet's time bend pairs, and
/// hardly a train.
fn at_least_trains(found: Figure, train: &Figure) -> Figure {
    let (
        Figure::Is { value, low, .. },
        Figure::Is {
            value: by,
            low: least,
            high: most,
        },
    ) = (&found, train)
    else {
        return found;
    };
    if *by < (1.0 - AGREE) * low {
        // Cross traffic came between the packets of the train.
        return found;
    }
    Figure::Is {
        value: *by,
        low: *least,
        // Little cross traffic would make the train slower than the link, by no more than this.
        high: most.max(*value),
    }
}

/// What streams need to know of it.
fn line(trains: &[Train], capacity: f64) -> Line {
    let light = of_stage(trains, "pairs").chain(of_stage(trains, "size"));
    let (sent, lost) = light.fold((0, 0), |(s, l), t| (s + t.sent(), l + t.lost()));
    Line {
        capacity,
        bits: packet_bits(trains),
        loss: lost as f64 / f64::from(u32::try_from(sent).unwrap_or(u32::MAX).max(1)),
    }
}

/// Gaps as if by chance, of this mean: what is sent at strict intervals sees others' at one phase only.
fn at_random(mean_s: f64) -> impl Iterator<Item = Duration> {
    (0u32..).map(move |i| {
        // Quantiles of the exponential distribution in a scattered order.
        let u = (f64::from(i % 61 * 37 % 61) + 0.5) / 61.0;
        Duration::from_secs_f64(-u.ln() * mean_s)
    })
}

/// Pairs `within` apart, the next one after `mean_s` on average, for as long as a patient person waits.
fn pairs_step(within: Duration, mean_s: f64, fewest: f64, most: f64) -> Step {
    let mean_s = mean_s.min(1.0);
    let count = (PATIENCE_S / mean_s).clamp(fewest, most);
    let shots = at_random(mean_s).take(61).flat_map(|gap| {
        let shot = |gap| Shot {
            payload: PAYLOAD,
            gap,
        };
        [shot(within), shot(gap)]
    });
    Step::new((count / 61.0).ceil() as u64, shots.collect())
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let way = params.direction;
    let Some(first) = of_stage(trains, SCOUT).next() else {
        return Some(scout(way, PAYLOAD));
    };
    let bits = packet_bits(trains);
    let rest = Duration::from_millis(500);
    let sent = |stage: &str| of_stage(trains, stage).next().is_some();
    if !sent("pairs") {
        let rough = received_rate(first, 0.0)?;
        let step = pairs_step(Duration::ZERO, 2.0 * bits / (0.1 * rough), 61.0, 183.0);
        return Some(one("pairs", way, rest, step));
    }
    if !sent("size") {
        let rough = working(trains).or(received_rate(first, 0.0))?;
        let mean_s = (bits / 2.0 / (0.08 * rough)).min(0.3);
        let rounds = (PATIENCE_S / 8.0 / mean_s).clamp(12.0, 60.0);
        let shots = SIZES.into_iter().zip(at_random(mean_s));
        let shots = shots.map(|(payload, gap)| Shot {
            payload,
            gap: gap + Duration::from_secs_f64(mean_s / 2.0),
        });
        return Some(one(
            "size",
            way,
            rest,
            Step::new(rounds as u64, shots.collect()),
        ));
    }
    let capacity = working(trains)?;
    let own = bits / capacity;
    if !sent("train") {
        let pause = seconds(1.5 * TRAIN as f64 * own + 0.1);
        let step = Step::burst(TRAIN, PAYLOAD).then_pause(pause);
        let program = Program::within(vec![step; TRAINS]);
        return Some(Sending {
            stage: "train".into(),
            direction: way,
            programs: vec![program],
            rest,
        });
    }
    let stream = |stage: &str, rate: f64| {
        let time = (STREAM * own).max(60.0 * bits / rate);
        let ahead = if first.lost() == 0 { AHEAD } else { 1 };
        let gap = Duration::from_secs_f64(bits / rate);
        let shot = Shot {
            payload: PAYLOAD,
            gap,
        };
        let count = time.clamp(SHORTEST_S, LONGEST_S.max(60.0 * own)) * rate / bits;
        let steps = vec![
            Step::burst(ahead, PAYLOAD),
            Step::new((count as u64).max(60), vec![shot]),
        ];
        Sending {
            stage: format!("{stage} {}", rate as u64),
            direction: way,
            programs: vec![Program::within(steps)],
            rest,
        }
    };
    let line = line(trains, capacity);
    if let Some(rate) = streams::next_rate(trains, &line)
        && !sent("measure")
    {
        return Some(stream("stream", rate));
    }
    let free = streams::estimate(trains, &line);
    if of_stage(trains, "measure").count() < MEASURES {
        return Some(stream("measure", free + ABOVE * capacity));
    }
    // These shall hardly add to what others send.
    let light = (0.3 * free).clamp(0.02 * capacity, 0.1 * capacity);
    if !sent("between") {
        let within = Duration::from_secs_f64(own);
        let step = pairs_step(within, 2.0 * bits / light, 122.0, 610.0);
        return Some(one("between", way, rest, step));
    }
    if !sent("chirp") {
        let packets = 30.0;
        let silence = (packets * bits / light - chirp::length(bits, capacity)).max(20.0 * own);
        let each = silence + chirp::length(bits, capacity);
        let times = (PATIENCE_S / each).clamp(8.0, 60.0) as u64;
        return Some(one(
            "chirp",
            way,
            rest,
            chirp::step(PAYLOAD, bits, capacity, times, silence),
        ));
    }
    let tried = of_stage(trains, "trickle").count() + of_stage(trains, "flood").count();
    let (stage, payload, share) = *[
        ("trickle large", PAYLOAD, 0.05),
        ("trickle small", SMALL, 0.02),
        ("flood large", PAYLOAD, 1.5),
        ("flood small", SMALL, 1.5),
    ]
    .get(tried)?;
    let whole = f64::from(payload + first.facts.headers) * 8.0;
    // No host sends many more in a second.
    let rate = (share * capacity).min(20_000.0 * whole) * f64::from(payload) * 8.0 / whole;
    let rate = BitsPerSec::new(rate as u64);
    let step = Step::steady(payload, rate, Duration::from_millis(1500));
    Some(one(stage, way, Duration::from_secs(1), step))
}

/// One method's say.
struct Said {
    method: &'static str,
    of: &'static str,
    key: &'static str,
    figure: Figure,
    fails: &'static str,
}

fn methods(trains: &[Train], carries: &Figure) -> Vec<Said> {
    let bits = packet_bits(trains);
    let capacity = carries.value();
    let free = |f: fn(&[Train], f64, f64) -> Figure| match capacity {
        Some(c) => free_of(f(trains, c, bits), carries),
        None => Figure::cannot_tell("it needs what the line carries"),
    };
    let said = |method, of, key, figure, fails| Said {
        method,
        of,
        key,
        figure,
        fails,
    };
    vec![
        said(
            "pairs",
            "carries",
            "pairs_bps",
            pairs::capacity(trains, bits),
            "shows a token bucket's higher rate; jitter, and lines side by side, are no bottleneck's time",
        ),
        said(
            "sizes",
            "carries",
            "sizes_bps",
            sizes_beside(size::capacity(trains), carries),
            "adds up all links on the way, switches too: too low behind several of like rate",
        ),
        said(
            "trains",
            "between",
            "trains_bps",
            pairs::dispersion(trains, bits),
            "beside others neither of the two: more than is free, less than the line carries",
        ),
        said(
            "streams",
            "free",
            "streams_bps",
            match capacity {
                Some(c) => free_of(streams::free(trains, &line(trains, c)), carries),
                None => Figure::cannot_tell("it needs what the line carries"),
            },
            "fair queueing shows a flow's share; what others send must last as long as the streams do",
        ),
        said(
            "chirps",
            "free",
            "chirps_bps",
            free(chirp::free),
            "a chirp is over before a queue has grown: too high the more others send, by half and more where they take 60 % or 80 %",
        ),
        said(
            "trains of pairs",
            "free",
            "between_bps",
            free(pairs::free),
            "sees others only while a pair passes: a wide interval; one bottleneck only",
        ),
    ]
}

fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let Some(first) = of_stage(trains, SCOUT).next() else {
        return Outcome::cannot_tell("the run ended before anything was sent");
    };
    if first.lost() == first.sent() {
        return Outcome::cannot_tell("not one datagram of the first train arrived");
    }
    let bits = packet_bits(trains);
    let carries = carries(trains);
    let said = methods(trains, &carries);
    let free = said
        .iter()
        .find(|s| s.key == "streams_bps")
        .map_or(Figure::cannot_tell("no stream was sent"), |s| {
            s.figure.clone()
        });
    let mbit = |f: &Figure| f.value().map(|v| significant(v / 1e6, 3));
    let says = match (mbit(&carries), mbit(&free)) {
        (Some(c), Some(a)) => format!(
            "The line carries {c} Mbit/s {}, of which {a} Mbit/s are free.",
            params.direction
        ),
        (Some(c), None) => format!(
            "The line carries {c} Mbit/s {}; how much of it is free cannot be told.",
            params.direction
        ),
        (None, _) => "Cannot tell what the line carries.".into(),
    };
    let mut figures = vec![
        Figured::new(
            "capacity_bps",
            "the line carries, whole IP packets",
            Quantity::Rate,
            carries.clone(),
        ),
        Figured::new(
            "available_bps",
            "of which free",
            Quantity::Rate,
            free.clone(),
        ),
    ];
    figures.extend(said.iter().map(|s| {
        let name = format!("by {} ({})", s.method, s.of);
        Figured::new(s.key, &name, Quantity::Rate, s.figure.clone())
    }));
    let mut outcome = Outcome {
        says,
        figures,
        tables: vec![methods_table(&said), trains_table(trains)],
        ..Outcome::default()
    };
    if let Some(c) = carries.value() {
        let (low, high, _) = streams::between(trains, &line(trains, c));
        outcome.evidence.push(format!(
            "streams up to {} Mbit/s did not make the delay grow, those from {} Mbit/s on did",
            significant(low / 1e6, 3),
            significant(high / 1e6, 3)
        ));
        outcome.plots.push(streams_plot(trains, &line(trains, c)));
    }
    if let (Some(c), Some(s)) = (
        pairs::capacity(trains, bits).value(),
        size::capacity(trains).value(),
    ) && s < 0.8 * c
    {
        outcome.doubts.push(format!(
            "pairs say {} Mbit/s and sizes {}: there is more than one slow link on the way, or one that stores whole packets",
            significant(c / 1e6, 3),
            significant(s / 1e6, 3)
        ));
    }
    for s in &said {
        if let Figure::CannotTell { cannot_tell } = &s.figure {
            outcome
                .evidence
                .push(format!("{} cannot tell: {cannot_tell}", s.method));
        }
    }
    outcome
}

fn methods_table(said: &[Said]) -> Table {
    let show = |v: f64| significant(v / 1e6, 3);
    Table {
        title: "Methods".into(),
        columns: ["method", "tells what", "Mbit/s", "95 %", "when it fails"]
            .map(String::from)
            .into(),
        rows: said
            .iter()
            .map(|s| {
                let (value, interval) = match &s.figure {
                    Figure::Is { value, low, high } => {
                        (show(*value), format!("{}–{}", show(*low), show(*high)))
                    }
                    Figure::CannotTell { .. } => ("?".into(), String::new()),
                };
                let of = match s.of {
                    "carries" => "what it carries",
                    "free" => "what is free",
                    _ => "in between",
                };
                vec![s.method.into(), of.into(), value, interval, s.fails.into()]
            })
            .collect(),
    }
}

/// Floods and trickles, of large and of small packets.
fn trains_table(trains: &[Train]) -> Table {
    let all = of_stage(trains, "trickle").chain(of_stage(trains, "flood"));
    Table {
        title: "Floods and trickles".into(),
        columns: [
            "train",
            "arrived, Mbit/s",
            "packets/s",
            "lost, %",
            "delay above least, ms",
            "95 % below",
        ]
        .map(String::from)
        .into(),
        rows: all
            .map(|t| {
                let payload = f64::from(t.facts.program.largest_payload());
                let rate = received_rate(t, 0.3).unwrap_or(0.0);
                let whole = (payload + f64::from(t.facts.headers)) / payload;
                let ms: Vec<f64> = waits(t).into_iter().map(|w| w.1).collect();
                let ms = stats::sorted(&ms);
                let at =
                    |p| stats::quantile_of_sorted(&ms, p).map_or("?".into(), |v| significant(v, 3));
                vec![
                    t.facts.stage.clone(),
                    significant(rate * whole / 1e6, 3),
                    significant(rate / (8.0 * payload), 3),
                    loss(t)
                        .value()
                        .map_or("?".into(), |v| significant(v * 100.0, 3)),
                    at(0.5),
                    at(0.95),
                ]
            })
            .collect(),
    }
}

fn streams_plot(trains: &[Train], line: &Line) -> Plot {
    let all = of_stage(trains, "stream").chain(of_stage(trains, "measure"));
    let mut points: Vec<(f64, Option<f64>)> = all
        .filter_map(|t| streams::of(t, line))
        .map(|s| (s.rate / 1e6, Some(s.growth * 1e3)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Plot {
        title: "How fast the delay grows".into(),
        x: "stream, Mbit/s of IP packets".into(),
        y: "ms in a second".into(),
        series: vec![Series {
            name: String::new(),
            draw: Draw::Marks,
            points,
        }],
    }
}
