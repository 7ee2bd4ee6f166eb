//! Proofs of latency control in virtual time: blocks with the gateway's controller and without it, over links drawn at
//! random. `SEED` and `DRAWS` choose others.

use base::rng::{Rng, Streams, uniform};
use sim::Draft;
use twin::prove::{Block, Measure, Verdict, decide, order};

/// Pairs of blocks of a proof: the default of `tailback control prove`.
const PAIRS: u64 = 8;

fn variable(name: &str, default: u64) -> u64 {
    #[allow(clippy::disallowed_methods)]
    let told = std::env::var(name).ok().and_then(|s| s.parse().ok());
    told.unwrap_or(default)
}

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

/// Scenario of a block: a warm-up of two seconds that does not count, then two that do.
fn scenario(rng: &mut Rng) -> String {
    let rate = log(rng, 3e6, 20e6);
    let delay_ms = log(rng, 4.0, 25.0);
    let flows = [1, 2, 4][(3.0 * uniform(rng)) as usize];
    // Cross traffic makes blocks differ by chance.
    let others = 0.2 * rate * uniform(rng);
    format!(
        "duration = \"5 s\"\nwarmup = \"3 s\"\ntopology = \"linear\"\n[sample]\nqueue = \"5 ms\"\n\
         [link]\nrate = \"{rate:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"\n\
         [reverse]\nrate = \"200 Mbit/s\"\ndelay = \"{delay_ms:.2} ms\"\n\
         [control]\nhost = \"kernel\"\n[control.upload]\n\
         [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n\
         [[flow]]\nkind = \"poisson\"\nsize = \"1200 B\"\nrate = \"{others:.0} bit/s\"\n\
         [[flow]]\nkind = \"bulk\"\nstart = \"500 ms\"\ncount = {flows}\n",
        rate / 8.0 * 0.5
    )
}

/// Value of a block: the 95 % point of the queue's wait, signed so that more is better.
fn value(text: &str, controlled: bool, seed: u64) -> f64 {
    let mut scenario = Draft::new(text).unwrap().finish().unwrap();
    if !controlled {
        scenario.control = None;
    }
    let outcome = sim::run::run(&scenario, seed, None, &mut |_| true).unwrap();
    -outcome.links[0].queue_ms.p95
}

/// Verdicts over draws of links; `of` says for each block if it is controlled.
fn verdicts(name: &str, draws: u64, of: impl Fn(u64, bool) -> bool) -> Vec<Verdict> {
    let streams = Streams::new(variable("SEED", 20_261_127));
    let proof = |draw: u64| {
        let mut rng = streams.stream(&format!("{name}/{draw}"));
        let text = scenario(&mut rng);
        let seed = (uniform(&mut rng) * 1e9) as u64;
        let mut blocks = Vec::new();
        for (pair, first) in order(PAIRS, seed).into_iter().enumerate() {
            for on in [first, !first] {
                let value = value(&text, of(draw, on), seed + blocks.len() as u64);
                blocks.push(Block {
                    pair: pair as u64,
                    on,
                    value,
                });
            }
        }
        decide(Measure::Delay, blocks, None, seed).verdict
    };
    (0..draws).map(proof).collect()
}

#[test]
fn blocks_that_are_alike_are_called_different_in_five_of_a_hundred_proofs_at_most() {
    let draws = variable("DRAWS", 200);
    // Half of the links have control in all blocks, half in none.
    let all = verdicts("aa", draws, |draw, _| draw.is_multiple_of(2));
    let wrong = |v: &&Verdict| **v != Verdict::NoDifferenceShown;
    let wrong = all.iter().filter(wrong).count() as f64;
    let share = wrong / draws as f64;
    println!("{wrong} of {draws}: {:.1} %", 100.0 * share);
    // A share of 5 % comes out as so many, three standard deviations beyond.
    let most = 0.05 + 3.0 * (0.05 * 0.95 / draws as f64).sqrt();
    assert!(share <= most, "{share} of {draws}");
}

#[test]
fn control_is_proven_to_help_on_every_link() {
    let draws = variable("DRAWS", 200) / 10;
    let all = verdicts("ab", draws, |_, on| on);
    assert!(all.iter().all(|v| *v == Verdict::Helps), "{all:?}");
}
