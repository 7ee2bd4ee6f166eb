//! Answers about a monitor's recording, beside the truth.
//!
//! **Truth.** Where nothing happens to the link, that is the law of its delays and losses: the same figures of a course
//! sixty times as long. Where something happens, it is what was drawn to happen.

use super::course::Link;
use super::family::{Change, Draw, Event};
use crate::draws::judge::{Judged, Verdict};
use analysis::services::Can;
use analysis::statistics::{ShiftCause, Summary, TargetStatistics};
use stats::Figure;

/// Probes of an outage or a gap.
const LEAST: usize = 10;

/// The figures in the order of the tables.
pub const FIGURES: [&str; 22] = [
    "round trip, mean",
    "round trip, median",
    "round trip, 95 %",
    "round trip, 99 %",
    "IPDV, mean",
    "IPDV, 95 %",
    "loss",
    "within a limit",
    "median in a window",
    "95 % in a window",
    "loss in a window",
    "median in a span",
    "95 % in a span",
    "loss in a span",
    "difference of medians",
    "difference of 95 % points",
    "difference of losses",
    "uses",
    "outages",
    "gaps",
    "availability",
    "shifts of the base line",
];

/// Tolerance of a value: a share of the truth, or this much.
#[derive(Clone, Copy)]
struct Tolerance {
    share: f64,
    least: f64,
    unit: &'static str,
}

const DELAY: Tolerance = Tolerance {
    share: 0.1,
    least: 0.2,
    unit: "ms",
};
const SHARE: Tolerance = Tolerance {
    share: 0.1,
    least: 0.1,
    unit: "%",
};

fn judged(figure: &'static str, verdict: Verdict, said: String, truth: String) -> Judged {
    Judged {
        figure,
        direction: None,
        verdict,
        said,
        truth,
        covered: None,
    }
}

fn one(name: &'static str, said: &Figure, truth: f64, by: Tolerance) -> Judged {
    let Figure::Is { value, low, high } = said else {
        let truth = format!("{truth:.3} {}", by.unit);
        return judged(name, Verdict::CannotTell, "cannot tell".into(), truth);
    };
    // Numbers of one and the same delay may differ in their last digit.
    let slack = 1e-6 * truth.abs() + 1e-3;
    let holds = (low - slack..=high + slack).contains(&truth);
    let near = (value - truth).abs() <= (by.share * truth.abs()).max(by.least);
    let narrow = (value - low).max(high - value) <= (0.25 * value.abs()).max(by.least);
    let verdict = match (holds, near) {
        (_, true) => Verdict::Right,
        (true, _) if narrow => Verdict::Right,
        (true, _) => Verdict::CannotTell,
        _ => Verdict::Wrong,
    };
    Judged {
        covered: Some(holds),
        ..judged(
            name,
            verdict,
            format!("{value:.3} ({low:.3} to {high:.3}) {}", by.unit),
            format!("{truth:.3} {}", by.unit),
        )
    }
}

/// Figures of the whole recording beside those of the long course.
pub fn figures(said: &TargetStatistics, law: &TargetStatistics) -> Vec<Judged> {
    let (s, l) = (&said.whole, &law.whole);
    let mut all = Vec::new();
    let mut add = |name, said: &Figure, truth: &Figure, by| {
        all.extend(truth.value().map(|t| one(name, said, t, by)));
    };
    add("round trip, mean", &s.rtt.mean_ms, &l.rtt.mean_ms, DELAY);
    for (name, share) in [
        ("round trip, median", 0.5),
        ("round trip, 95 %", 0.95),
        ("round trip, 99 %", 0.99),
    ] {
        add(name, &s.rtt.point(share), &l.rtt.point(share), DELAY);
    }
    add("IPDV, mean", &s.ipdv.mean_ms, &l.ipdv.mean_ms, DELAY);
    add("IPDV, 95 %", &s.ipdv.p95_ms, &l.ipdv.p95_ms, DELAY);
    add("loss", &s.loss_percent, &l.loss_percent, SHARE);
    for (s, l) in s.reliability.iter().zip(&l.reliability) {
        let percent = |f: &Figure| f.map(|p| 100.0 * p);
        add(
            "within a limit",
            &percent(&s.share),
            &percent(&l.share),
            SHARE,
        );
    }
    for (s, l) in said.uses.iter().zip(&law.uses) {
        let verdict = match (s.can, l.can) {
            (a, b) if a == b => Verdict::Right,
            (Can::CannotTell, _) => Verdict::CannotTell,
            // The truth lies at the limit.
            (_, Can::CannotTell) => Verdict::Right,
            _ => Verdict::Wrong,
        };
        let told =
            |u: &analysis::answer::UseAnswer| format!("{} {:?}: {}", u.name, u.can, u.because);
        all.push(judged("uses", verdict, told(s), told(l)));
    }
    all
}

