//! Recordings that broke off, lack something, or cannot be true: what can be said is said, the rest has a
//! reason, and nothing panics.

mod common;

use analysis::answer::{Answer, Discipline};
use analysis::{AnalysisError, Options, analyse_test, stable};
use base::record::{
    Delay, Direction, Event, Exclusion, Flow, HostLoad, Meta, Recording, Status, Traffic,
};
use common::{Plan, run};
use proptest::prelude::*;
use stats::Figure;
use std::sync::LazyLock;

/// One whole test of the ADSL line.
static ADSL: LazyLock<Recording> = LazyLock::new(|| run(Plan::new("adsl", 1)));

fn analyse(rec: &Recording) -> Answer {
    analyse_test(rec, &Options::default()).unwrap()
}

/// The recording as it was when power failed at `t_ns`.
fn cut(rec: &Recording, t_ns: i64) -> Recording {
    let mut rec = rec.clone();
    // A probe's row is written once its fate is known.
    rec.delay
        .retain(|d| d.sent_ns + d.rtt_ns.unwrap_or(2_000_000_000) < t_ns);
    rec.flow.retain(|f| f.t_ns < t_ns);
    rec.event.retain(|e| e.t_ns < t_ns);
    rec.meta.complete = false;
    rec.meta.ended_ns = None;
    rec
}

fn begin_of(rec: &Recording, phase: &str) -> i64 {
    let at = |e: &&Event| &*e.kind == "phase" && &*e.subject == phase;
    rec.event.iter().find(at).unwrap().t_ns
}

fn reason(f: &Figure) -> &str {
    match f {
        Figure::CannotTell { cannot_tell } => cannot_tell,
        Figure::Is { value, .. } => panic!("{value} where nothing can be known"),
    }
}

#[test]
fn an_idle_phase_alone_gives_the_base_and_says_why_there_is_no_more() {
    let a = analyse(&cut(&ADSL, begin_of(&ADSL, "down")));
    assert!((a.base_rtt_ms.value().unwrap() - 19.3).abs() < 0.5);
    assert_eq!(a.phases.len(), 1);
    assert_eq!(reason(&a.up.queue_ms), "no phase loaded direction up");
    assert_eq!(reason(&a.responsiveness.rpm), "no loaded phase ran");
    assert_eq!((a.grade.letter.as_str(), a.worst_direction), ("?", None));
    assert_eq!(a.up.discipline.is, Discipline::CannotTell);
    assert!(a.up.discipline.would_settle.is_some());
    assert!(a.advice.is_empty());
    assert!(
        a.findings
            .iter()
            .any(|f| f.says.contains("did not run to its end"))
    );
    assert!(a.findings.iter().all(|f| !f.says.contains("bloat")));
}

#[test]
fn a_server_that_vanished_in_the_upload_leaves_the_download_whole() {
    let whole = analyse(&ADSL);
    let up = begin_of(&ADSL, "up");
    let a = analyse(&cut(&ADSL, up + 500_000_000));
    assert_eq!(a.down.discipline.is, Discipline::DropTail);
    let ms = |a: &Answer| a.down.queue_ms.value().unwrap();
    assert!(
        (ms(&a) - ms(&whole)).abs() < 3.0,
        "{} {}",
        ms(&a),
        ms(&whole)
    );
    assert!(a.up.queue_ms.value().is_none() || a.up.discipline.is == Discipline::CannotTell);
    assert!(!a.phases.last().unwrap().stable);
}

#[test]
fn every_moment_at_which_a_test_can_break_off_gives_an_answer() {
    let (from, to) = (ADSL.meta.started_ns, analysis::phases::last_ns(&ADSL));
    for i in 1..=40 {
        let rec = cut(&ADSL, from + (to - from) / 40 * i);
        let a = analyse(&rec);
        assert!(serde_json::to_string(&a).unwrap().len() > 1000);
        // Known since the first seconds, whatever comes later.
        if i > 2 {
            assert!((a.base_rtt_ms.value().unwrap() - 19.3).abs() < 0.5, "{i}");
        }
    }
}

#[test]
fn a_line_on_which_nothing_comes_back_is_all_loss_and_no_figures() {
    let mut rec = cut(&ADSL, begin_of(&ADSL, "down"));
    for d in &mut rec.delay {
        *d = Delay::unanswered(d.sent_ns, d.seq, d.target.clone());
    }
    let a = analyse(&rec);
    let loss = &a.phases[0].loss;
    assert_eq!(loss.percent.value(), Some(100.0));
    assert_eq!(loss.bursts, [(loss.sent, 1)]);
    assert!(reason(&a.base_rtt_ms).contains("is the server reachable"));
    assert_eq!(
        reason(&a.phases[0].rtt.p95_ms),
        "no probe was answered in this phase"
    );
    assert!(a.clock.trust.starts_with("one-way delays are unknown"));
    assert!(
        a.phases[0]
            .reliability
            .iter()
            .all(|r| r.share.value() == Some(0.0))
    );
}

