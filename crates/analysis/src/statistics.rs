//! Statistics of any recording, with or without phases of a test: number of probes, delays, and share answered in time,
//! for the whole, a day, a window, a phase and while the link was full; and the faults of the recording itself.
//!
//! **Definitions**, the same for every recording, so that any two can be compared. *Sent*: left this host; further
//! answers and missed slots are counted apart. *Lost*: no answer within the limit for loss; late answers count as lost
//! and keep their delay. Round trips are those of all answers that can be trusted, late ones included. *Reliability*
//! within a limit: the share of the probes sent, without those with impossible times, whose answer came within the
//! limit. A lost probe exceeds every limit. *IPDV*: size of the difference of two successive round trips (RFC 3393,
//! section 2.2; RFC 5481, section 3.1); a lost probe has none, nor has the one after it.
//!
//! **Method.** Quantiles are exact (type 7); SD and variance are those of the sample (n − 1). Every interval is a 95 %
//! interval that allows for the correlation of neighbours: the effective sample size comes from the means of blocks of
//! time (`stats::effective_size`), weighted by their probes.
//!
//! **Source.** Borlaug 2014, equation (1), tables 5–7 and 10–20.

use crate::answer::{Reliability, UseAnswer};
use crate::counted::InterfaceTraffic;
use crate::holes::{Gap, Outage};
use crate::host_load::HostSummary;
use crate::incidents::Incident;
use crate::modem::ModemSummary;
use crate::moments::Moment;
use crate::radio::RadioSummary;
use crate::robustness::Robustness;
use crate::series::{Block, Counts, Series, VARIATION_NS};
use crate::services::{Can, Verdict};
use crate::uplinks::Uplink;
use base::record::{Direction, Exclusion, Origin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::runs;
use stats::{Ends, Figure, Ipdv, Moments};

/// Version of the shape in `--json`.
pub const STATISTICS_VERSION: u32 = 1;

/// Points of the distribution that every summary of a long span has.
pub const POINTS: [f64; 8] = [0.05, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999];

/// Statistics of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// Version of the shape, [`STATISTICS_VERSION`].
    pub version: u32,
    /// Name of the recording.
    pub title: String,
    /// Origin of its rows.
    pub origin: Origin,
    /// True if the run went to its planned end.
    pub complete: bool,
    /// First probe sent.
    pub from_ns: i64,
    /// End of the recording, after the last probe.
    pub to_ns: i64,
    /// End of a monitor's recording that is not closed; null if the fate of all probes is known.
    #[serde(default)]
    pub unsettled: Option<UnsettledEnd>,
    /// Excluded times, with reasons.
    pub excluded: Vec<Excluded>,
    /// Incidents in order.
    pub incidents: Vec<Incident>,
    /// Moments that the user marked, in order.
    #[serde(default)]
    pub moments: Vec<Moment>,
    /// Statistics of each target.
    pub targets: Vec<TargetStatistics>,
    /// Load of the measuring host; null if it was not sampled.
    #[serde(default)]
    pub host: Option<HostSummary>,
    /// State of the modem; null if it was not read.
    #[serde(default)]
    pub modem: Option<ModemSummary>,
    /// State of the radios, such as Wi-Fi and cellular modems, with what the probes saw beside them.
    #[serde(default)]
    pub radios: Vec<RadioSummary>,
    /// Traffic of the measuring host's interfaces, the busiest first; at most 16.
    #[serde(default)]
    pub interfaces: Vec<InterfaceTraffic>,
    /// Stability of the interfaces that a monitor watched.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
}

/// End of a recording whose probes may still be answered: all of them are left out of the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnsettledEnd {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// True if nothing is older. Then the answered probes count after all, and no loss can be told.
    pub is_all: bool,
}

/// Excluded time with its probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Excluded {
    /// Time and reason.
    #[serde(flatten)]
    pub span: Exclusion,
    /// Probes that were sent in it.
    pub probes: u64,
}

