//! Patterns of radio and satellite links in long recordings: reconfiguration each 15 s, grids of arrival
//! times, handovers, stalls.
//!
//! - **Reconfiguration.** A constellation of low orbit assigns satellites anew each 15 s. The delay then changes its level.
//!   At each second, the step is the median of the 5 s after it less that of the 5 s before. At one phase of 15 s the step
//!   must exceed those at four other places of the same 15 s in most cases, in each quarter of the minute, up as well as down.
//! - **Grids.** A scheduler sends at multiples of its period, whatever the time of the probe. Arrival times modulo the
//!   period then have one phase, and send times have none (Rayleigh's statistic, in windows of 256 probes). The
//!   longest period that explains the arrivals counts.
//! - **Handovers.** An interruption, and a level of the delay that differs afterwards by more than its spread, up as well
//!   as down.
//! - **Stalls.** Nothing arrives, then everything at once (`stalls.rs`).
//!
//! **Source.** S. Tanveer et al., "Making Sense of Constellations", CoNEXT 2023 (15 s, at seconds 12, 27, 42 and 57); 3GPP TS
//! 38.331 (DRX cycles), TS 38.213 (periods of scheduling); N. I. Fisher, "Statistical Analysis of Circular Data", 1993.
//!
//! **Limits.** Probes at multiples of a grid's period always meet the same phase: then the grid cannot be told.

mod stalls;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stalls::{LATE_NS, Sent, Stalls};
use stats::Figure;
use std::f64::consts::TAU;

/// Passage of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Send time, UNIX ns.
    pub sent_ns: i64,
    /// Round trip without the time at the far end; none if the probe was lost.
    pub rtt_ns: Option<i64>,
    /// Arrival at the far end and departure of the answer, on its clock, if it told them.
    pub far_ns: Option<(i64, i64)>,
    /// Time by which this host sent it later than planned, if known.
    pub late_ns: Option<i64>,
}

/// Verdict about one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    Yes,
    No,
    CannotTell,
}

/// One pattern with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pattern {
    /// Name: `reconfiguration`, `handovers`, and `grid up`, `grid down`, `stalls up` and `stalls down`, or `grid` and `stalls`
    /// if the far end told no times.
    pub name: String,
    /// Verdict.
    pub found: Found,
    /// Period, ms; absent for handovers, stalls and a pattern that was not found.
    pub period_ms: Option<Figure>,
    /// Sentence with the evidence, or with the reason.
    pub because: String,
}

/// Second of the recording.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    at: i64,
    low_ms: f64,
    median_ms: f64,
    high_ms: f64,
    /// Longest run of probes that were lost or far above the second before.
    run: u32,
    probes: u32,
}

/// Watch of the probes of one target, in order of their send times.
#[derive(Default)]
pub struct Patterns {
    seconds: Vec<Second>,
    now: Vec<f64>,
    current: Option<Second>,
    run: u32,
    /// Arrivals at the far end, arrivals here, and round trips without times of the far end.
    grids: [Grids; 3],
    stalls: [Stalls; 3],
}

const NS: i64 = 1_000_000_000;
/// Longest recording: thirty years of seconds are an error of a clock.
const MOST_SECONDS: usize = 100_000_000;
/// Cycle of reconfiguration, and width of the medians beside a step, s.
const CYCLE: usize = 15;
const BESIDE: usize = 5;
/// Places in a cycle, from a step on, that have none.
const ELSEWHERE: [usize; 4] = [5, 7, 8, 10];
/// Cycles that a verdict needs: 20 minutes.
const FEWEST_CYCLES: usize = 80;

