//! The kind `quic` over links that treat UDP badly, drawn at random. QUIC_SEED repeats the draws; `make quic-draws` prints the
//! table of docs/book/probe/quic.md. The truth is the treatment that was planted.

use super::l4s::{between, link, other, run};
use base::record::Direction;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Bytes, Duration};
use experiment::quic::{Judged, Verdict, judged};
use measure::control::listen::Transport;
use sim::bufferbloat::Plan;
use sim::bufferbloat::network::{Block, Policer, Which};
use stats::Figure;

const DRAWS: u64 = 60;
const TREATMENTS: [&str; 4] = [
    "nothing",
    "UDP 443 blocked",
    "UDP policed",
    "UDP throttled after seconds",
];

struct Drawn {
    plan: Plan,
    what: String,
    direction: Direction,
    /// Rate that a policer leaves to QUIC's data, in parts of the link's.
    left: f64,
    after_s: f64,
}

fn draw(seed: u64, number: u64) -> Drawn {
    let mut rng = Streams::new(seed ^ number << 20).stream("quic");
    let direction = match uniform(&mut rng) < 0.5 {
        true => Direction::Up,
        false => Direction::Down,
    };
    let mbps = (between(&mut rng, 8.0, 100.0) * 10.0).round() / 10.0;
    let rtt_ms = between(&mut rng, 5.0, 80.0);
    let queue_ms = between(&mut rng, 20.0, 150.0).max(rtt_ms * 0.7);
    let packets = (mbps * queue_ms * 1e3 / 12_000.0).round().max(10.0);
    let rates = [mbps, other(&mut rng, direction, mbps)];
    let queue = format!("fifo:packets={packets}");
    let link = link(direction, &queue, rates, (rtt_ms * 500.0).round());
    let mut plan = Plan::new(link, seed ^ number);
    let (left, after_s) = match number % 4 {
        2 => (between(&mut rng, 0.25, 0.65), 0.0),
        3 => (between(&mut rng, 0.1, 0.5), between(&mut rng, 3.0, 6.0)),
        _ => (1.0, 0.0),
    };
    if number % 4 == 1 {
        plan.network
            .ports
            .insert((Transport::Udp, 443), Block::Silent);
    }
    if left < 1.0 {
        let rate = mbps * 1e6 * left;
        plan.network.policer = Some(Policer {
            direction,
            which: Which::Every,
            rate: BitsPerSec::new(rate as u64),
            burst: Bytes::new((rate / 8.0 * between(&mut rng, 0.01, 0.05)) as u64 + 20_000),
            after: Duration::from_secs_f64(after_s),
        });
    }
    let treatment = TREATMENTS[(number % 4) as usize];
    Drawn {
        plan,
        what: format!(
            "{direction}: {mbps} Mbit/s, RTT {rtt_ms:.1} ms, {queue}; {treatment}, {left:.2} left after {after_s:.1} s"
        ),
        direction,
        left,
        after_s,
    }
}

/// Index of right, cannot tell or wrong.
fn score(found: &Judged, number: u64) -> usize {
    match (&found.verdict, number % 4) {
        (Verdict::Unknown(_), _) => 1,
        (Verdict::Alike, 0) | (Verdict::Policed, 2) | (Verdict::Throttled { .. }, 3) => 0,
        (
            Verdict::Blocked {
                refused: false,
                plain: Some(true),
            },
            1,
        ) => 0,
        _ => 2,
    }
}

#[test]
fn quic_draws_are_told_by_their_treatment() {
    let given = std::env::var("QUIC_SEED").ok();
    let seed = given.map_or(20_261_126, |s| s.parse().expect("QUIC_SEED is a number"));
    println!("QUIC_SEED={seed}");
    let mut rows = [[0u32; 3]; 4];
    // Times and remains of throttles that are near, and all; rates of policers alike.
    let (mut times, mut remains, mut ratios) = ([0u32; 2], [0u32; 2], [0u32; 2]);
    for number in 0..DRAWS {
        let drawn = draw(seed, number);
        let spec = format!("quic:direction={}", drawn.direction);
        let (recording, _) = run(&drawn.plan, &spec);
        let found = judged(&recording);
        let score = score(&found, number);
        rows[(number % 4) as usize][score] += 1;
        let mut far = false;
        let mut count = |counts: &mut [u32; 2], near: bool| {
            counts[0] += u32::from(near);
            counts[1] += 1;
            far |= !near;
        };
        if let Verdict::Throttled { after_s, left } = found.verdict {
            count(&mut times, (after_s - drawn.after_s).abs() <= 0.5);
            count(&mut remains, (left - drawn.left).abs() <= 0.15);
        }
        if let (Verdict::Policed, Figure::Is { value, .. }) = (&found.verdict, &found.ratio) {
            count(&mut ratios, (value - drawn.left).abs() <= 0.15);
        }
        if score > 0 || far {
            println!("QUIC_SEED={seed}, draw {number}: {}: {found:?}", drawn.what);
        }
    }
    println!("| treatment | draws | right | cannot tell | wrong |\n|---|---|---|---|---|");
    for (name, [right, unknown, wrong]) in TREATMENTS.iter().zip(rows) {
        let all = right + unknown + wrong;
        println!("| {name} | {all} | {right} | {unknown} | {wrong} |");
    }
    for (name, [near, all]) in [
        ("times of throttles within 0.5 s", times),
        ("rates after throttles within 15 %", remains),
        ("rates of policers within 15 %", ratios),
    ] {
        println!("{name}: {near} of {all}");
        assert!(near * 10 >= all * 9, "{name}: {near} of {all}");
    }
    let sum = |i: usize| rows.iter().map(|r| r[i]).sum::<u32>();
    assert!(sum(0) * 10 >= DRAWS as u32 * 9, "right: {}", sum(0));
    assert!(sum(2) <= 1, "wrong: {}", sum(2));
}
