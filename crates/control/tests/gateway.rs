//! Controller of a gateway whose kernel forwards the packets: what it makes of probes, reports and silence, over random
//! links with the printed seed.

use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Time};
use control::queue::Sent;
use control::upload::{Controller, Law, SILENCE, Upload};

const SEED: u64 = 20_261_124;

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

/// Link with a queue up, which the gateway does not see, and a queue down, which is not its to shorten.
struct Link {
    rate: f64,
    base: Duration,
    /// Bytes queued up, at this time.
    queue: (Time, f64),
    /// Far clock minus near clock, and its drift.
    ahead_ns: i64,
    drift: f64,
}

impl Link {
    fn draw(rng: &mut Rng) -> Link {
        Link {
            rate: log(rng, 2e6, 200e6) / 8.0,
            base: Duration::from_secs_f64(log(rng, 2e-3, 60e-3)),
            queue: (Time::ZERO, 0.0),
            ahead_ns: ((uniform(rng) - 0.5) * 4e18) as i64,
            drift: (uniform(rng) - 0.5) * 40e-6,
        }
    }

    fn backlog(&self, now: Time) -> f64 {
        let (at, bytes) = self.queue;
        (bytes - self.rate * now.saturating_since(at).as_secs_f64()).max(0.0)
    }

    fn add(&mut self, now: Time, bytes: f64) {
        self.queue = (now, self.backlog(now) + bytes);
    }

    fn wait(&self, now: Time) -> Duration {
        Duration::from_secs_f64(self.backlog(now) / self.rate)
    }

    /// RTT and one-way difference of a probe that leaves now and waits `down` on its way back.
    fn probe(&self, now: Time, down: Duration) -> (Duration, i64) {
        let up = self.base / 2 + self.wait(now);
        let rtt = self.base + self.wait(now) + down;
        let drifted = (now.as_nanos() as f64 * self.drift) as i64;
        (rtt, up.as_nanos() as i64 + self.ahead_ns + drifted)
    }
}

fn settings(law: Law) -> Upload {
    Upload {
        law,
        ..Upload::default()
    }
}

