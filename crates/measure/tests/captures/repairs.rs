//! Repairs of losses by a sender whose every decision is known, with super-segments of offload and without: when the same
//! bytes were sent before, why they were sent again, and which round trips may be taken.

use crate::model::{Plan, Run, Why, run};
use crate::packets::{self, MS};
use measure::track::{Blame, BurstKind, Cause, Connection, Half};

/// Draws of links, senders and receivers; a failure names the one.
const DRAWS: u64 = 150;

pub fn track(run: &Run) -> Connection {
    let mut traffic = packets::track(&run.packets, 128);
    assert_eq!(traffic.connections.len(), 1);
    traffic.connections.remove(0)
}

struct Score {
    right: u64,
    all: u64,
}

impl Score {
    fn share(&self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }
}

/// Pairs of what the sender did and what is said of it.
fn paired<'a>(
    plan: &Plan,
    run: &'a Run,
    half: &'a Half,
) -> impl Iterator<
    Item = (
        &'a crate::model::Again,
        &'a measure::track::Retransmission,
        Blame,
    ),
> {
    let said = &half.events().retransmissions;
    assert_eq!(said.len(), run.again.len(), "{plan:?}");
    let blames = half.events().losses().map(|l| l.blame).collect::<Vec<_>>();
    let mut blames = blames.into_iter();
    let blamed: Vec<Blame> = said
        .iter()
        .map(|r| {
            if r.needless {
                Blame::Neither
            } else {
                blames.next().unwrap()
            }
        })
        .collect();
    run.again
        .iter()
        .zip(said)
        .zip(blamed)
        .map(|((a, r), b)| (a, r, b))
}

#[test]
fn repairs_are_dated_and_explained_by_the_bytes_that_they_hold() {
    let (mut by_ack, mut by_timer) = (Score { right: 0, all: 0 }, Score { right: 0, all: 0 });
    let mut total = 0;
    for seed in 1..=DRAWS {
        let plan = Plan::draw(seed);
        let run = run(&plan);
        let connection = track(&run);
        let half = &connection.halves[0];
        for (truth, said, blame) in paired(&plan, &run, half) {
            total += 1;
            assert_eq!(
                (said.t_ns, said.position),
                (truth.t, 1 + truth.start),
                "{plan:?}"
            );
            assert_eq!(said.before_ns, Some(truth.before), "{plan:?} {truth:?}");
            let (t, p) = &run.packets[said.before_frame as usize - 1];
            assert_eq!(*t, truth.before, "{plan:?}");
            assert!(p.seq - 1001 <= truth.start as u32, "{plan:?}");
            let (score, right) = match truth.why {
                Why::Timer => (
                    &mut by_timer,
                    matches!(said.cause, Cause::Timeout | Cause::TailProbe),
                ),
                Why::Ack => (
                    &mut by_ack,
                    matches!(said.cause, Cause::Fast | Cause::Sack | Cause::Recovery),
                ),
            };
            score.all += 1;
            score.right += u64::from(right);
            if !right && std::env::var("SHOW").is_ok() {
                println!(
                    "{} {truth:?} {said:?} rtt {} sack {} joined {}",
                    plan.seed, plan.rtt, plan.sack, plan.joined
                );
            }
            if truth.from_joined && !said.needless && !matches!(blame, Blame::Break) {
                assert_eq!(
                    blame,
                    Blame::Burst(BurstKind::Offload),
                    "{plan:?} {truth:?}"
                );
            }
        }
        let joined = half
            .detail()
            .map_or(0, |d| d.bursts.count[BurstKind::Offload as usize]);
        assert!(
            plan.joined > 1 || joined == 0,
            "{plan:?}: {joined} bursts of offload"
        );
    }
    println!(
        "{total} repairs; by ACK {}, by timer {}",
        by_ack.share(),
        by_timer.share()
    );
    assert!(total > 1000);
    assert!(by_ack.share() > 0.99, "{} of {}", by_ack.right, by_ack.all);
    assert!(
        by_timer.share() > 0.97,
        "{} of {}",
        by_timer.right,
        by_timer.all
    );
}

#[test]
fn no_round_trip_is_longer_than_any_byte_took() {
    for seed in 1..=DRAWS {
        let plan = Plan::draw(seed);
        let run = run(&plan);
        let half = &track(&run).halves[0];
        let most = run.longest + plan.held_back.unwrap_or(0) + MS;
        assert!(
            half.rtt.max_ns <= most,
            "{} > {most}: {plan:?}",
            half.rtt.max_ns
        );
        if let Some(d) = half.detail() {
            let prompt = d.course.bins.iter().filter(|b| b.prompt_count > 0);
            for b in prompt {
                let mean = b.prompt_sum_ns / i64::from(b.prompt_count);
                assert!(
                    mean <= run.longest + 2 * MS,
                    "{mean} > {}: {plan:?}",
                    run.longest
                );
            }
        }
    }
}

#[test]
fn every_segment_on_the_wire_is_counted_however_it_was_captured() {
    for seed in 1..=DRAWS {
        let plan = Plan::draw(seed);
        let run = run(&plan);
        let half = &track(&run).halves[0];
        let again: u64 = run
            .again
            .iter()
            .map(|a| (a.end - a.start).div_ceil(plan.mss()))
            .sum();
        let sent = plan.bytes.div_ceil(plan.mss());
        let short = sent + again - half.wire_packets();
        // A last short segment that was not sent again, where the transfer ended before.
        assert_eq!(short, 0, "{plan:?}");
    }
}

/// Waits of the direction with data, and of its ACKs.
fn waits(run: &Run) -> Option<measure::track::queue::Waited> {
    use measure::track::queue::{Trail, waits};
    let c = track(run);
    let trails = [0, 1].map(|way| Trail::of(&c, way));
    let all = waits(trails.into_iter()).into_iter();
    all.filter(|w| w.trail == 0).find_map(|w| w.round)
}

#[test]
fn acks_that_a_receiver_holds_back_are_no_queue_and_a_queue_is_one() {
    for seed in 1..=60 {
        // One segment at a time into an empty link, each ACK held back.
        let mss = Plan::draw(seed).mss();
        let alone = Plan {
            loss: 0.0,
            joined: 1,
            held_back: Some(40 * MS),
            bits_per_s: 100e6,
            writes: Some((mss, 170 * MS)),
            bytes: 60 * mss,
            ..Plan::draw(seed)
        };
        let idle = run(&alone);
        if let Some(w) = waits(&idle) {
            let most = w.waits.max().unwrap_or(0) as i64;
            assert!(most <= idle.wait + 3 * MS, "{most}: {alone:?}");
        }
        // A long transfer with repairs: what is told are waits that bytes had.
        let plan = Plan {
            bytes: 3_000_000,
            loss: 0.01,
            ..Plan::draw(seed)
        };
        let busy = run(&plan);
        let w = waits(&busy).expect("a long transfer tells its waits");
        let most = w.waits.max().unwrap() as i64;
        assert!(
            most <= busy.longest - plan.rtt + 3 * MS,
            "{most} {}: {plan:?}",
            busy.wait
        );
    }
}
