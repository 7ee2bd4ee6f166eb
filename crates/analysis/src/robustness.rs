//! Stability of a link as its user meets it: of its connection, of delivery while it is connected, and of its performance.
//!
//! **Method.** *Connection*: breaks are the outages of [`crate::holes`]. An hour of the clock is broken if an outage falls
//! into it. A day is bad if outages take more than ten minutes of it. Hours and days count if probes were due in at least
//! half of them. *Delivery*: the loss in the slots that no outage touches. *Performance*: the median and the 95 % point of
//! the round trips of each hour, and how far they differ from hour to hour. An hour counts with twenty answers.
//!
//! **Source.** Centre for Resilient Networks and Applications 2014, in Borlaug 2014, section 3.4.3: connections that break
//! in an hour, that are down for more than ten minutes a day, and that lose more than 1 %. That text names no measure of
//! even performance; ours is the coefficient of variation of the hours' figures.
//!
//! **Limits.** An outage shorter than those of `holes` counts as loss. In recordings of more than forty days the parts of
//! performance are longer than an hour; `part_s` says how long.

use crate::holes::Holes;
use crate::series::{Block, Series};
use crate::statistics::share;
use crate::survey::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Figure, runs};

const HOUR_NS: i64 = 3_600_000_000_000;
/// Down time that makes a day bad.
const BAD_DAY_NS: i64 = 600_000_000_000;
/// Share of lost probes above which an hour is lossy.
const LOSSY: f64 = 0.01;
/// Answers that make the figures of a part.
const LEAST_ANSWERS: usize = 20;
/// Parts that make a figure of their differences.
const LEAST_PARTS: usize = 6;

/// Stability of the way to one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Robustness {
    /// Outages.
    pub breaks: u64,
    /// Length of all outages.
    pub down_s: f64,
    /// Length of the longest outage; null if there is none.
    pub longest_break_s: Option<f64>,
    /// Hours of the clock in at least half of which probes were due.
    pub hours: u64,
    /// Hours among them with a part of an outage.
    pub broken_hours: u64,
    /// Share of the broken hours, %.
    pub broken_hours_percent: Figure,
    /// Days in at least half of which probes were due.
    pub days: u64,
    /// Days among them that were down for more than ten minutes.
    pub bad_days: u64,
    /// Probes lost outside outages, %.
    pub loss_percent: Figure,
    /// Hours with probes outside outages.
    pub judged_hours: u64,
    /// Hours among them in which more than 1 % of those probes were lost.
    pub lossy_hours: u64,
    /// Parts of the recording with at least twenty answers.
    pub parts: u64,
    /// Length of a part: an hour, or more in a long recording.
    pub part_s: f64,
    /// Median round trip of the parts.
    pub median: Evenness,
    /// 95 % point of the round trip of the parts.
    pub p95: Evenness,
    /// Figures of each day with probes.
    pub each_day: Vec<DayStability>,
}

/// Differences of a figure from part to part; null or unknown if there are fewer than six parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evenness {
    /// Median of the parts, ms.
    pub usual_ms: Option<f64>,
    /// Value that 5 % of the parts are below, ms.
    pub low_ms: Option<f64>,
    /// Value that 95 % of the parts are below, ms.
    pub high_ms: Option<f64>,
    /// Standard deviation of the parts divided by their mean, %.
    pub variation_percent: Figure,
}

/// Stability on one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DayStability {
    /// Date.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Time in which probes were due.
    pub probed_s: f64,
    /// Outages that began on the day.
    pub breaks: u64,
    /// Time without an answer.
    pub down_s: f64,
    /// Hours that count.
    pub hours: u64,
    /// Hours among them with a part of an outage.
    pub broken_hours: u64,
    /// Probes lost outside outages, %; null if there were none.
    pub loss_percent: Option<f64>,
    /// Least 95 % point of the day's parts, ms.
    pub p95_least_ms: Option<f64>,
    /// Greatest 95 % point of the day's parts, ms.
    pub p95_most_ms: Option<f64>,
}

impl Robustness {
    /// Withdraws all figures that depend on loss, because losses are not known yet.
    pub(crate) fn without_loss(&mut self, because: &str) {
        self.broken_hours_percent = Figure::cannot_tell(because);
        self.loss_percent = Figure::cannot_tell(because);
        for day in &mut self.each_day {
            day.loss_percent = None;
        }
    }
}

