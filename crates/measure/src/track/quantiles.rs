//! A distribution of times in a few hundred bytes.

/// Counts of times in steps of an eighth of a power of two divided by eight: 64 steps an octave, so a
/// quantile is right to 0.8 %. Only the stretch of steps that occurred is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    first: usize,
    counts: Vec<u32>,
    total: u64,
}

const STEPS: u32 = 6;

/// Values below `1 << STEPS` have a step each.
#[inline]
fn step(value: u64) -> usize {
    let octave = (value | 1 << STEPS).ilog2() - STEPS;
    ((octave as usize) << STEPS) + (value >> octave) as usize
}

/// The middle of a step.
fn middle(step: usize) -> u64 {
    let octave = (step >> STEPS).saturating_sub(1);
    let low = (step - (octave << STEPS)) as u64;
    (low << octave) + ((1 << octave) >> 1)
}

impl Quantiles {
    #[inline]
    pub fn add(&mut self, value: i64) {
        let at = step(value.max(0) as u64);
        self.total += 1;
        match at
            .checked_sub(self.first)
            .and_then(|i| self.counts.get_mut(i))
        {
            Some(n) => *n = n.saturating_add(1),
            None => self.widen(at),
        }
    }

    #[cold]
    fn widen(&mut self, at: usize) {
        if self.counts.is_empty() {
            self.first = at;
        } else if at < self.first {
            let more = self.first - at;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = at;
        }
        if self.counts.len() <= at - self.first {
            self.counts.resize(at - self.first + 1, 0);
        }
        self.counts[at - self.first] += 1;
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    /// The least value that at least the share `p` (0 to 1) of all does not exceed; `None` without values.
    pub fn at(&self, p: f64) -> Option<u64> {
        let rank = ((p * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(i, n)| {
            seen += u64::from(*n);
            (seen >= rank).then(|| middle(self.first + i))
        })
    }

    pub fn merge(&mut self, other: &Quantiles) {
        for (i, n) in other.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let at = other.first + i;
            if self.counts.is_empty() || at < self.first || at >= self.first + self.counts.len() {
                self.widen(at);
                self.counts[at - self.first] += n - 1;
            } else {
                let slot = &mut self.counts[at - self.first];
                *slot = slot.saturating_add(*n);
            }
        }
        self.total += other.total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_to_one_percent_from_nanoseconds_to_hours() {
        for scale in [1u64, 1_000, 1_000_000, 1_000_000_000, 3_600_000_000_000] {
            let mut q = Quantiles::default();
            (1..=1000).rev().for_each(|i| q.add((i * scale) as i64));
            for p in [0.05, 0.5, 0.95, 0.99] {
                let (is, should) = (q.at(p).unwrap() as f64, p * 1000.0 * scale as f64);
                assert!((is - should).abs() <= 0.01 * should + 1.0, "{is} {should}");
            }
        }
        assert_eq!(Quantiles::default().at(0.5), None);
    }

    #[test]
    fn merged_halves_are_the_whole() {
        let (mut all, mut even, mut odd) = Default::default();
        for i in 1..10_000u32 {
            let q: &mut Quantiles = if i % 2 == 0 { &mut even } else { &mut odd };
            q.add(i64::from(i) * i64::from(i));
            Quantiles::add(&mut all, i64::from(i) * i64::from(i));
        }
        even.merge(&odd);
        assert_eq!(even, all);
    }
}
