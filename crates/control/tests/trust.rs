//! Signals that cannot be trusted, and kernels that obey: random draws with the printed seed.

use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Time};
use control::agent::{Agent, Answered, Counts, Egress, Orders, STALE};
use control::queue::Sent;
use control::upload::{Controller, Law, Room, Upload, Why};
use link::qdisc::Verdict;

const SEED: u64 = 20_261_126;

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

fn settings(rng: &mut Rng) -> Upload {
    Upload {
        law: [Law::Sawtooth, Law::Pie][usize::from(uniform(rng) < 0.5)],
        ..Upload::default()
    }
}

/// Queue that probes meet.
#[derive(Clone, Copy, PartialEq)]
enum Probes {
    /// The queue of the load.
    Queue,
    /// No queue at all.
    Bypass,
    /// A queue of others that grows from so many seconds to twice as many and falls back, as TCP's does; and that of the
    /// load.
    Others(f64),
    /// A route that is longer by so many seconds, and the queue of the load.
    Longer(f64),
}

/// Gateway in front of a link, with reports each 5 ms and probes each 20 ms.
struct Script {
    agent: Agent,
    egress: Egress,
    rng: Rng,
    base: Duration,
    now: Time,
    /// Rate of the link, bytes per second, and bytes queued in front of it.
    rate: f64,
    backlog: f64,
    /// Wait that a full load keeps, and that of the other direction, s.
    level_s: f64,
    down_s: f64,
    /// Time in which a queue of others grows, s.
    period_s: f64,
    /// Far clock minus near clock, ns.
    ahead_ns: i64,
    /// Reason of the last decision.
    why: Why,
}

impl Script {
    fn new(number: u64, name: &str) -> Script {
        let streams = Streams::new(SEED);
        let mut rng = streams.stream(&format!("{name}/{number}"));
        let mut script = Script {
            agent: Agent::new(settings(&mut rng), streams.stream("law"), Time::ZERO),
            egress: Egress::default(),
            base: Duration::from_secs_f64(log(&mut rng, 4e-3, 60e-3)),
            rate: log(&mut rng, 3e6, 100e6) / 8.0,
            backlog: 0.0,
            level_s: 16e-3,
            down_s: 0.0,
            period_s: log(&mut rng, 0.3, 3.0),
            ahead_ns: 0,
            rng,
            now: Time::ZERO,
            why: Why::Blind,
        };
        // A load, so that the capacity is known.
        script.run(1.0, 0.002, Probes::Queue);
        script.run(2.0, 1.0, Probes::Queue);
        script.run(1.0, 0.002, Probes::Queue);
        script
    }

    /// Offers that share of the link's rate for some seconds; a share of one keeps a queue of 11 to 20 ms. Returns packets
    /// cut.
    fn run(&mut self, seconds: f64, share: f64, probes: Probes) -> u64 {
        let cut = |c: Counts| c.drops + c.marks;
        let before = cut(self.egress.counts());
        let mut owed = 0.0;
        for step in 0..(seconds / 5e-3) as u64 {
            self.now += Duration::from_millis(5);
            let now = self.now;
            self.backlog = (self.backlog - self.rate * 5e-3).max(0.0);
            if step.is_multiple_of(4) {
                self.probe(probes);
            }
            let grows = if share < 1.0 { share } else { 0.7 };
            let long = share >= 1.0 && self.backlog < self.level_s * self.rate;
            let offered = if long { 1.6 } else { grows };
            owed += offered * self.rate * 5e-3 * (0.8 + 0.4 * uniform(&mut self.rng));
            while owed >= 1500.0 {
                let verdict = self.egress.packet(now, Bytes::new(1500), false, false);
                if verdict == Verdict::Forward {
                    self.backlog += 1500.0;
                }
                owed -= 1500.0;
            }
            if now >= self.agent.due() {
                let (decision, orders) = self.agent.wake(now, self.egress.counts());
                self.egress.order(orders);
                self.why = decision.map_or(self.why, |d| d.why);
            }
        }
        cut(self.egress.counts()) - before
    }

    /// Probe that is answered at once: the script has no time to lose.
    fn probe(&mut self, probes: Probes) {
        let now = self.now;
        self.egress.packet(now, Bytes::new(120), false, true);
        let counts = self.egress.counts();
        self.agent.passed(now, counts);
        let own_s = self.backlog / self.rate;
        let up = Duration::from_secs_f64(match probes {
            Probes::Queue => own_s,
            Probes::Bypass => 0.0,
            Probes::Others(s) => {
                let grown = (now.as_secs_f64() / self.period_s).fract();
                own_s + s * (1.0 + grown)
            }
            Probes::Longer(s) => own_s + s,
        });
        let answered = Answered {
            sent: Sent {
                departed: now,
                total: counts.bytes,
            },
            rtt: self.base + up + Duration::from_secs_f64(self.down_s),
            up_ns: (self.base / 2 + up).as_nanos() as i64 + self.ahead_ns,
        };
        self.agent.answered(now, &answered);
    }
}

