//! An experiment on Linux: emulated links, captures, log-in pages.

use super::{Answer, Plan, Ready, carry};
use crate::progress::Observer;
use crate::session::{Embedded, Session, Watched, reached};
use base::Duration;
use live::craft;
use live::emulate::{self, NetNs};
use live::load::{Access, Peer};
use live::serve::{PortSet, ServeConfig};
use live::tally::Tally;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Runs the experiment over a real link, and looks for log-in pages.
///
/// # Errors
/// A log-in page, and errors of the run.
pub(super) fn run(
    ready: &Ready<'_>,
    server: &str,
    observer: &dyn Observer,
) -> anyhow::Result<Answer> {
    let log_in = &ready.plan.log_in.through(&ready.access.outlet);
    log_in.before(&plain_pages(ready), observer)?;
    match ready.once(observer) {
        Ok(answer) => Ok(answer),
        // The name may have another address once the page is passed.
        Err(why) => log_in.after(server, why, observer, || {
            super::ready(ready.plan, &ready.given)?.once(observer)
        }),
    }
}

/// Hosts of the addresses that the experiment's parameters name without TLS: a log-in page would be taken for them.
fn plain_pages(ready: &Ready<'_>) -> BTreeSet<String> {
    let parameters = ready.plan.probe.to_string();
    let hosts = parameters.split("http://").skip(1).filter_map(|rest| {
        let authority = rest.split(['/', '?', '#', ';', ',']).next()?;
        Some(authority.rsplit('@').next()?.to_owned())
    });
    hosts.filter(|host| !host.is_empty()).collect()
}

/// Lets this process make namespaces, which it must enter while it has a single thread.
///
/// # Errors
/// Links that this user may not emulate.
pub(super) fn prepare() -> anyhow::Result<()> {
    Ok(emulate::prepare()?)
}

pub(super) fn measure(
    ready: &Ready<'_>,
    session: &Session,
    observer: &dyn Observer,
) -> anyhow::Result<()> {
    let mut watch = session.watch(observer);
    if let Some(server) = ready.server {
        reached(server, &ready.access, observer)?;
        let access = ready.access.clone();
        return probe(ready.plan, (server, None), access, session, &mut watch);
    }
    let here = Embedded {
        links: &ready.plan.links,
        routed: true,
        v6: ready.plan.ipv6,
        cross_traffic: ready.plan.others,
        server: ServeConfig {
            // Nobody but this run reaches it.
            allow_listen: PortSet::any(),
            ..ServeConfig::default()
        },
    };
    let access = Access {
        also: vec![emulate::FAR_V4.into(), emulate::FAR_V6.into()],
        ..Access::default()
    };
    let (result, _) = here.run(session, |address, far| {
        probe(
            ready.plan,
            (address, Some(far)),
            access,
            session,
            &mut watch,
        )
    })?;
    result
}

/// Runs the experiment from the calling thread's network namespace.
fn probe(
    plan: &Plan,
    (server, far): (SocketAddr, Option<&NetNs>),
    access: Access,
    session: &Session,
    watch: &mut Watched<'_>,
) -> anyhow::Result<()> {
    let limits = craft::Plan {
        peer: Peer {
            server,
            access,
            patience: Duration::from_secs(20),
        },
        first_train: 0,
        budget: plan.budget,
        interface: plan.interface.clone(),
        waits: plan.waits,
        others: plan.policy(),
    };
    let tally = Tally::default();
    let run = carry::Run {
        plan: &limits,
        far,
        clock: session.clock,
        rows: session.recorder.rows.clone(),
        so_far: session.recorder.shared.clone(),
        recording: &session.path,
        tally: tally.clone(),
        watch,
    };
    let result = carry::carry_out(&plan.probe, run);
    if let Some(event) = tally.event(session.clock.unix_ns()) {
        let _ = session.recorder.rows.send(event.into());
    }
    result
}
