//! Steps: the next sending, given all trains so far.

use super::{PAYLOAD, Params, carries, chirp, line, packet_bits, size, streams};
use crate::trains::{SCOUT, of_stage, one, received_rate, scout, seconds};
use base::program::{Program, Sending, Shot, Step, Train};
use base::{BitsPerSec, Duration};

const SMALL: u32 = 50;

/// Sizes in turn: the differences between the smallest and the largest tell most.
const SIZES: [u32; 8] = [50, 250, 450, 650, 850, 1050, 1250, 1452];

/// Number of packets of a train, and number of trains.
const TRAIN: u64 = 60;

const TRAINS: usize = 8;

/// Length of a stream: the link's time for this many packets, within these limits.
const STREAM: f64 = 1000.0;

const SHORTEST_S: f64 = 0.3;

const LONGEST_S: f64 = 7.0;

/// Number of measuring streams, and the share of the capacity by which they exceed the estimated available rate.
const MEASURES: usize = 8;

const ABOVE: f64 = 0.06;

/// Packets at once at the begin of a stream, so that the queue is not empty: half of those that the scout showed to
/// pass.
const AHEAD: u64 = 6;

/// Duration of a method that sends little, s.
const PATIENCE_S: f64 = 20.0;

/// Capacity that later stages are planned with, bit/s: a lower bound if nothing better is known.
fn working(trains: &[Train]) -> Option<f64> {
    carries(trains)
        .value()
        .or_else(|| size::capacity(trains).value())
}

/// Random gaps with this mean: packets sent at strict intervals meet cross traffic at one phase only.
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

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
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
        return Some(one("size", way, rest, sizes_step(rough, bits)));
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
    let ahead = if first.lost() == 0 { AHEAD } else { 1 };
    let stream = |stage: &str, rate: f64| Sending {
        stage: format!("{stage} {}", rate as u64),
        direction: way,
        programs: vec![stream(ahead, rate, own, bits)],
        rest,
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
        return Some(one("chirp", way, rest, chirps_step(light, capacity, bits)));
    }
    let (stage, step) = path_step(trains, capacity, first.facts.headers)?;
    Some(one(stage, way, Duration::from_secs(1), step))
}

/// Datagrams of all sizes at random times, of which a slow link shows the serialization delay.
fn sizes_step(rough: f64, bits: f64) -> Step {
    let mean_s = (bits / 2.0 / (0.08 * rough)).min(0.3);
    let rounds = (PATIENCE_S / 8.0 / mean_s).clamp(12.0, 60.0);
    let shots = SIZES.into_iter().zip(at_random(mean_s));
    let shots = shots.map(|(payload, gap)| Shot {
        payload,
        gap: gap + Duration::from_secs_f64(mean_s / 2.0),
    });
    Step::new(rounds as u64, shots.collect())
}

/// Stream at `rate`, behind a burst of `ahead` datagrams; `own` is the serialization time of one, s.
fn stream(ahead: u64, rate: f64, own: f64, bits: f64) -> Program {
    let time = (STREAM * own).max(60.0 * bits / rate);
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
    Program::within(steps)
}

/// Chirps that add `light` bit/s on average.
fn chirps_step(light: f64, capacity: f64, bits: f64) -> Step {
    let own = bits / capacity;
    let packets = 30.0;
    let silence = (packets * bits / light - chirp::length(bits, capacity)).max(20.0 * own);
    let each = silence + chirp::length(bits, capacity);
    let times = (PATIENCE_S / each).clamp(8.0, 60.0) as u64;
    chirp::step(PAYLOAD, bits, capacity, times, silence)
}

/// Next of the trickles and floods of large and small datagrams.
fn path_step(trains: &[Train], capacity: f64, headers: u32) -> Option<(&'static str, Step)> {
    let tried = of_stage(trains, "trickle").count() + of_stage(trains, "flood").count();
    let (stage, payload, share) = *[
        ("trickle large", PAYLOAD, 0.05),
        ("trickle small", SMALL, 0.02),
        ("flood large", PAYLOAD, 1.5),
        ("flood small", SMALL, 1.5),
    ]
    .get(tried)?;
    let whole = f64::from(payload + headers) * 8.0;
    // No host sends many more in a second.
    let rate = (share * capacity).min(20_000.0 * whole) * f64::from(payload) * 8.0 / whole;
    let rate = BitsPerSec::new(rate as u64);
    let step = Step::steady(payload, rate, Duration::from_millis(1500));
    Some((stage, step))
}
