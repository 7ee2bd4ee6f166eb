//! Connections: admission, and eviction of idle ones.

use super::client::Client;
use super::{Budgets, Ledger, Quota, Refused, busy};
use crate::clock::mono_ns;
use crate::serve::sync::lock;
use measure::bucket::{neighbourhood, subscriber};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};

/// Time after which a connection without a request gives way to a newcomer; a handshake over a slow link and a request
/// are done by then.
const GIVES_WAY_NS: i64 = 1_000_000_000;
/// Reports that are being sent at once: of one client, and of all.
const REPORTS_PER_CLIENT: u32 = 4;
pub(super) const REPORTS: u32 = 8;
/// Trains at once: of one client, and of all.
pub(super) const TRAINS_PER_CLIENT: u32 = 8;
const TRAINS: u32 = 16;

/// Connection that has made no request yet.
pub(super) struct Waiting {
    client: IpAddr,
    since: i64,
    stream: Option<Arc<TcpStream>>,
}

/// Count of a connection, until this is dropped.
pub struct Permit {
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) client: IpAddr,
    pub(super) from: IpAddr,
    id: u64,
    served: Cell<bool>,
    pub(super) user: RefCell<Option<Arc<str>>>,
}

impl Permit {
    /// Assigns the connection to this user.
    pub fn is_of(&self, user: Option<Arc<str>>) {
        *self.user.borrow_mut() = user;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut ledger = lock(&self.ledger);
        let known = self.served.get() || ledger.waiting.remove(&self.id).is_some();
        // One that gave way was counted off then.
        if known {
            ledger.leave(self.client, self.served.get());
        }
    }
}

impl Ledger {
    fn leave(&mut self, client: IpAddr, served: bool) {
        self.connections = self.connections.saturating_sub(1);
        if let Some(c) = self.clients.get_mut(&client) {
            c.connections = c.connections.saturating_sub(1);
            c.served = c.served.saturating_sub(u32::from(served));
        }
    }

    /// Closes a waiting connection.
    fn evict(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.remove(&id) {
            self.leave(waiting.client, false);
            if let Some(stream) = waiting.stream {
                // Its thread wakes up and ends.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    /// Oldest waiting connection of those that `its` picks, if it has waited for at least `least`.
    fn oldest(&self, now: i64, least: i64, its: impl Fn(&Waiting) -> bool) -> Option<u64> {
        let its = self.waiting.iter().filter(|(_, w)| its(w));
        let (id, oldest) = its.min_by_key(|(id, w)| (w.since, **id))?;
        (now - oldest.since >= least).then_some(*id)
    }

    /// Makes room for one more connection of this client; false if there is none.
    fn make_room(&mut self, now: i64, client: IpAddr, budgets: &Budgets) -> bool {
        let its = self.clients.get(&client).map_or(0, |c| c.connections);
        if its >= budgets.connections_per_client {
            let Some(id) = self.oldest(now, GIVES_WAY_NS, |w| w.client == client) else {
                return false;
            };
            self.evict(id);
        }
        if self.connections < budgets.connections {
            return true;
        }
        // Whoever has most of what waits gives way first, however young it is; otherwise the oldest.
        let mut by_neighbourhood: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for w in self.waiting.values() {
            *by_neighbourhood.entry(neighbourhood(w.client)).or_default() += 1;
        }
        let own = by_neighbourhood.get(&neighbourhood(client)).copied();
        let most = by_neighbourhood.into_iter().max_by_key(|(_, n)| *n);
        let victim = match most {
            Some((heavy, n)) if n > own.unwrap_or(0) + 1 => {
                self.oldest(now, 0, |w| neighbourhood(w.client) == heavy)
            }
            _ => self.oldest(now, GIVES_WAY_NS, |_| true),
        };
        if let Some(id) = victim {
            self.evict(id);
        }
        victim.is_some()
    }
}

/// Count of a client's use, until this is dropped.
pub struct Share<'a> {
    permit: &'a Permit,
    of: fn(&mut Client) -> &mut u32,
    all: fn(&mut Ledger) -> &mut u32,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut ledger = lock(&self.permit.ledger);
        let all = (self.all)(&mut ledger);
        *all = all.saturating_sub(1);
        if let Some(c) = ledger.clients.get_mut(&self.permit.client) {
            let its = (self.of)(c);
            *its = its.saturating_sub(1);
        }
    }
}

impl Quota {
    /// Lets a connection wait for its request. None if there are too many and none gives way.
    pub fn connect(&self, from: IpAddr, stream: Option<Arc<TcpStream>>) -> Option<Permit> {
        let client = subscriber(from);
        let now = mono_ns();
        let mut ledger = lock(&self.ledger);
        ledger.forget(now);
        if !ledger.make_room(now, client, &self.budgets) {
            return None;
        }
        let entry = ledger.clients.entry(client);
        entry.or_insert_with(|| Client::new(now)).connections += 1;
        ledger.connections += 1;
        ledger.next += 1;
        let id = ledger.next;
        let waiting = Waiting {
            client,
            since: now,
            stream,
        };
        ledger.waiting.insert(id, waiting);
        Some(Permit {
            ledger: self.ledger.clone(),
            client,
            from: from.to_canonical(),
            id,
            served: Cell::new(false),
            user: RefCell::default(),
        })
    }

