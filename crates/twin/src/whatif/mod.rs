//! Effect of a cure on the link: every cure is simulated on the twin, under the same load and the same seeds.
//!
//! **Method.** Senders are run again under each cure and react to it; nothing is replayed. The load fills both directions,
//! while the probes are the packets of a call or a game, and a page of 250 kB is fetched beside it. Cures are compared seed
//! by seed, so that chance that all share cancels. Where the best fit has ties, the seeds are shared among them: a ranking
//! that depends on the tie becomes an interval.
//!
//! **Source.** ITU-T G.107, the E-model, with the equipment factors of G.113 for G.711 with loss concealment (calls);
//! RFC 3393 (variation of delay); B. Spang et al., "Unbiased experiments in congested networks", IMC 2021: the whole link
//! is switched, never some of its flows.

pub mod cure;
mod figures;
mod run;

pub use cure::{Cure, CureError, Home};
pub use figures::Figures;
pub use run::Scene;

use crate::TwinError;
use crate::answer::Doubt;
use crate::fit::Means;
use base::record::Direction;
use base::{BitsPerSec, Duration};
use link::RateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::batch::in_parallel;
use sim::bufferbloat::Cross;
use stats::Figure;
use std::sync::atomic::Ordering;

/// Use of the link that ranks the cures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    Calls,
    Gaming,
    Web,
    Bulk,
    /// Mean rank of the four.
    All,
}

impl Goal {
    /// All goals.
    pub const ALL: [Goal; 5] = [Goal::Calls, Goal::Gaming, Goal::Web, Goal::Bulk, Goal::All];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Calls => "calls",
            Goal::Gaming => "gaming",
            Goal::Web => "web",
            Goal::Bulk => "bulk",
            Goal::All => "all",
        }
    }
}

/// Load under which cures are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Filled {
    /// Uploads that fill the uplink.
    Up,
    /// Downloads that fill the downlink.
    Down,
    /// Both.
    Both,
    /// Household in the evening: a download, a backup, two video streams, and a video call.
    Evening,
    /// Working day: a video call with a shared screen, and a synchronised folder.
    Work,
}

/// Cross traffic of a profile: direction, share of the link's rate, most Mbit/s, mean length of a burst and of the silence
/// after it in s. Streams fetch chunks; calls send all the time.
type Stream = (Direction, f64, f64, f64, f64);

/// Streams of an evening: two of 4K video (25 Mbit/s in bursts), and a video call.
const EVENING: &[Stream] = &[
    (Direction::Down, 0.4, 50.0, 1.5, 4.0),
    (Direction::Down, 0.4, 50.0, 1.5, 4.0),
    (Direction::Down, 0.15, 2.5, 1.0, 0.0),
    (Direction::Up, 0.25, 2.5, 1.0, 0.0),
];
/// Streams of a working day: a video call, and its shared screen.
const WORK: &[Stream] = &[
    (Direction::Down, 0.2, 4.0, 1.0, 0.0),
    (Direction::Up, 0.3, 4.0, 1.0, 0.0),
    (Direction::Up, 0.2, 6.0, 0.5, 2.0),
];

impl Filled {
    /// All loads.
    pub const ALL: [Filled; 5] = [
        Filled::Up,
        Filled::Down,
        Filled::Both,
        Filled::Evening,
        Filled::Work,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Filled::Evening => "evening",
            Filled::Work => "work",
            filled => filled.phase(),
        }
    }

    /// Phase of a test with the same flows.
    pub fn phase(self) -> &'static str {
        match self {
            Filled::Up | Filled::Work => "up",
            Filled::Down => "down",
            Filled::Both | Filled::Evening => "both",
        }
    }

    /// Flows of bulk transfers, up and down, on a link of these rates, bit/s.
    fn flows(self, rates: [f64; 2]) -> [u32; 2] {
        let full = |i: usize| if rates[i] < 10e6 { 2 } else { 4 };
        match self {
            Filled::Up => [full(0), 0],
            Filled::Down => [0, full(1)],
            Filled::Both => [full(0), full(1)],
            Filled::Evening => [1, 1],
            Filled::Work => [1, 0],
        }
    }

    /// Traffic beside the bulk transfers on a link of these rates, bit/s.
    fn cross(self, rates: [f64; 2]) -> Vec<Cross> {
        let streams = match self {
            Filled::Evening => EVENING,
            Filled::Work => WORK,
            _ => &[],
        };
        let cross = |(direction, share, most_mbps, on_s, off_s): &Stream| Cross {
            direction: *direction,
            rate: BitsPerSec::new((rates[*direction as usize] * share).min(most_mbps * 1e6) as u64),
            on: Duration::from_secs_f64(*on_s),
            off: Duration::from_secs_f64(*off_s),
            here: true,
        };
        streams.iter().map(cross).collect()
    }
}

