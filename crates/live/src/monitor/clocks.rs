//! Incidents of this host's clocks: steps, slews, sleep.

use crate::clock::{Clock, awake_ns, mono_ns, raw_ns};
use crate::probe::wire::Wall;
use base::Time;
use measure::clock::{SleepWatch, SlewWatch};

pub struct Clocks {
    pub wall: Wall,
    /// Wall time minus the labels that rows get.
    label_error_ns: i64,
    sleep: SleepWatch,
    slew: SlewWatch,
}

impl Clocks {
    pub fn new(clock: Clock) -> Clocks {
        let mut clocks = Clocks {
            wall: Wall::new(clock),
            label_error_ns: 0,
            sleep: SleepWatch::default(),
            slew: SlewWatch::default(),
        };
        clocks.slept(clock.now());
        clocks
    }

    /// Step of the wall clock, ns, forward positive; each step is returned once.
    pub fn take_step(&mut self) -> Option<i64> {
        let by = self.wall.take_step()?;
        self.label_error_ns += by;
        Some(by)
    }

    pub fn label_error_ns(&self) -> i64 {
        self.label_error_ns
    }

    pub fn labels_moved(&mut self, by_ns: i64) {
        self.label_error_ns -= by_ns;
    }

    /// Sleep of the host since the last call: the instants around it, and its length.
    pub fn slept(&mut self, now: Time) -> Option<(Time, Time, i64)> {
        let slept = self.sleep.observe(now, mono_ns() - awake_ns());
        if slept.is_some() {
            self.slew.restart();
        }
        slept
    }

    /// Old and new slew, parts in a million, if it changed.
    pub fn slew(&mut self) -> Option<(i64, i64)> {
        self.slew.observe(mono_ns(), raw_ns())
    }
}
