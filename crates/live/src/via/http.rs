//! Loads over a web server: a large file, or the objects of a responsiveness server; and the connections of ndt7.
//!
//! **Protocol.** HTTP/2 where the server offers it inside TLS, else HTTP/1.1. The configuration of a responsiveness server
//! names three objects on its own host (draft-ietf-ippm-responsiveness, section 7); `test_endpoint` is not followed,
//! because it names another host. Each flow is a connection of its own, and requests again when its object has ended.
//!
//! **Limits.** No redirect is followed. A head has to come within 10 s, and a configuration within 64 kB.

use super::flow::{Flow, Sampler, VANISHED_AFTER};
use super::target::{Kind, Target};
use super::told::{Urls, quote};
use super::{ViaError, ndt7, open};
use crate::clock::mono_ns;
use crate::load::kernel::close_abruptly;
use crate::load::pump::Payload;
use crate::outlet::Outlet;
use crate::trust;
use base::record::Direction;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::http::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Patience with the head of an answer, and with a handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest configuration, and the largest list of headers.
const MOST_CONFIG: usize = 64 << 10;
const MOST_HEADERS: u32 = 32 << 10;
/// Smallest file that is a load, and the least that a request has to carry to be followed by another.
const LEAST_FILE: u64 = 1_000_000;
const LEAST_CARRIED: u64 = 64 << 10;
/// Windows of HTTP/2: more than any link of 1 Gbit/s holds in 100 ms.
const WINDOW: u32 = 32 << 20;

/// Body of a request.
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Connection in both directions, in TLS or not.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Open connection: the socket, and the bytes inside it.
pub(super) struct Connected {
    /// Second handle of the socket, for the kernel's view of it.
    pub socket: TcpStream,
    pub stream: Box<dyn Duplex>,
    /// True if the server chose HTTP/2.
    h2: bool,
}

/// Web server, and what a test uses of it.
pub(super) struct Web {
    pub target: Target,
    pub server: SocketAddr,
    pub outlet: Outlet,
    tls: Option<Arc<ClientConfig>>,
    /// Path of the object to download, and of the one that takes uploads.
    download: String,
    upload: Option<String>,
    /// Path of a small object, for requests beside the load.
    pub small: Option<String>,
}

/// End of a connection's requests.
enum Over {
    /// The server closed the connection, or the object has ended: another connection may go on.
    Again,
    Fault(String),
}

impl Web {
    /// Connects once, and reads the configuration or the head of the file.
    ///
    /// # Errors
    /// An unreachable server, a certificate that is not trusted, or a server that offers no load.
    pub fn open(
        target: &Target,
        (server, outlet): (SocketAddr, &Outlet),
        ca: Option<&Path>,
    ) -> Result<Web, ViaError> {
        let alpn: &[&[u8]] = match target.kind {
            Kind::Ndt7 => &[b"http/1.1"],
            _ => &[b"h2", b"http/1.1"],
        };
        let mut web = Web {
            target: target.clone(),
            server,
            outlet: outlet.clone(),
            tls: target.tls.then(|| trust::client(ca, alpn)).transpose()?,
            download: target.path.clone(),
            upload: None,
            small: None,
        };
        let runtime = runtime().map_err(ViaError::local("start a runtime"))?;
        runtime.block_on(async {
            let connected = web.connect(None).await?;
            let socket = connected.socket.try_clone();
            let socket = socket.map_err(ViaError::local("copy a socket"))?;
            match target.kind {
                Kind::Ndt7 => {}
                Kind::File | Kind::Iperf3 => {
                    let mut sender = web.sender(connected).await?;
                    let head = web.ask(&mut sender, Method::GET, &web.download, empty());
                    web.is_large(&head.await?)?;
                }
                Kind::Responsiveness => {
                    let mut sender = web.sender(connected).await?;
                    let head = web.ask(&mut sender, Method::GET, &target.path, empty());
                    web.configure(head.await?).await?;
                }
            }
            close_abruptly(&socket);
            Ok(web)
        })
    }

