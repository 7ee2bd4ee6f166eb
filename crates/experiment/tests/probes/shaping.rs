//! The kind `shaping` over links drawn at random, and verdicts from recordings made by hand. SHAPING_SEED repeats the draws.

use super::l4s::{between, link, other, run};
use base::record::{Delay, Direction, Event, Recording, Status};
use base::rng::Streams;
use experiment::shaping::{Judged, Manner, Verdict, judged};
use sim::bufferbloat::Plan;
use stats::Figure;

const DRAWS: u64 = 40;

fn value(figure: &Figure) -> f64 {
    figure.value().unwrap_or_else(|| panic!("{figure:?}"))
}

/// A drop-tail queue holds a file back by its own length; a file at nine tenths of the rate leaves it nearly empty, and takes ten
/// ninths of the time.
#[test]
fn a_file_below_the_rate_leaves_a_drop_tail_queue_empty() {
    let given = std::env::var("SHAPING_SEED").ok();
    let seed = given.map_or(20_261_127, |s| s.parse().expect("SHAPING_SEED is a number"));
    println!("SHAPING_SEED={seed}");
    let mut wrong = 0;
    for number in 0..DRAWS {
        let mut rng = Streams::new(seed ^ number << 20).stream("shaping");
        let mbps = (between(&mut rng, 0.5, 60.0) * 10.0).round() / 10.0;
        let rtt_ms = between(&mut rng, 5.0, 80.0);
        let buffer_ms = between(&mut rng, 50.0, 400.0);
        let share = between(&mut rng, 60.0, 95.0).round();
        let bytes = (mbps * buffer_ms * 125.0).round().max(12_000.0);
        let queue = format!("fifo:bytes={bytes}");
        let delay = (rtt_ms * 500.0).round();
        let rates = [mbps, other(&mut rng, Direction::Up, mbps)];
        let plan = Plan::new(link(Direction::Up, &queue, rates, delay), seed ^ number);
        // CUBIC needs some seconds until it has filled a long queue again.
        let (recording, _) = run(&plan, &format!("shaping:time=20 s,share={share}"));
        let found = judged(&recording);
        let what = format!(
            "draw {number}: {mbps} Mbit/s, RTT {rtt_ms:.1} ms, {queue}, share {share} %: {found:?}"
        );
        assert_eq!(found.verdict, Verdict::Helps, "{what}");
        let way = |manner: Manner| found.ways.get(&manner).expect("it was tried");
        let packet_ms = 12.0 / mbps;
        let full_ms = bytes * 8e-3 / mbps;
        let free = value(&way(Manner::Continuous).wait);
        let shaped = value(&way(Manner::Shaped).wait);
        let ratio = value(&way(Manner::Shaped).ratio);
        let expected = 100.0 / share;
        let is_full = (0.75..1.1).contains(&(free / (full_ms + packet_ms)));
        let is_empty = shaped < 3.0 * packet_ms + 2.0;
        let is_late = (ratio / expected - 1.0).abs() < 0.06;
        if !(is_full && is_empty && is_late) {
            wrong += 1;
            println!(
                "full {full_ms:.1}, free {free:.1}, shaped {shaped:.2}, ratio {ratio:.3} of {expected:.3}: {what}"
            );
        }
    }
    assert!(wrong <= 1, "{wrong} of {DRAWS}");
}

/// Others have a queue of their own: there is nothing to gain.
#[test]
fn flow_queues_need_no_shaping() {
    for (seed, mbps) in [(1, 1.0), (2, 5.0), (3, 20.0), (4, 80.0)] {
        let plan = Plan::new(
            link(Direction::Up, "fq_codel", [mbps, 100.0], 10_000.0),
            seed,
        );
        let (recording, _) = run(&plan, "shaping");
        let found = judged(&recording);
        assert_eq!(found.verdict, Verdict::NoQueue, "{mbps}: {found:?}");
    }
}

/// Recording with files whose datagrams wait as long as `wait` says, ms, and lose one of `lost`.
fn made(wait: impl Fn(Manner, u64) -> f64, lost: usize, repeats: u64) -> Judged {
    let mut recording = Recording::default();
    let (mut at, mut seq) = (1_000_000_000_000_000_000i64, 0);
    let note = |recording: &mut Recording, at: i64, note: serde_json::Value| {
        let event = Event {
            t_ns: at,
            kind: "shaping".into(),
            subject: "server".into(),
            detail: note.to_string().as_str().into(),
        };
        recording.event.push(event);
    };
    let mut probes = |recording: &mut Recording, from: i64, wait: f64, lost: usize| {
        for i in 0..200i64 {
            let row = Delay::unanswered(from + i * 20_000_000, seq, "udp".into());
            seq += 1;
            let is_lost = lost > 0 && (i as usize).is_multiple_of(lost);
            recording.delay.push(match is_lost {
                true => Delay {
                    status: Status::Lost,
                    ..row
                },
                false => Delay {
                    status: Status::Ok,
                    rtt_ns: Some(((20.0 + wait) * 1e6) as i64),
                    ..row
                },
            });
        }
    };
    probes(&mut recording, at, 0.0, 0);
    note(
        &mut recording,
        at,
        serde_json::json!({"note": "idle", "began_ns": at, "ended_ns": at + 4_000_000_000i64}),
    );
    for repeat in 0..repeats {
        for manner in Manner::ALL {
            at += 5_000_000_000;
            probes(&mut recording, at, wait(manner, repeat), lost);
            note(
                &mut recording,
                at,
                serde_json::json!({
                    "note": "sent", "repeat": repeat, "manner": manner, "size_bytes": 1_000_000, "began_ns": at,
                    "ended_ns": at + 4_000_000_000i64, "limit_bps": null, "flows": [0, 0],
                }),
            );
        }
    }
    judged(&recording)
}

#[test]
fn a_verdict_needs_waits_that_differ_by_more_than_chance() {
    let near = |repeat: u64| repeat as f64 * 0.1;
    let helps = made(
        |m, r| near(r) + if m == Manner::Shaped { 5.0 } else { 100.0 },
        0,
        3,
    );
    assert_eq!(helps.verdict, Verdict::Helps);
    let not = made(|_, r| near(r) + 100.0, 0, 3);
    assert_eq!(not.verdict, Verdict::DoesNotHelp);
    let empty = made(|_, r| near(r) + 2.0, 0, 3);
    assert_eq!(empty.verdict, Verdict::NoQueue);
    // Waits between 10 and 200 ms in each manner tell nothing.
    let wild = |r: u64| [10.0, 200.0, 60.0][r as usize];
    let chance = made(
        |m, r| wild(r) * if m == Manner::Shaped { 0.3 } else { 1.0 },
        0,
        3,
    );
    assert!(matches!(chance.verdict, Verdict::Unknown(_)), "{chance:?}");
    // One of ten datagrams is lost: the 95th percentile lies among them.
    let lossy = made(
        |m, r| near(r) + if m == Manner::Shaped { 5.0 } else { 100.0 },
        10,
        3,
    );
    assert!(matches!(lossy.verdict, Verdict::Unknown(_)), "{lossy:?}");
    let once = made(|m, _| if m == Manner::Shaped { 5.0 } else { 100.0 }, 0, 1);
    assert!(matches!(once.verdict, Verdict::Unknown(_)), "{once:?}");
}
