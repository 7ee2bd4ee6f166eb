//! Runners of the kinds whose steps do not run over every host yet. A kind is in this table by its name.

mod check;
mod collapse;
mod dns;
mod ipv6;
mod middlebox;
mod page;

use crate::recorder::Shared;
use anyhow::Context;
use base::program::Sending;
use base::record::Row;
use base::words::Words;
use base::{Bytes, Duration};
use experiment::tcp::{Control, Offload};
use experiment::{Action, ProbeSpec, Seen, Setting, Stage, Steps, Stopped};
use live::clock::Clock;
use live::craft::{self, CraftError};
use live::emulate::NetNs;
use live::errand::{Errand, Tally};
use live::path;
use live::sockets::{Setup, Sockets};
use live::tcp;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What a runner is given. It runs in the network namespace that it shall measure from.
pub struct Run<'a> {
    pub words: &'a Words,
    /// The far end, and what may be sent.
    pub plan: &'a craft::Plan,
    /// The far end's network namespace where we made that and the one that this runs in: their settings may be changed.
    pub far: Option<&'a NetNs>,
    pub clock: Clock,
    pub rows: Sender<Row>,
    /// Rows so far.
    pub so_far: Shared,
    /// The recording's directory, for what is no table.
    pub recording: &'a Path,
    /// Of what no row tells.
    pub tally: Tally,
    pub watch: &'a mut (dyn craft::Watch + Send),
}

pub type Runner = fn(Run) -> anyhow::Result<()>;

const RUNNERS: &[(&str, Runner)] = &[
    ("path", path),
    ("tcp", tcp),
    ("dns", dns::run),
    ("ipv6", ipv6::run),
    ("middlebox", middlebox::run),
    ("page", page::run),
    ("collapse", collapse::run),
    ("check", check::run),
];

fn of(kind: &str) -> Option<Runner> {
    RUNNERS.iter().find(|(name, _)| *name == kind).map(|r| r.1)
}

/// Warning that a person must read before a kind runs.
pub fn warning(probe: &ProbeSpec) -> Option<&'static str> {
    match probe.kind().entry.name {
        "middlebox" => middlebox::warning(probe.words()),
        _ => None,
    }
}

/// Carries one kind out: by its steps, or by its runner once the line is quiet. `sent` is told each sending before it
/// begins.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn carry_out(
    probe: &ProbeSpec,
    run: Run,
    sent: &mut dyn FnMut(&Sending),
) -> anyhow::Result<()> {
    let kind = probe.kind();
    let setting = Setting {
        budget: run.plan.budget,
    };
    if let Some(mut steps) = probe.steps(&setting).map_err(CraftError::from)? {
        let mut steps = Telling {
            steps: &mut *steps,
            sent,
        };
        return run.over_sockets(&mut steps);
    }
    let runner = of(kind.entry.name).context("the kind has neither steps nor a runner")?;
    if !kind.beside_others {
        craft::await_quiet(run.plan, run.clock, &run.rows, run.watch)?;
    }
    runner(run)
}

/// Steps whose sendings somebody is told of.
struct Telling<'a> {
    steps: &'a mut dyn Steps,
    sent: &'a mut dyn FnMut(&Sending),
}

impl Steps for Telling<'_> {
    fn next(&mut self, seen: &Seen) -> Action {
        let action = self.steps.next(seen);
        if let Action::Send(sending) | Action::TrySend(sending) = &action {
            (self.sent)(sending);
        }
        action
    }

    fn ended_early(&mut self, why: &str) -> Vec<Action> {
        self.steps.ended_early(why)
    }

    fn shown(&self, sending: &Sending, stage: Stage) -> Stage {
        self.steps.shown(sending, stage)
    }
}

impl Run<'_> {
    fn over_sockets(self, steps: &mut dyn Steps) -> anyhow::Result<()> {
        let setup = Setup {
            so_far: self.so_far,
            interface: self.plan.interface.clone(),
            tally: self.tally,
            ..Setup::new(self.plan.peer.clone(), self.clock, self.rows)
        };
        let mut sockets = Sockets::new(setup);
        experiment::run(steps, &self.plan.bounds(), &mut sockets, self.watch)?;
        Ok(())
    }

    /// Whether it may put as much on the line as it needs at most.
    ///
    /// # Errors
    /// It may not.
    fn afford(&self, stage: &str, needs: Bytes) -> Result<(), CraftError> {
        if needs <= self.plan.budget {
            return Ok(());
        }
        Err(Stopped::Budget {
            stage: stage.into(),
            next: needs,
            spent: Bytes::ZERO,
            budget: self.plan.budget,
        }
        .into())
    }

    /// Does what is asked for over connections and datagrams of its own, telling how far it is; `whole` is about how long
    /// it takes, zero where its stages know that.
    fn errand<E: Into<anyhow::Error>>(
        self,
        whole: Duration,
        work: impl FnOnce(&mut Errand) -> Result<(), E>,
    ) -> anyhow::Result<()> {
        let peer = self.plan.peer.clone();
        let mut errand = Errand::new(
            peer,
            self.clock,
            self.rows,
            self.tally,
            self.plan.beside_others,
            self.watch,
            whole,
        );
        errand.waits = self.plan.waits;
        work(&mut errand).map_err(Into::into)
    }
}

/// The hops of the way, at rest and under load.
fn path(run: Run) -> anyhow::Result<()> {
    let params: experiment::path::Params = run.words.read();
    let plan = path::Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        idle: params.idle,
        load: params.hold,
        directions: params.load.directions().to_vec(),
        interval: params.interval,
        hops: params.hops,
        flows: params.flows,
        landmarks: landmarks(&params.landmarks)?,
    };
    run.errand(Duration::ZERO, |errand| path::run(&plan, errand))
}

/// Other hosts to be asked, by their names.
fn landmarks(names: &[Arc<str>]) -> anyhow::Result<Vec<(String, IpAddr)>> {
    names
        .iter()
        .map(|v| {
            let name = v.to_string();
            let address = live::resolve::server(&name, 0, false, false)?;
            Ok((name, address.ip().to_canonical()))
        })
        .collect()
}

/// Transfers by each controller, one after the other.
fn tcp(run: Run) -> anyhow::Result<()> {
    let params: experiment::tcp::Params = run.words.read();
    let controls = match params.control {
        Control::All => ["cubic", "reno", "bbr"].map(String::from).to_vec(),
        one => vec![one.word().to_string()],
    };
    let windows = match params.window.as_slice() {
        [] => vec![None],
        all => all.iter().copied().map(Some).collect(),
    };
    let plan = tcp::Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        controls,
        windows,
        offload: match params.offload {
            Offload::Both => vec![Some(true), Some(false)],
            Offload::System => vec![None],
        },
        sizes: params.size,
        repeats: params.repeats,
        far: run.far,
        directions: params.direction.directions().to_vec(),
    };
    run.errand(Duration::ZERO, |errand| tcp::run(&plan, errand))
}

#[cfg(test)]
mod tests {
    use experiment::{How, PROBES};

    #[test]
    fn every_kind_that_sends_otherwise_has_its_runner() {
        for spec in PROBES {
            let own = matches!(spec.how, How::Own);
            assert_eq!(
                own,
                super::of(spec.entry.name).is_some(),
                "{}",
                spec.entry.name
            );
        }
    }
}
