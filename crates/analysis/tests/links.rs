//! The links of the issue in virtual time, against their known truth, over several seeds.

mod common;

use analysis::answer::{Answer, DirectionAnswer, Discipline, QueueIs, Severity};
use analysis::{Options, analyse_test};
use base::record::Direction;
use common::{Plan, run};
use stats::Figure;

fn answers(link: &str, settings: &[(&str, &str)], flows: &[usize]) -> Vec<(String, Answer)> {
    let mut list = Vec::new();
    for flows in flows {
        for seed in 1..=3 {
            let mut plan = Plan::new(link, seed);
            plan.flows = *flows;
            plan = settings
                .iter()
                .fold(plan, |p, (key, value)| p.set(key, value));
            let answer = analyse_test(&run(plan), &Options::default()).unwrap();
            list.push((
                format!("{link} {settings:?}, {flows} flows, seed {seed}"),
                answer,
            ));
        }
    }
    list
}

fn near(what: &str, figure: &Figure, truth: f64, share: f64) {
    let value = figure
        .value()
        .unwrap_or_else(|| panic!("{what}: {figure:?}, not {truth}"));
    assert!(
        (value - truth).abs() <= share * truth,
        "{what}: {figure:?}, not within {share} of {truth}"
    );
}

fn drop_tail(name: &str, d: &DirectionAnswer, rate: f64, ms: f64) {
    assert_eq!(
        d.discipline.is,
        Discipline::DropTail,
        "{name}: {:?}",
        d.discipline
    );
    assert_eq!(d.queue_is, QueueIs::Size, "{name}");
    near(name, &d.link_rate_bps, rate, 0.05);
    near(name, &d.queue_ms, ms, 0.10);
    near(name, &d.queue_bytes, ms * rate / 8e3, 0.10);
    let Figure::Is { low, high, .. } = d.queue_ms else {
        panic!("{name}: no size")
    };
    assert!(
        low < high && high - low < 0.35 * ms,
        "{name}: an interval from {low} to {high} ms says nothing"
    );
}

const ALL: &[usize] = &[1, 4];

#[test]
fn finds_the_adsl_lines_430_ms_and_gives_them_an_f() {
    for (name, a) in answers("adsl", &[], ALL) {
        drop_tail(&name, &a.up, 700e3, 430.0);
        drop_tail(&name, &a.down, 8e6, 100.0);
        near(&name, &a.base_rtt_ms, 19.0, 0.05);
        near(&name, &a.up.bdp_bytes, 19.0 * 700.0 / 8.0, 0.10);
        near(&name, &a.up.factor_too_large, 430.0 / 19.0, 0.10);
        assert_eq!(
            (a.grade.letter.as_str(), a.worst_direction),
            ("F", Some(Direction::Up)),
            "{name}"
        );
        assert_eq!(a.findings[0].severity, Severity::Bad, "{name}");
        // 95 % of 700 kbit/s, in the script.
        let mut scripts = a.advice.iter().filter_map(|x| x.script.as_ref());
        let script = &scripts.next().expect("a script").text;
        let set = script.lines().find_map(|l| l.strip_prefix("UP_KBIT="));
        let kbit = set
            .and_then(|s| s.split_whitespace().next())
            .expect("a rate");
        let kbit: f64 = kbit.parse().expect("a number");
        assert!((kbit - 665.0).abs() < 35.0, "{name}: {kbit}");
        near(&name, &a.responsiveness.rpm, 150.0, 0.15);
    }
}

