//! Controller of downloads: signals that are not its own, over random draws with the printed seed.

use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Time};
use control::agent::Steers;
use control::download::{Download, Inbound};
use control::queue::Sent;
use control::upload::{SILENCE, Why};

const SEED: u64 = 20_261_127;

/// Gateway that receives, with a probe every 20 ms whose answer comes at once.
struct Script {
    controller: Inbound,
    now: Time,
    base: Duration,
    /// Far clock minus near clock, ns.
    ahead_ns: i64,
    total: u64,
    signals: u64,
    why: Why,
}

impl Script {
    fn new(rng: &mut Rng) -> Script {
        Script {
            controller: Inbound::new(Download::default()),
            now: Time::ZERO,
            base: Duration::from_secs_f64(2e-3 * 30f64.powf(uniform(rng))),
            ahead_ns: ((uniform(rng) - 0.5) * 4e18) as i64,
            total: 0,
            signals: 0,
            why: Why::Blind,
        }
    }

    /// Receives `bytes` within 20 ms, while a probe waits `up` and `down`.
    fn step(&mut self, bytes: u64, up: Duration, down: Duration) {
        self.now += Duration::from_millis(20);
        let (now, rtt) = (self.now, self.base + up + down);
        let sent = Sent {
            departed: now.saturating_sub(rtt),
            total: 0,
        };
        let up_ns = (self.base / 2 + up).as_nanos() as i64 + self.ahead_ns;
        self.controller.probed(now, sent, rtt, up_ns);
        self.report(bytes);
    }

    fn report(&mut self, bytes: u64) {
        self.total += bytes;
        let packets = bytes / 1500;
        let bytes = Bytes::new(bytes);
        self.signals += (self.controller).passed(self.now, bytes, packets, &mut || 0.0);
        if self.controller.due() <= self.now {
            self.why = self.controller.update(self.now).why;
        }
    }
}

const ZERO: Duration = Duration::ZERO;

fn idle(script: &mut Script) {
    for _ in 0..200 {
        script.step(200, ZERO, ZERO);
    }
}

/// Queue in ms after another 20 ms.
fn wander(rng: &mut Rng, queued_ms: &mut f64) -> Duration {
    *queued_ms = (*queued_ms + 15.0 * (uniform(rng) - 0.5)).clamp(30.0, 300.0);
    Duration::from_secs_f64(*queued_ms * 1e-3)
}

#[test]
fn a_queue_up_is_no_wait_down_whatever_the_clocks_say() {
    let mut faults = Vec::new();
    for number in 0..1000 {
        let mut rng = Streams::new(SEED).stream(&format!("up/{number}"));
        let mut script = Script::new(&mut rng);
        idle(&mut script);
        let step_ns = (20e6 * 50f64.powf(uniform(&mut rng))) as i64;
        let step_ns = if uniform(&mut rng) < 0.5 {
            step_ns
        } else {
            -step_ns
        };
        let mut queued_ms = 30.0;
        for step in 0..1500 {
            if step == 700 && number % 2 == 1 {
                script.ahead_ns += step_ns;
            }
            let up = wander(&mut rng, &mut queued_ms);
            script.step(30_000, up, ZERO);
        }
        if script.signals > 0 {
            faults.push(format!("{number}: {} signals", script.signals));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_clock_that_is_set_between_two_queues_makes_no_wait_down() {
    let mut faults = Vec::new();
    let count = std::env::var("DRAWS").map_or(200, |n| n.parse().expect("DRAWS is a number"));
    for number in 0..count {
        let mut rng = Streams::new(SEED).stream(&format!("both/{number}"));
        let mut script = Script::new(&mut rng);
        idle(&mut script);
        let step_ns = (20e6 * 50f64.powf(uniform(&mut rng))) as i64;
        let sign = if number % 2 == 0 { 1 } else { -1 };
        let (mut queued_ms, mut down_ms) = (30.0, 0.0);
        for step in 0..1500 {
            if step == 700 {
                script.ahead_ns += sign * step_ns;
            }
            let up = wander(&mut rng, &mut queued_ms);
            // Its own queue down stays well below the target of 20 ms.
            down_ms = (down_ms + 8.0 * (uniform(&mut rng) - 0.5)).clamp(0.0, 12.0);
            script.step(30_000, up, Duration::from_secs_f64(down_ms * 1e-3));
        }
        if script.signals > 0 {
            let ms = step_ns as f64 * 1e-6;
            faults.push(format!("{number}: {} signals, {ms:.0} ms", script.signals));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_queue_of_others_down_is_not_answered_with_cuts() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut rng = Streams::new(SEED).stream(&format!("others/{number}"));
        let mut script = Script::new(&mut rng);
        idle(&mut script);
        // Its own downloads show the capacity: 1.25 MB/s while 15 ms are queued.
        for _ in 0..100 {
            script.step(25_000, ZERO, Duration::from_millis(15));
        }
        assert_eq!(script.signals, 0, "below the target");
        idle(&mut script);
        let mut queued_ms = 30.0;
        for _ in 0..50 {
            let down = wander(&mut rng, &mut queued_ms);
            script.step(200, ZERO, down);
        }
        let soon = script.signals;
        for _ in 0..400 {
            let down = wander(&mut rng, &mut queued_ms);
            script.step(200, ZERO, down);
        }
        if script.signals > soon || script.why == Why::Long {
            faults.push(format!(
                "{number}: {soon} and {}, {:?}",
                script.signals, script.why
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn its_own_queue_is_signalled_until_the_answers_stop() {
    for number in 0..50 {
        let mut rng = Streams::new(SEED).stream(&format!("own/{number}"));
        let mut script = Script::new(&mut rng);
        idle(&mut script);
        for _ in 0..100 {
            script.step(25_000, ZERO, Duration::from_millis(40));
        }
        assert!(script.signals > 0, "{number}");
        assert_eq!(script.why, Why::Long, "{number}");
        script.now += SILENCE + Duration::from_millis(500);
        let before = script.signals;
        script.report(3_000_000);
        assert_eq!(
            (script.signals, script.why),
            (before, Why::Blind),
            "{number}"
        );
    }
}

#[test]
fn the_bytes_that_arrive_while_the_queue_stands_are_the_capacity() {
    for number in 0..200 {
        let mut rng = Streams::new(SEED).stream(&format!("capacity/{number}"));
        let mut script = Script::new(&mut rng);
        let rate = 2.5e5 * 50f64.powf(uniform(&mut rng));
        idle(&mut script);
        let mut queued_ms = 30.0;
        let mut seen = None;
        for _ in 0..200 {
            let down = wander(&mut rng, &mut queued_ms);
            script.step((rate * 0.02) as u64, ZERO, down);
            seen = script.controller.update(script.now).capacity;
        }
        let capacity = seen.expect("it is known").value;
        assert!(
            (capacity / rate - 1.0).abs() < 0.03,
            "seed {SEED}, {number}: {capacity:.0} of {rate:.0}"
        );
    }
}