#[test]
fn without_the_far_clock_the_phases_that_load_one_direction_still_tell_it() {
    let mut rec = ADSL.clone();
    for d in &mut rec.delay {
        (d.remote_rx_ns, d.remote_tx_ns) = (None, None);
    }
    let a = analyse(&rec);
    assert_eq!(a.up.discipline.is, Discipline::DropTail);
    assert!(
        (a.up.queue_ms.value().unwrap() - 430.0).abs() < 43.0,
        "{:?}",
        a.up.queue_ms
    );
    let both = a.phases.iter().find(|p| p.name == "both").unwrap();
    assert_eq!(
        reason(&both.added_up.p50_ms),
        "one-way delays are unknown in this phase"
    );
}

#[test]
fn times_that_cannot_be_right_are_left_out_and_not_taken_for_zero() {
    let mut rec = ADSL.clone();
    let list = analysis::phases::phases(&rec, None);
    let counts = |t: i64| list.iter().any(|p| p.steady().contains(&t));
    let mut faulty = 0;
    let probes = rec
        .delay
        .iter_mut()
        .filter(|d| &*d.target == "udp" && counts(d.sent_ns));
    for d in probes.step_by(15) {
        // The far clock jumped by a second for this one: a way of minus a second.
        if let Some(t) = &mut d.remote_rx_ns {
            *t -= 1_000_000_000;
            d.status = Status::Invalid;
            faulty += 1;
        }
    }
    assert!(faulty > 5);
    let a = analyse(&rec);
    assert_eq!(a.phases.iter().map(|p| p.loss.invalid).sum::<u64>(), faulty);
    assert_eq!(
        a.phases.iter().map(|p| p.loss.lost).sum::<u64>(),
        analyse(&ADSL)
            .phases
            .iter()
            .map(|p| p.loss.lost)
            .sum::<u64>()
    );
    assert!((a.up.queue_ms.value().unwrap() - 430.0).abs() < 43.0);
    assert!(
        a.instrument
            .doubts
            .iter()
            .any(|d| d.contains("cannot be right")),
        "{:?}",
        a.instrument.doubts
    );
}

#[test]
fn an_excluded_stretch_counts_for_nothing_and_is_told() {
    let mut rec = ADSL.clone();
    let from = begin_of(&rec, "idle") + 1_000_000_000;
    for d in rec
        .delay
        .iter_mut()
        .filter(|d| (from..from + 1_000_000_000).contains(&d.sent_ns))
    {
        d.rtt_ns = Some(1);
    }
    rec.meta.exclusions = vec![Exclusion {
        from_ns: from,
        to_ns: from + 1_000_000_000,
        reason: "the cable was pulled".into(),
    }];
    let a = analyse(&rec);
    assert!(
        (a.base_rtt_ms.value().unwrap() - 19.3).abs() < 0.5,
        "{:?}",
        a.base_rtt_ms
    );
    assert!(
        a.instrument
            .doubts
            .iter()
            .any(|d| d.contains("the cable was pulled"))
    );
}

#[test]
fn the_interval_of_the_loss_holds_what_the_line_loses() {
    let mut holds = 0;
    for seed in 1..=10 {
        let mut plan = Plan::new("fiber", seed).set("up.loss", "random:probability=0.05");
        plan.phases = vec!["idle"];
        let a = analyse(&run(plan));
        let loss = &a.phases[0].loss;
        assert_eq!((loss.lost_up, loss.lost_down), (loss.lost, 0));
        assert_eq!(loss.pattern, "single", "seed {seed}");
        if let Figure::Is { low, high, .. } = loss.percent
            && (low..=high).contains(&5.0)
        {
            holds += 1;
        }
    }
    assert!(holds >= 8, "{holds} of 10");
}

#[test]
fn a_recording_of_something_else_is_answered_with_what_it_is() {
    let rec = Recording {
        meta: Meta {
            title: "porch".into(),
            verb: "monitor".into(),
            ..Meta::default()
        },
        ..Recording::default()
    };
    let e = analyse_test(&rec, &Options::default()).unwrap_err();
    assert_eq!(
        e,
        AnalysisError::NotATest {
            title: "porch".into(),
            verb: "monitor".into(),
            probes: 0
        }
    );
    assert!(e.to_string().contains("\"monitor\""));
    assert!(!stable(&rec, "up", 0).stable);
}

/// Numbers as a broken clock, a broken file or a malicious peer may write them.
fn wild() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0i64..40_000_000_000,
        1 => any::<i64>(),
        1 => prop::sample::select(vec![0, 1, -1, i64::MIN, i64::MAX, i64::MAX - 1, 1 << 62]),
    ]
}

