//! Clock checks of a live session. Kernel timestamps are wall time, and the wall clock may be set during a measurement;
//! the far end's clock is unknown. Both kinds of step are detected here, and a probe across a step is marked invalid
//! instead of being corrected. `analysis` estimates offset and drift, because it has the whole recording.

use base::Time;

/// Converts kernel timestamps (wall time) into the run's monotonic time, and detects when the wall clock was set. Linux
/// steers both clocks at the same rate (`adjtimex` changes them alike). So their difference is constant to the
/// nanosecond unless someone sets the time.
#[derive(Clone, Debug, Default)]
pub struct WallClock {
    best: Option<Reading>,
}

/// Comparison of the two clocks: the wall clock read between two readings of the monotonic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Wall time minus monotonic time since the run started, ns.
    pub wall_minus_mono_ns: i64,
    /// Half the time between the two monotonic readings, ns.
    pub uncertainty_ns: i64,
}

/// Differences up to this beyond both readings' uncertainty are granularity, not a step.
const GRANULARITY_NS: i64 = 1_000;

impl WallClock {
    /// Compares a new reading with the best one so far. `Some(by)`: the wall clock was set forward by `by` ns since the
    /// previous reading, so every timestamp in between is ambiguous.
    pub fn observe(&mut self, now: Reading) -> Option<i64> {
        let Some(best) = self.best else {
            self.best = Some(now);
            return None;
        };
        let by = now.wall_minus_mono_ns - best.wall_minus_mono_ns;
        if by.abs() > now.uncertainty_ns + best.uncertainty_ns + GRANULARITY_NS {
            self.best = Some(now);
            return Some(by);
        }
        if now.uncertainty_ns < best.uncertainty_ns {
            self.best = Some(now);
        }
        None
    }

    /// Monotonic time of a kernel timestamp; `None` before the first reading, or if it precedes the run.
    pub fn to_mono(&self, wall_ns: i64) -> Option<Time> {
        let mono = wall_ns.checked_sub(self.best?.wall_minus_mono_ns)?;
        u64::try_from(mono).ok().map(Time::from_nanos)
    }
}

/// Detects a step of the far end's clock. A probe cannot arrive before it was sent. So with near times `sent` and
/// `received` and far times `remote_rx` and `remote_tx`, the far clock is ahead by at least `remote_tx - received` and
/// at most `remote_rx - sent`. The bounds of all probes must overlap, except for the drift between the two clocks.
#[derive(Clone, Debug, Default)]
pub struct FarClock {
    bounds: Option<Bounds>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    low_ns: i64,
    high_ns: i64,
    at_ns: i64,
}

/// Largest drift between the two clocks, ppm: more than two computers' crystals differ by. It has room for a far end
/// whose time service slews at Linux's limit of 500 ppm.
const DRIFT_PPM: i64 = 700;

impl FarClock {
    /// Adds one probe. All four times are in ns; near times on one clock, far times on another. `Some(by)`: the far
    /// clock was set forward by about `by` ns.
    pub fn observe(
        &mut self,
        sent: i64,
        remote_rx: i64,
        remote_tx: i64,
        received: i64,
    ) -> Option<i64> {
        let fresh = Bounds {
            low_ns: remote_tx.saturating_sub(received),
            high_ns: remote_rx.saturating_sub(sent),
            at_ns: received,
        };
        let Some(old) = self.bounds else {
            self.bounds = Some(fresh);
            return None;
        };
        let drift = (received - old.at_ns)
            .unsigned_abs()
            .saturating_mul(DRIFT_PPM.unsigned_abs())
            / 1_000_000;
        let drift = i64::try_from(drift).unwrap_or(i64::MAX / 4);
        let low_ns = fresh.low_ns.max(old.low_ns.saturating_sub(drift));
        let high_ns = fresh.high_ns.min(old.high_ns.saturating_add(drift));
        if low_ns > high_ns {
            self.bounds = Some(fresh);
            return Some(midpoint(fresh) - midpoint(old));
        }
        self.bounds = Some(Bounds {
            low_ns,
            high_ns,
            at_ns: received,
        });
        None
    }

    /// Offset of the far clock and its uncertainty (±), ns; valid for any asymmetry of the path. `None` before the
    /// first answer.
    pub fn ahead_ns(&self) -> Option<(i64, i64)> {
        self.bounds
            .map(|b| (midpoint(b), (b.high_ns - b.low_ns) / 2))
    }
}

fn midpoint(b: Bounds) -> i64 {
    b.low_ns + (b.high_ns - b.low_ns) / 2
}

/// Detects that this host slept: one of its two monotonic clocks stops in sleep.
#[derive(Clone, Debug, Default)]
pub struct SleepWatch {
    before: Option<(Time, i64)>,
}

/// Least difference that counts as sleep. Two consecutive readings differ by less, unless the process lost its
/// processor between them.
const SLEPT_AT_LEAST_NS: i64 = 100_000_000;

impl SleepWatch {
    /// Compares two readings: `now` on the clock that continues in sleep, and its lead over the clock that stops.
    /// `Some((from, to, for_ns))`: the host slept at some time between `from` and `to`.
    pub fn observe(&mut self, now: Time, ahead_ns: i64) -> Option<(Time, Time, i64)> {
        let (then, before) = self.before.replace((now, ahead_ns))?;
        let slept = ahead_ns - before;
        (slept >= SLEPT_AT_LEAST_NS).then_some((then, now, slept))
    }
}

/// Detects that a time service slews this host's clocks: their rate compared with the raw oscillator's.
#[derive(Clone, Debug, Default)]
pub struct SlewWatch {
    mark: Option<(i64, i64)>,
    ppm: Option<i64>,
}

