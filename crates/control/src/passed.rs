//! Bytes that had passed at an earlier time, from readings of a counter.
//!
//! **Method.** A shaper in front of the counter holds a probe back, so the reading at its sending is too early. The one at its
//! departure lies between two later readings, and the shaper's rate is even: a straight line.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Time for which readings are kept: longer than a probe flies.
const KEPT: Duration = Duration::from_secs(4);

/// Readings of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Passed(VecDeque<(Time, u64)>);

impl Passed {
    /// Adds a reading, not older than those before.
    pub fn read(&mut self, at: Time, bytes: u64) {
        self.0.push_back((at, bytes));
        while (self.0.front()).is_some_and(|r| at.saturating_since(r.0) > KEPT) {
            self.0.pop_front();
        }
    }

    /// Bytes that had passed at `at`; the nearest reading, where there is none on one side.
    pub fn at(&self, at: Time) -> Option<u64> {
        let after = self.0.partition_point(|r| r.0 < at);
        let later = self.0.get(after);
        let Some(&(from, had)) = after.checked_sub(1).and_then(|i| self.0.get(i)) else {
            return later.map(|r| r.1);
        };
        let Some(&(to, has)) = later else {
            return Some(had);
        };
        let share = at.saturating_since(from).as_secs_f64() / (to - from).as_secs_f64();
        Some(had + (has.saturating_sub(had) as f64 * share) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_in_between_is_on_the_line_and_one_outside_is_the_nearest() {
        let mut passed = Passed::default();
        assert_eq!(passed.at(Time::ZERO), None);
        for i in 1..=10 {
            passed.read(Time::from_millis(10 * i), 1000 * i);
        }
        let at = |ms| passed.at(Time::from_millis(ms));
        assert_eq!(
            (at(0), at(10), at(200)),
            (Some(1000), Some(1000), Some(10_000))
        );
        assert_eq!((at(15), at(42)), (Some(1500), Some(4200)));
        passed.read(Time::from_secs(10), 20_000);
        assert_eq!(passed.at(Time::from_millis(15)), Some(20_000));
    }
}
