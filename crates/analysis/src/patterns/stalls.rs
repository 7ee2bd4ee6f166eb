//! Stalls: times in which a link delivers nothing, after which everything comes at once.
//!
//! **Rule.** Two or more probes in a row are above their usual delay, and all of them arrive within some ms: their delays fall
//! along a line of slope −1. The probes before and after have the same level, and no ramp precedes. Eight such stalls at
//! irregular times make the pattern. A queue that fills has a ramp, or releases packets at its own rate; a schedule has a
//! period; a handover has a step.
//!
//! **Source.** A. Narayanan et al., "A First Look at Commercial 5G Performance on Smartphones", WWW 2020 (mmWave: hand and body
//! block the beam); 3GPP TS 38.322 (the radio's buffer holds packets meanwhile).
//!
//! **Limits.** A burst of cross traffic that arrives within one interval between probes has the same delays; the sentence
//! says so. A stall in which all probes are lost has no line, and is no evidence.

use super::{Found, Pattern, pattern};
use std::collections::VecDeque;
use std::f64::consts::TAU;

/// Good probes from which the usual delay is taken.
const USUAL: usize = 32;
/// Good probes after which the usual delay is taken anew.
const TAKEN: u32 = 8;
/// Probes beside a stall from which the levels are taken.
const BESIDE: usize = 12;
const FEWEST_BESIDE: usize = 5;
/// Delay above the usual one from which a probe counts as held, and the longest wait must reach, ms.
const HELD_MS: f64 = 40.0;
const STALL_MS: f64 = 80.0;
/// Spread of the arrivals of held probes, at most: ms, and share of the longest wait.
const TOGETHER_MS: f64 = 10.0;
const TOGETHER: f64 = 0.1;
/// Share of the longest wait over which held probes were sent, at least.
const SPANNED: f64 = 0.3;
/// Longest run, ms: what lasts longer is a new level.
const LONGEST_MS: f64 = 5000.0;
/// Delay above the usual one of the probes before a stall: more is a ramp, ms.
const RAMP_MS: f64 = 10.0;
/// Lateness of a send from which the host stood still, ms.
const LATE_MS: f64 = 20.0;
/// The same in ns.
pub(super) const LATE_NS: i64 = 20_000_000;
/// Stalls that a verdict needs.
const FEWEST: usize = 8;
/// Share of the recording that was stalled, at most: more is a duty cycle.
const MOST_STALLED: f64 = 0.3;
/// Periods of schedules, s.
const SCHEDULES: [f64; 4] = [15.0, 30.0, 60.0, 300.0];
/// Most stalls that are kept.
const MOST: usize = 1_000_000;

/// Probe of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Send time, ms.
    pub sent_ms: f64,
    /// Arrival less send time, ms, with any constant of the clocks; none if it was lost.
    pub delay_ms: Option<f64>,
    /// True if this host sent it late.
    pub is_late: bool,
}

/// Probes in a row that were held or lost.
#[derive(Default)]
struct Run {
    /// Send time and delay above the usual one.
    held: Vec<(f64, f64)>,
    lost: u32,
    is_ours: bool,
    has_ramp: bool,
    before_ms: f64,
    spread_ms: f64,
    began_ms: f64,
}

/// Stall that awaits the level after it.
struct Stall {
    began_ms: f64,
    waited_ms: f64,
    before_ms: f64,
    spread_ms: f64,
    after: Vec<f64>,
}

