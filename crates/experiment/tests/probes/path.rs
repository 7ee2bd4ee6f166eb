//! A path in virtual time: rounds of datagrams over hops that queue, vary and answer as the test says.

use super::{figure, line, near, over};
use base::Bytes;
use base::record::{Delay, Event, Meta, Recording, Status};
use base::rng::{Rng, Streams, uniform};
use experiment::{Outcome, ProbeSpec};
use sim::bufferbloat::Plan;
use stats::Figure;

/// What one hop adds to whatever passes it, ms.
#[derive(Clone, Copy, Default)]
struct Hop {
    base: f64,
    /// The most its queue holds under load; it fills to seven tenths at least, as TCP does.
    queue: f64,
    /// Any from 0 to this, of each packet alone.
    jitter: f64,
    /// What its own answers take longer under load, and nobody else's.
    own: f64,
    /// Share of datagrams that it answers.
    answers: f64,
}

const PLAIN: Hop = Hop {
    base: 5.0,
    queue: 0.0,
    jitter: 0.0,
    own: 0.0,
    answers: 1.0,
};

fn waits(queue: f64) -> Hop {
    Hop { queue, ..PLAIN }
}

struct Bench {
    hops: Vec<Hop>,
    /// Whether ICMP passes by the queues: echo both ways, and what hops say of datagrams on its way back.
    icmp_first: bool,
    /// Which way the load goes.
    way: &'static str,
    /// Whether the server answers datagrams to a port to which nobody listens.
    server_says: bool,
}

impl Bench {
    fn new(hops: &[Hop]) -> Bench {
        Bench {
            hops: hops.to_vec(),
            icmp_first: false,
            way: "up",
            server_says: true,
        }
    }

    fn run(&self) -> Outcome {
        let mut rng = Streams::new(7).stream("path");
        let mut r = Recording {
            meta: Meta {
                verb: "probe".into(),
                plan: serde_json::json!({ "probe": "path".parse::<ProbeSpec>().expect("a kind") }),
                complete: true,
                ..Meta::default()
            },
            ..Recording::default()
        };
        let s = |s: f64| 1_000_000_000_000_000_000 + (s * 1e9) as i64;
        let event = |t: f64, kind: &str, subject: &str, detail: String| Event {
            t_ns: s(t),
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.as_str().into(),
        };
        for (t, kind, subject) in [
            (0.0, "phase", "idle"),
            (15.0, "phase_end", "idle"),
            (15.5, "phase", self.way),
            (40.5, "phase_end", self.way),
        ] {
            r.event.push(event(t, kind, subject, String::new()));
        }
        let last = self.hops.len();
        for h in 1..=last {
            if h < last || self.server_says {
                let end = if h == last { "\"server\"" } else { "null" };
                let detail = format!("{{\"addresses\":[\"10.0.{h}.1\"],\"end\":{end}}}");
                r.event
                    .push(event(41.0, "path", &format!("hop{h}"), detail));
            }
        }
        for round in 0..41i64 {
            let at = round as f64;
            let load = (15.5..40.5).contains(&at);
            // All of a round find the queues alike.
            let filled: Vec<f64> = self
                .hops
                .iter()
                .map(|h| {
                    if load {
                        h.queue * (0.7 + 0.3 * uniform(&mut rng))
                    } else {
                        0.0
                    }
                })
                .collect();
            for h in 1..=last {
                let says = self.server_says || h < last;
                let passes = self.icmp_first && self.way == "down";
                let ms = self.trip(h, &filled, passes, &mut rng)
                    + if load { self.hops[h - 1].own } else { 0.0 };
                let answered = says && uniform(&mut rng) < self.hops[h - 1].answers;
                r.delay.push(row(
                    s(at),
                    round,
                    &format!("hop{h}"),
                    answered.then_some(ms),
                ));
                let ms = self.trip(h, &filled, self.icmp_first, &mut rng);
                let target = if h == last {
                    "icmp".into()
                } else {
                    format!("echo{h}")
                };
                r.delay.push(row(s(at + 0.5), round, &target, Some(ms)));
            }
            for i in 0..10 {
                let ms = self.trip(last, &filled, false, &mut rng);
                let at = s(at + 0.1 * f64::from(i));
                r.delay
                    .push(row(at, round * 10 + i64::from(i), "udp", Some(ms)));
            }
            let ms = self.trip(last, &filled, false, &mut rng);
            r.delay.push(row(s(at), round, "tcp-connect", Some(ms)));
        }
        experiment::analyse(&r).expect("it is of a probe").outcome
    }