/// Figures of short stretches beside those of the long course.
pub fn stretches(link: &Link, said: &TargetStatistics, law: &Summary) -> Vec<Judged> {
    type Names = [&'static str; 3];
    const WINDOW: Names = ["median in a window", "95 % in a window", "loss in a window"];
    const SPAN: Names = ["median in a span", "95 % in a span", "loss in a span"];
    // Some of many windows: those of one recording are much alike.
    let windows = said.windows.iter().step_by(said.windows.len() / 4 + 1);
    let stretches = windows
        .map(|w| (WINDOW, w))
        .chain(said.spans.iter().map(|s| (SPAN, s)));
    let mut all = Vec::new();
    for ([median, p95, loss], s) in stretches {
        // Less of a link's course than eight cycles has a law of its own.
        if ((s.to_ns - s.from_ns) as f64) < 8e9 * link.cycle_s() {
            continue;
        }
        let figures = [
            (median, s.rtt.point(0.5), law.rtt.point(0.5), DELAY),
            (p95, s.rtt.point(0.95), law.rtt.point(0.95), DELAY),
            (
                loss,
                s.loss_percent.clone(),
                law.loss_percent.clone(),
                SHARE,
            ),
        ];
        for (name, said, law, by) in figures {
            all.extend(law.value().map(|truth| one(name, &said, truth, by)));
        }
    }
    all
}

/// Differences of two recordings of one law, which are none.
pub fn differences(said: [&Summary; 2]) -> Vec<Judged> {
    type Of = fn(&Summary) -> Figure;
    let of: [(_, Of, _); 3] = [
        ("difference of medians", |s| s.rtt.point(0.5), DELAY),
        ("difference of 95 % points", |s| s.rtt.point(0.95), DELAY),
        ("difference of losses", |s| s.loss_percent.clone(), SHARE),
    ];
    let judge = |(name, figure, by): (_, Of, _)| {
        let said = analysis::compare::difference(&figure(said[1]), &figure(said[0]));
        one(name, &said, 0.0, by)
    };
    of.into_iter().map(judge).collect()
}

/// Outages, availability and shifts beside what was drawn.
pub fn events(draw: &Draw, lost: &[bool], said: &TargetStatistics) -> Vec<Judged> {
    let s = |slot: usize| slot as f64 * draw.interval_s;
    // Ten lost probes and more are an outage, whatever lost them. Gaps are listed from the same length on.
    let runs = runs(lost, LEAST);
    let told = |from: i64, to: i64| (from as f64 / 1e9, to as f64 / 1e9);
    let outages = said.outages.iter().map(|o| told(o.from_ns, o.to_ns));
    let gaps = said.gaps.iter().map(|g| told(g.from_ns, g.to_ns));
    let drawn_gaps = draw
        .events
        .iter()
        .filter(|e| e.change == Change::Gap && e.to - e.from >= LEAST);
    let mut all = holes(
        "outages",
        draw,
        &runs.iter().map(|r| (s(r.0), s(r.1))).collect::<Vec<_>>(),
        &outages.collect::<Vec<_>>(),
        said.shortest_hole_s,
    );
    all.extend(holes(
        "gaps",
        draw,
        &drawn_gaps.map(|e| (s(e.from), s(e.to))).collect::<Vec<_>>(),
        &gaps.collect::<Vec<_>>(),
        said.shortest_hole_s,
    ));
    // The network was away in drawn outages, and in groups of losses as long as one.
    let of = |wanted: fn(&Change) -> bool| -> f64 {
        let events = draw.events.iter().filter(|e| wanted(&e.change));
        events.map(|e| e.to - e.from).sum::<usize>() as f64
    };
    let short = |e: &&Event| e.change == Change::Outage && e.to - e.from < 10;
    let short: usize = draw
        .events
        .iter()
        .filter(short)
        .map(|e| e.to - e.from)
        .sum();
    let away = (short + runs.iter().map(|r| r.1 - r.0).sum::<usize>()) as f64;
    let due = draw.probes as f64 - of(|c| *c == Change::Gap);
    let truth = 100.0 * (1.0 - away / due);
    let availability = said.availability.map(|a| 100.0 * a);
    all.push(one("availability", &availability, truth, SHARE));
    all.extend(shifts(draw, said));
    all
}

/// Holes that were told, in seconds, beside the true ones. Ends are right to two intervals.
fn holes(
    name: &'static str,
    draw: &Draw,
    truth: &[(f64, f64)],
    told: &[(f64, f64)],
    shortest_s: f64,
) -> Vec<Judged> {
    let near = |a: f64, b: f64| (a - b).abs() <= 2.1 * draw.interval_s;
    let meet = |a: &(f64, f64), b: &(f64, f64)| near(a.0, b.0) && near(a.1, b.1);
    let say = |of: &(f64, f64)| format!("{:.1} to {:.1} s", of.0, of.1);
    let mut all = Vec::new();
    for hole in truth {
        let (verdict, said) = match told.iter().find(|t| meet(t, hole)) {
            Some(t) => (Verdict::Right, say(t)),
            // The answer tells the length from which on it lists.
            None if hole.1 - hole.0 <= shortest_s + 2.1 * draw.interval_s => {
                (Verdict::CannotTell, "none".into())
            }
            None => (Verdict::Wrong, "none".into()),
        };
        all.push(judged(name, verdict, said, say(hole)));
    }
    for t in told
        .iter()
        .filter(|t| !truth.iter().any(|hole| meet(t, hole)))
    {
        all.push(judged(name, Verdict::Wrong, say(t), "none".into()));
    }
    all
}

/// Runs of `true`, at least this long.
fn runs(lost: &[bool], least: usize) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut from = None;
    for i in 0..=lost.len() {
        match (lost.get(i).copied().unwrap_or(false), from) {
            (true, None) => from = Some(i),
            (false, Some(begin)) => {
                if i - begin >= least {
                    all.push((begin, i));
                }
                from = None;
            }
            _ => {}
        }
    }
    all
}