/// Watch of one direction.
#[derive(Default)]
pub(super) struct Stalls {
    usual: VecDeque<f64>,
    /// Their quantiles at 20, 50 and 80 %, and the number of probes since they were taken.
    level: Option<[f64; 3]>,
    since: u32,
    run: Option<Run>,
    pending: Option<Stall>,
    /// Begin and length of each stall, ms.
    stalls: Vec<(f64, f64)>,
    /// Runs of held probes of another shape.
    others: usize,
    /// Stalls of this host, and those with a step of the level.
    ours: usize,
    steps: usize,
    first_ms: Option<f64>,
    last_ms: f64,
    last_late_ms: Option<f64>,
    intervals: Vec<f64>,
    usual_gap_ms: Option<f64>,
    /// Number of probes that arrived.
    pub probes: u64,
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn at(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

impl Stalls {
    /// Takes the next probe, in order of send times.
    pub(super) fn add(&mut self, p: Sent) {
        self.probes += u64::from(p.delay_ms.is_some());
        let first = *self.first_ms.get_or_insert(p.sent_ms);
        let gap_ms = p.sent_ms - self.last_ms;
        if p.sent_ms > first && self.intervals.len() < 4096 {
            self.intervals.push(gap_ms);
            let n = self.intervals.len();
            if n < 8 || n.is_power_of_two() {
                self.usual_gap_ms = at(&sorted(self.intervals.iter().copied()), 0.5);
            }
        }
        // A host that stands still sends nothing, or late.
        let is_longer = |usual| gap_ms > 3.0 * usual + LATE_MS;
        let is_silent = p.sent_ms > first && self.usual_gap_ms.is_some_and(is_longer);
        self.last_ms = p.sent_ms;
        if p.is_late || is_silent {
            self.last_late_ms = Some(p.sent_ms);
            if let Some(run) = &mut self.run {
                run.is_ours = true;
            }
        }
        let Some([low, usual, high]) = self.level else {
            self.good(p.delay_ms);
            return;
        };
        let above = p.delay_ms.map(|d| d - usual);
        if self.usual.len() < FEWEST_BESIDE || above.is_some_and(|a| a <= HELD_MS) {
            self.good(p.delay_ms);
            return;
        }
        if self.run.is_none() {
            self.settle();
            let mut last = self.usual.iter().rev().take(3).map(|d| d - usual);
            self.run = Some(Run {
                is_ours: self.last_late_ms.is_some_and(|t| p.sent_ms - t < 1000.0),
                has_ramp: last.any(|a| a > RAMP_MS + 3.0 * (high - low)),
                before_ms: usual,
                spread_ms: high - low,
                began_ms: p.sent_ms,
                ..Run::default()
            });
        }
        let Some(run) = &mut self.run else { return };
        match above {
            Some(above) => run.held.push((p.sent_ms, above)),
            None => run.lost += 1,
        }
        if p.sent_ms - run.began_ms > LONGEST_MS {
            // A new level, or an outage.
            self.others += usize::from(run.held.len() > 1);
            self.run = None;
            self.usual.clear();
            self.level = None;
        }
    }

    /// Takes a probe with the usual delay, which ends a run.
    fn good(&mut self, delay_ms: Option<f64>) {
        if let Some(run) = self.run.take() {
            self.end(run);
        }
        let Some(d) = delay_ms else { return };
        self.usual.push_back(d);
        if self.usual.len() > USUAL {
            self.usual.pop_front();
        }
        self.since += 1;
        if self.level.is_none() || self.since >= TAKEN || self.usual.len() < USUAL {
            let levels = sorted(self.usual.iter().copied());
            let quantile = |q| at(&levels, q);
            self.level = quantile(0.2)
                .zip(quantile(0.5))
                .zip(quantile(0.8))
                .map(|((low, usual), high)| [low, usual, high]);
            self.since = 0;
        }
        if let Some(stall) = &mut self.pending {
            stall.after.push(d);
            if stall.after.len() == BESIDE {
                self.settle();
            }
        }
    }

    fn end(&mut self, run: Run) {
        if run.held.len() < 2 {
            return;
        }
        if run.is_ours {
            self.ours += 1;
            return;
        }
        let waited = run.held.iter().map(|h| h.1).fold(0.0, f64::max);
        let arrivals = sorted(run.held.iter().map(|h| h.0 + h.1));
        let spread = arrivals[arrivals.len() - 1] - arrivals[0];
        let span = run.held[run.held.len() - 1].0 - run.held[0].0;
        let is_sharp = spread <= TOGETHER_MS + TOGETHER * waited + run.spread_ms
            && span >= SPANNED * waited
            && span > 2.0 * spread
            && !run.has_ramp;
        match is_sharp && waited >= STALL_MS {
            true => {
                self.pending = Some(Stall {
                    began_ms: run.began_ms,
                    waited_ms: waited,
                    before_ms: run.before_ms,
                    spread_ms: run.spread_ms,
                    after: Vec::new(),
                });
            }
            false => self.others += 1,
        }
    }

    /// Judges the stall that awaits the level after it.
    fn settle(&mut self) {
        let Some(stall) = self.pending.take() else {
            return;
        };
        let after = sorted(stall.after.into_iter());
        let Some(level) = at(&after, 0.5).filter(|_| after.len() >= FEWEST_BESIDE) else {
            return;
        };
        if (level - stall.before_ms).abs() > (2.0 * stall.spread_ms).max(2.0) {
            self.steps += 1;
        } else if self.stalls.len() < MOST {
            self.stalls.push((stall.began_ms, stall.waited_ms));
        }
    }

    /// Evaluates the recording; `explained` names a pattern that explains stalls.
    pub(super) fn finish(mut self, name: &str, explained: Option<&str>) -> Pattern {
        self.settle();
        let n = self.stalls.len();
        let interval = at(&sorted(self.intervals.iter().copied()), 0.5);
        let Some(interval) = interval.filter(|_| self.probes >= 1000) else {
            let why = format!("only {} probes came, 1000 are needed", self.probes);
            return pattern(name, Found::CannotTell, why);
        };
        let span_ms = self.last_ms - self.first_ms.unwrap_or(self.last_ms);
        let ours = match self.ours {
            0 => String::new(),
            n => format!("; {n} more are pauses of this host, which sent late"),
        };
        let beside = format!(
            "{} of another shape, {} with a step of the level{ours}",
            self.others, self.steps
        );
        let lengths = sorted(self.stalls.iter().map(|s| s.1 * 1e-3));
        let (Some(shortest), Some(longest)) = (at(&lengths, 0.05), at(&lengths, 0.95)) else {
            let why = format!("no stall held two probes or more; {beside}");
            return self.none(name, interval, why);
        };
        let hourly = n as f64 / (span_ms / 3.6e6).max(1e-9);
        let told = format!(
            "the link delivered nothing for {} to {} s, {} times an hour, and then everything at once ({n} stalls; {beside})",
            base::print::significant(shortest, 2),
            base::print::significant(longest, 2),
            base::print::significant(hourly, 2)
        );
        if let Some(by) = explained {
            return pattern(name, Found::No, format!("{told}: {by} explains it"));
        }
        let stalled: f64 = lengths.iter().sum::<f64>() * 1e3;
        if n < FEWEST || n < self.others + self.steps || stalled > MOST_STALLED * span_ms {
            return self.none(name, interval, told);
        }
        if let Some(period) = self.regular() {
            let why = format!("{told}: regular, {period}, as a timer or a scheduled transfer");
            return pattern(name, Found::No, why);
        }
        let because = format!(
            "{told}, at irregular times: a radio whose path is blocked (a 5G beam, a body before the antenna), a host or modem that \
             stands still, or bursts that fill the queue at once"
        );
        pattern(name, Found::Yes, because)
    }

    /// Verdict without the pattern; probes far apart miss short stalls.
    fn none(&self, name: &str, interval: f64, why: String) -> Pattern {
        match interval <= 110.0 {
            true => pattern(name, Found::No, why),
            false => {
                let why = format!(
                    "{why}; probes leave each {interval:.0} ms, which misses short stalls: probe at 50 ms or less"
                );
                pattern(name, Found::CannotTell, why)
            }
        }
    }

    /// Regularity of the stalls, in words; none if they are irregular.
    fn regular(&self) -> Option<String> {
        let gaps = self.stalls.windows(2).map(|w| (w[1].0 - w[0].0) * 1e-3);
        let m = stats::moments(&gaps.collect::<Vec<f64>>())?;
        if m.sd < 0.3 * m.mean {
            return Some(format!("each {} s", base::print::significant(m.mean, 2)));
        }
        let n = self.stalls.len() as f64;
        // Rayleigh's test: by chance once in 8000.
        let meets = |s: &&f64| {
            let (mut cos, mut sin) = (0.0, 0.0);
            for (began, _) in &self.stalls {
                let (y, x) = (TAU * (began * 1e-3 / **s).fract()).sin_cos();
                (cos, sin) = (cos + x, sin + y);
            }
            (cos * cos + sin * sin) / n > 9.0
        };
        let period = SCHEDULES.iter().find(meets)?;
        Some(format!("at multiples of {period} s"))
    }
}
