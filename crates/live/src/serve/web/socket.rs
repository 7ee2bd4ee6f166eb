//! WebSockets: the channel of a browser without datagrams, and uploads of browsers that send no request without end.

use super::body::{Body, plain};
use super::channel::{Channel, Mirror};
use super::client::Client;
use super::load::{Receiving, Whose, refusal};
use super::transport::{either, ticks};
use crate::clock::mono_ns;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::http::{HeaderValue, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use measure::control::Refusal;
use measure::web::{Asked, MOST};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// Longest message of an upload.
const MOST_LOAD: usize = 1 << 20;
/// Answers that wait for the network; beyond them, answers are lost.
const WAITING: usize = 256;
/// Longest life of a channel.
const LIFE: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(250);

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Accepts a WebSocket: a channel if there is a mirror for its probes, else an upload.
pub(super) fn upgrade(
    mut request: Request<Incoming>,
    client: Rc<Client>,
    asked: Asked,
    mirror: Option<Rc<Mirror>>,
) -> Response<Body> {
    let Some(key) = key(&request) else {
        return no_websocket();
    };
    if let Err(e) = client.admit() {
        return refusal(&client, e);
    }
    if mirror.is_none() && !client.site.sessions.has(asked.session) {
        let text = "this load belongs to no open page: load the page again";
        return refusal(&client, (Refusal::UnknownSession, text.into()));
    }
    let most = if mirror.is_some() { MOST } else { MOST_LOAD };
    open(&mut request, most, key, async move |socket| match mirror {
        Some(mirror) => drop(timeout(LIFE, channel(socket, &client, &asked, mirror)).await),
        None => upload(socket, &client, &asked).await,
    })
}

/// Response that opens a WebSocket, which `talk` then has.
pub(super) fn open(
    request: &mut Request<Incoming>,
    most: usize,
    key: String,
    talk: impl AsyncFnOnce(Socket) + 'static,
) -> Response<Body> {
    let upgraded = hyper::upgrade::on(request);
    tokio::task::spawn_local(async move {
        let Ok(upgraded) = upgraded.await else {
            return;
        };
        let config = WebSocketConfig::default()
            .write_buffer_size(0)
            .max_write_buffer_size(MOST_LOAD)
            .max_message_size(Some(most))
            .max_frame_size(Some(most));
        let io = TokioIo::new(upgraded);
        talk(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await).await;
    });
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    }
    response
}

/// Answer to the key of a request for a WebSocket; none to another request.
pub(super) fn key(request: &Request<Incoming>) -> Option<String> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    key.map(|k| derive_accept_key(k.as_bytes()))
}

pub(super) fn no_websocket() -> Response<Body> {
    plain(
        StatusCode::UPGRADE_REQUIRED,
        "This address is for WebSockets.\n",
    )
}

/// Next event of a channel.
enum Next {
    Send(Vec<u8>),
    Heard(Message),
    Tick,
    Over,
}

async fn channel(mut socket: Socket, client: &Client, asked: &Asked, mirror: Rc<Mirror>) {
    let Some(session) = client.site.sessions.open(asked.session) else {
        client.refused(Refusal::Busy, "too many open pages");
        return;
    };
    client
        .site
        .counters
        .websocket
        .fetch_add(1, Ordering::Relaxed);
    let began = mono_ns();
    let (to, mut from) = mpsc::channel::<Vec<u8>>(WAITING);
    let its = to.clone();
    let send = move |bytes: &[u8]| drop(its.try_send(bytes.to_vec()));
    let _joined = mirror.join(client.from, Box::new(send));
    let mut channel = Channel::new(client, session, mirror);
    let mut ticks = ticks();
    loop {
        let next = match either(from.recv(), either(socket.next(), ticks.tick())).await {
            Ok(Some(answer)) => Next::Send(answer),
            Ok(None) => Next::Over,
            Err(Ok(Some(Ok(message)))) => Next::Heard(message),
            Err(Ok(_)) => Next::Over,
            Err(Err(_)) => Next::Tick,
        };
        match next {
            Next::Send(answer) => {
                if socket.send(Message::binary(answer)).await.is_err() {
                    break;
                }
            }
            Next::Heard(Message::Binary(bytes)) => {
                if let Some(answer) = channel.heard(&bytes) {
                    drop(to.try_send(answer));
                }
            }
            Next::Heard(Message::Close(_)) | Next::Over => break,
            Next::Heard(_) => {}
            Next::Tick if client.shared.stop.load(Ordering::Relaxed) => break,
            Next::Tick => {
                for sample in channel.samples() {
                    drop(to.try_send(sample));
                }
            }
        }
    }
    client.ended("websocket", began, channel.moved);
}

async fn upload(mut socket: Socket, client: &Client, asked: &Asked) {
    let mut receiving = match Receiving::start(client, asked, Whose::Page) {
        Ok(receiving) => receiving,
        Err((why, text)) => {
            client.refused(why, &text);
            let _ = socket.send(Message::text(text)).await;
            let _ = socket.close(None).await;
            return;
        }
    };
    loop {
        let goes_on = match timeout(LOOK, socket.next()).await {
            Err(_) => receiving.goes_on(),
            Ok(Some(Ok(Message::Binary(bytes)))) => receiving.took(bytes.len()).await,
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => {
                receiving.finish();
                return;
            }
            Ok(Some(Ok(_))) => true,
        };
        if !goes_on {
            // The end of the connection, with data that nobody has read, lets the browser's host drop what waits there.
            return;
        }
    }
}