/// Statistics of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetStatistics {
    /// Name of the target.
    pub target: String,
    /// Usual interval from one probe to the next.
    pub interval_ms: f64,
    /// Relative error of the round trips: 0, or that of the histograms of thinned probes.
    pub rounding: f64,
    /// Figures of the whole recording.
    pub whole: Summary,
    /// Figures of each day.
    pub days: Vec<Summary>,
    /// Figures of each window.
    pub windows: Vec<Summary>,
    /// Figures of each phase.
    pub phases: Vec<Summary>,
    /// Requested spans.
    pub spans: Vec<Summary>,
    /// Figures while the link was full, by direction.
    pub loaded: Vec<Loaded>,
    /// Worst sliding window for each limit.
    pub worst: Vec<Worst>,
    /// Gaps in order.
    pub gaps: Vec<Gap>,
    /// Outages in order.
    pub outages: Vec<Outage>,
    /// Least length of the gaps and outages that were looked for.
    pub shortest_hole_s: f64,
    /// Share of the time in which probes were due that lies outside outages. Time in which the network kept probes from
    /// leaving counts; time in which this host did not probe does not.
    pub availability: Figure,
    /// Stability of connection, delivery and performance; null in files of earlier versions.
    #[serde(default)]
    pub stability: Option<Robustness>,
    /// Course of the smallest round trip.
    pub baseline: Baseline,
    /// Verdicts on services.
    pub services: Vec<Verdict>,
    /// Uses of a home's link, judged by delay, its variation and loss: the rate is not known.
    #[serde(default)]
    pub uses: Vec<UseAnswer>,
}

impl TargetStatistics {
    /// Withdraws all figures that depend on loss, because losses are not known yet.
    pub fn without_loss(&mut self, because: &str) {
        let TargetStatistics {
            whole,
            days,
            windows,
            phases,
            spans,
            ..
        } = self;
        let parts = [days, windows, phases, spans].into_iter().flatten();
        for summary in parts.chain([whole]) {
            summary.loss_percent = Figure::cannot_tell(because);
            for r in &mut summary.reliability {
                r.share = Figure::cannot_tell(because);
            }
        }
        self.availability = Figure::cannot_tell(because);
        if let Some(stability) = &mut self.stability {
            stability.without_loss(because);
        }
        for u in self.uses.iter_mut().filter(|u| u.can == Can::Pass) {
            u.can = Can::CannotTell;
            u.because = because.to_owned();
        }
    }
}

/// The figures of one span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Name of the span.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Probes sent.
    pub sent: u64,
    /// Probes never answered, or late.
    pub lost: u64,
    /// Probes answered after the limit for loss.
    pub late: u64,
    /// Further answers to a probe.
    pub duplicates: u64,
    /// Probes with impossible times.
    pub invalid: u64,
    /// Slots in which nothing was sent, for any reason.
    pub not_sent: u64,
    /// Probes that the network kept from leaving: they count as not answered in reliability and availability.
    #[serde(default)]
    pub cut_off: u64,
    /// lost / sent × 100.
    pub loss_percent: Figure,
    /// Round trips of the answered probes.
    pub rtt: RoundTrips,
    /// Packet delay variation of the round trips.
    #[serde(default)]
    pub ipdv: Ipdv,
    /// Share of the probes within each limit.
    pub reliability: Vec<Reliability>,
}

/// Distribution of round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrips {
    /// Number of round trips.
    pub count: u64,
    /// Least round trip, ms.
    pub min_ms: Option<f64>,
    /// Greatest round trip, ms.
    pub max_ms: Option<f64>,
    /// Mean, ms.
    pub mean_ms: Figure,
    /// Standard deviation, ms.
    pub sd_ms: Option<f64>,
    /// Variance, ms².
    pub variance_ms2: Option<f64>,
    /// Points of the distribution.
    pub points: Vec<Point>,
}

impl RoundTrips {
    /// Point of the distribution at this share.
    pub fn point(&self, share: f64) -> Figure {
        let found = self.points.iter().find(|p| p.share == share);
        found.map_or_else(
            || Figure::cannot_tell(format!("the {} % point was not asked for", share * 100.0)),
            |p| p.ms.clone(),
        )
    }
}

/// Point of the distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Cumulative share, 0 to 1.
    pub share: f64,
    /// Round trip at that share, ms.
    pub ms: Figure,
}

/// Figures while the link was full in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loaded {
    /// Direction in which the link was full.
    pub direction: Direction,
    /// Rate that counted as the link's, with its source.
    pub rate_bps: Figure,
    /// Source of the rate, in words.
    pub rate_from: String,
    /// Time in which the link was full.
    pub seconds: f64,
    /// Figures of that time; null if it is empty or unknown.
    pub summary: Option<Summary>,
}

/// The sliding window with the smallest reliability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worst {
    /// Limit of the round trip, ms.
    pub limit_ms: f64,
    /// Begin of the window, UNIX ns.
    pub from_ns: i64,
    /// End of the window, UNIX ns.
    pub to_ns: i64,
    /// Probes sent in the window.
    pub sent: u64,
    /// Share of them answered within the limit.
    pub share: Figure,
}

