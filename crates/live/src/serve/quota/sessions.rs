//! Sessions: the flows of one measurement, whose reports a client fetches afterwards.

use super::{Ledger, Quota};
use crate::clock::mono_ns;
use crate::serve::kept::Kept;
use crate::serve::sync::lock;
use base::Duration;
use measure::control::{Ended, Response, SessionId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

pub(super) const SESSIONS_PER_CLIENT: usize = 16;
/// Greatest number of sessions that are kept, of all clients.
const SESSIONS: usize = 512;

pub type SharedFlow = Arc<Mutex<Kept>>;

pub(super) struct Session {
    pub client: IpAddr,
    pub used: i64,
    pub flows: Vec<SharedFlow>,
}

impl Ledger {
    /// Removes the oldest session of a client that has too many; or, if there are too many in all, that of the client
    /// with most.
    pub(super) fn make_room_for_session(&mut self, client: IpAddr) {
        let mut of: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for s in self.sessions.values() {
            *of.entry(s.client).or_default() += 1;
        }
        let its = of.get(&client).copied().unwrap_or(0);
        let from = if its >= SESSIONS_PER_CLIENT {
            Some(client)
        } else if self.sessions.len() >= SESSIONS {
            of.into_iter().max_by_key(|(_, n)| *n).map(|(key, _)| key)
        } else {
            None
        };
        // Its flows, if they still run, end unreported.
        let oldest = from.and_then(|from| {
            let its = self.sessions.iter().filter(|(_, s)| s.client == from);
            its.min_by_key(|(_, s)| s.used).map(|(id, _)| *id)
        });
        if let Some(id) = oldest {
            self.sessions.remove(&id);
        }
    }
}

impl Quota {
    /// Flows of a session, which may still be written. None if it is unknown.
    pub fn session(&self, id: &SessionId) -> Option<Vec<SharedFlow>> {
        let mut ledger = lock(&self.ledger);
        let session = ledger.sessions.get_mut(id)?;
        session.used = mono_ns();
        Some(session.flows.clone())
    }
}

/// Report of these flows as bytes, once none of them is still being written or `patience` is over: a flow that the
/// client has just reset may not have noticed. One report is put together at a time.
pub fn settle(flows: &[SharedFlow], patience: Duration) -> Vec<u8> {
    static ONE: Mutex<()> = Mutex::new(());
    let until = mono_ns() + patience.as_nanos() as i64;
    let running = |f: &SharedFlow| lock(f).report_mut().ended == Ended::Running;
    while mono_ns() < until && flows.iter().any(running) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let _one = lock(&ONE);
    let reports = flows.iter().map(|f| lock(f).report_mut().clone()).collect();
    Response::Report(reports).encode()
}
