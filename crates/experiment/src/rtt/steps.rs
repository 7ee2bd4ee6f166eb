//! Probes at an interval, until the last one has left and its successor has not.

use super::Params;
use crate::host::Probing;
use crate::run::TICK;
use crate::steps::{Action, Planned, Seen, Stage, Steps};
use base::{Duration, Time};

/// A run of the kind.
pub struct Rtt {
    interval: Duration,
    /// Time in which as many leave as were asked for.
    whole: Duration,
    planned: Planned,
    began: Option<Time>,
    over: bool,
}

impl Rtt {
    /// Creates the steps of a run.
    pub fn new(Params { count, interval }: Params) -> Rtt {
        Rtt {
            interval,
            whole: (interval * count).saturating_sub(interval / 2),
            planned: Planned::default(),
            began: None,
            over: false,
        }
    }

    fn plan(&mut self, seen: &Seen) {
        let Some(began) = self.began else {
            self.began = Some(seen.now);
            self.planned.then(Action::Probe(Probing {
                interval: self.interval,
                shortest: self.interval,
            }));
            return;
        };
        let elapsed = seen.now.saturating_since(began);
        self.planned.then(Action::Show(Stage {
            name: "rtt".into(),
            number: 1,
            elapsed,
            whole: self.whole,
            ..Stage::default()
        }));
        self.over = elapsed >= self.whole;
        self.planned.then(match self.over {
            true => Action::StopProbes,
            false => Action::Wait(self.whole.saturating_sub(elapsed).min(TICK)),
        });
    }
}

impl Steps for Rtt {
    fn next(&mut self, seen: &Seen) -> Action {
        if let Some(action) = self.planned.take() {
            return action;
        }
        if self.over {
            return Action::Done;
        }
        self.plan(seen);
        self.planned.take().unwrap_or(Action::Done)
    }

    fn ended_early(&mut self, _: &str) -> Box<dyn Steps> {
        Box::new(Planned::of([Action::StopProbes]))
    }
}
