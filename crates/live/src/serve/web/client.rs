//! One connection of a browser, and the state that all of them share.

use super::acme::AcmeConfig;
use super::identity::{Identity, Source};
use super::sessions::Sessions;
use crate::clock::mono_ns;
use crate::serve::journal::{Entry, Happened};
use crate::serve::quota::{Permit, Refused};
use crate::serve::shared::Shared;
use crate::serve::sync::lock;
use crate::serve::tls::{Handshakes, TlsError};
use base::{Duration, Time};
use measure::bucket::ByNetwork;
use measure::control::Refusal;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Interval of the looks at the server's end.
pub(super) const LOOK: std::time::Duration = std::time::Duration::from_millis(100);
/// Recordings that may be saved a second, and at once: of one network, then of all.
pub(super) const SAVES: ((f64, f64), (f64, f64)) = ((0.01, 5.0), (0.1, 20.0));

/// Site for browsers.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Address of the site, over TCP, and of WebTransport, over UDP.
    pub listen: SocketAddr,
    /// Certificate and private key of the operator, PEM. Without them the server makes its own, which browsers warn of; at
    /// a loopback address it then speaks plain HTTP.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Authority that gives the certificate instead.
    pub acme: Option<AcmeConfig>,
    /// Files of the site.
    pub files: Arc<[File]>,
    /// Receiver of the recordings that users save; none takes none.
    pub keep: Option<Keeper>,
    /// Other tools whose tests the site takes.
    pub guests: WebGuests,
}

/// Other tools that a site serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebGuests {
    /// Clients of responsiveness, such as networkQuality.
    pub rpm: bool,
    /// Clients of ndt7.
    pub ndt7: bool,
}

/// File of the site.
#[derive(Debug)]
pub struct File {
    /// Path, such as `/page.js`.
    pub path: &'static str,
    /// Media type.
    pub kind: &'static str,
    /// True if the content is compressed by gzip.
    pub gzip: bool,
    /// Content of the file.
    pub body: Cow<'static, [u8]>,
}

/// Receiver of recordings.
pub trait Keep: Send + Sync {
    /// Keeps a recording, as rows in lines; gives its name.
    ///
    /// # Errors
    /// The reason in words: a line that is no row, no room.
    fn keep(&self, from: IpAddr, text: &str) -> Result<String, String>;
}

/// Shared receiver of recordings.
#[derive(Clone)]
pub struct Keeper(pub Arc<dyn Keep>);

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

/// Counts of the site so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Pages that were sent.
    pub pages: u64,
    /// Channels of probes over WebTransport.
    pub webtransport: u64,
    /// Channels of probes over a WebSocket.
    pub websocket: u64,
    /// Recordings that were kept.
    pub saved: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub pages: AtomicU64,
    pub webtransport: AtomicU64,
    pub websocket: AtomicU64,
    pub saved: AtomicU64,
}

/// State that both threads share.
pub(crate) struct Site {
    pub(super) port: u16,
    pub(super) files: Arc<[File]>,
    pub(super) keep: Option<Keeper>,
    pub(super) guests: WebGuests,
    /// Tests of ndt7 that run.
    pub(super) ndt7: AtomicU32,
    pub(super) source: Source,
    pub(super) identity: Mutex<Arc<Identity>>,
    pub(super) sessions: Sessions,
    pub(super) handshakes: Handshakes,
    pub(super) saves: Mutex<ByNetwork>,
    pub(super) counters: Counters,
}

impl Site {
    /// Counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counts {
            pages: get(&self.counters.pages),
            webtransport: get(&self.counters.webtransport),
            websocket: get(&self.counters.websocket),
            saved: get(&self.counters.saved),
        }
    }

    pub(super) fn identity(&self) -> Arc<Identity> {
        lock(&self.identity).clone()
    }

    /// Takes the certificate that is right now.
    ///
    /// # Errors
    /// A certificate that cannot be used.
    pub(super) fn renew(&self) -> Result<(), TlsError> {
        let identity = self.source.identity()?;
        *lock(&self.identity) = Arc::new(identity);
        Ok(())
    }
}

/// Client of the site: one connection.
pub(super) struct Client {
    pub site: Arc<Site>,
    pub shared: Arc<Shared>,
    pub permit: Permit,
    pub from: SocketAddr,
    /// Second handle of its TCP connection.
    pub socket: Option<Arc<TcpStream>>,
    served: Cell<bool>,
}

impl Client {
    pub(super) fn new(
        site: &Arc<Site>,
        shared: &Arc<Shared>,
        permit: Permit,
        from: SocketAddr,
    ) -> Client {
        Client {
            site: site.clone(),
            shared: shared.clone(),
            permit,
            from,
            socket: None,
            served: Cell::new(false),
        }
    }

    /// Client over a TCP connection.
    pub(super) fn over(self, socket: Arc<TcpStream>) -> Client {
        Client {
            socket: Some(socket),
            ..self
        }
    }

    /// Gives the connection its place, once it asks for more than the page.
    pub(super) fn admit(&self) -> Result<(), Refused> {
        if !self.served.get() {
            self.shared.quota.serve(&self.permit)?;
            self.served.set(true);
        }
        Ok(())
    }

    /// Counts and logs a refusal.
    pub(super) fn refused(&self, why: Refusal, text: &str) {
        self.shared.refused(self.from.ip(), why, text);
    }

    /// True if so many bytes may still be moved; they are charged.
    pub(super) fn pays(&self, bytes: u64) -> bool {
        let account = self.shared.quota.account(self.from.ip(), None);
        if !account.has_room() {
            return false;
        }
        account.charge(bytes);
        self.shared.ceiling.book(mono_ns(), bytes);
        true
    }

    /// Logs the end of a channel of probes.
    pub(super) fn ended(&self, what: &'static str, began: i64, bytes: u64) {
        self.shared.journal.write(Entry {
            what,
            bytes,
            duration: Duration::from_nanos((mono_ns() - began).max(0).unsigned_abs()),
            why: "by_client",
            ..Entry::about(Happened::Session, self.from.ip().to_canonical())
        });
    }
}

pub(super) fn monotonic() -> Time {
    Time::from_nanos(mono_ns().max(0).unsigned_abs())
}