    fn unexpected(&self, what: impl Into<String>) -> ViaError {
        ViaError::Unexpected {
            server: self.server,
            what: what.into(),
        }
    }

    /// Connects, and completes the handshake of TLS.
    pub async fn connect(&self, congestion: Option<&str>) -> Result<Connected, ViaError> {
        self.shelter(open(self.server, &self.outlet, congestion)?)
            .await
    }

    /// Completes the handshake of TLS on a connection, if the server wants it.
    pub async fn shelter(&self, socket: TcpStream) -> Result<Connected, ViaError> {
        let local = ViaError::local("set up a socket");
        socket.set_nonblocking(true).map_err(&local)?;
        let second = socket.try_clone().map_err(&local)?;
        let stream = tokio::net::TcpStream::from_std(socket).map_err(&local)?;
        let Some(settings) = &self.tls else {
            return Ok(Connected {
                socket: second,
                stream: Box::new(stream),
                h2: false,
            });
        };
        let host = &self.target.host;
        let failed = |why: String| ViaError::Tls {
            host: host.clone(),
            why: quote(&why),
        };
        let name = ServerName::try_from(host.clone()).map_err(|e| failed(e.to_string()))?;
        let shaking = TlsConnector::from(settings.clone()).connect(name, stream);
        let stream = match timeout(PATIENCE, shaking).await {
            Ok(done) => done.map_err(|e| failed(e.to_string()))?,
            Err(_) => return Err(failed("the handshake took longer than 10 s".into())),
        };
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connected {
            socket: second,
            stream: Box::new(stream),
            h2,
        })
    }

    /// Starts HTTP on a connection.
    pub async fn sender(&self, connected: Connected) -> Result<Requests, ViaError> {
        let io = TokioIo::new(connected.stream);
        let failed = |e: hyper::Error| self.unexpected(format!("no HTTP: {}", quote(&told(&e))));
        // Who reads an answer learns that the connection has failed; nobody else needs to.
        Ok(match connected.h2 {
            true => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .initial_stream_window_size(WINDOW)
                    .initial_connection_window_size(WINDOW)
                    .max_header_list_size(MOST_HEADERS);
                let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
                tokio::spawn(async move { drop(connection.await) });
                Requests::Two(sender)
            }
            false => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(256 << 10);
                let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
                tokio::spawn(async move { drop(connection.await) });
                Requests::One(sender)
            }
        })
    }

    /// Sends a request and waits for the head of the answer, at most [`PATIENCE`] where nothing is uploaded.
    async fn ask(
        &self,
        sender: &mut Requests,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>, ViaError> {
        let authority = self.authority();
        let waits = method == Method::GET;
        let request = Request::builder()
            .method(method)
            .header(
                header::USER_AGENT,
                concat!("tailback/", env!("CARGO_PKG_VERSION")),
            )
            .header(header::ACCEPT_ENCODING, "identity");
        let request = match sender {
            Requests::Two(_) => request.uri(format!("https://{authority}{path}")),
            Requests::One(_) => request.uri(path).header(header::HOST, authority),
        };
        let request = request
            .body(body)
            .map_err(|e| self.unexpected(format!("an address that is none: {e}")))?;
        let answer = sender.send(request);
        let answer = match waits {
            true => timeout(PATIENCE, answer)
                .await
                .map_err(|_| self.unexpected("nothing for 10 s after a request"))?,
            false => answer.await,
        };
        let answer =
            answer.map_err(|e| self.unexpected(format!("no answer: {}", quote(&told(&e)))))?;
        self.admit(answer.status(), answer.headers())?;
        Ok(answer)
    }

    /// Host and port as HTTP writes them.
    fn authority(&self) -> String {
        let usual = if self.target.tls { 443 } else { 80 };
        let whole = self.target.authority();
        match self.target.port == usual {
            true => whole[..whole.rfind(':').unwrap_or(whole.len())].to_owned(),
            false => whole,
        }
    }

    /// Checks the status of an answer.
    fn admit(&self, status: StatusCode, headers: &header::HeaderMap) -> Result<(), ViaError> {
        if status.is_success() {
            return Ok(());
        }
        let server = self.server;
        let after = headers.get(header::LOCATION).and_then(|v| v.to_str().ok());
        let why = match (status, after) {
            (s, Some(to)) if s.is_redirection() => format!(
                "it redirects to {}; no redirect is followed. If that is the server's own address, name it; if not, a captive portal may want a login first",
                quote(to)
            ),
            (StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, _) => {
                format!("it is busy ({status}): try again later")
            }
            (status, _) => format!("it answers {status}"),
        };
        Err(ViaError::Refused { server, why })
    }

    /// Checks that a file is large enough to fill a link.
    fn is_large(&self, head: &Response<Incoming>) -> Result<(), ViaError> {
        match head.body().size_hint().upper() {
            Some(size) if size < LEAST_FILE => Err(self.unexpected(format!(
                "that the file has {size} bytes, too few to load a link: name one of at least 1 MB, better 100 MB"
            ))),
            _ => Ok(()),
        }
    }

    /// Reads the configuration of a responsiveness server.
    async fn configure(&mut self, head: Response<Incoming>) -> Result<(), ViaError> {
        let whole = Limited::new(head.into_body(), MOST_CONFIG).collect();
        let whole = match timeout(PATIENCE, whole).await {
            Ok(Ok(whole)) => whole.to_bytes(),
            Ok(Err(e)) => {
                return Err(
                    self.unexpected(format!("a broken configuration: {}", quote(&e.to_string())))
                );
            }
            Err(_) => return Err(self.unexpected("a configuration that took longer than 10 s")),
        };
        let urls = Urls::read(&self.target, &whole).map_err(|why| self.unexpected(why))?;
        self.download = urls.download;
        self.upload = Some(urls.upload);
        self.small = urls.small;
        Ok(())
    }

    /// Fetches a small object, at most as large as a configuration.
    pub async fn fetch(&self, sender: &mut Requests, path: &str) -> Result<(), ViaError> {
        let answer = self.ask(sender, Method::GET, path, empty()).await?;
        let whole = Limited::new(answer.into_body(), MOST_CONFIG).collect();
        match timeout(PATIENCE, whole).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.unexpected("a small object that is none")),
        }
    }

    /// Carries the load of one flow until its end; gives the reason why it ended early.
    pub fn carry(&self, flow: &Flow, ready: &Sender<Result<(), ViaError>>) -> Option<String> {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(e) => {
                let _ = ready.send(Err(ViaError::local("start a runtime")(e)));
                return None;
            }
        };
        let ended = runtime.block_on(async {
            match self.target.kind {
                Kind::Ndt7 => ndt7::carry(self, flow, ready).await,
                _ => self.transfer(flow, ready).await,
            }
        });
        // Tasks of connections may still hold a socket that is to be reset.
        runtime.shutdown_background();
        ended
    }

    /// Requests on one connection after the other, until the flow is told to end.
    async fn transfer(&self, flow: &Flow, ready: &Sender<Result<(), ViaError>>) -> Option<String> {
        let congestion = flow
            .congestion
            .as_deref()
            .filter(|_| flow.direction == Direction::Up);
        let payload = (flow.direction == Direction::Up).then(Payload::new);
        let mut begun = false;
        let mut kept = 0;
        let early = |kept, why| format!("flow {} ended after {kept} bytes: {why}", flow.number);
        loop {
            let opened = async {
                let connected = self.connect(congestion).await?;
                let copy = || connected.socket.try_clone();
                let copies = copy().and_then(|socket| Ok((socket, copy()?)));
                let (socket, copied) = copies.map_err(ViaError::local("copy a socket"))?;
                let sender = self.sender(connected).await?;
                let sampler = flow
                    .sampler(copied, kept)
                    .map_err(ViaError::local("read a socket"))?;
                Ok::<_, ViaError>((socket, sender, sampler))
            };
            let (socket, mut sender, mut sampler) = match opened.await {
                Ok(opened) => opened,
                Err(e) if begun => return Some(early(kept, e.to_string())),
                Err(e) => {
                    let _ = ready.send(Err(e));
                    return None;
                }
            };
            let mut first = || {
                if !std::mem::replace(&mut begun, true) {
                    flow.meter.live(true);
                    let _ = ready.send(Ok(()));
                }
            };
            let over = tokio::select! {
                biased;
                end = watch(&mut sampler, flow) => Err(end),
                over = self.requests(&mut sender, payload.as_ref(), &mut first) => Ok(over),
            };
            close_abruptly(&socket);
            let carried = sampler.bytes().saturating_sub(kept);
            kept = sampler.bytes();
            let why = match over {
                Err(end) => return end.map(|why| early(kept, why)),
                Ok(Ok(Over::Again)) if carried >= LEAST_CARRIED => continue,
                Ok(Ok(Over::Again)) => {
                    "the server closes connections before they carry a load".into()
                }
                Ok(Ok(Over::Fault(why))) => why,
                Ok(Err(e)) if begun => e.to_string(),
                Ok(Err(e)) => {
                    let _ = ready.send(Err(e));
                    return None;
                }
            };
            return Some(early(kept, why));
        }
    }

    /// Requests on one connection, one after the other. `first` is called once the load runs.
    async fn requests(
        &self,
        sender: &mut Requests,
        payload: Option<&Payload>,
        first: &mut dyn FnMut(),
    ) -> Result<Over, ViaError> {
        loop {
            if sender.ready().await.is_err() {
                return Ok(Over::Again);
            }
            match (payload, &self.upload) {
                (Some(payload), Some(path)) => {
                    first();
                    // The answer of an endless upload is its end: too large, too long, or a refusal.
                    let answer = self
                        .ask(sender, Method::POST, path, endless(payload))
                        .await?;
                    drop(answer);
                    return Ok(Over::Again);
                }
                (Some(_), None) => return Err(self.unexpected("nothing that takes uploads")),
                (None, _) => {
                    let answer = self
                        .ask(sender, Method::GET, &self.download, empty())
                        .await?;
                    self.is_large(&answer)?;
                    first();
                    let mut body = answer.into_body();
                    while let Some(frame) = body.frame().await {
                        if let Err(e) = frame {
                            return Ok(Over::Fault(quote(&told(&e))));
                        }
                    }
                }
            }
        }
    }
}

