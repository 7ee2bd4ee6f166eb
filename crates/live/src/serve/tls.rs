//! TLS 1.3 for control messages: the server's key and certificate, and the limit on handshakes.
//!
//! The certificate is signed by its own key and made anew at each start. Clients check the public key alone, so only
//! the private key has to be stored.

use super::keys::KeysError;
use crate::clock::mono_ns;
use crate::load::kernel::random_bytes;
use crate::pipe::pin_of;
use base::Time;
use measure::bucket::ByNetwork;
use measure::keys::{Pin, Tickets};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::version::TLS13;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes of one network, a second and in a burst; then of all. One takes about 0.5 ms of a core.
const OF_NETWORK: (f64, f64) = (25.0, 100.0);
const OF_ALL: (f64, f64) = (100.0, 200.0);
/// Handshakes that are kept for networks that have lately made none, when all others together have used up theirs.
const OF_NEWCOMERS: (f64, f64) = (50.0, 100.0);
/// Interval of the looks at whether a handshake may begin.
const LOOK: Duration = Duration::from_millis(25);
const KEY_FILE: &str = "tls-key.der";

/// Source of the server's private key.
#[derive(Clone, Debug, Default)]
pub enum TlsKey {
    /// No TLS.
    #[default]
    Off,
    /// Key made for this run.
    Fresh,
    /// Key stored in this directory, and made there if there is none.
    KeptIn(PathBuf),
    /// Operator's own key, as PEM files.
    Own { certificate: PathBuf, key: PathBuf },
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is no key or certificate as PEM: {why}", .path.display())]
    Pem { path: PathBuf, why: String },
    #[error("cannot use the TLS key and certificate: {0}")]
    Unusable(String),
    #[error(transparent)]
    Open(#[from] KeysError),
}

pub(super) fn unusable(e: impl std::fmt::Display) -> TlsError {
    TlsError::Unusable(e.to_string())
}

/// TLS state of a running server.
pub struct Tls {
    pub config: Arc<rustls::ServerConfig>,
    pub pin: Pin,
    /// Keys for the probes of clients that have the pin. The same secret yields the same ones after a restart.
    pub tickets: Tickets,
    handshakes: Handshakes,
}

/// Limits on handshakes: of each network, and of all. What costs nothing is not limited here: a connection that has sent no
/// whole message, or that leaves the server waiting for its answer.
pub struct Handshakes {
    rates: Mutex<ByNetwork>,
}

impl Default for Handshakes {
    fn default() -> Handshakes {
        let rates = ByNetwork::new(OF_NETWORK, OF_ALL).with_reserve(OF_NEWCOMERS);
        Handshakes {
            rates: Mutex::new(rates),
        }
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tls {
    /// Loads or makes the key; none if TLS is off.
    ///
    /// # Errors
    /// The key cannot be read, made or used.
    pub fn new(key: &TlsKey) -> Result<Option<Tls>, TlsError> {
        let (certificates, key) = match key {
            TlsKey::Off => return Ok(None),
            TlsKey::Fresh => self_signed(KeyPair::generate().map_err(unusable)?)?,
            TlsKey::KeptIn(directory) => self_signed(kept(directory)?)?,
            TlsKey::Own { certificate, key } => own(certificate, key)?,
        };
        let pin = pin_of(
            certificates
                .first()
                .ok_or_else(|| unusable("no certificate"))?,
        );
        let tickets = Tickets::new(key.secret_der());
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(unusable)?
                .with_no_client_auth()
                .with_single_cert(certificates, key)
                .map_err(unusable)?;
        // Each connection carries one request: nothing is resumed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Some(Tls {
            config: Arc::new(config),
            pin: pin.map_err(unusable)?,
            tickets,
            handshakes: Handshakes::default(),
        }))
    }

    /// Limits on its handshakes.
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }
}

impl Handshakes {
    /// True if this address may make a handshake now, which counts; false if its network, or all together, have used up their
    /// share.
    pub fn begin(&self, ip: IpAddr) -> bool {
        let now = Time::from_nanos(mono_ns().max(0).unsigned_abs());
        lock(&self.rates).take(now, ip)
    }

    /// Makes the server's part of a handshake over `stream`: reads the client's first message, waits for the turn of its
    /// address, and answers. None if that takes longer than `within`, or fails.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        config: Arc<rustls::ServerConfig>,
        ip: IpAddr,
        within: Duration,
    ) -> Option<TlsStream<S>> {
        let handshake = async {
            let asked = LazyConfigAcceptor::new(Acceptor::default(), stream).await;
            let asked = asked.ok()?;
            while !self.begin(ip) {
                tokio::time::sleep(LOOK).await;
            }
            asked.into_stream(config).await.ok()
        };
        tokio::time::timeout(within, handshake).await.ok()?
    }
}

pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn self_signed(key: KeyPair) -> Result<Identity, TlsError> {
    let params = CertificateParams::new(vec!["tailback.invalid".to_owned()]).map_err(unusable)?;
    let certificate = params.self_signed(&key).map_err(unusable)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], key.into()))
}

/// Key in this directory, which is made if there is none.
fn kept(directory: &Path) -> Result<KeyPair, TlsError> {
    let path = directory.join(KEY_FILE);
    let failed = |what| {
        let path = path.clone();
        move |source| TlsError::File { what, path, source }
    };
    match std::fs::read(&path) {
        Ok(der) => {
            only_ours(&path)?;
            KeyPair::try_from(der.as_slice()).map_err(|e| TlsError::Pem {
                path: path.clone(),
                why: e.to_string(),
            })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(directory).map_err(failed("make the directory of"))?;
            let key = KeyPair::generate().map_err(unusable)?;
            match put(directory, &path, &key.serialize_der()) {
                Ok(()) => Ok(key),
                // Another server was quicker: there is a key now.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => kept(directory),
                Err(e) => Err(failed("write")(e)),
            }
        }
        Err(e) => Err(failed("read")(e)),
    }
}