#[test]
fn finds_fair_queueing_and_no_bloat_behind_fq_codel() {
    let (mut open, mut all) = (0, 0);
    for (name, a) in answers(
        "adsl",
        &[("up.queue", "fq_codel"), ("down.queue", "fq_codel")],
        ALL,
    ) {
        for d in [&a.up, &a.down] {
            // Few probes before the load leave open whether the line itself loses what the AQM drops.
            match d.discipline.is {
                Discipline::FairQueueing => open += 1,
                is => {
                    assert_eq!(
                        is,
                        Discipline::FairQueueingAqm,
                        "{name}: {:?}",
                        d.discipline
                    );
                    assert_eq!(d.queue_is, QueueIs::Controlled, "{name}");
                }
            }
            all += 1;
        }
        near(&name, &a.up.link_rate_bps, 700e3, 0.05);
        near(&name, &a.down.link_rate_bps, 8e6, 0.05);
        assert_eq!(
            (a.grade.letter.as_str(), a.worst_direction),
            ("A", None),
            "{name}"
        );
        assert!(
            a.advice.is_empty(),
            "{name}: nothing is wrong, yet {:?}",
            a.advice
        );
        assert!(
            a.findings
                .iter()
                .filter(|f| f.says.starts_with("No bloat found"))
                .count()
                == 2,
            "{name}: {:?}",
            a.findings
        );
    }
    assert!(4 * open <= all, "{open} of {all}");
}

#[test]
fn says_aqm_and_not_fair_queueing_behind_codel() {
    // Fifty probes before the load leave open whether the line itself loses 1 %: that may be said too.
    let (mut aqm, mut all) = (0, 0);
    for (name, a) in answers(
        "adsl",
        &[("up.queue", "codel"), ("down.queue", "codel")],
        ALL,
    ) {
        for d in [&a.up, &a.down] {
            assert!(
                matches!(d.discipline.is, Discipline::Aqm | Discipline::CannotTell),
                "{name}: {:?}",
                d.discipline
            );
            aqm += usize::from(d.discipline.is == Discipline::Aqm);
            all += 1;
        }
        near(&name, &a.up.link_rate_bps, 700e3, 0.05);
        assert_ne!(a.grade.letter, "F", "{name}");
    }
    assert!(3 * aqm >= 2 * all, "{aqm} of {all}");
}

#[test]
fn finds_50_packets_before_the_shdsl_line() {
    for (name, a) in answers("shdsl", &[], ALL) {
        // 50 packets of 1500 bytes at 2.035 Mbit/s.
        drop_tail(&name, &a.up, 2.035e6, 294.8);
        drop_tail(&name, &a.down, 2.035e6, 294.8);
        near(&name, &a.base_rtt_ms, 3.26, 0.05);
    }
}

#[test]
fn finds_a_buffer_of_one_bandwidth_delay_product_and_calls_it_no_bloat() {
    for (name, a) in answers("fiber", &[], ALL) {
        drop_tail(&name, &a.up, 60e6, 20.0);
        drop_tail(&name, &a.down, 60e6, 20.0);
        near(&name, &a.up.factor_too_large, 1.0, 0.10);
        assert_eq!(
            (a.grade.letter.as_str(), a.worst_direction),
            ("A", None),
            "{name}"
        );
    }
}

#[test]
fn tells_the_disciplines_of_a_fast_line_apart() {
    for (queue, expected) in [
        ("codel", Discipline::Aqm),
        ("fq_codel", Discipline::FairQueueingAqm),
    ] {
        for (name, a) in answers("fiber", &[("up.queue", queue), ("down.queue", queue)], ALL) {
            assert_eq!(
                (a.up.discipline.is, a.down.discipline.is),
                (expected, expected),
                "{name}: {:?}, {:?}",
                a.up.discipline,
                a.down.discipline
            );
            near(&name, &a.up.link_rate_bps, 60e6, 0.05);
        }
    }
}

