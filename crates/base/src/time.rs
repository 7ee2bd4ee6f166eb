//! Instants and spans in whole nanoseconds. An instant counts from the start of a run, so tests can write it as a
//! constant. Wall-clock time appears once per recording, as a label.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Instant: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// Span of time that cannot be negative: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// Difference of clocks or of delays, which may be negative: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignedDuration(i64);

impl Time {
    /// Begin of the run.
    pub const ZERO: Time = Time(0);
    /// End of time.
    pub const MAX: Time = Time(u64::MAX);

    /// Time from nanoseconds since the begin of the run.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }
    /// Time from microseconds since the begin of the run.
    #[inline]
    pub const fn from_micros(us: u64) -> Time {
        Time(us * 1_000)
    }
    /// Time from milliseconds since the begin of the run.
    #[inline]
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }
    /// Time from seconds since the begin of the run.
    #[inline]
    pub const fn from_secs(s: u64) -> Time {
        Time(s * 1_000_000_000)
    }
    /// Nanoseconds since the begin of the run.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds since the begin of the run.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns the span since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// Returns the instant `d` before this one, or the start of the run.
    #[inline]
    pub const fn saturating_sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
    /// Returns `self - earlier` with its sign.
    #[inline]
    pub const fn signed_since(self, earlier: Time) -> SignedDuration {
        SignedDuration(self.0 as i64 - earlier.0 as i64)
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);
    /// Longest duration.
    pub const MAX: Duration = Duration(u64::MAX);

    /// Duration from nanoseconds.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Duration {
        Duration(ns)
    }
    /// Converts microseconds; saturates at [`Duration::MAX`].
    #[inline]
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }
    /// Converts milliseconds; saturates at [`Duration::MAX`].
    #[inline]
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }
    /// Converts seconds; saturates at [`Duration::MAX`].
    #[inline]
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s.saturating_mul(1_000_000_000))
    }
    /// Rounds to the nearest nanosecond; negative values and NaN become zero.
    #[inline]
    pub fn from_secs_f64(s: f64) -> Duration {
        Duration((s * 1e9).round().max(0.0) as u64)
    }
    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds.
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Difference; zero if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// True for no time.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Duration of the standard library.
    #[inline]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl SignedDuration {
    /// No difference.
    pub const ZERO: SignedDuration = SignedDuration(0);

    /// Duration from nanoseconds.
    #[inline]
    pub const fn from_nanos(ns: i64) -> SignedDuration {
        SignedDuration(ns)
    }
    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    #[inline]
    fn add(self, d: Duration) -> Time {
        Time(self.0 + d.0)
    }
}
impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}
/// Panics if `earlier` is later: instants out of order are a broken invariant of the caller.
impl Sub for Time {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration(self.0 - earlier.0)
    }
}
impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, d: Duration) -> Duration {
        Duration(self.0 + d.0)
    }
}
impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}
impl Sub for Duration {
    type Output = Duration;
    #[inline]
    fn sub(self, d: Duration) -> Duration {
        Duration(self.0 - d.0)
    }
}
impl SubAssign for Duration {
    #[inline]
    fn sub_assign(&mut self, d: Duration) {
        self.0 -= d.0;
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn mul(self, n: u64) -> Duration {
        Duration(self.0 * n)
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn div(self, n: u64) -> Duration {
        Duration(self.0 / n)
    }
}
impl Sum for Duration {
    #[inline]
    fn sum<I: Iterator<Item = Duration>>(iter: I) -> Duration {
        iter.fold(Duration::ZERO, Add::add)
    }
}
impl Sub for SignedDuration {
    type Output = SignedDuration;
    #[inline]
    fn sub(self, d: SignedDuration) -> SignedDuration {
        SignedDuration(self.0 - d.0)
    }
}
impl Add for SignedDuration {
    type Output = SignedDuration;
    #[inline]
    fn add(self, d: SignedDuration) -> SignedDuration {
        SignedDuration(self.0 + d.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

impl fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        Duration(self.0.unsigned_abs()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_beyond_the_longest_are_the_longest() {
        for n in [u64::MAX, u64::MAX / 900] {
            assert_eq!(Duration::from_micros(n), Duration::MAX);
            assert_eq!(Duration::from_millis(n), Duration::MAX);
            assert_eq!(Duration::from_secs(n), Duration::MAX);
        }
        assert_eq!(Duration::from_secs_f64(1e300), Duration::MAX);
    }

    #[test]
    fn spans_and_instants_combine_exactly() {
        let t = Time::from_millis(5) + Duration::from_micros(250);
        assert_eq!(t - Time::from_millis(5), Duration::from_nanos(250_000));
        assert_eq!(Time::from_millis(1).signed_since(t).as_nanos(), -4_250_000);
        assert_eq!(Time::from_millis(1).saturating_since(t), Duration::ZERO);
        assert_eq!(
            SignedDuration::from_nanos(-1_500_000).to_string(),
            "-1.5 ms"
        );
    }

    #[test]
    #[should_panic]
    fn an_instant_out_of_order_stops_the_run() {
        let _ = Time::from_millis(1) - Time::from_millis(2);
    }
}
