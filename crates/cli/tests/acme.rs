//! `tailback serve --web --acme` beside Pebble, the authority that Let's Encrypt makes for tests: over loopback, with names that its
//! DNS server gives.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use testkit::{Program, Service, TempDir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const NAME: &str = "test.example.org";
const PATIENCE: Duration = Duration::from_secs(60);
/// Life of a certificate that is renewed, s.
const LIFE_S: u32 = 18;

/// The authority with its DNS server.
struct Pebble {
    directory: TempDir,
    port: u16,
    management: u16,
    /// Port at which it checks names.
    checked: u16,
    processes: Vec<Service>,
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    free.expect("a free port").port()
}

impl Pebble {
    /// Starts it with certificates of this life; `None`, and says so, where it is not installed.
    fn start(life_s: u32) -> Option<Pebble> {
        if !Path::new("/usr/bin/pebble").exists() {
            testkit::skip("no pebble: `make deps` installs it");
            return None;
        }
        let directory = TempDir::new("acme");
        let mut params = CertificateParams::new(Vec::new()).expect("an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("it signs itself");
        let key = KeyPair::generate().expect("a key");
        let signed = CertificateParams::new(vec!["localhost".to_owned()])
            .expect("a name")
            .signed_by(&key, &ca)
            .expect("it signs");
        directory.file("ca.pem", ca.pem());
        let (dns, control) = (
            UdpSocket::bind("127.0.0.1:0")
                .and_then(|s| s.local_addr())
                .expect("a port"),
            free_port(),
        );
        let mut pebble = Pebble {
            port: free_port(),
            management: free_port(),
            checked: free_port(),
            processes: Vec::new(),
            directory,
        };
        let config = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{}", pebble.port),
            "managementListenAddress": format!("127.0.0.1:{}", pebble.management),
            "certificate": pebble.directory.file("cert.pem", signed.pem()),
            "privateKey": pebble.directory.file("key.pem", key.serialize_pem()),
            "httpPort": free_port(),
            "tlsPort": pebble.checked,
            "certificateValidityPeriod": life_s,
        }});
        let config = pebble.directory.file("pebble.json", config.to_string());
        let mut names = Command::new("pebble-challtestsrv");
        names
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
            .args(["-http01", "", "-https01", "", "-tlsalpn01", ""])
            .args(["-dns01", &dns.to_string()])
            .args(["-management", &format!("127.0.0.1:{control}")]);
        let mut authority = Command::new("pebble");
        authority
            .args(["-config", &config, "-dnsserver", &dns.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1");
        for command in [&mut names, &mut authority] {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            pebble
                .processes
                .push(Service(command.spawn().expect("it is installed")));
        }
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", pebble.port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "pebble does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(pebble)
    }

    /// Server of the site with a certificate of this authority, and what it says.
    fn serve(&self, port: u16, more: &[&str]) -> (Service, Receiver<String>) {
        let directory = format!("https://localhost:{}/dir", self.port);
        let web = format!("127.0.0.1:{port}");
        let state = self.directory.at("state");
        let mut command = Program::new(env!("CARGO_BIN_EXE_tailback")).command(&["serve"]);
        command
            .args(["--listen", "127.0.0.1:0", "--user", "root", "--web", &web])
            .args(["--acme", &directory, "--acme-agree", "--state", &state])
            .args(["--web-name", NAME, "--web-name", "127.0.0.1"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let said = child.stderr.take().expect("a pipe");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            use std::io::{BufRead, BufReader};
            let all = BufReader::new(said).lines().map_while(Result::ok);
            all.for_each(|line| {
                let _ = to.send(line);
            });
        });
        (Service(child), lines)
    }

    fn ca(&self) -> String {
        self.directory.at("ca.pem").to_string()
    }

    /// Authority that signs the certificates of the sites.
    async fn root(&self) -> CertificateDer<'static> {
        let ca = CertificateDer::from_pem_file(self.ca()).expect("an authority");
        let mut stream = open(self.management, "localhost", &ca)
            .await
            .expect("it answers");
        let request = b"GET /roots/0 HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).await.expect("sent");
        let mut answer = String::new();
        // It ends without a farewell of TLS.
        let _ = stream.read_to_string(&mut answer).await;
        CertificateDer::from_pem_slice(answer.as_bytes()).expect("a certificate")
    }
}

/// First line that holds these words.
#[track_caller]
fn line(lines: &Receiver<String>, words: &str) -> String {
    let until = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if line.contains(words) {
            return line;
        }
        before.push(line);
    }
    panic!("nothing says \"{words}\": {before:#?}")
}

/// Handshake with a port of this host, under a name, if the server proves it.
async fn open(
    port: u16,
    name: &str,
    root: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    handshake(port, name, root, b"http/1.1").await
}