/// Base line: the course of the smallest round trip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// True if shifts were looked for.
    pub looked: bool,
    /// Method of the search for shifts, or the reason why there was none.
    pub method: String,
    /// Shifts in order.
    pub shifts: Vec<Shift>,
}

/// Cause of a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShiftCause {
    /// A shift by multiples of the probes' own interval, with no more spread: the instrument takes one probe's answer
    /// for another's.
    Instrument,
    /// The longer of two levels has more spread, and more losses or less even minutes: a queue that did not empty for long. With
    /// a negative step, the usual level is that of the queue.
    Queue,
    /// A level with no more spread and no more losses: another path.
    Path,
    /// Another path or a queue: the spread and the losses do not tell them apart.
    CannotTell,
}

/// A stretch whose base line differs from the recording's usual one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shift {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Step against the usual base line.
    pub step_ms: f64,
    /// Base line in it, ms.
    pub base_ms: f64,
    /// Step in intervals between probes, if it is a whole number of them.
    pub intervals: Option<i64>,
    /// Cause of the shift.
    pub cause: ShiftCause,
}

/// Probes at the mean of each block, and the number of independent ones of the same uncertainty.
fn independent(blocks: &[(f64, f64)], variance: f64, n: f64) -> f64 {
    let all: f64 = blocks.iter().map(|(n, _)| n).sum();
    let mean = blocks.iter().map(|(n, m)| n * m).sum::<f64>() / all.max(1.0);
    let typical = all / blocks.len().max(1) as f64;
    let series: Vec<f64> = blocks
        .iter()
        .map(|(n, m)| (m - mean) * (n / typical).sqrt())
        .collect();
    let between = stats::moments(&series).map_or(0.0, |m| m.sd * m.sd);
    if blocks.len() < 2 || between <= 0.0 || variance <= 0.0 {
        // Nothing is known of how they depend on each other, or nothing varied.
        return n.max(1.0);
    }
    // Blocks of n/m independent samples would have means that vary by variance · m/n.
    let worth = stats::effective_size(&series);
    // Few blocks know that variance little: Student's t of so many, where the interval has that of as many samples.
    let doubt = stats::Z95 / stats::student_t95(worth - 1.0);
    (variance / between * worth * doubt * doubt).clamp(1.0, n.max(1.0))
}

/// Share of `yes` among `of`, in blocks in the order of time.
pub(crate) fn share(blocks: &[(u64, u64)]) -> Figure {
    let (yes, of) = blocks
        .iter()
        .fold((0u64, 0u64), |(y, o), (by, bo)| (y + by, o + bo));
    if of == 0 {
        return Figure::cannot_tell("no probe was sent");
    }
    let n = of as f64;
    let p = yes as f64 / n;
    let means: Vec<(f64, f64)> = blocks
        .iter()
        .filter(|(_, of)| *of > 0)
        .map(|(y, of)| (*of as f64, *y as f64 / *of as f64))
        .collect();
    let n = independent(&means, p * (1.0 - p), n);
    stats::wilson(p * n, n)
}

const MS: f64 = 1e6;
/// Probes whose delay variation is worth a thread of its own.
const WORTH_A_THREAD: u64 = 1_000_000;

/// Figures of a union of blocks, with the given `points` of the distribution and `limits_ns`.
pub fn summary(
    name: &str,
    blocks: &[&Block],
    span: (i64, i64),
    points: &[f64],
    limits_ns: &[i64],
) -> Summary {
    let mut c = Counts::default();
    blocks.iter().for_each(|b| c.add(&b.counts));
    let lost: Vec<(u64, u64)> = blocks
        .iter()
        .map(|b| (b.counts.missed(), b.counts.sent()))
        .collect();
    let in_time = |limit: i64| -> Vec<(u64, u64)> {
        let one = |b: &&Block| (b.within(limit), b.counts.judged());
        blocks.iter().map(one).collect()
    };
    let (rtt, ipdv) = std::thread::scope(|scope| {
        let ipdv = (c.sent() > WORTH_A_THREAD).then(|| scope.spawn(|| variation(blocks)));
        let rtt = round_trips(blocks, points);
        let ipdv = match ipdv {
            Some(thread) => thread.join().expect("a summary does not panic"),
            None => variation(blocks),
        };
        (rtt, ipdv)
    });
    Summary {
        name: name.into(),
        from_ns: span.0,
        to_ns: span.1,
        sent: c.sent(),
        lost: c.missed(),
        late: c.late,
        duplicates: c.duplicates,
        invalid: c.invalid,
        not_sent: c.not_sent,
        cut_off: c.cut_off,
        loss_percent: share(&lost).map(|p| p * 100.0),
        rtt,
        ipdv,
        reliability: limits_ns
            .iter()
            .map(|l| Reliability {
                limit_ms: *l as f64 / MS,
                share: share(&in_time(*l)),
            })
            .collect(),
    }
}

