//! Probes over WebTransport: datagrams of QUIC.
//!
//! **Deviations.** The congestion window is fixed, because probes are few and small: after losses, the window of a usual
//! controller would hold them back, and their wait would look like a queue of the link.

use super::channel::{Channel, Mirror};
use super::client::{Client, LOOK, Site};
use super::identity::Identity;
use crate::clock::{mono_ns, wall_ns};
use crate::serve::networks;
use crate::serve::quota::Permit;
use crate::serve::shared::{FULL, NOT_ALLOWED, Shared};
use crate::serve::sync::runtime;
use measure::control::Refusal;
use measure::web::{Asked, SAMPLE};
use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use wtransport::endpoint::{IncomingSession, SessionRequest};
use wtransport::quinn::congestion::{Controller, ControllerFactory};
use wtransport::quinn::{IdleTimeout, TransportConfig, VarInt};
use wtransport::{Endpoint, ServerConfig};

/// Time within which a connection and its session have to open.
const OPENS_WITHIN: Duration = Duration::from_secs(10);
/// Silence after which a connection is closed.
const SILENT: Duration = Duration::from_secs(30);
/// Longest life of a channel.
const LIFE: Duration = Duration::from_secs(900);
/// Window of a connection, bytes: 50 probes a second through a queue of ten seconds.
const WINDOW: u64 = 256 << 10;
/// Streams that HTTP/3 needs, and their window.
const STREAMS: u32 = 8;
const STREAM_WINDOW: u32 = 64 << 10;

#[derive(Clone, Copy)]
struct FixedWindow;

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        WINDOW
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn initial_window(&self) -> u64 {
        WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl ControllerFactory for FixedWindow {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(FixedWindow)
    }
}

fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(FixedWindow))
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(4 * STREAM_WINDOW))
        .datagram_receive_buffer_size(Some(STREAM_WINDOW as usize))
        .datagram_send_buffer_size(STREAM_WINDOW as usize)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .max_idle_timeout(IdleTimeout::try_from(SILENT).ok());
    config
}

fn config(identity: &Identity, socket: UdpSocket) -> ServerConfig {
    let mut config = ServerConfig::builder()
        .with_bind_socket(socket)
        .with_custom_tls_and_transport(identity.quic.clone(), transport())
        .allow_migration(false)
        .build();
    // Connections that wait for a place are few: each has sent one packet.
    config
        .quic_config_mut()
        .max_incoming(64)
        .incoming_buffer_size(16 << 10)
        .incoming_buffer_size_total(1 << 20);
    config
}

/// Serves until the server stops.
pub(super) fn run(
    socket: UdpSocket,
    site: Arc<Site>,
    shared: Arc<Shared>,
    mirror: Rc<Mirror>,
) -> Result<(), String> {
    crate::probe::host::wake_exactly(crate::probe::host::PROBES);
    let told = |e: std::io::Error| e.to_string();
    let runtime = runtime().map_err(told)?;
    let again = socket.try_clone().map_err(told)?;
    LocalSet::new().block_on(&runtime, async {
        let mut used = site.identity();
        let endpoint = Endpoint::server(config(&used, socket)).map_err(told)?;
        tokio::task::spawn_local(mirror.clone().keep());
        while !shared.stop.load(Ordering::Relaxed) {
            if wall_ns() >= used.until_ns {
                site.renew().map_err(|e| e.to_string())?;
            }
            let now = site.identity();
            if !Arc::ptr_eq(&used, &now) {
                let renewed = config(&now, again.try_clone().map_err(told)?);
                endpoint.reload_config(renewed, false).map_err(told)?;
                used = now;
            }
            if let Ok(incoming) = timeout(LOOK, endpoint.accept()).await {
                admit(incoming, &site, &shared, &mirror);
            }
        }
        Ok(())
    })
}

