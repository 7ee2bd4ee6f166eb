//! Statistics of one target, put together.

use crate::answer::UseAnswer;
use crate::changes;
use crate::holes;
use crate::incidents::{Incident, blame, explain};
use crate::robustness::robustness;
use crate::saturation::Full;
use crate::series::{Block, Series};
use crate::services::{Table, Verdict, judge};
use crate::statistics::{Loaded, POINTS, Summary, TargetStatistics, share, summary, worst};
use crate::thresholds::{Seen, judge_delays};
use base::record::Direction;
use stats::Figure;

/// A span with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Name of the span.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
}

/// Figures that are asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// All days of the recording, for its stability; empty if that is not asked for.
    pub calendar: Vec<Span>,
    /// Days to report.
    pub days: Vec<Span>,
    /// Windows to report.
    pub windows: Vec<Span>,
    /// Phases to report.
    pub phases: Vec<Span>,
    /// Further spans to report.
    pub spans: Vec<Span>,
    /// Limits of reliability, ns.
    pub limits_ns: Vec<i64>,
    /// Length of the sliding window.
    pub sliding_ns: i64,
    /// Tables of services to check.
    pub services: Vec<Table>,
    /// Times at which the link was full.
    pub full: Vec<Full>,
    /// True if each answer names its probe, so that the instrument cannot take one for another.
    pub matched: bool,
    /// Incidents of the recording.
    pub incidents: Vec<Incident>,
}

/// Points of the distribution that a short span has.
const FEW: [f64; 4] = [0.05, 0.50, 0.95, 0.99];
/// Relative error of round trips from histograms: half of their last digit of three.
const ROUNDING: f64 = 0.001;

/// Statistics of the target `name`.
pub fn target(name: &str, series: &Series, request: &Request) -> TargetStatistics {
    let limits = &request.limits_ns;
    let of = |span: &Span, points: &[f64]| {
        let blocks = series.within(span.from_ns, span.to_ns);
        summary(
            &span.name,
            &blocks,
            (span.from_ns, span.to_ns),
            points,
            limits,
        )
    };
    // Days and windows without a single probe say nothing that the list of gaps does not.
    let every = |spans: &[Span], points: &[f64]| -> Vec<Summary> {
        let all = spans.iter().map(|s| of(s, points));
        all.filter(|s| s.sent + s.not_sent > 0).collect()
    };
    let plan = &series.plan;
    let all: Vec<&Block> = series.counted().collect();
    // The whole takes as long as its days together.
    let (whole, days) = std::thread::scope(|scope| {
        let days = scope.spawn(|| every(&request.days, &POINTS));
        let whole = summary("whole", &all, (plan.from_ns, plan.to_ns), &POINTS, limits);
        (whole, days.join().expect("a summary does not panic"))
    });
    let loaded: Vec<(Loaded, Vec<&Block>)> = request
        .full
        .iter()
        .map(|f| loaded(f, series, &all, &whole, limits))
        .collect();
    let mut judged: Vec<(String, Vec<&Block>)> = vec![("whole".into(), all.clone())];
    for (l, blocks) in &loaded {
        if l.summary.is_some() {
            judged.push((format!("full {}", l.direction), blocks.clone()));
        }
    }
    for s in request.phases.iter().chain(&request.spans) {
        judged.push((s.name.clone(), series.within(s.from_ns, s.to_ns)));
    }
    let mut found = holes::holes(series);
    let stability = match request.calendar.is_empty() {
        true => None,
        false => Some(robustness(series, &found, &request.calendar)),
    };
    blame(&mut found.outages, name, &request.incidents);
    TargetStatistics {
        target: name.into(),
        interval_ms: plan.interval_ns as f64 / 1e6,
        rounding: if series.rounded { ROUNDING } else { 0.0 },
        days,
        windows: every(&request.windows, &FEW),
        phases: every(&request.phases, &POINTS),
        spans: request.spans.iter().map(|s| of(s, &POINTS)).collect(),
        worst: worst(series, request.sliding_ns),
        gaps: explain(
            found.gaps,
            name,
            &request.incidents,
            plan.shortest_hole_ns(),
        ),
        outages: found.outages,
        shortest_hole_s: plan.shortest_hole_ns() as f64 / 1e9,
        availability: found.availability,
        stability,
        baseline: changes::baseline(series, request.matched),
        services: services(&request.services, &judged),
        uses: uses(&whole, &loaded),
        loaded: loaded.into_iter().map(|(l, _)| l).collect(),
        whole,
    }
}