    /// Confirms a connection that has made a request, with the right key if one is needed: from now on it keeps its
    /// place.
    ///
    /// # Errors
    /// The server serves as many clients as it may; or the connection has given way to another.
    pub fn serve(&self, permit: &Permit) -> Result<(), Refused> {
        let mut ledger = lock(&self.ledger);
        let active = ledger.clients.values().filter(|c| c.served > 0).count();
        let its = ledger.clients.get(&permit.client).map_or(0, |c| c.served);
        // A quarter of the places stays free for those who have yet to ask.
        let served: u64 = ledger.clients.values().map(|c| u64::from(c.served)).sum();
        if its == 0 && active >= self.budgets.clients
            || served >= (self.budgets.connections - self.budgets.connections / 4) as u64
        {
            return busy(format!(
                "the server is full with {active} clients: try again in a minute"
            ));
        }
        if ledger.waiting.remove(&permit.id).is_none() {
            return busy("the server is full: try again in a minute");
        }
        permit.served.set(true);
        if let Some(c) = ledger.clients.get_mut(&permit.client) {
            c.served += 1;
        }
        Ok(())
    }

    fn share<'a>(
        &self,
        permit: &'a Permit,
        (of, of_client): (fn(&mut Client) -> &mut u32, u32),
        (all, of_all): (fn(&mut Ledger) -> &mut u32, u32),
        what: &str,
    ) -> Result<Share<'a>, Refused> {
        let mut ledger = lock(&self.ledger);
        let taken = *all(&mut ledger);
        let Some(client) = ledger.clients.get_mut(&permit.client) else {
            return busy("the server is full: try again in a minute");
        };
        let its = of(client);
        if *its >= of_client || taken >= of_all {
            return busy(format!(
                "{its} {what} of this client and {taken} in all are running, of {of_client} and {of_all}: try again in a minute"
            ));
        }
        *its += 1;
        *all(&mut ledger) += 1;
        Ok(Share { permit, of, all })
    }

    /// Counts a report that is being sent.
    ///
    /// # Errors
    /// Too many reports are being sent.
    pub fn reporting<'a>(&self, permit: &'a Permit) -> Result<Share<'a>, Refused> {
        let of: (fn(&mut Client) -> &mut u32, _) = (|c| &mut c.reports, REPORTS_PER_CLIENT);
        let all: (fn(&mut Ledger) -> &mut u32, _) = (|l| &mut l.reports, REPORTS);
        self.share(permit, of, all, "reports")
    }

    /// Counts a train that is being sent or received.
    ///
    /// # Errors
    /// Too many trains are running.
    pub fn train<'a>(&self, permit: &'a Permit) -> Result<Share<'a>, Refused> {
        let of: (fn(&mut Client) -> &mut u32, _) = (|c| &mut c.trains, TRAINS_PER_CLIENT);
        let all: (fn(&mut Ledger) -> &mut u32, _) = (|l| &mut l.trains, TRAINS);
        self.share(permit, of, all, "trains")
    }
}
