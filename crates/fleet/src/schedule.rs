//! Times at which a measurement starts. Pure: the time is told.
//!
//! Points must not all start at the full hour. Each has a phase of its own within the period, from a hash of its name,
//! and each start has a jitter of its own, so that two points do not stay in step.

use sha2::{Digest, Sha256};

/// Start of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Number of the period since 1970: the same start has the same number after a restart.
    pub number: u64,
    /// Start, UNIX s.
    pub at_s: u64,
}

/// Random number from a text, the same on every machine.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let bytes: [u8; 32] = digest.finalize().into();
    bytes[..8].iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Start within the period of that number.
fn start(point: &str, measurement: &str, number: u64, period_s: u64, jitter_s: u64) -> Due {
    let phase = hash(&[point, measurement]) % period_s;
    let jitter =
        hash(&[point, measurement, &number.to_string()]) % (jitter_s.min(period_s - 1) + 1);
    Due {
        number,
        at_s: number
            .saturating_mul(period_s)
            .saturating_add(phase)
            .saturating_add(jitter),
    }
}

/// First start at `now_s` or later whose number is greater than `last`.
pub fn next_start(
    (point, measurement): (&str, &str),
    (period_s, jitter_s): (u64, u64),
    now_s: u64,
    last: Option<u64>,
) -> Due {
    let period_s = period_s.max(1);
    // Phase and jitter move a start by less than two periods.
    let mut number = (now_s / period_s).saturating_sub(2);
    // A clock that was ahead must not hold starts back for longer than it is behind.
    if let Some(last) = last.filter(|l| *l <= now_s / period_s + 1) {
        number = number.max(last + 1);
    }
    loop {
        let due = start(point, measurement, number, period_s, jitter_s);
        if due.at_s >= now_s {
            return due;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn starts_are_a_period_apart_but_for_the_jitter_and_none_is_left_out() {
        let mut rng = base::rng::Streams::new(20_261_123).stream("schedule");
        for _ in 0..200 {
            let period: u64 = rng.random_range(1..200_000);
            let jitter = rng.random_range(0..period);
            let now: u64 = rng.random_range(0..4_000_000_000);
            let point = format!("p{}", rng.random_range(0..1000));
            let mut last = next_start((&point, "m"), (period, jitter), now, None);
            assert!(last.at_s >= now && last.at_s <= now + 2 * period + jitter);
            for _ in 0..20 {
                let next = next_start(
                    (&point, "m"),
                    (period, jitter),
                    last.at_s,
                    Some(last.number),
                );
                // A jitter may bring the next start before this one; it is then due at once.
                assert!(next.number > last.number, "{last:?} {next:?}");
                assert!(
                    next.at_s - last.at_s <= 2 * period + jitter,
                    "{last:?} {next:?}"
                );
                last = next;
            }
        }
    }

    #[test]
    fn points_spread_over_the_period() {
        let mut quarters = [0u32; 4];
        for i in 0..1000 {
            let due = next_start(
                (&format!("village-{i}"), "test"),
                (3600, 0),
                7_200_000,
                None,
            );
            quarters[(due.at_s % 3600 / 900) as usize] += 1;
        }
        assert!(
            quarters.iter().all(|n| (200..300).contains(n)),
            "{quarters:?}"
        );
    }

    #[test]
    fn a_clock_that_was_years_ahead_holds_nothing_back() {
        let ahead = next_start(("p", "m"), (600, 60), 3_000_000_000, None);
        let due = next_start(("p", "m"), (600, 60), 1_800_000_000, Some(ahead.number));
        assert!(due.at_s < 1_800_000_000 + 1300);
    }
}
