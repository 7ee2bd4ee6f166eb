//! Steps written as one course of events: an `async` function, which the compiler turns into the state machine.
//!
//! Nothing runs beside it. Each `await` gives the loop one action; the function goes on when the loop asks for the next
//! one, and sees what came of the last. It knows no time but the one that it is told.

use crate::ask::{Answer, Ask};
use crate::host::{Ended, Loaded, Stopped};
use crate::steps::{Action, Part, PartDone, Seen, Stage, Steps};
use base::noted::Noted;
use base::{Bytes, Duration, Time};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// State that a course may know, as of its latest action.
#[derive(Clone, Debug, Default)]
struct Known {
    now: Time,
    unix_ns: i64,
    tally: Bytes,
    probe_size: Bytes,
    loads: Vec<Loaded>,
    ended: Vec<Ended>,
    answer: Option<Answer>,
    part: PartDone,
}

#[derive(Default)]
struct Shared {
    known: Known,
    /// The action that the course waits for.
    action: Option<Action>,
    /// True once it has been carried out.
    done: bool,
    /// About how long all of it takes.
    whole: Duration,
    began: Option<Time>,
    stages: usize,
    latest: String,
}

/// The course's end of the connection to the loop.
#[derive(Clone)]
pub struct Course(Rc<RefCell<Shared>>);

impl Course {
    /// Time now.
    pub fn now(&self) -> Time {
        self.0.borrow().known.now
    }

    /// Present time in the form of recordings.
    pub fn unix_ns(&self) -> i64 {
        self.0.borrow().known.unix_ns
    }

    /// Bytes of whole IP packets so far, trains not included.
    pub fn tally(&self) -> Bytes {
        self.0.borrow().known.tally
    }

    /// Size of the IP packet of a probe.
    pub fn probe_size(&self) -> Bytes {
        self.0.borrow().known.probe_size
    }

    /// State of a load at the end of the latest wait; null until there has been one since it began.
    pub fn load(&self, number: u32) -> Option<Loaded> {
        let known = &self.0.borrow().known;
        known.loads.iter().find(|l| l.number == number).copied()
    }

    /// States of all loads at the end of the latest wait.
    pub fn loads(&self) -> Vec<Loaded> {
        self.0.borrow().known.loads.clone()
    }

    /// Has the loop carry another experiment out.
    pub async fn carry(&self, part: Part) -> PartDone {
        self.act(Action::Carry(part)).await;
        std::mem::take(&mut self.0.borrow_mut().known.part)
    }

    /// Loads that the latest [`Action::Collect`] brought.
    pub fn ended(&self) -> Vec<Ended> {
        self.0.borrow().known.ended.clone()
    }

    /// Tells about how long the course takes, once that is known.
    pub fn takes(&self, whole: Duration) {
        self.0.borrow_mut().whole = whole;
    }