    /// To hop `h` and back.
    fn trip(&self, h: usize, filled: &[f64], first: bool, rng: &mut Rng) -> f64 {
        let one = |(hop, queue): (&Hop, &f64)| {
            hop.base + hop.jitter * uniform(rng) + if first { 0.0 } else { *queue }
        };
        self.hops[..h].iter().zip(filled).map(one).sum::<f64>() + 0.02
    }
}

fn row(sent_ns: i64, seq: i64, target: &str, ms: Option<f64>) -> Delay {
    Delay {
        rtt_ns: ms.map(|ms| (ms * 1e6) as i64),
        status: if ms.is_some() {
            Status::Ok
        } else {
            Status::Lost
        },
        ..Delay::unanswered(sent_ns, seq, target.into())
    }
}

fn cannot_tell(outcome: &Outcome, key: &str) -> String {
    match outcome.figure(key) {
        Figure::CannotTell { cannot_tell } => cannot_tell.clone(),
        Figure::Is { value, .. } => panic!("{key} is {value}"),
    }
}

#[test]
fn the_hop_at_which_packets_wait_is_found_wherever_it_lies() {
    for queue in [8.0, 40.0, 400.0] {
        for at in 1..=4 {
            let mut hops = [PLAIN; 4];
            hops[at - 1] = waits(queue);
            for way in ["up", "down"] {
                let outcome = Bench {
                    way,
                    ..Bench::new(&hops)
                }
                .run();
                near(&outcome, &format!("queue_hop_{way}"), at as f64, 0.0);
                near(
                    &outcome,
                    &format!("queue_{way}_ms"),
                    0.85 * queue,
                    0.1 * queue,
                );
            }
        }
    }
}

#[test]
fn of_two_queues_the_longer_one_is_named_and_the_other_shown() {
    let outcome = Bench::new(&[PLAIN, waits(30.0), PLAIN, waits(200.0), PLAIN]).run();
    near(&outcome, "queue_hop_up", 4.0, 0.0);
    let other = "on the way to hop 2 (10.0.2.1) round trips grow by 2";
    assert!(
        outcome.evidence.iter().any(|e| e.contains(other)),
        "{:?}",
        outcome.evidence
    );
}

#[test]
fn jitter_as_of_wifi_on_the_first_hop_is_no_queue_and_hides_none_behind_it() {
    let radio = Hop {
        jitter: 15.0,
        ..PLAIN
    };
    let outcome = Bench::new(&[radio, waits(60.0), PLAIN]).run();
    near(&outcome, "queue_hop_up", 2.0, 0.0);
    let (_, low, high) = figure(&outcome, "queue_up_ms");
    assert!(low < 51.0 && 51.0 < high, "{low} to {high}");
    assert!(
        outcome
            .says
            .contains("from hop 1 (10.0.1.1) on, as over a radio link"),
        "{}",
        outcome.says
    );
    // And where there is no queue at all, none is made up.
    let outcome = Bench::new(&[radio, PLAIN, PLAIN]).run();
    cannot_tell(&outcome, "queue_hop_up");
}

#[test]
fn a_router_that_is_slow_to_answer_is_not_mistaken_for_a_queue() {
    let slow = Hop {
        own: 300.0,
        ..PLAIN
    };
    let outcome = Bench::new(&[PLAIN, slow, waits(60.0), PLAIN]).run();
    // It tells nothing of the stretch before it, so the queue is before it or behind it.
    let (hop, low, high) = figure(&outcome, "queue_hop_up");
    assert_eq!((hop, low, high), (3.0, 2.0, 3.0));
    near(&outcome, "queue_up_ms", 51.0, 6.0);
    let remarks = &outcome.tables[0].rows[1];
    assert!(
        remarks
            .last()
            .is_some_and(|r| r.contains("slow to answer by itself")),
        "{remarks:?}"
    );
    let outcome = Bench::new(&[PLAIN, slow, PLAIN, PLAIN]).run();
    cannot_tell(&outcome, "queue_hop_up");
    assert!(
        outcome.says.contains("packets wait nowhere"),
        "{}",
        outcome.says
    );
}