fn shifts(draw: &Draw, said: &TargetStatistics) -> Vec<Judged> {
    const NAME: &str = "shifts of the base line";
    let mut all = Vec::new();
    let told = &said.baseline.shifts;
    // Not every step stands out of what varies anyway.
    let link = &draw.link;
    let levels_ms = link.levels.map_or(0.0, |l| l.spread_ms);
    let unseen_ms = 0.3 * link.base_ms + 3.0 * link.jitter.mean_ms + levels_ms;
    let drawn: Vec<(f64, f64, f64, ShiftCause)> = (draw.events.iter())
        .filter_map(|e| {
            let (step, cause) = match e.change {
                Change::Path { ms, .. } => (ms, ShiftCause::Path),
                Change::Queue { ms, cut, .. } => (cut * ms, ShiftCause::Queue),
                _ => return None,
            };
            let (from, to) = (e.from as f64, e.to as f64);
            Some((from * draw.interval_s, to * draw.interval_s, step, cause))
        })
        .collect();
    let say = |s: &analysis::statistics::Shift| {
        format!(
            "{:.0} to {:.0} s: {:+.2} ms, {:?}",
            s.from_ns as f64 / 1e9,
            s.to_ns as f64 / 1e9,
            s.step_ms,
            s.cause
        )
    };
    for (from, to, step, cause) in &drawn {
        let truth = format!("{from:.0} to {to:.0} s: {step:+.2} ms, {cause:?}");
        let overlap = |s: &&analysis::statistics::Shift| {
            (s.from_ns as f64 / 1e9) < *to && (s.to_ns as f64 / 1e9) > *from
        };
        let found: Vec<_> = told.iter().filter(overlap).collect();
        let verdict = match found.as_slice() {
            [] if !said.baseline.looked => Verdict::CannotTell,
            [] if step.abs() < unseen_ms => Verdict::CannotTell,
            [] => Verdict::Wrong,
            [s] => {
                let ends = (s.from_ns as f64 / 1e9 - from).abs() <= 120.0
                    && (s.to_ns as f64 / 1e9 - to).abs() <= 120.0;
                let size = (s.step_ms - step).abs() <= 0.2 * step.abs() + 1.0;
                match (ends && size, s.cause) {
                    (true, c) if c == *cause => Verdict::Right,
                    (true, ShiftCause::CannotTell) => Verdict::CannotTell,
                    _ => Verdict::Wrong,
                }
            }
            _ => Verdict::Wrong,
        };
        let found: Vec<String> = found.into_iter().map(say).collect();
        all.push(judged(NAME, verdict, found.join(", "), truth));
    }
    for s in told {
        let meets = drawn
            .iter()
            .any(|d| (s.from_ns as f64 / 1e9) < d.1 && (s.to_ns as f64 / 1e9) > d.0);
        if !meets {
            // Transfers that last for minutes are a queue that does not empty.
            let verdict = match (s.cause, draw.link.load) {
                (ShiftCause::Queue, Some(_)) => Verdict::Right,
                (ShiftCause::CannotTell, Some(_)) => Verdict::CannotTell,
                _ => Verdict::Wrong,
            };
            all.push(judged(NAME, verdict, say(s), "none".into()));
        }
    }
    if told.is_empty() && drawn.is_empty() {
        all.push(judged(NAME, Verdict::Right, "none".into(), "none".into()));
    }
    all
}
