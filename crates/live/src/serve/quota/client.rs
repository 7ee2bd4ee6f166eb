//! Clients and users with the bytes that they have moved in the current hour.

use super::{CLIENTS_KEPT, Ledger, SESSION_KEPT_NS};
use base::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Bytes moved in the current hour. Flows and sessions share the counter and may outlast the hour.
#[derive(Default)]
pub(super) struct Hour {
    began: i64,
    pub spent: Arc<AtomicU64>,
}

impl Hour {
    pub fn starting(now: i64) -> Hour {
        Hour {
            began: now,
            spent: Arc::default(),
        }
    }

    /// Starts a new hour if the last one is over. Returns the bytes of the current one.
    pub fn roll(&mut self, now: i64) -> u64 {
        if now - self.began >= HOUR_NS {
            self.began = now;
            self.spent.store(0, Ordering::Relaxed);
        }
        self.spent.load(Ordering::Relaxed)
    }

    /// Time until the next hour starts.
    pub fn left(&self, now: i64) -> Duration {
        Duration::from_nanos((HOUR_NS - (now - self.began)).max(0).unsigned_abs())
    }

    /// True if a flow or a session still charges bytes to it.
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.spent) > 1
    }

    /// True if nothing is lost by forgetting it.
    fn is_blank(&self) -> bool {
        !self.is_shared() && self.spent.load(Ordering::Relaxed) == 0
    }
}

/// Client: an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Default)]
pub(super) struct Client {
    pub connections: u32,
    /// Number of connections that are being served.
    pub served: u32,
    pub flows: u32,
    pub reports: u32,
    pub trains: u32,
    pub hour: Hour,
    pub samples: Arc<AtomicUsize>,
}

impl Client {
    pub fn new(now: i64) -> Client {
        Client {
            hour: Hour::starting(now),
            ..Client::default()
        }
    }
}

impl Ledger {
    /// Starts new hours. Forgets clients and users that have moved nothing in theirs, and sessions whose reports were
    /// not requested.
    pub fn forget(&mut self, now: i64) {
        self.sessions.retain(|_, s| now - s.used < SESSION_KEPT_NS);
        self.hour.roll(now);
        self.users.retain(|_, hour| {
            hour.roll(now);
            !hour.is_blank()
        });
        self.clients.retain(|_, c| {
            c.hour.roll(now);
            c.connections > 0 || !c.hour.is_blank()
        });
        let excess = self.clients.len().saturating_sub(CLIENTS_KEPT);
        if excess > 0 {
            let idle = |c: &Client| c.connections == 0 && !c.hour.is_shared();
            let idle = self.clients.iter().filter(|(_, c)| idle(c));
            let mut by_use: Vec<(u64, IpAddr)> = idle
                .map(|(key, c)| (c.hour.spent.load(Ordering::Relaxed), *key))
                .collect();
            by_use.sort_unstable();
            for (_, key) in by_use.into_iter().take(excess) {
                self.clients.remove(&key);
            }
        }
    }
}
