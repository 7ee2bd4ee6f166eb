//! Small web server for one read-only site: it answers GET from memory, and nothing else.
//!
//! **Access.** On a loopback address everybody on this host may read, and a request has to name this host: a page of a
//! stranger, whose name was made to resolve to 127.0.0.1, reads nothing (DNS rebinding). On any other address a request needs
//! a token: as `?token=`, which sets a cookie, or as `Authorization: Bearer`.
//!
//! **Limits.** At most 64 connections at a time, each for two minutes: strangers cannot take the descriptors that probes need.
//! One that has shown no token gives way to newcomers.

use crate::door::{Door, Place};
use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use std::future::{IntoFuture, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Largest number of connections at a time.
const CONNECTIONS: usize = 64;
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(120);
/// Pause after a failed accept: without descriptors, it would fail again at once.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval of the looks for a place, when all are taken by connections too young to give way.
const LOOK: Duration = Duration::from_millis(25);
/// Name of the cookie that holds the token.
const TOKEN_COOKIE: &str = "tailback-token";

/// Content of one address of the site.
pub struct Reply {
    /// Media type, with its character set.
    pub kind: &'static str,
    pub body: Vec<u8>,
}

/// Content of a site, which is asked in the server's thread and must answer from memory.
pub trait Site: Send + Sync + 'static {
    /// Returns the content of a path, or nothing if there is none. `accepts` is the header `Accept`; `token` the further token
    /// that opened the site, if it was one.
    fn get(&self, path: &str, accepts: &str, token: Option<&str>) -> Option<Reply>;

    /// True for a further token that opens the site, where one is asked for.
    fn knows(&self, _token: &str) -> bool {
        false
    }
}

/// Server of a site, until it is dropped.
pub struct Web {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Listens on an address. `token` is asked of every request; without it the address has to be loopback.
    ///
    /// # Errors
    /// An address that cannot be bound, and one that needs a token and has none.
    pub fn start(
        listen: SocketAddr,
        token: Option<String>,
        site: Arc<dyn Site>,
    ) -> io::Result<Web> {
        if token.is_none() && !listen.ip().is_loopback() {
            let why = "an address that others reach needs a token";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Web::serve(listen, token, site)
    }

    /// Listens on an address, for anybody.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub fn open(listen: SocketAddr, site: Arc<dyn Site>) -> io::Result<Web> {
        Web::serve(listen, None, site)
    }

