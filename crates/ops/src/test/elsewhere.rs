//! A test on systems other than Linux: over real links to `tailback serve`, or in virtual time.

use super::{Answer, Plan, Via, once, phase_by_phase};
use crate::progress::Observer;
use crate::session::{Session, TIMED_BY_PROGRAM};
use crate::trace::EndsAnswer;
use crate::usage;
use anyhow::Context;
use base::{Bytes, Duration};
use experiment::bufferbloat;
use live::load::{Access, Peer};
use std::net::SocketAddr;

fn needs_linux(what: &str) -> anyhow::Error {
    usage(format!("{what} needs Linux"))
}

/// # Errors
/// Always: a server of another protocol needs Linux.
pub fn adapted(_: bufferbloat::Plan, via: &Via, _: bool) -> anyhow::Result<bufferbloat::Plan> {
    Err(needs_linux(&format!("--via {}", via.target)))
}

pub(super) fn check_via(_: &Plan, via: &Via) -> anyhow::Result<()> {
    Err(needs_linux(&format!("--via {}", via.target)))
}

/// Runs all phases over a real link.
///
/// # Errors
/// An option that needs Linux, and errors of the run.
pub(super) fn run(plan: &Plan, access: &Access, observer: &dyn Observer) -> anyhow::Result<Answer> {
    for (option, is_set) in [
        ("--udp", plan.test.udp_rate.is_some()),
        ("--capture", plan.capture),
        ("--login-check", plan.log_in.check.is_some()),
        ("--login-cmd", plan.log_in.command.is_some()),
    ] {
        if is_set {
            return Err(needs_linux(option));
        }
    }
    once(plan, access, observer)
}

/// # Errors
/// Always: links are emulated on Linux.
pub(super) fn prepare() -> anyhow::Result<()> {
    Err(usage(
        "emulating a link in real time needs Linux: name a server, or add --virtual",
    ))
}

pub(super) fn address(plan: &Plan) -> anyhow::Result<SocketAddr> {
    let port = measure::control::DEFAULT_PORT;
    let name = &plan.test.server;
    Ok(live::resolve::server(name, port, plan.ipv4, plan.ipv6)?)
}

pub(super) fn measure(
    plan: &Plan,
    server: Option<SocketAddr>,
    access: &Access,
    session: &Session,
    (observer, _): (&dyn Observer, &mut Option<EndsAnswer>),
) -> anyhow::Result<()> {
    session.doubt("instrument", TIMED_BY_PROGRAM);
    let peer = Peer {
        server: server.context("a plan has a server or a link")?,
        access: access.clone(),
        patience: Duration::from_secs(10),
    };
    let mut plan = plan.clone();
    plan.test.train_budget = Bytes::ZERO;
    phase_by_phase(&plan, peer, session, &mut session.watch(observer))
}