#[test]
fn a_hop_that_limits_its_answers_is_told_from_one_that_loses_packets() {
    let rare = Hop {
        answers: 0.3,
        ..PLAIN
    };
    let outcome = Bench::new(&[PLAIN, rare, waits(100.0)]).run();
    let remark = outcome.tables[0].rows[1].last().expect("a remark");
    assert!(remark.contains("it limits its answers"), "{remark}");
    let (hop, low, _) = figure(&outcome, "queue_hop_up");
    assert_eq!(hop, 3.0);
    assert!(low >= 2.0);
    let mute = Hop {
        answers: 0.0,
        ..PLAIN
    };
    let outcome = Bench::new(&[PLAIN, mute, waits(100.0)]).run();
    let (hop, low, high) = figure(&outcome, "queue_hop_up");
    assert_eq!(
        (hop, low, high),
        (3.0, 2.0, 3.0),
        "before the mute hop or behind it"
    );
}

#[test]
fn icmp_that_passes_by_the_queue_is_told_and_does_not_move_the_queue() {
    let hops = [PLAIN, waits(400.0), PLAIN];
    let favoured = Bench {
        icmp_first: true,
        ..Bench::new(&hops)
    };
    let outcome = favoured.run();
    near(&outcome, "icmp_favoured_up", 1.0, 0.0);
    near(&outcome, "queue_hop_up", 2.0, 0.0);
    near(&Bench::new(&hops).run(), "icmp_favoured_up", 0.0, 0.0);
    // Downwards what hops say is ICMP itself: it tells nothing of the queue.
    let outcome = Bench {
        way: "down",
        ..favoured
    }
    .run();
    near(&outcome, "icmp_favoured_down", 1.0, 0.0);
    let why = cannot_tell(&outcome, "queue_hop_down");
    assert!(why.contains("does not wait where the load does"), "{why}");
}

#[test]
fn a_server_that_says_nothing_of_its_own_leaves_open_how_far_behind_the_queue_lies() {
    let outcome = Bench {
        server_says: false,
        ..Bench::new(&[PLAIN, PLAIN, waits(100.0)])
    }
    .run();
    let why = cannot_tell(&outcome, "queue_hop_up");
    assert!(why.starts_with("behind hop 2"), "{why}");
    near(&outcome, "queue_up_ms", 85.0, 10.0);
}

/// Tables 6.4.1 and 6.4.2 of the study of cellular networks: 51 % of the way to bbc.co.uk over GPRS.
#[test]
fn the_share_of_the_first_hop_in_the_whole_round_trip_is_told() {
    let access = Hop {
        base: 302.0,
        ..PLAIN
    };
    let rest = Hop {
        base: 182.0,
        ..PLAIN
    };
    let outcome = Bench::new(&[access, rest]).run();
    near(&outcome, "first_hop_share", 302.0 / 484.0, 0.01);
    near(&outcome, "first_hop_idle_ms", 302.0, 0.5);
    near(&outcome, "server_idle_ms", 484.0, 0.5);
}

/// The second router lies behind the link: its growth with the size is that of the link's rate up.
#[test]
fn packets_of_several_sizes_tell_the_capacity_of_the_link() {
    let (mut held, mut told) = (0, 0);
    for seed in 1..=25 {
        let mut rng = Streams::new(seed).stream("capacity");
        let rate = 1e6 * (30.0_f64).powf(uniform(&mut rng));
        let up = format!(
            "rate = \"{rate:.0} bit/s\"\ndelay = \"{:.1} ms\"\njitter = \"uniform:width=0.1ms\"",
            1.0 + 20.0 * uniform(&mut rng)
        );
        let plan = Plan::new(line(&up), seed);
        let asked = "path:blocks=6,load=none,idle=5 s";
        let outcome = over(asked, &plan, Bytes::new(100_000_000));
        let first = cannot_tell(&outcome, "capacity_hop1_bps");
        assert!(first.contains("not grow"), "seed {seed}: {first}");
        if let Figure::Is { value, low, high } = *outcome.figure("capacity_hop2_bps") {
            told += 1;
            held += i32::from((low..=high).contains(&rate));
            assert!(
                (value / rate - 1.0).abs() < 0.35,
                "seed {seed}: {value} of {rate}"
            );
        }
    }
    eprintln!("seeds 1 to 25: {held} of {told} intervals hold the rate");
    assert!(told >= 23 && held * 100 >= told * 80, "{held} of {told}");
}