async fn handshake(
    port: u16,
    name: &str,
    root: &CertificateDer<'static>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Certificate that the site shows under a name, if it is proven.
async fn shown(port: u16, name: &str, root: &CertificateDer<'static>) -> Option<Vec<u8>> {
    let stream = open(port, name, root).await.ok()?;
    let chain = stream.get_ref().1.peer_certificates()?;
    Some(chain.first()?.to_vec())
}

/// True if WebTransport at the port shows this certificate.
async fn webtransport_shows(port: u16, certificate: &[u8]) -> bool {
    use wtransport::endpoint::ConnectOptions;
    let hash = wtransport::tls::Certificate::from_der(certificate.to_vec())
        .expect("a certificate")
        .hash();
    let config = wtransport::ClientConfig::builder()
        .with_bind_default()
        .with_server_certificate_hashes([hash])
        .build();
    let endpoint = wtransport::Endpoint::client(config).expect("a socket");
    let options = ConnectOptions::builder(format!("https://127.0.0.1:{port}/elsewhere"))
        .add_header("origin", format!("https://127.0.0.1:{port}"));
    // The handshake succeeds, the path does not exist.
    matches!(
        endpoint.connect(options.build()).await,
        Err(wtransport::error::ConnectingError::SessionRejected)
    )
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime")
}

#[test]
fn a_site_proves_its_names_keeps_its_certificate_and_renews_it() {
    if !testkit::has_browser_analysis() {
        return testkit::skip("this toolchain has no wasm32-unknown-unknown");
    }
    let Some(mut pebble) = Pebble::start(LIFE_S) else {
        return;
    };
    let (port, ca) = (pebble.checked, pebble.ca());
    let (site, said) = pebble.serve(port, &["--acme-ca", &ca]);
    assert!(line(&said, "browsers run the test at").contains(&format!("https://{NAME}:{port}/")));
    line(&said, "agreed to the terms of service of https://localhost");
    assert!(line(&said, "certificate for").ends_with(" seconds"));
    let runtime = runtime();
    let root = runtime.block_on(pebble.root());
    let at_names = || {
        runtime.block_on(async {
            let first = shown(port, NAME, &root).await.expect("the name is proven");
            assert_eq!(shown(port, "127.0.0.1", &root).await.as_ref(), Some(&first));
            assert_eq!(shown(port, "other.example.org", &root).await, None);
            assert!(webtransport_shows(port, &first).await);
            // Nobody else is answered as the authority is.
            let stranger = handshake(port, NAME, &root, b"acme-tls/1").await;
            assert!(stranger.is_err());
            first
        })
    };
    let first = at_names();
    // Two thirds of its time are over: the next one, also for WebTransport, within its look at the certificate.
    line(&said, "certificate for");
    std::thread::sleep(Duration::from_millis(500));
    let second = at_names();
    assert_ne!(first, second);
    drop(site);
    // Without the authority, what was kept serves.
    pebble.processes.clear();
    let (_site, said) = pebble.serve(port, &["--acme-ca", &ca]);
    line(&said, "browsers run the test at");
    assert_eq!(at_names(), second);
    let lost = line(&said, "no certificate for");
    assert!(lost.contains("cannot ask https://localhost"), "{lost}");
    assert!(lost.contains("Next attempt in 10 minutes"), "{lost}");
    // Once it has ended, the site has a certificate of its own.
    std::thread::sleep(Duration::from_secs(LIFE_S.into()));
    assert!(!runtime.block_on(webtransport_shows(port, &second)));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(runtime.block_on(shown(port, NAME, &root)), None);
}

#[test]
fn what_an_authority_refuses_is_told_and_the_site_goes_on_with_a_certificate_of_its_own() {
    if !testkit::has_browser_analysis() {
        return testkit::skip("this toolchain has no wasm32-unknown-unknown");
    }
    let Some(pebble) = Pebble::start(86_400) else {
        return;
    };
    let ca = pebble.ca();
    let runtime = runtime();
    let root = runtime.block_on(pebble.root());
    // The authority looks for the names at another port.
    let elsewhere = free_port();
    let (_site, said) = pebble.serve(elsewhere, &["--acme-ca", &ca]);
    let lost = line(&said, "no certificate for");
    assert!(
        lost.contains("was not proven: Failed to connect to 127.0.0.1"),
        "{lost}"
    );
    assert_eq!(runtime.block_on(shown(elsewhere, NAME, &root)), None);
    let port = std::net::TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], elsewhere)));
    assert!(port.is_ok());
    // Nobody vouches for the directory.
    let (_site, said) = pebble.serve(free_port(), &[]);
    let lost = line(&said, "no certificate for");
    assert!(lost.contains("UnknownIssuer"), "{lost}");
    // Nobody agreed.
    let program = Program::new(env!("CARGO_BIN_EXE_tailback"));
    let out = program.run(&[
        "serve",
        "--web",
        "127.0.0.1:0",
        "--acme",
        "letsencrypt",
        "--web-name",
        NAME,
        "--state",
        &pebble.directory.at("other"),
    ]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{told}");
    assert!(told.contains("add --acme-agree"), "{told}");
}
