//! Kinds of probe that do not send crafted trains: who gets their rows. A kind is in this table by its name.

mod dns;

use base::Bytes;
use base::record::Row;
use base::words::Words;
use live::clock::Clock;
use live::craft::{CraftError, Progress};
use live::probe::{ProbePlan, Prober};
use measure::wire::Key;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// What a runner is given. It runs in the network namespace that it shall measure from.
pub struct Run<'a> {
    pub words: &'a Words,
    pub server: SocketAddr,
    pub key: Option<Vec<u8>>,
    /// The most that it may send.
    pub budget: Bytes,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub watch: &'a mut (dyn live::craft::Watch + Send),
}

/// How often a runner tells how far it is.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

pub type Runner = fn(Run) -> anyhow::Result<()>;

const RUNNERS: &[(&str, Runner)] = &[("rtt", rtt), ("dns", dns::run)];

pub fn of(kind: &str) -> Option<Runner> {
    RUNNERS.iter().find(|(name, _)| *name == kind).map(|r| r.1)
}

impl Run<'_> {
    /// Whether it may put as much on the line as it needs at most.
    ///
    /// # Errors
    /// It may not.
    fn afford(&self, stage: &str, needs: Bytes) -> Result<(), CraftError> {
        if needs <= self.budget {
            return Ok(());
        }
        Err(CraftError::Budget {
            stage: stage.into(),
            next: needs,
            spent: Bytes::ZERO,
            budget: self.budget,
        })
    }
}

/// So many packets on a flow of their own.
fn rtt(run: Run) -> anyhow::Result<()> {
    let (interval, count) = (run.words.duration("interval"), run.words.count("count"));
    let plan = ProbePlan {
        interval,
        shortest_interval: interval,
        key: run.key.as_deref().map(Key::new),
        ..ProbePlan::new(run.server)
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
            spent: Bytes::ZERO,
            note: String::new(),
        });
        if run.watch.interrupted() {
            return Err(CraftError::Interrupted.into());
        }
        prober.health()?;
        if elapsed >= whole {
            break;
        }
        std::thread::sleep(whole.saturating_sub(elapsed).to_std().min(TICK));
    }
    prober.stop();
    Ok(())
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
