//! Who is being served, what they have used up, and what was counted for them.

use super::journal::{Entry, Happened, Journal};
use super::kept::Kept;
use super::lock;
use super::uplink::{Standing, Uplink};
use crate::clock::mono_ns;
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::{Ended, FlowReport, FlowSpec, Limits, Refusal, Response, Sample, SessionId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What clients may use. A client is an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Clients that are served at once. Connections that have asked for nothing yet are not counted.
    pub clients: usize,
    /// Connections at once, of all clients. The server lowers it to what its descriptors allow.
    pub connections: usize,
    /// Connections at once: flows, requests and probes of a client.
    pub connections_per_client: u32,
    /// Flows at once.
    pub flows_per_client: u32,
    /// Longest flow; a longer one is cut to it. What a client may use is bounded by the bytes of an hour.
    pub duration: Duration,
    /// In both directions together.
    pub bytes_per_hour: Bytes,
    /// The same of all clients together.
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

const HOUR_NS: i64 = 3_600_000_000_000;
/// How long a finished session can be asked about.
const KEPT_NS: i64 = 600_000_000_000;
const SESSIONS_PER_CLIENT: usize = 16;
/// Sessions that are kept, of all clients.
const SESSIONS: usize = 512;
/// Clients whose bytes are remembered.
const CLIENTS_KEPT: usize = 4096;
const FLOWS_PER_SESSION: usize = 64;
const SHORTEST_SAMPLE: Duration = Duration::from_millis(5);
/// A connection that has asked for nothing gives way to a newcomer after this long; a handshake over a slow line and a
/// request are done by then.
const GIVES_WAY_NS: i64 = 1_000_000_000;
/// Reports that are being sent at once: of one client, and of all.
const REPORTS_PER_CLIENT: u32 = 4;
const REPORTS: u32 = 8;
/// Trains at once: of one client, and of all.
const TRAINS_PER_CLIENT: u32 = 8;
const TRAINS: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClientKey([u8; 16]);

impl From<IpAddr> for ClientKey {
    fn from(ip: IpAddr) -> ClientKey {
        match ip.to_canonical() {
            IpAddr::V4(v4) => ClientKey(v4.to_ipv6_mapped().octets()),
            // A subscriber has at least a /64 and can use any address in it.
            IpAddr::V6(v6) => {
                let mut key = v6.octets();
                key[8..].fill(0);
                ClientKey(key)
            }
        }
    }
}

impl ClientKey {
    /// Who shares with whom: 256 addresses of IPv4, 48 bits of IPv6.
    fn neighbourhood(self) -> ClientKey {
        let mut key = self.0;
        let v4 = key[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        key[if v4 { 15 } else { 6 }..].fill(0);
        ClientKey(key)
    }
}

#[derive(Default)]
struct Client {
    connections: u32,
    /// Of those: being served.
    served: u32,
    flows: u32,
    reports: u32,
    trains: u32,
    hour_began: i64,
    spent: Arc<AtomicU64>,
    samples: Arc<AtomicUsize>,
}

/// Bytes of a user in the current hour, from whatever network.
struct Account {
    hour_began: i64,
    spent: Arc<AtomicU64>,
}

impl Account {
    /// Begins anew where the hour is over.
    fn at(&mut self, now: i64) -> u64 {
        if now - self.hour_began >= HOUR_NS {
            self.hour_began = now;
            self.spent.store(0, Ordering::Relaxed);
        }
        self.spent.load(Ordering::Relaxed)
    }
}

pub type SharedFlow = Arc<Mutex<Kept>>;

struct Session {
    client: ClientKey,
    used: i64,
    flows: Vec<SharedFlow>,
}

/// A connection that has asked for nothing yet.
struct Waiting {
    client: ClientKey,
    since: i64,
    stream: Option<Arc<TcpStream>>,
}

#[derive(Default)]
struct Ledger {
    clients: BTreeMap<ClientKey, Client>,
    /// Users with a key who have moved something.
    accounts: BTreeMap<Arc<str>, Account>,
    sessions: BTreeMap<SessionId, Session>,
    waiting: BTreeMap<u64, Waiting>,
    connections: usize,
    next: u64,
    uplink: Uplink<ClientKey>,
    reports: u32,
    trains: u32,
    hour_began: i64,
}

pub struct Quota {
    budgets: Budgets,
    journal: Arc<Journal>,
    ledger: Arc<Mutex<Ledger>>,
    spent: Arc<AtomicU64>,
    samples: Arc<AtomicUsize>,
}

/// Counts a connection, for as long as it lives.
pub struct Permit {
    ledger: Arc<Mutex<Ledger>>,
    client: ClientKey,
    from: IpAddr,
    id: u64,
    served: Cell<bool>,
    user: RefCell<Option<Arc<str>>>,
}

impl Permit {
    /// The connection is this user's.
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
    fn leave(&mut self, client: ClientKey, served: bool) {
        self.connections = self.connections.saturating_sub(1);
        if let Some(c) = self.clients.get_mut(&client) {
            c.connections = c.connections.saturating_sub(1);
            c.served = c.served.saturating_sub(u32::from(served));
        }
    }

    /// Forgets clients whose hour is over, sessions that nobody has asked about.
    fn forget(&mut self, now: i64) {
        self.sessions.retain(|_, s| now - s.used < KEPT_NS);
        self.accounts
            .retain(|_, a| now - a.hour_began < HOUR_NS || Arc::strong_count(&a.spent) > 1);
        self.clients.retain(|_, c| {
            let spent = c.spent.load(Ordering::Relaxed) > 0;
            c.connections > 0 || now - c.hour_began < HOUR_NS && spent
        });
        while self.clients.len() > CLIENTS_KEPT {
            let idle = self.clients.iter().filter(|(_, c)| c.connections == 0);
            let least = idle.min_by_key(|(_, c)| c.spent.load(Ordering::Relaxed));
            let Some(key) = least.map(|(key, _)| *key) else {
                break;
            };
            self.clients.remove(&key);
        }
    }

    /// Lets a waiting connection go.
    fn evict(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.remove(&id) {
            self.leave(waiting.client, false);
            if let Some(stream) = waiting.stream {
                // Its thread wakes up and ends.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    /// The oldest waiting connection of those that `its` picks, if it has waited for so long.
    fn oldest(&self, now: i64, least: i64, its: impl Fn(&Waiting) -> bool) -> Option<u64> {
        let its = self.waiting.iter().filter(|(_, w)| its(w));
        let (id, oldest) = its.min_by_key(|(id, w)| (w.since, **id))?;
        (now - oldest.since >= least).then_some(*id)
    }

    /// Makes room for one more connection of this client; false where there is none.
    fn make_room(&mut self, now: i64, client: ClientKey, budgets: &Budgets) -> bool {
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
        let mut by_neighbourhood: BTreeMap<ClientKey, usize> = BTreeMap::new();
        for w in self.waiting.values() {
            *by_neighbourhood
                .entry(w.client.neighbourhood())
                .or_default() += 1;
        }
        let own = by_neighbourhood.get(&client.neighbourhood()).copied();
        let most = by_neighbourhood.into_iter().max_by_key(|(_, n)| *n);
        let victim = match most {
            Some((heavy, n)) if n > own.unwrap_or(0) + 1 => {
                self.oldest(now, 0, |w| w.client.neighbourhood() == heavy)
            }
            _ => self.oldest(now, GIVES_WAY_NS, |_| true),
        };
        if let Some(id) = victim {
            self.evict(id);
        }
        victim.is_some()
    }

    /// The oldest session of a client makes room, where it has too many; that of the client with most, where all have.
    fn make_room_for_session(&mut self, client: ClientKey) {
        let mut of: BTreeMap<ClientKey, usize> = BTreeMap::new();
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

/// Counts something of a client for as long as it lives.
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

/// Kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    Upload,
    Download,
    Fetch,
    Datagrams,
    Train,
    Listen,
}

impl Use {
    /// Name in the log and in the counters.
    pub fn name(self) -> &'static str {
        match self {
            Use::Upload => "upload",
            Use::Download => "download",
            Use::Fetch => "fetch",
            Use::Datagrams => "datagrams",
            Use::Train => "train",
            Use::Listen => "listen",
        }
    }

    /// True if it fills the uplink: one client at a time. The others leave room.
    fn is_load(self) -> bool {
        !matches!(self, Use::Train | Use::Listen)
    }
}

/// Counts a flow, for as long as it lives, and what it may still use.
pub struct FlowPermit<'a> {
    permit: &'a Permit,
    pub report: SharedFlow,
    pub duration: Duration,
    pub sample: Duration,
    spent: Arc<AtomicU64>,
    user_spent: Option<Arc<AtomicU64>>,
    budget: u64,
    total_spent: Arc<AtomicU64>,
    total_budget: u64,
    counted: u64,
    usage: Use,
    began: i64,
    /// Set when the client's turn on the uplink is over.
    cut: Arc<AtomicBool>,
    /// Reason for which the flow was ended early.
    enough: Cell<&'static str>,
    journal: Arc<Journal>,
}

/// Reasons for which a flow is ended early.
pub const HOUR_SPENT: &str =
    "this client, or all together, have moved all the bytes they may in an hour";
pub const TURN_OVER: &str =
    "this client has loaded the server's uplink for ten minutes, and another one waits";
pub const TOO_FAST: &str = "the client sends faster than it was granted";
pub const IDLE: &str = "nothing has come from the client for 15 s";

impl FlowPermit<'_> {
    /// Books what the flow has moved so far; false when that was too much.
    pub fn spend(&mut self, total: u64) -> bool {
        let more = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        let its = self
            .spent
            .fetch_add(more, Ordering::Relaxed)
            .saturating_add(more);
        let all = self
            .total_spent
            .fetch_add(more, Ordering::Relaxed)
            .saturating_add(more);
        let user = self.user_spent.as_ref().map_or(0, |spent| {
            spent
                .fetch_add(more, Ordering::Relaxed)
                .saturating_add(more)
        });
        if its > self.budget || user > self.budget || all > self.total_budget {
            self.enough.set(HOUR_SPENT);
            return false;
        }
        if self.cut.load(Ordering::Relaxed) {
            self.enough.set(TURN_OVER);
            return false;
        }
        true
    }

    /// Ends the flow for this reason; what [`FlowPermit::spend`] gives for its own.
    pub fn give_up(&self, why: &'static str) -> bool {
        self.enough.set(why);
        false
    }

    /// Reason for which the flow was ended early.
    pub fn enough(&self) -> &'static str {
        self.enough.get()
    }

    pub fn with_report(&self, change: impl FnOnce(&mut FlowReport)) {
        change(lock(&self.report).report_mut());
    }

    /// Adds a sample to the report.
    pub fn sampled(&self, sample: Sample) {
        lock(&self.report).push(sample);
    }
}

impl Drop for FlowPermit<'_> {
    fn drop(&mut self) {
        let mut ended = Ended::Failed;
        self.with_report(|r| {
            if r.ended == Ended::Running {
                r.ended = Ended::Failed;
            }
            ended = r.ended;
        });
        let now = mono_ns();
        self.journal.write(Entry {
            what: self.usage.name(),
            bytes: self.counted,
            duration: Duration::from_nanos((now - self.began).max(0).unsigned_abs()),
            why: match (ended, self.enough()) {
                (Ended::Budget, TURN_OVER) => "turn_over",
                (Ended::Budget, TOO_FAST) => "too_fast",
                (Ended::Budget, IDLE) => "idle",
                (Ended::Budget, _) => "budget",
                (Ended::TimeUp, _) => "time_up",
                (Ended::ByClient, _) => "by_client",
                (Ended::Whole, _) => "whole",
                (Ended::Failed | Ended::Running, _) => "failed",
            },
            user: self.permit.user.borrow().clone(),
            ..Entry::about(Happened::Session, self.permit.from)
        });
        let mut ledger = lock(&self.permit.ledger);
        if self.usage.is_load() {
            ledger.uplink.end(now, self.permit.client);
        }
        if let Some(c) = ledger.clients.get_mut(&self.permit.client) {
            c.flows = c.flows.saturating_sub(1);
        }
    }
}

/// A refusal and its reason in words.
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
            spent: Arc::default(),
            samples: Arc::default(),
        }
    }

    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Lets a connection wait for its request. None where there are too many, and none gives way.
    pub fn connect(&self, from: IpAddr, stream: Option<Arc<TcpStream>>) -> Option<Permit> {
        let client = ClientKey::from(from);
        let now = mono_ns();
        let mut ledger = lock(&self.ledger);
        ledger.forget(now);
        if !ledger.make_room(now, client, &self.budgets) {
            return None;
        }
        let entry = ledger.clients.entry(client).or_insert_with(|| Client {
            hour_began: now,
            ..Client::default()
        });
        entry.connections += 1;
        if now - entry.hour_began >= HOUR_NS {
            entry.hour_began = now;
            entry.spent.store(0, Ordering::Relaxed);
        }
        if now - ledger.hour_began >= HOUR_NS {
            ledger.hour_began = now;
            self.spent.store(0, Ordering::Relaxed);
        }
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

    /// The connection has made a request, with the right key where one is needed: from now on it keeps its place.
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

    /// A report that is being sent.
    ///
    /// # Errors
    /// Too many are.
    pub fn reporting<'a>(&self, permit: &'a Permit) -> Result<Share<'a>, Refused> {
        let of: (fn(&mut Client) -> &mut u32, _) = (|c| &mut c.reports, REPORTS_PER_CLIENT);
        let all: (fn(&mut Ledger) -> &mut u32, _) = (|l| &mut l.reports, REPORTS);
        self.share(permit, of, all, "reports")
    }

    /// A train that is being sent or received.
    ///
    /// # Errors
    /// Too many are.
    pub fn train<'a>(&self, permit: &'a Permit) -> Result<Share<'a>, Refused> {
        let of: (fn(&mut Client) -> &mut u32, _) = (|c| &mut c.trains, TRAINS_PER_CLIENT);
        let all: (fn(&mut Ledger) -> &mut u32, _) = (|l| &mut l.trains, TRAINS);
        self.share(permit, of, all, "trains")
    }

    /// # Errors
    /// The client has too many flows, or has used up its bytes; or another client loads the uplink.
    pub fn flow<'a>(
        &self,
        permit: &'a Permit,
        spec: &FlowSpec,
        direction: Direction,
        usage: Use,
    ) -> Result<FlowPermit<'a>, Refused> {
        let now = mono_ns();
        let mut guard = lock(&self.ledger);
        let ledger = &mut *guard;
        self.has_budget(ledger, permit, now)?;
        let user_spent = self.account(ledger, permit, now)?;
        if ledger
            .sessions
            .get(&spec.session)
            .is_some_and(|s| s.client != permit.client)
        {
            let text = "another client has a session of this number";
            return Err((Refusal::Malformed, text.into()));
        }
        if !ledger.sessions.contains_key(&spec.session) {
            ledger.make_room_for_session(permit.client);
        }
        let flows = ledger
            .sessions
            .get(&spec.session)
            .map_or(0, |s| s.flows.len());
        if flows >= FLOWS_PER_SESSION {
            return busy(format!(
                "a session has at most {FLOWS_PER_SESSION} flows: begin another"
            ));
        }
        let duration = spec.duration.min(self.budgets.duration);
        let mut cut = Arc::default();
        if usage.is_load() {
            let until = now + duration.as_nanos() as i64;
            let taken = ledger.uplink.take(now, permit.client, until);
            cut = taken.map_err(|standing| loaded(&standing))?;
        }
        let Some(client) = ledger.clients.get_mut(&permit.client) else {
            return busy("the server is full: try again in a minute");
        };
        client.flows += 1;
        let report = FlowReport {
            flow: spec.flow,
            direction,
            start_ns: 0,
            ended: Ended::Running,
            congestion: String::new(),
            limits: Limits::default(),
            samples: Vec::new(),
        };
        let kept = Kept::new(report, client.samples.clone(), self.samples.clone());
        let report = Arc::new(Mutex::new(kept));
        let session = ledger
            .sessions
            .entry(spec.session)
            .or_insert_with(|| Session {
                client: permit.client,
                used: now,
                flows: Vec::new(),
            });
        session.used = now;
        session.flows.push(report.clone());
        Ok(FlowPermit {
            permit,
            report,
            duration,
            sample: spec.sample.max(SHORTEST_SAMPLE),
            spent: client.spent.clone(),
            user_spent,
            budget: self.budgets.bytes_per_hour.get(),
            total_spent: self.spent.clone(),
            total_budget: self.budgets.total_bytes_per_hour.get(),
            counted: 0,
            usage,
            began: now,
            cut,
            enough: Cell::new(HOUR_SPENT),
            journal: self.journal.clone(),
        })
    }

    /// The account of the connection's user, where it has one.
    fn account(
        &self,
        ledger: &mut Ledger,
        permit: &Permit,
        now: i64,
    ) -> Result<Option<Arc<AtomicU64>>, Refused> {
        let Some(user) = permit.user.borrow().clone() else {
            return Ok(None);
        };
        let account = ledger.accounts.entry(user).or_insert_with_key(|_| Account {
            hour_began: now,
            spent: Arc::default(),
        });
        let spent = account.at(now);
        if spent >= self.budgets.bytes_per_hour.get() {
            let left = HOUR_NS - (now - account.hour_began);
            let text = format!(
                "this user has moved {:.3} of the {:.3} that each may in an hour: try again in {:.2}",
                Bytes::new(spent),
                self.budgets.bytes_per_hour,
                Duration::from_nanos(left.max(0).unsigned_abs())
            );
            return Err((Refusal::Spent, text));
        }
        Ok(Some(account.spent.clone()))
    }

    /// Bytes that each user has moved in the current hour.
    pub fn used(&self) -> Vec<(Arc<str>, u64)> {
        let ledger = lock(&self.ledger);
        let its =
            |(name, a): (&Arc<str>, &Account)| (name.clone(), a.spent.load(Ordering::Relaxed));
        ledger.accounts.iter().map(its).collect()
    }

    /// True if the client may have one more flow.
    fn has_budget(&self, ledger: &Ledger, permit: &Permit, now: i64) -> Result<(), Refused> {
        let Some(client) = ledger.clients.get(&permit.client) else {
            let text = "the server no longer knows this connection";
            return Err((Refusal::Failed, text.into()));
        };
        if client.flows >= self.budgets.flows_per_client {
            let n = client.flows;
            return busy(format!(
                "{n} flows of this client are running, and more are not allowed at once: use fewer flows"
            ));
        }
        let spent = client.spent.load(Ordering::Relaxed);
        let left = |began: i64| Duration::from_nanos((HOUR_NS - (now - began)).max(0) as u64);
        if spent >= self.budgets.bytes_per_hour.get() {
            return Err((
                Refusal::Spent,
                format!(
                    "this client has moved {:.3} of the {:.3} it may in an hour: try again in {:.2}",
                    Bytes::new(spent),
                    self.budgets.bytes_per_hour,
                    left(client.hour_began)
                ),
            ));
        }
        if self.spent.load(Ordering::Relaxed) >= self.budgets.total_bytes_per_hour.get() {
            return Err((
                Refusal::Spent,
                format!(
                    "all clients together have moved the {:.3} that they may in an hour: try again in {:.2}",
                    self.budgets.total_bytes_per_hour,
                    left(ledger.hour_began)
                ),
            ));
        }
        Ok(())
    }

    /// The flows of a session, still being written perhaps. None where it is not known.
    pub fn session(&self, id: &SessionId) -> Option<Vec<SharedFlow>> {
        let mut ledger = lock(&self.ledger);
        let session = ledger.sessions.get_mut(id)?;
        session.used = mono_ns();
        Some(session.flows.clone())
    }
}

