//! `tailback test`: finds the queue of a link in phases idle, download, upload and both.

#[cfg(not(target_os = "linux"))]
#[path = "test/elsewhere.rs"]
mod host;
#[cfg(target_os = "linux")]
mod host;

pub use host::adapted;

use crate::progress::{Event as News, Observer, Shared};
use crate::session::{End, Session, reached, towards};
use crate::trace::EndsAnswer;
use crate::{LogIn, Progress, usage};
use analysis::answer::Answer as TestAnswer;
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin, Recording};
use base::{BitsPerSec, Duration};
use experiment::Watch;
use experiment::bufferbloat::{self, Bufferbloat, Phase};
use link::LinkSpec;
use live::clock::Clock;
use live::load::lent::Lender;
use live::load::{Access, CongestionControls, Peer};
use live::outlet::Outlet;
use live::sockets::{Setup, Sockets};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Link to test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Settings that decide what is measured; `meta.json` stores them.
    pub test: bufferbloat::Plan,
    /// Emulated link, both ends on this machine; none with a server.
    #[serde(default)]
    pub link: Option<LinkSpec>,
    /// Seed of a run in virtual time over the link; none for a run in real time.
    #[serde(default)]
    pub virtual_seed: Option<u64>,
    /// Server that is not ours; the plan's `server` is its name.
    #[serde(default)]
    pub via: Option<Via>,
    #[serde(default)]
    pub contract: Option<Contract>,
    /// True to capture the packets of the loads at both ends, and to compare the captures.
    #[serde(default)]
    pub capture: bool,
    /// Name of the run in its report.
    #[serde(default)]
    pub title: Option<String>,
    /// Recording to write; by default its name is the current time.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// True to use one version of IP only.
    #[serde(default)]
    pub ipv4: bool,
    #[serde(default)]
    pub ipv6: bool,
    /// Treatment of log-in pages.
    #[serde(skip)]
    pub log_in: LogIn,
    /// Second machine that makes the loads. A file of a plan cannot set it: it would run a command on a stranger's machine.
    #[serde(skip)]
    pub load_from: Option<String>,
}

/// Server that is not ours, and how its certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Protocol and server, such as `iperf3:far.example`.
    pub target: String,
    /// Further authority that may have signed the server's certificate, a PEM file.
    #[serde(default)]
    pub ca: Option<PathBuf>,
}

/// Contracted rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    pub down: BitsPerSec,
    pub up: BitsPerSec,
}

impl Contract {
    /// Reads DOWN/UP, such as 50mbit/10mbit.
    ///
    /// # Errors
    /// Says how to write it.
    pub fn parse(text: &str) -> anyhow::Result<Contract> {
        // "50 Mbit/s/10 Mbit/s" has slashes of its own: try each one.
        let cuts = text
            .match_indices('/')
            .map(|(at, _)| (&text[..at], &text[at + 1..]));
        let rates = |(down, up): (&str, &str)| {
            Some(Contract {
                down: down.parse().ok()?,
                up: up.parse().ok()?,
            })
        };
        cuts.filter_map(rates).next().ok_or_else(|| {
            usage(format!(
                "--contract {text}: write DOWN/UP, such as 50mbit/10mbit"
            ))
        })
    }
}

/// Reads the names of phases.
///
/// # Errors
/// A name that is not known.
pub fn phases(names: &[String]) -> anyhow::Result<Vec<Phase>> {
    let read = |name: &String| {
        let known = Phase::ALL.into_iter().find(|p| p.name() == name);
        known.ok_or_else(|| usage(format!("no phase \"{name}\". Known: idle, down, up, both")))
    };
    names.iter().map(read).collect()
}

/// Figures of a test.
pub struct Answer {
    pub figures: TestAnswer,
    pub recording: Recording,
    /// Fate of each packet between the captures of both ends, if the plan asked for them.
    pub captured: Option<EndsAnswer>,
    pub end: End,
}