fn round_trips(blocks: &[&Block], points: &[f64]) -> RoundTrips {
    let runs: Vec<&[i64]> = blocks
        .iter()
        .map(|b| b.rtts.as_slice())
        .filter(|r| !r.is_empty())
        .collect();
    let Some((m, means)) = moments(&runs, MS) else {
        let none = "no probe was answered";
        return RoundTrips {
            count: 0,
            min_ms: None,
            max_ms: None,
            mean_ms: Figure::cannot_tell(none),
            sd_ms: None,
            variance_ms2: None,
            points: points
                .iter()
                .map(|p| Point {
                    share: *p,
                    ms: Figure::cannot_tell(none),
                })
                .collect(),
        };
    };
    let spread = (m.n > 1).then_some(m.sd);
    RoundTrips {
        count: m.n as u64,
        min_ms: Some(m.min),
        max_ms: Some(m.max),
        mean_ms: stats::mean_interval(&m, independent(&means, m.sd * m.sd, m.n as f64)),
        sd_ms: spread,
        variance_ms2: spread.map(|s| s * s),
        points: points
            .iter()
            .zip(quantiles(&runs, m.n, points, MS))
            .map(|(p, ms)| Point { share: *p, ms })
            .collect(),
    }
}

/// Delay variation of the blocks' probes.
fn variation(blocks: &[&Block]) -> Ipdv {
    const UNIT: f64 = MS / VARIATION_NS as f64;
    let runs: Vec<&[u32]> = blocks
        .iter()
        .map(|b| b.variations.as_slice())
        .filter(|r| !r.is_empty())
        .collect();
    let Some((m, means)) = moments(&runs, UNIT) else {
        return Ipdv::default();
    };
    let mean = stats::mean_interval(&m, independent(&means, m.sd * m.sd, m.n as f64));
    Ipdv {
        pairs: m.n as u64,
        mean_ms: match mean {
            // A size is not below zero.
            Figure::Is { value, low, high } => Figure::Is {
                value,
                low: low.max(0.0),
                high,
            },
            other => other,
        },
        p95_ms: quantiles(&runs, m.n, &[0.95], UNIT).remove(0),
    }
}

/// Moments of all runs in ms, and each run's weight and mean. `unit`: values of a run in a millisecond.
fn moments<T: Copy + Into<i64>>(runs: &[&[T]], unit: f64) -> Option<(Moments, Vec<(f64, f64)>)> {
    let n: usize = runs.iter().map(|r| r.len()).sum();
    let (min, max): (i64, i64) = (
        runs.iter()
            .filter_map(|r| r.first())
            .map(|v| (*v).into())
            .min()?,
        runs.iter()
            .filter_map(|r| r.last())
            .map(|v| (*v).into())
            .max()?,
    );
    let means: Vec<(f64, f64)> = runs
        .iter()
        .map(|r| (r.len() as f64, sum(r) as f64 / r.len() as f64 / unit))
        .collect();
    let mean = means.iter().map(|(n, m)| n * m).sum::<f64>() / n as f64;
    let (squares, deviations) = runs
        .iter()
        .map(|r| {
            r.iter().fold((0.0, 0.0), |(s, a), v| {
                let v: i64 = (*v).into();
                let d = v as f64 / unit - mean;
                (s + d * d, a + d.abs())
            })
        })
        .fold((0.0, 0.0), |(s, a), (bs, ba)| (s + bs, a + ba));
    let m = Moments {
        n,
        mean,
        sd: if n > 1 {
            (squares / (n as f64 - 1.0)).sqrt()
        } else {
            0.0
        },
        mdev: deviations / n as f64,
        min: min as f64 / unit,
        max: max as f64 / unit,
    };
    Some((m, means))
}

