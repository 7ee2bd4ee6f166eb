//! Kinds of probe that do not send crafted trains: who gets their rows. A kind is in this table by its name.

mod check;
mod collapse;
mod dns;
mod ipv6;
mod middlebox;
mod nat;
mod page;
mod ports;
mod throughput;

use analysis::probe::tcp::{Control, Offload};
use analysis::probe::{ProbeSpec, rtt};
use base::program::{Sending, Train};
use base::record::Row;
use base::words::Words;
use base::{Bytes, Duration};
use live::clock::Clock;
use live::craft::{self, CraftError, Progress};
use live::emulate::NetNs;
use live::errand::{Errand, ErrandError, Tally};
use live::path;
use live::probe::{ProbePlan, Prober};
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
    /// The recording's directory, for what is no table.
    pub recording: &'a Path,
    /// Of what no row tells.
    pub tally: Tally,
    pub watch: &'a mut (dyn craft::Watch + Send),
}

/// How often a runner tells how far it is.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

pub type Runner = fn(Run) -> anyhow::Result<()>;

const RUNNERS: &[(&str, Runner)] = &[
    ("rtt", rtt),
    ("path", path),
    ("throughput", throughput::run),
    ("tcp", tcp),
    ("dns", dns::run),
    ("nat", nat::run),
    ("ipv6", ipv6::run),
    ("ports", ports::run),
    ("middlebox", middlebox::run),
    ("page", page::run),
    ("collapse", collapse::run),
    ("check", check::run),
];

fn of(kind: &str) -> Option<Runner> {
    RUNNERS.iter().find(|(name, _)| *name == kind).map(|r| r.1)
}

/// Carries one kind out: by its runner once the line is quiet, or by trains. `sent` is told each sending before it begins.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn carry_out(
    probe: &ProbeSpec,
    run: Run,
    sent: &mut dyn FnMut(&Sending),
) -> anyhow::Result<()> {
    let kind = probe.kind();
    if let Some(runner) = of(kind.entry.name) {
        if !kind.beside_others {
            craft::await_quiet(run.plan, run.clock, &run.rows, run.watch)?;
        }
        return runner(run);
    }
    let mut next = |trains: &[Train]| {
        let sending = probe.next(trains)?;
        sent(&sending);
        Some(sending)
    };
    craft::run(run.plan, &mut next, run.clock, &run.rows, run.watch)?;
    Ok(())
}

impl Run<'_> {
    /// Whether it may put as much on the line as it needs at most.
    ///
    /// # Errors
    /// It may not.
    fn afford(&self, stage: &str, needs: Bytes) -> Result<(), CraftError> {
        if needs <= self.plan.budget {
            return Ok(());
        }
        Err(CraftError::Budget {
            stage: stage.into(),
            next: needs,
            spent: Bytes::ZERO,
            budget: self.plan.budget,
        })
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

/// So many packets on a flow of their own.
fn rtt(run: Run) -> anyhow::Result<()> {
    let rtt::Params { interval, count } = run.words.read();
    let plan = ProbePlan {
        interval,
        shortest_interval: interval,
        access: run.plan.peer.access.clone(),
        tally: run.tally.clone(),
        ..ProbePlan::new(run.plan.peer.server)
    };
    let began = run.clock.now();
    // The last one has left and its successor has not.
    let whole = (interval * count).saturating_sub(interval / 2);
    let prober = Prober::start(plan, run.clock, run.rows)?;
    loop {
        let elapsed = run.clock.now() - began;
        run.watch.progress(&Progress {
            stage: "rtt",
            number: 1,
            elapsed,
            whole,
            spent: run.tally.bytes(),
            note: String::new(),
        });
        let over = prober.health().map_err(anyhow::Error::from).and_then(|()| {
            match run.watch.interrupted() {
                true => Err(CraftError::Interrupted.into()),
                false => Ok(elapsed >= whole),
            }
        });
        if !matches!(over, Ok(false)) {
            prober.stop();
            return over.map(drop);
        }
        std::thread::sleep(whole.saturating_sub(elapsed).to_std().min(TICK));
    }
}

/// The hops of the way, at rest and under load.
fn path(run: Run) -> anyhow::Result<()> {
    let params: analysis::probe::path::Params = run.words.read();
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
    run.errand(Duration::ZERO, |errand| {
        path::run(&plan, errand).map_err(plain)
    })
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
    let params: analysis::probe::tcp::Params = run.words.read();
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
    run.errand(Duration::ZERO, |errand| {
        tcp::run(&plan, errand).map_err(plain)
    })
}

/// As itself, so that an interruption is known for one.
fn plain(e: ErrandError) -> anyhow::Error {
    match e {
        ErrandError::Craft(e) => e.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use analysis::probe::{How, PROBES};

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
