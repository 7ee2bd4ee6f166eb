//! One kind after the other, each within its time and its part of the budget.

use super::{Params, Step, next};
use crate::ask::Ask;
use crate::course::{Course, OfCourse};
use crate::dns;
use crate::host::Stopped;
use crate::spec::{Far, Setting};
use crate::steps::{Part, PartDone};
use base::noted::check::CheckNote;
use base::{Bytes, Duration};
use std::cell::RefCell;
use std::rc::Rc;

/// Limit on each answer of the server.
const PATIENCE: Duration = Duration::from_secs(8);
/// A step that cannot have this much time is not begun.
const LEAST: Duration = Duration::from_secs(1);
/// Distance between the first trains of two steps.
const TRAINS: i64 = 1000;

/// # Errors
/// None: each step is told its part of the budget.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let setting = *setting;
    let whole = params.within;
    Ok(OfCourse::new(whole, move |course| {
        events(course, params, setting)
    }))
}

async fn events(course: Course, params: Params, setting: Setting) -> Result<(), Stopped> {
    // If nobody is there at all, that is the answer, once.
    course.ask(Ask::Reach(PATIENCE)).await;
    let (began, whole) = (course.now(), params.within);
    let mut trains = Bytes::ZERO;
    let mut failures: Vec<String> = Vec::new();
    let mut done = 0;
    loop {
        let left = whole.saturating_sub(course.now().saturating_since(began));
        let spent = trains + course.tally();
        let budget = Bytes::new(setting.budget.get().saturating_sub(spent.get()));
        let Some(step) = next(&params, done, left, budget) else {
            break;
        };
        let began_ns = course.unix_ns();
        let setting = Setting { budget, ..setting };
        let went = match prepared(&step, &setting) {
            Err(problem) => PartDone {
                problem: Some(problem),
                ..PartDone::default()
            },
            Ok(steps) => {
                let part = Part {
                    steps: Rc::new(RefCell::new(steps)),
                    title: step.title,
                    number: done + 1,
                    at_most: step.at_most,
                    budget,
                    first_train: done as i64 * TRAINS,
                    began,
                    whole,
                };
                course.carry(part).await
            }
        };
        trains += went.trains;
        let note = CheckNote {
            probe: step.probe.to_string(),
            began_ns,
            ended_ns: course.unix_ns(),
            problem: went.problem.clone(),
            bytes: went.tally.get(),
        };
        course.note(&note, step.title).await;
        if went.interrupted {
            return Err(Stopped::Interrupted);
        }
        failures.extend(went.problem);
        done += 1;
    }
    match failures.first() {
        Some(first) if failures.len() == done => Err(Stopped::Unusable {
            why: format!("none of the steps could be done: {first}"),
        }),
        _ => Ok(()),
    }
}

/// The steps of one step.
///
/// # Errors
/// The reason why it is not begun.
fn prepared(step: &Step, setting: &Setting) -> Result<Box<dyn crate::steps::Steps>, String> {
    if step.at_most < LEAST {
        return Err("no time was left for it".into());
    }
    if let Some(why) = cannot(step, setting.far) {
        return Err(why.into());
    }
    step.probe.steps(setting).map_err(|e| e.to_string())
}

/// Reason why a step would find a fault that is none.
fn cannot(step: &Step, far: Far) -> Option<&'static str> {
    let in_use = step.probe.kind().entry.name == "dns"
        && step
            .probe
            .words()
            .read::<dns::Params>()
            .resolvers
            .is_empty();
    (in_use && far == Far::Namespace)
        .then_some("both ends are on this machine, and no resolver is beyond the emulated line")
}