fn loaded<'s>(
    f: &Full,
    series: &Series,
    all: &[&'s Block],
    whole: &Summary,
    limits: &[i64],
) -> (Loaded, Vec<&'s Block>) {
    let inside = |b: &&&Block| {
        let next = f.spans.partition_point(|(from, _)| *from <= b.from_ns);
        next.checked_sub(1).is_some_and(|i| b.to_ns <= f.spans[i].1)
    };
    let blocks: Vec<&Block> = all.iter().filter(inside).copied().collect();
    let span = (series.plan.from_ns, series.plan.to_ns);
    let name = format!("full {}", f.direction);
    let s = summary(&name, &blocks, span, &POINTS, limits);
    let seconds = f.spans.iter().map(|(a, b)| b - a).sum::<i64>() as f64 / 1e9;
    let mut rate_bps = f.rate_bps.clone();
    let higher = match (s.rtt.point(0.5).value(), whole.rtt.point(0.05).value()) {
        (Some(full), Some(usual)) => full - usual >= (0.5 * usual).max(2.0),
        _ => false,
    };
    let told = rate_bps.value().is_some() && s.sent > 0 && (higher || !f.found);
    if f.found && !higher && rate_bps.value().is_some() {
        rate_bps = Figure::cannot_tell(
            "the highest rate that was reached again and again did not make the delay longer: give the link's rate with --rate-up or --rate-down",
        );
    }
    let l = Loaded {
        direction: f.direction,
        rate_bps,
        rate_from: f.rate_from.clone(),
        seconds: if told { seconds } else { 0.0 },
        summary: told.then_some(s),
    };
    (l, blocks)
}

/// Verdicts on the uses of a home, by the whole and by the times in which the link was full.
fn uses(whole: &Summary, loaded: &[(Loaded, Vec<&Block>)]) -> Vec<UseAnswer> {
    let full = loaded.iter().filter_map(|(l, _)| {
        let during = match l.direction {
            Direction::Up => "while the uplink was full",
            Direction::Down => "while the downlink was full",
        };
        Some((l.summary.as_ref()?, during))
    });
    let spans: Vec<_> = std::iter::once((whole, "in the whole recording"))
        .chain(full)
        .map(|(s, during)| (s, during, s.rtt.point(0.5), s.rtt.point(0.95)))
        .collect();
    let seen: Vec<Seen<'_>> = spans
        .iter()
        .map(|(s, during, p50_ms, p95_ms)| Seen {
            during,
            p50_ms,
            p95_ms,
            loss_percent: &s.loss_percent,
            ipdv: &s.ipdv,
        })
        .collect();
    judge_delays(&seen)
}

fn services(tables: &[Table], spans: &[(String, Vec<&Block>)]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for t in tables {
        for s in &t.services {
            let one = |(name, blocks): &(String, Vec<&Block>)| {
                let within: Vec<(u64, u64)> = blocks
                    .iter()
                    .map(|b| (b.within(s.limit_ns()), b.counts.judged()))
                    .collect();
                let judged = within.iter().map(|(_, of)| of).sum();
                judge(s, name, share(&within), judged)
            };
            all.push(Verdict {
                table: t.name.clone(),
                service: s.name.clone(),
                latency_ms: s.latency.as_millis_f64(),
                way: s.way,
                limit_ms: s.limit_ns() as f64 / 1e6,
                required: s.reliability,
                spans: spans.iter().map(one).collect(),
            });
        }
    }
    all
}
