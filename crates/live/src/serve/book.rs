//! Who is being served, what they have used up, and what was counted for them.

use crate::clock::mono_ns;
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::{
    Ended, FlowReport, FlowSpec, Limits, MAX_REPORT_SAMPLES, Refusal, SessionId,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a client may use. A client is an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Clients at once.
    pub clients: usize,
    /// Connections at once: flows, requests and probes of a client.
    pub connections_per_client: u32,
    /// Flows at once.
    pub flows_per_client: u32,
    /// Longest flow; a longer one is cut to it. What a client may use is bounded by the bytes of an hour.
    pub duration: Duration,
    /// In both directions together.
    pub bytes_per_hour: Bytes,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            clients: 32,
            connections_per_client: 128,
            flows_per_client: 64,
            duration: Duration::from_secs(3600),
            bytes_per_hour: Bytes::new(100_000_000_000),
        }
    }
}

const HOUR_NS: i64 = 3_600_000_000_000;
/// How long a finished session can be asked about.
const KEPT_NS: i64 = 600_000_000_000;
const SESSIONS_PER_CLIENT: usize = 16;
const FLOWS_PER_SESSION: usize = 64;
const SAMPLES_PER_FLOW: u64 = (MAX_REPORT_SAMPLES / FLOWS_PER_SESSION) as u64;
const SHORTEST_SAMPLE: Duration = Duration::from_millis(5);

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

#[derive(Default)]
struct Client {
    connections: u32,
    flows: u32,
    hour_began: i64,
    spent: Arc<AtomicU64>,
}

pub type SharedFlow = Arc<Mutex<FlowReport>>;

struct Session {
    client: ClientKey,
    used: i64,
    flows: Vec<SharedFlow>,
}

#[derive(Default)]
struct Ledger {
    clients: BTreeMap<ClientKey, Client>,
    sessions: BTreeMap<SessionId, Session>,
}

pub struct Book {
    budgets: Budgets,
    ledger: Arc<Mutex<Ledger>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a connection, for as long as it lives.
pub struct Permit {
    ledger: Arc<Mutex<Ledger>>,
    client: ClientKey,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(c) = lock(&self.ledger).clients.get_mut(&self.client) {
            c.connections -= 1;
        }
    }
}

/// Counts a flow, for as long as it lives, and what it may still use.
pub struct FlowPermit<'a> {
    permit: &'a Permit,
    pub report: SharedFlow,
    pub duration: Duration,
    pub sample: Duration,
    spent: Arc<AtomicU64>,
    budget: u64,
    counted: u64,
}

impl FlowPermit<'_> {
    /// Books what the flow has moved so far; false when that was too much.
    pub fn spend(&mut self, total: u64) -> bool {
        let more = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        self.spent.fetch_add(more, Ordering::Relaxed) + more <= self.budget
    }

    pub fn with_report(&self, change: impl FnOnce(&mut FlowReport)) {
        change(&mut lock(&self.report));
    }
}

impl Drop for FlowPermit<'_> {
    fn drop(&mut self) {
        self.with_report(|r| {
            if r.ended == Ended::Running {
                r.ended = Ended::Failed;
            }
        });
        if let Some(c) = lock(&self.permit.ledger)
            .clients
            .get_mut(&self.permit.client)
        {
            c.flows -= 1;
        }
    }
}

/// A refusal and its reason in words.
pub type Refused = (Refusal, String);

impl Book {
    pub fn new(budgets: Budgets) -> Book {
        Book {
            budgets,
            ledger: Arc::default(),
        }
    }

    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// None where there are too many connections already.
    pub fn connect(&self, from: IpAddr) -> Option<Permit> {
        let client = ClientKey::from(from);
        let now = mono_ns();
        let mut ledger = lock(&self.ledger);
        // Forgets clients whose hour is over, sessions that nobody has asked about.
        ledger.sessions.retain(|_, s| now - s.used < KEPT_NS);
        ledger.clients.retain(|_, c| {
            c.connections > 0 || now - c.hour_began < HOUR_NS && c.spent.load(Ordering::Relaxed) > 0
        });
        let active = ledger
            .clients
            .values()
            .filter(|c| c.connections > 0)
            .count();
        let its = ledger.clients.get(&client).map_or(0, |c| c.connections);
        if its == 0 && active >= self.budgets.clients || its >= self.budgets.connections_per_client
        {
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
        Some(Permit {
            ledger: self.ledger.clone(),
            client,
        })
    }

    /// # Errors
    /// The client has too many flows, or has used up its bytes.
    pub fn flow<'a>(
        &self,
        permit: &'a Permit,
        spec: &FlowSpec,
        direction: Direction,
    ) -> Result<FlowPermit<'a>, Refused> {
        let now = mono_ns();
        let mut guard = lock(&self.ledger);
        let ledger = &mut *guard;
        let Some(client) = ledger.clients.get_mut(&permit.client) else {
            return Err((
                Refusal::Failed,
                "the connection is not in the server's books".into(),
            ));
        };
        if client.flows >= self.budgets.flows_per_client {
            let n = client.flows;
            return Err((
                Refusal::Busy,
                format!(
                    "{n} flows of this client are running, and more are not allowed at once: use fewer flows"
                ),
            ));
        }
        let budget = self.budgets.bytes_per_hour.get();
        let spent = client.spent.load(Ordering::Relaxed);
        if spent >= budget {
            let left = Duration::from_nanos((HOUR_NS - (now - client.hour_began)).max(0) as u64);
            return Err((
                Refusal::Spent,
                format!(
                    "this client has moved {:.3} of the {:.3} it may in an hour: try again in {:.2}",
                    Bytes::new(spent),
                    self.budgets.bytes_per_hour,
                    left
                ),
            ));
        }
        let of_client = ledger
            .sessions
            .values()
            .filter(|s| s.client == permit.client);
        if !ledger.sessions.contains_key(&spec.session)
            && of_client.clone().count() >= SESSIONS_PER_CLIENT
        {
            // The one unused for longest makes room; its flows, if they still run, end unreported.
            let oldest = ledger
                .sessions
                .iter()
                .filter(|(_, s)| s.client == permit.client)
                .min_by_key(|(_, s)| s.used)
                .map(|(id, _)| *id);
            if let Some(id) = oldest {
                ledger.sessions.remove(&id);
            }
        }
        let session = ledger
            .sessions
            .entry(spec.session)
            .or_insert_with(|| Session {
                client: permit.client,
                used: now,
                flows: Vec::new(),
            });
        if session.flows.len() >= FLOWS_PER_SESSION {
            return Err((
                Refusal::Busy,
                format!("a session has at most {FLOWS_PER_SESSION} flows: begin another"),
            ));
        }
        session.used = now;
        client.flows += 1;
        let duration = spec.duration.min(self.budgets.duration);
        let longest_table = Duration::from_nanos(duration.as_nanos() / SAMPLES_PER_FLOW + 1);
        let report = Arc::new(Mutex::new(FlowReport {
            flow: spec.flow,
            direction,
            start_ns: 0,
            ended: Ended::Running,
            congestion: String::new(),
            limits: Limits::default(),
            samples: Vec::new(),
        }));
        session.flows.push(report.clone());
        Ok(FlowPermit {
            permit,
            report,
            duration,
            sample: spec.sample.max(SHORTEST_SAMPLE).max(longest_table),
            spent: client.spent.clone(),
            budget,
            counted: 0,
        })
    }

    /// The flows of a session, still being written perhaps. None where it is not known.
    pub fn session(&self, id: &SessionId) -> Option<Vec<SharedFlow>> {
        let mut ledger = lock(&self.ledger);
        let session = ledger.sessions.get_mut(id)?;
        session.used = mono_ns();
        Some(session.flows.clone())
    }
}

