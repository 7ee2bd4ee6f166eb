//! Named streams of random numbers. Each consumer has its own stream, derived from the run's seed and the consumer's
//! name. Adding a consumer therefore changes no other draw.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Generator behind every stream. A published algorithm fixes its values, so a seed means the same run in every
/// version.
pub type Rng = Xoshiro256PlusPlus;

/// Draws a uniform number in `[0, 1)` from the top 53 bits of one draw.
pub fn uniform(rng: &mut Rng) -> f64 {
    use rand::Rng as _;
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Source of named streams, derived from one seed.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Creates the streams of a seed.
    pub fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// Returns the stream of one consumer, for example `"link/up/loss"`.
    pub fn stream(&self, name: &str) -> Rng {
        // FNV-1a: short, public, and the same on every machine.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        Rng::seed_from_u64(self.seed ^ hash.rotate_left(32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn a_stream_depends_on_seed_and_name_alone() {
        let draw = |seed, name| Streams::new(seed).stream(name).next_u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn uniform_draws_have_mean_one_half() {
        let mut rng = Streams::new(7).stream("mean");
        let mean = (0..100_000).map(|_| uniform(&mut rng)).sum::<f64>() / 1e5;
        // The standard error is 1/sqrt(12·1e5) = 0.0009; five of them.
        assert!((mean - 0.5).abs() < 0.0046, "{mean}");
    }
}
