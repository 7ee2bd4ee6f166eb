//! Kind of queue from the delay curve of probes alone: the places on the curve at which probes were lost.
//!
//! **Method.** The longest time in which the delay stood up is taken as loaded. The wait beside each lost
//! probe, the more of both neighbours, is its level; losses within a round trip are one event. Drop-tail: nearly
//! all events at one ceiling, near which the queue stands anyway, and far more than chance would put there.
//! AQM: probes are lost low on the curve, more often than on the idle line, while the interface carried a steady
//! rate. Without counters of the interface a line whose own rate moves looks the same, so nothing is said.
//!
//! **Source.** Borlaug 2014, sections 6.1.3 to 6.1.5: losses at peak delay, the level below which the delay
//! does not fall, waits that are normally distributed under one TCP flow.
//!
//! **Limits.** Fair queueing keeps probes out of the queue that the load fills: they show neither that queue nor its
//! law. Probes are lost seldom: 10 a second take minutes to hours of load. Period, floor and shape of the curve are
//! told as evidence and decide nothing: an AQM's sawtooth under one flow is as regular as a full buffer's.

use crate::answer::{Discipline, DisciplineGuess};
use crate::phases;
use base::record::Recording;
use stats::Figure;
use std::collections::BTreeMap;
use std::ops::Range;

/// Answered probes of the loaded time below which nothing is said.
const FEWEST: usize = 200;
/// Events of loss below which nothing is said.
const EVENTS: usize = 6;
/// Share of the highest wait from which a level is at the ceiling.
const CEILING: f64 = 0.85;
/// Share of the highest wait below which a level is low on the curve.
const LOW: f64 = 0.6;
/// Probability below which a coincidence is not believed.
const COINCIDENCE: f64 = 0.001;
/// Variation below which a link's carried rate counts as constant, by seconds.
const STEADY_RATE: f64 = 0.12;

/// The probes of one target in the order in which they were sent.
struct Curve {
    /// (sent ns, wait in ms) of those that were answered.
    waits: Vec<(i64, f64)>,
    /// Send times of the lost probes, ns.
    lost: Vec<i64>,
    base_ms: f64,
}

pub(super) fn judge(rec: &Recording) -> DisciplineGuess {
    let Some(curve) = Curve::of(rec) else {
        return cannot(
            vec!["the recording has fewer than 50 answered probes".into()],
            "a recording of probes while the link is loaded",
        );
    };
    let Some(loaded) = curve.loaded() else {
        return cannot(
            vec![format!(
                "the delay never stood above its least, {:.1} ms, for 10 s: no load, or one in a queue of its own",
                curve.base_ms
            )],
            "\"tailback test\", which loads the link and looks at the load's own packets too",
        );
    };
    let inside = curve.within(&loaded);
    let steady = stats::sorted(&inside.iter().map(|w| w.1).collect::<Vec<_>>());
    let quantile = |q| stats::quantile_of_sorted(&steady, q).unwrap_or(0.0);
    let (top, p95) = (quantile(0.995), quantile(0.95));
    let mut evidence = vec![format!(
        "loaded for {:.0} s: the wait stood between {:.1} and {top:.1} ms (1 % and 99.5 %)",
        (loaded.end - loaded.start) as f64 / 1e9,
        quantile(0.01)
    )];
    evidence.extend(sawtooth(inside, top));
    evidence.extend(shape(&steady));
    let levels = curve.levels(&loaded, top);
    let n = levels.len();
    if inside.len() < FEWEST || n < EVENTS {
        evidence.push(format!("probes were lost {n} times under load"));
        return cannot(
            evidence,
            "a longer or denser recording under load: some ten losses, of which each shows how full the queue was; or \"tailback test\"",
        );
    }
    let high = levels.iter().filter(|l| **l >= CEILING * top).count();
    let low = levels.iter().filter(|l| **l < LOW * top).count();
    let at_ceiling =
        inside.iter().filter(|w| w.1 >= CEILING * top).count() as f64 / inside.len() as f64;
    evidence.push(format!(
        "probes were lost {n} times under load, {high} of them within 15 % of the highest wait, {low} below 60 % of it"
    ));
    if high * 10 >= n * 9
        && low == 0
        && p95 >= 0.7 * top
        && at_least(n, at_ceiling, high) < COINCIDENCE
    {
        evidence.push("losses only when the queue is full".into());
        return guess(Discipline::DropTail, evidence);
    }
    let below = inside.iter().filter(|w| w.1 < LOW * top).count() + low;
    let idle_most = curve.idle_loss(&loaded);
    if low * 10 >= n * 6 && at_least(below, idle_most, low) < COINCIDENCE {
        let (managed, says) = drops_early(carried_moves(rec, &loaded), idle_most);
        evidence.push(says);
        if managed {
            return guess(Discipline::Aqm, evidence);
        }
    }
    cannot(
        evidence,
        "\"tailback test\", or a steady load while the interface's counters are recorded",
    )
}

