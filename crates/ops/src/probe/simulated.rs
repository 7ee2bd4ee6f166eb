//! One kind carried out in virtual time, over a link whose truth is known.

use super::Plan;
use crate::session::{Session, Watched};
use crate::usage;
use base::Duration;
use base::record::Direction;
use experiment::spec::Far;
use experiment::{Bounds, Setting};
use sim::bufferbloat::{self, Cross};

/// Mean length of a burst of cross traffic, which is always on.
const BURST: Duration = Duration::from_secs(1);

/// Carries the plan's kind out; gives the end of the virtual time, UNIX ns.
///
/// # Errors
/// More than one link; a kind that ended early, whose rows up to then were sent.
pub(super) fn carry_out(
    plan: &Plan,
    seed: u64,
    session: &Session,
    watch: &mut Watched<'_>,
) -> (anyhow::Result<()>, Option<i64>) {
    let [link] = &plan.links[..] else {
        return (
            Err(usage("virtual time has one link: give --link once")),
            None,
        );
    };
    let setting = Setting {
        budget: plan.budget,
        far: Far::Virtual,
    };
    let mut steps = match plan.probe.steps(&setting) {
        Ok(steps) => steps,
        Err(e) => return (Err(live::CraftError::from(e).into()), None),
    };
    let mut simulated = bufferbloat::Plan::new(link.clone(), seed);
    simulated.cross.extend(plan.others.map(|rate| Cross {
        direction: Direction::Up,
        rate,
        on: BURST,
        off: Duration::ZERO,
        here: false,
    }));
    let bounds = Bounds {
        others: plan.policy(),
        ..Bounds::of(plan.budget)
    };
    let (outcome, went) = match bufferbloat::observe(&simulated, &mut *steps, &bounds, watch) {
        Ok(observed) => observed,
        Err(e) => return (Err(e.into()), None),
    };
    let ended_ns = outcome.recording.meta.ended_ns;
    session.record(outcome.recording);
    // As over sockets, so that an interruption is known for one.
    let went = went.map_err(|e| live::CraftError::from(e).into());
    (went, ended_ns)
}
