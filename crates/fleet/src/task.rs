//! A run of a plan's measurement: the command line, parsed.

use base::{Bytes, Duration};
use experiment::monitor::TargetKind;
use measure::keys::Pin;

/// Parser of a run's command line. The program reads it as its own, and refuses all but measurements.
pub type ReadTask = fn(&str) -> anyhow::Result<Task>;

/// Run that a point carries out.
#[derive(Clone, Debug)]
pub struct Task {
    /// Plan of `test`, `probe` or `monitor`.
    pub plan: ops::Plan,
    /// Pin of the server's key.
    pub pin: Option<Pin>,
}

/// Upper estimate of the bytes of one probe, both directions, IP headers included: two datagrams of 68 bytes with a tag
/// over IPv6 are 232; a connection is opened with seven packets of 80; a page is read up to its first window.
fn probe_bytes(kind: &TargetKind) -> u64 {
    match kind {
        TargetKind::Server(_) | TargetKind::Icmp(_) | TargetKind::Stamp { .. } => 240,
        TargetKind::Tcp { .. } => 560,
        TargetKind::Dns { .. } => 1300,
        TargetKind::Http { .. } | TargetKind::Https { .. } => 30_000,
    }
}

impl Task {
    /// True for a run that ends only when the agent ends it.
    pub fn is_endless(&self) -> bool {
        matches!(self.plan, ops::Plan::Monitor(_))
    }

    /// Server that the run loads; none if it loads no real link.
    pub fn server(&self) -> Option<&str> {
        match &self.plan {
            ops::Plan::Test(p) if p.link.is_none() => Some(&p.test.server),
            ops::Plan::Probe(p) => p.server.as_deref(),
            _ => None,
        }
    }

    /// Interface that the run names.
    pub fn interface(&self) -> Option<&str> {
        match &self.plan {
            ops::Plan::Test(p) => p.test.interface.as_deref(),
            ops::Plan::Probe(p) => p.interface.as_deref(),
            _ => None,
        }
    }

    /// Upper limit on the run's traffic within this time.
    pub fn most_bytes(&self, time: Duration) -> Bytes {
        match &self.plan {
            ops::Plan::Test(p) if p.link.is_none() => p.test.budget,
            ops::Plan::Probe(p) if p.server.is_some() => p.budget,
            ops::Plan::Monitor(p) => {
                let bytes = |t: &experiment::monitor::Target| {
                    let probes = time.as_nanos() / t.interval.as_nanos().max(1) + 1;
                    probes.saturating_mul(probe_bytes(&t.kind))
                };
                Bytes::new(p.monitor.targets.iter().map(bytes).sum())
            }
            _ => Bytes::new(0),
        }
    }

    /// The same run with a budget that is not larger than this. An emulated link costs nothing, and keeps its own.
    pub fn limited(&self, most: Bytes) -> Task {
        let mut task = self.clone();
        if self.server().is_none() {
            return task;
        }
        match &mut task.plan {
            ops::Plan::Test(p) => p.test.budget = p.test.budget.min(most),
            ops::Plan::Probe(p) => p.budget = p.budget.min(most),
            _ => {}
        }
        task
    }
}
