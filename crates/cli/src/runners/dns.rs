//! Lookups at every resolver, and the line's own round trip meanwhile.

use super::Run;
use anyhow::Context;
use base::noted::dns::Origin;
use base::words::{Value, Words};
use base::{Bytes, Duration};
use live::craft::CraftError;
use live::dns::{self, DnsError, PUBLIC, Plan, Resolver};
use live::probe::{ProbePlan, Prober};

/// How often the line's own round trip is measured.
const BASE_EVERY: Duration = Duration::from_millis(100);

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = plan(run.words)?;
    let probes = ProbePlan {
        interval: BASE_EVERY,
        shortest_interval: BASE_EVERY,
        key: run.plan.peer.access.key.clone(),
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
        Err(DnsError::Interrupted) => Err(CraftError::Interrupted.into()),
        other => other.map_err(anyhow::Error::from),
    });
    prober.stop();
    result
}

fn plan(words: &Words) -> anyhow::Result<Plan> {
    let named = |key: &str, origin: Origin| -> Vec<Resolver> {
        let texts = words.list_if_set(key);
        let text = |v: &Value| v.to_string();
        texts
            .iter()
            .filter_map(|v| Resolver::named(&text(v), origin))
            .collect()
    };
    let mut resolvers = named("resolvers", Origin::Given);
    if resolvers.is_empty() {
        resolvers = dns::in_use().context(
            "cannot read /etc/resolv.conf, where this host's resolvers stand: name them with dns:resolvers=ADDRESS;ADDRESS",
        )?;
    }
    anyhow::ensure!(
        !resolvers.is_empty(),
        "/etc/resolv.conf names no resolver: give one with dns:resolvers=ADDRESS"
    );
    resolvers.extend(named("others", Origin::Alternative));
    if words.switch("public") {
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
    let name = |key| words.text(key).to_string();
    let mut roots = named("rootservers", Origin::Given);
    if roots.is_empty() && words.switch("roots") {
        roots = dns::root_servers();
    }
    Ok(Plan {
        resolvers: once,
        zone: name("zone"),
        count: words.count("count") as u32,
        interval: words.duration("interval"),
        patience: words.duration("patience"),
        signed: words
            .switch("dnssec")
            .then(|| (name("signed"), name("bogus"))),
        types: words.switch("types"),
        roots,
    })
}