impl Answer {
    /// Largest 95th percentile of added delay of both directions, ms.
    pub fn added_ms(&self) -> f64 {
        [&self.figures.up, &self.figures.down]
            .into_iter()
            .filter_map(|d| d.added.p95_ms.value())
            .fold(0.0, f64::max)
    }
}

/// Checks a plan without running it.
///
/// # Errors
/// Invalid phases, intervals or congestion control.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    if plan.test.phases.first() != Some(&Phase::Idle) {
        return Err(usage(
            "the first phase must be idle: everything else is compared with it",
        ));
    }
    if let Some(via) = &plan.via {
        host::check_via(plan, via)?;
    }
    if plan.capture && (plan.via.is_some() || plan.virtual_seed.is_some()) {
        return Err(usage(
            "--capture needs a server of ours, and real packets: leave --via and --virtual out",
        ));
    }
    let interval = plan.test.probe_interval;
    if interval.is_some_and(|i| i < Duration::from_micros(200)) {
        return Err(usage(
            "--interval below 0.2 ms is more than a probe can do: use 1 ms or more",
        ));
    }
    let known = |name: &str| name.parse::<congestion::ControllerSpec>();
    if let (Some(name), Some(_)) = (&plan.test.congestion, plan.virtual_seed) {
        known(name).map_err(|e| usage(e.to_string()))?;
    } else if let Some(name) = &plan.test.congestion {
        let here = CongestionControls::read().available;
        if !here.contains(name) {
            return Err(usage(format!(
                "no congestion control \"{name}\" in this kernel. Known: {}",
                here.join(", ")
            )));
        }
    }
    Ok(())
}

/// Runs all phases and records them.
///
/// # Errors
/// A plan that cannot be run, and a run that gave no figures.
pub fn run(plan: &Plan, access: &Access, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    check(plan)?;
    if plan.link.is_some() {
        return once(plan, access, observer);
    }
    let access = &Access {
        outlet: Outlet::of(plan.test.interface.as_deref()),
        ..access.clone()
    };
    host::run(plan, access, observer)
}

/// Runs all phases once.
fn once(plan: &Plan, access: &Access, observer: &dyn Observer) -> anyhow::Result<Answer> {
    let server = match &plan.link {
        Some(_) if plan.virtual_seed.is_some() => None,
        Some(_) => {
            host::prepare()?;
            None
        }
        None => Some(reached(host::address(plan)?, access, observer)?),
    };
    observer.tell(News::Interruptible);
    let session = Session::start(plan.output.as_deref(), |clock| meta(plan, clock))?;
    let mut captured = None;
    let (result, ended_ns) = match (&plan.link, plan.virtual_seed) {
        (Some(link), Some(seed)) => simulate(plan, (link, seed), &session, observer),
        _ => {
            let went = host::measure(plan, server, access, &session, (observer, &mut captured));
            (went, None)
        }
    };
    observer.tell(News::Finished);
    let closed = session.finish_at(&result, ended_ns);
    let figures = analysis::analyse_test(&closed.recording, &analysis::Options::default());
    let figures = match figures {
        Ok(figures) => figures,
        // Not one probe was sent: the first error is the one to read, and there is nothing to keep.
        Err(nothing) => {
            let why = result.err().unwrap_or_else(|| nothing.into());
            return Err(match closed.recording.delay.is_empty() {
                true => closed.abandon(why),
                false => closed.written.err().map_or(why, anyhow::Error::from),
            });
        }
    };
    let mut closed = closed;
    let recording = std::mem::take(&mut closed.recording);
    let page = report::html::page(&figures, &recording);
    let mut end = closed.end(result, "test", &page);
    if end.page.is_some()
        && let Err(why) = crate::report::write_scripts(&end.recording, &figures)
    {
        end.failed = end.failed.or(Some(why));
    }
    Ok(Answer {
        figures,
        recording,
        captured,
        end,
    })
}