/// Writes a file as a whole, for nobody else to read, unless there is one.
fn put(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = written_beside(directory, bytes)?;
    let done = std::fs::hard_link(&beside, path);
    std::fs::remove_file(&beside)?;
    done
}

/// Writes a file as a whole, for nobody else to read, in place of the one that may be there.
pub(super) fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = written_beside(directory, bytes)?;
    let done = std::fs::rename(&beside, directory.join(name))
        .and_then(|()| std::fs::File::open(directory)?.sync_all());
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// File under a random name in the directory, on the disk.
fn written_beside(directory: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let beside = directory.join(format!(".{:016x}", u64::from_ne_bytes(random_bytes())));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let done = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(e) = done {
        let _ = std::fs::remove_file(&beside);
        return Err(e);
    }
    Ok(beside)
}

fn only_ours(path: &Path) -> Result<(), TlsError> {
    let about = std::fs::metadata(path).map_err(|source| TlsError::File {
        what: "read",
        path: path.into(),
        source,
    })?;
    if about.mode() & 0o037 != 0 {
        return Err(KeysError::Open { path: path.into() }.into());
    }
    Ok(())
}

pub(super) fn own(certificate: &Path, key: &Path) -> Result<Identity, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_path_buf();
        move |e: rustls::pki_types::pem::Error| TlsError::Pem {
            path,
            why: e.to_string(),
        }
    };
    let certificates = CertificateDer::pem_file_iter(certificate)
        .map_err(pem(certificate))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(pem(certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
    only_ours(key)?;
    Ok((certificates, private))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_kept_from_others_and_keeps_its_pin() {
        let directory = std::env::temp_dir().join(format!("tailback-tls-{}", std::process::id()));
        let kept = TlsKey::KeptIn(directory.clone());
        let pin = || Tls::new(&kept).map(|tls| tls.expect("TLS").pin);
        // Servers that start at once agree on one key.
        let all: Vec<Pin> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|_| scope.spawn(pin)).collect();
            let pins = started.into_iter().map(|t| t.join().expect("no panic"));
            pins.map(|p| p.expect("a key")).collect()
        });
        let first = all[0];
        assert_eq!(all, [first; 8]);
        assert_eq!(pin().expect("the same key"), first);
        let path = directory.join(KEY_FILE);
        let mode = std::fs::metadata(&path).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
        let e = pin().expect_err("others may read it").to_string();
        assert!(e.contains("chmod 600"), "{e}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
        std::fs::write(&path, b"no key").expect("ours");
        assert!(pin().is_err());
        let _ = std::fs::remove_dir_all(&directory);
    }

    #[test]
    fn a_flood_of_one_network_has_its_share_and_no_more() {
        let tls = Tls::new(&TlsKey::Fresh).expect("a key").expect("TLS");
        let storm = |n: u8| IpAddr::from([10, 0, 0, n]);
        let handshakes = &tls.handshakes;
        let other = IpAddr::from([10, 0, 1, 1]);
        assert!(handshakes.begin(other));
        let quick = (0..2000).filter(|n| handshakes.begin(storm((n % 250) as u8)));
        let quick = quick.count();
        assert!((80..=110).contains(&quick), "{quick} one after the other");
        assert!(handshakes.begin(other));
        // Five networks use up what there is for all; one that has made none still gets in.
        for n in 0..3000_u32 {
            handshakes.begin(IpAddr::from([10, 0, 2 + (n % 5) as u8, 1]));
        }
        assert!(!handshakes.begin(other));
        assert!(handshakes.begin(IpAddr::from([10, 0, 9, 1])));
    }

    /// Four networks' connections with nothing, or half a message, on a server that answers one client beside them.
    #[test]
    fn connections_that_say_nothing_keep_nobody_from_a_handshake() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let tls = Arc::new(Tls::new(&TlsKey::Fresh).expect("a key").expect("TLS"));
        let client = crate::pipe::pinned(tls.pin, &Arc::default()).expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("a port");
            let at = listener.local_addr().expect("bound");
            let mut silent = Vec::new();
            for n in 0..120_u8 {
                let mut stream = tokio::net::TcpStream::connect(at).await.expect("room");
                let half = &[22, 3, 1, 2, 0, 1][..usize::from(n % 2) * 6];
                stream.write_all(half).await.expect("sent");
                silent.push(stream);
                let (stream, _) = listener.accept().await.expect("one comes");
                let (tls, from) = (tls.clone(), IpAddr::from([10, 0, n % 4, 1]));
                tokio::spawn(async move {
                    let all = tls.handshakes();
                    all.accept(stream, tls.config.clone(), from, Duration::from_secs(60))
                        .await
                });
            }
            let honest = async {
                let stream = tokio::net::TcpStream::connect(at).await.expect("room");
                let name = rustls::pki_types::ServerName::try_from("tailback.invalid");
                let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
                let mut stream = connector.connect(name.expect("a name"), stream).await?;
                let mut heard = [0; 2];
                stream.read_exact(&mut heard).await.map(|_| heard)
            };
            let served = async {
                let (stream, from) = listener.accept().await.expect("one comes");
                let (all, config) = (tls.handshakes(), tls.config.clone());
                let stream = all
                    .accept(stream, config, from.ip(), Duration::from_secs(5))
                    .await;
                let mut stream = stream.expect("its turn");
                stream.write_all(b"in").await.expect("sent");
                stream.flush().await.expect("sent");
                stream
            };
            let (heard, _stream) = tokio::join!(honest, served);
            assert_eq!(&heard.expect("served"), b"in");
        });
    }
}
