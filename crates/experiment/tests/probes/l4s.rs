//! The kind `l4s` over disciplines with random parameters, rates and round trips. L4S_SEED repeats the draws;
//! `make l4s-draws` prints the table of docs/book/probe/l4s.md. The truth is the discipline, and the queue's own log of marks.

use base::record::{Direction, Meta, Recording};
use base::rng::{Rng, Streams, uniform};
use base::{BitsPerSec, Bytes, Duration};
use experiment::ecn::Place;
use experiment::l4s::{Judged, Queues, Verdict, judged};
use experiment::spec::Far;
use experiment::{Bounds, Others, ProbeSpec, Setting};
use link::LinkSpec;
use sim::bufferbloat::network::{Policer, Router, Treatment, Which};
use sim::bufferbloat::{Network, Plan, Seen, carry_out};
use stats::Figure;
use std::net::Ipv4Addr;
use std::str::FromStr;

const DRAWS: u64 = 100;
/// Time before which Prague ran alone; after it nothing is marked until both flows run.
const ALONE_NS: u64 = 15_000_000_000;

pub(super) fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * uniform(rng)).exp()
}

struct Drawn {
    plan: Plan,
    what: String,
    mbps: f64,
    verdict: Verdict,
    queues: Queues,
    /// Waits from which on some and all L4S datagrams are marked, ms: a discipline may have a ramp.
    threshold: Option<[f64; 2]>,
}

/// Discipline of a draw as people write it, its verdict, its queues and its threshold in ms.
fn discipline(
    rng: &mut Rng,
    number: u64,
    mbps: f64,
) -> (String, Verdict, Queues, Option<[f64; 2]>) {
    let us = |ms: f64| format!("{} us", (ms * 1e3).round());
    let packets = |ms: f64| (mbps * ms * 1e3 / 9824.0).round().max(3.0);
    match number % 5 {
        0 => {
            let (least, range) = (between(rng, 0.4, 4.0), between(rng, 0.2, 1.0));
            let text = format!(
                "dualpi2:min_th={},range={},target={},random={}",
                us(least),
                us(range),
                us(between(rng, 10.0, 25.0)),
                uniform(rng) < 0.5
            );
            (
                text,
                Verdict::Works,
                Queues::Dual,
                Some([least, least + range]),
            )
        }
        1 => {
            let threshold = between(rng, 0.5, 4.0);
            let text = format!(
                "fq_codel:ce_threshold={},ce_l4s={},target={}",
                us(threshold),
                uniform(rng) < 0.5,
                us(between(rng, 5.0, 20.0))
            );
            (text, Verdict::Works, Queues::Fair, Some([threshold; 2]))
        }
        2 => {
            let (target, interval) = (between(rng, 3.0, 20.0), between(rng, 50.0, 150.0));
            let text = format!(
                "codel:ecn=true,target={},interval={}",
                us(target),
                us(interval)
            );
            (text, Verdict::ClassicMarks, Queues::One, None)
        }
        3 => {
            let least = packets(between(rng, 4.0, 15.0));
            let text = format!(
                "red:ecn=true,min={least},max={},max_p={:.3},limit={}",
                least * 3.0,
                between(rng, 0.02, 0.2),
                packets(400.0)
            );
            (text, Verdict::ClassicMarks, Queues::One, None)
        }
        _ => {
            let text = format!("fifo:packets={}", packets(between(rng, 15.0, 300.0)));
            (text, Verdict::NoMarks, Queues::One, None)
        }
    }
}

