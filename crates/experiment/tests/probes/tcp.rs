//! Transfers as `tailback probe tcp` records them.

use super::{figure, near};
use base::record::{Delay, Direction, Event, Flow, Meta, Recording, Status};
use experiment::{Outcome, ProbeSpec};
use stats::Figure;

struct Made {
    congestion: &'static str,
    window: Option<u64>,
    kilobytes: u64,
    seconds: f64,
    again: u64,
    break_s: f64,
}

/// One after the other, the slow flow beside answered unless `line_breaks`.
fn answer(all: &[Made], line_breaks: bool) -> Outcome {
    let mut r = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": "tcp".parse::<ProbeSpec>().expect("a kind") }),
            complete: true,
            ..Meta::default()
        },
        ..Recording::default()
    };
    let mut at = 1_000_000_000_000_000_000i64;
    let mut seq = 0;
    for (number, t) in all.iter().enumerate() {
        let took = (t.seconds * 1e9) as i64;
        let broken = at + 100_000_000..at + 100_000_000 + (t.break_s * 1e9) as i64;
        let detail = serde_json::json!({
            "congestion": t.congestion, "window_packets": 10, "asked_window_packets": t.window, "offload": null,
            "size_bytes": t.kilobytes * 1000, "began_ns": at, "took_ns": took, "failed": null,
            "retransmits": t.again, "mss_bytes": 1448,
            "break_ns": broken.end - broken.start, "break_began_ns": broken.start,
        });
        r.event.push(Event {
            t_ns: at + took,
            kind: "tcp".into(),
            subject: number.to_string().as_str().into(),
            detail: detail.to_string().as_str().into(),
        });
        for i in 0..took / 100_000_000 {
            let sent = at + i * 100_000_000;
            let ok = !(line_breaks && broken.contains(&sent));
            r.delay.push(Delay {
                rtt_ns: ok.then_some(50_000_000),
                status: if ok { Status::Ok } else { Status::Lost },
                ..Delay::unanswered(sent, seq, "udp".into())
            });
            r.flow.push(Flow {
                srtt_ns: Some(80_000_000),
                cwnd_bytes: Some(14_480),
                ..Flow::about(sent, number as i64, Direction::Up)
            });
            seq += 1;
        }
        at += took + 300_000_000;
    }
    experiment::analyse(&r).expect("it is of a probe").outcome
}

fn made(
    congestion: &'static str,
    window: Option<u64>,
    kilobytes: u64,
    seconds: f64,
    again: u64,
) -> Made {
    Made {
        congestion,
        window,
        kilobytes,
        seconds,
        again,
        break_s: 0.2,
    }
}

/// The figures of table 5.2.1, 5 MB: 17.4 kB/s and 282.5 packets with a window of 3, 15.0 kB/s and 354 with one of 10.
#[test]
fn a_table_like_the_documents_comes_out_with_its_intervals() {
    let mut all = Vec::new();
    for (by, more) in [(-1.0, 40), (0.0, 0), (1.0, 80)] {
        all.push(made(
            "cubic",
            Some(3),
            5000,
            5000.0 / (17.4 + by),
            242 + more,
        ));
        all.push(made(
            "cubic",
            Some(10),
            5000,
            5000.0 / (15.0 + by),
            314 + more,
        ));
    }
    let outcome = answer(&all, false);
    near(&outcome, "cubic_window3_bps", 17.4 * 8e3, 50.0);
    near(&outcome, "cubic_window10_again", 354.0, 0.5);
    near(&outcome, "cubic_window3_srtt_ms", 80.0, 0.01);
    // Student's 4.303 for three values, of a standard deviation of 1.
    let (value, low, high) = figure(&outcome, "cubic_window3_bps");
    let by = 4.303 / 3.0f64.sqrt() * 8e3;
    assert!((high - value - by).abs() < 20.0 && (value - low - by).abs() < 20.0);
    assert_eq!(
        outcome.tables[0].columns,
        [
            "transfer",
            "window 3: kB/s",
            "window 3: sent again",
            "window 10: kB/s",
            "window 10: sent again"
        ]
    );
    assert_eq!(
        outcome.tables[0].rows,
        [[
            "5 MB cubic",
            "17.4 ± 2.5",
            "282 ± 99",
            "15 ± 2.5",
            "354 ± 99"
        ]]
    );
    assert!(
        outcome
            .says
            .contains("no difference between the kinds can be told"),
        "{}",
        outcome.says
    );
}

#[test]
fn a_difference_that_is_one_is_told() {
    let mut all = Vec::new();
    for i in 0..4 {
        let noise = 0.01 * f64::from(i);
        all.push(made("cubic", None, 400, 1.0 + noise, 30));
        all.push(made("bbr", None, 400, 0.5 + noise, 2));
    }
    let outcome = answer(&all, false);
    assert!(
        outcome
            .says
            .starts_with("Uploads of 400 kB are fastest with bbr"),
        "{}",
        outcome.says
    );
    assert!(
        outcome
            .says
            .contains("cubic sends 30 packets again, bbr only 2"),
        "{}",
        outcome.says
    );
}

#[test]
fn a_break_is_the_lines_where_the_slow_flow_beside_has_it_too() {
    let broken = |line_breaks| {
        let one = Made {
            break_s: 8.0,
            ..made("cubic", None, 400, 20.0, 9)
        };
        answer(&[one], line_breaks).evidence.join("\n")
    };
    assert!(broken(false).contains("so the break was TCP's"));
    assert!(broken(true).contains("so the link carried nothing"));
}

#[test]
fn one_transfer_of_a_kind_gives_no_interval() {
    let outcome = answer(&[made("reno", None, 80, 1.0, 0)], false);
    assert!(matches!(
        outcome.figure("reno_bps"),
        Figure::CannotTell { .. }
    ));
}
