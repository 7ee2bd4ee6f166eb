//! Summary of many delays: count, sum, extremes, and a histogram fine enough for quantiles.

use base::Duration;

/// Values below 2^`FINE` are kept exactly; above, each doubling has 2^`FINE` steps, so that a quantile is right to 1.6
/// %.
const FINE: u32 = 5;

/// Summary of delays, or of other whole, non-negative quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    /// First step in use; `counts` starts there.
    first: usize,
    counts: Vec<u32>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            first: 0,
            counts: Vec::new(),
        }
    }
}

#[inline]
fn step_of(value: u64) -> usize {
    if value < 1 << FINE {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() - FINE;
    ((octave as usize) << FINE) + (value >> octave) as usize
}

/// Middle of a step.
fn middle_of(step: usize) -> u64 {
    if step < 2 << FINE {
        return step as u64;
    }
    let octave = (step >> FINE) as u32 - 1;
    let base = ((step & ((1 << FINE) - 1)) | (1 << FINE)) as u64;
    (base << octave) + (1 << octave) / 2
}

impl Summary {
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let step = step_of(value);
        // Steps below the first wrap around and so lie beyond the end as well.
        let at = step.wrapping_sub(self.first);
        match self.counts.get_mut(at) {
            Some(count) => *count = count.saturating_add(1),
            None => self.widen(step),
        }
    }

    /// Makes room for a value outside the range so far.
    #[cold]
    fn widen(&mut self, step: usize) {
        if self.counts.is_empty() {
            self.first = step;
        }
        if step < self.first {
            let more = self.first - step;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = step;
        }
        let at = step - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = 1;
    }

    #[inline]
    pub fn add_span(&mut self, d: Duration) {
        self.add(d.as_nanos());
    }
    /// Adds all values of another summary.
    pub fn merge(&mut self, other: &Summary) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        let first = self.first.min(other.first);
        let end = (self.first + self.counts.len()).max(other.first + other.counts.len());
        let mut counts = vec![0u32; end - first];
        for s in [&*self, other] {
            for (i, n) in s.counts.iter().enumerate() {
                let at = &mut counts[s.first - first + i];
                *at = at.saturating_add(*n);
            }
        }
        (self.first, self.counts) = (first, counts);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
    pub fn clear(&mut self) {
        *self = Summary::default();
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean; `None` if nothing was added.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }
    /// Quantile: the value below which a share `q` of all lies, to 1.6 %.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let step = self.counts.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        })?;
        Some(middle_of(self.first + step).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_step() {
        let mut s = Summary::default();
        for i in (1..=100_000u64).rev() {
            s.add(i * 1000);
        }
        for q in [0.01, 0.5, 0.95, 0.99] {
            let exact = q * 1e8;
            let got = s.quantile(q).unwrap() as f64;
            assert!((got / exact - 1.0).abs() < 0.016, "{q}: {got}");
        }
        assert_eq!((s.min(), s.max()), (Some(1000), Some(100_000_000)));
        assert_eq!(s.mean(), Some(50_000_500.0));
        assert_eq!(Summary::default().quantile(0.5), None);
    }

    #[test]
    fn merged_is_as_if_seen_by_one() {
        let (mut low, mut high, mut all) =
            (Summary::default(), Summary::default(), Summary::default());
        for i in 0..5000u64 {
            if i < 100 {
                low.add(i)
            } else {
                high.add(i * i)
            }
            all.add(if i < 100 { i } else { i * i });
        }
        high.merge(&low);
        assert_eq!(high, all);
        low.merge(&Summary::default());
        assert_eq!(low.count(), 100);
    }

    #[test]
    fn steps_are_in_order_and_hold_their_middle() {
        let mut last = 0;
        for value in (0..2000).chain((11..60).map(|b| 1u64 << b)) {
            let step = step_of(value);
            assert!(step >= last);
            last = step;
            assert_eq!(step_of(middle_of(step)), step, "{value}");
        }
    }
}
