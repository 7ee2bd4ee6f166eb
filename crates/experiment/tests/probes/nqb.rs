//! The kind `nqb` over disciplines with random parameters, rates and round trips. NQB_SEED repeats the draws;
//! `make nqb-draws` prints the table of docs/book/probe/nqb.md. The truth is the discipline.

use super::l4s::{between, link, other, run};
use base::record::Direction;
use base::rng::{Rng, Streams};
use experiment::nqb::{Judged, Protection, Verdict, judged};
use sim::bufferbloat::Plan;
use sim::bufferbloat::network::{Treatment, Which};

const DRAWS: u64 = 60;

struct Drawn {
    plan: Plan,
    what: String,
    verdict: Verdict,
    /// Null if there is no queue to protect.
    protected: Option<bool>,
}

fn discipline(rng: &mut Rng, number: u64, mbps: f64) -> (String, Verdict, Option<bool>) {
    let us = |ms: f64| format!("{} us", (ms * 1e3).round());
    let packets = |ms: f64| (mbps * ms * 1e3 / 9824.0).round().max(20.0);
    match number % 6 {
        0 => {
            let text = format!("fifo:packets={}", packets(between(rng, 20.0, 300.0)));
            (text, Verdict::Shared, None)
        }
        1 => {
            let text = format!("pie:target={}", us(between(rng, 8.0, 25.0)));
            (text, Verdict::Shared, None)
        }
        2 => {
            let first = packets(between(rng, 10.0, 30.0));
            let rest = packets(between(rng, 30.0, 200.0));
            let text = format!("prio:from_dscp=45,first_limit={first},rest=fifo,limit={rest}");
            (text, Verdict::Own, Some(false))
        }
        3 => {
            let text = format!("dualpi2:nqb=true,target={}", us(between(rng, 10.0, 25.0)));
            (text, Verdict::Own, Some(false))
        }
        4 => {
            let text = format!("fq_codel:target={}", us(between(rng, 5.0, 20.0)));
            (text, Verdict::Fair, Some(true))
        }
        _ => ("dualpi2:nqb=true".to_owned(), Verdict::Changed(0), None),
    }
}

fn draw(seed: u64, number: u64, direction: Direction) -> Drawn {
    let mut rng = Streams::new(seed ^ number << 20).stream("nqb");
    let mbps = (between(&mut rng, 8.0, 100.0) * 10.0).round() / 10.0;
    let rtt_ms = between(&mut rng, 5.0, 60.0);
    let (queue, verdict, protected) = discipline(&mut rng, number, mbps);
    let delay = (rtt_ms * 500.0).round();
    let rates = [mbps, other(&mut rng, direction, mbps)];
    let link = link(direction, &queue, rates, delay);
    let mut plan = Plan::new(link, seed ^ number);
    if let Verdict::Changed(_) = verdict {
        plan.network.treatments.push(Treatment {
            router: 1,
            direction,
            leaving: false,
            which: Which::Dscps,
            rewrite: Some((3, 0)),
        });
    }
    Drawn {
        plan,
        what: format!("{direction}: {mbps} Mbit/s, RTT {rtt_ms:.1} ms, {queue}"),
        verdict,
        protected,
    }
}

/// Index of right, cannot tell or wrong.
fn score(found: &Judged, drawn: &Drawn) -> usize {
    let protection = match (&found.protection, drawn.protected) {
        (_, None) => 0,
        (Protection::Unknown(_), _) => 1,
        (Protection::Protected, Some(true)) | (Protection::Exposed, Some(false)) => 0,
        _ => 2,
    };
    match &found.verdict {
        Verdict::Unknown(_) => 1,
        verdict if *verdict == drawn.verdict => protection,
        _ => 2,
    }
}

fn seed() -> u64 {
    let given = std::env::var("NQB_SEED").ok();
    let seed = given.map_or(20_261_124, |s| s.parse().expect("NQB_SEED is a number"));
    println!("NQB_SEED={seed}");
    seed
}

#[test]
fn nqb_queues_up_and_their_protection_are_those_of_the_discipline() {
    draws(Direction::Up);
}

#[test]
fn nqb_queues_down_and_their_protection_are_those_of_the_discipline() {
    draws(Direction::Down);
}

fn draws(direction: Direction) {
    let seed = seed();
    let mut rows = [[0u32; 3]; 6];
    for number in 0..DRAWS {
        let drawn = draw(seed, number, direction);
        let (recording, _) = run(&drawn.plan, &format!("nqb:direction={direction}"));
        let found = judged(&recording, direction);
        let score = score(&found, &drawn);
        rows[(number % 6) as usize][score] += 1;
        if score > 0 {
            println!("NQB_SEED={seed}, draw {number}: {}: {found:?}", drawn.what);
        }
    }
    println!(
        "{direction}:\n| queue | draws | right | cannot tell | wrong |\n|---|---|---|---|---|"
    );
    let names = [
        "FIFO",
        "PIE",
        "priority of DSCP 45",
        "DualPI2 with NQB",
        "FQ-CoDel",
        "DSCP cleared before DualPI2 with NQB",
    ];
    for (name, [right, unknown, wrong]) in names.iter().zip(rows) {
        let all = right + unknown + wrong;
        println!("| {name} | {all} | {right} | {unknown} | {wrong} |");
    }
    let sum = |i: usize| rows.iter().map(|r| r[i]).sum::<u32>();
    assert!(sum(0) * 10 >= DRAWS as u32 * 9, "right: {}", sum(0));
    assert_eq!(sum(2), 0, "wrong");
}