fn maybe() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(wild())
}

fn delay() -> impl Strategy<Value = Delay> {
    let target = prop::sample::select(vec!["udp", "tcp-connect", "tcp-request"]);
    let status = prop::sample::select(Status::ALL.to_vec());
    (
        wild(),
        wild(),
        target,
        status,
        [maybe(), maybe(), maybe(), maybe(), maybe()],
    )
        .prop_map(|(sent_ns, seq, target, status, m)| Delay {
            status,
            rtt_ns: m[0],
            remote_rx_ns: m[1],
            remote_tx_ns: m[2],
            host_ns: m[3],
            late_send_ns: m[4],
            ..Delay::unanswered(sent_ns, seq, target.into())
        })
}

fn flow() -> impl Strategy<Value = Flow> {
    let way = prop::sample::select(Direction::ALL.to_vec());
    let rest = [
        maybe(),
        maybe(),
        maybe(),
        maybe(),
        maybe(),
        maybe(),
        maybe(),
    ];
    (wild(), 0i64..3, way, rest).prop_map(|(t_ns, flow, direction, m)| Flow {
        bytes_acked: m[0],
        bytes_received: m[1],
        delivered_bytes: m[2],
        ssthresh_bytes: m[3],
        srtt_ns: m[4],
        retransmits: m[5],
        mss_bytes: m[6],
        ..Flow::about(t_ns, flow, direction)
    })
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(vec![
        "phase",
        "phase",
        "phase",
        "phase_end",
        "warmup_end",
        "clock",
        "probe",
        "doubt",
    ]);
    let subject = prop::sample::select(vec!["idle", "down", "up", "both", "drain", "same"]);
    let detail = prop::sample::select(vec![
        "",
        "{\"ip_bytes\":-1e308}",
        "{\"ip_bytes\":\"x\"}",
        "[",
        "{\"ip_bytes\":1e308}",
    ]);
    (wild(), kind, subject, detail).prop_map(|(t_ns, kind, subject, detail)| Event {
        t_ns,
        kind: kind.into(),
        subject: subject.into(),
        detail: detail.into(),
    })
}

fn real() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop_oneof![0.0..1.0f64, prop::num::f64::ANY])
}

prop_compose! {
    fn recording()(
        delay in prop::collection::vec(delay(), 0..80),
        flow in prop::collection::vec(flow(), 0..80),
        event in prop::collection::vec(event(), 0..12),
        traffic in prop::collection::vec((wild(), wild(), maybe(), maybe()), 0..10),
        host in prop::collection::vec((wild(), real()), 0..4),
        exclusions in prop::collection::vec((wild(), wild()), 0..2),
        started_ns in wild(),
    ) -> Recording {
        Recording {
            meta: Meta {
                started_ns,
                exclusions: exclusions.into_iter().map(|(from_ns, to_ns)| Exclusion { from_ns, to_ns, reason: "x".into() }).collect(),
                ..Meta::default()
            },
            delay,
            flow,
            event,
            traffic: traffic.into_iter().map(|(t_ns, interval_ns, rx_bytes, tx_bytes)| Traffic { t_ns, interval_ns, interface: "eth0".into(), rx_bytes, tx_bytes }).collect(),
            host: host.into_iter().map(|(t_ns, cpu)| HostLoad::busy(t_ns, cpu)).collect(),
            ..Recording::default()
        }
    }
}

/// JSON has no infinity: serde writes null, which a reader of a figure cannot take.
fn is_sound(a: &Answer) {
    let text = serde_json::to_string(a).unwrap();
    let back: Answer = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert_eq!(back.phases.len(), a.phases.len());
    for d in [&a.up, &a.down] {
        for f in [
            &d.queue_ms,
            &d.queue_bytes,
            &d.link_rate_bps,
            &d.goodput_bps,
            &d.factor_too_large,
            &d.added.p95_ms,
        ] {
            if let Figure::Is { value, low, high } = f {
                assert!(low <= value && value <= high, "{f:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn rows_that_cannot_be_true_never_panic(rec in recording(), now in wild()) {
        if let Ok(a) = analyse_test(&rec, &Options::default()) {
            is_sound(&a);
        }
        for phase in ["idle", "down", "up", "both"] {
            let _ = stable(&rec, phase, now);
        }
    }

    #[test]
    fn a_true_recording_with_a_few_wild_rows_never_panics(
        wild in recording(),
        keep in 0usize..200,
    ) {
        let mut rec = cut(&ADSL, begin_of(&ADSL, "both"));
        rec.delay.truncate(keep * 2);
        rec.delay.extend(wild.delay);
        rec.flow.extend(wild.flow);
        rec.traffic = wild.traffic;
        let a = analyse_test(&rec, &Options::default()).unwrap();
        is_sound(&a);
    }
}