fn guess(is: Discipline, evidence: Vec<String>) -> DisciplineGuess {
    DisciplineGuess {
        is,
        evidence,
        would_settle: None,
    }
}

fn cannot(evidence: Vec<String>, settle: &str) -> DisciplineGuess {
    DisciplineGuess {
        would_settle: Some(settle.into()),
        ..guess(Discipline::CannotTell, evidence)
    }
}

/// True if losses low on the curve are those of an AQM, and the evidence. `moves` is how much the carried rate moves, as a
/// share; losses of a line whose rate moves may be those of a full queue.
fn drops_early(moves: Option<f64>, idle_most: f64) -> (bool, String) {
    match moves {
        Some(moves) if moves <= STEADY_RATE => (
            true,
            format!(
                "the idle link loses less (at most {:.2} %), and the interface carried a steady rate (it moves by {:.0} %): packets are dropped long before the queue is full",
                100.0 * idle_most,
                100.0 * moves
            ),
        ),
        Some(moves) => (
            false,
            format!("the carried rate itself moves by {:.0} %", 100.0 * moves),
        ),
        None => (
            false,
            "no counters of the interface tell whether the rate was steady".into(),
        ),
    }
}

/// Levels and rate of the time in which the delay stood up.
pub(crate) struct Levels {
    /// Base round trip, ms.
    pub base_ms: Figure,
    /// Rate of the busiest interface in that time.
    pub rate_bps: Figure,
    /// Wait that three successive probes exceeded, and the highest that is no single outlier, ms.
    held: f64,
    top: f64,
}

impl Levels {
    /// The buffer: its size where the discipline shows a ceiling, else a bound below it.
    pub fn held_ms(&self, kind: Discipline) -> Figure {
        match kind {
            Discipline::DropTail => Figure::Is {
                value: self.top,
                low: self.held.min(CEILING * self.top),
                high: self.top / CEILING,
            },
            _ => Figure::Is {
                value: self.held,
                low: self.held,
                high: self.held,
            },
        }
    }
}

/// Levels of the longest time in which the delay of the probes stood up.
pub(crate) fn levels(rec: &Recording) -> Option<Levels> {
    let curve = Curve::of(rec)?;
    let loaded = curve.loaded()?;
    let inside = curve.within(&loaded);
    let held = inside
        .windows(3)
        .map(|w| w[0].1.min(w[1].1).min(w[2].1))
        .fold(0.0, f64::max);
    let steady = stats::sorted(&inside.iter().map(|w| w.1).collect::<Vec<_>>());
    let rates: Vec<f64> = carried(rec, &loaded)
        .unwrap_or_default()
        .iter()
        .map(|r| r * 8e9)
        .collect();
    Some(Levels {
        base_ms: Figure::exactly(curve.base_ms),
        rate_bps: match stats::mean_figure(&rates) {
            Figure::Is { value, low, high } if rates.len() >= 10 => Figure::Is { value, low, high },
            _ => Figure::cannot_tell("no interface's counters were recorded while the queue stood"),
        },
        held,
        top: stats::quantile_of_sorted(&steady, 0.995)?,
    })
}

