//! Windowed maximum of a stream in constant space: the best value, the best since then, and the best since that.
//!
//! **Source**: Kathleen Nichols' windowed filter, as draft-ietf-ccwg-bbr-04, "BBR Congestion Control",
//! section 5.5.5 refers to it.
//!
//! **Deviations**: none. If several values leave the window together, it may keep a smaller one than an exact filter
//! would; never one older than the window.
//!
//! **Units**: the caller's; time may be rounds, cycles or ns.
//!
//! **Validated against**: an exact filter over random streams, in the tests.

/// Largest value of the last `window` units of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedMax<T> {
    /// Values, best first, each newer than the one before it: (time, value).
    best: [(u64, T); 3],
}

impl<T: Copy + PartialOrd> WindowedMax<T> {
    /// Creates a filter with its first value.
    pub fn new(time: u64, value: T) -> WindowedMax<T> {
        WindowedMax {
            best: [(time, value); 3],
        }
    }

    /// Largest value of the window.
    pub fn get(&self) -> T {
        self.best[0].1
    }

    /// Discards all values and starts with `value`.
    pub fn reset(&mut self, time: u64, value: T) {
        *self = WindowedMax::new(time, value);
    }

    /// Adds a value; times must not go back. Returns the largest value of the window.
    pub fn update(&mut self, window: u64, time: u64, value: T) -> T {
        let sample = (time, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || time.saturating_sub(third.0) > window {
            self.best = [sample; 3];
            return value;
        }
        if value >= second.1 {
            *second = sample;
            *third = sample;
        } else if value >= third.1 {
            *third = sample;
        }
        let age = time.saturating_sub(first.0);
        if age > window {
            // The best has left the window: the others move up, twice if necessary.
            self.best = [self.best[1], self.best[2], sample];
            if time.saturating_sub(self.best[0].0) > window {
                self.best = [self.best[1], sample, sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            // A quarter has passed without a second best: take one from the second quarter.
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = sample;
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_peak_is_remembered_for_the_window_and_no_longer() {
        let mut max = WindowedMax::new(0, 100);
        assert!((1..=10).all(|t| max.update(10, t, 50 - t) == 100));
        assert!(max.update(10, 11, 30) < 50);
        assert_eq!(max.update(10, 12, 77), 77);
    }

    proptest! {
        #[test]
        fn it_never_exceeds_the_exact_maximum_nor_falls_below_the_newest(
            steps in prop::collection::vec((0u64..4, 0u32..1000), 1..200), window in 1u64..20
        ) {
            let mut time = 0;
            let mut seen: Vec<(u64, u32)> = Vec::new();
            let mut filter: Option<WindowedMax<u32>> = None;
            for (step, value) in steps {
                time += step;
                seen.push((time, value));
                let got = match &mut filter {
                    None => filter.insert(WindowedMax::new(time, value)).get(),
                    Some(f) => f.update(window, time, value),
                };
                let exact = seen.iter().filter(|(t, _)| time - t <= window).map(|(_, v)| *v).max().unwrap();
                prop_assert!(value <= got && got <= exact, "{value} {got} {exact}");
            }
        }
    }
}
