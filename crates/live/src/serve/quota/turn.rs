//! Turns: the uplink belongs to one client at a time.

use super::connections::Permit;
use super::{Quota, Refused, busy};
use crate::clock::mono_ns;
use crate::serve::sync::lock;
use crate::serve::uplink::Standing;
use base::Duration;
use measure::bucket::neighbourhood;
use measure::control::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Place in the queue for the uplink, until this is dropped.
pub struct Place<'a>(&'a Permit, i64);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.ledger).uplink.leave(self.0.client);
    }
}

impl<'a> Place<'a> {
    /// Keeps the turn that has come.
    pub fn hold(self) -> Hold<'a> {
        let Place(permit, lasts_ns) = self;
        let cut = lock(&permit.ledger)
            .uplink
            .hold(mono_ns(), permit.client, lasts_ns);
        Hold { permit, cut }
    }

    /// Present place. If the turn has come, the uplink is reserved for the client for some seconds.
    pub fn ask(&self) -> Standing {
        lock(&self.0.ledger).uplink.ask(mono_ns(), self.0.client)
    }
}

/// Turn on the uplink, until this is dropped.
pub struct Hold<'a> {
    permit: &'a Permit,
    cut: Arc<AtomicBool>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut ledger = lock(&self.permit.ledger);
        ledger.uplink.release(mono_ns(), self.permit.client);
    }
}

impl Hold<'_> {
    /// True if the turn is over because others wait.
    pub fn is_over(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// True if the client does not load, while others wait.
    pub fn is_idle(&self) -> bool {
        lock(&self.permit.ledger).uplink.is_idle(self.permit.client)
    }
}

pub(super) fn loaded(standing: &Standing) -> Refused {
    let left = Duration::from_nanos(standing.after_ns.max(1_000_000_000).unsigned_abs());
    let text = format!(
        "another client is loading this server's uplink, and two loads at once would measure each other: try again in {left:.0}"
    );
    (Refusal::Loaded, text)
}

impl Quota {
    /// Lets a client wait for the uplink, for a load of this length.
    ///
    /// # Errors
    /// Too many clients wait.
    pub fn wait<'a>(&self, permit: &'a Permit, lasts: Duration) -> Result<Place<'a>, Refused> {
        let client = permit.client;
        let lasts_ns = i64::try_from(lasts.as_nanos()).unwrap_or(i64::MAX);
        let mut ledger = lock(&self.ledger);
        if !ledger.uplink.join(client, neighbourhood(client), lasts_ns) {
            return busy(
                "too many clients wait for this server's uplink: try again in ten minutes",
            );
        }
        Ok(Place(permit, lasts_ns))
    }
}