/// What the server holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    pub connections: usize,
    pub clients: usize,
    pub flows: u32,
    pub uplink_taken: bool,
    pub waiting: usize,
}

/// A place in the queue for the uplink, for as long as it lives.
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

    /// Place now. If the turn has come, the uplink is reserved for the client for some seconds.
    pub fn ask(&self) -> Standing {
        lock(&self.0.ledger).uplink.ask(mono_ns(), self.0.client)
    }
}

/// A turn on the uplink, for as long as it lives.
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

fn loaded(standing: &Standing) -> Refused {
    let left = Duration::from_nanos(standing.after_ns.max(1_000_000_000).unsigned_abs());
    let text = format!(
        "another client is loading this server's uplink, and two loads at once would measure each other: try again in {left:.0}"
    );
    (Refusal::Loaded, text)
}

impl Quota {
    pub fn holds(&self) -> Holds {
        let ledger = lock(&self.ledger);
        let clients = ledger.clients.values();
        Holds {
            connections: ledger.connections,
            clients: clients.clone().filter(|c| c.served > 0).count(),
            flows: clients.map(|c| c.flows).sum(),
            uplink_taken: ledger.uplink.is_taken(mono_ns()),
            waiting: ledger.uplink.waiting(),
        }
    }

    /// Lets a client wait for the uplink, for a load of this length.
    ///
    /// # Errors
    /// Too many wait.
    pub fn wait<'a>(&self, permit: &'a Permit, lasts: Duration) -> Result<Place<'a>, Refused> {
        let client = permit.client;
        let lasts_ns = i64::try_from(lasts.as_nanos()).unwrap_or(i64::MAX);
        let mut ledger = lock(&self.ledger);
        if !ledger.uplink.join(client, client.neighbourhood(), lasts_ns) {
            return busy(
                "too many clients wait for this server's uplink: try again in ten minutes",
            );
        }
        Ok(Place(permit, lasts_ns))
    }
}

