//! Server for the clients of ndt7: one WebSocket for each test, and what the kernel tells of it.
//!
//! **Protocol.** `/ndt/v7/download` and `/ndt/v7/upload` with the subprotocol `net.measurementlab.ndt.v7`. Binary messages
//! carry the load, text messages the measurements. The server ends a test after ten seconds.
//!
//! **Source.** m-lab/ndt-server, `spec/ndt7-protocol.md`, version 0.11.

use super::body::{Body, plain};
use super::client::Client;
use super::load;
use super::load::{Whose, end, flow, refusal, wait};
use super::socket::{Socket, key, no_websocket, open};
use crate::clock::mono_ns;
use crate::load::kernel::TcpInfo;
use crate::load::pump::Payload;
use crate::serve::quota::FlowPermit;
use base::Duration;
use base::record::Direction;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::http::{HeaderValue, StatusCode, header};
use hyper::{Request, Response};
use measure::control::{Ended, Refusal};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

pub(super) const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";
/// Length of a test, and the patience with one that has ended.
const LASTS: Duration = Duration::from_secs(10);
const SPARE: Duration = Duration::from_secs(5);
/// Interval of the measurements.
const MEASURED_NS: i64 = 250_000_000;
const LOOK: std::time::Duration = std::time::Duration::from_millis(250);
/// Longest message (section 2.2 of the specification). It stands in memory, so one test runs at a time.
const MOST_MESSAGE: usize = 1 << 24;
const AT_ONCE: u32 = 1;
/// Shortest and longest message that is sent.
const SENT: (usize, usize) = (1 << 13, 1 << 16);
/// Share of all bytes so far above which a message is not doubled.
const GROWS: u64 = 16;

/// Place among the tests that run.
struct Place(Rc<Client>);

impl Place {
    fn take(client: &Rc<Client>) -> Option<Place> {
        let tests = &client.site.ndt7;
        let free = |n: u32| (n < AT_ONCE).then_some(n + 1);
        tests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .ok()
            .map(|_| Place(client.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.site.ndt7.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens the WebSocket of a test, if its client may load.
pub(super) async fn upgrade(
    mut request: Request<Incoming>,
    client: Rc<Client>,
    direction: Direction,
) -> Response<Body> {
    let Some(key) = key(&request) else {
        return no_websocket();
    };
    let offered = request.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.and_then(|p| p.to_str().ok()).unwrap_or_default();
    if !offered.split(',').any(|p| p.trim() == SUBPROTOCOL) {
        return plain(
            StatusCode::BAD_REQUEST,
            "The subprotocol is net.measurementlab.ndt.v7.\n",
        );
    }
    let Some(place) = Place::take(&client) else {
        let text = "a test of ndt7 is running: try again in ten seconds";
        return refusal(&client, (Refusal::Busy, text.into()));
    };
    // The flow begins before the WebSocket opens, so that a refusal is an answer of HTTP.
    let (tell, told) = oneshot::channel();
    let (hand, handed) = oneshot::channel();
    let its = client.clone();
    tokio::task::spawn_local(async move {
        let _place = place;
        match flow(&its, &load::anonymous(LASTS), Whose::Guest, direction) {
            Err(e) => drop(tell.send(Err(e))),
            Ok(flow) => {
                drop(tell.send(Ok(())));
                let most = std::time::Duration::from_nanos((LASTS + SPARE).as_nanos());
                let _ = timeout(most, test(handed, &its, flow, direction)).await;
            }
        }
    });
    match told.await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return refusal(&client, e),
        Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR, "the test ended\n"),
    }
    let mut response = open(&mut request, MOST_MESSAGE, key, async move |socket| {
        let _ = hand.send(socket);
    });
    let protocol = HeaderValue::from_static(SUBPROTOCOL);
    (response.headers_mut()).insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    response
}

async fn test(
    handed: oneshot::Receiver<Socket>,
    client: &Client,
    flow: FlowPermit<'_>,
    direction: Direction,
) {
    let Ok(mut socket) = handed.await else {
        return;
    };
    let mut test = Test {
        client,
        flow,
        direction,
        began: mono_ns(),
        told: 0,
        bytes: 0,
    };
    let ended = match direction {
        Direction::Down => test.down(&mut socket).await,
        Direction::Up => test.up(&mut socket).await,
    };
    end(&test.flow, ended);
    let _ = socket.close(None).await;
}

struct Test<'a> {
    client: &'a Client,
    flow: FlowPermit<'a>,
    direction: Direction,
    began: i64,
    /// Time of the last measurement.
    told: i64,
    bytes: u64,
}

impl Test<'_> {
    /// Reason why the test is over.
    fn over(&self) -> Option<Ended> {
        let stops = self.client.shared.stop.load(Ordering::Relaxed);
        let lasts = LASTS.as_nanos() as i64;
        (stops || mono_ns() - self.began >= lasts).then_some(Ended::TimeUp)
    }