#[test]
fn a_queue_down_is_no_wait_up_whatever_the_clocks_say() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut rng = Streams::new(SEED).stream(&format!("down/{number}"));
        let link = Link::draw(&mut rng);
        let mut controller = Controller::new(settings(Law::Sawtooth));
        let (mut worst, mut total) = (Duration::ZERO, 0);
        let mut signals = 0;
        // An idle minute, then a minute of a download that fills its own queue.
        for step in 0..6000u64 {
            let now = Time::from_millis(20 * step);
            let down = match step < 3000 {
                true => Duration::ZERO,
                false => Duration::from_secs_f64(0.4 * uniform(&mut rng)),
            };
            total += 80;
            signals += controller.passed(now, Bytes::new(80), 1, || 0.0);
            let (rtt, up_ns) = link.probe(now, down);
            let sent = Sent {
                departed: now,
                total,
            };
            controller.probed(now + rtt, sent, rtt, up_ns);
            controller.update(now + rtt);
            worst = worst.max(controller.wait(now + rtt).expect("samples come"));
        }
        // 20 ppm for two minutes are 2.4 ms.
        if worst > Duration::from_millis(4) || signals > 0 {
            faults.push(format!("{number}: {worst}, {signals} signals"));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

/// Senders that fill whatever the gateway lets through, with reports every 2 ms and probes every 20 ms. Returns the true
/// waits in ms after the capacity is known, and the estimates beside them.
fn greedy(link: &mut Link, controller: &mut Controller, rng: &mut Rng) -> Vec<(f64, f64)> {
    let mut waits = Vec::new();
    let mut answers: Vec<(Time, Sent, Duration, i64)> = Vec::new();
    let mut total = 0u64;
    for step in 0..10_000u64 {
        let now = Time::from_millis(2 * step);
        if step.is_multiple_of(10) {
            total += 80;
            link.add(now, 80.0);
            controller.passed(now, Bytes::new(80), 1, || 0.5);
            let (rtt, up_ns) = link.probe(now, Duration::ZERO);
            let sent = Sent {
                departed: now,
                total,
            };
            answers.push((now + rtt, sent, rtt, up_ns));
        }
        let due = answers.partition_point(|a| a.0 <= now);
        for (at, sent, rtt, up_ns) in answers.drain(..due) {
            controller.probed(at, sent, rtt, up_ns);
        }
        while controller.due() <= now {
            controller.update(now);
        }
        // Idle first, so that the base is known; then far more than the link carries.
        let offered = match step < 500 {
            true => 0.0,
            false => link.rate * 0.002 * (1.0 + 2.0 * uniform(rng)),
        };
        // What user space allowed at its last report; the kernel lets it grow by the rate until the next one.
        let passes = match controller.room(now) {
            Some(room) if room.rate > 0.0 => offered.min((room.bytes + room.rate * 0.002).max(0.0)),
            Some(_) => 0.0,
            None => offered,
        };
        link.add(now, passes.floor());
        total += passes as u64;
        controller.passed(
            now,
            Bytes::new(passes as u64),
            (passes / 1500.0).ceil() as u64,
            || 0.5,
        );
        if step > 2500 {
            let estimate = controller.wait(now).map_or(0.0, Duration::as_millis_f64);
            waits.push((link.wait(now).as_millis_f64(), estimate));
        }
    }
    waits
}

#[test]
fn senders_that_ignore_signals_meet_the_cap() {
    let mut faults = Vec::new();
    for number in 0..60 {
        let mut rng = Streams::new(SEED).stream(&format!("cap/{number}"));
        let mut link = Link::draw(&mut rng);
        let mut controller = Controller::new(settings(Law::Sawtooth));
        let waits = greedy(&mut link, &mut controller, &mut rng);
        let most = waits.iter().fold(0f64, |m, w| m.max(w.0));
        let n = waits.len() as f64;
        let rmse = (waits.iter().map(|w| (w.1 - w.0).powi(2)).sum::<f64>() / n).sqrt();
        let idle = waits.iter().filter(|w| w.0 == 0.0).count() as f64 / n;
        if most > 65.0 || rmse > 5.0 || idle > 0.01 {
            faults.push(format!(
                "{number}: {:.1} Mbit/s, base {}: wait up to {most:.1} ms, error {rmse:.1} ms, empty {:.1} %",
                link.rate * 8e-6,
                link.base,
                100.0 * idle
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn nothing_is_cut_once_the_samples_stop() {
    for law in [Law::Sawtooth, Law::Pie] {
        let mut rng = Streams::new(SEED).stream("silence");
        let mut link = Link::draw(&mut rng);
        let mut controller = Controller::new(settings(law));
        greedy(&mut link, &mut controller, &mut rng);
        let last = Time::from_millis(20_000);
        assert!(
            controller.room(last).is_some(),
            "the cap binds while samples come"
        );
        let later = last + SILENCE + Duration::from_millis(500);
        assert_eq!(controller.wait(later), None);
        assert_eq!(controller.room(later), None);
        assert_eq!(
            controller.passed(later, Bytes::new(3_000_000), 2000, || 0.0),
            0
        );
    }
}

#[test]
fn pie_signals_a_report_as_it_does_its_packets() {
    let mut rng = Streams::new(SEED).stream("pie");
    let mut link = Link::draw(&mut rng);
    let mut controller = Controller::new(settings(Law::Pie));
    greedy(&mut link, &mut controller, &mut rng);
    // The wait stands at the cap, above the target, so the probability has risen.
    let p = controller.probability().expect("PIE has one");
    assert!(p > 0.05, "{p}");
    let now = Time::from_millis(20_000);
    let signals = controller.passed(now, Bytes::new(150_000), 100, || 0.0);
    assert!((1..=100).contains(&signals), "{signals}");
}
