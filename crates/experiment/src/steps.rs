//! An experiment as a state machine: told what has been seen, it says what to do next.

use crate::ask::{Answer, Ask};
use crate::host::{Counted, Ended, Fresh, Load, Loaded, Probing, Scouted};
use base::noted::Noted;
use base::program::{Sending, Train};
use base::record::{Event, Recording, Row, Text};
use base::{BitsPerSec, Bytes, Duration, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Shows the rows so far to whoever asks.
pub type Rows<'a> = dyn Fn(&mut dyn FnMut(&Recording)) + 'a;

/// State that steps may know: the time, rows and states so far.
pub struct Seen<'a> {
    /// Present time.
    pub now: Time,
    /// The same as recordings write it.
    pub unix_ns: i64,
    /// Trains of this run so far.
    pub trains: &'a [Train],
    /// Reason for which the latest sending was not carried out, of those that a run can do without.
    pub failed: Option<&'a str>,
    /// Rates of the latest packets back to back.
    pub scouted: Option<Scouted>,
    /// States of the running loads at the end of the latest wait.
    pub loads: &'a [Loaded],
    /// Loads that the latest [`Action::Collect`] brought.
    pub ended: &'a [Ended],
    /// The host's answer to the latest question.
    pub answer: Option<&'a Answer>,
    /// Outcome of the latest part.
    pub part: Option<&'a PartDone>,
    /// Bytes of whole IP packets so far, trains not included.
    pub tally: Bytes,
    /// Size of the IP packet of a probe.
    pub probe_size: Bytes,
    /// Target of the probes in the recording.
    pub probe_target: Text,
    /// Bytes of the IP and UDP headers of a datagram to the far end.
    pub headers: u32,
    /// Shows the rows so far.
    pub rows: &'a Rows<'a>,
}

impl Seen<'_> {
    /// The answer to a question about the rows so far.
    pub fn of_rows<T: Default>(&self, ask: impl Fn(&Recording) -> T) -> T {
        let mut answer = T::default();
        (self.rows)(&mut |recording| answer = ask(recording));
        answer
    }
}

/// A stage as a person sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// Number of the stage, from 1.
    pub number: usize,
    /// Time since the begin of the stage.
    pub elapsed: Duration,
    /// Time that the stage takes, as far as that can be known.
    pub whole: Duration,
    /// Traffic of the whole run, where progress is a share of that instead of time.
    pub of_bytes: Option<Bytes>,
    /// Rate of the uplink, if there is a load.
    pub rate_up: Option<BitsPerSec>,
    /// Rate of the downlink, if there is a load.
    pub rate_down: Option<BitsPerSec>,
    /// Further text for the live view.
    pub note: String,
}

/// News for whoever watches a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Data that the run is about to carry.
    Estimate {
        /// Bytes of all loads, both directions together; null where the link's rate is not known yet.
        about: Option<Bytes>,
        /// Upper limit on it.
        budget: Bytes,
    },
}

/// Another experiment, which is carried out to its end within this one. Everything that runs ends before it and after it.
#[derive(Clone)]
pub struct Part {
    /// Steps of the experiment.
    pub steps: Rc<RefCell<Box<dyn Steps>>>,
    /// Title for a person, and number among the parts, from 1.
    pub title: &'static str,
    /// Number among the parts, from 1.
    pub number: usize,
    /// Limit on its time.
    pub at_most: Duration,
    /// Upper limit on its traffic.
    pub budget: Bytes,
    /// Number of its first train.
    pub first_train: i64,
    /// Start and length of the whole, for progress.
    pub began: Time,
    /// Length of the whole.
    pub whole: Duration,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        Rc::ptr_eq(&self.steps, &other.steps)
    }
}