/// Link with this queue in one direction, and the time of half a round trip in both.
pub(super) fn link(direction: Direction, queue: &str, rates: [f64; 2], delay_us: f64) -> LinkSpec {
    let [mbps, other] = rates;
    let queued =
        format!("rate = \"{mbps} Mbit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"{queue}\"\n");
    let idle = format!("rate = \"{other} Mbit/s\"\ndelay = \"{delay_us} us\"\n");
    let [up, down] = match direction {
        Direction::Up => [queued, idle],
        Direction::Down => [idle, queued],
    };
    let text = format!("name = \"t\"\ntitle = \"t\"\n[up]\n{up}[down]\n{down}");
    LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Rate of the other direction: links are asymmetric.
pub(super) fn other(rng: &mut Rng, direction: Direction, mbps: f64) -> f64 {
    match direction {
        Direction::Up => (mbps * between(rng, 1.0, 8.0)).round(),
        Direction::Down => (mbps / between(rng, 1.0, 10.0) * 10.0).ceil() / 10.0,
    }
}

fn draw(seed: u64, number: u64, direction: Direction) -> Drawn {
    let mut rng = Streams::new(seed ^ number << 20).stream("l4s");
    let mbps = (between(&mut rng, 8.0, 100.0) * 10.0).round() / 10.0;
    let rtt_ms = between(&mut rng, 5.0, 80.0);
    let (queue, verdict, queues, threshold) = discipline(&mut rng, number, mbps);
    let delay = (rtt_ms * 500.0).round();
    let rates = [mbps, other(&mut rng, direction, mbps)];
    let link = link(direction, &queue, rates, delay);
    Drawn {
        plan: Plan {
            logs_marks: true,
            ..Plan::new(link, seed ^ number)
        },
        what: format!("{direction}: {mbps} Mbit/s, RTT {rtt_ms:.1} ms, {queue}"),
        mbps,
        verdict,
        queues,
        threshold,
    }
}

pub(super) fn run(plan: &Plan, spec: &str) -> (Recording, Seen) {
    let spec: ProbeSpec = spec.parse().expect("a kind");
    let budget = Bytes::new(10_000_000_000);
    let setting = Setting {
        budget,
        far: Far::Virtual,
    };
    let mut steps = spec.steps(&setting).expect("it is enough");
    let bounds = Bounds {
        others: Others::Keep(Duration::ZERO),
        ..Bounds::of(budget)
    };
    let outcome = carry_out(plan, &mut *steps, &bounds, "probe").expect("it runs");
    let recording = Recording {
        meta: Meta {
            plan: serde_json::json!({ "probe": spec }),
            ..outcome.recording.meta
        },
        ..outcome.recording
    };
    (recording, outcome.seen)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Score {
    Right,
    CannotTell,
    Wrong,
}

fn score(found: &Judged, drawn: &Drawn) -> Score {
    let queues = match found.queues {
        Queues::Unknown(_) => true,
        ref known => *known == drawn.queues,
    };
    match &found.verdict {
        Verdict::Unknown(_) => Score::CannotTell,
        verdict if *verdict == drawn.verdict && queues => Score::Right,
        _ => Score::Wrong,
    }
}

/// True if a time is within 1 ms or 15 % of the truth.
fn near(ms: f64, truth: f64) -> bool {
    (ms - truth).abs() <= (0.15 * truth).max(1.0)
}

/// Median sojourn time of the packets that the queue marked while Prague ran alone, ms.
fn logged(seen: &Seen) -> Option<f64> {
    let alone = seen.marks.iter().filter(|m| m.t_ns < ALONE_NS);
    let mut waits: Vec<u64> = alone.map(|m| m.sojourn_ns).collect();
    waits.sort_unstable();
    waits.get(waits.len() / 2).map(|ns| *ns as f64 * 1e-6)
}

fn seed() -> u64 {
    let given = std::env::var("L4S_SEED").ok();
    let seed = given.map_or(20_261_124, |s| s.parse().expect("L4S_SEED is a number"));
    println!("L4S_SEED={seed}");
    seed
}

/// Counts of one discipline.
#[derive(Default)]
struct Row {
    scores: [u32; 3],
    /// Thresholds that are near, and those that are known.
    thresholds: [u32; 2],
    /// Intervals of thresholds that hold a wait of the ramp.
    held: u32,
    /// The same of the waits at marks, by the queue's log.
    marks: [u32; 2],
}

impl Row {
    fn add(&mut self, found: &Judged, drawn: &Drawn, seen: &Seen) -> (Score, bool) {
        let mut score = score(found, drawn);
        // Rates and waits of a draw that cannot be told are judged all the same.
        let mut far = false;
        if let (Some(t), Some([some, all])) = (found.threshold, drawn.threshold) {
            let is_near = near(t.ms, (some + all) / 2.0);
            let holds = t.interval.0 <= all && some <= t.interval.1;
            self.thresholds[0] += u32::from(is_near);
            self.thresholds[1] += 1;
            self.held += u32::from(holds);
            far |= !is_near || !holds;
        }
        if let (Some([_, median, _]), Some(truth)) = (found.at_marks, logged(seen)) {
            self.marks[0] += u32::from(near(median, truth));
            self.marks[1] += 1;
            far |= !near(median, truth);
        } else if found.at_marks.is_some() != logged(seen).is_some() {
            score = Score::Wrong;
        }
        self.scores[score as usize] += 1;
        (score, far)
    }

    fn print(&self, name: &str) {
        let [right, unknown, wrong] = self.scores;
        let of = |[near, all]: [u32; 2]| match all {
            0 => "–".to_owned(),
            _ => format!("{near} of {all}"),
        };
        println!(
            "| {name} | {} | {right} | {unknown} | {wrong} | {} | {} | {} |",
            right + unknown + wrong,
            of(self.thresholds),
            of([self.held, self.thresholds[1]]),
            of(self.marks)
        );
    }
}

#[test]
fn l4s_verdicts_and_thresholds_up_are_those_of_the_queue() {
    draws(Direction::Up);
}

#[test]
fn l4s_verdicts_and_thresholds_down_are_those_of_the_queue() {
    draws(Direction::Down);
}

fn draws(direction: Direction) {
    let seed = seed();
    let mut rows: [Row; 5] = Default::default();
    for number in 0..DRAWS {
        let drawn = draw(seed, number, direction);
        let (recording, seen) = run(&drawn.plan, &format!("l4s:direction={direction}"));
        let found = judged(&recording, direction);
        let (score, far) = rows[(number % 5) as usize].add(&found, &drawn, &seen);
        if score != Score::Right || far {
            println!(
                "L4S_SEED={seed}, draw {number}: {}: {score:?}: {found:?}; log {:?}, threshold {:?}",
                drawn.what,
                logged(&seen),
                drawn.threshold
            );
        }
    }
    println!(
        "{direction}:\n| queue | draws | right | cannot tell | wrong | threshold | its interval holds it | wait at marks |\n|---|---|---|---|---|---|---|---|"
    );
    let names = [
        "DualPI2",
        "FQ-CoDel with ce_threshold",
        "CoDel with ECN",
        "RED with ECN",
        "FIFO",
    ];
    for (name, row) in names.iter().zip(&rows) {
        row.print(name);
    }
    let sum = |of: fn(&Row) -> u32| rows.iter().map(of).sum::<u32>();
    assert!(
        sum(|r| r.scores[0]) >= 90,
        "right: {}",
        sum(|r| r.scores[0])
    );
    assert!(sum(|r| r.scores[2]) <= 1, "wrong: {}", sum(|r| r.scores[2]));
    let (held, all) = (sum(|r| r.held), sum(|r| r.thresholds[1]));
    assert!(f64::from(held) >= 0.95 * f64::from(all), "{held} of {all}");
    for (near, all) in [
        (sum(|r| r.thresholds[0]), sum(|r| r.thresholds[1])),
        (sum(|r| r.marks[0]), sum(|r| r.marks[1])),
    ] {
        assert!(f64::from(near) >= 0.9 * f64::from(all), "{near} of {all}");
    }
}

/// A DualPI2 link behind so many routers, one of which treats datagrams of a direction in this way.
fn behind(
    (count, router): (u8, usize),
    direction: Direction,
    which: Which,
    rewrite: Option<(u8, u8)>,
) -> Plan {
    let plan = draw(1, 0, direction).plan;
    let of = |hop: u8| Router {
        address: Ipv4Addr::new(10, 0, 0, hop).into(),
        delay: Duration::from_micros(200),
        beyond: hop > 1,
        at_most_every: Duration::ZERO,
        silent: false,
        quotes: 64,
    };
    Plan {
        network: Network {
            routers: (1..=count).map(of).collect(),
            treatments: vec![Treatment {
                router,
                direction,
                leaving: false,
                which,
                rewrite,
            }],
            ..Network::default()
        },
        ..plan
    }
}

#[test]
fn l4s_codepoints_that_do_not_arrive_are_the_answer_with_their_hop() {
    let seed = seed();
    let mut rng = Streams::new(seed).stream("l4s hops");
    for (which, rewrite, expected) in [
        (Which::Ecn, Some((0xfc, 0)), Verdict::Changed(0)),
        (Which::Codepoint(1), Some((0xfc, 2)), Verdict::Changed(2)),
        (Which::Ecn, Some((0xfc, 3)), Verdict::Changed(3)),
        (Which::Codepoint(1), None, Verdict::Lost),
        (Which::Codepoint(3), Some((0xfc, 1)), Verdict::Erased),
    ] {
        for direction in [Direction::Up, Direction::Down] {
            let count = 1 + (uniform(&mut rng) * 6.0) as usize;
            let router = 1 + (uniform(&mut rng) * count as f64) as usize;
            let plan = behind((count as u8, router), direction, which, rewrite);
            let (recording, _) = run(&plan, &format!("l4s:time=3s,direction={direction}"));
            let found = judged(&recording, direction);
            let at = format!("seed {seed}, {direction}, router {router} of {count}, {rewrite:?}");
            assert_eq!(found.verdict, expected, "{at}: {found:?}");
            // Counted from the sender, which is the server downwards.
            let by = match direction {
                Direction::Up => router,
                Direction::Down => count + 1 - router,
            } as u8;
            let place = found.hop.and_then(|f| f.place);
            let expected = Place::Between {
                after: by - 1,
                by: Some(by),
            };
            assert_eq!(place, Some(expected), "{at}");
        }
    }
}

#[test]
fn l4s_policing_of_ect1_is_told_from_tail_drop() {
    use Direction::{Down, Up};
    for (number, direction) in [(4, Up), (9, Up), (14, Down), (19, Down)] {
        let Drawn { mut plan, mbps, .. } = draw(seed(), number, direction);
        plan.network.policer = Some(Policer {
            direction,
            which: Which::Codepoint(1),
            rate: BitsPerSec::new((mbps * 1e6 / 4.0) as u64),
            burst: Bytes::new(20_000),
            after: Duration::ZERO,
        });
        let (recording, _) = run(&plan, &format!("l4s:direction={direction}"));
        let found = judged(&recording, direction);
        assert_eq!(
            found.verdict,
            Verdict::Policed,
            "{direction}, draw {number}: {found:?}"
        );
    }
}

#[test]
fn l4s_does_not_take_a_full_uplink_for_the_downlink() {
    for number in 0..5 {
        let Drawn { what, mbps, .. } = draw(seed(), number, Direction::Down);
        // Requests are a twentieth of what they bring.
        let rates = [mbps * 10.0, mbps / 4.0];
        let plan = Plan::new(
            link(Direction::Down, "fifo:packets=2000", rates, 10_000.0),
            number,
        );
        let (recording, _) = run(&plan, "l4s:direction=down,time=5s");
        let found = judged(&recording, Direction::Down);
        let Verdict::Unknown(why) = &found.verdict else {
            panic!("{what}: {found:?}");
        };
        assert!(why.contains("uplink was full"), "{what}: {why}");
    }
}

#[test]
fn l4s_both_directions_are_one_answer() {
    let plan = draw(1, 0, Direction::Down).plan;
    let (recording, _) = run(&plan, "l4s:time=4s");
    let up = judged(&recording, Direction::Up);
    let down = judged(&recording, Direction::Down);
    assert_eq!(up.verdict, Verdict::NoMarks, "{up:?}");
    assert_eq!(down.verdict, Verdict::Works, "{down:?}");
    let spec = &ProbeSpec::from_str("l4s").expect("a kind");
    let outcome = (spec.kind().answer)(spec.words(), &recording);
    for part in ["No marks up", "L4S works down"] {
        assert!(outcome.says.contains(part), "{}", outcome.says);
    }
}

/// Share of intervals of eight seconds that hold what half a minute shows, of links with one queue of a classic AQM.
#[test]
fn l4s_harm_to_cubic_is_told_with_an_interval_that_holds() {
    let seed = seed();
    let (mut all, mut held, mut harmed) = (0, 0, 0);
    for number in (0..30).filter(|n| matches!(n % 5, 2 | 3)) {
        let drawn = draw(seed, number, Direction::Down);
        let of_fair = |time: &str, other: u64| {
            let plan = Plan {
                seed: seed ^ number ^ other,
                ..drawn.plan.clone()
            };
            let (recording, _) = run(&plan, &format!("l4s:direction=down,time={time}"));
            let judged = judged(&recording, Direction::Down);
            (judged.verdict, judged.classic_of_fair)
        };
        let (verdict, found) = of_fair("8s", 0);
        let (_, truth) = of_fair("30s", 1 << 40);
        let (Figure::Is { value, low, high }, Figure::Is { value: truth, .. }) = (found, truth)
        else {
            continue;
        };
        if verdict != Verdict::ClassicMarks {
            continue;
        }
        all += 1;
        let holds = low <= truth && truth <= high;
        held += u32::from(holds);
        harmed += u32::from(truth < 0.9);
        println!(
            "{}: {value:.2} ({low:.2} to {high:.2}), in half a minute {truth:.2}{}",
            drawn.what,
            if holds { "" } else { ": missed" }
        );
    }
    println!("{held} of {all} intervals hold; CUBIC is harmed in {harmed}");
    assert!(all >= 7 && held * 10 >= all * 8, "{held} of {all}");
}
