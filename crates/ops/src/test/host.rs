//! A test on Linux: emulated links, servers that are not ours, captures, log-in pages.

use super::{Answer, Plan, Via, once, phase_by_phase};
use crate::progress::Observer;
use crate::session::{Embedded, Session};
use crate::trace::{BothEnds, EndsAnswer};
use crate::usage;
use anyhow::Context;
use base::{Bytes, Duration};
use experiment::bufferbloat::{self, Bufferbloat, Phase};
use live::load::{Access, Peer};
use live::outlet::Outlet;
use live::serve::ServeConfig;
use live::via::{self, Foreign, Kind, Target};
use std::net::SocketAddr;

/// Longest loaded phase over a server of ndt7, which ends each test after ten seconds.
const NDT7_LOADS: Duration = Duration::from_millis(9_500);

/// Adapts the settings of a test to a server that is not ours: it has no trains, and loads the directions and flows
/// that its protocol allows. Settings that the user chose stay.
///
/// # Errors
/// A target that cannot be read.
pub fn adapted(
    test: bufferbloat::Plan,
    via: &Via,
    phases_chosen: bool,
) -> anyhow::Result<bufferbloat::Plan> {
    let target = Target::parse(&via.target).map_err(|e| usage(e.to_string()))?;
    let fits = |phase: &Phase| {
        let loads = phase.loads();
        loads.iter().all(|d| target.directions().contains(d))
            && (loads.len() < 2 || target.loads_both())
    };
    let phases = match phases_chosen {
        true => test.phases,
        false => test.phases.into_iter().filter(fits).collect(),
    };
    let ndt7 = target.kind == Kind::Ndt7;
    Ok(bufferbloat::Plan {
        server: via.target.clone(),
        phases,
        train_budget: Bytes::ZERO,
        flows: test.flows.or(ndt7.then_some(1)),
        longest: test.longest.or(ndt7.then_some(NDT7_LOADS)),
        ..test
    })
}

/// Checks that a server which is not ours can do what the plan asks for.
pub(super) fn check_via(plan: &Plan, via: &Via) -> anyhow::Result<()> {
    let target = Target::parse(&via.target).map_err(|e| usage(e.to_string()))?;
    if plan.test.udp_rate.is_some() {
        return Err(usage(
            "--udp needs `tailback serve` at the far end: leave it out with --via",
        ));
    }
    for phase in &plan.test.phases {
        let loads = phase.loads();
        if let Some(d) = loads.iter().find(|d| !target.directions().contains(d)) {
            return Err(usage(format!(
                "{target} cannot load direction {d}: leave \"{}\" out of --phases",
                phase.name()
            )));
        }
        if loads.len() > 1 && !target.loads_both() {
            return Err(usage(format!(
                "{target} loads one direction at a time: leave \"both\" out of --phases"
            )));
        }
    }
    let named = plan.test.congestion.is_some();
    if named && target.kind != Kind::Iperf3 && plan.test.phases.contains(&Phase::Down) {
        return Err(usage(format!(
            "{target} chooses the congestion control of its downloads: leave --congestion out, or test with --phases idle,up"
        )));
    }
    Ok(())
}

/// Runs all phases over a real link, and looks for log-in pages.
///
/// # Errors
/// A log-in page, and errors of the run.
pub(super) fn run(plan: &Plan, access: &Access, observer: &dyn Observer) -> anyhow::Result<Answer> {
    let host = match &plan.via {
        None => plan.test.server.clone(),
        Some(via) => Target::parse(&via.target)?.authority(),
    };
    let log_in = plan.log_in.through(&access.outlet);
    log_in.before(&[], observer)?;
    match once(plan, access, observer) {
        Ok(answer) => Ok(answer),
        Err(why) => {
            let again = || once(plan, access, observer);
            log_in.after(&host, why, observer, again)
        }
    }
}

/// Lets this process make namespaces, which it must enter while it has a single thread.
///
/// # Errors
/// Links that this user may not emulate.
pub(super) fn prepare() -> anyhow::Result<()> {
    Ok(live::emulate::prepare()?)
}

/// Address of the plan's server.
pub(super) fn address(plan: &Plan) -> anyhow::Result<SocketAddr> {
    let (name, port) = match &plan.via {
        None => (plan.test.server.clone(), measure::control::DEFAULT_PORT),
        Some(via) => {
            let target = Target::parse(&via.target)?;
            (target.authority(), target.port)
        }
    };
    Ok(live::resolve::server(&name, port, plan.ipv4, plan.ipv6)?)
}

/// Runs all phases against a server that is not ours, after a sentence on its operator.
fn foreign(
    plan: &Plan,
    (via, server): (&Via, SocketAddr),
    outlet: &Outlet,
    session: &Session,
    observer: &dyn Observer,
) -> anyhow::Result<()> {
    let target = Target::parse(&via.target)?;
    observer.warn(&target.notice());
    let setup = via::Setup {
        target,
        server,
        ca: via.ca.clone(),
        clock: session.clock,
        rows: session.recorder.rows.clone(),
        so_far: session.recorder.shared.clone(),
        interface: plan.test.interface.clone(),
        outlet: outlet.clone(),
    };
    let opened = Foreign::open(setup).map_err(live::CraftError::from);
    let mut steps = Bufferbloat::new(plan.test.clone());
    let mut watch = session.watch(observer);
    experiment::run(&mut steps, &plan.test.bounds(), &mut opened?, &mut watch)?;
    Ok(())
}

pub(super) fn measure(
    plan: &Plan,
    server: Option<SocketAddr>,
    access: &Access,
    session: &Session,
    (observer, captured): (&dyn Observer, &mut Option<EndsAnswer>),
) -> anyhow::Result<()> {
    let mut watch = session.watch(observer);
    let mut by_phases = |peer: SocketAddr, access: Access| {
        let peer = Peer {
            server: peer,
            access,
            patience: Duration::from_secs(10),
        };
        let both = plan.capture.then(|| {
            let interface = match &plan.test.interface {
                Some(name) => name.clone(),
                None => live::traffic::interface_towards(peer.server)?,
            };
            BothEnds::start(&peer, &interface, &session.path)
        });
        let both = both.transpose()?;
        let went = phase_by_phase(plan, peer, session, &mut watch);
        if let Some(both) = both {
            match both.stop(observer) {
                Ok(answer) => *captured = Some(answer),
                Err(why) => observer.warn(&format!("the captures were not compared: {why:#}")),
            }
        }
        went
    };
    let (Some(link), None) = (&plan.link, server) else {
        let server = server.context("a plan has a server or a link")?;
        if let Some(via) = &plan.via {
            return foreign(plan, (via, server), &access.outlet, session, observer);
        }
        return by_phases(server, access.clone());
    };
    let here = Embedded {
        links: std::slice::from_ref(link),
        routed: false,
        v6: false,
        cross_traffic: None,
        // Nobody but this run reaches it.
        server: ServeConfig {
            allow_capture: plan.capture,
            ..ServeConfig::default()
        },
    };
    let (result, doubt) = here.run(session, |address, _| by_phases(address, Access::default()))?;
    if let Some(doubt) = doubt {
        observer.warn(&doubt);
    }
    result
}