/// Probability that at least `k` of `n` fall into a region that holds the share `p` of all.
fn at_least(n: usize, p: f64, k: usize) -> f64 {
    match k.checked_sub(1) {
        None => 1.0,
        Some(below) => 1.0 - stats::binomial_cdf(below as u64, n as u64, p),
    }
}

impl Curve {
    /// Curve of the target with the most answers.
    fn of(rec: &Recording) -> Option<Curve> {
        let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
        for d in rec.delay.iter().filter(|d| d.rtt_ms().is_some()) {
            *answers.entry(&d.target).or_default() += 1;
        }
        let (target, count) = answers.into_iter().max_by_key(|a| a.1)?;
        if count < 50 {
            return None;
        }
        let probes = phases::probes(rec, target, i64::MIN..i64::MAX);
        let rtts: Vec<(i64, f64)> = probes
            .iter()
            .filter_map(|d| Some((d.sent_ns, d.rtt_ms()?)))
            .collect();
        let base_ms = rtts.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        let mut waits: Vec<(i64, f64)> = rtts.iter().map(|(t, ms)| (*t, ms - base_ms)).collect();
        waits.sort_by_key(|w| w.0);
        let mut lost: Vec<i64> = probes
            .iter()
            .filter(|d| d.status.is_unanswered())
            .map(|d| d.sent_ns)
            .collect();
        lost.sort_unstable();
        Some(Curve {
            waits,
            lost,
            base_ms,
        })
    }

    /// Upper bound of the share of probes that the line loses without load.
    fn idle_loss(&self, loaded: &Range<i64>) -> f64 {
        let outside = self.waits.len() - self.within(loaded).len();
        let lost = self.lost.iter().filter(|t| !loaded.contains(t)).count();
        match stats::wilson(lost as f64, (outside + lost) as f64) {
            Figure::Is { high, .. } => high,
            Figure::CannotTell { .. } => 1.0,
        }
    }

    fn within(&self, range: &Range<i64>) -> &[(i64, f64)] {
        let at = |t: i64| self.waits.partition_point(|w| w.0 < t);
        self.waits
            .get(at(range.start)..at(range.end))
            .unwrap_or_default()
    }

    /// The longest time in which the wait stood above a twentieth of the highest, and above 2 ms, by
    /// medians of a second; dips of up to 3 s belong to it.
    fn loaded(&self) -> Option<Range<i64>> {
        const SECOND: i64 = 1_000_000_000;
        let (first, last) = (self.waits.first()?.0, self.waits.last()?.0);
        let all = stats::sorted(&self.waits.iter().map(|w| w.1).collect::<Vec<_>>());
        let limit = (0.05 * stats::quantile_of_sorted(&all, 0.995)?).max(2.0);
        let mut runs: Vec<Range<i64>> = Vec::new();
        let mut from = first;
        while from <= last {
            let second = from..from.saturating_add(SECOND);
            let waits =
                stats::sorted(&self.within(&second).iter().map(|w| w.1).collect::<Vec<_>>());
            let up = stats::quantile_of_sorted(&waits, 0.5).is_some_and(|m| m >= limit);
            match runs.last_mut() {
                Some(run) if up && second.start - run.end <= 3 * SECOND => run.end = second.end,
                _ if up => runs.push(second.clone()),
                _ => {}
            }
            from = second.end;
        }
        runs.into_iter()
            .max_by_key(|r| r.end - r.start)
            .filter(|r| r.end - r.start >= 10 * SECOND)
    }