#[test]
fn finds_three_seconds_of_buffer_before_the_gprs_line() {
    for (name, a) in answers("gprs", &[], &[1]) {
        // Where so few packets pass, the size may be given as a bound; what was seen is nearly all of it.
        for d in [&a.up, &a.down] {
            assert_eq!(
                d.discipline.is,
                Discipline::DropTail,
                "{name}: {:?}",
                d.discipline
            );
            near(&name, &d.link_rate_bps, 65e3, 0.05);
            match d.queue_is {
                QueueIs::Size => near(&name, &d.queue_ms, 3000.0, 0.10),
                is => {
                    assert_eq!(is, QueueIs::AtLeast, "{name}");
                    let least = d.queue_ms.value().unwrap();
                    assert!((2400.0..=3000.0).contains(&least), "{name}: {least}");
                }
            }
        }
        near(&name, &a.base_rtt_ms, 303.0, 0.05);
        // Loaded both ways, acknowledgements wait for seconds behind data, and goodput keeps varying.
        assert!(
            a.phases.iter().all(|p| p.stable || p.name == "both"),
            "{name}: {:?}",
            a.phases.iter().map(|p| &p.stability).collect::<Vec<_>>()
        );
    }
}

#[test]
fn finds_a_quarter_second_before_a_jittery_cable_line() {
    for (name, a) in answers("cable", &[], &[1]) {
        drop_tail(&name, &a.up, 10e6, 250.0);
        drop_tail(&name, &a.down, 100e6, 80.0);
    }
}

#[test]
fn clocks_that_are_off_by_minutes_and_drift_change_nothing_but_the_trust() {
    for (offset_s, ppm) in [
        (0, 0.0),
        (-754, 100.0),
        (3600, -100.0),
        (86_400 * 365, 40.0),
    ] {
        let mut plan = Plan::new("adsl", 1);
        plan.same_clock = false;
        plan.clock_offset = offset_s * 1_000_000_000;
        plan.drift_ppm = ppm;
        let name = format!("{offset_s} s, {ppm} ppm");
        let a = analyse_test(&run(plan), &Options::default()).unwrap();
        drop_tail(&name, &a.up, 700e3, 430.0);
        drop_tail(&name, &a.down, 8e6, 100.0);
        let Figure::Is { low, high, value } = a.clock.drift_ppm else {
            panic!("{name}: no drift")
        };
        assert!(
            (value - ppm).abs() < 3.0 && low <= ppm + 0.5 && ppm - 0.5 <= high,
            "{name}: {value} [{low}, {high}]"
        );
        let Figure::Is { low, high, .. } = a.clock.offset_ms else {
            panic!("{name}: no offset")
        };
        let truth = offset_s as f64 * 1e3;
        assert!(
            low - 1.0 <= truth && truth <= high + 1.0 && high - low < 25.0,
            "{name}: {low} to {high}"
        );
        // The direction without load waits for nothing.
        let up = a.phases.iter().find(|p| p.name == "up").unwrap();
        let down_wait = up.added_down.p50_ms.value().unwrap();
        assert!(
            down_wait < 1.0,
            "{name}: {down_wait} ms of wait where there is no load"
        );
        assert!(up.added_up.p50_ms.value().unwrap() > 300.0, "{name}");
    }
}

#[test]
fn a_load_held_back_by_its_window_proves_nothing_about_the_queue() {
    // 20 packets of 1500 bytes a round trip of 20 ms: 12 of 60 Mbit/s.
    let mut plan = Plan::new("fiber", 1);
    plan.most_packets = 20.0;
    plan.most = 40_000_000_000;
    let a = analyse_test(&run(plan), &Options::default()).unwrap();
    near("goodput", &a.up.goodput_bps, 12e6 * 1448.0 / 1500.0, 0.05);
    // The trains fill the link, so its rate is known all the same.
    near("rate", &a.up.link_rate_bps, 60e6, 0.05);
    assert_eq!(a.up.discipline.is, Discipline::CannotTell);
    assert_eq!(a.up.queue_is, QueueIs::AtLeast);
    assert_eq!(a.grade.letter, "?");
    assert!(
        a.findings.iter().all(|f| !f.says.starts_with("No bloat")),
        "{:?}",
        a.findings
    );
    assert!(
        a.findings
            .iter()
            .any(|f| f.says == "Whether uploads meet a long queue cannot be told.")
    );
}
