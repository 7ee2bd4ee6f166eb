//! An experiment on systems other than Linux: over real links to `tailback serve`, or in virtual time.

use super::{Answer, Ready};
use crate::progress::Observer;
use crate::session::{Session, TIMED_BY_PROGRAM, reached};
use crate::usage;
use anyhow::Context;
use base::Duration;
use experiment::spec::Far;
use experiment::{Bounds, Setting};
use live::CraftError;
use live::load::Peer;
use live::sockets::{Setup, Sockets};
use live::tally::Tally;

/// Runs the experiment over a real link.
///
/// # Errors
/// An option that needs Linux, and errors of the run.
pub(super) fn run(ready: &Ready<'_>, _: &str, observer: &dyn Observer) -> anyhow::Result<Answer> {
    let log_in = &ready.plan.log_in;
    if log_in.check.is_some() || log_in.command.is_some() {
        return Err(usage("--login-check and --login-cmd need Linux"));
    }
    ready.once(observer)
}

/// # Errors
/// Always: links are emulated on Linux.
pub(super) fn prepare() -> anyhow::Result<()> {
    Err(usage(
        "emulating a link in real time needs Linux: name a server, or add --virtual",
    ))
}

pub(super) fn measure(
    ready: &Ready<'_>,
    session: &Session,
    observer: &dyn Observer,
) -> anyhow::Result<()> {
    session.doubt("instrument", TIMED_BY_PROGRAM);
    let plan = ready.plan;
    let server = ready.server.context("a plan has a server or a link")?;
    reached(server, &ready.access, observer)?;
    let setting = Setting {
        budget: plan.budget,
        far: Far::Elsewhere,
    };
    let mut steps = plan.probe.steps(&setting).map_err(CraftError::from)?;
    let peer = Peer {
        server,
        access: ready.access.clone(),
        patience: Duration::from_secs(20),
    };
    let tally = Tally::default();
    let setup = Setup {
        so_far: session.recorder.shared.clone(),
        tally: tally.clone(),
        ..Setup::new(peer, session.clock, session.recorder.rows.clone())
    };
    let bounds = Bounds {
        waits: plan.waits,
        // No counter tells of cross traffic.
        others: experiment::Others::Welcome,
        ..Bounds::of(plan.budget)
    };
    let mut watch = session.watch(observer);
    let went = experiment::run(&mut *steps, &bounds, &mut Sockets::new(setup), &mut watch);
    if let Some(event) = tally.event(session.clock.unix_ns()) {
        let _ = session.recorder.rows.send(event.into());
    }
    went?;
    Ok(())
}
