//! Client of ndt7: one WebSocket for each test, and the sender's TCP_INFO that the server tells during downloads.
//!
//! **Protocol.** `/ndt/v7/download` and `/ndt/v7/upload` with the subprotocol `net.measurementlab.ndt.v7`. Binary messages
//! carry the load, text messages the measurements. The server ends a test after ten seconds.
//!
//! **Source.** m-lab/ndt-server, `spec/ndt7-protocol.md`, version 0.11.
//!
//! **Limits.** A measurement travels behind the load that it describes, so that it is placed by the time that the server
//! tells since the begin of the test, known to about a round trip.

use super::ViaError;
use super::flow::Flow;
use super::http::{PATIENCE, Web, watch};
use super::told::{quote, sample};
use crate::clock::mono_ns;
use crate::load::kernel::close_abruptly;
use crate::load::pump::Payload;
use base::record::{Direction, Flow as Sample, Row};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::http::HeaderValue;
use std::sync::mpsc::Sender;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";
/// Longest message (section 2.2 of the specification).
const MOST_MESSAGE: usize = 1 << 24;
/// Shortest and longest message that is sent.
const SENT: (usize, usize) = (1 << 13, 1 << 17);
/// Share of all bytes so far above which a message is not doubled.
const GROWS: u64 = 16;
/// Most measurements of one test.
const MEASURED: u32 = 1000;

type Socket = WebSocketStream<Box<dyn super::http::Duplex>>;

/// Carries the load of one flow until its end; gives the reason why it ended early.
pub(super) async fn carry(
    web: &Web,
    flow: &Flow,
    ready: &Sender<Result<(), ViaError>>,
) -> Option<String> {
    let opened = async {
        let up = flow.direction == Direction::Up;
        let congestion = flow.congestion.as_deref().filter(|_| up);
        let connected = web.connect(congestion).await?;
        let socket = connected.socket;
        let stream = upgrade(web, connected.stream, flow.direction).await?;
        let copied = socket
            .try_clone()
            .map_err(ViaError::local("copy a socket"))?;
        let sampler = flow.sampler(copied, 0);
        let sampler = sampler.map_err(ViaError::local("read a socket"))?;
        Ok((socket, stream, sampler))
    };
    let (socket, stream, mut sampler) = match opened.await {
        Ok(opened) => opened,
        Err(e) => {
            let _ = ready.send(Err(e));
            return None;
        }
    };
    flow.meter.live(true);
    let _ = ready.send(Ok(()));
    let why = tokio::select! {
        biased;
        end = watch(&mut sampler, flow) => end,
        why = exchange(stream, flow) => Some(why),
    };
    close_abruptly(&socket);
    why.map(|why| {
        format!(
            "flow {} ended after {} bytes: {why}",
            flow.number,
            sampler.bytes()
        )
    })
}

/// Opens the WebSocket of a test.
async fn upgrade(
    web: &Web,
    stream: Box<dyn super::http::Duplex>,
    direction: Direction,
) -> Result<Socket, ViaError> {
    let unexpected = |what: String| ViaError::Unexpected {
        server: web.server,
        what,
    };
    let test = match direction {
        Direction::Down => "download",
        Direction::Up => "upload",
    };
    let scheme = if web.target.tls { "wss" } else { "ws" };
    let url = format!("{scheme}://{}/ndt/v7/{test}", web.target.authority());
    let request = url.into_client_request();
    let mut request = request.map_err(|e| unexpected(format!("an address that is none: {e}")))?;
    let protocol = HeaderValue::from_static(SUBPROTOCOL);
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", protocol);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MOST_MESSAGE))
        .max_frame_size(Some(MOST_MESSAGE))
        .write_buffer_size(0)
        .max_write_buffer_size(4 * SENT.1);
    let opening = client_async_with_config(request, stream, Some(config));
    match timeout(PATIENCE, opening).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(answer))) => Err(ViaError::Refused {
            server: web.server,
            why: format!(
                "it answers {} where ndt7 opens a WebSocket",
                answer.status()
            ),
        }),
        Ok(Err(e)) => Err(unexpected(format!(
            "no WebSocket of ndt7: {}",
            quote(&e.to_string())
        ))),
        Err(_) => Err(unexpected("nothing for 10 s after a request".into())),
    }
}

/// Carries messages until the server ends the test; gives the reason.
async fn exchange(socket: Socket, flow: &Flow) -> String {
    let began = mono_ns();
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        let mut told = 0;
        let mut retransmits = 0;
        while let Some(message) = stream.next().await {
            match message {
                Ok(Message::Text(text)) if flow.direction == Direction::Down && told < MEASURED => {
                    told += 1;
                    let since = mono_ns() - began;
                    if let Some((at, row)) = sample(&text, since, &mut retransmits) {
                        let row = Sample {
                            t_ns: flow.clock.from_mono_ns(began + at),
                            flow: flow.number,
                            ..row
                        };
                        let _ = flow.rows.send(Row::Flow(row));
                    }
                }
                Ok(Message::Close(_)) => return "the server ended its test".to_owned(),
                Ok(_) => {}
                Err(e) => return quote(&e.to_string()),
            }
        }
        "the server closed the connection".to_owned()
    };
    if flow.direction == Direction::Down {
        return reading.await;
    }
    let payload = Payload::new();
    let writing = async {
        let (mut size, mut sent, mut place) = (SENT.0, 0u64, 0usize);
        loop {
            let chunk = payload.chunk(place);
            let message = Bytes::copy_from_slice(&chunk[..size]);
            if let Err(e) = sink.send(Message::Binary(message)).await {
                return quote(&e.to_string());
            }
            place += size - 1;
            sent += size as u64;
            if size < SENT.1 && (size as u64) < sent / GROWS {
                size *= 2;
            }
        }
    };
    tokio::select! {
        why = reading => why,
        why = writing => why,
    }
}
