//! What this host's clocks did: stepped, slewed, slept.

use crate::clock::{Clock, awake_ns, mono_ns, raw_ns};
use crate::timestamp::compare_clocks;
use base::Time;
use measure::clock::{SleepWatch, SlewWatch, WallClock};
use std::collections::VecDeque;

pub struct Clocks {
    pub wall: WallClock,
    /// When a step was noticed last.
    stepped_at: Option<Time>,
    steps: VecDeque<i64>,
    /// Wall time minus the labels that rows get.
    label_error_ns: i64,
    sleep: SleepWatch,
    slew: SlewWatch,
}

impl Clocks {
    pub fn new(clock: Clock) -> Clocks {
        let mut clocks = Clocks {
            wall: WallClock::default(),
            stepped_at: None,
            steps: VecDeque::new(),
            label_error_ns: 0,
            sleep: SleepWatch::default(),
            slew: SlewWatch::default(),
        };
        clocks.compare(clock);
        clocks.slept(clock.now());
        clocks
    }

    /// Compares the wall clock; to be done right after stamps were read.
    pub fn compare(&mut self, clock: Clock) {
        if let Some(by) = self.wall.observe(compare_clocks(clock)) {
            self.stepped_at = Some(clock.now());
            self.steps.push_back(by);
            self.label_error_ns += by;
        }
    }

    /// Whether all stamps since `since` are on one scale.
    pub fn steady_since(&self, since: Time) -> bool {
        self.stepped_at.is_none_or(|at| at < since)
    }

    pub fn take_step(&mut self) -> Option<i64> {
        self.steps.pop_front()
    }

    pub fn label_error_ns(&self) -> i64 {
        self.label_error_ns
    }

    pub fn labels_moved(&mut self, by_ns: i64) {
        self.label_error_ns -= by_ns;
    }

    /// Whether the host slept since it was asked last: between which instants and for how long.
    pub fn slept(&mut self, now: Time) -> Option<(Time, Time, i64)> {
        let slept = self.sleep.observe(now, mono_ns() - awake_ns());
        if slept.is_some() {
            self.slew.restart();
        }
        slept
    }

    /// From how much slew to how much, parts in a million, if that changed.
    pub fn slew(&mut self) -> Option<(i64, i64)> {
        self.slew.observe(mono_ns(), raw_ns())
    }
}
