//! Agreement of cures tried on the twin with the same cures on the true link; proofs without an effect.

use super::{Args, FIXED, drawn, record, with_means};
use crate::draws::family::Draw;
use stats::Figure;
use std::sync::Arc;
use twin::Twin;
use twin::prove::{Measure, Trial, Verdict, carry_out};
use twin::whatif::{Filled, Goal, Home, Question, WhatIf, ask, cure};

/// Links whose cures are compared.
const LINKS: usize = 12;
/// Seeds of a cure.
const SEEDS: u64 = 20;

/// Agreement of rankings.
#[derive(Default)]
pub struct Cures {
    /// Kendall's τ of the delay under each cure, a value for each link.
    pub taus: Vec<f64>,
    /// Intervals of the twin's 95 % point, and those that hold the truth.
    pub intervals: u64,
    pub held: u64,
    /// Relative errors of the delay under each cure.
    pub errors: Vec<f64>,
    /// Links on which the best cure of the twin is as good as the best of the link.
    pub best_right: u64,
    /// Processor time of the slowest answer: 15 cures, 30 seeds.
    pub took_s: f64,
}

fn home(link: &link::LinkSpec, burst: u64) -> Home {
    Home {
        link: link.clone(),
        router: None,
        controller: Arc::new("cubic".parse().expect("cubic is in the table")),
        ecn: false,
        burst,
    }
}

/// Compares rankings on twins and links of these families.
pub fn agreement(args: &Args, families: &[&str]) -> anyhow::Result<Cures> {
    let mut all = Cures::default();
    for draw in drawn(args, families)?.into_iter().take(LINKS) {
        let rec = record(&draw, None)?;
        let found = with_means(args, draw.number, |m| twin::fit(&rec, m));
        // The command refuses the others, too.
        let Some(twin) = found.ok().filter(twin::usable) else {
            continue;
        };
        let cures = cure::usual(&home(&draw.link, 1));
        let question = |homes: Vec<Home>, seeds, doubt: twin::Doubt| Question {
            doubt,
            homes,
            cures: cures.clone(),
            goal: Goal::Gaming,
            load: Filled::Both,
            seeds,
        };
        let of_twin = question(
            twin.alike(4).iter().map(|l| home(l, twin.burst)).collect(),
            SEEDS,
            twin.doubt(),
        );
        let began = super::processor_s();
        let from_twin = with_means(args, 1, |m| ask(&of_twin, m))?;
        let took_s = super::processor_s() - began;
        all.took_s = all.took_s.max(took_s * 30.0 / SEEDS as f64);
        let of_link = question(
            vec![home(&draw.link, draw.burst)],
            SEEDS,
            twin::Doubt::default(),
        );
        let truth = with_means(args, 5_000, |m| ask(&of_link, m))?;
        if args.verbose {
            tell(&draw, &twin, &from_twin, &truth);
        }
        all.add(&from_twin, &truth);
    }
    Ok(all)
}

impl Cures {
    fn add(&mut self, twin: &WhatIf, truth: &WhatIf) {
        let mut pairs = Vec::new();
        for t in &truth.tried {
            let Some(same) = twin.tried.iter().find(|o| o.cure == t.cure) else {
                continue;
            };
            if let (Some(real), Figure::Is { value, low, high }) =
                (t.added_p95_ms.value(), &same.added_p95_ms)
            {
                pairs.push((real, *value));
                self.intervals += 1;
                // The truth is a mean of as many seeds, with an error of its own.
                let own = match &t.added_p95_ms {
                    // Where the rate moves, the interval is that of a single run.
                    Figure::Is { low, high, .. } if truth.moves => {
                        (high - low) / 2.0 / (truth.seeds as f64 + 1.0).sqrt()
                    }
                    Figure::Is { low, high, .. } => (high - low) / 2.0,
                    Figure::CannotTell { .. } => 0.0,
                };
                let range = value - (value - low).hypot(own)..=value + (high - value).hypot(own);
                self.held += u64::from(range.contains(&real));
                self.errors.push((value / real.max(1.0) - 1.0).abs());
            }
        }
        self.taus.extend(tau(&pairs));
        let best = twin.tried.first().map(|t| &t.cure);
        let right = truth
            .tried
            .iter()
            .any(|t| Some(&t.cure) == best && (t.as_good_as_best || t.place == 1));
        self.best_right += u64::from(right);
    }
}

/// Prints the delay under each cure on twin and link.
fn tell(draw: &Draw, twin: &Twin, from_twin: &WhatIf, truth: &WhatIf) {
    eprintln!(
        "draw {}: {}; {:?}, {:.2?}",
        draw.number,
        crate::draws::results::describe(draw),
        twin.trust,
        twin.doubt()
    );
    for t in &truth.tried {
        let same = from_twin.tried.iter().find(|o| o.cure == t.cure);
        eprintln!(
            "  {}: link {:.1?}, twin {:.1?} ms",
            t.cure,
            t.added_p95_ms,
            same.map(|s| &s.added_p95_ms)
        );
    }
}

/// Kendall's τ of pairs.
fn tau(pairs: &[(f64, f64)]) -> Option<f64> {
    let mut sum = 0.0;
    let mut count = 0.0;
    for (i, a) in pairs.iter().enumerate() {
        for b in &pairs[i + 1..] {
            sum += ((a.0 - b.0) * (a.1 - b.1)).signum();
            count += 1.0;
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// Proofs of a cure that is none: how many call it a difference.
pub fn without_effect(args: &Args) -> anyhow::Result<u64> {
    let draws = drawn(args, FIXED)?;
    let mut found = 0;
    for i in 0..args.proofs {
        let draw = &draws[i as usize % draws.len()];
        let trial = Trial {
            off: home(&draw.link, draw.burst),
            on: home(&draw.link, draw.burst),
            measure: Measure::ALL[i as usize % Measure::ALL.len()],
            load: Filled::Both,
            pairs: 8,
            block: Some(base::Duration::from_secs(2)),
        };
        let proof = with_means(args, 7_000 + i, |m| carry_out(&trial, None, m))?;
        found += u64::from(proof.verdict != Verdict::NoDifferenceShown);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_is_one_for_the_same_order_and_minus_one_for_the_reverse() {
        assert_eq!(tau(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]), Some(1.0));
        assert_eq!(tau(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        assert_eq!(tau(&[(1.0, 1.0)]), None);
    }
}