    /// The wait beside each event of loss.
    fn levels(&self, range: &Range<i64>, top: f64) -> Vec<f64> {
        let apart = ((self.base_ms + top) * 1e6) as i64;
        let mut levels: Vec<f64> = Vec::new();
        let mut last: Option<i64> = None;
        for t in self.lost.iter().filter(|t| range.contains(t)) {
            let at = self.waits.partition_point(|w| w.0 < *t);
            let beside = [at.checked_sub(1), Some(at)];
            let level = beside
                .into_iter()
                .flatten()
                .filter_map(|i| self.waits.get(i))
                .map(|w| w.1)
                .fold(0.0, f64::max);
            match (last, levels.last_mut()) {
                (Some(before), Some(one)) if t - before <= apart => *one = one.max(level),
                _ => levels.push(level),
            }
            last = Some(*t);
        }
        levels
    }
}

/// Period and floor of the rises and falls of at least a third of the highest wait.
fn sawtooth(waits: &[(i64, f64)], top: f64) -> Option<String> {
    let swing = top / 3.0;
    let (mut peaks, mut floors): (Vec<i64>, Vec<f64>) = Default::default();
    let (mut high, mut low, mut rising) = (*waits.first()?, *waits.first()?, true);
    for w in waits {
        if rising {
            if w.1 > high.1 {
                high = *w;
            } else if high.1 - w.1 > swing {
                peaks.push(high.0);
                (rising, low) = (false, *w);
            }
        } else if w.1 < low.1 {
            low = *w;
        } else if w.1 - low.1 > swing {
            floors.push(low.1);
            (rising, high) = (true, *w);
        }
    }
    if peaks.len() < 3 {
        return None;
    }
    let gaps: Vec<f64> = peaks
        .windows(2)
        .map(|p| (p[1] - p[0]) as f64 / 1e9)
        .collect();
    let median = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5);
    Some(format!(
        "a sawtooth of {} peaks, {:.1} s apart (median), that falls to {:.1} ms (median)",
        peaks.len(),
        median(&gaps)?,
        median(&floors)?
    ))
}

/// Distance of the waits from a normal distribution: the greatest difference of both distribution functions.
fn shape(sorted: &[f64]) -> Option<String> {
    let m = stats::moments(sorted).filter(|m| m.sd > 0.0 && m.n >= FEWEST)?;
    let n = sorted.len() as f64;
    let far = sorted
        .iter()
        .enumerate()
        .map(|(i, v)| (stats::normal_cdf((v - m.mean) / m.sd) - (i as f64 + 0.5) / n).abs())
        .fold(0.0, f64::max);
    let close = if far < 0.05 {
        ": as one TCP flow fills a buffer"
    } else {
        ""
    };
    Some(format!(
        "the waits' distribution is within {:.0} % of a normal one{close}",
        100.0 * far
    ))
}

/// Standard deviation over mean of the busiest interface's rate, by intervals of the loaded time.
fn carried_moves(rec: &Recording, loaded: &Range<i64>) -> Option<f64> {
    let m = stats::moments(&carried(rec, loaded)?)?;
    Some(m.sd / m.mean)
}

/// Rates of the busiest interface and direction by intervals of the loaded time, bytes per nanosecond.
fn carried(rec: &Recording, loaded: &Range<i64>) -> Option<Vec<f64>> {
    let mut rates: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    for row in rec.traffic.iter().filter(|r| {
        r.interval_ns > 0
            && r.t_ns.saturating_sub(r.interval_ns) >= loaded.start
            && r.t_ns <= loaded.end
    }) {
        for (bytes, sent) in [(row.tx_bytes, true), (row.rx_bytes, false)] {
            if let Some(bytes) = bytes {
                rates
                    .entry((&row.interface, sent))
                    .or_default()
                    .push(bytes as f64 / row.interval_ns as f64);
            }
        }
    }
    let mean = |r: &[f64]| {
        stats::moments(r)
            .filter(|m| m.n >= 10 && m.mean > 0.0)
            .map(|m| m.mean)
    };
    rates
        .into_values()
        .filter_map(|r| Some((mean(&r)?, r)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, r)| r)
}
