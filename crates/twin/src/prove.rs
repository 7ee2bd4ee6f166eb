//! Proof of a cure: blocks with and without it, in random order, and a test of their differences.
//!
//! **Method.** Blocks come in pairs, one with the cure and one without, in an order drawn at random. Each starts with a
//! wash-out that does not count. The paired differences are tested by flipping their signs: without an effect, each sign is
//! as likely as the other. The number of pairs is fixed in advance; a pilot without the cure tells the difference that they
//! can show with 80 % power.
//!
//! **Source.** B. Spang et al., "Unbiased experiments in congested networks", IMC 2021 (switch the whole link); R. A. Fisher,
//! *The Design of Experiments*, 1935, section 21 (permutation of signs); n = 2 + 7.84 σ²/δ² pairs for 80 % power at 5 %.

use crate::TwinError;
use crate::fit::Means;
use crate::whatif::cure::Home;
use crate::whatif::{Figures, Filled, Scene};
use base::Duration;
use base::rng::{Rng, Streams, uniform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::batch::in_parallel;
use stats::Figure;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fewest pairs: with six, the least possible p is 0.031.
pub const FEWEST_PAIRS: u64 = 6;
/// Level of significance.
pub const LEVEL: f64 = 0.05;
/// Pairs of the pilot.
const PILOT: u64 = 6;
/// Most pairs whose signs are all flipped; more are flipped at random.
const EXACT: usize = 16;
/// Random flips.
const FLIPS: u64 = 20_000;
/// Square of the sum of the normal quantiles of 97.5 % and 80 %.
const POWER: f64 = 7.84;

/// Figure that a cure is to improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// 95 % point of the added delay, ms: less is better.
    Delay,
    /// Quality of a call: more is better.
    Call,
    /// Time to fetch a page, s: less is better.
    Page,
    /// Goodput as a share of the mean without the cure: more is better.
    Goodput,
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 4] = [
        Measure::Delay,
        Measure::Call,
        Measure::Page,
        Measure::Goodput,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Delay => "delay",
            Measure::Call => "call",
            Measure::Page => "page",
            Measure::Goodput => "goodput",
        }
    }

    /// Value of a block, signed so that more is better.
    pub fn of(self, f: &Figures, reference: &Figures) -> f64 {
        match self {
            Measure::Delay => -f.added_p95_ms,
            Measure::Call => f.call,
            Measure::Page => -f.page_s,
            Measure::Goodput => 100.0 * f.share_of(reference),
        }
    }
}

/// Block of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Block {
    /// Number of its pair, from 0.
    pub pair: u64,
    /// True if the cure was on.
    pub on: bool,
    /// Value, signed so that more is better.
    pub value: f64,
}

/// Verdict of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Helps,
    Harms,
    NoDifferenceShown,
}

/// Outcome of a proof.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Proof {
    /// Figure that was tested.
    pub measure: Measure,
    /// Pairs of blocks, fixed in advance.
    pub pairs: u64,
    /// Difference that so many pairs show with 80 % power, in the unit of the figure; null if no pilot was run.
    pub detectable: Option<f64>,
    /// Blocks in the order in which they ran.
    pub blocks: Vec<Block>,
    /// Mean paired difference, on less off: more is better.
    pub difference: Figure,
    /// Mean without the cure.
    pub off: f64,
    /// Mean with the cure.
    pub on: f64,
    /// Probability of such a difference without an effect.
    pub p: f64,
    /// Verdict.
    pub verdict: Verdict,
}

/// Order of the blocks: for each pair, true if the cure comes first.
pub fn order(pairs: u64, seed: u64) -> Vec<bool> {
    let mut rng = Streams::new(seed).stream("prove/order");
    (0..pairs).map(|_| uniform(&mut rng) < 0.5).collect()
}

/// Difference that so many pairs show with 80 % power, from differences of a pilot.
pub fn detectable(pilot: &[f64], pairs: u64) -> Option<f64> {
    let sd = stats::moments(pilot).filter(|m| m.n >= 3)?.sd;
    let beyond = pairs.checked_sub(2).filter(|n| *n > 0)?;
    Some(sd * (POWER / beyond as f64).sqrt())
}

/// Pairs that show a difference with 80 % power, from differences of a pilot.
pub fn pairs_for(pilot: &[f64], difference: f64) -> Option<u64> {
    let sd = stats::moments(pilot).filter(|m| m.n >= 3)?.sd;
    let needed = 2.0 + POWER * (sd / difference).powi(2);
    needed
        .is_finite()
        .then(|| (needed.ceil() as u64).max(FEWEST_PAIRS))
}