impl Patterns {
    /// Takes the next probe.
    pub fn add(&mut self, p: Passage) {
        let at = p.sent_ns.div_euclid(NS);
        if self.current.is_none_or(|c| c.at != at) {
            self.close();
            self.current = Some(Second {
                at,
                ..Second::default()
            });
        }
        let before = self.seconds.last().copied().unwrap_or_default();
        let usual_ms = before.high_ms + 50.0;
        let ms = p.rtt_ns.map(|ns| ns as f64 / 1e6);
        let is_bad = ms.is_none_or(|ms| before.probes > 0 && ms > usual_ms);
        self.run = if is_bad { self.run + 1 } else { 0 };
        if let Some(current) = &mut self.current {
            current.probes += 1;
            current.run = current.run.max(self.run);
        }
        self.now.extend(ms);
        self.watch_stalls(p);
        let [up, down, whole] = &mut self.grids;
        match (p.rtt_ns, p.far_ns) {
            (Some(rtt), Some((far, answered))) => {
                up.add(p.sent_ns, far);
                down.add(
                    answered,
                    p.sent_ns
                        .saturating_add(rtt)
                        .saturating_add(answered.saturating_sub(far)),
                );
            }
            (Some(rtt), None) => whole.add(p.sent_ns, p.sent_ns.saturating_add(rtt)),
            (None, _) => {}
        }
    }