    /// Has the loop carry an action out.
    pub async fn act(&self, action: Action) {
        {
            let mut shared = self.0.borrow_mut();
            (shared.action, shared.done) = (Some(action), false);
        }
        poll_fn(|_| {
            let mut shared = self.0.borrow_mut();
            match std::mem::take(&mut shared.done) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Lets time pass.
    pub async fn wait(&self, time: Duration) {
        self.act(Action::Wait(time)).await;
    }

    /// Writes a note about `subject`.
    pub async fn note(&self, note: &impl Noted, subject: &str) {
        self.act(Action::note(note, self.unix_ns(), subject)).await;
    }

    /// The next stage, or the same one further on.
    pub async fn stage(&self, name: &str) {
        let stage = {
            let mut shared = self.0.borrow_mut();
            if name != shared.latest {
                shared.stages += 1;
                name.clone_into(&mut shared.latest);
            }
            let now = shared.known.now;
            let began = *shared.began.get_or_insert(now);
            Stage {
                name: name.into(),
                number: shared.stages,
                elapsed: now.saturating_since(began),
                whole: shared.whole,
                ..Stage::default()
            }
        };
        self.act(Action::Show(stage)).await;
    }

    /// Puts a question to the host. Null where the host's answer is to another question, which is a fault of the host.
    pub async fn ask(&self, ask: Ask) -> Option<Answer> {
        self.act(Action::Ask(ask)).await;
        self.0.borrow_mut().known.answer.take()
    }
}

type Events = Pin<Box<dyn Future<Output = Result<(), Stopped>>>>;
type Ending = Box<dyn FnOnce(Course) -> Events>;

/// A course as steps.
pub struct OfCourse {
    shared: Rc<RefCell<Shared>>,
    events: Option<Events>,
    /// Course that closes a run which ends early.
    ending: Option<Ending>,
}

impl OfCourse {
    /// `whole` is about how long the course takes.
    pub fn new<F>(whole: Duration, events: impl FnOnce(Course) -> F) -> OfCourse
    where
        F: Future<Output = Result<(), Stopped>> + 'static,
    {
        let shared = Rc::new(RefCell::new(Shared {
            whole,
            ..Shared::default()
        }));
        OfCourse {
            events: Some(Box::pin(events(Course(shared.clone())))),
            shared,
            ending: None,
        }
    }

    /// Gives the course that closes a run which ends early.
    pub fn ended_by<F>(self, ending: impl FnOnce(Course) -> F + 'static) -> OfCourse
    where
        F: Future<Output = Result<(), Stopped>> + 'static,
    {
        OfCourse {
            ending: Some(Box::new(|course| Box::pin(ending(course)))),
            ..self
        }
    }
}

impl Steps for OfCourse {
    fn next(&mut self, seen: &Seen) -> Action {
        {
            let mut shared = self.shared.borrow_mut();
            shared.known = Known {
                now: seen.now,
                unix_ns: seen.unix_ns,
                tally: seen.tally,
                probe_size: seen.probe_size,
                loads: seen.loads.to_vec(),
                ended: seen.ended.to_vec(),
                answer: seen.answer.cloned(),
                part: seen.part.cloned().unwrap_or_default(),
            };
            shared.done = true;
        }
        let Some(events) = &mut self.events else {
            return Action::Done;
        };
        let polled = events
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let asked = self.shared.borrow_mut().action.take();
        match (polled, asked) {
            (Poll::Pending, Some(action)) => action,
            (Poll::Ready(Err(why)), _) => {
                self.events = None;
                Action::End(why)
            }
            // A course that waits for something else than the loop would wait for ever.
            (Poll::Ready(Ok(())) | Poll::Pending, _) => {
                self.events = None;
                Action::Done
            }
        }
    }

    fn ended_early(&mut self, _: &str) -> Box<dyn Steps> {
        self.events = None;
        let ending = self.ending.take();
        Box::new(OfCourse {
            events: ending.map(|ending| ending(Course(self.shared.clone()))),
            shared: self.shared.clone(),
            ending: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(now: Time, then: &mut dyn FnMut(&Seen)) {
        then(&Seen {
            now,
            unix_ns: now.as_nanos() as i64,
            trains: &[],
            failed: None,
            scouted: None,
            loads: &[],
            ended: &[],
            answer: None,
            part: None,
            tally: Bytes::ZERO,
            probe_size: Bytes::ZERO,
            probe_target: "udp".into(),
            headers: 28,
            rows: &|_| {},
        });
    }

    #[test]
    fn a_course_gives_one_action_at_a_time_and_is_told_the_time() {
        let mut steps = OfCourse::new(Duration::ZERO, |course| async move {
            course.wait(Duration::from_secs(1)).await;
            let now = course.now().as_nanos().to_string();
            course.act(Action::event("e", now, "")).await;
            Err(Stopped::Interrupted)
        });
        let mut actions = Vec::new();
        for second in [3, 4, 5, 6] {
            seen(Time::from_secs(second), &mut |s| {
                actions.push(steps.next(s))
            });
        }
        let expected = [
            Action::Wait(Duration::from_secs(1)),
            Action::event("e", "4000000000", ""),
            Action::End(Stopped::Interrupted),
            Action::Done,
        ];
        assert_eq!(actions, expected);
    }
}