/// Copies of reports, once none of them is still being written or `patience` is over: a flow that the
/// client has just reset may not have noticed.
pub fn settle(flows: &[SharedFlow], patience: Duration) -> Vec<FlowReport> {
    let until = mono_ns() + patience.as_nanos() as i64;
    while mono_ns() < until && flows.iter().any(|f| lock(f).ended == Ended::Running) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    flows.iter().map(|f| lock(f).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(session: u8, flow: u32) -> FlowSpec {
        FlowSpec {
            session: SessionId([session; 16]),
            flow,
            duration: Duration::from_secs(10),
            sample: Duration::from_millis(50),
        }
    }

    fn book() -> Book {
        Book::new(Budgets {
            clients: 2,
            connections_per_client: 2,
            flows_per_client: 1,
            duration: Duration::from_secs(5),
            bytes_per_hour: Bytes::new(1000),
        })
    }

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    #[test]
    fn connections_are_counted_for_as_long_as_they_live() {
        let book = book();
        let first = book.connect(A).unwrap();
        let _second = book.connect(A).unwrap();
        assert!(book.connect(A).is_none());
        let _b = book.connect(B).unwrap();
        assert!(book.connect(C).is_none(), "a third client");
        drop(first);
        assert!(book.connect(A).is_some());
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
        let book = book();
        let permit = book.connect(A).unwrap();
        let mut flow = book.flow(&permit, &spec(1, 0), Direction::Up).unwrap();
        assert_eq!(flow.duration, Duration::from_secs(5));
        let (why, text) = book
            .flow(&permit, &spec(1, 1), Direction::Up)
            .err()
            .unwrap();
        assert_eq!(why, Refusal::Busy, "{text}");
        assert!(flow.spend(600));
        assert!(flow.spend(1000));
        assert!(!flow.spend(1001));
        drop(flow);
        let (why, text) = book
            .flow(&permit, &spec(1, 1), Direction::Up)
            .err()
            .unwrap();
        assert_eq!(why, Refusal::Spent, "{text}");
        let flows = book.session(&SessionId([1; 16])).unwrap();
        assert_eq!(flows.len(), 1);
        assert_eq!(
            lock(&flows[0]).ended,
            Ended::Failed,
            "it ended without saying how"
        );
        assert!(book.session(&SessionId([2; 16])).is_none());
    }

    #[test]
    fn a_report_of_the_longest_flows_fits_its_frame() {
        let book = Book::new(Budgets {
            duration: Duration::from_secs(86_400),
            ..Budgets::default()
        });
        let permit = book.connect(A).unwrap();
        let long = FlowSpec {
            duration: Duration::from_secs(86_400),
            sample: Duration::ZERO,
            ..spec(1, 0)
        };
        let flow = book.flow(&permit, &long, Direction::Up).unwrap();
        let samples = flow.duration.as_nanos() / flow.sample.as_nanos() + 2;
        assert!(
            samples as usize * FLOWS_PER_SESSION <= MAX_REPORT_SAMPLES + 2 * FLOWS_PER_SESSION,
            "{samples}"
        );
    }

    #[test]
    fn sessions_of_a_client_do_not_pile_up() {
        let book = book();
        let permit = book.connect(A).unwrap();
        for s in 0..=SESSIONS_PER_CLIENT as u8 {
            drop(book.flow(&permit, &spec(s, 0), Direction::Up).unwrap());
        }
        assert!(
            book.session(&SessionId([0; 16])).is_none(),
            "the oldest made room"
        );
        assert!(book.session(&SessionId([1; 16])).is_some());
    }
}