const SLEW_WINDOW_NS: i64 = 60_000_000_000;
/// Change of rate that is reported, ppm; crystals change by less.
const SLEW_PPM: i64 = 40;

impl SlewWatch {
    /// Compares periodic readings of the steered clock and of the raw one, ns. `Some((from, to))`: the rate changed
    /// from `from` to `to` ppm; measured delays change by the same ratio.
    pub fn observe(&mut self, steered_ns: i64, raw_ns: i64) -> Option<(i64, i64)> {
        let Some((steered, raw)) = self.mark else {
            self.mark = Some((steered_ns, raw_ns));
            return None;
        };
        let window = raw_ns - raw;
        if window < SLEW_WINDOW_NS {
            return None;
        }
        self.mark = Some((steered_ns, raw_ns));
        let gained = i128::from(steered_ns - steered - window);
        let ppm = (gained * 1_000_000 / i128::from(window)) as i64;
        let before = *self.ppm.get_or_insert(ppm);
        if (ppm - before).abs() >= SLEW_PPM {
            self.ppm = Some(ppm);
            return Some((before, ppm));
        }
        None
    }

    /// Restarts after a sleep, which the raw clock does not count.
    pub fn restart(&mut self) {
        self.mark = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(wall_minus_mono_ns: i64, uncertainty_ns: i64) -> Reading {
        Reading {
            wall_minus_mono_ns,
            uncertainty_ns,
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_is_noticed_and_later_stamps_are_converted_anew() {
        let mut wall = WallClock::default();
        assert_eq!(wall.to_mono(1_000_100), None);
        assert_eq!(wall.observe(reading(1_000_000, 50)), None);
        assert_eq!(wall.to_mono(1_000_100), Some(Time::from_nanos(100)));
        assert_eq!(
            wall.observe(reading(1_000_000 + 40_000_000, 50)),
            Some(40_000_000)
        );
        assert_eq!(wall.to_mono(41_000_200), Some(Time::from_nanos(200)));
        assert_eq!(
            wall.observe(reading(1_000_000 - 3_600_000_000_000, 50)),
            Some(-3_600_040_000_000)
        );
    }

    #[test]
    fn a_reading_that_was_interrupted_is_not_a_step() {
        let mut wall = WallClock::default();
        wall.observe(reading(1_000_000, 40));
        // The process lost its processor for 8 ms between the two readings.
        assert_eq!(
            wall.observe(reading(1_000_000 + 3_900_000, 4_000_000)),
            None
        );
        assert_eq!(wall.to_mono(1_000_100), Some(Time::from_nanos(100)));
    }

    #[test]
    fn a_far_clock_that_is_set_by_more_than_the_round_trip_is_noticed() {
        let ms = 1_000_000;
        let mut far = FarClock::default();
        for i in 0..100 {
            let t = i * 10 * ms;
            assert_eq!(
                far.observe(
                    t,
                    t + 500 * ms + 10 * ms,
                    t + 500 * ms + 10 * ms,
                    t + 20 * ms
                ),
                None
            );
        }
        let (ahead, plus_minus) = far.ahead_ns().unwrap();
        assert!(
            (ahead - 500 * ms).abs() <= plus_minus && plus_minus <= 11 * ms,
            "{ahead} ± {plus_minus}"
        );
        let t = 1_000 * ms;
        let by = far
            .observe(t, t + 540 * ms, t + 540 * ms, t + 20 * ms)
            .expect("a step of 30 ms with a round trip of 20 ms");
        assert!((by - 30 * ms).abs() <= 10 * ms, "{by}");
    }

    #[test]
    fn a_sleep_is_noticed_with_its_bounds_and_its_length() {
        let mut watch = SleepWatch::default();
        assert_eq!(watch.observe(Time::from_secs(10), 5_000), None);
        assert_eq!(watch.observe(Time::from_secs(11), 5_200), None);
        let hour = 3_600_000_000_000;
        assert_eq!(
            watch.observe(Time::from_secs(3612), 5_300 + hour),
            Some((Time::from_secs(11), Time::from_secs(3612), hour + 100))
        );
        assert_eq!(watch.observe(Time::from_secs(3613), 5_300 + hour), None);
    }

    #[test]
    fn a_slew_is_said_when_it_begins_and_when_it_ends() {
        let mut watch = SlewWatch::default();
        let (mut steered, mut raw) = (0, 7_000);
        let mut said = Vec::new();
        for minute in 0..30 {
            let ppm = if (10..20).contains(&minute) { 500 } else { 12 };
            for _ in 0..60 {
                raw += 1_000_000_000;
                steered += 1_000_000_000 + 1_000 * ppm;
                said.extend(watch.observe(steered, raw));
            }
        }
        // A window with both rates may come between.
        assert_eq!(said.first().map(|s| s.0), Some(12));
        assert_eq!(said.last().map(|s| s.1), Some(12));
        assert!(said.iter().any(|s| s.1 == 500), "{said:?}");
    }

    proptest! {
        #[test]
        fn a_drifting_clock_over_a_jittery_path_is_never_taken_for_a_step(
            ppm in -500i64..500, ahead in -1_000_000_000_000i64..1_000_000_000_000,
            delays in prop::collection::vec((0i64..400_000_000, 0i64..400_000_000, 0i64..1_000_000), 1..300),
        ) {
            let mut far = FarClock::default();
            let remote = |t: i64| t + ahead + t * ppm / 1_000_000;
            for (i, (up, down, hold)) in delays.into_iter().enumerate() {
                let sent = i as i64 * 10_000_000;
                let step = far.observe(sent, remote(sent + up), remote(sent + up + hold), sent + up + hold + down);
                prop_assert_eq!(step, None);
            }
        }
    }
}
