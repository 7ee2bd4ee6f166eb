//! Connections: admission, and eviction of idle ones.

use super::client::Client;
use super::{Budgets, CLIENTS_KEPT, Ledger, Quota, Refused, busy};
use crate::clock::mono_ns;
use crate::serve::sync::lock;
use measure::bucket::subscriber;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};

/// Reports that are being sent at once: of one client, and of all.
const REPORTS_PER_CLIENT: u32 = 4;
pub(super) const REPORTS: u32 = 8;
/// Trains at once: of one client, and of all.
pub(super) const TRAINS_PER_CLIENT: u32 = 8;
const TRAINS: u32 = 16;

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
        let known = self.served.get() || ledger.waiting.leave(self.id).is_some();
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
            if served {
                c.served = c.served.saturating_sub(1);
                self.served = self.served.saturating_sub(1);
                self.active = self.active.saturating_sub(usize::from(c.served == 0));
            }
        }
    }

    /// Closes a waiting connection.
    fn evict(&mut self, id: u64) {
        if let Some((client, stream)) = self.waiting.leave(id) {
            self.leave(client, false);
            if let Some(stream) = stream {
                // Its thread wakes up and ends.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    /// Makes room for one more connection of this client; false if there is none.
    fn make_room(&mut self, now: i64, client: IpAddr, budgets: &Budgets) -> bool {
        let its = self.clients.get(&client).map_or(0, |c| c.connections);
        if its >= budgets.connections_per_client {
            let Some(id) = self.waiting.gives_way_to_own(now, client) else {
                return false;
            };
            self.evict(id);
        }
        if self.connections < budgets.connections {
            return true;
        }
        let victim = self.waiting.gives_way(now, client);
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
        if ledger.clients.len() >= 2 * CLIENTS_KEPT {
            ledger.forget(now);
        }
        if !ledger.make_room(now, client, &self.budgets) {
            return None;
        }
        let entry = ledger.clients.entry(client);
        entry.or_insert_with(|| Client::new(now)).connections += 1;
        ledger.connections += 1;
        let id = ledger.waiting.enter(now, client, stream);
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
        let active = ledger.active;
        let its = ledger.clients.get(&permit.client).map_or(0, |c| c.served);
        // A quarter of the places stays free for those who have yet to ask.
        if its == 0 && active >= self.budgets.clients
            || ledger.served >= self.budgets.connections - self.budgets.connections / 4
        {
            return busy(format!(
                "the server is full with {active} clients: try again in a minute"
            ));
        }
        if ledger.waiting.leave(permit.id).is_none() {
            return busy("the server is full: try again in a minute");
        }
        permit.served.set(true);
        ledger.served += 1;
        ledger.active += usize::from(its == 0);
        if let Some(c) = ledger.clients.get_mut(&permit.client) {
            c.served += 1;
        }
        Ok(())
    }

    /// Closes every connection that has made no request: the server stops.
    pub fn dismiss(&self) {
        let mut ledger = lock(&self.ledger);
        while let Some(id) = ledger.waiting.first() {
            ledger.evict(id);
        }
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
