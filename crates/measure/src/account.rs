//! Accounts: counters of bytes with their limits, which the flows and sessions of one client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters to which bytes are charged, each with its limit. The default has none, and no limit.
#[derive(Clone, Debug, Default)]
pub struct Account {
    counters: Vec<(Arc<AtomicU64>, u64)>,
}

impl Account {
    /// Counters and their limits, bytes.
    pub fn new(counters: Vec<(Arc<AtomicU64>, u64)>) -> Account {
        Account { counters }
    }

    /// Charges bytes that have been moved. Returns false if a counter is beyond its limit now.
    pub fn charge(&self, bytes: u64) -> bool {
        let mut within = true;
        for (counter, limit) in &self.counters {
            let before = counter.fetch_add(bytes, Ordering::Relaxed);
            within &= before.saturating_add(bytes) <= *limit;
        }
        within
    }

    /// True if every counter is below its limit.
    pub fn has_room(&self) -> bool {
        let below =
            |(counter, limit): &(Arc<AtomicU64>, u64)| counter.load(Ordering::Relaxed) < *limit;
        self.counters.iter().all(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_charged_to_every_counter_and_the_tightest_decides() {
        let (own, all) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let account = Account::new(vec![(own.clone(), 100), (all.clone(), 1000)]);
        assert!(account.has_room() && account.charge(100));
        assert!(!account.has_room() && !account.charge(1));
        assert_eq!(own.load(Ordering::Relaxed), 101);
        assert_eq!(all.load(Ordering::Relaxed), 101);
        assert!(Account::default().charge(u64::MAX) && Account::default().has_room());
    }
}