    fn serve(listen: SocketAddr, token: Option<String>, site: Arc<dyn Site>) -> io::Result<Web> {
        let socket = TcpListener::bind(listen)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("web".into())
            .stack_size(512 << 10)
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(socket) = tokio::net::TcpListener::from_std(socket) else {
                        return;
                    };
                    let asked = Asked { site, token };
                    let router = Router::new().fallback(answer).with_state(Arc::new(asked));
                    let door = Arc::<Door>::default();
                    let service = router.into_make_service_with_connect_info::<Seat>();
                    let server = axum::serve(Guarded { socket, door }, service);
                    let (mut server, mut stopped) =
                        (pin!(server.into_future()), pin!(stopped.notified()));
                    poll_fn(|cx| {
                        let over = stopped.as_mut().poll(cx).is_ready();
                        match over || server.as_mut().poll(cx).is_ready() {
                            true => Poll::Ready(()),
                            false => Poll::Pending,
                        }
                    })
                    .await;
                });
            })?;
        Ok(Web {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a new token of 128 random bits, in hexadecimal.
///
/// # Errors
/// Errors of the kernel's random numbers.
pub fn new_token() -> io::Result<String> {
    let bytes: [u8; 16] = crate::probe::host::random()?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

struct Asked {
    site: Arc<dyn Site>,
    token: Option<String>,
}

async fn answer(State(asked): State<Arc<Asked>>, request: Request) -> Response {
    let plain = |status: StatusCode, text: &str| {
        let kind = "text/plain; charset=utf-8";
        response(status, kind, text.as_bytes().to_vec(), None)
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "This site is read-only.\n");
    }
    let (headers, uri) = (request.headers(), request.uri());
    let mut cookie = None;
    let mut further = None;
    match &asked.token {
        None if !names_this_host(headers) => {
            let why = "Name this host by its address, or as localhost.\n";
            return plain(StatusCode::MISDIRECTED_REQUEST, why);
        }
        None => {}
        Some(token) => {
            let opens = |given: &&str| same(given, token) || asked.site.knows(given);
            let by_query = uri.query().and_then(token_of_query).filter(opens);
            let Some(given) = by_query.or_else(|| tokens(headers).find(opens)) else {
                let why = "This address needs a token: open it with ?token=... at its end.\n";
                return plain(StatusCode::UNAUTHORIZED, why);
            };
            if let Some(ConnectInfo(Seat(place))) = request.extensions().get() {
                place.keep();
            }
            further = (!same(given, token)).then_some(given);
            let strict = "HttpOnly; SameSite=Strict; Path=/";
            cookie = by_query.map(|given| format!("{TOKEN_COOKIE}={given}; {strict}"));
        }
    }
    let accepts = text_of(headers, ACCEPT.as_str());
    match asked.site.get(uri.path(), accepts, further) {
        Some(reply) => response(StatusCode::OK, reply.kind, reply.body, cookie),
        None => plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
    }
}

fn response(
    status: StatusCode,
    kind: &str,
    body: Vec<u8>,
    cookie: Option<String>,
) -> Response<Body> {
    let mut response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .header(CACHE_CONTROL, "no-store")
        .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(X_FRAME_OPTIONS, "DENY")
        .header("Referrer-Policy", "no-referrer");
    if let Some(cookie) = cookie {
        response = response.header(SET_COOKIE, cookie);
    }
    let body = Body::from(body);
    response.body(body).expect("the headers are plain text")
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.unwrap_or_default()
}

/// True if the request is addressed to localhost or to an address instead of a name.
pub(crate) fn names_this_host(headers: &HeaderMap) -> bool {
    let host = text_of(headers, HOST.as_str());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

fn token_of_query(query: &str) -> Option<&str> {
    query
        .split('&')
        .find_map(|part| part.strip_prefix("token="))
}

/// Tokens that the headers give: that of the authorization, and that of the cookie.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = text_of(headers, AUTHORIZATION.as_str()).strip_prefix("Bearer ");
    let cookies = text_of(headers, COOKIE.as_str()).split(';');
    let ours = cookies
        .filter_map(|c| c.trim().split_once('='))
        .filter(|(name, _)| *name == TOKEN_COOKIE);
    bearer
        .map(str::trim)
        .into_iter()
        .chain(ours.map(|(_, value)| value))
}

/// Compares without a hint in its time at the first byte that differs.
fn same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |d, (a, b)| d | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// Listener that has room for so many connections.
struct Guarded {
    socket: tokio::net::TcpListener,
    door: Arc<Door>,
}

/// Place of the connection of a request.
#[derive(Clone)]
struct Seat(Arc<Place>);

impl Connected<IncomingStream<'_, Guarded>> for Seat {
    fn connect_info(stream: IncomingStream<'_, Guarded>) -> Seat {
        Seat(stream.io().place.clone())
    }
}

impl Listener for Guarded {
    type Io = Limited;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Limited, SocketAddr) {
        loop {
            let Ok((stream, from)) = self.socket.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let place = loop {
                match self.door.enter(from.ip(), CONNECTIONS) {
                    Some(place) => break place,
                    None => sleep(LOOK).await,
                }
            };
            let its = place.clone();
            let end = async move {
                let _ = timeout(LIFE, its.gives_way()).await;
            };
            let limited = Limited {
                stream,
                end: Box::pin(end),
                is_over: false,
                place,
            };
            return (limited, from);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Connection that ends after its time, or when it gives way.
struct Limited {
    stream: TcpStream,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
    place: Arc<Place>,
}

impl Limited {
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_over = self.is_over || self.end.as_mut().poll(cx).is_ready();
        self.is_over
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    struct Fixed;

    impl Site for Fixed {
        fn get(&self, path: &str, _accepts: &str, _token: Option<&str>) -> Option<Reply> {
            (path == "/").then(|| Reply {
                kind: "text/plain; charset=utf-8",
                body: b"the site".to_vec(),
            })
        }
    }

    fn ask(web: &Web, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(web.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    fn get(path: &str, headers: &str) -> String {
        format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")
    }

    fn web(token: Option<&str>) -> Web {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let token = token.map(str::to_owned);
        Web::start(listen, token, Arc::new(Fixed)).expect("a free port")
    }

    #[test]
    fn a_strangers_name_for_this_host_reads_nothing() {
        let web = web(None);
        for host in ["127.0.0.1:8117", "localhost", "localhost:1", "[::1]:8117"] {
            let text = ask(&web, &get("/", &format!("Host: {host}\r\n")));
            assert!(text.ends_with("the site"), "{host}: {text}");
        }
        for host in [
            "evil.example",
            "evil.example:8117",
            "localhost.evil.example",
            "",
        ] {
            let text = ask(&web, &get("/", &format!("Host: {host}\r\n")));
            assert!(text.starts_with("HTTP/1.1 421"), "{host}: {text}");
        }
        let text = ask(&web, &get("/other", "Host: localhost\r\n"));
        assert!(text.starts_with("HTTP/1.1 404"), "{text}");
        let post =
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert!(ask(&web, post).starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn a_token_opens_the_site_in_three_ways_and_no_other() {
        let web = web(Some("0123abcd"));
        let good = [
            ("/?token=0123abcd", ""),
            ("/", "Authorization: Bearer 0123abcd\r\n"),
            ("/", "Cookie: a=b; tailback-token=0123abcd\r\n"),
        ];
        for (path, headers) in good {
            let text = ask(&web, &get(path, &format!("Host: far.example\r\n{headers}")));
            assert!(text.ends_with("the site"), "{path} {headers}: {text}");
        }
        let bad = [
            ("/", ""),
            ("/?token=", ""),
            ("/?token=0123abc", ""),
            ("/?token=0123abcde", ""),
            ("/?token=0123abce", ""),
            ("/", "Authorization: Bearer x\r\n"),
            ("/", "Cookie: other=0123abcd\r\n"),
        ];
        for (path, headers) in bad {
            let text = ask(&web, &get(path, &format!("Host: localhost\r\n{headers}")));
            assert!(text.starts_with("HTTP/1.1 401"), "{path} {headers}: {text}");
        }
        let open = SocketAddr::from(([0, 0, 0, 0], 0));
        assert!(Web::start(open, None, Arc::new(Fixed)).is_err());
    }

    /// Connections that say nothing take no more than their share of places, and the server goes with its owner.
    #[test]
    fn silent_strangers_do_not_take_all_descriptors() {
        let web = web(None);
        let open = || std::net::TcpStream::connect(web.address()).expect("a connection");
        let silent: Vec<_> = (0..CONNECTIONS * 2).map(|_| open()).collect();
        drop(silent);
        let text = ask(&web, &get("/", "Host: localhost\r\n"));
        assert!(text.ends_with("the site"), "{text}");
    }

    /// Silent connections take all places, some of them after a request with the token.
    #[test]
    fn silent_connections_give_way_but_not_to_who_has_the_token() {
        let web = web(Some("secret"));
        let mut known = std::net::TcpStream::connect(web.address()).expect("it listens");
        let mut asks = || {
            let head = "GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n";
            known.write_all(head.as_bytes()).expect("sent");
            let mut text = [0; 12];
            known.read_exact(&mut text).expect("an answer");
            assert_eq!(&text, b"HTTP/1.1 200");
            while known.read(&mut [0; 1024]).expect("the rest") == 1024 {}
        };
        asks();
        let silent = |_| std::net::TcpStream::connect(web.address()).expect("it listens");
        let held: Vec<_> = (0..80).map(silent).collect();
        std::thread::sleep(Duration::from_millis(1100));
        let began = std::time::Instant::now();
        for _ in 0..10 {
            let text = ask(&web, &get("/", "Authorization: Bearer secret\r\n"));
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        asks();
        drop(held);
    }
}
