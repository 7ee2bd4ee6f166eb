//! Shape of a kind: what it is called, what it can be told, how it gets its rows, and its answer.

use crate::answer::Outcome;
use crate::host::Stopped;
use crate::steps::Steps;
use base::Bytes;
use base::program::{Sending, Train};
use base::record::Recording;
use base::words::{Entry, Words};

/// Facts of a run that steps are built from.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Upper limit on what the run puts on the line, both directions together.
    pub budget: Bytes,
    pub far: Far,
}

/// Place of the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Far {
    /// A server of somebody's.
    #[default]
    Elsewhere,
    /// A network namespace of ours on this machine, with an emulated link before it.
    Namespace,
    /// Virtual time.
    Virtual,
}

impl Setting {
    /// Far end of somebody's.
    pub fn of(budget: Bytes) -> Setting {
        Setting {
            budget,
            far: Far::default(),
        }
    }

    /// Allows a kind to put as much on the line as it needs at most.
    ///
    /// # Errors
    /// The budget is smaller.
    pub fn afford(&self, stage: &str, needs: Bytes) -> Result<(), Stopped> {
        if needs <= self.budget {
            return Ok(());
        }
        Err(Stopped::Budget {
            stage: stage.into(),
            next: needs,
            spent: Bytes::ZERO,
            budget: self.budget,
        })
    }
}

/// Steps, or why they cannot begin.
pub type Built = Result<Box<dyn Steps>, Stopped>;

/// Source of a kind's rows.
#[derive(Clone, Copy)]
pub enum How {
    /// Crafted trains alone: the next sending, given all trains so far; none when the answer is there.
    Trains(fn(&Words, &[Train]) -> Option<Sending>),
    /// Steps of the kind's own.
    Steps(fn(&Words, &Setting) -> Built),
}

/// Specification of a kind.
pub struct Spec {
    /// Name and parameters; the summary is the question that it answers.
    pub entry: Entry,
    /// Cost in words: time, and bytes in terms of the link.
    pub takes: &'static str,
    /// True if its answer is right beside cross traffic.
    pub beside_others: bool,
    /// True if it may send nearly as much as the budget allows.
    pub comes_near_budget: bool,
    /// Warning that a person must read before the run.
    pub warning: Option<fn(&Words) -> Option<&'static str>>,
    /// Source of its rows.
    pub how: How,
    /// Answer from a recording with these parameters.
    pub answer: fn(&Words, &Recording) -> Outcome,
}
