//! One kind after the other, each within its time and its part of the budget.

use super::{Run, carry_out};
use anyhow::Context;
use base::noted::Noted;
use base::noted::check::CheckNote;
use base::program::Sending;
use base::time::Time;
use base::{Bytes, Duration};
use experiment::check::{self, Step};
use experiment::{Stopped, dns};
use live::clock::Clock;
use live::craft::{self, CraftError, Progress, Watch};
use live::errand::Tally;

/// A server that needs longer than this for an answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(8);
/// A step that cannot have so much is not begun.
const LEAST: Duration = Duration::from_secs(1);
/// Numbers of trains of one step and those of the next.
const TRAINS: i64 = 1000;
/// Headers of IPv6 and UDP, the longer ones.
const HEADERS: u32 = 48;

pub fn run(run: Run) -> anyhow::Result<()> {
    let mut peer = run.plan.peer.clone();
    peer.patience = PATIENCE;
    // Where nobody is there at all, that is the answer, and not a list of it.
    peer.connect(None)?;
    let began = run.clock.now();
    let params: check::Params = run.words.read();
    let whole = params.within;
    let mut sent = Bytes::ZERO;
    let mut failures: Vec<anyhow::Error> = Vec::new();
    let mut done = 0;
    loop {
        let left = whole.saturating_sub(run.clock.now() - began);
        let spent = sent + run.tally.bytes();
        let budget = Bytes::new(run.plan.budget.get().saturating_sub(spent.get()));
        let Some(step) = check::next(&params, done, left, budget) else {
            break;
        };
        let plan = craft::Plan {
            peer: peer.clone(),
            first_train: done as i64 * TRAINS,
            budget,
            ..run.plan.clone()
        };
        let began_ns = run.clock.unix_ns();
        let tally = Tally::default();
        let mut watch = Within {
            step: &step,
            number: done + 1,
            clock: run.clock,
            began,
            whole,
            deadline: run.clock.now() + step.at_most,
            spent,
            inner: &mut *run.watch,
            late: false,
            stopped: false,
        };
        let result = if step.at_most < LEAST {
            Err(anyhow::anyhow!("no time was left for it"))
        } else if let Some(why) = cannot(&step, run.far.is_some()) {
            Err(anyhow::anyhow!(why))
        } else {
            let its = Run {
                words: step.probe.words(),
                plan: &plan,
                far: run.far,
                clock: run.clock,
                rows: run.rows.clone(),
                so_far: run.so_far.clone(),
                recording: run.recording,
                tally: tally.clone(),
                watch: &mut watch,
            };
            carry_out(&step.probe, its, &mut |sending: &Sending| {
                let bytes = sending.programs.iter().map(|p| p.bytes(HEADERS).get());
                sent += Bytes::new(bytes.sum());
            })
        };
        let (late, stopped) = (watch.late, watch.stopped);
        run.tally.add(tally.packets(), tally.bytes());
        let problem = result.as_ref().err().map(|e| {
            if late {
                format!("it took longer than the {:.0} that it had", step.at_most)
            } else {
                e.to_string()
            }
        });
        let note = CheckNote {
            probe: step.probe.to_string(),
            began_ns,
            ended_ns: run.clock.unix_ns(),
            problem,
            bytes: tally.bytes().get(),
        };
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let event = note.event(run.clock.unix_ns(), step.title);
        let _ = run.rows.send(event.into());
        if stopped {
            return Err(CraftError::from(Stopped::Interrupted).into());
        }
        failures.extend(result.err());
        done += 1;
    }
    if failures.len() == done {
        let first = failures.into_iter().next().context("there were no steps")?;
        return Err(first.context("none of the steps could be done"));
    }
    Ok(())
}

/// Why a step would find what is no fault.
fn cannot(step: &Step, own_namespace: bool) -> Option<&'static str> {
    let in_use = step.probe.kind().entry.name == "dns"
        && step
            .probe
            .words()
            .read::<dns::Params>()
            .resolvers
            .is_empty();
    (in_use && own_namespace)
        .then_some("both ends are on this machine, and no resolver is beyond the emulated line")
}

/// Ends a step that takes too long, and tells how far the whole is.
struct Within<'a> {
    step: &'a Step,
    number: usize,
    clock: Clock,
    began: Time,
    whole: Duration,
    deadline: Time,
    spent: Bytes,
    inner: &'a mut (dyn Watch + Send),
    /// The step's time was over.
    late: bool,
    /// The user wants no more.
    stopped: bool,
}

impl Watch for Within<'_> {
    fn progress(&mut self, p: &Progress) {
        let elapsed = self.clock.now() - self.began;
        self.inner.progress(&Progress {
            stage: self.step.title,
            number: self.number,
            elapsed,
            whole: self.whole,
            spent: self.spent + p.spent,
            note: [p.stage, &p.note].join(" "),
            rate_up: p.rate_up,
            rate_down: p.rate_down,
        });
    }

    fn interrupted(&mut self) -> bool {
        self.stopped |= self.inner.interrupted();
        self.late |= self.clock.now() > self.deadline;
        self.stopped || self.late
    }
}
