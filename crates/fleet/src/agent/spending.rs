//! Bytes that a point has spent today and this month (UTC). Pure: the time is told.
//!
//! A run's budget is reserved at its start, so that runs at the same time cannot spend the same bytes. Its end settles
//! the reservation; after a crash all of it counts as spent.

use base::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes spent since the day and the month began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    day: String,
    month: String,
    day_bytes: u64,
    month_bytes: u64,
    /// Bytes reserved for each run in progress, by its recording.
    reserved: BTreeMap<String, u64>,
}

/// Limits of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub day: Option<Bytes>,
    pub month: Option<Bytes>,
}

impl Spending {
    /// Begins a new day or month. A clock that was wrong begins one, too.
    fn turn(&mut self, now_s: u64) {
        let now = jiff::Timestamp::from_second(now_s.cast_signed()).unwrap_or_default();
        let (day, month) = (
            now.strftime("%F").to_string(),
            now.strftime("%Y-%m").to_string(),
        );
        if self.day != day {
            (self.day, self.day_bytes) = (day, 0);
        }
        if self.month != month {
            (self.month, self.month_bytes) = (month, 0);
        }
    }

    /// Bytes that may still be spent, reservations left out; none without a limit.
    pub fn left(&mut self, now_s: u64, limits: Limits) -> Option<Bytes> {
        self.turn(now_s);
        let reserved = self
            .reserved
            .values()
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        let rest = |limit: Option<Bytes>, spent: u64| {
            Some(limit?.get().saturating_sub(spent).saturating_sub(reserved))
        };
        let day = rest(limits.day, self.day_bytes);
        let month = rest(limits.month, self.month_bytes);
        day.into_iter().chain(month).min().map(Bytes::new)
    }

    /// Counts bytes as spent.
    pub fn charge(&mut self, now_s: u64, bytes: u64) {
        self.turn(now_s);
        self.day_bytes = self.day_bytes.saturating_add(bytes);
        self.month_bytes = self.month_bytes.saturating_add(bytes);
    }

    /// Reserves a run's bytes.
    pub fn reserve(&mut self, recording: &str, bytes: Bytes) {
        self.reserved.insert(recording.into(), bytes.get());
    }

    /// Settles the reservation of a run: counts `spent`, or the whole reservation if that is not known.
    pub fn settle(&mut self, now_s: u64, recording: &str, spent: Option<u64>) {
        if let Some(reserved) = self.reserved.remove(recording) {
            self.charge(now_s, spent.unwrap_or(reserved));
        }
    }

    /// Counts all reservations as spent: the runs were interrupted, and nothing is known of them.
    pub fn settle_all(&mut self, now_s: u64) {
        for (_, bytes) in std::mem::take(&mut self.reserved) {
            self.charge(now_s, bytes);
        }
    }

    /// Bytes spent today and this month.
    pub fn spent(&self) -> (u64, u64) {
        (self.day_bytes, self.month_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    const DAY: u64 = 86_400;

    /// Runs drawn at random never spend more than the limits, if each keeps to its own budget; days and months are
    /// summed up anew by the test.
    #[test]
    fn no_day_and_no_month_is_overspent() {
        const SEED: u64 = 20_261_126;
        println!("seed {SEED}");
        let mut rng = base::rng::Streams::new(SEED).stream("spending");
        for draw in 0..200 {
            let limits = Limits {
                day: (rng.random_range(0..3) > 0).then(|| Bytes::new(rng.random_range(0..1000))),
                month: (rng.random_range(0..3) > 0)
                    .then(|| Bytes::new(rng.random_range(0..10_000))),
            };
            let mut spending = Spending::default();
            let mut now = 1_795_608_000 + rng.random_range(0..30 * DAY);
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            for run in 0..300 {
                now += rng.random_range(0..DAY / 4);
                let name = format!("r{run}");
                let wanted = Bytes::new(rng.random_range(1..400));
                let budget = spending.left(now, limits).map_or(wanted, |l| l.min(wanted));
                spending.reserve(&name, budget);
                let known = rng.random_range(0..3) > 0;
                let spent = rng.random_range(0..=budget.get());
                spending.settle(now, &name, known.then_some(spent));
                let at = jiff::Timestamp::from_second(now as i64).unwrap();
                for period in ["%F", "%Y-%m"] {
                    *sums.entry(at.strftime(period).to_string()).or_default() +=
                        if known { spent } else { budget.get() };
                }
            }
            for (period, sum) in sums {
                let limit = match period.len() {
                    10 => limits.day,
                    _ => limits.month,
                };
                assert!(
                    limit.is_none_or(|l| sum <= l.get()),
                    "draw {draw}: {period} {sum} {limits:?}"
                );
            }
        }
    }

    #[test]
    fn runs_at_the_same_time_do_not_spend_the_same_bytes() {
        let limits = Limits {
            day: Some(Bytes::new(100)),
            month: None,
        };
        let mut spending = Spending::default();
        spending.reserve("a", Bytes::new(70));
        assert_eq!(spending.left(DAY, limits), Some(Bytes::new(30)));
        spending.reserve("b", Bytes::new(30));
        assert_eq!(spending.left(DAY, limits), Some(Bytes::new(0)));
        spending.settle(DAY, "a", Some(10));
        assert_eq!(spending.left(DAY, limits), Some(Bytes::new(60)));
        // A run of which nothing is known has spent all of its budget.
        spending.settle(DAY, "b", None);
        assert_eq!(spending.left(DAY, limits), Some(Bytes::new(60)));
        assert_eq!(spending.left(2 * DAY, limits), Some(Bytes::new(100)));
    }
}
