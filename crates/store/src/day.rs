//! Assignment of rows to the files of days.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const DAY_NS: i64 = 86_400_000_000_000;

/// Returns the days since 1970-01-01 on a clock `utc_offset_s` east of UTC.
pub fn day_of(t_ns: i64, utc_offset_s: i32) -> i64 {
    // Two steps, because a single sum could overflow i64.
    let offset_ns = i64::from(utc_offset_s) * 1_000_000_000;
    t_ns.div_euclid(DAY_NS) + (t_ns.rem_euclid(DAY_NS) + offset_ns).div_euclid(DAY_NS)
}

/// Returns the stem of that day's file: `2026-11-21`. It sorts in the order of days for four-digit years, and i64
/// nanoseconds (1677 to 2262) never leave those.
pub fn day_name(day: i64) -> String {
    let since = SignedDuration::from_secs(day * (DAY_NS / 1_000_000_000));
    let midnight = Timestamp::UNIX_EPOCH
        .saturating_add(since)
        .unwrap_or(Timestamp::UNIX_EPOCH);
    midnight
        .to_zoned(TimeZone::fixed(Offset::UTC))
        .date()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_the_hosts_midnight() {
        let t: Timestamp = "2026-11-21T23:30:00Z".parse().unwrap();
        let t = t.as_nanosecond() as i64;
        assert_eq!(day_name(day_of(t, 0)), "2026-11-21");
        assert_eq!(day_name(day_of(t, 3600)), "2026-11-22");
        assert_eq!(day_name(day_of(t, -5 * 3600)), "2026-11-21");
    }

    #[test]
    fn the_ends_of_time_have_a_day() {
        for offset in [-14 * 3600, 0, 14 * 3600] {
            assert!(day_name(day_of(i64::MAX, offset)).starts_with("2262-04-"));
            assert!(day_name(day_of(i64::MIN, offset)).starts_with("1677-09-"));
        }
        assert_eq!(day_name(day_of(-1, 0)), "1969-12-31");
    }
}
