//! Recent seconds of a monitor's targets, for its screens: the terminal's and the browser's.

use base::Duration;
use experiment::monitor::{MonitorStatus, TargetStatus};
use serde::Serialize;
use std::collections::VecDeque;

/// Seconds that are kept.
pub const KEPT: usize = 3_600;

/// One second of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Time since the begin of the run, s.
    pub at_s: f64,
    /// Mean and largest round trip of the answers in this second, ms; none if nothing answered.
    pub mean_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// Probes whose loss became known in this second.
    pub lost: u64,
}

/// Recent seconds of one target.
#[derive(Clone, Debug)]
pub struct Recent {
    pub name: String,
    pub seconds: VecDeque<Second>,
    /// Time since the last answer, or since the begin of the run.
    pub silent: Duration,
    interval: Duration,
    heard: Duration,
    before: Counts,
}

/// Counts of a target since the begin of the run; the largest round trip is that of the last second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    answered: u64,
    sum: Duration,
    lost: u64,
    largest: Option<Duration>,
}

/// Recent seconds of all targets.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub targets: Vec<Recent>,
}

impl History {
    /// Takes the state of a second.
    pub fn take(&mut self, status: &MonitorStatus) {
        // The first state comes before the first second is over: nothing can have answered.
        if status.elapsed < Duration::from_millis(500) {
            return;
        }
        for t in &status.targets {
            let at = self.targets.iter().position(|r| *r.name == *t.name);
            let at = at.unwrap_or_else(|| {
                self.targets.push(Recent::new(&t.name, t.interval));
                self.targets.len() - 1
            });
            self.targets[at].take(status.elapsed, t);
        }
    }

    /// Recent seconds of a target.
    pub fn of(&self, name: &str) -> Option<&Recent> {
        self.targets.iter().find(|r| r.name == name)
    }
}

impl Recent {
    fn new(name: &str, interval: Duration) -> Recent {
        Recent {
            name: name.to_owned(),
            seconds: VecDeque::new(),
            silent: Duration::ZERO,
            interval,
            heard: Duration::ZERO,
            before: Counts::default(),
        }
    }

    fn take(&mut self, now: Duration, t: &TargetStatus) {
        let counts = Counts {
            answered: t.answered,
            sum: t.sum,
            lost: t.unanswered(),
            largest: t.largest,
        };
        self.count(now, counts);
    }

    fn count(&mut self, now: Duration, counts: Counts) {
        let before = std::mem::replace(&mut self.before, counts);
        let fresh = counts.answered.saturating_sub(before.answered);
        if fresh > 0 {
            self.heard = now;
        }
        self.silent = now.saturating_sub(self.heard);
        let sum = counts.sum.saturating_sub(before.sum);
        self.seconds.push_back(Second {
            at_s: now.as_secs_f64(),
            mean_ms: (fresh > 0).then(|| sum.as_millis_f64() / fresh as f64),
            max_ms: counts.largest.map(|d| d.as_millis_f64()),
            lost: counts.lost.saturating_sub(before.lost),
        });
        if self.seconds.len() > KEPT {
            self.seconds.pop_front();
        }
    }

    /// Silence of the outage in progress, if there is one.
    pub fn outage(&self) -> Option<Duration> {
        (self.silent >= super::silence(self.interval)).then_some(self.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_its_own_probes_only() {
        let mut recent = Recent::new("x", Duration::from_millis(100));
        let mut state = |s: u64, answered: u64, sum_ms: u64, lost: u64, largest: Option<u64>| {
            let counts = Counts {
                answered,
                sum: Duration::from_millis(sum_ms),
                lost,
                largest: largest.map(Duration::from_millis),
            };
            recent.count(Duration::from_secs(s), counts);
            (
                recent.seconds.back().copied().expect("one"),
                recent.outage(),
            )
        };
        let (first, _) = state(1, 10, 200, 0, Some(30));
        assert_eq!((first.mean_ms, first.max_ms), (Some(20.0), Some(30.0)));
        let (second, _) = state(2, 15, 450, 3, Some(90));
        assert_eq!(
            (second.mean_ms, second.max_ms, second.lost),
            (Some(50.0), Some(90.0), 3)
        );
        // Nothing answers from here on: an outage from the tenth second.
        for s in 3..=20 {
            let (last, outage) = state(s, 15, 450, 3, None);
            assert_eq!((last.mean_ms, last.max_ms, last.lost), (None, None, 0));
            let silent = Duration::from_secs(s - 2);
            assert_eq!(outage, (s >= 12).then_some(silent));
        }
    }
}