#[test]
fn a_queue_of_others_is_not_answered_with_cuts() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut s = Script::new(number, "others");
        // Others fill the link behind the gateway, which sends a fiftieth of its rate.
        let wait_s = 0.03 + 0.1 * uniform(&mut s.rng);
        let others = Probes::Others(wait_s);
        let soon = s.run(1.0, 0.02, others);
        let later = s.run(8.0, 0.02, others);
        if later > 0 || s.why != Why::Others {
            faults.push(format!("{number}: {soon} cut, then {later}, {:?}", s.why));
        }
        // Its own load makes the queue its own again.
        s.run(2.0, 1.0, Probes::Longer(wait_s));
        if s.why == Why::Others {
            faults.push(format!("{number}: its own load does not count"));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_longer_route_is_learned_while_the_link_is_half_idle() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut s = Script::new(number, "longer");
        let longer = Probes::Longer(log(&mut s.rng, 5e-3, 0.1));
        let share = 0.7 * uniform(&mut s.rng);
        let soon = s.run(7.0, share, longer);
        let later = s.run(5.0, share, longer);
        // A load on the longer route meets a queue of its own, which stays below the target.
        s.level_s = 6e-3;
        let loaded = s.run(3.0, 1.0, longer);
        if later + loaded > 0 || s.why != Why::Short {
            faults.push(format!(
                "{number}: {soon}, {later}, {loaded} cut, {:?}",
                s.why
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn probes_that_bypass_a_full_queue_are_noticed_within_ten_seconds_and_idle_links_are_not_blamed() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut s = Script::new(number, "bypass");
        // Half of the rate without a wait is a link that is not full.
        s.run(10.0, 0.5, Probes::Queue);
        if s.why == Why::Bypassed {
            faults.push(format!("{number}: half a load is no full link"));
        }
        s.run(10.0, 1.0, Probes::Bypass);
        if s.why != Why::Bypassed {
            let mbps = s.rate * 8e-6;
            faults.push(format!(
                "{number}: {:?} after 10 s, {mbps:.1} Mbit/s",
                s.why
            ));
        }
        // Probes meet the queue again.
        s.run(0.5, 1.0, Probes::Queue);
        if s.why == Why::Bypassed {
            faults.push(format!("{number}: waits do not end the verdict"));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_server_clock_that_is_set_makes_no_queue_up() {
    let mut faults = Vec::new();
    for number in 0..1000u64 {
        let mut rng = Streams::new(SEED).stream(&format!("clock/{number}"));
        let mut controller = Controller::new(settings(&mut rng));
        let base = Duration::from_millis(20);
        let sign = if number.is_multiple_of(2) { 1.0 } else { -1.0 };
        let step_ns = (sign * log(&mut rng, 20e6, 1e9)) as i64;
        let (mut total, mut signals) = (0, 0);
        // A minute of downloads, whose queue changes no faster than queues can; the server's clock is set in its middle.
        let mut queued_s = 0.1;
        for step in 0..3000u64 {
            let now = Time::from_millis(20 * step);
            let down = match step < 250 {
                true => Duration::ZERO,
                false => {
                    queued_s = (queued_s + 0.03 * (uniform(&mut rng) - 0.5)).clamp(0.03, 0.3);
                    Duration::from_secs_f64(queued_s)
                }
            };
            total += 1500;
            signals += controller.passed(now, Bytes::new(1500), 1, || 0.0);
            let stepped = if step < 1500 { 0 } else { step_ns };
            let sent = Sent {
                departed: now,
                total,
            };
            let up_ns = (base / 2).as_nanos() as i64 + stepped;
            controller.probed(now + base + down, sent, base + down, up_ns);
            controller.update(now + base + down);
        }
        if signals > 0 {
            faults.push(format!(
                "{number}: {signals} signals after a step of {step_ns} ns"
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_clock_that_is_set_between_two_queues_makes_no_wait_up() {
    let mut faults = Vec::new();
    let count = std::env::var("DRAWS").map_or(200, |n| n.parse().expect("DRAWS is a number"));
    for number in 0..count {
        let mut s = Script::new(number, "both");
        let sign = if u64::is_multiple_of(number, 2) {
            1.0
        } else {
            -1.0
        };
        let step_ns = (sign * log(&mut s.rng, 20e6, 1e9)) as i64;
        // Its own queue stays at 6 to 12 ms, below the target of 20 ms, while that of downloads wanders above it.
        s.level_s = 6e-3;
        s.run(1.0, 1.0, Probes::Queue);
        let (mut cut, mut down_s) = (0, 0.03);
        for step in 0..1000 {
            if step == 500 {
                s.ahead_ns = step_ns;
            }
            down_s = (down_s + 0.015 * (uniform(&mut s.rng) - 0.5)).clamp(0.03, 0.3);
            s.down_s = down_s;
            cut += s.run(0.02, 1.0, Probes::Queue);
        }
        if cut > 0 {
            faults.push(format!("{number}: {cut} cut, set by {step_ns} ns"));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn signals_that_nobody_took_are_revoked_when_the_queue_is_short() {
    for number in 0..50 {
        let mut s = Script::new(number, "revoked");
        // A long queue, then nothing that may be signalled, then a new flow on an idle link.
        s.run(1.0, 1.0, Probes::Longer(0.03));
        s.run(3.0, 0.0, Probes::Queue);
        let cut = s.run(0.5, 0.25, Probes::Queue);
        assert_eq!(
            cut, 0,
            "seed {SEED}, {number}: the next flow is cut for a queue of the past"
        );
    }
}

#[test]
fn the_kernels_side_keeps_to_limit_signals_and_age() {
    let ms = Time::from_millis;
    let mut egress = Egress::default();
    let pass =
        |egress: &mut Egress, at, capable| egress.packet(at, Bytes::new(1500), capable, false);
    assert_eq!(pass(&mut egress, ms(0), true), Verdict::Forward);
    let orders = Orders {
        at: ms(10),
        passed: 1500,
        room: Some(Room {
            bytes: 3000.0,
            rate: 1.5e5,
        }),
        signals: 1,
        mark: true,
    };
    egress.order(orders);
    assert_eq!(pass(&mut egress, ms(10), true), Verdict::Mark);
    assert_eq!(pass(&mut egress, ms(10), false), Verdict::Forward);
    assert_eq!(pass(&mut egress, ms(10), false), Verdict::Forward);
    // 6000 bytes have passed, 4500 may.
    assert_eq!(pass(&mut egress, ms(10), false), Verdict::Drop);
    // The limit grows by 150 bytes a millisecond.
    assert_eq!(pass(&mut egress, ms(19), false), Verdict::Drop);
    assert_eq!(pass(&mut egress, ms(20), false), Verdict::Forward);
    let exempt = egress.packet(ms(20), Bytes::new(200), false, true);
    assert_eq!(exempt, Verdict::Forward);
    assert_eq!(pass(&mut egress, ms(20), false), Verdict::Drop);
    // Old orders bind no longer.
    assert_eq!(pass(&mut egress, ms(11) + STALE, false), Verdict::Forward);
    let counts = egress.counts();
    assert_eq!((counts.marks, counts.drops, counts.signalled), (1, 3, 1));
    assert_eq!((counts.packets, counts.bytes), (7, 6 * 1500 + 200));
}

#[test]
fn bursts_that_met_no_queue_show_a_faster_link() {
    let mut faults = Vec::new();
    for number in 0..200 {
        let mut rng = Streams::new(SEED).stream(&format!("burst/{number}"));
        let rate = log(&mut rng, 2e6, 200e6) / 8.0;
        let mut queue = control::queue::HiddenQueue::new(rate);
        let mut backlog = 0.0f64;
        for step in 0..400u64 {
            let now = Time::from_millis(5 * step);
            // Bursts of random length and rate.
            let bytes = match uniform(&mut rng) < 0.3 {
                true => rate * 5e-3 * 4.0 * uniform(&mut rng),
                false => 0.0,
            };
            backlog = (backlog - rate * 5e-3).max(0.0) + bytes;
            queue.arrived(now, Bytes::new(bytes as u64));
            let wait = Duration::from_secs_f64(backlog / rate);
            let sent = Sent {
                departed: now,
                total: queue.total(),
            };
            let least = queue.least_rate(sent, wait);
            // A full packet as the sample: its own time on the link is part of the base RTT.
            let own = Duration::from_secs_f64((backlog - 1500.0).max(0.0) / rate);
            let least = match bytes >= 1500.0 {
                true => least.max(queue.least_rate(sent, own)),
                false => least,
            };
            if least > 1.001 * rate {
                faults.push(format!("{number}: {least:.0} above the true {rate:.0}"));
            }
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}
