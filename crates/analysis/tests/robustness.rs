//! Stability of connection, delivery and performance against a slow count probe by probe, over random weeks.

use analysis::robustness::Robustness;
use analysis::series::{Cuts, Outline, Plan, Probe, Series};
use analysis::survey::{Request, Span, target};
use base::record::Status;
use base::rng::{Streams, uniform};
use std::collections::BTreeMap;

const S: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * S;
const DAY: i64 = 24 * HOUR;

/// Fate of each slot of the week: its round trip, or lost; none if nothing was sent.
type Week = Vec<Option<Option<i64>>>;

struct Drawn {
    interval_ns: i64,
    week: Week,
    days: Vec<Span>,
}

/// A link with outages, scattered losses, gaps of the monitor, and hours of different delays.
fn drawn(seed: u64) -> Drawn {
    let mut rng = Streams::new(seed).stream("week");
    let mut draw = |most: f64| uniform(&mut rng) * most;
    let interval_ns = [5 * S, 10 * S, 20 * S][draw(3.0) as usize];
    let length_ns = (2.0 + draw(6.0)) as i64 * DAY + draw(24.0) as i64 * HOUR;
    let n = (length_ns / interval_ns) as usize;
    let midnight = -(draw(24.0 * 3600.0) as i64) * S;
    let loss = draw(0.03);
    let levels: Vec<f64> = (0..length_ns / HOUR + 2)
        .map(|_| 10.0 + draw(90.0))
        .collect();
    let mut week: Week = (0..n)
        .map(|i| {
            let level = levels[(i as i64 * interval_ns / HOUR) as usize];
            let ms = level + draw(20.0);
            Some((draw(1.0) >= loss).then_some((ms * 1e6) as i64))
        })
        .collect();
    for fate in [Some(None), None] {
        for _ in 0..draw(9.0) as usize {
            let from = draw(n as f64) as usize;
            let to = from + (draw(4.0 * 3600.0) as i64 * S / interval_ns) as usize;
            week[from..to.min(n)].fill(fate);
        }
    }
    // The series begins and ends with an answer.
    week[0] = Some(Some(20_000_000));
    week[n - 1] = Some(Some(20_000_000));
    let begins = (0..)
        .map(|d| midnight + d * DAY)
        .take_while(|t| *t < length_ns);
    let days = begins.enumerate().map(|(i, from_ns)| Span {
        name: format!("day {i}"),
        from_ns,
        to_ns: from_ns + DAY,
    });
    Drawn {
        interval_ns,
        days: days.collect(),
        week,
    }
}

fn series(d: &Drawn) -> Series {
    let sent = d
        .week
        .iter()
        .enumerate()
        .filter_map(|(i, fate)| Some((i, (*fate)?)));
    let mut outline = Outline::default();
    sent.clone()
        .for_each(|(i, _)| outline.add(i as i64 * d.interval_ns));
    let cuts = Cuts {
        days: d.days.iter().map(|d| d.from_ns).collect(),
        ..Cuts::default()
    };
    let mut series = Series::new(Plan::new(&outline, cuts).expect("probes"));
    for (i, rtt_ns) in sent {
        series.add(Probe {
            sent_ns: i as i64 * d.interval_ns,
            rtt_ns,
            status: if rtt_ns.is_some() {
                Status::Ok
            } else {
                Status::Lost
            },
        });
    }
    series.finish(1);
    series
}

fn found(d: &Drawn, series: &Series) -> Robustness {
    let request = Request {
        calendar: d.days.clone(),
        sliding_ns: 600 * S,
        ..Request::default()
    };
    target("udp", series, &request)
        .stability
        .expect("days were given")
}

/// Runs of due probes without an answer, at least this long.
fn outages(d: &Drawn, shortest_ns: i64) -> Vec<(i64, i64)> {
    let mut all = Vec::new();
    let mut from: Option<usize> = None;
    let sent: Vec<(usize, bool)> = d
        .week
        .iter()
        .enumerate()
        .filter_map(|(i, f)| Some((i, f.as_ref()?.is_some())))
        .collect();
    let gap = |a: usize, b: usize| (b - a) as i64 * d.interval_ns > shortest_ns;
    let mut last = 0;
    let mut end = |from: &mut Option<usize>, to: i64| {
        if let Some(f) = from.take() {
            let f = f as i64 * d.interval_ns;
            if to - f >= shortest_ns {
                all.push((f, to));
            }
        }
    };
    for (i, answered) in sent {
        if gap(last, i) {
            end(&mut from, (last as i64 + 1) * d.interval_ns);
        }
        match answered {
            true => end(&mut from, i as i64 * d.interval_ns),
            // A lost probe after a short gap: the outage began after the last answer.
            false => from = from.or(Some(if gap(last, i) || i == 0 { i } else { last + 1 })),
        }
        last = i;
    }
    all
}

/// Stretches in which probes were due: without a longer gap than that.
fn due(d: &Drawn, shortest_ns: i64) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (i, _) in d.week.iter().enumerate().filter(|(_, f)| f.is_some()) {
        let t = i as i64 * d.interval_ns;
        match all
            .last_mut()
            .filter(|l| t - (l.1 - d.interval_ns) <= shortest_ns)
        {
            Some(last) => last.1 = t + d.interval_ns,
            None => all.push((t, t + d.interval_ns)),
        }
    }
    all
}

fn time_of(spans: &[(i64, i64)], from: i64, to: i64) -> i64 {
    spans
        .iter()
        .map(|s| (s.1.min(to) - s.0.max(from)).max(0))
        .sum()
}

/// Figures of an hour, counted probe by probe.
#[derive(Default)]
struct Counted {
    /// Probes lost and sent in slots that no outage touches.
    lost: u64,
    sent: u64,
    rtts_ms: Vec<f64>,
}