/// Sum of an ascending run.
fn sum<T: Copy + Into<i64>>(run: &[T]) -> i128 {
    // Parts of few values: their sums fit into 64 bits if the outer values are below 2^55, a year in ns.
    let outer = |v: Option<&T>| v.map_or(0, |v| Into::<i64>::into(*v).unsigned_abs());
    if outer(run.first()).max(outer(run.last())) >= 1 << 55 {
        return run.iter().map(|v| i128::from(Into::<i64>::into(*v))).sum();
    }
    let part = |part: &[T]| part.iter().fold(0i64, |s, v| s.wrapping_add((*v).into()));
    run.chunks(128).map(|p| i128::from(part(p))).sum()
}

/// Quantiles of all runs in ms with their intervals, one for each share. `n`: number of values.
fn quantiles<T: Copy + Into<i64>>(
    runs: &[&[T]],
    n: usize,
    shares: &[f64],
    unit: f64,
) -> Vec<Figure> {
    let Some(values) = runs::quantiles(runs, shares) else {
        return vec![Figure::cannot_tell("no probe was answered"); shares.len()];
    };
    let ends = |(p, value): (&f64, &f64)| {
        if let Some(why) = stats::too_few(n, *p) {
            return Err(Figure::cannot_tell(why));
        }
        // A value between two order statistics lies above the lower one.
        let limit = value.floor() as i64;
        let means: Vec<(f64, f64)> = runs
            .iter()
            .map(|r| {
                let below = r.partition_point(|v| Into::<i64>::into(*v) <= limit) as f64;
                (r.len() as f64, below / r.len() as f64)
            })
            .collect();
        let independent = independent(&means, p * (1.0 - p), n as f64);
        Ok(Ends::new(n, independent, *p))
    };
    let ends: Vec<Result<Ends, Figure>> = shares.iter().zip(&values).map(ends).collect();
    let known = ends.iter().flatten().flat_map(Ends::needs);
    let found = runs::kths(runs, &known.collect::<Vec<_>>());
    let mut found = found.as_chunks::<5>().0.iter();
    let figure = |(end, value): (Result<Ends, Figure>, f64)| match end {
        Err(why) => why,
        Ok(ends) => {
            let samples = found.next().expect("each interval has its samples");
            let figure = ends.figure(value, samples.map(|v| v as f64));
            figure.map(|v| v / unit)
        }
    };
    ends.into_iter().zip(values).map(figure).collect()
}

/// The worst window of `length_ns` for each limit, sliding from slot to slot.
pub fn worst(series: &Series, length_ns: i64) -> Vec<Worst> {
    let slots = &series.slots;
    let width = ((length_ns / slots.length_ns).max(1) as usize).min(slots.all.len());
    let limits = slots.limits_ns().len();
    let mut sums = vec![0u64; limits];
    let mut judged = 0u64;
    let mut found: Vec<Option<(f64, usize, u64, u64)>> = vec![None; limits];
    // A window that is mostly a hole in the recording tells little.
    let least = (width as i64 * slots.length_ns / series.plan.interval_ns / 2).max(1) as u64;
    for end in 0..slots.all.len() {
        judged += u64::from(slots.all[end].judged);
        slots.in_time(end).zip(&mut sums).for_each(|(n, s)| *s += n);
        if end >= width {
            judged -= u64::from(slots.all[end - width].judged);
            slots
                .in_time(end - width)
                .zip(&mut sums)
                .for_each(|(n, s)| *s -= n);
        }
        if end + 1 < width || judged < least {
            continue;
        }
        for (sum, best) in sums.iter().zip(&mut found) {
            let share = *sum as f64 / judged as f64;
            if best.is_none_or(|b| share < b.0) {
                *best = Some((share, end + 1 - width, *sum, judged));
            }
        }
    }
    let window = |(limit, best): (&i64, Option<(f64, usize, u64, u64)>)| {
        let (_, first, _, sent) = best?;
        let blocks: Vec<(u64, u64)> = (first..first + width)
            .map(|i| {
                let at = slots.limits_ns().iter().position(|l| l == limit)?;
                Some((slots.in_time(i).nth(at)?, u64::from(slots.all[i].judged)))
            })
            .collect::<Option<_>>()?;
        Some(Worst {
            limit_ms: *limit as f64 / MS,
            from_ns: slots.begin_ns(first),
            to_ns: slots.begin_ns(first + width),
            sent,
            share: share(&blocks),
        })
    };
    slots
        .limits_ns()
        .iter()
        .zip(found)
        .filter_map(window)
        .collect()
}