/// Outcome of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartDone {
    /// Reason why it ended early.
    pub problem: Option<String>,
    /// True if the user wants no more.
    pub interrupted: bool,
    /// Bytes of whole IP packets: of its trains, and of everything else.
    pub trains: Bytes,
    /// Bytes of everything but trains.
    pub tally: Bytes,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends trains, once the line has rested as long as they ask.
    Send(Sending),
    /// The same, where the run goes on without it: [`Seen::failed`] says why it was not carried out.
    TrySend(Sending),
    /// Lets time pass.
    Wait(Duration),
    /// Begins rows of counters.
    Count(Counted),
    /// Takes the far end's uplink for this long.
    Turn(Duration),
    /// Begins probes, or changes their interval.
    Probe(Probing),
    StopProbes,
    /// Sends so many packets of this size back to back.
    Scout(u8, Bytes),
    Load(Load),
    /// Ends the load of this number, all of them without one.
    StopLoad(Option<u32>),
    /// Asks the far end for its account of the loads that were stopped.
    Collect,
    Fresh(Option<Fresh>),
    /// Ends the run if others use the line. Takes two seconds, in which no load of ours may run. The stage has this number.
    LookForOthers(usize),
    /// Puts a question to the host.
    Ask(Ask),
    /// Carries another experiment out; [`Seen::part`] says what became of it.
    Carry(Part),
    /// Writes an event: kind, subject, detail.
    Event(&'static str, String, String),
    Row(Row),
    Show(Stage),
    Tell(Told),
    /// Ends the run, for a reason that the steps know.
    End(crate::host::Stopped),
    Done,
}

impl Action {
    /// Action that writes an event.
    pub fn event(
        kind: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
    ) -> Action {
        Action::Event(kind, subject.into(), detail.into())
    }

    /// Action that writes a note about `subject`.
    pub fn note(note: &impl Noted, unix_ns: i64, subject: &str) -> Action {
        Action::Row(Row::Event(note.event(unix_ns, subject)))
    }
}

/// Steps of a run.
pub trait Steps {
    /// The next action, given everything seen so far.
    fn next(&mut self, seen: &Seen) -> Action;

    /// Steps that close a run which ends early, for this reason.
    fn ended_early(&mut self, why: &str) -> Box<dyn Steps> {
        let _ = why;
        Box::new(Planned::default())
    }

    /// The stage that a person sees while a sending is under way.
    fn shown(&self, sending: &Sending, stage: Stage) -> Stage {
        let _ = sending;
        stage
    }
}

/// An experiment that only sends trains: a pure function of all trains so far.
pub struct OfTrains<F> {
    next: F,
    counts: bool,
}

impl<F: FnMut(&[Train]) -> Option<Sending>> OfTrains<F> {
    /// Creates the steps from a function of all trains so far.
    pub fn new(next: F) -> OfTrains<F> {
        OfTrains {
            next,
            counts: false,
        }
    }
}

impl<F: FnMut(&[Train]) -> Option<Sending>> Steps for OfTrains<F> {
    fn next(&mut self, seen: &Seen) -> Action {
        if !std::mem::replace(&mut self.counts, true) {
            return Action::Count(Counted::Interface);
        }
        (self.next)(seen.trains).map_or(Action::Done, Action::Send)
    }
}

/// Actions that follow each other whatever is seen meanwhile.
#[derive(Debug, Default)]
pub struct Planned(VecDeque<Action>);

impl Planned {
    /// Appends an action.
    pub fn then(&mut self, action: Action) {
        self.0.push_back(action);
    }

    /// Appends an action that writes an event.
    pub fn event(
        &mut self,
        kind: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.then(Action::event(kind, subject, detail));
    }

    /// Removes the first action.
    pub fn take(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    /// These actions, in this order.
    pub fn of(actions: impl IntoIterator<Item = Action>) -> Planned {
        Planned(actions.into_iter().collect())
    }

    /// Forgets what was planned and gives it.
    pub fn drain(&mut self) -> Vec<Action> {
        self.0.drain(..).collect()
    }
}

impl Steps for Planned {
    fn next(&mut self, _: &Seen) -> Action {
        self.take().unwrap_or(Action::Done)
    }
}

/// An event now.
pub fn event_at(t_ns: i64, kind: &str, subject: &str, detail: &str) -> Event {
    Event {
        t_ns,
        kind: kind.into(),
        subject: subject.into(),
        detail: detail.into(),
    }
}