    /// Books bytes; the reason of the end if that was too much.
    async fn book(&mut self, bytes: usize) -> Option<Ended> {
        let (n, shared) = (bytes as u64, &self.client.shared);
        self.bytes += n;
        shared.ceiling.book(mono_ns(), n);
        let counter = match self.direction {
            Direction::Down => &shared.counters.bytes_sent,
            Direction::Up => &shared.counters.bytes_received,
        };
        counter.fetch_add(n, Ordering::Relaxed);
        if !self.flow.spend(self.bytes) {
            return Some(Ended::Budget);
        }
        wait(self.client).await;
        self.over()
    }

    async fn down(&mut self, socket: &mut Socket) -> Ended {
        let payload = self.client.shared.payload.get_or_init(Payload::new);
        let (mut size, mut place) = (SENT.0, 0usize);
        loop {
            if let Err(ended) = self.tell(socket).await {
                return ended;
            }
            let message = Bytes::copy_from_slice(&payload.chunk(place)[..size]);
            match timeout(load::PATIENCE, socket.send(Message::Binary(message))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ended::ByClient,
                Err(_) => return Ended::Failed,
            }
            place += size - 1;
            if let Some(ended) = self.book(size).await {
                return ended;
            }
            if size < SENT.1 && (size as u64) < self.bytes / GROWS {
                size *= 2;
            }
        }
    }

    async fn up(&mut self, socket: &mut Socket) -> Ended {
        loop {
            if let Err(ended) = self.tell(socket).await {
                return ended;
            }
            match timeout(LOOK, socket.next()).await {
                Err(_) => {}
                Ok(Some(Ok(Message::Binary(bytes)))) => {
                    if let Some(ended) = self.book(bytes.len()).await {
                        return ended;
                    }
                }
                Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return Ended::ByClient,
                Ok(Some(Ok(_))) => {}
            }
            if let Some(ended) = self.over() {
                return ended;
            }
        }
    }

    /// Tells a measurement, if it is time for one.
    async fn tell(&mut self, socket: &mut Socket) -> Result<(), Ended> {
        let now = mono_ns();
        if now - self.told < MEASURED_NS {
            return Ok(());
        }
        self.told = now;
        let text = self.measurement(now).to_string();
        match timeout(load::PATIENCE, socket.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Ended::ByClient),
            Err(_) => Err(Ended::Failed),
        }
    }

    fn measurement(&self, now: i64) -> serde_json::Value {
        let elapsed_us = (now - self.began) / 1000;
        let mut json = serde_json::json!({
            "AppInfo": {"ElapsedTime": elapsed_us, "NumBytes": self.bytes},
            "ConnectionInfo": {"Client": self.client.from.to_string()},
            "Origin": "server",
            "Test": match self.direction {
                Direction::Down => "download",
                Direction::Up => "upload",
            },
        });
        let info = self.client.socket.as_deref().map(TcpInfo::read);
        if let Some(Ok(info)) = info {
            let (sender, limits) = (info.sender(), info.limits());
            let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
            json["TCPInfo"] = serde_json::json!({
                "BusyTime": limits.busy.as_nanos() / 1000,
                "BytesAcked": info.bytes_acked(),
                "BytesReceived": info.bytes_received(),
                "BytesRetrans": sender.retransmits * sender.mss_bytes,
                "ElapsedTime": elapsed_us,
                "MinRTT": us(sender.min_rtt_ns),
                "RTT": us(sender.srtt_ns),
                "RTTVar": us(sender.rttvar_ns),
                "RWndLimited": limits.receive_window.as_nanos() / 1000,
                "SndBufLimited": limits.send_buffer.as_nanos() / 1000,
                "TotalRetrans": sender.retransmits,
            });
        }
        json
    }
}