    fn watch_stalls(&mut self, p: Passage) {
        let ms = |ns: i64| ns as f64 / 1e6;
        let is_late = p.late_ns.is_some_and(|ns| ns >= LATE_NS);
        let sent = |at: i64, delay: Option<i64>| Sent {
            sent_ms: ms(at),
            delay_ms: delay.map(ms),
            is_late,
        };
        let [up, down, whole] = &mut self.stalls;
        whole.add(sent(p.sent_ns, p.rtt_ns));
        match (p.rtt_ns, p.far_ns) {
            (Some(rtt), Some((far, answered))) => {
                let there = far.saturating_sub(p.sent_ns);
                up.add(sent(p.sent_ns, Some(there)));
                // The answer leaves when the far end has the probe, which a stall up delays.
                let held = answered.saturating_sub(far);
                let back = rtt
                    .saturating_add(held)
                    .saturating_sub(there.saturating_add(held));
                down.add(sent(answered, Some(back)));
            }
            (None, None) => {
                up.add(sent(p.sent_ns, None));
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        let Some(mut second) = self.current.take() else {
            return;
        };
        self.now.sort_unstable_by(f64::total_cmp);
        if let Some(last) = self.now.len().checked_sub(1) {
            let at = |share: f64| self.now[(share * last as f64).round() as usize];
            (second.low_ms, second.median_ms, second.high_ms) = (at(0.2), at(0.5), at(0.8));
        } else {
            (second.low_ms, second.median_ms) = (f64::NAN, f64::NAN);
            // Without an answer the level before still counts as usual.
            second.high_ms = self.seconds.last().map_or(0.0, |s| s.high_ms);
        }
        self.now.clear();
        let is_next = self.seconds.last().is_none_or(|s| s.at < second.at);
        if is_next && self.seconds.len() < MOST_SECONDS {
            self.seconds.push(second);
        }
    }

    /// Evaluates the recording.
    pub fn finish(mut self) -> Vec<Pattern> {
        self.close();
        let reconfiguration = reconfiguration(&self.seconds);
        let handovers = handovers(&self.seconds, reconfiguration.found == Found::Yes);
        let [up, down, whole] = self.grids;
        let grids = match up.probes > whole.probes {
            true => vec![up.finish("grid up"), down.finish("grid down")],
            false => vec![whole.finish("grid")],
        };
        let others = [&reconfiguration, &handovers].into_iter().chain(&grids);
        let explained = others
            .filter(|p| p.found == Found::Yes)
            .map(|p| p.name.clone())
            .next();
        let by = explained.as_deref();
        let [up, down, whole] = self.stalls;
        let stalls = match 2 * up.probes > whole.probes {
            true => vec![up.finish("stalls up", by), down.finish("stalls down", by)],
            false => vec![whole.finish("stalls", by)],
        };
        [reconfiguration, handovers]
            .into_iter()
            .chain(grids)
            .chain(stalls)
            .collect()
    }
}

fn pattern(name: &str, found: Found, because: String) -> Pattern {
    Pattern {
        name: name.into(),
        found,
        period_ms: None,
        because,
    }
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_unstable_by(f64::total_cmp);
    base::sketch::quantile(all.len() as u64, 0.5, |k| all[k as usize])
}

/// Steps of the level at each second; none beside missing seconds.
fn steps(seconds: &[Second]) -> Vec<(i64, f64)> {
    let mut steps = Vec::new();
    for (i, s) in seconds.iter().enumerate() {
        let Some(window) = i
            .checked_sub(BESIDE)
            .and_then(|from| seconds.get(from..i + BESIDE))
        else {
            continue;
        };
        if window[2 * BESIDE - 1].at - window[0].at != 2 * BESIDE as i64 - 1 {
            continue;
        }
        let level = |part: &[Second]| {
            let known: Vec<f64> = part
                .iter()
                .map(|s| s.median_ms)
                .filter(|m| m.is_finite())
                .collect();
            (known.len() + 1 >= BESIDE).then(|| median(known)).flatten()
        };
        if let (Some(before), Some(after)) = (level(&window[..BESIDE]), level(&window[BESIDE..])) {
            steps.push((s.at, after - before));
        }
    }
    steps
}

/// Counts of the steps at one phase of the cycle, for one quarter of the minute.
#[derive(Clone, Copy, Default)]
struct Wins {
    all: usize,
    won: usize,
    up: usize,
}

fn reconfiguration(seconds: &[Second]) -> Pattern {
    let name = "reconfiguration";
    let steps = steps(seconds);
    let find = |at: i64| {
        steps
            .binary_search_by_key(&at, |s| s.0)
            .ok()
            .map(|i| steps[i].1)
    };
    let mut best: Option<(usize, [Wins; 4])> = None;
    let sum = |wins: &[Wins; 4], of: fn(&Wins) -> usize| wins.iter().map(of).sum::<usize>();
    for phase in 0..CYCLE {
        let mut wins = [Wins::default(); 4];
        for (at, step) in steps
            .iter()
            .filter(|s| s.0.rem_euclid(CYCLE as i64) == phase as i64)
        {
            let others = ELSEWHERE.map(|d| find(at + d as i64));
            if others.iter().any(Option::is_none) {
                continue;
            }
            let w = &mut wins[(at.rem_euclid(60) / CYCLE as i64) as usize];
            w.all += 1;
            if others.iter().flatten().all(|o| step.abs() > o.abs()) {
                w.won += 1;
                w.up += usize::from(*step > 0.0);
            }
        }
        if best
            .as_ref()
            .is_none_or(|b| sum(&wins, |w| w.won) > sum(&b.1, |w| w.won))
        {
            best = Some((phase, wins));
        }
    }
    let Some((phase, wins)) = best.filter(|b| sum(&b.1, |w| w.all) >= FEWEST_CYCLES) else {
        let why = "fewer than 80 whole cycles of 15 s: record at least half an hour";
        return pattern(name, Found::CannotTell, why.into());
    };
    let [all, won] = [sum(&wins, |w| w.all), sum(&wins, |w| w.won)];
    let share = won as f64 / all as f64;
    let steady = |w: &Wins| w.won as f64 >= 0.4 * w.all as f64;
    // Steps of a schedule have one sign in each quarter of the minute.
    let mixed = |w: &Wins| (0.15..=0.85).contains(&(w.up as f64 / w.won.max(1) as f64));
    let told = format!(
        "{won} of {all} steps at seconds {}, {}, {} and {} of the minute exceed those at four other places of their 15 s (20 % would by \
         chance)",
        phase,
        phase + 15,
        phase + 30,
        phase + 45
    );
    if share < 0.5 || !wins.iter().all(|w| steady(w) && mixed(w)) {
        return pattern(name, Found::No, format!("at the best phase {told}"));
    }
    // Over all cycles the phase moved by less than a window beside it.
    let error_ms = 1000.0 * BESIDE as f64 / all as f64;
    Pattern {
        period_ms: Some(Figure::Is {
            value: 15_000.0,
            low: 15_000.0 - error_ms,
            high: 15_000.0 + error_ms,
        }),
        ..pattern(
            name,
            Found::Yes,
            format!("{told}: satellites of a low orbit are assigned anew"),
        )
    }
}

/// Seconds beside an interruption from which the levels are taken.
const LEVEL: usize = 20;
/// Handovers that a verdict needs.
const FEWEST_HANDOVERS: usize = 4;

fn handovers(seconds: &[Second], is_satellite: bool) -> Pattern {
    let name = "handovers";
    if is_satellite {
        let why = "the reconfiguration of the satellites explains interruptions with a step";
        return pattern(name, Found::No, why.into());
    }
    let (mut interruptions, mut up, mut down) = (0, 0, 0);
    let mut next = LEVEL;
    while let Some(window) = seconds.get(next.saturating_sub(LEVEL)..next + LEVEL + 2) {
        let at = next;
        next += 1;
        if seconds[at].run < 2 {
            continue;
        }
        interruptions += 1;
        next += LEVEL / 2;
        let [Some(before), Some(after)] = [&window[..LEVEL - 1], &window[LEVEL + 2..]].map(level)
        else {
            continue;
        };
        let step = after[0] - before[0];
        // A queue that comes or goes changes the spread as well.
        let is_alike = before[2].max(after[2]) <= 2.0 * before[2].min(after[2]) + 0.2;
        if is_alike && step.abs() > (3.0 * before[1].max(after[1])).max(1.0) {
            (up, down) = (up + usize::from(step > 0.0), down + usize::from(step < 0.0));
        }
    }
    let told = format!(
        "{interruptions} interruptions of two probes or more; after {} of them the level differs by more than its spread ({up} up, \
         {down} down)",
        up + down
    );
    let is_found = up + down >= FEWEST_HANDOVERS
        && 4 * up.min(down) >= up + down
        && 6 * (up + down) >= interruptions;
    match is_found {
        true => pattern(
            name,
            Found::Yes,
            format!("{told}: a radio changes its cell, or routes change"),
        ),
        false if seconds.len() < 600 => pattern(
            name,
            Found::CannotTell,
            format!("{told}; record at least ten minutes"),
        ),
        // Cells of about the same delay leave no step.
        false if interruptions >= FEWEST_HANDOVERS => pattern(
            name,
            Found::CannotTell,
            format!("{told}: cells of about the same delay would look like this, too"),
        ),
        false => pattern(name, Found::No, told),
    }
}

/// Level of the delay beside which queues come and go, its spread over seconds, and the spread within a second.
fn level(part: &[Second]) -> Option<[f64; 3]> {
    let sorted = |of: fn(&Second) -> f64| {
        let mut all: Vec<f64> = part.iter().map(of).filter(|m| m.is_finite()).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    };
    let at =
        |all: &[f64], share| base::sketch::quantile(all.len() as u64, share, |k| all[k as usize]);
    let (low, within) = (sorted(|s| s.low_ms), sorted(|s| s.high_ms - s.low_ms));
    let is_known = low.len() >= LEVEL / 2;
    is_known.then(|| {
        Some([
            at(&low, 0.2)?,
            at(&low, 0.3)? - at(&low, 0.1)?,
            at(&within, 0.5)?,
        ])
    })?
}

/// Periods that a radio's scheduler may have, ms: grants, then DRX cycles.
const GRANTS: [f64; 3] = [2.5, 5.0, 10.0];
const DRX: [f64; 16] = [
    20.0, 32.0, 40.0, 60.0, 64.0, 70.0, 80.0, 128.0, 160.0, 256.0, 320.0, 512.0, 640.0, 1024.0,
    1280.0, 2560.0,
];
/// Multiples of a period that must not explain more.
const MULTIPLES: usize = 8;
/// Probes of a window, and windows that are judged.
const WINDOW: usize = 256;
const MOST_WINDOWS: u32 = 2000;
const FEWEST_WINDOWS: u32 = 4;

/// Rayleigh's statistic of one period over windows.
#[derive(Clone, Copy, Debug)]
struct Grid {
    period_ns: f64,
    /// Sums over the windows of the resultant's length, of arrivals and of send times.
    arrivals: f64,
    sends: f64,
}

/// Arrival times of one direction.
#[derive(Default)]
struct Grids {
    window: Vec<(i64, i64)>,
    windows: u32,
    /// Sum of the windows' lengths.
    span_ns: f64,
    grids: Vec<Grid>,
    probes: u64,
}

impl Grids {
    fn add(&mut self, sent_ns: i64, arrival_ns: i64) {
        self.probes += 1;
        if self.windows >= MOST_WINDOWS {
            return;
        }
        self.window.push((sent_ns, arrival_ns));
        if self.window.len() == WINDOW {
            self.judge();
        }
    }

    fn judge(&mut self) {
        if self.grids.is_empty() {
            self.grids = periods()
                .map(|ms| Grid {
                    period_ns: ms * 1e6,
                    arrivals: 0.0,
                    sends: 0.0,
                })
                .collect();
        }
        let (first_sent, first_arrival) = self.window[0];
        self.span_ns += (self.window[WINDOW - 1].0.saturating_sub(first_sent) as f64).max(1.0);
        for grid in &mut self.grids {
            let length = |times: &dyn Fn(&(i64, i64)) -> i64| {
                let (mut cos, mut sin) = (0.0, 0.0);
                for x in &self.window {
                    let (s, c) = (TAU * (times(x) as f64 / grid.period_ns).fract()).sin_cos();
                    (cos, sin) = (cos + c, sin + s);
                }
                f64::hypot(cos, sin) / self.window.len() as f64
            };
            grid.arrivals += length(&|x| x.1.saturating_sub(first_arrival));
            grid.sends += length(&|x| x.0.saturating_sub(first_sent));
        }
        self.windows += 1;
        self.window.clear();
    }

    fn finish(self, name: &str) -> Pattern {
        if self.windows < FEWEST_WINDOWS {
            let why = format!(
                "only {} arrival times are known, {} are needed",
                self.probes,
                WINDOW as u32 * FEWEST_WINDOWS
            );
            return pattern(name, Found::CannotTell, why);
        }
        let mean = |sum: f64| sum / f64::from(self.windows);
        let explains = |g: &&Grid| mean(g.arrivals) >= 0.5 && mean(g.sends) <= 0.25;
        let longest = self
            .grids
            .iter()
            .filter(explains)
            .max_by(|a, b| a.period_ns.total_cmp(&b.period_ns));
        let Some(grid) = longest else {
            let met = |ms: &&f64| {
                let grid = self.grids.iter().find(|g| g.period_ns == **ms * 1e6);
                grid.is_some_and(|g| mean(g.sends) > 0.25)
            };
            let blind: Vec<String> = GRANTS
                .iter()
                .chain(&DRX)
                .filter(met)
                .map(f64::to_string)
                .collect();
            if blind.is_empty() {
                return pattern(
                    name,
                    Found::No,
                    "arrival times have no common phase at any period".into(),
                );
            }
            let why = format!(
                "packets leave at multiples of the periods {} ms and always meet the same phase: probe at an interval such as 101.3 ms; \
                 no other period explains the arrivals",
                blind.join(", ")
            );
            return pattern(name, Found::CannotTell, why);
        };
        let ms = grid.period_ns / 1e6;
        let cause = match ms {
            ms if GRANTS.contains(&ms) => {
                "grants of a scheduler, or a timer of that period at an end"
            }
            ms if DRX.contains(&ms) => "a DRX cycle, or a timer of that period at an end",
            _ => "a period that no radio is known for",
        };
        let because = format!(
            "arrival times have one phase (resultant {:.2}, send times {:.2}, in {} windows of {WINDOW} probes): {cause}",
            mean(grid.arrivals),
            mean(grid.sends),
            self.windows
        );
        // Over a window the phase of a period that is off by this much moves by half a turn.
        let error = 0.5 * ms * ms / (mean(self.span_ns) / 1e6);
        Pattern {
            period_ms: Some(Figure::Is {
                value: ms,
                low: ms - error,
                high: ms + error,
            }),
            ..pattern(name, Found::Yes, because)
        }
    }
}

/// Candidates, ms: the known periods and their multiples, each once.
fn periods() -> impl Iterator<Item = f64> {
    let all = GRANTS
        .iter()
        .chain(&DRX)
        .flat_map(|ms| (1..=MULTIPLES).map(move |k| ms * k as f64));
    let mut all: Vec<f64> = all.collect();
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    all.into_iter()
}
