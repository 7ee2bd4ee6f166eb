//! Servers of the tests, written with the libraries that the program uses: a web server with a large file and a
//! responsiveness configuration, and ndt7. The server of iperf3 is the Debian package.

use futures_util::{SinkExt, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use live::emulate::{FAR_V4, NetNs};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server as ws;

/// Size of the large file, and of one piece of it.
const FILE: usize = 400_000_000;
const PIECE: usize = 64 << 10;
/// Time after which ndt7 ends a test.
const NDT7_TEST: Duration = Duration::from_secs(10);

/// Certificate of a private authority, and the settings of a server that it has signed.
pub struct Trust {
    pub authority: String,
    pub server: Arc<ServerConfig>,
}

/// Makes an authority, and a server's certificate for these names.
pub fn trust(names: &[&str], alpn: &[&[u8]]) -> Trust {
    let mut params = CertificateParams::new(Vec::new()).expect("an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("it signs itself");
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let key = KeyPair::generate().expect("a key");
    let signed = CertificateParams::new(names)
        .expect("names")
        .signed_by(&key, &authority)
        .expect("it signs");
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![signed.der().clone()], private)
        .expect("a certificate");
    server.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    Trust {
        authority: pem(authority.as_ref().der()),
        server: Arc::new(server),
    }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// Server in a thread; dropping it ends it.
pub struct Serving {
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Protocol of a server.
#[derive(Clone)]
pub enum Speaks {
    Web,
    Ndt7,
}

/// Starts a server in a network namespace.
pub fn serve(far: &NetNs, speaks: Speaks, tls: Option<Arc<ServerConfig>>) -> Serving {
    far.run(|| start((FAR_V4, 0).into(), speaks, tls))
        .expect("enters")
}

/// Starts a server at an address.
pub fn start(at: SocketAddr, speaks: Speaks, tls: Option<Arc<ServerConfig>>) -> Serving {
    let listener = TcpListener::bind(at).expect("listens");
    // Connections inherit it. The host's own choice may be one that avoids queues.
    let _ = socket2::SockRef::from(&listener).set_tcp_congestion(b"cubic");
    listener.set_nonblocking(true).expect("does not block");
    let address = listener.local_addr().expect("an address");
    let (stop, mut stopped) = watch::channel(false);
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            loop {
                tokio::select! {
                    _ = stopped.changed() => break,
                    Ok((stream, _)) = listener.accept() => {
                        let _ = stream.set_nodelay(true);
                        tokio::spawn(connection(stream, speaks.clone(), tls.clone(), address));
                    }
                }
            }
        });
        runtime.shutdown_background();
    });
    Serving {
        address,
        stop,
        thread: Some(thread),
    }
}

async fn connection(
    stream: tokio::net::TcpStream,
    speaks: Speaks,
    tls: Option<Arc<ServerConfig>>,
    address: SocketAddr,
) {
    match tls {
        None => spoken(stream, speaks, (false, false), address).await,
        Some(config) => {
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                spoken(stream, speaks, (true, h2), address).await;
            }
        }
    }
}

async fn spoken(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    speaks: Speaks,
    (tls, h2): (bool, bool),
    address: SocketAddr,
) {
    match speaks {
        Speaks::Ndt7 => drop(ndt7(stream).await),
        Speaks::Web => {
            let service = service_fn(move |request| web(request, tls, address));
            let io = TokioIo::new(stream);
            let _ = match h2 {
                true => {
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .initial_stream_window_size(8 << 20)
                        .initial_connection_window_size(8 << 20)
                        .serve_connection(io, service)
                        .await
                }
                false => {
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(io, service)
                        .await
                }
            };
        }
    }
}

/// Bytes that no link compresses.
fn piece() -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..PIECE).map(next).collect()
}

async fn web(
    request: Request<Incoming>,
    tls: bool,
    address: SocketAddr,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let scheme = if tls { "https" } else { "http" };
    let text = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
    let body = match request.uri().path() {
        "/.well-known/nq" => text(format!(
            r#"{{"version":1,"urls":{{"small_download_url":"{scheme}://{address}/small","large_download_url":"{scheme}://{address}/large","upload_url":"{scheme}://{address}/slurp"}},"test_endpoint":"elsewhere.example"}}"#
        )),
        "/small" => text("1".into()),
        "/large" => {
            let piece = piece();
            let pieces = std::iter::repeat_n(piece, FILE / PIECE).map(|p| Ok(Frame::data(p)));
            StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync()
        }
        "/slurp" => {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            text(String::new())
        }
        _ => {
            let mut none = Response::new(text("not found".into()));
            *none.status_mut() = hyper::StatusCode::NOT_FOUND;
            return Ok(none);
        }
    };
    Ok(Response::new(body))
}

/// One test of ndt7, as its specification describes a server.
async fn ndt7(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut path = String::new();
    #[allow(clippy::result_large_err, reason = "tungstenite's callback")]
    let admit = |request: &ws::Request, mut response: ws::Response| {
        path = request.uri().path().to_owned();
        let protocol = request.headers().get("Sec-WebSocket-Protocol").cloned();
        if let Some(protocol) = protocol {
            response
                .headers_mut()
                .insert("Sec-WebSocket-Protocol", protocol);
        }
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, admit).await?;
    let (mut sink, mut source) = socket.split();
    let until = Instant::now() + NDT7_TEST;
    let reading = async {
        while let Some(Ok(message)) = source.next().await {
            if matches!(message, Message::Close(_)) || Instant::now() > until {
                break;
            }
        }
    };
    if path == "/ndt/v7/upload" {
        tokio::select! {
            () = reading => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
        return sink.send(Message::Close(None)).await;
    }
    let piece = piece();
    let writing = async {
        while Instant::now() < until {
            sink.send(Message::Binary(piece.clone())).await?;
        }
        sink.send(Message::Close(None)).await
    };
    tokio::select! {
        () = reading => Ok(()),
        sent = writing => sent,
    }
}

/// Server of iperf3; dropping it ends it.
pub struct Iperf3(Child);

impl Drop for Iperf3 {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts iperf3 in a network namespace, on its usual port.
pub fn iperf3(far: &NetNs) -> Iperf3 {
    let mut command = Command::new("iperf3");
    command
        .args(["--server"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = far.command(&mut command).spawn();
    let server = Iperf3(child.expect("iperf3 is installed: `make deps` does that"));
    let listens = || {
        far.run(|| {
            TcpStream::connect_timeout(&(FAR_V4, 5201).into(), Duration::from_secs(1)).is_ok()
        })
    };
    // Its port opens within a moment. The look is a connection without a test, which it survives.
    let until = Instant::now() + Duration::from_secs(5);
    std::thread::sleep(Duration::from_millis(300));
    while !listens().expect("enters") {
        assert!(Instant::now() < until, "iperf3 does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_millis(300));
    server
}