/// Hour of the clock, and what was seen in it.
struct Hour {
    from_ns: i64,
    /// Index of its day.
    day: usize,
    counts: bool,
    broken: bool,
    /// Probes lost and sent in slots that no outage touches.
    lost: u64,
    sent: u64,
}

/// Median and 95 % point of a part's round trips.
struct Part {
    from_ns: i64,
    p50_ms: f64,
    p95_ms: f64,
}

/// Stability of a series with these gaps and outages. `days` hold all of it, each from midnight to midnight.
pub fn robustness(series: &Series, holes: &Holes, days: &[Span]) -> Robustness {
    let outages: Vec<(i64, i64)> = holes.outages.iter().map(|o| (o.from_ns, o.to_ns)).collect();
    let hours = hours(series, &holes.due, &outages, days);
    let parts = parts(series, days);
    let each_day: Vec<DayStability> = days
        .iter()
        .enumerate()
        .map(|(i, day)| {
            let of_day = hours.iter().filter(|h| h.day == i);
            of_one_day(
                day,
                &of_day.collect::<Vec<_>>(),
                &holes.due,
                &outages,
                &parts,
            )
        })
        .collect();
    let by_day =
        |of: fn(&DayStability) -> (u64, u64)| share(&each_day.iter().map(of).collect::<Vec<_>>());
    let counted = each_day.iter().zip(days);
    let whole_days =
        counted.filter(|(d, day)| d.probed_s * 2e9 >= (day.to_ns - day.from_ns) as f64);
    let whole_days: Vec<&DayStability> = whole_days.map(|(d, _)| d).collect();
    let judged: Vec<&Hour> = hours.iter().filter(|h| h.sent > 0).collect();
    let lost: Vec<(u64, u64)> = judged.iter().map(|h| (h.lost, h.sent)).collect();
    let lengths = outages.iter().map(|o| (o.1 - o.0) as f64 / 1e9);
    let hours_counted = each_day.iter().map(|d| d.hours).sum();
    Robustness {
        breaks: outages.len() as u64,
        down_s: lengths.clone().sum(),
        longest_break_s: lengths.reduce(f64::max),
        hours: hours_counted,
        broken_hours: each_day.iter().map(|d| d.broken_hours).sum(),
        broken_hours_percent: match hours_counted {
            0 => Figure::cannot_tell("no hour of the clock was probed for half of its time"),
            _ => by_day(|d| (d.broken_hours, d.hours)).map(|p| p * 100.0),
        },
        days: whole_days.len() as u64,
        bad_days: whole_days
            .iter()
            .filter(|d| d.down_s * 1e9 > BAD_DAY_NS as f64)
            .count() as u64,
        loss_percent: share(&lost).map(|p| p * 100.0),
        judged_hours: judged.len() as u64,
        lossy_hours: judged
            .iter()
            .filter(|h| h.lost as f64 > LOSSY * h.sent as f64)
            .count() as u64,
        parts: parts.len() as u64,
        part_s: series.plan.block_ns.max(HOUR_NS) as f64 / 1e9,
        median: evenness(parts.iter().map(|p| p.p50_ms)),
        p95: evenness(parts.iter().map(|p| p.p95_ms)),
        each_day: each_day.into_iter().filter(|d| d.probed_s > 0.0).collect(),
    }
}

/// Time of the spans, ascending and apart, between two instants.
fn within(spans: &[(i64, i64)], from_ns: i64, to_ns: i64) -> i64 {
    let first = spans.partition_point(|s| s.1 <= from_ns);
    let inside = spans[first..].iter().take_while(|s| s.0 < to_ns);
    inside.map(|s| s.1.min(to_ns) - s.0.max(from_ns)).sum()
}

