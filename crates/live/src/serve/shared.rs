//! State that all threads of a server share.

use super::datagrams::Inboxes;
use super::journal::{self, Entry, Happened, Journal};
use super::keys::Ring;
use super::networks::Network;
use super::ports::PortSet;
use super::promises::Promises;
use super::quota::Quota;
use super::tls::Tls;
use super::train;
use crate::clock::Clock;
use crate::load::ceiling::Ceiling;
use crate::load::pump::Payload;
use measure::control::Refusal;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub(super) const NOT_ALLOWED: &str =
    "this server serves certain networks only, and this address is in none of them";
pub(super) const FULL: &str = "the server is full: try again in a minute";

#[derive(Default)]
pub(super) struct Counters {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub flows: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
    pub foreign: AtomicU64,
    pub wrong_keys: AtomicU64,
    pub tls_handshakes: AtomicU64,
}

/// State that all threads of a server share.
pub(super) struct Shared {
    pub ring: Ring,
    pub tls: Option<Tls>,
    pub tls_only: bool,
    pub clock: Clock,
    pub stop: Arc<AtomicBool>,
    pub allow: Vec<Network>,
    pub allow_listen: PortSet,
    /// True if clients may have their own packets captured.
    pub allow_capture: bool,
    /// Held while packets are captured for a client.
    pub capturing: Mutex<()>,
    /// Ports that are open for clients.
    pub ports_open: AtomicUsize,
    pub quota: Quota,
    pub ceiling: Ceiling,
    pub promises: Promises,
    pub journal: Arc<Journal>,
    pub counters: Counters,
    pub datagrams: Inboxes,
    /// Data for downloads, made for the first one.
    pub payload: OnceLock<Payload>,
    /// Budget of processor time for trains that are waited for awake.
    pub awake: train::Awake,
}

impl Shared {
    /// Counts a refusal and logs it.
    pub fn refused(&self, client: std::net::IpAddr, why: Refusal, text: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.journal.write(Entry {
            what: "request",
            why: journal::name(why),
            text: base::text::clean(text).into_owned(),
            ..Entry::about(Happened::Refused, client.to_canonical())
        });
    }
}
