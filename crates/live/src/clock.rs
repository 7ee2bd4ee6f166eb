//! The one clock of a run. Readings are UNIX nanoseconds that advance with the monotonic clock from a
//! single reading of the wall clock, so that neither NTP's steps nor an operator's bend a delay. Of Linux's
//! monotonic clocks it is `CLOCK_BOOTTIME`, which goes on while the host sleeps: slots that were slept through
//! are missed, not forgotten.

use base::Time;
use nix::time::{ClockId, clock_gettime};

/// Copied freely: every thread of a run shares one origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// UNIX time of monotonic zero, as read when the run began.
    origin_unix_ns: i64,
    /// Monotonic time at which the run began.
    start_mono_ns: i64,
}

fn read(id: ClockId) -> i64 {
    let t = clock_gettime(id).expect("the kernel has this clock");
    t.tv_sec() * 1_000_000_000 + t.tv_nsec()
}

pub fn mono_ns() -> i64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// The monotonic clock that stands still while the host sleeps.
pub fn awake_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The oscillator's own rate, which no time service steers.
pub fn raw_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC_RAW)
}

pub fn wall_ns() -> i64 {
    read(ClockId::CLOCK_REALTIME)
}

/// `CLOCK_REALTIME` minus the monotonic clock now: what turns a kernel timestamp, which is wall time,
/// into monotonic time. Read wall between two readings of mono, so that it is good to their distance.
pub fn wall_minus_mono_ns() -> i64 {
    let before = mono_ns();
    let wall = wall_ns();
    let after = mono_ns();
    wall - (before + (after - before) / 2)
}

impl Clock {
    /// Reads both clocks: the run begins now.
    pub fn start() -> Clock {
        Clock {
            origin_unix_ns: wall_minus_mono_ns(),
            start_mono_ns: mono_ns(),
        }
    }

    /// The same clock with labels that are later by so much: after the wall clock was set.
    pub fn relabelled(self, by_ns: i64) -> Clock {
        Clock {
            origin_unix_ns: self.origin_unix_ns + by_ns,
            ..self
        }
    }

    /// Now, as recordings write it.
    pub fn unix_ns(&self) -> i64 {
        self.from_mono_ns(mono_ns())
    }

    /// A monotonic reading, as recordings write it.
    pub fn from_mono_ns(&self, mono: i64) -> i64 {
        mono + self.origin_unix_ns
    }

    /// Now, as the pure rooms are told it: nanoseconds since the run began.
    pub fn now(&self) -> Time {
        Time::from_nanos((mono_ns() - self.start_mono_ns).max(0) as u64)
    }

    /// The monotonic reading that [`Clock::now`] gave as `t`.
    pub fn mono_of(&self, t: Time) -> i64 {
        self.start_mono_ns + t.as_nanos() as i64
    }
}
