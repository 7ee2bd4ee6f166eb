//! Browsers as clients: the site with the page of the test, loads over HTTP, and probes over WebTransport or, where a
//! browser has no datagrams, a WebSocket.
//!
//! The site and its loads have one thread, WebTransport another, so that no load delays a probe. All limits are those of
//! the server: places of clients, hourly bytes, the rate, and one load at a time. QUIC proves a client's address before it
//! is sent more than three times what it sent (RFC 9000, section 8.1); TCP proves it before anything is answered.

mod channel;
mod identity;
mod load;
mod sessions;
mod site;
mod socket;
mod transport;

use super::journal::{Entry, Happened};
use super::quota::{Permit, Refused};
use super::tls::{Handshakes, TlsError};
use super::{Bound as As, ServeError, Server, Shared, bind, listen_error, udp};
use crate::clock::mono_ns;
use base::{Duration, Time};
use identity::{Identity, Source};
use measure::bucket::ByNetwork;
use measure::control::Refusal;
use sessions::Sessions;
use std::borrow::Cow;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Interval of the looks at the server's end.
const LOOK: std::time::Duration = std::time::Duration::from_millis(100);
/// Recordings that may be saved a second, and at once: of one network, then of all.
const SAVES: ((f64, f64), (f64, f64)) = ((0.01, 5.0), (0.1, 20.0));

/// Site for browsers.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Address of the site, over TCP, and of WebTransport, over UDP.
    pub listen: SocketAddr,
    /// Certificate and private key of the operator, PEM. Without them the server makes its own, which browsers warn of; at
    /// a loopback address it then speaks plain HTTP.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Files of the site.
    pub files: Arc<[File]>,
    /// Receiver of the recordings that users save; none takes none.
    pub keep: Option<Keeper>,
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
struct Counters {
    pages: AtomicU64,
    webtransport: AtomicU64,
    websocket: AtomicU64,
    saved: AtomicU64,
}

/// State that both threads share.
pub(super) struct Site {
    port: u16,
    files: Arc<[File]>,
    keep: Option<Keeper>,
    identity: Mutex<Arc<Identity>>,
    sessions: Sessions,
    handshakes: Handshakes,
    saves: Mutex<ByNetwork>,
    counters: Counters,
}

impl Site {
    /// Counts so far.
    pub(super) fn counts(&self) -> Counts {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counts {
            pages: get(&self.counters.pages),
            webtransport: get(&self.counters.webtransport),
            websocket: get(&self.counters.websocket),
            saved: get(&self.counters.saved),
        }
    }

    fn identity(&self) -> Arc<Identity> {
        super::lock(&self.identity).clone()
    }
}

/// Site whose ports are open.
pub(super) struct Bound {
    tcp: TcpListener,
    udp: UdpSocket,
    listen: SocketAddr,
    source: Source,
    config: WebConfig,
}

impl Bound {
    pub(super) fn url(&self) -> String {
        let scheme = match self.source {
            Source::Plain => "http",
            _ => "https",
        };
        format!("{scheme}://{}/", self.listen)
    }
}

/// Binds the ports and reads the certificate, before the rights of root are given up.
pub(super) fn open(config: &WebConfig) -> Result<Bound, ServeError> {
    let source = Source::of(config).map_err(ServeError::Tls)?;
    let mut tries = if config.listen.port() == 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::from(bind(config.listen, As::Tcp)?);
        let listen = tcp
            .local_addr()
            .map_err(|e| listen_error(config.listen, "TCP", e))?;
        match bind(listen, As::Guest) {
            Err(ServeError::InUse { .. }) if tries > 0 => {}
            udp => {
                return Ok(Bound {
                    tcp,
                    udp: UdpSocket::from(udp?),
                    listen,
                    source,
                    config: config.clone(),
                });
            }
        }
    }
}

/// Starts both threads.
pub(super) fn start(server: &mut Server, bound: Bound) -> Result<Arc<Site>, ServeError> {
    let identity = bound.source.identity().map_err(ServeError::Tls)?;
    let site = Arc::new(Site {
        port: bound.listen.port(),
        files: bound.config.files,
        keep: bound.config.keep,
        identity: Mutex::new(Arc::new(identity)),
        sessions: Sessions::default(),
        handshakes: Handshakes::default(),
        saves: Mutex::new(ByNetwork::new(SAVES.0, SAVES.1)),
        counters: Counters::default(),
    });
    let listen = bound.listen;
    let mirror = |server: &mut Server| {
        let published = Arc::<Mutex<udp::Published>>::default();
        server.reflectors.push(published.clone());
        let its = server.shared.clone();
        let budget = measure::reflector::Budget::default();
        let reflector = udp::reflector(budget, None, its.clock).map_err(ServeError::Reflector)?;
        let accounts = Box::new(move |from, user: Option<&Arc<str>>| its.quota.account(from, user));
        Ok::<_, ServeError>((reflector.with_accounts(accounts), published))
    };
    let (reflector, published) = mirror(server)?;
    let (its, shared, tcp) = (site.clone(), server.shared.clone(), bound.tcp);
    server.thread("serve-web", move || {
        let mirror = channel::Mirror::new(reflector, published, shared.clone());
        site::run(tcp, its, shared, mirror)
            .map_err(|e| format!("the site on {listen} has failed: {e}"))
    })?;
    let (reflector, published) = mirror(server)?;
    let (its, shared, udp, source) = (site.clone(), server.shared.clone(), bound.udp, bound.source);
    server.thread("serve-quic", move || {
        let mirror = channel::Mirror::new(reflector, published, shared.clone());
        transport::run(udp, &source, its, shared, mirror)
            .map_err(|e| format!("WebTransport on {listen} has failed: {e}"))
    })?;
    Ok(site)
}

/// Client of the site: one connection.
struct Client {
    site: Arc<Site>,
    shared: Arc<Shared>,
    permit: Permit,
    from: SocketAddr,
    served: Cell<bool>,
}

impl Client {
    fn new(site: &Arc<Site>, shared: &Arc<Shared>, permit: Permit, from: SocketAddr) -> Client {
        Client {
            site: site.clone(),
            shared: shared.clone(),
            permit,
            from,
            served: Cell::new(false),
        }
    }

    /// Gives the connection its place, once it asks for more than the page.
    fn admit(&self) -> Result<(), Refused> {
        if !self.served.get() {
            self.shared.quota.serve(&self.permit)?;
            self.served.set(true);
        }
        Ok(())
    }

    /// Counts and logs a refusal.
    fn refused(&self, why: Refusal, text: &str) {
        self.shared.refused(self.from.ip(), why, text);
    }

    /// True if so many bytes may still be moved; they are charged.
    fn pays(&self, bytes: u64) -> bool {
        let account = self.shared.quota.account(self.from.ip(), None);
        if !account.has_room() {
            return false;
        }
        account.charge(bytes);
        self.shared.ceiling.book(mono_ns(), bytes);
        true
    }

    /// Logs the end of a channel of probes.
    fn ended(&self, what: &'static str, began: i64, bytes: u64) {
        self.shared.journal.write(Entry {
            what,
            bytes,
            duration: Duration::from_nanos((mono_ns() - began).max(0).unsigned_abs()),
            why: "by_client",
            ..Entry::about(Happened::Session, self.from.ip().to_canonical())
        });
    }
}

fn monotonic() -> Time {
    Time::from_nanos(mono_ns().max(0).unsigned_abs())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Error of a certificate that cannot be used, as text.
fn said(e: &TlsError) -> String {
    e.to_string()
}
