//! Stability of the interfaces that a monitor watches, such as several modems: the share of the time in which each was
//! good, from its readings each 5 s.
//!
//! **Definitions.** A reading is good if the interface was up, had an address that reaches beyond its link, and a probe
//! through it was answered. *Stability* is good time by all time. A reading of an interface that could work, through which
//! nothing was asked, is neither.
//!
//! **Source.** Chandele 2012, section 6.1: stability of a connection is successful runs by all runs.
//!
//! **Limits.** The readings are all there is: no draw of them, so no interval. A break of less than a reading is not seen.

use base::record::Availability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;
use std::collections::BTreeMap;

/// Time of one interface in each state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uplink {
    /// Name of the interface.
    pub interface: String,
    /// Time of its readings, s.
    pub watched_s: f64,
    /// Time for which it was there and up, s.
    pub up_s: f64,
    /// Time for which it was up with an address that reaches beyond its link, s.
    pub address_s: f64,
    /// Time for which a probe through it was answered, s.
    pub good_s: f64,
    /// Time for which it could work and nothing was asked, s.
    pub unasked_s: f64,
    /// Share of good time, without the time in which nothing was asked.
    pub stability: Figure,
}

/// Stability of each interface whose readings begin in the span.
pub fn uplinks(rows: &[Availability], (from_ns, to_ns): (i64, i64)) -> Vec<Uplink> {
    let mut all: BTreeMap<&str, [i64; 5]> = BTreeMap::new();
    let within = |r: &&Availability| (from_ns..to_ns).contains(&(r.t_ns - r.interval_ns.max(0)));
    for r in rows.iter().filter(within) {
        let usable = r.up && r.address;
        let states = [
            true,
            r.up,
            usable,
            usable && r.reachable == Some(true),
            usable && r.reachable.is_none(),
        ];
        let sums = all.entry(&r.interface).or_default();
        for (sum, is) in sums.iter_mut().zip(states) {
            *sum += i64::from(is) * r.interval_ns.max(0);
        }
    }
    let of = |(name, sums): (&str, [i64; 5])| {
        let [watched_s, up_s, address_s, good_s, unasked_s] = sums.map(|ns| ns as f64 / 1e9);
        let asked = watched_s - unasked_s;
        Uplink {
            interface: name.into(),
            watched_s,
            up_s,
            address_s,
            good_s,
            unasked_s,
            stability: match asked > 0.0 {
                true => Figure::exactly(good_s / asked),
                false => Figure::cannot_tell("no probe went through it"),
            },
        }
    };
    all.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stability_is_good_time_by_all_time_in_which_something_was_asked() {
        let row = |i: i64, up, address, reachable| Availability {
            t_ns: (i + 1) * 5_000_000_000,
            interval_ns: 5_000_000_000,
            interface: "wwan0".into(),
            up,
            address,
            reachable,
        };
        let rows = [
            row(0, true, true, Some(true)),
            row(1, true, true, Some(false)),
            row(2, false, false, None),
            row(3, true, false, None),
            row(4, true, true, None),
            row(5, true, true, Some(true)),
        ];
        let span = (0, 30_000_000_000);
        let found = &uplinks(&rows, span)[0];
        let seconds = [found.watched_s, found.up_s, found.address_s, found.good_s];
        assert_eq!(seconds, [30.0, 25.0, 20.0, 10.0]);
        assert_eq!(found.stability.value(), Some(0.4));
        let unasked = &uplinks(&rows[4..5], span)[0];
        assert!(unasked.stability.value().is_none());
        assert!(uplinks(&rows, (30_000_000_000, 40_000_000_000)).is_empty());
    }
}
