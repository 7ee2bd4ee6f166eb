//! Browsers as clients: the site with the page of the test, loads over HTTP, and probes over WebTransport or, where a
//! browser has no datagrams, a WebSocket.
//!
//! The site and its loads have one thread, WebTransport another, so that no load delays a probe. All limits are those of
//! the server: places of clients, hourly bytes, the rate, and one load at a time. QUIC proves a client's address by a Retry
//! packet (RFC 9000, section 8.1.2), TCP by its handshake, before anything else is answered.

mod acme;
mod body;
mod channel;
mod client;
mod guests;
mod identity;
mod load;
mod ndt7;
mod sessions;
mod site;
mod socket;
mod transport;

pub use acme::{AcmeConfig, Authority, SiteName};
pub(super) use client::Site;
pub use client::{Counts, File, Keep, Keeper, WebConfig, WebGuests};

use super::shared::Shared;
use super::sync::lock;
use super::tls::{Handshakes, TlsError};
use super::udp::{self, Published};
use client::{Counters, SAVES};
use identity::{Identity, Source};
use measure::bucket::ByNetwork;
use sessions::Sessions;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

/// Site whose ports are open.
pub(super) struct Bound {
    tcp: TcpListener,
    udp: UdpSocket,
    listen: SocketAddr,
    source: Source,
    identity: Identity,
    config: WebConfig,
}

impl Bound {
    /// Reads the certificate, before the rights of root are given up.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub(super) fn new(
        listen: SocketAddr,
        tcp: TcpListener,
        udp: UdpSocket,
        config: &WebConfig,
    ) -> Result<Bound, TlsError> {
        let source = Source::of(config)?;
        Ok(Bound {
            tcp,
            udp,
            listen,
            identity: source.identity()?,
            source,
            config: config.clone(),
        })
    }

    pub(super) fn url(&self) -> String {
        let port = self.listen.port();
        match &self.source {
            Source::Plain => format!("http://{}/", self.listen),
            Source::Acme(acme) => acme.url(port),
            _ => format!("https://{}/", self.listen),
        }
    }
}

/// Thread of the site, to be started.
pub(super) struct Task {
    pub name: &'static str,
    pub run: Box<dyn FnOnce() -> Result<(), String> + Send>,
    /// Counters of its reflector.
    pub published: Arc<Mutex<Published>>,
}

/// Prepares both threads.
pub(super) fn start(
    bound: Bound,
    shared: &Arc<Shared>,
    notes: &Arc<Mutex<Vec<String>>>,
) -> std::io::Result<(Arc<Site>, [Task; 2])> {
    let acme = match &bound.source {
        Source::Acme(acme) => Some(acme.clone()),
        _ => None,
    };
    let site = Arc::new(Site {
        port: bound.listen.port(),
        files: bound.config.files,
        keep: bound.config.keep,
        guests: bound.config.guests,
        ndt7: AtomicU32::new(0),
        identity: Mutex::new(Arc::new(bound.identity)),
        source: bound.source,
        sessions: Sessions::default(),
        handshakes: Handshakes::default(),
        saves: Mutex::new(ByNetwork::new(SAVES.0, SAVES.1)),
        counters: Counters::default(),
    });
    let listen = bound.listen;
    let reflector = || {
        let its = shared.clone();
        let reflector = udp::reflector(measure::reflector::Budget::default(), None, its.clock)?;
        let accounts = Box::new(move |from, user: Option<&Arc<str>>| its.quota.account(from, user));
        Ok::<_, std::io::Error>(reflector.with_accounts(accounts))
    };
    let http = {
        let (reflector, published) = (reflector()?, Arc::<Mutex<Published>>::default());
        let (its, shared, told, tcp) = (site.clone(), shared.clone(), published.clone(), bound.tcp);
        let notes = notes.clone();
        let run = move || {
            let mirror = channel::Mirror::new(reflector, told, shared.clone());
            let certificates = acme.map(|acme| {
                let of = its.clone();
                acme::keep(
                    acme,
                    move || of.renew(),
                    move |note| lock(&notes).push(note),
                )
            });
            site::run(tcp, its, shared, mirror, certificates)
                .map_err(|e| format!("the site on {listen} has failed: {e}"))
        };
        Task {
            name: "serve-web",
            run: Box::new(run),
            published,
        }
    };
    let quic = {
        let (reflector, published) = (reflector()?, Arc::<Mutex<Published>>::default());
        let (its, shared, told) = (site.clone(), shared.clone(), published.clone());
        let udp = bound.udp;
        let run = move || {
            let mirror = channel::Mirror::new(reflector, told, shared.clone());
            transport::run(udp, its, shared, mirror)
                .map_err(|e| format!("WebTransport on {listen} has failed: {e}"))
        };
        Task {
            name: "serve-quic",
            run: Box::new(run),
            published,
        }
    };
    Ok((site, [http, quic]))
}