/// Counts each probe in its hour; loss counts in the hour in which its slot's first probe was sent.
fn counted(d: &Drawn, series: &Series, outages: &[(i64, i64)]) -> BTreeMap<i64, Counted> {
    let mut all: BTreeMap<i64, Counted> = BTreeMap::new();
    let hour = |t: i64| (t - d.days[0].from_ns).div_euclid(HOUR);
    let slots = &series.slots;
    let mut first: BTreeMap<i64, i64> = BTreeMap::new();
    for (i, fate) in d
        .week
        .iter()
        .enumerate()
        .filter_map(|(i, f)| Some((i, (*f)?)))
    {
        let t = i as i64 * d.interval_ns;
        let slot = (t - slots.from_ns).div_euclid(slots.length_ns);
        let begin = slots.from_ns + slot * slots.length_ns;
        let sent = *first.entry(slot).or_insert(t);
        if time_of(outages, begin, begin + slots.length_ns) == 0 {
            let of = all.entry(hour(sent)).or_default();
            of.sent += 1;
            of.lost += u64::from(fate.is_none());
        }
        let ms = fate.map(|ns| ns as f64 / 1e6);
        all.entry(hour(t)).or_default().rtts_ms.extend(ms);
    }
    all
}

#[test]
fn figures_are_those_of_a_slow_count() {
    let (mut broken, mut bad) = (0, 0);
    for seed in 0..60 {
        let d = drawn(seed);
        let series = series(&d);
        let r = found(&d, &series);
        let outages = outages(&d, series.plan.shortest_hole_ns());
        let due = due(&d, series.plan.shortest_hole_ns());
        assert_eq!(r.breaks, outages.len() as u64, "seed {seed}");
        let down: i64 = outages.iter().map(|o| o.1 - o.0).sum();
        assert!((r.down_s - down as f64 / 1e9).abs() < 1e-6, "seed {seed}");
        let hours = d
            .days
            .iter()
            .flat_map(|d| (0..24).map(|h| d.from_ns + h * HOUR));
        let hours: Vec<i64> = hours
            .filter(|h| 2 * time_of(&due, *h, h + HOUR) >= HOUR)
            .collect();
        let hit = hours
            .iter()
            .filter(|h| time_of(&outages, **h, **h + HOUR) > 0);
        assert_eq!(
            (r.hours, r.broken_hours),
            (hours.len() as u64, hit.count() as u64),
            "seed {seed}"
        );
        let days = d
            .days
            .iter()
            .filter(|s| 2 * time_of(&due, s.from_ns, s.to_ns) >= DAY);
        let bad_days = days
            .clone()
            .filter(|s| time_of(&outages, s.from_ns, s.to_ns) > 600 * S);
        let expected = (days.clone().count() as u64, bad_days.count() as u64);
        assert_eq!((r.days, r.bad_days), expected, "seed {seed}");

        let counted = counted(&d, &series, &outages);
        let judged: Vec<&Counted> = counted.values().filter(|c| c.sent > 0).collect();
        let lossy = judged.iter().filter(|c| c.lost * 100 > c.sent).count() as u64;
        assert_eq!(
            (r.judged_hours, r.lossy_hours),
            (judged.len() as u64, lossy),
            "seed {seed}"
        );
        let (lost, sent) = judged
            .iter()
            .fold((0, 0), |(l, s), c| (l + c.lost, s + c.sent));
        let loss = r.loss_percent.value().expect("loss");
        assert!(
            (loss - 100.0 * lost as f64 / sent as f64).abs() < 1e-9,
            "seed {seed}: {loss}"
        );
        let full = counted.values().filter(|c| c.rtts_ms.len() >= 20);
        let p95s: Vec<f64> = full
            .filter_map(|c| stats::quantile(&c.rtts_ms, 0.95))
            .collect();
        assert_eq!(r.parts, p95s.len() as u64, "seed {seed}");
        for (ours, p) in [
            (r.p95.low_ms, 0.05),
            (r.p95.usual_ms, 0.5),
            (r.p95.high_ms, 0.95),
        ] {
            let theirs = stats::quantile(&p95s, p).expect("hours");
            assert!(
                (ours.expect("hours") - theirs).abs() < 1e-6,
                "seed {seed}: {ours:?} {theirs}"
            );
        }
        for day in &r.each_day {
            let down = time_of(&outages, day.from_ns, day.to_ns) as f64 / 1e9;
            assert!((day.down_s - down).abs() < 1e-6, "seed {seed}");
        }
        broken += r.broken_hours;
        bad += r.bad_days;
    }
    assert!(
        broken > 300 && bad > 60,
        "the draws have too few breaks: {broken} {bad}"
    );
}

#[test]
fn a_short_recording_cannot_tell_and_an_even_one_varies_by_nothing() {
    let whole = |n: usize| Drawn {
        interval_ns: 10 * S,
        week: vec![Some(Some(20_000_000)); n],
        days: vec![Span {
            name: "day".into(),
            from_ns: 0,
            to_ns: DAY,
        }],
    };
    let d = whole(100);
    let r = found(&d, &series(&d));
    assert_eq!((r.hours, r.days, r.breaks), (0, 0, 0));
    assert!(r.broken_hours_percent.value().is_none() && r.p95.variation_percent.value().is_none());
    assert_eq!(r.p95.usual_ms, None);
    let d = whole(8640);
    let r = found(&d, &series(&d));
    assert_eq!(
        (r.hours, r.days, r.broken_hours, r.bad_days, r.parts),
        (24, 1, 0, 0, 24)
    );
    assert_eq!(r.p95.variation_percent.value(), Some(0.0));
    assert_eq!(r.p95.usual_ms, Some(20.0));
}