fn hours(series: &Series, due: &[(i64, i64)], outages: &[(i64, i64)], days: &[Span]) -> Vec<Hour> {
    let mut hours = Vec::new();
    for (day, span) in days.iter().enumerate() {
        let mut from_ns = span.from_ns;
        while from_ns < span.to_ns {
            let to_ns = (from_ns + HOUR_NS).min(span.to_ns);
            hours.push(Hour {
                from_ns,
                day,
                counts: 2 * within(due, from_ns, to_ns) >= to_ns - from_ns,
                broken: within(outages, from_ns, to_ns) > 0,
                lost: 0,
                sent: 0,
            });
            from_ns = to_ns;
        }
    }
    let slots = &series.slots;
    let filled = slots.all.iter().enumerate().filter(|(_, s)| s.sent > 0);
    for (i, slot) in filled {
        let begin = slots.begin_ns(i);
        if within(outages, begin, begin + slots.length_ns) > 0 {
            continue;
        }
        let after = hours.partition_point(|h| h.from_ns <= slot.first_sent_ns);
        if let Some(hour) = after.checked_sub(1).map(|at| &mut hours[at]) {
            hour.lost += u64::from(slot.lost);
            hour.sent += u64::from(slot.sent);
        }
    }
    hours
}

/// Figures of the parts with enough answers, in the order of time.
fn parts(series: &Series, days: &[Span]) -> Vec<Part> {
    let begin = |b: &Block| {
        let after = days.partition_point(|d| d.from_ns <= b.from_ns);
        let midnight = after.checked_sub(1).map_or(0, |at| days[at].from_ns);
        match series.plan.block_ns > HOUR_NS {
            true => b.from_ns,
            false => b.from_ns - (b.from_ns - midnight).rem_euclid(HOUR_NS),
        }
    };
    let blocks: Vec<&Block> = series.counted().collect();
    let groups = blocks.chunk_by(|a, b| begin(a) == begin(b));
    let part = |blocks: &[&Block]| {
        let all = blocks.iter().map(|b| b.rtts.as_slice());
        let all: Vec<&[i64]> = all.filter(|r| !r.is_empty()).collect();
        if all.iter().map(|r| r.len()).sum::<usize>() < LEAST_ANSWERS {
            return None;
        }
        let [p50, p95] = runs::quantiles(&all, &[0.5, 0.95])?.try_into().ok()?;
        Some(Part {
            from_ns: begin(blocks[0]),
            p50_ms: p50 / 1e6,
            p95_ms: p95 / 1e6,
        })
    };
    groups.filter_map(part).collect()
}

fn of_one_day(
    day: &Span,
    hours: &[&Hour],
    due: &[(i64, i64)],
    outages: &[(i64, i64)],
    parts: &[Part],
) -> DayStability {
    let holds = |t: i64| (day.from_ns..day.to_ns).contains(&t);
    let (lost, sent) = hours
        .iter()
        .fold((0, 0), |(l, s), h| (l + h.lost, s + h.sent));
    let p95 = parts.iter().filter(|p| holds(p.from_ns)).map(|p| p.p95_ms);
    let seconds = |spans| within(spans, day.from_ns, day.to_ns) as f64 / 1e9;
    let counted = hours.iter().filter(|h| h.counts);
    DayStability {
        name: day.name.clone(),
        from_ns: day.from_ns,
        to_ns: day.to_ns,
        probed_s: seconds(due),
        breaks: outages.iter().filter(|o| holds(o.0)).count() as u64,
        down_s: seconds(outages),
        hours: counted.clone().count() as u64,
        broken_hours: counted.filter(|h| h.broken).count() as u64,
        loss_percent: (sent > 0).then(|| 100.0 * lost as f64 / sent as f64),
        p95_least_ms: p95.clone().reduce(f64::min),
        p95_most_ms: p95.reduce(f64::max),
    }
}

fn evenness(values: impl Iterator<Item = f64>) -> Evenness {
    let values: Vec<f64> = values.collect();
    if values.len() < LEAST_PARTS {
        let n = values.len();
        return Evenness {
            usual_ms: None,
            low_ms: None,
            high_ms: None,
            variation_percent: Figure::cannot_tell(format!(
                "{n} hours have {LEAST_ANSWERS} answers or more; their differences need {LEAST_PARTS}"
            )),
        };
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let sd = stats::moments(&values).map_or(0.0, |m| m.sd);
    Evenness {
        usual_ms: stats::quantile(&values, 0.5),
        low_ms: stats::quantile(&values, 0.05),
        high_ms: stats::quantile(&values, 0.95),
        variation_percent: match mean > 0.0 {
            true => Figure::exactly(100.0 * sd / mean),
            false => Figure::cannot_tell("the round trips are zero"),
        },
    }
}