/// Sender of requests on one connection.
pub(super) enum Requests {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

impl Requests {
    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Requests::One(sender) => sender.ready().await,
            Requests::Two(sender) => sender.ready().await,
        }
    }

    async fn send(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        match self {
            Requests::One(sender) => sender.send_request(request).await,
            Requests::Two(sender) => sender.send_request(request).await,
        }
    }
}

fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Body without an end.
fn endless(payload: &Payload) -> Body {
    let payload = payload.clone();
    let mut place = 0;
    let chunks = std::iter::repeat_with(move || {
        let chunk = Bytes::copy_from_slice(payload.chunk(place));
        place += chunk.len() - 1;
        Ok(Frame::data(chunk))
    });
    StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync()
}

/// Takes samples until the flow is told to end; gives the reason if it is not.
pub(super) async fn watch(sampler: &mut Sampler<'_>, flow: &Flow) -> Option<String> {
    let mut ticks = tokio::time::interval(flow.sample.to_std());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let recorded = sampler.sample();
        if recorded.is_break() || flow.stopped() || mono_ns() >= flow.until {
            return None;
        }
        if sampler.still_for() > VANISHED_AFTER {
            return Some("nothing moved for 15 s".into());
        }
    }
}

/// Error of the library with its cause.
fn told(e: &hyper::Error) -> String {
    let cause = std::error::Error::source(e).map(|c| format!(": {c}"));
    format!("{e}{}", cause.unwrap_or_default())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