/// Lets a connection in, or turns it away before anything is computed for it.
fn admit(incoming: IncomingSession, site: &Arc<Site>, shared: &Arc<Shared>, mirror: &Rc<Mirror>) {
    let from = incoming.remote_address();
    if !networks::allows(&shared.allow, from.ip()) {
        shared.refused(from.ip(), Refusal::Forbidden, NOT_ALLOWED);
        return incoming.refuse();
    }
    // RFC 9000 would allow three bytes for each before the address is proven (section 8.1); a Retry packet is shorter than
    // what it answers.
    if !incoming.remote_address_validated() {
        return incoming.retry();
    }
    let Some(permit) = shared.quota.connect(from.ip(), None) else {
        shared.refused(from.ip(), Refusal::Busy, FULL);
        return incoming.refuse();
    };
    let (site, shared, mirror) = (site.clone(), shared.clone(), mirror.clone());
    tokio::task::spawn_local(async move {
        // A flood of handshakes is dropped, and a browser tries again by itself.
        if !site.handshakes.begin(from.ip()) {
            return;
        }
        let request = timeout(OPENS_WITHIN, incoming).await;
        if let Ok(Ok(request)) = request {
            let _ = timeout(LIFE, serve(request, permit, &site, &shared, mirror)).await;
        }
    });
}

/// True if the page comes from this site.
fn is_own(request: &SessionRequest) -> bool {
    let own = |origin: &str| {
        let names = [origin.split_once("://").map(|(_, host)| host)];
        let host = |text: &str| {
            text.rsplit_once(':')
                .map_or(text.to_owned(), |(h, _)| h.into())
        };
        names.into_iter().flatten().any(|n| {
            n == request.authority()
                // A page at localhost reaches the server by its address.
                || host(n) == "localhost" && ["127.0.0.1", "[::1]"].contains(&&*host(request.authority()))
        })
    };
    request.origin().is_some_and(own)
}

async fn serve(
    request: SessionRequest,
    permit: Permit,
    site: &Arc<Site>,
    shared: &Arc<Shared>,
    mirror: Rc<Mirror>,
) {
    let client = Client::new(site, shared, permit, request.remote_address());
    let asked = request.path().strip_prefix("/channel?").map(Asked::read);
    let (asked, true) = (asked, is_own(&request)) else {
        client.refused(Refusal::Forbidden, "a page of another site");
        return request.forbidden().await;
    };
    let Some(Ok(asked)) = asked else {
        return request.not_found().await;
    };
    if let Err((why, text)) = client.admit() {
        client.refused(why, &text);
        return request.too_many_requests().await;
    }
    let Some(session) = site.sessions.open(asked.session) else {
        return request.too_many_requests().await;
    };
    let Ok(connection) = request.accept().await else {
        return;
    };
    site.counters.webtransport.fetch_add(1, Ordering::Relaxed);
    let began = mono_ns();
    let connection = Rc::new(connection);
    let its = connection.clone();
    let send = move |bytes: &[u8]| {
        // What does not fit is lost, as on the way.
        let _ = its.send_datagram(bytes);
    };
    let _joined = mirror.join(client.from, Box::new(send));
    let mut channel = Channel::new(&client, session, mirror);
    let mut ticks = ticks();
    while !shared.stop.load(Ordering::Relaxed) {
        match either(connection.receive_datagram(), ticks.tick()).await {
            Ok(Ok(datagram)) => {
                if let Some(answer) = channel.heard(&datagram) {
                    let _ = connection.send_datagram(answer);
                }
            }
            Ok(Err(_)) => break,
            Err(_) => {
                for sample in channel.samples() {
                    let _ = connection.send_datagram(sample);
                }
            }
        }
    }
    client.ended("webtransport", began, channel.moved);
}

/// Ticks of a channel, at which it tells of uploads.
pub(super) fn ticks() -> Interval {
    let mut ticks = interval(SAMPLE.to_std());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// The first of two that is ready.
pub(super) async fn either<A, B>(
    a: impl Future<Output = A>,
    b: impl Future<Output = B>,
) -> Result<A, B> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        use std::task::Poll;
        if let Poll::Ready(a) = a.as_mut().poll(cx) {
            return Poll::Ready(Ok(a));
        }
        b.as_mut().poll(cx).map(Err)
    })
    .await
}
