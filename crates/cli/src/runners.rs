//! Kinds of probe that do not send crafted trains: who gets their rows. A kind is in this table by its name.

mod collapse;
mod dns;
mod ipv6;
mod middlebox;
mod nat;
mod page;
mod ports;

use base::record::{Direction, Row};
use base::words::{Value, Words};
use base::{Bytes, Duration};
use live::clock::Clock;
use live::craft::{CraftError, Progress};
use live::load::Peer;
use live::path;
use live::probe::{ProbePlan, Prober};
use live::tcp;
use measure::wire::Key;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::Sender;

/// What a runner is given. It runs in the network namespace that it shall measure from.
pub struct Run<'a> {
    pub words: &'a Words,
    pub server: SocketAddr,
    pub key: Option<Vec<u8>>,
    /// The most that it may send.
    pub budget: Bytes,
    /// Whose counters show what passes; the one that leads to the server where not given.
    pub interface: Option<String>,
    /// Whether the network namespace is one that we made, whose settings may be changed.
    pub own_namespace: bool,
    pub clock: Clock,
    pub rows: Sender<Row>,
    /// The recording's directory, for what is no table.
    pub recording: &'a Path,
    pub watch: &'a mut (dyn live::craft::Watch + Send),
}

/// How often a runner tells how far it is.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

pub type Runner = fn(Run) -> anyhow::Result<()>;

const RUNNERS: &[(&str, Runner)] = &[
    ("rtt", rtt),
    ("path", path),
    ("tcp", tcp),
    ("dns", dns::run),
    ("nat", nat::run),
    ("ipv6", ipv6::run),
    ("ports", ports::run),
    ("middlebox", middlebox::run),
    ("page", page::run),
    ("collapse", collapse::run),
];

pub fn of(kind: &str) -> Option<Runner> {
    RUNNERS.iter().find(|(name, _)| *name == kind).map(|r| r.1)
}

/// Tells how far a runner of several stages is, and asks whether it may go on.
fn own<'a>(run: &'a mut Run, whole: Duration) -> impl FnMut(&str) -> bool + 'a {
    let (clock, began) = (run.clock, run.clock.now());
    let (mut number, mut latest) = (0, String::new());
    move |stage| {
        if stage != latest {
            number += 1;
            stage.clone_into(&mut latest);
        }
        run.watch.progress(&Progress {
            stage,
            number,
            elapsed: clock.now() - began,
            whole,
            spent: Bytes::ZERO,
            note: String::new(),
        });
        !run.watch.interrupted()
    }
}

impl Run<'_> {
    fn peer(&self) -> Peer {
        Peer {
            server: self.server,
            key: self.key.clone(),
            patience: Duration::from_secs(20),
        }
    }

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

/// The hops of the way, at rest and under load.
fn path(run: Run) -> anyhow::Result<()> {
    let words = run.words;
    let directions = match words.choice("load") {
        "up" => vec![Direction::Up],
        "down" => vec![Direction::Down],
        "none" => Vec::new(),
        _ => vec![Direction::Up, Direction::Down],
    };
    let plan = path::Plan {
        peer: peer(&run),
        budget: run.budget,
        interface: run.interface.clone(),
        idle: words.duration("idle"),
        load: words.duration("hold"),
        directions,
        interval: words.duration("interval"),
        hops: words.count("hops") as usize,
        flows: words.count("flows") as u32,
    };
    path::run(&plan, run.clock, &run.rows, run.watch).map_err(plain)
}

/// Transfers by each controller, one after the other.
fn tcp(run: Run) -> anyhow::Result<()> {
    let words = run.words;
    let controls = match words.choice("control") {
        "all" => ["cubic", "reno", "bbr"].map(String::from).to_vec(),
        one => vec![one.to_string()],
    };
    let list = |key| words.get(key).map(|_| words.list(key).to_vec());
    let windows = match list("window") {
        None => vec![None],
        Some(all) => all
            .iter()
            .map(|v| match v {
                Value::Count(n) => Some(*n as u32),
                _ => None,
            })
            .collect(),
    };
    let sizes = words.list("size");
    let sizes = sizes.iter().filter_map(|v| match v {
        Value::Bytes(b) => Some(*b),
        _ => None,
    });
    let plan = tcp::Plan {
        peer: peer(&run),
        budget: run.budget,
        interface: run.interface.clone(),
        controls,
        windows,
        offload: match words.choice("offload") {
            "both" => vec![Some(true), Some(false)],
            _ => vec![None],
        },
        sizes: sizes.collect(),
        repeats: words.count("repeats"),
        own_namespace: run.own_namespace,
    };
    tcp::run(&plan, run.clock, &run.rows, run.watch).map_err(plain)
}

fn peer(run: &Run) -> Peer {
    Peer {
        server: run.server,
        key: run.key.clone(),
        patience: Duration::from_secs(20),
    }
}

/// As itself, so that an interruption is known for one.
fn plain(e: path::PathError) -> anyhow::Error {
    match e {
        path::PathError::Craft(e) => e.into(),
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
