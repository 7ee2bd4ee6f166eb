//! Patterns of radio and satellite links in recordings drawn at random, and recordings without any of them.

use analysis::patterns::{Found, Passage, Pattern, Patterns};
use base::rng::{Rng, Streams, uniform};

const S: f64 = 1e3;

/// Draw of a normal distribution, by Box and Muller.
fn standard_normal(c: &mut Rng) -> f64 {
    (-2.0 * (1.0 - uniform(c)).ln()).sqrt() * (std::f64::consts::TAU * uniform(c)).cos()
}

/// Truth of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Truth {
    Satellite,
    Grants(f64),
    Drx(f64),
    Handovers,
    Quiet,
    Bursts,
    Congestion,
    Minutely,
    EachQuarter,
    Square,
    Aliased(f64),
    Walk,
    Blocked,
    Stopped,
}

const WITH: [&str; 5] = [
    "reconfiguration each 15 s",
    "scheduling grants",
    "DRX",
    "handovers",
    "blocked beam",
];
const WITHOUT: [&str; 9] = [
    "quiet",
    "Poisson bursts",
    "congestion by the hour",
    "an upload each minute",
    "an upload each 15 s",
    "on and off, 15 s each",
    "probes at multiples of a grid",
    "a level that walks",
    "stopped host",
];

fn pick<T: Copy>(c: &mut Rng, all: &[T]) -> T {
    all[((uniform(c) * all.len() as f64) as usize).min(all.len() - 1)]
}

fn between(c: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(c))
}

fn truth(name: &str, c: &mut Rng) -> Truth {
    match name {
        "reconfiguration each 15 s" => Truth::Satellite,
        "scheduling grants" => Truth::Grants(pick(c, &[2.5, 5.0, 10.0])),
        "DRX" => Truth::Drx(pick(c, &[20.0, 32.0, 40.0, 80.0, 160.0, 320.0])),
        "handovers" => Truth::Handovers,
        "blocked beam" => Truth::Blocked,
        "stopped host" => Truth::Stopped,
        "quiet" => Truth::Quiet,
        "Poisson bursts" => Truth::Bursts,
        "congestion by the hour" => Truth::Congestion,
        "an upload each minute" => Truth::Minutely,
        "an upload each 15 s" => Truth::EachQuarter,
        "on and off, 15 s each" => Truth::Square,
        "probes at multiples of a grid" => Truth::Aliased(pick(c, &[2.5, 5.0, 10.0, 20.0])),
        _ => Truth::Walk,
    }
}

/// Added delay from a begin to an end, ms.
type Bump = (f64, f64, f64);

/// Times at which something begins: independent of each other, or regular.
fn bumps(c: &mut Rng, truth: Truth, length: f64) -> Vec<Bump> {
    let mut all = Vec::new();
    let mut random = |c: &mut Rng, gap: f64, lasts: [f64; 2], high: [f64; 2]| {
        let mut t = 0.0;
        while t < length {
            t += -gap * (1.0 - uniform(c)).ln();
            let end = t + between(c, lasts[0], lasts[1]);
            all.push((t, end, between(c, high[0], high[1])));
            t = end;
        }
    };
    match truth {
        Truth::Bursts | Truth::Handovers | Truth::Satellite | Truth::Grants(_) | Truth::Drx(_) => {
            let gap = between(c, 20.0, 200.0) * S;
            random(c, gap, [0.5 * S, 20.0 * S], [3.0, 100.0]);
        }
        Truth::Congestion => random(c, 60.0 * S, [20.0 * S, 300.0 * S], [10.0, 200.0]),
        Truth::Minutely | Truth::EachQuarter | Truth::Square => {
            let (every, lasts) = match truth {
                Truth::Minutely => (60.0, between(c, 2.0, 30.0)),
                Truth::EachQuarter => (15.0, between(c, 1.0, 10.0)),
                _ => (30.0, 15.0),
            };
            let high = between(c, 5.0, 200.0);
            let mut t = uniform(c) * every * S;
            while t < length {
                all.push((t, t + lasts * S, high * (0.8 + 0.4 * uniform(c))));
                t += every * S;
            }
        }
        _ => {}
    }
    all
}