/// Question to a twin.
pub struct Question {
    /// Twins that explain the recording alike, the best first.
    pub homes: Vec<Home>,
    /// Cures to try; the first one is the reference.
    pub cures: Vec<Cure>,
    /// Use that ranks them.
    pub goal: Goal,
    /// Directions that are filled.
    pub load: Filled,
    /// Seeds of each cure.
    pub seeds: u64,
    /// Errors of the twin's delays on the load that it was not fitted to; none for a known link.
    pub doubt: Doubt,
}

impl Question {
    /// True if the rate of a twin moves.
    fn moves(&self) -> bool {
        let sides = self.homes.iter().flat_map(|h| [&h.link.up, &h.link.down]);
        sides
            .into_iter()
            .any(|s| !matches!(s.rate, RateSpec::Fixed(_)))
    }
}

/// Cure with its figures and place.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tried {
    /// Cure as written.
    pub cure: String,
    /// Place, from 1; cures that the simulation cannot tell apart share one.
    pub place: usize,
    /// 95 % point of the delay that the load adds to the round trip, ms.
    pub added_p95_ms: Figure,
    /// 99 % point of it, ms.
    pub added_p99_ms: Figure,
    /// Quality of a call by the E-model, 0 to 100.
    pub call: Figure,
    /// Time to fetch a page of 250 kB, s.
    pub page_s: Figure,
    /// Goodput of the uplink, bit/s.
    pub up_bps: Figure,
    /// Goodput of the downlink, bit/s.
    pub down_bps: Figure,
    /// Goodput gained against the reference, as a share, the mean of the filled directions.
    pub goodput_gained: Figure,
    /// Figure that ranks, higher is better.
    pub score: Figure,
    /// True if no other cure has both less delay and more goodput.
    pub pareto: bool,
    /// True if the simulation cannot tell it from the best.
    pub as_good_as_best: bool,
}

/// Answer of a twin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatIf {
    /// Use that ranks.
    pub goal: Goal,
    /// Load.
    pub load: Filled,
    /// Seeds of each cure.
    pub seeds: u64,
    /// Simulated time of each run, s.
    pub simulated_s: f64,
    /// Twins among which the seeds are shared.
    pub twins: usize,
    /// True if a rate moves. The seeds start at other times of it, and intervals are those of a single run: they hold what
    /// the capacity of another time makes of a cure. Otherwise they are those of the mean over seeds.
    pub moves: bool,
    /// Cures, the best first.
    pub tried: Vec<Tried>,
}

/// Tries all cures.
///
/// # Errors
/// A cure that does not fit the link; the user stopped.
pub fn ask(question: &Question, means: &Means) -> Result<WhatIf, TwinError> {
    let scene = Scene::of(&question.homes[0].link, question.load);
    let mut cured = Vec::new();
    for cure in &question.cures {
        let each = question.homes.iter().map(|home| cure.apply(home));
        cured.push(each.collect::<Result<Vec<_>, _>>()?);
    }
    let jobs: Vec<(usize, u64)> = (0..question.cures.len())
        .flat_map(|c| (0..question.seeds).map(move |s| (c, s)))
        .collect();
    let done = std::sync::atomic::AtomicU64::new(0);
    let results = in_parallel(&jobs, means.threads, &|_, (cure, seed)| {
        if means.stop.load(Ordering::Relaxed) {
            return Err(TwinError::Stopped);
        }
        let homes = &cured[*cure];
        let home = &homes[*seed as usize % homes.len()];
        let figures = scene.figures(home, means.seed + seed)?;
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        (means.progress)(count as f64 / jobs.len() as f64);
        Ok(figures)
    });
    let all: Vec<Figures> = results.into_iter().collect::<Result<_, _>>()?;
    let by_cure: Vec<&[Figures]> = all.chunks(question.seeds as usize).collect();
    Ok(WhatIf {
        goal: question.goal,
        load: question.load,
        seeds: question.seeds,
        simulated_s: scene.seconds(),
        twins: question.homes.len(),
        moves: question.moves(),
        tried: rank(question, &by_cure),
    })
}

