//! Statistics against numpy, scipy and ruptures (`reference/statistics.py`), against theory, and on recordings whose
//! faults are known.

use analysis::saturation::Carried;
use analysis::series::{Counts, Cuts, Outline, Plan, Probe, Series};
use analysis::services;
use analysis::statistics::{ShiftCause, TargetStatistics};
use analysis::survey::{Request, Span, target};
use base::histogram::Histogram;
use base::record::{Direction, Exclusion, Status};
use stats::Figure;
use stats::change_points;

const GOLDEN: &str = include_str!("golden/statistics.txt");
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;

/// Lines of the golden file of one kind: what stands behind it.
fn golden(kind: &str) -> Vec<Vec<&'static str>> {
    let lines = GOLDEN.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    lines
        .filter(|l| l[0] == kind)
        .map(|l| l[1..].to_vec())
        .collect()
}

/// The reference's generator.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut x = seed;
    move || {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (x >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn delays(n: usize) -> Vec<i64> {
    let mut u = uniform(1);
    let one = |_| {
        let mut ms = 19.0 - 2.0 * (1.0 - u()).ln();
        if u() < 0.02 {
            ms += 400.0 * u();
        }
        (ms * 1e6) as i64
    };
    (0..n).map(one).collect()
}

fn levels(n: usize, steps: &[(usize, f64)]) -> Vec<f64> {
    let mut u = uniform(7);
    let mut level = 20.0;
    let one = |i| {
        level += steps.iter().filter(|s| s.0 == i).map(|s| s.1).sum::<f64>();
        level + (0..12).map(|_| u()).sum::<f64>() - 6.0
    };
    (0..n).map(one).collect()
}

/// One probe a row, `interval_ns` apart from 0.
fn series(rows: &[(Status, Option<i64>)], interval_ns: i64, cuts: Cuts) -> Series {
    let mut outline = Outline::default();
    for i in 0..rows.len() as i64 {
        outline.add(i * interval_ns);
    }
    let mut s = Series::new(Plan::new(&outline, cuts).unwrap());
    for (i, (status, rtt_ns)) in rows.iter().enumerate() {
        s.add(Probe {
            sent_ns: i as i64 * interval_ns,
            rtt_ns: *rtt_ns,
            status: *status,
        });
    }
    s.finish(2);
    s
}

fn cuts() -> Cuts {
    Cuts {
        days: vec![0],
        ..Cuts::default()
    }
}

fn answered(rtts: &[i64]) -> Vec<(Status, Option<i64>)> {
    rtts.iter().map(|r| (Status::Ok, Some(*r))).collect()
}

fn analysed(s: &Series, limits_ns: &[i64]) -> TargetStatistics {
    let request = Request {
        limits_ns: limits_ns.to_vec(),
        sliding_ns: 60 * S,
        ..Request::default()
    };
    target("udp", s, &request)
}

fn close(ours: f64, theirs: &str) {
    let theirs: f64 = theirs.parse().unwrap();
    assert!(
        (ours - theirs).abs() <= 2e-6 * theirs.abs().max(1.0),
        "{ours} for {theirs}"
    );
}

#[test]
fn quantiles_and_moments_are_those_of_numpy() {
    let s = series(&answered(&delays(20_000)), 100 * MS, cuts());
    let w = analysed(&s, &[]).whole;
    for line in golden("quantile") {
        close(
            w.rtt.point(line[0].parse().unwrap()).value().unwrap(),
            line[1],
        );
    }
    close(w.rtt.mean_ms.value().unwrap(), golden("mean")[0][1]);
    close(w.rtt.sd_ms.unwrap(), golden("sd")[0][1]);
    close(w.rtt.variance_ms2.unwrap(), golden("variance")[0][1]);
}

#[test]
fn reliability_of_independent_probes_has_nearly_scipys_interval() {
    let lines = golden("within");
    let limits: Vec<i64> = lines
        .iter()
        .map(|l| (l[0].parse::<f64>().unwrap() * 1e6) as i64)
        .collect();
    let s = series(
        &answered(&delays(20_000)),
        100 * MS,
        Cuts {
            limits_ns: limits.clone(),
            ..cuts()
        },
    );
    for (r, line) in analysed(&s, &limits).whole.reliability.iter().zip(lines) {
        let Figure::Is { value, low, high } = r.share else {
            panic!("a share")
        };
        close(value, line[1]);
        let theirs: Vec<f64> = line[2..].iter().map(|v| v.parse().unwrap()).collect();
        let ratio = (high - low) / (theirs[1] - theirs[0]);
        assert!(
            (0.99..2.0).contains(&ratio),
            "{line:?}: {ratio} times as wide"
        );
    }
}

#[test]
fn change_points_are_those_of_ruptures() {
    type Steps = &'static [(usize, f64)];
    let cases: [(&str, usize, Steps); 4] = [
        ("none", 1500, &[]),
        (
            "fault",
            1500,
            &[(400, 100.0), (600, 100.0), (700, -200.0), (1200, 111.9)],
        ),
        ("small", 1500, &[(300, 3.0), (800, -2.0), (1100, 4.0)]),
        ("short", 300, &[(100, 20.0), (110, -20.0)]),
    ];
    let lines = golden("changes");
    assert_eq!(lines.len(), cases.len());
    for ((name, n, steps), line) in cases.into_iter().zip(lines) {
        assert_eq!(line[0], name);
        let theirs: Vec<usize> = line[1..].iter().map(|v| v.parse().unwrap()).collect();
        let ours = change_points(&levels(n, steps), 3.0 * (n as f64).ln(), 5);
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn lost_and_late_probes_are_in_no_time_but_late_ones_keep_their_delay() {
    let mut rows = answered(&[20 * MS; 90]);
    rows.extend([(Status::Lost, None); 6]);
    rows.extend([(Status::Late, Some(12 * S)); 4]);
    rows.extend([
        (Status::NotSent, None),
        (Status::Duplicate, Some(20 * MS)),
        (Status::Invalid, Some(-5)),
    ]);
    let s = series(&rows, 100 * MS, cuts());
    let w = analysed(&s, &[19 * MS, 20 * MS, 15 * S]).whole;
    assert_eq!(
        (w.sent, w.lost, w.late, w.duplicates, w.invalid, w.not_sent),
        (101, 10, 4, 1, 1, 1)
    );
    assert_eq!(w.rtt.count, 94);
    assert_eq!(w.rtt.max_ms, Some(12_000.0));
    let shares: Vec<f64> = w
        .reliability
        .iter()
        .map(|r| r.share.value().unwrap())
        .collect();
    assert_eq!(shares, [0.0, 0.90, 0.94]);
}

#[test]
fn figures_of_a_day_and_a_span_count_their_probes_only() {
    // A day of two hours, so that three of them fit.
    let day = 7200 * S;
    let rtts: Vec<i64> = (0..3 * 7200).map(|i| (10 + i / 7200) * MS).collect();
    let spans: Vec<Span> = (0..3)
        .map(|d| Span {
            name: d.to_string(),
            from_ns: d * day,
            to_ns: (d + 1) * day,
        })
        .collect();
    let middle = Span {
        name: "middle".into(),
        from_ns: day - 1,
        to_ns: day + 5 * S + 1,
    };
    let s = series(
        &answered(&rtts),
        S,
        Cuts {
            days: vec![0, day, 2 * day, 3 * day],
            edges: vec![middle.from_ns, middle.to_ns],
            ..Cuts::default()
        },
    );
    let request = Request {
        days: spans,
        spans: vec![middle],
        ..Request::default()
    };
    let t = target("udp", &s, &request);
    let medians: Vec<f64> = t
        .days
        .iter()
        .map(|d| d.rtt.point(0.5).value().unwrap())
        .collect();
    assert_eq!(medians, [10.0, 11.0, 12.0]);
    assert_eq!(t.days.iter().map(|d| d.sent).sum::<u64>(), t.whole.sent);
    assert_eq!((t.spans[0].sent, t.spans[0].rtt.min_ms), (6, Some(11.0)));
}

#[test]
fn what_is_excluded_counts_nowhere_and_shows_as_a_gap_with_its_reason() {
    let mut rows = answered(&[20 * MS; 3600]);
    rows[1000..1600].fill((Status::Ok, Some(900 * MS)));
    let x = Exclusion {
        from_ns: 1000 * S,
        to_ns: 1600 * S,
        reason: "the tool crashed".into(),
    };
    let s = series(
        &rows,
        S,
        Cuts {
            exclusions: vec![x],
            ..cuts()
        },
    );
    let t = analysed(&s, &[]);
    assert_eq!((t.whole.sent, t.whole.rtt.max_ms), (3000, Some(20.0)));
    assert_eq!(t.gaps.len(), 1);
    assert_eq!((t.gaps[0].from_ns, t.gaps[0].to_ns), (999 * S, 1600 * S));
    assert_eq!(t.gaps[0].reason, "the tool crashed");
    assert!(t.outages.is_empty() && t.baseline.shifts.is_empty());
}

#[test]
fn an_outage_has_the_send_times_of_its_probes_and_is_taken_from_the_availability() {
    // 154 s of silence in an hour of a probe each 100 ms: table 15 of Borlaug 2014.
    let mut rows = answered(&[19 * MS; 36_000]);
    rows[10_000..11_540].fill((Status::Lost, None));
    let t = analysed(&series(&rows, 100 * MS, cuts()), &[]);
    assert_eq!(t.outages.len(), 1);
    let o = &t.outages[0];
    assert_eq!(
        (o.from_ns, o.to_ns, o.lost, o.ended),
        (1000 * S, 1154 * S, 1540, true)
    );
    assert!((t.availability.value().unwrap() - (1.0 - 154.0 / 3600.0)).abs() < 1e-9);
    assert!(t.gaps.is_empty());
}

/// An interface that was down for 15 s of 5 minutes read "100 % of the probed time had answers".
#[test]
fn time_in_which_the_network_kept_probes_from_leaving_is_an_outage_and_a_stopped_host_is_not() {
    let rows = |status| {
        let mut rows = answered(&[19 * MS; 3_000]);
        rows[1_000..1_150].fill((status, None));
        rows
    };
    let outline = |n: i64| {
        let mut outline = Outline::default();
        (0..n).for_each(|i| outline.add(i * 100 * MS));
        outline
    };
    let told = |status, kept_back: &[(i64, i64)]| {
        let mut s = Series::new(Plan::new(&outline(3_000), cuts()).unwrap());
        s.cut_off(kept_back.to_vec());
        for (i, (status, rtt_ns)) in rows(status).into_iter().enumerate() {
            s.add(Probe {
                sent_ns: i as i64 * 100 * MS,
                rtt_ns,
                status,
            });
        }
        s.finish(1);
        analysed(&s, &[50 * MS])
    };
    let cut = [(100 * S, 115 * S)];
    let (lost, down) = (told(Status::Lost, &[]), told(Status::NotSent, &cut));
    for t in [&lost, &down] {
        assert!(
            (t.availability.value().unwrap() - 0.95).abs() < 1e-9,
            "{:?}",
            t.availability
        );
        let within = t.whole.reliability[0].share.value().unwrap();
        assert!((within - 0.95).abs() < 1e-9, "{within}");
        let o = &t.outages[0];
        assert_eq!((o.from_ns, o.to_ns, o.lost), (100 * S, 115 * S, 150));
        assert!(t.gaps.is_empty());
    }
    // What was not sent was not lost on the way.
    assert_eq!((lost.whole.lost, lost.whole.cut_off), (150, 0));
    assert_eq!(
        (down.whole.lost, down.whole.cut_off, down.whole.not_sent),
        (0, 150, 150)
    );
    // However short it is: 300 ms inside a slot, and one probe.
    for length in [3, 1] {
        let mut rows = answered(&[19 * MS; 3_000]);
        rows[1_001..1_001 + length].fill((Status::NotSent, None));
        let mut s = Series::new(Plan::new(&outline(3_000), cuts()).unwrap());
        s.cut_off(vec![(100_100 * MS, 101_000 * MS)]);
        for (i, (status, rtt_ns)) in rows.into_iter().enumerate() {
            s.add(Probe {
                sent_ns: i as i64 * 100 * MS,
                rtt_ns,
                status,
            });
        }
        s.finish(1);
        let t = analysed(&s, &[50 * MS]);
        let share = t.availability.value().unwrap();
        assert!((share - (1.0 - length as f64 / 3_000.0)).abs() < 1e-9);
        let o = &t.outages[0];
        let to_ns = 100_100 * MS + length as i64 * 100 * MS;
        assert_eq!((o.from_ns, o.to_ns), (100_100 * MS, to_ns));
        assert_eq!((o.lost, t.outages.len()), (length as u64, 1));
    }
    // A process that was stopped says nothing about the network.
    let stopped = told(Status::NotSent, &[]);
    assert_eq!(stopped.availability.value(), Some(1.0));
    assert_eq!((stopped.gaps.len(), stopped.outages.len()), (1, 0));
    assert_eq!(stopped.whole.cut_off, 0);
}

/// Stamps of real probes make an interval of 100.003 ms, which asked for slots of five seconds, and four seconds of loss
/// were no outage.
#[test]
fn an_outage_is_found_whatever_the_interval_is_off_by() {
    for off_ns in [-4_000, -1, 0, 1, 3_000, 40_000] {
        let mut rows = answered(&[19 * MS; 160]);
        rows[49..64].fill((Status::Lost, None));
        let t = analysed(&series(&rows, 100 * MS + off_ns, cuts()), &[50 * MS]);
        let found: Vec<u64> = t.outages.iter().map(|o| o.lost).collect();
        assert_eq!(found, [15], "{off_ns}");
        let share = t.availability.value().unwrap();
        assert!((share - 145.0 / 160.0).abs() < 1e-3, "{off_ns}: {share}");
    }
}

/// Links that are away for random times, most of them too short to be listed, under probes each second at random times of
/// their slots. The interval holds the true share nearly always, and where each outage is listed it is narrow.
#[test]
fn the_interval_of_the_availability_holds_the_truth_of_random_outages() {
    let (draws, mut held, mut widths) = (400, 0, Vec::new());
    for seed in 0..draws {
        let mut u = uniform(seed + 1);
        // Shortest outage between 2 and 15 s, longest ten times that; an hour in all, away for up to a fifth of it.
        let shortest = 2.0 + 13.0 * u();
        let (mut t, mut away, mut down) = (0.0, Vec::new(), 0.0);
        let up = 40.0 + 400.0 * u();
        while t < 3_600.0 {
            let from = t - up * u().max(1e-9).ln();
            let to = from + shortest * (1.0 + 9.0 * u() * u() * u());
            away.push((from, to.min(3_600.0)));
            down += (to.min(3_600.0) - from).max(0.0);
            t = to;
        }
        let sent: Vec<f64> = (0..3_600).map(|i| f64::from(i) + 0.02 * u()).collect();
        let mut outline = Outline::default();
        (sent.iter()).for_each(|t| outline.add((t * 1e9) as i64));
        let mut s = Series::new(Plan::new(&outline, cuts()).unwrap());
        for t in &sent {
            let is_away = away.iter().any(|(from, to)| (from..to).contains(&t));
            s.add(Probe {
                sent_ns: (t * 1e9) as i64,
                rtt_ns: (!is_away).then_some(20 * MS),
                status: if is_away { Status::Lost } else { Status::Ok },
            });
        }
        s.finish(1);
        let truth = 1.0 - down / 3_600.0;
        let Figure::Is { value, low, high } = analysed(&s, &[]).availability else {
            panic!("seed {seed}: no figure");
        };
        assert!(low <= value && value <= high, "seed {seed}");
        held += u32::from((low..=high).contains(&truth));
        if shortest > 12.0 {
            widths.push(high - low);
        }
    }
    assert!(held >= 380, "{held} of {draws}");
    widths.sort_by(f64::total_cmp);
    assert!(widths[widths.len() / 2] < 0.01, "{widths:?}");
}

#[test]
fn the_worst_window_is_found_to_the_slot() {
    let mut rows = answered(&[19 * MS; 36_000]);
    rows[20_000..20_600].fill((Status::Ok, Some(450 * MS)));
    let limits = [100 * MS];
    let s = series(
        &rows,
        100 * MS,
        Cuts {
            limits_ns: limits.to_vec(),
            ..cuts()
        },
    );
    let w = &analysed(&s, &limits).worst[0];
    assert_eq!((w.from_ns, w.to_ns, w.sent), (2000 * S, 2060 * S, 600));
    assert_eq!(w.share.value(), Some(0.0));
}

/// A day of a probe each second whose delays are heavy-tailed: 19 ms and a Pareto tail of index 1.5, whose variance
/// is infinite; a level that holds from `from` on stands `step_ms` higher for `minutes`.
fn heavy(seed: u64, step_ms: f64, from: usize, minutes: usize) -> Vec<i64> {
    let mut u = uniform(seed);
    let held = from * 60..(from + minutes) * 60;
    let one = |i: usize| {
        let tail = 2.0 * ((1.0 - u()).powf(-1.0 / 1.5) - 1.0);
        let step = if held.contains(&i) { step_ms } else { 0.0 };
        ((19.0 + tail + step) * 1e6) as i64
    };
    (0..24 * 3600).map(one).collect()
}

fn shifts(rtts: &[i64]) -> Vec<(i64, f64)> {
    let t = analysed(&series(&answered(rtts), S, cuts()), &[]);
    let all = t.baseline.shifts.iter();
    all.map(|s| (s.from_ns / (60 * S), s.step_ms)).collect()
}

#[test]
fn a_hundred_days_of_heavy_tails_without_a_step_have_no_shift() {
    let false_alarms: usize = (1..=100)
        .map(|seed| shifts(&heavy(seed, 0.0, 0, 0)).len())
        .sum();
    assert_eq!(false_alarms, 0);
}

/// Twenty days each: a step of a seventh of the base line that lasts ten minutes is always found, to two minutes and a
/// tenth of its size; one below a tenth of the base line never is.
#[test]
fn steps_are_found_from_a_tenth_of_the_base_line_on() {
    for seed in 1..=20 {
        let from = 200 + 37 * seed as usize;
        let found = shifts(&heavy(seed, 2.7, from, 10));
        assert_eq!(found.len(), 1, "seed {seed}: {found:?}");
        assert!(
            (found[0].0 - from as i64).abs() <= 2,
            "seed {seed}: {found:?}"
        );
        assert!((found[0].1 - 2.7).abs() < 0.27, "seed {seed}: {found:?}");
        assert_eq!(shifts(&heavy(seed, 1.0, from, 10)), [], "seed {seed}");
    }
}

/// Figures 38 and 44 of Borlaug 2014: the base line stands at multiples of the interval between probes for hours,
/// because the monitor took each answer for that of a later probe.
#[test]
fn steps_by_multiples_of_the_interval_are_the_instruments_fault() {
    let mut u = uniform(3);
    let hour = 3600 * 9;
    let at = |i: usize| match i / hour {
        2 => 1,
        3 => 2,
        4 => 3,
        _ => 0,
    };
    let interval = S / 9;
    let rtts: Vec<i64> = (0..10 * hour)
        .map(|i| 19 * MS + (u() * 2e6) as i64 + at(i) * interval)
        .collect();
    let t = analysed(&series(&answered(&rtts), interval, cuts()), &[]);
    let found: Vec<(ShiftCause, Option<i64>, f64)> = t
        .baseline
        .shifts
        .iter()
        .map(|s| (s.cause, s.intervals, s.step_ms.round()))
        .collect();
    let fault = ShiftCause::Instrument;
    assert_eq!(
        found,
        [
            (fault, Some(1), 111.0),
            (fault, Some(2), 222.0),
            (fault, Some(3), 333.0)
        ]
    );
    for (s, hour) in t.baseline.shifts.iter().zip(2..) {
        assert!((s.from_ns - hour * 3600 * S).abs() <= 60 * S, "{s:?}");
    }
}

#[test]
fn another_path_and_a_standing_queue_are_not_the_instruments_fault() {
    let mut u = uniform(4);
    let interval = 100 * MS;
    let rtts: Vec<i64> = (0..4 * 36_000)
        .map(|i| {
            let (step, spread) = match i / 36_000 {
                1 => (43.0, 2.0),
                // Within a tenth of three intervals, but a queue that swings.
                3 => (300.0, 150.0),
                _ => (0.0, 2.0),
            };
            ((19.0 + step + spread * u()) * 1e6) as i64
        })
        .collect();
    let t = analysed(&series(&answered(&rtts), interval, cuts()), &[]);
    let causes: Vec<ShiftCause> = t.baseline.shifts.iter().map(|s| s.cause).collect();
    assert_eq!(causes, [ShiftCause::Path, ShiftCause::Queue]);
}

/// A step of 2.92 intervals is no fault of the instrument, and one of 3 intervals is none where answers carry numbers. A
/// queue that hardly swings looks like a path, unless it loses packets.
#[test]
fn a_step_that_may_be_either_is_not_told() {
    let interval = 100 * MS;
    let of = |step_ms: f64, swing_ms: f64, loss: f64, matched: bool| {
        let mut u = uniform(4);
        let rows: Vec<(Status, Option<i64>)> = (0..4 * 36_000)
            .map(|i| {
                let held = i / 36_000 == 1;
                let (step, swing) = if held {
                    (step_ms, swing_ms)
                } else {
                    (0.0, 0.0)
                };
                let ms = 19.0 + step + 2.0 * u() + swing * u();
                match held && u() < loss {
                    true => (Status::Lost, None),
                    false => (Status::Ok, Some((ms * 1e6) as i64)),
                }
            })
            .collect();
        let request = Request {
            matched,
            sliding_ns: 600 * S,
            ..Request::default()
        };
        let t = target("udp", &series(&rows, interval, cuts()), &request);
        let causes = t.baseline.shifts.iter().map(|s| s.cause);
        causes.collect::<Vec<_>>()
    };
    use ShiftCause::{CannotTell, Instrument, Path, Queue};
    assert_eq!(of(292.0, 0.0, 0.0, false), [Path]);
    assert_eq!(of(300.0, 0.0, 0.0, false), [Instrument]);
    assert_eq!(of(300.0, 0.0, 0.0, true), [Path]);
    assert_eq!(of(250.0, 10.0, 0.0, true), [CannotTell]);
    assert_eq!(of(250.0, 0.0, 0.01, true), [CannotTell]);
    assert_eq!(of(250.0, 90.0, 0.01, true), [Queue]);
}

/// A span of ten minutes in a recording of a week has an interval of its own: its delays come in waves of a minute, and its
/// six hundred probes are worth few.
#[test]
fn a_short_span_of_a_long_recording_knows_its_own_doubt() {
    let mut u = uniform(9);
    let rtts: Vec<i64> = (0..7 * 86_400)
        .map(|i| {
            let wave = (i as f64 / 60.0 * std::f64::consts::TAU).sin();
            ((50.0 + 20.0 * wave + u()) * 1e6) as i64
        })
        .collect();
    let span = Span {
        name: "span".into(),
        from_ns: 100_000 * S,
        to_ns: 100_600 * S,
    };
    let cuts = Cuts {
        edges: vec![span.from_ns, span.to_ns],
        ..cuts()
    };
    let request = Request {
        spans: vec![span],
        sliding_ns: 600 * S,
        ..Request::default()
    };
    let t = target("udp", &series(&answered(&rtts), S, cuts), &request);
    let Figure::Is { low, high, .. } = t.spans[0].rtt.point(0.5) else {
        panic!("a figure")
    };
    assert!(high - low > 5.0, "{low} to {high}");
}

/// Nine probes that a stopped host did not send, and one that was lost.
#[test]
fn a_lost_probe_among_those_not_sent_is_no_outage() {
    let sent = |i: &i64| !(100..109).contains(i);
    let mut outline = Outline::default();
    (0..300).filter(sent).for_each(|i| outline.add(i * S));
    let mut series = Series::new(Plan::new(&outline, cuts()).expect("probes"));
    for i in (0..300).filter(sent) {
        let lost = i == 109;
        series.add(Probe {
            sent_ns: i * S,
            rtt_ns: (!lost).then_some(20 * MS),
            status: if lost { Status::Lost } else { Status::Ok },
        });
    }
    series.finish(1);
    let t = target("udp", &series, &Request::default());
    assert_eq!(t.outages, []);
}

#[test]
fn reliability_while_the_line_is_full_differs_from_the_whole() {
    // An hour with 10 minutes of upload at 700 kbit/s.
    let full = 1200..1800i64;
    let mut rows = answered(&[19 * MS; 3600]);
    rows[1200..1800].fill((Status::Ok, Some(450 * MS)));
    let mut carried = Carried::default();
    for s in 1..=3600 {
        let rate = if full.contains(&(s - 1)) {
            700_000
        } else {
            20_000
        };
        carried.add(s * S, S, Some(1000), Some(rate / 8));
    }
    let limits = [100 * MS];
    let up = carried
        .rates(0, 3600 * S, 20 * S)
        .full(Direction::Up, None)
        .unwrap();
    let edges = up.spans.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let s = series(
        &rows,
        S,
        Cuts {
            edges,
            limits_ns: limits.to_vec(),
            ..cuts()
        },
    );
    let request = Request {
        limits_ns: limits.to_vec(),
        sliding_ns: 600 * S,
        services: services::read(services::BUILT_IN).unwrap(),
        full: vec![up],
        ..Request::default()
    };
    let t = target("udp", &s, &request);
    let share = |s: &analysis::statistics::Summary| s.reliability[0].share.value().unwrap();
    assert!((share(&t.whole) - 3000.0 / 3600.0).abs() < 1e-9);
    let loaded = &t.loaded[0];
    assert_eq!(loaded.rate_bps.value().unwrap().round(), 700_000.0);
    assert_eq!(
        (loaded.seconds, share(loaded.summary.as_ref().unwrap())),
        (600.0, 0.0)
    );
    // Each service is judged for both.
    assert!(t.services.iter().all(|v| v.spans.len() == 2));
}

#[test]
fn traffic_that_does_not_make_packets_wait_is_not_called_full() {
    let rows = answered(&[19 * MS; 3600]);
    let mut carried = Carried::default();
    for s in 1..=3600 {
        carried.add(s * S, S, None, Some(if s < 1800 { 50_000 } else { 100 }));
    }
    let full = carried
        .rates(0, 3600 * S, 20 * S)
        .full(Direction::Up, None)
        .unwrap();
    let request = Request {
        full: vec![full],
        ..Request::default()
    };
    let t = target("udp", &series(&rows, S, cuts()), &request);
    assert!(t.loaded[0].summary.is_none());
    assert_eq!(t.loaded[0].rate_bps.value(), None);
}

/// A recording of a stranger claimed 2^64 probes in an hour, and each took 8 bytes.
#[test]
fn thinned_intervals_that_hold_too_many_probes_are_refused_before_they_take_memory() {
    for seed in 1..40 {
        let mut u = uniform(seed);
        let mut outline = Outline::default();
        (0..100).for_each(|i| outline.add_thinned(i * 60 * S, 60 * S, u64::MAX));
        let plan = Plan::new(&outline, cuts()).unwrap();
        let mut s = match u() < 0.5 {
            true => Series::new(plan),
            false => Series::of_holes(plan),
        };
        let mut refused = false;
        let (mut kept, mut claimed) = (0u64, 0u64);
        for i in 0..100 {
            let mut histogram = Histogram::new();
            histogram.record_ms(20.0 + u());
            // Half of the draws claim what a probe sends in a minute, the others 2 GiB of round trips and more.
            let absurd = u() < 0.5;
            let doublings = if absurd { 29.0 + 34.0 * u() } else { 9.0 * u() };
            for _ in 0..doublings as u32 {
                histogram.add(&histogram.clone());
            }
            let extreme = u() < 0.1;
            let counts = Counts {
                ok: histogram.len(),
                lost: if extreme {
                    u64::MAX
                } else {
                    (30.0 * u()) as u64
                },
                not_sent: (u() * 3.0) as u64,
                ..Counts::default()
            };
            let added = s.add_thinned(i * 60 * S, 60 * S, &counts, &histogram);
            if added.is_ok() {
                kept += histogram.len();
                claimed += counts.sent() + counts.not_sent;
            } else {
                refused = true;
                assert!(extreme || absurd, "seed {seed}, interval {i}");
            }
            // Draws that really keep 2 GiB take long.
            if kept > 1 << 22 {
                break;
            }
        }
        assert!(refused || kept > 0, "seed {seed}");
        assert!(claimed <= 1 << 31, "seed {seed}: {claimed}");
        s.finish(1);
        assert_eq!(s.blocks.iter().map(|b| b.counts.ok).sum::<u64>(), kept);
    }
}

#[test]
fn an_empty_or_tiny_recording_says_so() {
    assert!(Plan::new(&Outline::default(), cuts()).is_none());
    let t = analysed(&series(&[(Status::Lost, None)], S, cuts()), &[MS]);
    assert_eq!((t.whole.sent, t.whole.lost), (1, 1));
    assert_eq!(t.whole.rtt.mean_ms.value(), None);
    assert!(!t.baseline.looked);
}
