//! Clock of a run. Readings are UNIX nanoseconds that advance with the monotonic clock from a single reading of the
//! wall clock, so that neither NTP's steps nor an operator's bend a delay. Of Linux's monotonic clocks it is
//! `CLOCK_BOOTTIME`, which keeps running during suspend: slots of that time are missed, not forgotten.

use base::Time;

#[cfg(target_os = "linux")]
pub use linux::{awake_ns, mono_ns, raw_ns, wall_ns};
#[cfg(target_os = "linux")]
pub(crate) use linux::{ns_of, timespec};
#[cfg(not(target_os = "linux"))]
pub use other::{mono_ns, wall_ns};

/// Clock that is freely copied: every thread of a run shares one origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// UNIX time of monotonic zero, as read at the begin of the run.
    origin_unix_ns: i64,
    /// Monotonic time at the begin of the run.
    start_mono_ns: i64,
}

#[cfg(target_os = "linux")]
mod linux {
    use nix::sys::time::TimeSpec;
    use nix::time::{ClockId, clock_gettime};

    fn read(id: ClockId) -> i64 {
        ns_of(clock_gettime(id).expect("the kernel has this clock"))
    }

    /// Nanoseconds of a time of the kernel, whose fields are narrower on processors of 32 bits.
    pub(crate) fn ns_of(t: TimeSpec) -> i64 {
        i64::try_from(std::time::Duration::from(t).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Time of the kernel of so many nanoseconds; zero of a negative number.
    pub(crate) fn timespec(ns: i64) -> TimeSpec {
        TimeSpec::from_duration(std::time::Duration::from_nanos(ns.max(0).unsigned_abs()))
    }

    pub fn mono_ns() -> i64 {
        read(ClockId::CLOCK_BOOTTIME)
    }

    /// Monotonic time that stands still during suspend.
    pub fn awake_ns() -> i64 {
        read(ClockId::CLOCK_MONOTONIC)
    }

    /// Time at the oscillator's own rate, which no time service steers.
    pub fn raw_ns() -> i64 {
        read(ClockId::CLOCK_MONOTONIC_RAW)
    }

    pub fn wall_ns() -> i64 {
        read(ClockId::CLOCK_REALTIME)
    }
}

/// Clocks of the standard library. A monotonic one may stand still during suspend.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};

    static START: OnceLock<Instant> = OnceLock::new();

    pub fn mono_ns() -> i64 {
        let passed = START.get_or_init(Instant::now).elapsed();
        i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX)
    }

    pub fn wall_ns() -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let passed = since.unwrap_or_default().as_nanos();
        i64::try_from(passed).unwrap_or(i64::MAX)
    }
}

/// `CLOCK_REALTIME` minus the monotonic clock now. It turns a kernel timestamp, which is wall time, into monotonic
/// time. The wall clock is read between two readings of the monotonic one; their distance bounds the error.
pub fn wall_minus_mono_ns() -> i64 {
    let before = mono_ns();
    let wall = wall_ns();
    let after = mono_ns();
    wall - (before + (after - before) / 2)
}

impl Clock {
    /// Reads both clocks: the run starts now.
    pub fn start() -> Clock {
        Clock {
            origin_unix_ns: wall_minus_mono_ns(),
            start_mono_ns: mono_ns(),
        }
    }

    /// Clock whose labels are later by `by_ns`, for use after the wall clock was set.
    pub fn relabelled(self, by_ns: i64) -> Clock {
        Clock {
            origin_unix_ns: self.origin_unix_ns + by_ns,
            ..self
        }
    }

    /// Present time in the form of recordings.
    pub fn unix_ns(&self) -> i64 {
        self.from_mono_ns(mono_ns())
    }

    /// Monotonic reading in the form of recordings.
    pub fn from_mono_ns(&self, mono: i64) -> i64 {
        mono + self.origin_unix_ns
    }

    /// Present time for the pure crates: nanoseconds since the run began.
    pub fn now(&self) -> Time {
        Time::from_nanos((mono_ns() - self.start_mono_ns).max(0) as u64)
    }

    /// Monotonic reading for which [`Clock::now`] returned `t`.
    pub fn mono_of(&self, t: Time) -> i64 {
        self.start_mono_ns + t.as_nanos() as i64
    }
}