/// Ranks cures by the mean of their scores; those that paired differences do not tell apart share a place.
fn rank(question: &Question, by_cure: &[&[Figures]]) -> Vec<Tried> {
    let reference = by_cure[0];
    let scores: Vec<Vec<f64>> = by_cure
        .iter()
        .enumerate()
        .map(|(c, _)| {
            (0..question.seeds as usize)
                .map(|s| score(question.goal, by_cure, c, s))
                .collect()
        })
        .collect();
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let mut order: Vec<usize> = (0..by_cure.len()).collect();
    order.sort_by(|a, b| mean(&scores[*b]).total_cmp(&mean(&scores[*a])));
    let best = order[0];
    let goods: Vec<(f64, f64)> = by_cure
        .iter()
        .map(|runs| {
            let delay: Vec<f64> = runs.iter().map(|f| f.added_p95_ms).collect();
            let carried: Vec<f64> = runs
                .iter()
                .zip(reference)
                .map(|(f, r)| f.share_of(r))
                .collect();
            (mean(&delay), mean(&carried))
        })
        .collect();
    let (mut place, mut head) = (1, best);
    let mut tried = Vec::new();
    for (at, &c) in order.iter().enumerate() {
        if at > 0 && !alike(&scores[head], &scores[c]) {
            (place, head) = (at + 1, c);
        }
        let over = |values: &[f64]| over_twins(values, question.homes.len(), question.moves());
        let of = |f: &dyn Fn(&Figures) -> f64| {
            let values: Vec<f64> = by_cure[c].iter().map(f).collect();
            over(&values)
        };
        let gained: Vec<f64> = by_cure[c]
            .iter()
            .zip(reference)
            .map(|(f, r)| f.share_of(r) - 1.0)
            .collect();
        let dominated = goods.iter().enumerate().any(|(o, g)| {
            o != c
                && g.0 <= goods[c].0
                && g.1 >= goods[c].1
                && (g.0 < goods[c].0 || g.1 > goods[c].1)
        });
        tried.push(Tried {
            cure: question.cures[c].text.clone(),
            place,
            added_p95_ms: doubted(of(&|f| f.added_p95_ms), &question.doubt),
            added_p99_ms: doubted(of(&|f| f.added_p99_ms), &question.doubt),
            call: of(&|f| f.call),
            page_s: of(&|f| f.page_s),
            up_bps: of(&|f| f.up_bps),
            down_bps: of(&|f| f.down_bps),
            goodput_gained: over(&gained),
            score: figure(&scores[c], question.moves()),
            pareto: !dominated,
            as_good_as_best: alike(&scores[best], &scores[c]),
        });
    }
    tried
}

/// Score of a cure in one seed; higher is better.
fn score(goal: Goal, by_cure: &[&[Figures]], cure: usize, seed: usize) -> f64 {
    let of = |goal: Goal, c: usize| {
        let f = &by_cure[c][seed];
        match goal {
            Goal::Calls => f.call,
            Goal::Gaming => -f.added_p99_ms,
            Goal::Web => -f.page_s,
            Goal::Bulk | Goal::All => 100.0 * f.share_of(&by_cure[0][seed]),
        }
    };
    if goal != Goal::All {
        return of(goal, cure);
    }
    // Mean number of cures that it beats.
    let uses = [Goal::Calls, Goal::Gaming, Goal::Web, Goal::Bulk];
    let beaten = |use_of: Goal| {
        let own = of(use_of, cure);
        (0..by_cure.len())
            .map(|c| match own.total_cmp(&of(use_of, c)) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })
            .sum::<f64>()
    };
    uses.into_iter().map(beaten).sum::<f64>() / uses.len() as f64
}

/// True if paired differences do not tell two series apart, at 95 %.
fn alike(a: &[f64], b: &[f64]) -> bool {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let Some(m) = stats::moments(&differences).filter(|m| m.n >= 3) else {
        return true;
    };
    let half = stats::student_t95(m.n as f64 - 1.0) * m.sd / (m.n as f64).sqrt();
    m.mean.abs() <= half
}

