//! Site of the page: HTTP/1.1 and HTTP/2, plain or in TLS.

use super::acme::ACME_TLS;
use super::body::{Body, plain, whole};
use super::channel::Mirror;
use super::client::{Client, File, Site, monotonic};
use super::load::Whose;
use super::{guests, load, socket};
use crate::serve::admission::{Admitted, accept};
use crate::serve::shared::Shared;
use crate::serve::sync::{lock, runtime};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::http::{HeaderMap, Method, StatusCode, header};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use measure::control::Refusal;
use measure::web::Asked;
use std::convert::Infallible;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::timeout;

/// Time within which a TLS handshake, and the head of a request, have to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(900);
/// Window of an upload over HTTP/2: 100 Mbit/s at half a second.
const WINDOW: u32 = 8 << 20;
/// Streams of a connection at once.
const STREAMS: u32 = 64;
/// Longest recording that a page may save.
const MOST_SAVED: usize = 8 << 20;

/// Runs the tasks of a connection in its own thread.
#[derive(Clone)]
struct Here;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves until the server stops.
pub(super) fn run(
    listener: TcpListener,
    site: Arc<Site>,
    shared: Arc<Shared>,
    mirror: Rc<Mirror>,
    certificates: Option<impl Future<Output = ()> + 'static>,
) -> Result<(), String> {
    let told = |e: std::io::Error| e.to_string();
    let runtime = runtime().map_err(told)?;
    LocalSet::new().block_on(&runtime, async {
        tokio::task::spawn_local(mirror.clone().keep());
        if let Some(certificates) = certificates {
            tokio::task::spawn_local(certificates);
        }
        let serve = |admitted: Admitted| {
            let (stream, mirror) = (admitted.stream, mirror.clone());
            let client = Client::new(&site, &shared, admitted.permit, admitted.from);
            let client = Rc::new(client.over(admitted.socket));
            tokio::task::spawn_local(async move {
                // An error here is the browser's hanging up.
                let _ = timeout(LIFE, talk(stream, client, mirror)).await;
            });
        };
        accept(listener, &shared, serve).await.map_err(told)
    })
}