/// Runs all phases in virtual time; gives the end of that time, UNIX ns.
fn simulate(
    plan: &Plan,
    (link, seed): (&LinkSpec, u64),
    session: &Session,
    observer: &dyn Observer,
) -> (anyhow::Result<()>, Option<i64>) {
    let mut simulated = sim::bufferbloat::Plan::new(link.clone(), seed);
    let named = plan.test.congestion.as_deref();
    if let Some(controller) = named.and_then(|name| name.parse().ok()) {
        simulated.tcp.controller = Arc::new(controller);
    }
    let mut steps = Bufferbloat::new(plan.test.clone());
    let mut watch = session.watch(observer);
    let bounds = plan.test.bounds();
    match sim::bufferbloat::observe(&simulated, &mut steps, &bounds, &mut watch) {
        Err(e) => (Err(e.into()), None),
        Ok((outcome, went)) => {
            let ended_ns = outcome.recording.meta.ended_ns;
            session.record(outcome.recording);
            // As over sockets, so that an interruption is known for one.
            let went = went.map_err(|e| live::CraftError::from(e).into());
            (went, ended_ns)
        }
    }
}

/// Runs all phases from the calling thread's network namespace.
fn phase_by_phase(
    plan: &Plan,
    peer: Peer,
    session: &Session,
    watch: &mut dyn Watch,
) -> anyhow::Result<()> {
    let rows = session.recorder.rows.clone();
    let lender = plan.load_from.as_deref().map(|host| {
        // An address, not a name: the same server, and no word for the other machine's shell.
        let mut arguments = vec![peer.server.to_string()];
        arguments.extend(peer.access.pin.map(|pin| format!("--pin={pin}")));
        Lender::open(host, &arguments, session.clock, rows.clone())
    });
    let lender = lender.transpose().map_err(anyhow::Error::msg)?;
    let setup = Setup {
        lender,
        so_far: session.recorder.shared.clone(),
        interface: plan.test.interface.clone(),
        ..Setup::new(peer, session.clock, rows)
    };
    let mut steps = Bufferbloat::new(plan.test.clone());
    let mut sockets = Sockets::new(setup);
    experiment::run(&mut steps, &plan.test.bounds(), &mut sockets, watch)?;
    Ok(())
}

/// Facts of the recording that the plan starts.
///
/// # Errors
/// A plan that is no JSON, which cannot happen.
pub fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<Meta> {
    let mut known = serde_json::Map::new();
    if let Some(link) = &plan.link {
        let link = serde_json::to_value(link).context("the link's definition")?;
        known.insert("link".into(), link);
    }
    if let Some(seed) = plan.virtual_seed {
        known.insert("virtual_seed".into(), seed.into());
    }
    if let Some(via) = &plan.via {
        known.insert("via".into(), serde_json::to_value(via)?);
    }
    if let Some(host) = &plan.load_from {
        known.insert("load_from".into(), host.as_str().into());
    }
    if plan.capture {
        known.insert("capture".into(), true.into());
    }
    if let Some(contract) = &plan.contract {
        known.insert("contract".into(), serde_json::to_value(contract)?);
    }
    let title = plan.title.clone().unwrap_or_else(|| match &plan.link {
        Some(link) if plan.virtual_seed.is_some() => format!("Simulated link {}", link.name),
        Some(link) => format!("Emulated link {}", link.name),
        None => towards(&plan.test.server, plan.test.interface.as_deref()),
    });
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: match plan.link {
            Some(_) if plan.virtual_seed.is_some() => Origin::Simulated,
            Some(_) => Origin::Emulated,
            None => Origin::Measured,
        },
        verb: "test".into(),
        title,
        started_ns: match plan.virtual_seed {
            Some(_) => sim::bufferbloat::EPOCH_NS,
            None => clock.unix_ns(),
        },
        plan: serde_json::to_value(&plan.test).context("the plan")?,
        known_link: (!known.is_empty()).then_some(known.into()),
        host: live::host::facts(plan.test.interface.as_deref()),
        ..Meta::default()
    })
}