/// Mean over seeds that several twins share in turn, with an interval that holds the mean of each of them: any may be the
/// link.
fn over_twins(values: &[f64], twins: usize, of_one: bool) -> Figure {
    let all = figure(values, of_one);
    let Figure::Is {
        value,
        mut low,
        mut high,
    } = all
    else {
        return all;
    };
    if twins > 1 {
        for twin in 0..twins {
            let own: Vec<f64> = values.iter().skip(twin).step_by(twins).copied().collect();
            if let Some(m) = stats::moments(&own) {
                low = low.min(m.mean);
                high = high.max(m.mean);
            }
        }
    }
    Figure::Is { value, low, high }
}

/// Mean of independent runs, with Student's interval of that mean, or of one more run.
fn figure(values: &[f64], of_one: bool) -> Figure {
    let Some(m) = stats::moments(values).filter(|m| m.n == values.len()) else {
        return Figure::cannot_tell("not all runs of this cure show it");
    };
    if m.n < 3 {
        return Figure::cannot_tell(format!("{} runs: three are needed for an interval", m.n));
    }
    let n = m.n as f64;
    let share = if of_one { 1.0 + 1.0 / n } else { 1.0 / n };
    let half = stats::student_t95(n - 1.0) * m.sd * share.sqrt();
    Figure::Is {
        value: m.mean,
        low: m.mean - half,
        high: m.mean + half,
    }
}

/// Figure whose interval also holds the error of the twin.
fn doubted(figure: Figure, doubt: &Doubt) -> Figure {
    match figure {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: (value - (value - low).hypot(doubt.of(value))).max(0.0),
            high: value + (high - value).hypot(doubt.of(value)),
        },
        unknown => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::LinkSpec;

    #[test]
    fn the_interval_holds_the_mean_of_every_twin_that_may_be_the_link() {
        let shared: Vec<f64> = (0..30).map(|i| [10.0, 10.2, 40.0][i % 3]).collect();
        let Figure::Is { low, high, .. } = over_twins(&shared, 3, false) else {
            panic!("thirty runs have an interval")
        };
        assert!(low <= 10.0 && high >= 40.0, "{low} {high}");
        let Figure::Is { low, high, .. } = over_twins(&shared, 1, false) else {
            panic!("thirty runs have an interval")
        };
        assert!(low > 14.0 && high < 26.0, "{low} {high}");
    }

    #[test]
    fn runs_of_a_rate_that_moves_meet_all_of_it() {
        let mut link = LinkSpec::named("adsl").unwrap();
        let step = |at_s: u64, mbps: u64| link::Step {
            at: Duration::from_secs(at_s),
            rate: BitsPerSec::new(mbps * 1_000_000),
        };
        link.up.rate = RateSpec::Steps {
            steps: vec![step(0, 2), step(30, 10)],
            repeat: Some(Duration::from_secs(60)),
        };
        let home = Home {
            link,
            router: None,
            controller: std::sync::Arc::new("cubic".parse().unwrap()),
            ecn: false,
            burst: 1,
        };
        let question = Question {
            homes: vec![home],
            cures: vec![Cure::none()],
            goal: Goal::Bulk,
            load: Filled::Up,
            seeds: 8,
            doubt: Doubt::default(),
        };
        let means = Means {
            threads: 2,
            seed: 1,
            stop: &Default::default(),
            progress: &|_| (),
        };
        let found = ask(&question, &means).unwrap();
        assert!(found.moves);
        let Figure::Is { low, high, .. } = found.tried[0].up_bps else {
            panic!("eight runs have an interval")
        };
        assert!(low < 2e6 && high > 9e6, "{low} {high}");
    }

    #[test]
    fn the_interval_of_a_run_holds_most_runs_and_that_of_the_mean_is_narrower() {
        let runs: Vec<f64> = (0..40).map(|i| f64::from(i % 10)).collect();
        let [mean, one] = [false, true].map(|of_one| match figure(&runs, of_one) {
            Figure::Is { low, high, .. } => (low, high),
            Figure::CannotTell { .. } => panic!("forty runs have an interval"),
        });
        assert!(one.0 < 0.0 && one.1 > 9.0, "{one:?}");
        assert!(mean.0 > 3.0 && mean.1 < 6.0, "{mean:?}");
    }
}
