//! Lookups at every resolver, and the line's own round trip meanwhile.

use super::Run;
use anyhow::Context;
use base::noted::dns::Origin;
use base::{Bytes, Duration};
use experiment::Stopped;
use experiment::dns::Params;
use live::craft::CraftError;
use live::dns::{self, DnsError, PUBLIC, Plan, Resolver};
use live::probe::{ProbePlan, Prober};
use std::sync::Arc;

/// How often the line's own round trip is measured.
const BASE_EVERY: Duration = Duration::from_millis(100);

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = plan(&run.words.read())?;
    let probes = ProbePlan {
        interval: BASE_EVERY,
        shortest_interval: BASE_EVERY,
        access: run.plan.peer.access.clone(),
        tally: run.tally.clone(),
        ..ProbePlan::new(run.plan.peer.server)
    };
    let whole = plan.time();
    let count = (whole.as_nanos() / BASE_EVERY.as_nanos()).max(1);
    run.afford(
        "dns",
        plan.cost() + Bytes::new(2 * count * probes.ip_size().get()),
    )?;
    let prober = Prober::start(probes, run.clock, run.rows.clone())?;
    let result = run.errand(whole, |errand| match dns::run(&plan, errand) {
        Err(DnsError::Interrupted) => Err(CraftError::from(Stopped::Interrupted).into()),
        other => other.map_err(anyhow::Error::from),
    });
    prober.stop();
    result
}

fn plan(params: &Params) -> anyhow::Result<Plan> {
    let named = |texts: &[Arc<str>], origin: Origin| -> Vec<Resolver> {
        let texts = texts.iter();
        texts.filter_map(|t| Resolver::named(t, origin)).collect()
    };
    let mut resolvers = named(&params.resolvers, Origin::Given);
    if resolvers.is_empty() {
        resolvers = dns::in_use().context(
            "cannot read /etc/resolv.conf, where this host's resolvers stand: name them with dns:resolvers=ADDRESS;ADDRESS",
        )?;
    }
    anyhow::ensure!(
        !resolvers.is_empty(),
        "/etc/resolv.conf names no resolver: give one with dns:resolvers=ADDRESS"
    );
    resolvers.extend(named(&params.others, Origin::Alternative));
    if params.public {
        let known = PUBLIC.iter().map(|(address, _)| *address);
        resolvers.extend(known.filter_map(|a| Resolver::named(a, Origin::Alternative)));
    }
    // One that is in use is no alternative to itself.
    let mut once: Vec<Resolver> = Vec::new();
    for r in resolvers {
        if once.iter().all(|o| o.address != r.address) {
            once.push(r);
        }
    }
    let mut roots = named(&params.rootservers, Origin::Given);
    if roots.is_empty() && params.roots {
        roots = dns::root_servers();
    }
    Ok(Plan {
        resolvers: once,
        zone: params.zone.to_string(),
        count: params.count,
        interval: params.interval,
        patience: params.patience,
        signed: params
            .dnssec
            .then(|| (params.signed.to_string(), params.bogus.to_string())),
        types: params.types,
        roots,
    })
}