/// Times in which the link or the host stands still: begin, end, and the chance of a packet to be lost meanwhile.
fn gaps(c: &mut Rng, length: f64) -> Vec<Bump> {
    let (mean, mut t, mut all) = (between(c, 5.0, 60.0) * S, 0.0, Vec::new());
    let lossy = 0.4 * uniform(c);
    while t < length {
        t += -mean * (1.0 - uniform(c)).ln();
        let end = t + between(c, 100.0, 2000.0);
        all.push((t, end, lossy));
        t = end;
    }
    all
}

/// Recording of half an hour to an hour.
fn passages(c: &mut Rng, truth: Truth) -> Vec<Passage> {
    let length = between(c, 1800.0, 3600.0) * S;
    let interval = match truth {
        Truth::Grants(_) | Truth::Drx(_) => pick(c, &[101.3, 50.7, 203.9, 33.3]),
        Truth::Aliased(p) => p * (100.0 / p).ceil(),
        Truth::Blocked | Truth::Stopped => pick(c, &[20.0, 33.3, 50.0, 100.0]),
        _ => pick(c, &[100.0, 101.3, 200.0, 250.0, 500.0]),
    };
    let has_far = uniform(c) < 0.5;
    let (base, far_clock) = (between(c, 8.0, 80.0), uniform(c) * 1e9);
    let period = match truth {
        Truth::Grants(p) | Truth::Drx(p) | Truth::Aliased(p) => Some(p),
        _ => None,
    };
    // The scheduler's clock runs at its own speed.
    let drift = 1.0 + (uniform(c) - 0.5) * 20e-6;
    let jitter = between(c, 0.02, 1.0).min(period.map_or(f64::MAX, |p| 0.12 * p));
    let bumps = bumps(c, truth, length);
    let (mut level, mut next, mut dead, mut slot) = (0.0, 0.0, 0.0, i64::MIN);
    let sd = between(c, 2.0, 8.0);
    let loss = between(c, 1e-4, 5e-3);
    let start = 1.79e12 + (uniform(c) * 60.0 * S).round();
    let mut out = Vec::new();
    let gaps = match truth {
        Truth::Blocked | Truth::Stopped => gaps(c, length),
        _ => Vec::new(),
    };
    let (stamps_late, kind) = (uniform(c) < 0.5, pick(c, &[0, 1, 2]));
    let gap_at = |t: f64| {
        let next = gaps.partition_point(|g| g.0 <= t);
        let gap = gaps.get(next.checked_sub(1)?)?;
        (t < gap.1).then_some(*gap)
    };
    let (mut t, mut bump) = (0.0, 0);
    while t < length {
        // A host that stands still sends what was due afterwards.
        let late = match truth {
            Truth::Stopped => gap_at(t).map_or(0.0, |g| g.1 - t),
            _ => 0.0,
        };
        let wall = start + t + late;
        match truth {
            Truth::Satellite => {
                let now = ((wall - 12.0 * S) / (15.0 * S)).floor() as i64;
                if now != slot {
                    (slot, level) = (now, sd * standard_normal(c));
                    dead = if uniform(c) < 0.3 {
                        t + 300.0 * uniform(c)
                    } else {
                        t
                    };
                }
            }
            Truth::Handovers if t >= next => {
                let step = between(c, 4.0, 20.0) * if uniform(c) < 0.5 { -1.0 } else { 1.0 };
                level = if (level + step).abs() > 30.0 {
                    level - step
                } else {
                    level + step
                };
                dead = t + between(c, 250.0, 900.0).max(2.5 * interval);
                next = t + S * (50.0 - between(c, 60.0, 120.0) * (1.0 - uniform(c)).ln());
            }
            Truth::Walk => level = (level + 0.05 * standard_normal(c)).clamp(-5.0, 30.0),
            _ => {}
        }
        while bumps.get(bump).is_some_and(|b| b.1 < t) {
            bump += 1;
        }
        let queue = bumps
            .get(bump)
            .filter(|b| b.0 <= t)
            .map_or(0.0, |b| b.2 * (0.7 + 0.3 * uniform(c)));
        let mut noise = || jitter * standard_normal(c).abs();
        let hours = match truth {
            Truth::Congestion => 5.0 * (1.0 + (t / length * 6.0).sin()),
            _ => 0.0,
        };
        let (up_noise, down_noise) = (noise(), noise());
        let gate = |at: f64| match period {
            Some(p) => (at / (p * drift)).ceil() * p * drift,
            None => at,
        };
        let is_down = matches!(truth, Truth::Drx(_));
        let mut far = wall + (base + level).max(1.0) / 2.0 + queue + hours + up_noise;
        if !is_down {
            far = gate(far - start) + start;
        }
        let blocked = |at: f64| match truth {
            Truth::Blocked => gap_at(at - start),
            _ => None,
        };
        let mut dropped = false;
        // Up, down, or both directions stand still; what waits comes out together.
        if kind != 1
            && let Some((_, end, lossy)) = blocked(wall)
        {
            dropped |= uniform(c) < lossy;
            far += start + end - wall + 3.0 * uniform(c);
        }
        let mut back = far + base / 2.0 + down_noise;
        if is_down {
            back = gate(back - start) + start;
        }
        if kind != 0
            && let Some((_, end, lossy)) = blocked(far)
        {
            dropped |= uniform(c) < lossy;
            back += start + end - far + 3.0 * uniform(c);
        }
        // Its own stamps of arrivals wait too, unless the kernel makes them.
        if truth == Truth::Stopped
            && stamps_late
            && let Some((_, end, _)) = gap_at(back - start)
        {
            back = start + end;
        }
        let ns = |ms: f64| (ms * 1e6) as i64;
        let is_lost = uniform(c) < loss || dropped || t < dead || queue > 80.0 && uniform(c) < 0.05;
        out.push(Passage {
            sent_ns: ns(wall),
            rtt_ns: (!is_lost).then(|| ns(back - wall)),
            far_ns: (has_far && !is_lost).then(|| (ns(far + far_clock), ns(far + far_clock))),
            late_ns: (truth != Truth::Blocked || has_far).then(|| ns(late)),
        });
        t += interval;
    }
    out
}