/// Decides on blocks that ran.
pub fn decide(measure: Measure, blocks: Vec<Block>, detectable: Option<f64>, seed: u64) -> Proof {
    let pairs = blocks.iter().map(|b| b.pair + 1).max().unwrap_or(0);
    let value = |pair: u64, on: bool| {
        let found = blocks.iter().find(|b| b.pair == pair && b.on == on);
        found.map(|b| b.value)
    };
    let both: Vec<(f64, f64)> = (0..pairs)
        .filter_map(|p| Some((value(p, false)?, value(p, true)?)))
        .collect();
    let differences: Vec<f64> = both.iter().map(|(off, on)| on - off).collect();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
        both.iter().map(of).sum::<f64>() / both.len().max(1) as f64
    };
    let p = sign_flips(&differences, &mut Streams::new(seed).stream("prove/flips"));
    let centre = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
    let verdict = match p <= LEVEL {
        false => Verdict::NoDifferenceShown,
        true if centre > 0.0 => Verdict::Helps,
        true => Verdict::Harms,
    };
    Proof {
        measure,
        pairs,
        detectable,
        difference: interval(&differences),
        off: mean(&|b| b.0),
        on: mean(&|b| b.1),
        p,
        verdict,
        blocks,
    }
}

fn interval(differences: &[f64]) -> Figure {
    let Some(m) = stats::moments(differences).filter(|m| m.n >= 3) else {
        return Figure::cannot_tell("fewer than three pairs of blocks");
    };
    let half = stats::student_t95(m.n as f64 - 1.0) * m.sd / (m.n as f64).sqrt();
    Figure::Is {
        value: m.mean,
        low: m.mean - half,
        high: m.mean + half,
    }
}

/// Share of all flips of signs whose mean is as far from zero.
fn sign_flips(differences: &[f64], rng: &mut Rng) -> f64 {
    let n = differences.len();
    if n == 0 || differences.iter().any(|d| !d.is_finite()) {
        return 1.0;
    }
    let seen = differences.iter().sum::<f64>().abs();
    // Sums of floating-point numbers in another order have noise.
    let least = seen * (1.0 - 1e-9);
    if n <= EXACT {
        let all = 1u64 << n;
        let far = (0..all).filter(|signs| {
            let flipped = |i: usize| match signs >> i & 1 {
                0 => differences[i],
                _ => -differences[i],
            };
            (0..n).map(flipped).sum::<f64>().abs() >= least
        });
        return far.count() as f64 / all as f64;
    }
    let mut far = 1;
    for _ in 0..FLIPS {
        let sum: f64 = differences
            .iter()
            .map(|d| if uniform(rng) < 0.5 { *d } else { -d })
            .sum();
        far += u64::from(sum.abs() >= least);
    }
    far as f64 / (FLIPS + 1) as f64
}

/// Trial in virtual time.
pub struct Trial {
    /// Home without the cure.
    pub off: Home,
    /// Home with it.
    pub on: Home,
    /// Figure that it is to improve.
    pub measure: Measure,
    /// Directions that bulk transfers fill.
    pub load: Filled,
    /// Pairs of blocks.
    pub pairs: u64,
    /// Length of the counted part of a block; by default what the link's rate allows.
    pub block: Option<Duration>,
}

/// Runs a pilot without the cure: paired differences of blocks that differ by chance alone.
///
/// # Errors
/// The user stopped.
pub fn pilot(trial: &Trial, means: &Means) -> Result<Vec<f64>, TwinError> {
    let aa = Trial {
        on: trial.off.clone(),
        off: trial.off.clone(),
        measure: trial.measure,
        load: trial.load,
        pairs: PILOT,
        block: trial.block,
    };
    let proof = run(&aa, None, means, "pilot")?;
    let value = |pair, on| {
        let block = proof.blocks.iter().find(|b| b.pair == pair && b.on == on);
        block.map_or(0.0, |b| b.value)
    };
    Ok((0..PILOT)
        .map(|p| value(p, true) - value(p, false))
        .collect())
}

/// Carries a trial out in virtual time. Each block is a run of its own, from rest, with a warm-up that does not count.
///
/// # Errors
/// The user stopped.
pub fn prove(trial: &Trial, means: &Means) -> Result<Proof, TwinError> {
    let pilot = pilot(trial, means)?;
    carry_out(trial, detectable(&pilot, trial.pairs), means)
}

