//! Shaper's law over random links whose rate changes: the load always has more to send. Random draws with the printed seed.

use base::rng::{Rng, Streams, uniform};
use base::{Duration, Time};
use control::agent::{Agent, Answered, Counts, Steers};
use control::download::{Download, Inbound};
use control::queue::Sent;
use control::shape::{Shape, Shaper};
use control::upload::{Controller, Upload};
use std::collections::VecDeque;

const SEED: u64 = 20_261_130;
/// Step of the script, s.
const STEP_S: f64 = 1e-3;

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

/// Course of a link's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    Fixed,
    /// Half of the rate after ten seconds.
    Halved,
    /// Another rate each 100 ms: a random walk with jitter, from 2 to 30 Mbit/s.
    Walk,
}

/// Rate of a link each 100 ms of 30 s, bytes per second.
fn rates(course: Course, rng: &mut Rng) -> Vec<f64> {
    let mut rate = match course {
        Course::Walk => log(rng, 4e6, 20e6),
        _ => log(rng, 3e6, 100e6),
    };
    let step = |i: usize| match course {
        Course::Fixed => rate / 8.0,
        Course::Halved if i == 100 => {
            rate /= 2.0;
            rate / 8.0
        }
        Course::Halved => rate / 8.0,
        Course::Walk => {
            if i.is_multiple_of(5) {
                let normal: f64 = (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0;
                rate = (rate * 2f64.powf(0.35 * normal)).clamp(2e6, 30e6);
            }
            rate * (0.85 + 0.3 * uniform(rng)) / 8.0
        }
    };
    (0..300).map(step).collect()
}

struct Seen {
    /// Share of the link in use, from 3 s on.
    used: f64,
    p95_ms: f64,
    /// Time above twice the target from the tenth second on, ms.
    above_ms: f64,
}

/// Direction of a link, and its state at the begin.
#[derive(Clone, Copy, Debug)]
struct Line {
    up: bool,
    /// True if the run begins under load, with a queue of up to a second.
    loaded: bool,
}

/// Both directions of an idle link.
const IDLE: [Line; 2] = [
    Line {
        up: true,
        loaded: false,
    },
    Line {
        up: false,
        loaded: false,
    },
];

/// Load behind the shaper that sends what that lets pass, in front of the link if `up`, else of the provider's queue: then
/// the senders follow the shaper one RTT later.
fn run<C: Steers>(mut agent: Agent<C>, line: &Line, rates: &[f64], rng: &mut Rng) -> Seen {
    let Line { up, loaded } = *line;
    let base = Duration::from_secs_f64(log(rng, 8e-3, 60e-3));
    // Its owner set it to the rate that the link had once.
    let configured = rates[0] * log(rng, 0.5, 1.5);
    let (mut shaper, mut waits) = (None::<Shaper>, Vec::new());
    let mut backlog = if loaded { rates[0] * uniform(rng) } else { 0.0 };
    let (mut handed, mut delivered, mut carried, mut could) = (0.0f64, 0.0f64, 0.0, 0.0);
    let mut answers: VecDeque<(Time, Answered)> = VecDeque::new();
    let delay = (base.as_secs_f64() / STEP_S) as usize;
    let mut sends: VecDeque<f64> = std::iter::repeat_n(0.0, if up { 0 } else { delay }).collect();
    let steps = (rates.len() as f64 * 0.1 / STEP_S) as u64;
    for step in 0..steps {
        let now = Time::from_millis(step);
        let rate = rates[(step / 100) as usize];
        // One idle second shows the base.
        let offered = shaper.as_ref().map_or(0.0, |s| s.rate() * STEP_S);
        let offered = if step < 1000 && !loaded { 0.0 } else { offered };
        sends.push_back(offered * (0.95 + 0.1 * uniform(rng)));
        let sent = sends.pop_front().unwrap_or(0.0);
        let left = (backlog + sent).min(rate * STEP_S);
        // A second of buffer.
        backlog = (backlog + sent - left).min(rate);
        (handed, delivered) = (handed + sent, delivered + left);
        let wait_s = backlog / rate;
        if step >= 3000 {
            (carried, could) = (carried + left, could + rate * STEP_S);
            waits.push((step, wait_s * 1e3));
        }
        let total = if up { handed } else { delivered } as u64;
        let counts = Counts {
            bytes: total,
            packets: total / 1500,
            ..Counts::default()
        };
        if step.is_multiple_of(20) {
            let wait = Duration::from_secs_f64(wait_s);
            agent.passed(now, counts);
            let rtt = base + wait;
            let answered = Answered {
                sent: Sent {
                    departed: now,
                    total,
                },
                rtt,
                up_ns: (base / 2 + if up { wait } else { Duration::ZERO }).as_nanos() as i64,
            };
            answers.push_back((now + rtt, answered));
        }
        while answers.front().is_some_and(|a| a.0 <= now) {
            let (_, answered) = answers.pop_front().expect("it was just seen");
            agent.answered(now, &answered);
        }
        if now >= agent.due() {
            let shaper =
                shaper.get_or_insert_with(|| Shaper::new(Shape::default(), configured, now, total));
            if let (Some(decision), _) = agent.wake(now, counts) {
                shaper.update(&decision, agent.controller().path(), total);
            }
        }
    }
    let above = |w: &&(u64, f64)| w.0 >= 10_000 && w.1 > 20.0;
    let above_ms = waits.iter().filter(above).count() as f64 * STEP_S * 1e3;
    let mut sorted: Vec<f64> = waits.iter().map(|w| w.1).collect();
    sorted.sort_by(f64::total_cmp);
    Seen {
        used: carried / could,
        p95_ms: sorted[sorted.len() * 95 / 100],
        above_ms,
    }
}

fn draw(number: u64, course: Course, line: &Line) -> Seen {
    let up = line.up;
    let mut rng = Streams::new(SEED).stream(&format!("shape/{course:?}/{up}/{number}"));
    let rates = rates(course, &mut rng);
    let draws = Streams::new(SEED).stream("law");
    match up {
        true => {
            let agent = Agent::of(Controller::new(Upload::default()), draws, Time::ZERO);
            run(agent, line, &rates, &mut rng)
        }
        false => {
            let agent = Agent::of(Inbound::new(Download::default()), draws, Time::ZERO);
            run(agent, line, &rates, &mut rng)
        }
    }
}

/// Least, median and greatest of some figure.
fn spread(all: &[Seen], of: impl Fn(&Seen) -> f64) -> [f64; 3] {
    let mut values: Vec<f64> = all.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    [
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    ]
}

/// Spreads of use, p95 and time above 20 ms over draws of one course and direction.
fn seen(course: Course, line: Line) -> [[f64; 3]; 3] {
    let count = std::env::var("DRAWS").map_or(40, |n| n.parse().expect("DRAWS is a number"));
    let all: Vec<Seen> = (0..count).map(|n| draw(n, course, &line)).collect();
    let [used, p95_ms, above_ms] = [
        spread(&all, |s| s.used),
        spread(&all, |s| s.p95_ms),
        spread(&all, |s| s.above_ms),
    ];
    println!(
        "{course:?}, {}: seed {SEED}, {count} draws; least, median, greatest: use {used:.3?}, p95 {p95_ms:.1?} ms, above 20 ms {above_ms:.0?} ms",
        if line.up { "up" } else { "down" },
    );
    [used, p95_ms, above_ms]
}

#[test]
fn a_fixed_link_keeps_its_rate_with_a_short_queue() {
    for line in IDLE {
        let [used, p95_ms, _] = seen(Course::Fixed, line);
        assert!(used[0] >= 0.98 && p95_ms[2] <= 15.0);
    }
}

#[test]
fn a_run_that_begins_under_load_finds_the_empty_queue() {
    for line in IDLE {
        let [used, _, above_ms] = seen(
            Course::Fixed,
            Line {
                loaded: true,
                ..line
            },
        );
        // A queue of a second takes three to drain.
        assert!(used[0] >= 0.9 && above_ms[2] == 0.0);
    }
}

#[test]
fn a_rate_that_halves_is_followed() {
    for line in IDLE {
        let [used, p95_ms, above_ms] = seen(Course::Halved, line);
        assert!(used[0] >= 0.97 && p95_ms[2] <= 20.0 && above_ms[2] <= 2000.0);
    }
}

#[test]
fn a_rate_that_walks_is_followed() {
    for line in IDLE {
        let [used, p95_ms, _] = seen(Course::Walk, line);
        // As asked of a cellular link: 60 ms at 90 % of its capacity.
        assert!(used[1] >= 0.9 && p95_ms[1] <= 60.0);
    }
}

#[test]
fn silence_and_queues_of_others_change_no_rate() {
    use control::upload::{Decision, Why};
    let path = Some(Duration::from_millis(20));
    let decision = |ms, why| Decision {
        at: Time::from_millis(ms),
        wait: Duration::from_millis(300),
        capacity: None,
        probed: None,
        signals: 0,
        why,
    };
    for why in [Why::Blind, Why::Others, Why::Bypassed, Why::Unseen] {
        let mut shaper = Shaper::new(Shape::default(), 1e6, Time::ZERO, 0);
        // The load fills the link meanwhile, and no probe has met an empty queue.
        for ms in (20..5_000).step_by(20) {
            let rate = shaper.update(&decision(ms, why), path, 1000 * ms);
            assert_eq!(rate, None, "{why:?} at {ms} ms");
        }
        // Nor do they hold a rate that was lowered to find the empty queue.
        let mut rates = (5_000..7_000).step_by(20).map(|ms| {
            shaper.update(&decision(ms, Why::Long), path, 1000 * ms);
            shaper.rate()
        });
        let lowered = rates.find(|r| *r < 0.8e6).expect("it drains");
        drop(rates);
        let after = shaper.update(&decision(7_000, why), path, 7_000_000);
        assert!(
            after.is_some_and(|r| r > lowered),
            "{why:?}: {after:?} after {lowered}"
        );
    }
}
