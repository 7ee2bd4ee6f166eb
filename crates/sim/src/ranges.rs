//! Ranges of bytes that arrived out of order: sorted, disjoint, found by bisection.

/// Half-open ranges; neighbours that touch are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    list: Vec<(u64, u64)>,
}

impl Ranges {
    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes in all ranges.
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|(from, to)| to - from).sum()
    }

    /// Range that holds `at`.
    pub fn around(&self, at: u64) -> Option<(u64, u64)> {
        let i = self.list.partition_point(|r| r.1 <= at);
        self.list.get(i).copied().filter(|r| r.0 <= at)
    }

    /// Adds a range; calls `new` for each part of it that was not present, in order.
    pub fn insert(&mut self, from: u64, to: u64, mut new: impl FnMut(u64, u64)) {
        if from >= to {
            return;
        }
        // Ranges `i..j` overlap or touch the new one.
        let i = self.list.partition_point(|r| r.1 < from);
        let mut j = i;
        let (mut at, mut merged) = (from, (from, to));
        while let Some(&(start, end)) = self.list.get(j).filter(|r| r.0 <= to) {
            if at < start.min(to) {
                new(at, start.min(to));
            }
            at = at.max(end);
            merged = (merged.0.min(start), merged.1.max(end));
            j += 1;
        }
        if at < to {
            new(at, to);
        }
        if i == j {
            self.list.insert(i, merged);
        } else {
            self.list[i] = merged;
            self.list.drain(i + 1..j);
        }
    }

    /// Removes everything before `at`.
    pub fn remove_before(&mut self, at: u64) {
        let gone = self.list.partition_point(|r| r.1 <= at);
        self.list.drain(..gone);
        if let Some(first) = self.list.first_mut() {
            first.0 = first.0.max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn random_inserts_agree_with_a_set_of_bytes() {
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("ranges");
            let mut draw = |n: f64| (uniform(&mut rng) * n) as u64;
            let (mut ranges, mut model) = (Ranges::default(), [false; 64]);
            for _ in 0..30 {
                let from = draw(60.0);
                let to = from + draw(5.0);
                let mut told = Vec::new();
                ranges.insert(from, to, |a, b| told.extend(a..b));
                let new: Vec<u64> = (from..to).filter(|i| !model[*i as usize]).collect();
                assert_eq!(told, new);
                (from..to).for_each(|i| model[i as usize] = true);
                if draw(10.0) == 0 {
                    let before = draw(20.0);
                    ranges.remove_before(before);
                    model[..before as usize].fill(false);
                }
                for i in 0..64 {
                    assert_eq!(ranges.around(i).is_some(), model[i as usize], "seed {seed}");
                }
                let touching = ranges.list.windows(2).any(|w| w[0].1 >= w[1].0);
                assert!(!touching, "{ranges:?}");
            }
        }
    }
}