async fn talk(stream: TcpStream, client: Rc<Client>, mirror: Rc<Mirror>) {
    let tls = client.site.identity().site.clone();
    let (stream, two): (Box<dyn Stream>, bool) = match tls {
        None => (Box::new(stream), false),
        Some(tls) => {
            let from = client.from.ip();
            let handshakes = &client.site.handshakes;
            let Some(stream) = handshakes.accept(stream, tls, from, PATIENCE).await else {
                return;
            };
            let protocol = stream.get_ref().1.alpn_protocol();
            // The handshake was the answer (RFC 8737, section 3).
            if protocol == Some(ACME_TLS) {
                return;
            }
            let two = protocol == Some(b"h2");
            (Box::new(stream), two)
        }
    };
    let its = client.clone();
    let service = service_fn(move |request| {
        let (client, mirror) = (its.clone(), mirror.clone());
        async move { Ok::<_, Infallible>(answer(client, mirror, request).await) }
    });
    let io = TokioIo::new(stream);
    if two {
        let mut http = hyper::server::conn::http2::Builder::new(Here);
        http.timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(Some(PATIENCE * 3))
            .keep_alive_timeout(PATIENCE * 2);
        let _ = http.serve_connection(io, service).await;
    } else {
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(PATIENCE * 3)
            .max_buf_size(64 << 10);
        let _ = http.serve_connection(io, service).with_upgrades().await;
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// True if a page of this site asks, or its user. Pages of other sites may not make their readers load this server.
fn is_own(request: &Request<Incoming>, plain: bool) -> bool {
    let headers = request.headers();
    let host = request.uri().authority().map(|a| a.as_str());
    let Some(host) = host.or_else(|| text(headers, "host")) else {
        return false;
    };
    if plain && host_is_foreign(headers) {
        return false;
    }
    match (text(headers, "origin"), text(headers, "sec-fetch-site")) {
        (Some(origin), _) => origin
            .split_once("://")
            .is_some_and(|(_, named)| named == host),
        (None, Some(site)) => matches!(site, "same-origin" | "none"),
        (None, None) => true,
    }
}

/// True if a name that is not this host's leads here: a loopback site is for this host alone.
fn host_is_foreign(headers: &HeaderMap) -> bool {
    headers.contains_key("host") && !crate::web::names_this_host(headers)
}

async fn answer(
    client: Rc<Client>,
    mirror: Rc<Mirror>,
    request: Request<Incoming>,
) -> Response<Body> {
    let plain_http = client.site.identity().site.is_none();
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    let is_page = method == Method::GET && path == "/";
    if !is_page && !is_own(&request, plain_http) {
        client.refused(Refusal::Forbidden, "a page of another site");
        return plain(
            StatusCode::FORBIDDEN,
            "Only this site's own page may ask.\n",
        );
    }
    if method == Method::GET
        && let Some(file) = client.site.files.iter().find(|f| f.path == path)
    {
        return page(&client, file);
    }
    let asked = || Asked::read(request.uri().query().unwrap_or_default());
    match (&method, path.as_str()) {
        (&Method::GET, "/settings.json") => settings(&client),
        (&Method::POST, "/save") => save(&client, request).await,
        (&Method::GET, "/down") => match asked() {
            Ok(asked) => load::down(client, asked, Whose::Page).await,
            Err(why) => malformed(&client, &why),
        },
        (&Method::POST, "/up") => match asked() {
            Ok(asked) => load::up(client, asked, Whose::Page, request.into_body()).await,
            Err(why) => malformed(&client, &why),
        },
        (&Method::POST, "/stop") => match asked() {
            Ok(asked) => {
                client.site.sessions.stop(asked.session, asked.flow);
                plain(StatusCode::OK, "")
            }
            Err(why) => malformed(&client, &why),
        },
        (&Method::GET, "/channel") => match asked() {
            Ok(asked) => socket::upgrade(request, client, asked, Some(mirror)),
            Err(why) => malformed(&client, &why),
        },
        (&Method::GET, "/up") => match asked() {
            Ok(asked) => socket::upgrade(request, client, asked, None),
            Err(why) => malformed(&client, &why),
        },
        _ => guests::answer(client, request).await,
    }
}

fn malformed(client: &Client, why: &str) -> Response<Body> {
    client.refused(Refusal::Malformed, why);
    plain(StatusCode::BAD_REQUEST, &format!("{why}\n"))
}

/// File of the site, within the client's bytes.
fn page(client: &Client, file: &File) -> Response<Body> {
    if !client.pays(file.body.len() as u64) {
        let text = "this client has moved all the bytes it may in an hour";
        return load::refusal(client, (Refusal::Spent, text.into()));
    }
    if file.path == "/" {
        client.site.counters.pages.fetch_add(1, Ordering::Relaxed);
    }
    let body = Bytes::copy_from_slice(&file.body);
    let mut response = whole(StatusCode::OK, file.kind, body);
    if file.gzip {
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_ENCODING,
            hyper::http::HeaderValue::from_static("gzip"),
        );
    }
    response
}

/// Facts that the page needs: the hash of the certificate for WebTransport, if it needs one, and if it may save.
fn settings(client: &Client) -> Response<Body> {
    let identity = client.site.identity();
    let json = serde_json::json!({
        "port": client.site.port,
        "certificate": identity.hash,
        "keep": client.site.keep.is_some(),
        "release": env!("CARGO_PKG_VERSION"),
    });
    let body = Bytes::from(json.to_string());
    whole(StatusCode::OK, "application/json", body)
}

/// Keeps a recording that a user saves.
async fn save(client: &Rc<Client>, request: Request<Incoming>) -> Response<Body> {
    let Some(keep) = client.site.keep.clone() else {
        let text = "This server keeps no recordings: its operator can with --web-keep DIRECTORY.\n";
        return plain(StatusCode::FORBIDDEN, text);
    };
    let from = client.from.ip();
    if !lock(&client.site.saves).take(monotonic(), from) {
        let text = "your network has saved many recordings: try again in some minutes";
        return load::refusal(client, (Refusal::Busy, text.into()));
    }
    let body = Limited::new(request.into_body(), MOST_SAVED).collect();
    let text = match timeout(PATIENCE * 12, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => {
            return malformed(
                client,
                "a recording is at most 8 MB, and comes within two minutes",
            );
        }
    };
    if !client.pays(text.len() as u64) {
        let text = "this client has moved all the bytes it may in an hour";
        return load::refusal(client, (Refusal::Spent, text.into()));
    }
    let Ok(text) = String::from_utf8(text.into()) else {
        return malformed(client, "the recording is not UTF-8");
    };
    // Writing a recording takes a while: probes of WebSockets must not wait for it.
    let kept = tokio::task::spawn_blocking(move || keep.0.keep(from, &text)).await;
    match kept {
        Ok(Ok(name)) => {
            client.site.counters.saved.fetch_add(1, Ordering::Relaxed);
            plain(StatusCode::OK, &format!("{name}\n"))
        }
        Ok(Err(why)) => malformed(client, &why),
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the recording could not be kept\n",
        ),
    }
}