/// The report of these flows as bytes, once none of them is still being written or `patience` is over: a flow that the
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::uplink::{LINGER_NS, TURN_NS};

    fn spec(session: u8, flow: u32) -> FlowSpec {
        FlowSpec {
            session: SessionId([session; 16]),
            flow,
            duration: Duration::from_secs(10),
            sample: Duration::from_millis(50),
        }
    }

    fn new_quota(budgets: Budgets) -> Quota {
        let journal = Journal::new(None, crate::clock::Clock::start());
        Quota::new(budgets, Arc::new(journal))
    }

    fn quota() -> Quota {
        new_quota(Budgets {
            clients: 2,
            connections_per_client: 2,
            flows_per_client: 1,
            duration: Duration::from_secs(5),
            bytes_per_hour: Bytes::new(1000),
            ..Budgets::default()
        })
    }

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    /// A connection that has made its request.
    fn served(quota: &Quota, from: IpAddr) -> Result<Permit, Refused> {
        let permit = quota.connect(from, None).expect("room to ask");
        quota.serve(&permit).map(|()| permit)
    }

    #[test]
    fn connections_are_counted_for_as_long_as_they_live() {
        let quota = quota();
        let first = served(&quota, A).unwrap();
        let _second = served(&quota, A).unwrap();
        assert!(quota.connect(A, None).is_none());
        let _b = served(&quota, B).unwrap();
        assert!(served(&quota, C).is_err(), "a third client");
        drop(first);
        assert!(served(&quota, A).is_ok());
    }

    /// Every address of the attacker holds connections that ask for nothing; one client comes each second.
    #[test]
    fn who_asks_for_nothing_keeps_nobody_out() {
        let quota = new_quota(Budgets {
            connections: 64,
            ..Budgets::default()
        });
        let ip = |a: u8, b: u8| IpAddr::V4(std::net::Ipv4Addr::new(198, 51, a, b));
        // One network holds all of it: a newcomer from elsewhere gets in at once.
        let mut held: Vec<Permit> = (0..64)
            .map(|n| quota.connect(ip(1, n), None).expect("room"))
            .collect();
        let newcomer = quota.connect(A, None).expect("the heaviest gives way");
        assert!(quota.serve(&newcomer).is_ok());
        // The attacker comes back for that place, and takes it from nobody but itself.
        held.extend(quota.connect(ip(1, 99), None));
        let another = quota.connect(B, None).expect("and still");
        assert!(quota.serve(&another).is_ok());
        drop(held);
        // As many networks as places.
        let spread: Vec<Permit> = (0..60)
            .filter_map(|n| quota.connect(ip(n, 1), None))
            .collect();
        assert!(spread.len() >= 60);
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        for _ in 0..20 {
            let newcomer = quota.connect(C, None).expect("the oldest gives way");
            assert!(quota.serve(&newcomer).is_ok());
        }
        let ledger = lock(&quota.ledger);
        assert!(ledger.connections <= 64, "{}", ledger.connections);
    }

    #[test]
    fn the_uplink_belongs_to_one_client_at_a_time_and_others_are_told_for_how_long() {
        let quota = new_quota(Budgets::default());
        let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
        let first = quota
            .flow(&a, &spec(1, 0), Direction::Up, Use::Upload)
            .unwrap();
        let second = quota.flow(&a, &spec(1, 1), Direction::Up, Use::Upload);
        assert!(second.is_ok(), "its own flows load together");
        let (why, text) = quota
            .flow(&b, &spec(2, 0), Direction::Up, Use::Upload)
            .err()
            .unwrap();
        assert_eq!(why, Refusal::Loaded);
        assert!(text.contains("try again in 20 s"), "{text}");
        let light = quota.flow(&b, &spec(2, 0), Direction::Up, Use::Train);
        assert!(light.is_ok(), "probes are shared");
        drop((first, second));
        let after = quota.flow(&b, &spec(2, 1), Direction::Up, Use::Upload);
        assert!(after.is_err(), "a pause between two phases is no end");
        lock(&quota.ledger).uplink.age(0, LINGER_NS);
        assert!(
            quota.flow(&b, &spec(2, 2), Direction::Up, Use::Upload)
                .is_ok()
        );
    }

    #[test]
    fn whoever_has_had_ten_minutes_lets_another_have_the_uplink() {
        let quota = new_quota(Budgets::default());
        let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
        let load = |permit, n| {
            quota.flow(permit, &spec(n, 0), Direction::Up, Use::Upload)
                .map(drop)
        };
        assert!(load(&a, 1).is_ok());
        lock(&quota.ledger).uplink.age(TURN_NS, 0);
        assert!(load(&a, 2).is_ok(), "nobody waits");
        assert!(load(&b, 3).is_err());
        assert!(load(&a, 4).is_err(), "somebody waits");
        assert!(load(&b, 5).is_ok());
    }

    #[test]
    fn reports_and_trains_at_once_are_bounded() {
        let quota = new_quota(Budgets::default());
        let permits: Vec<Permit> = [A, B, C].map(|ip| served(&quota, ip).unwrap()).into();
        let mut held = Vec::new();
        for permit in &permits {
            held.extend((0..10).filter_map(|_| quota.reporting(permit).ok()));
        }
        assert_eq!(held.len() as u32, REPORTS);
        drop(held);
        assert!(quota.reporting(&permits[2]).is_ok());
        let trains: Vec<_> = (0..20)
            .filter_map(|_| quota.train(&permits[0]).ok())
            .collect();
        assert_eq!(trains.len() as u32, TRAINS_PER_CLIENT);
    }

    #[test]
    fn a_session_of_another_client_is_not_joined() {
        let quota = new_quota(Budgets::default());
        let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
        assert!(
            quota.flow(&a, &spec(1, 0), Direction::Up, Use::Train)
                .is_ok()
        );
        assert!(
            quota.flow(&b, &spec(1, 1), Direction::Up, Use::Train)
                .is_err()
        );
    }

    #[test]
    fn all_addresses_of_a_subscriber_are_one_client() {
        let ip = |s: &str| ClientKey::from(s.parse::<IpAddr>().unwrap());
        assert!(ip("2001:db8:0:1::7") == ip("2001:db8:0:1:ffff::1"));
        assert!(ip("2001:db8:0:1::7") != ip("2001:db8:0:2::7"));
        assert!(ip("::ffff:192.0.2.1") == ip("192.0.2.1"));
        assert!(ip("192.0.2.1") != ip("192.0.2.2"));
    }

    #[test]
    fn a_flow_is_cut_to_the_longest_and_ends_with_its_bytes() {
        let quota = quota();
        let permit = served(&quota, A).unwrap();
        let mut flow = quota
            .flow(&permit, &spec(1, 0), Direction::Up, Use::Upload)
            .unwrap();
        assert_eq!(flow.duration, Duration::from_secs(5));
        let (why, text) = quota
            .flow(&permit, &spec(1, 1), Direction::Up, Use::Upload)
            .err()
            .unwrap();
        assert_eq!(why, Refusal::Busy, "{text}");
        assert!(flow.spend(600));
        assert!(flow.spend(1000));
        assert!(!flow.spend(1001));
        drop(flow);
        let (why, text) = quota
            .flow(&permit, &spec(1, 1), Direction::Up, Use::Upload)
            .err()
            .unwrap();
        assert_eq!(why, Refusal::Spent, "{text}");
        let flows = quota.session(&SessionId([1; 16])).unwrap();
        assert_eq!(flows.len(), 1);
        assert_eq!(
            lock(&flows[0]).report_mut().ended,
            Ended::Failed,
            "it ended without saying how"
        );
        assert!(quota.session(&SessionId([2; 16])).is_none());
    }

    #[test]
    fn sessions_of_a_client_do_not_pile_up() {
        let quota = quota();
        let permit = served(&quota, A).unwrap();
        for s in 0..=SESSIONS_PER_CLIENT as u8 {
            drop(
                quota.flow(&permit, &spec(s, 0), Direction::Up, Use::Upload)
                    .unwrap(),
            );
        }
        assert!(
            quota.session(&SessionId([0; 16])).is_none(),
            "the oldest made room"
        );
        assert!(quota.session(&SessionId([1; 16])).is_some());
    }
}
