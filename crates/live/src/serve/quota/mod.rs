//! Quotas: the served clients, the use of each client and user, and the rest of the server's budgets.

mod client;
mod connections;
mod flow;
mod sessions;
mod turn;

pub use connections::Permit;
pub use flow::{FlowPermit, IDLE, TOO_FAST, Use};
pub use sessions::settle;
pub use turn::{Hold, Place};

use super::journal::Journal;
use super::sync::lock;
use super::uplink::Uplink;
use crate::clock::mono_ns;
use crate::waiting::WaitingRoom;
use base::{Bytes, Duration};
use client::{Client, Hour};
use measure::account::Account;
use measure::bucket::subscriber;
use measure::control::{Refusal, SessionId};
use sessions::Session;
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// Limits for clients. A client is an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Clients that are served at once. Connections without a request are not counted.
    pub clients: usize,
    /// Connections at once, of all clients. The server lowers it to what its descriptors allow.
    pub connections: usize,
    /// Connections at once: flows, requests and probes of a client.
    pub connections_per_client: u32,
    /// Flows at once.
    pub flows_per_client: u32,
    /// Longest flow; a longer one is cut to it. The bytes of an hour are the limit of a client's use.
    pub duration: Duration,
    /// Bytes of one client in an hour, both directions combined.
    pub bytes_per_hour: Bytes,
    /// Bytes of all clients together in an hour.
    pub total_bytes_per_hour: Bytes,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            clients: 64,
            connections: 512,
            connections_per_client: 128,
            flows_per_client: 64,
            duration: Duration::from_secs(3600),
            bytes_per_hour: Bytes::new(100_000_000_000),
            total_bytes_per_hour: Bytes::new(1_000_000_000_000),
        }
    }
}

/// Time for which the report of a finished session is available.
const SESSION_KEPT_NS: i64 = 600_000_000_000;
/// Number of clients whose bytes are remembered.
const CLIENTS_KEPT: usize = 4096;

#[derive(Default)]
struct Ledger {
    /// Clients by subscriber.
    clients: BTreeMap<IpAddr, Client>,
    /// Users with a key who have moved something, from any network.
    users: BTreeMap<Arc<str>, Hour>,
    sessions: BTreeMap<SessionId, Session>,
    waiting: WaitingRoom<Option<Arc<TcpStream>>>,
    connections: usize,
    /// Connections that are being served, and the clients that have any of them.
    served: usize,
    active: usize,
    uplink: Uplink<IpAddr>,
    reports: u32,
    trains: u32,
    /// Account of all clients together.
    hour: Hour,
}

/// Use of a server by its clients, and its limits.
pub struct Quota {
    budgets: Budgets,
    journal: Arc<Journal>,
    ledger: Arc<Mutex<Ledger>>,
    samples: Arc<AtomicUsize>,
}

/// Refusal and its reason in words.
pub type Refused = (Refusal, String);

fn busy<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err((Refusal::Busy, text.into()))
}

impl Quota {
    pub fn new(budgets: Budgets, journal: Arc<Journal>) -> Quota {
        Quota {
            budgets,
            journal,
            ledger: Arc::default(),
            samples: Arc::default(),
        }
    }

    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Bytes that each user has moved in the current hour.
    pub fn used(&self) -> Vec<(Arc<str>, u64)> {
        let now = mono_ns();
        let mut ledger = lock(&self.ledger);
        let users = ledger.users.iter_mut();
        users
            .map(|(name, hour)| (name.clone(), hour.roll(now)))
            .collect()
    }

    /// Starts new hours for all accounts whose last one is over. The server calls it every second.
    pub fn roll(&self) {
        lock(&self.ledger).forget(mono_ns());
    }

    /// Account of a session of probes.
    pub fn account(&self, from: IpAddr, user: Option<&Arc<str>>) -> Account {
        let mut ledger = lock(&self.ledger);
        self.account_in(&mut ledger, subscriber(from), user, mono_ns())
            .0
    }

    /// Account for a client's bytes, and the refusal if one of its budgets is used up.
    fn account_in(
        &self,
        ledger: &mut Ledger,
        client: IpAddr,
        user: Option<&Arc<str>>,
        now: i64,
    ) -> (Account, Result<(), Refused>) {
        let (each, all) = (
            self.budgets.bytes_per_hour,
            self.budgets.total_bytes_per_hour,
        );
        let client = ledger.clients.entry(client);
        let its = &mut client.or_insert_with(|| Client::new(now)).hour;
        let mut hours = vec![
            ("this client has", its, each),
            ("all clients together have", &mut ledger.hour, all),
        ];
        if let Some(user) = user {
            let user = ledger.users.entry(user.clone());
            let user = user.or_insert_with(|| Hour::starting(now));
            hours.push(("this user has", user, each));
        }
        let (mut counters, mut spent) = (Vec::new(), Ok(()));
        for (who, hour, limit) in hours {
            let moved = hour.roll(now);
            if moved >= limit.get() && spent.is_ok() {
                let text = format!(
                    "{who} moved {:.3} of the {limit:.3} allowed in an hour: try again in {:.2}",
                    Bytes::new(moved),
                    hour.left(now)
                );
                spent = Err((Refusal::Spent, text));
            }
            counters.push((hour.spent.clone(), limit.get()));
        }
        (Account::new(counters), spent)
    }

    pub fn holds(&self) -> Holds {
        let ledger = lock(&self.ledger);
        Holds {
            connections: ledger.connections,
            clients: ledger.active,
            flows: ledger.clients.values().map(|c| c.flows).sum(),
            uplink_taken: ledger.uplink.is_taken(mono_ns()),
            waiting: ledger.uplink.waiting(),
        }
    }
}

/// Resources that the server holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    pub connections: usize,
    pub clients: usize,
    pub flows: u32,
    pub uplink_taken: bool,
    pub waiting: usize,
}

#[cfg(test)]
mod tests;