/// The same without a pilot; `detectable` is the difference that the trial can show, if known.
///
/// # Errors
/// The user stopped.
pub fn carry_out(
    trial: &Trial,
    detectable: Option<f64>,
    means: &Means,
) -> Result<Proof, TwinError> {
    run(trial, detectable, means, "trial")
}

fn run(
    trial: &Trial,
    detectable: Option<f64>,
    means: &Means,
    name: &str,
) -> Result<Proof, TwinError> {
    let scene = Scene::of(&trial.off.link, trial.load);
    let scene = match trial.block {
        Some(block) => scene.lasting(block),
        None => scene,
    };
    let first = order(trial.pairs, means.seed);
    let plan: Vec<(u64, bool, u64)> = first
        .iter()
        .enumerate()
        .flat_map(|(pair, first)| {
            let pair = pair as u64;
            [(pair, *first, 2 * pair), (pair, !first, 2 * pair + 1)]
        })
        .collect();
    let mut seeds = Streams::new(means.seed).stream(&format!("prove/{name}"));
    let base = (uniform(&mut seeds) * 1e9) as u64;
    let done = AtomicU64::new(0);
    let results = in_parallel(&plan, means.threads, &|_, (_, on, at)| {
        if means.stop.load(Ordering::Relaxed) {
            return Err(TwinError::Stopped);
        }
        let home = if *on { &trial.on } else { &trial.off };
        let figures = scene.figures(home, base + at)?;
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        (means.progress)(count as f64 / plan.len() as f64);
        Ok(figures)
    });
    let all: Vec<Figures> = results.into_iter().collect::<Result<_, _>>()?;
    let off: Vec<&Figures> = plan
        .iter()
        .zip(&all)
        .filter(|(p, _)| !p.1)
        .map(|(_, f)| f)
        .collect();
    let reference = Figures::mean(&off);
    let blocks = plan.iter().zip(&all).map(|((pair, on, _), f)| Block {
        pair: *pair,
        on: *on,
        value: trial.measure.of(f, &reference),
    });
    Ok(decide(
        trial.measure,
        blocks.collect(),
        detectable,
        means.seed,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pairs: &[(f64, f64)]) -> Vec<Block> {
        let each = pairs.iter().enumerate().flat_map(|(i, (off, on))| {
            [(false, *off), (true, *on)].map(|(on, value)| Block {
                pair: i as u64,
                on,
                value,
            })
        });
        each.collect()
    }

    #[test]
    fn all_signs_alike_in_six_pairs_are_significant_and_five_are_not() {
        let same: Vec<(f64, f64)> = (0..6).map(|i| (0.0, 1.0 + f64::from(i))).collect();
        let proof = decide(Measure::Call, blocks(&same), None, 1);
        assert_eq!(proof.p, 2.0 / 64.0);
        assert_eq!(proof.verdict, Verdict::Helps);
        let worse: Vec<(f64, f64)> = same.iter().map(|(a, b)| (*b, *a)).collect();
        assert_eq!(
            decide(Measure::Call, blocks(&worse), None, 1).verdict,
            Verdict::Harms
        );
        let few = decide(Measure::Call, blocks(&same[..5]), None, 1);
        assert_eq!(few.p, 2.0 / 32.0);
        assert_eq!(few.verdict, Verdict::NoDifferenceShown);
    }

    #[test]
    fn without_an_effect_five_in_a_hundred_are_called_significant() {
        let mut rng = Streams::new(11).stream("aa");
        for pairs in [8usize, 20] {
            let found = (0..1000u64).filter(|i| {
                let drawn: Vec<(f64, f64)> = (0..pairs)
                    .map(|_| (uniform(&mut rng).powi(3), uniform(&mut rng).powi(3)))
                    .collect();
                decide(Measure::Call, blocks(&drawn), None, *i).verdict
                    != Verdict::NoDifferenceShown
            });
            // 5 % of 1000 is 50; three standard deviations are 21.
            let found = found.count();
            assert!(found <= 71, "{pairs}: {found}");
        }
    }

    #[test]
    fn power_and_pairs_are_two_sides_of_one_formula() {
        let pilot = [1.0, -1.0, 2.0, -2.0, 0.5, -0.5];
        let delta = detectable(&pilot, 12).unwrap();
        assert_eq!(pairs_for(&pilot, delta * 1.0001), Some(12));
        assert_eq!(detectable(&pilot, 2), None);
        assert_eq!(pairs_for(&pilot, 0.0), None);
    }
}