fn found(all: &[Pattern]) -> Vec<(&str, Option<f64>)> {
    let yes = all.iter().filter(|p| p.found == Found::Yes);
    yes.map(|p| {
        (
            p.name.as_str(),
            p.period_ms.as_ref().and_then(stats::Figure::value),
        )
    })
    .collect()
}

/// True if the truth was named; then true if anything else was named.
fn judged(truth: Truth, named: &[(&str, Option<f64>)]) -> (bool, bool) {
    let is_it = |n: &(&str, Option<f64>)| match truth {
        Truth::Satellite => n.0 == "reconfiguration",
        Truth::Handovers => n.0 == "handovers",
        Truth::Blocked => n.0.starts_with("stalls"),
        Truth::Grants(p) | Truth::Drx(p) => n.0.starts_with("grid") && n.1 == Some(p),
        _ => false,
    };
    (named.iter().any(is_it), !named.iter().all(is_it))
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(otherwise)
}

#[test]
fn draws() {
    let (seed, count) = (number("PATTERN_SEED", 1), number("PATTERN_COUNT", 10));
    println!(
        "\nseed {seed}\n\n| recordings | number | named | something else named |\n|---|---|---|---|"
    );
    let (mut worst, mut wrong_all) = (f64::MAX, 0);
    for name in WITH.iter().chain(&WITHOUT) {
        let (mut right, mut wrong) = (0, 0);
        for n in 0..count {
            let c = &mut Streams::new(seed).stream(&format!("{name}/{n}"));
            let truth = truth(name, c);
            let mut patterns = Patterns::default();
            passages(c, truth).into_iter().for_each(|p| patterns.add(p));
            let all = patterns.finish();
            let (is_right, is_wrong) = judged(truth, &found(&all));
            (right, wrong) = (right + u64::from(is_right), wrong + u64::from(is_wrong));
            if is_wrong || (!is_right && WITH.contains(name)) {
                eprintln!("{name} {n} {truth:?}: {all:#?}");
            }
        }
        let named = if WITH.contains(name) {
            right.to_string()
        } else {
            "-".into()
        };
        println!("| {name} | {count} | {named} | {wrong} |");
        wrong_all += wrong;
        if WITH.contains(name) {
            worst = worst.min(right as f64 / count as f64);
        }
    }
    assert!(worst >= 0.9, "seed {seed}: {worst}");
    assert!(
        wrong_all as f64 <= 0.01 * (count * 14) as f64 + 1.0,
        "seed {seed}: {wrong_all} wrong"
    );
}
